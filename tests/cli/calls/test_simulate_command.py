"""`simulate` replays a trace file and shows what came of it; `batch --trace` records one."""

import io
import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.testing.test_proposal import busy_calls
from tool_engine.testing import Service, read_trace, write_trace

Command = Callable[..., Any]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Six calls of two buckets, asked for at once; the last was refused."""
    path = tmp_path / "calls.jsonl"
    lines = [
        {
            "call_id": f"c{number}",
            "tool_name": "t",
            "bucket": "http" if number % 2 else "ai",
            "key": f"user {number % 3}",
            "priority": number,
            "enqueued_at": 100.0,
            "started_at": None if number == 5 else 100.5,
            "ended_at": 100.0 if number == 5 else 101.5,
            "error_type": "queue_full" if number == 5 else None,
        }
        for number in range(6)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(path)


def test_the_table_has_the_original_beside_the_simulation(command: Command, trace: str) -> None:
    """For people: waits, makespan, refusals and use of both runs, per bucket, and the notes."""
    ended = command("simulate", trace, "--max-concurrent", "2", "--bucket", "http=1")
    text = " ".join(ended.out.split())
    assert (ended.code, ended.err) == (0, "")
    assert "fifo, 2 slots" in text
    assert "original simulated" in text
    assert "refused 1 (queue_full 1) 0" in text
    assert "wait, longest 0.500 s 2.000 s" in text
    assert "makespan 1.500 s 3.000 s" in text
    assert "most in use 5 2" in text
    assert "utilisation 66.7% 100.0%" in text
    assert "ai original 3 0" in text
    assert "http original 3 1" in text
    assert "note: recorded calls that never ran: 1" in text


def test_json_is_the_report(command: Command, trace: str) -> None:
    """For programs: one document with limits, figures of both runs, and the notes."""
    words = ("--strategy", "priority", "--queue-size", "3", "--queue-timeout", "1.5", "--seed", "4")
    ended = command("simulate", trace, "--max-concurrent", "1", *words, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = ended.json
    assert found["simulated"]["total"]["rejected"] == {"queue_full": 2, "queue_timeout": 2}
    assert found["original"]["total"]["rejected"] == {"queue_full": 1}
    assert found["config"]["strategy"] == "priority"
    assert (found["seed"], found["plot"]) == (4, None)
    again = command("simulate", trace, "--max-concurrent", "1", *words, "--json")
    assert again.out == ended.out


def test_every_limit_reaches_the_simulation(command: Command, trace: str) -> None:
    """Keys, buckets and an unbounded wait too; without options they are the usual ones."""
    words = (
        "--key-limit",
        "1",
        "--queue-timeout",
        "inf",
        "--bucket",
        "http=3",
        "--bucket",
        "a=b=2",
    )
    config = command("simulate", trace, *words, "--json").json["config"]
    assert config["key_limits"]["limit"] == 1
    assert config["queue_timeout"] is None
    assert config["bucket_limits"] == {"http": 3, "a=b": 2}
    usual = command("simulate", trace, "--json").json["config"]
    assert (usual["max_concurrent"], usual["queue_timeout"]) == (10, 30.0)
    assert usual["key_limits"] is None


def test_plot_writes_a_picture(command: Command, trace: str, tmp_path: Path) -> None:
    """An SVG file, and its name in the output."""
    path = tmp_path / "slots.svg"
    ended = command("simulate", trace, "--plot", str(path))
    assert ended.code == 0
    assert f"picture: {path}" in ended.out
    assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314 - our own
    as_json = command("simulate", trace, "--plot", str(path), "--json")
    assert as_json.json["plot"] == str(path)


def test_a_trace_comes_from_stdin(
    command: Command, trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` is stdin; its lines are named too."""
    data = Path(trace).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert command("simulate", "-", "--json").json["simulated"]["total"]["calls"] == 6
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    assert "stdin:1: no call" in command("simulate", "-").err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--bucket", "http"), "--bucket 'http' is no limit; write NAME=NUMBER, such as http=8"),
        (("--bucket", "=3"), "is no limit"),
        (("--bucket", "http=x"), "is no limit"),
        (("--bucket", "http=0"), "must be a whole number >= 1, got 0"),
        (("--bucket", "a=1", "--bucket", "a=2"), "--bucket 'a' is given twice"),
        (("--strategy", "fiffo"), "did you mean 'fifo'?"),
        (("--max-concurrent", "0"), "max_concurrent must be a whole number >= 1, got 0"),
        (("--queue-size", "-1"), "queue_size"),
        (("--queue-timeout", "0"), "queue_timeout"),
        (("--key-limit", "0"), "key_limits.limit"),
        (("--seed", "x"), "--seed"),
        (("--plot", "nowhere/x.svg"), "cannot write nowhere/x.svg: No such file"),
    ],
)
def test_a_bad_option_is_a_message(
    command: Command, trace: str, words: tuple[str, ...], part: str
) -> None:
    """Exit code 2, one message with the cure, as text or JSON."""
    ended = command("simulate", trace, *words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err
    as_json = command("simulate", trace, *words, "--json")
    assert (as_json.code, as_json.err) == (2, "")
    assert part in as_json.json["error"]["message"]


def test_a_bad_trace_is_a_message(command: Command, tmp_path: Path) -> None:
    """Exit code 2 with file and line, as for a bad batch file."""
    path = tmp_path / "bad.jsonl"
    path.write_text("[]\n", encoding="utf-8")
    ended = command("simulate", str(path))
    assert (ended.code, ended.out) == (2, "")
    assert f"{path}:1: no call" in ended.err
    missing = command("simulate", str(tmp_path / "none"), "--json")
    assert missing.code == 2
    assert missing.json["error"]["type"] == "trace_error"


def write_batch(tmp_path: Path) -> str:
    path = tmp_path / "batch.jsonl"
    calls = [["echo", {"message": "secret-value"}], ["echo", {}], ["nowhere", {}]]
    path.write_text("\n".join(map(json.dumps, calls)), encoding="utf-8")
    return str(path)


def test_batch_records_a_trace(command: Command, tmp_path: Path) -> None:
    """The calls that asked for a slot, without their arguments; `simulate` reads it."""
    out = tmp_path / "trace.jsonl"
    ended = command("batch", write_batch(tmp_path), "--parallel", "--trace", str(out))
    assert ended.code == 1
    assert f"trace: 1 call in {out}" in ended.out
    (call,) = read_trace(out).calls
    assert (call.tool_name, call.error_type) == ("echo", None)
    assert "secret-value" not in out.read_text(encoding="utf-8")
    assert command("simulate", str(out)).code == 0
    as_json = command("batch", write_batch(tmp_path), "--trace", str(out), "--json")
    assert len(as_json.json["results"]) == 3


def test_a_trace_that_cannot_be_written_stops_the_batch_before_it_runs(
    command: Command, tmp_path: Path
) -> None:
    """Nothing ran: the message comes first."""
    ended = command("batch", write_batch(tmp_path), "--trace", str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert "cannot write" in ended.err


def test_help_and_completion(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--help` has an example that is right, and the shell offers the strategies."""
    text = " ".join(command("simulate", "--help").out.split())
    assert "Example: tool-engine simulate calls.jsonl" in text
    for option in ("--max-concurrent", "--bucket", "--strategy", "--key-limit", "--plot"):
        assert option in text
    assert "simulate" in command("--help").out
    monkeypatch.setenv("_TOOL_ENGINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "4")
    monkeypatch.setenv("COMP_WORDS", "tool-engine simulate x --strategy f")
    assert command().out.split() == ["fifo", "fair"]


@pytest.fixture
def busy(tmp_path: Path) -> str:
    """Four hundred calls of half a second, four at once, that come faster than they go."""
    path = tmp_path / "busy.jsonl"
    write_trace(path, busy_calls(Service(), 4))
    return str(path)


def test_limits_are_proposed(command: Command, busy: str) -> None:
    """M3: a line for a bucket, why, how sure, and what is not known; the curve on demand."""
    ended = command("simulate", busy, "--propose", "--bucket", "http")
    assert (ended.code, ended.err) == (0, "")
    first, *others = ended.out.splitlines()
    assert first.startswith("http 4 -> ")
    assert first.endswith(" s, provider refusals +0")
    text = "\n".join(others)
    assert "  because calls wait" in text
    assert "  certainty: low, from 400 calls that ran" in text
    assert "  not known: the limit of now: taken for 4" in text
    assert "proposed" not in text
    curve = command("simulate", busy, "--propose", "--bucket", "http=4", "--curve").out
    assert "4 now" in curve
    assert "proposed" in curve
    assert "taken for" not in curve
    found = json.loads(command("simulate", busy, "--propose", "--json").out)
    assert found["proposals"][0]["now"]["limit"] == 4
    assert len(found["proposals"][0]["curve"]) > 4


def test_limits_of_the_project_are_those_of_now(
    command: Command, busy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its settings say of slots holds where no option says more."""
    monkeypatch.chdir(tmp_path)
    limits = "{max_concurrent = 50, bucket_limits = {http = 5}, queue_size = 10000}"
    (tmp_path / "tool-engine.toml").write_text(f"concurrency = {limits}\n")
    assert command("simulate", busy, "--propose").out.startswith("http 5 ")
    assert command("simulate", busy, "--propose", "--bucket", "http=4").out.startswith("http 4 -> ")


def test_records_are_replayed(command: Command, tmp_path: Path) -> None:
    """Without a trace the newest records are it."""
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    empty = command("--records", "none", "simulate", "--propose")
    assert (empty.code, "kept nowhere" in empty.err) == (2, True)
    for number in range(3):
        command("--records", url, "call", "echo", f"message={number}")
    found = json.loads(command("--records", url, "simulate", "--last", "2", "--json").out)
    assert found["original"]["total"]["calls"] == 2
    few = command("--records", url, "simulate", "--propose")
    assert (few.code, "too few calls ran for a proposal" in few.err) == (2, True)
    assert "since 2000" not in command("--records", url, "simulate", "--since", "1h").err
    none = command("--records", url, "simulate", "--since", "2100-01-01")
    assert "there are no records of calls that asked for a slot since 2100-01-01" in none.err
