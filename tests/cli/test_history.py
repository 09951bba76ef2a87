"""`history` shows the calls that were made."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of, record_calls
from tests.knowledge.calls import entry_of
from tool_engine.cli import history
from tool_engine.cli.history import local_time
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.record import CallEntry, RecordQuery

ESCAPES = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def names(command: Command, url: str, *words: str) -> list[str]:
    done = command("--records", url, "history", "--json", *words)
    assert done.code == 0, done.err
    return [each["tool_name"] for each in lines_of(done.out)]


def test_history_lists_the_newest_last(command: Command, url: str) -> None:
    """One JSON document per line, the newest last; `--limit` keeps the newest."""
    found = names(command, url)
    assert found[:4] == ["inner", "inner", "outer", "broken"]
    assert found[-1] == "inner"
    assert len(found) == 6
    assert names(command, url, "--limit", "1") == ["inner"]
    assert names(command, url, "-n", "0") == []


def test_history_filters(command: Command, url: str) -> None:
    """Each filter leaves out what does not match; together they all hold."""
    assert names(command, url, "--tool", "outer") == ["outer"]
    assert len(names(command, url, "--failed")) == 2
    assert names(command, url, "--error-type", "execution_error") == ["broken"]
    assert len(names(command, url, "--caller", "agent-1")) == 4
    assert len(names(command, url, "--conversation", "chat-2")) == 2
    assert names(command, url, "--caller", "agent-1", "--failed") == []
    assert len(names(command, url, "--since", "1h")) == 6
    assert names(command, url, "--until", "1h") == []
    assert names(command, url, "--since", "2999-01-01") == []


def test_history_is_readable_and_harmless(command: Command, url: str) -> None:
    """A person sees who failed and why, and nothing of a record steers the terminal."""
    done = command("--records", url, "history")
    assert done.code == 0
    assert "broken" in done.out
    assert "failed" in done.out
    assert not ESCAPES.search(done.out)
    assert not ESCAPES.search(command("--records", url, "history", "--json").out)


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_history_on_a_narrow_terminal(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """A wide terminal has a table with the caller; on others each call is a line of its own."""
    monkeypatch.setenv("COLUMNS", columns)
    done = command("--records", url, "history")
    ids = [each["call_id"] for each in lines_of(command("--records", url, "history", "--json").out)]
    assert all(each in done.out for each in ids)
    if columns == "200":
        assert "agent-1" in done.out
        assert all(len(line) <= 200 for line in done.out.splitlines())
    else:
        assert len(done.out.splitlines()) == 6


def test_no_calls_yet(command: Command) -> None:
    """Before the first call there is nothing to show, which is no mistake."""
    done = command("history")
    assert (done.code, done.out) == (0, "")
    assert "no such calls are recorded" in done.err
    assert command("history", "--json").out == ""


def test_calls_of_call_and_batch_are_recorded(command: Command, tmp_path: Path) -> None:
    """`call` and `batch` record by default, each tools folder for itself."""
    assert command("call", "calculator", "expression=6*7").code == 0
    assert command("call", "calculator", "expression=1/0").code == 1
    batch = tmp_path / "calls.jsonl"
    batch.write_text(
        '{"tool": "echo", "params": {"message": "one"}}\n["echo", {"message": "two"}]\n'
    )
    assert command("batch", str(batch)).code == 0
    shown = lines_of(command("history", "--json").out)
    assert [each["outcome"] for each in shown] == ["succeeded", "failed", "succeeded", "succeeded"]
    assert shown[0]["params"] == {"expression": "6*7"}
    other = tmp_path / "other"
    other.mkdir()
    assert command("--tools", str(other), "history", "--json").out == ""


@pytest.mark.parametrize(
    "words",
    [
        ("history", "nonsense"),
        ("history", "show"),
        ("history", "show", "a", "b"),
        ("history", "--since", "yesterday"),
        ("history", "--since", "0h"),
        ("history", "--limit", "-1"),
        ("--records", "calls.db", "history"),
        ("--records", "none", "history"),
        ("--records", "none", "history", "--follow"),
        ("--records", "sqlite:///no/such/file.db", "history"),
        ("--records", "mysql://x/y", "history"),
    ],
)
def test_mistakes_on_the_command_line(command: Command, words: tuple[str, ...]) -> None:
    """A mistake ends with 2 and one message, never a traceback."""
    done = command(*words)
    assert done.code == 2, done
    assert "error: " in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_no_database(command: Command, tmp_path: Path) -> None:
    """What cannot be read as a database is told of, and left as it is."""
    path = tmp_path / "bad.db"
    path.write_text("not a database" * 100)
    done = command("--records", f"sqlite:///{path}", "history")
    assert done.code in (1, 2)
    assert "bad.db" in done.err
    assert path.read_text() == "not a database" * 100


def test_time_of_another_day_has_its_date() -> None:
    """Today's calls show the time of day; older ones the date as well."""
    now = datetime.now(UTC)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", local_time(now, now=now))
    assert re.fullmatch(r"\d{4}-.*:\d\d", local_time(now - timedelta(days=3), now=now))


# `--follow`


@contextmanager
def following(url: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], Queue[str]]]:
    """A running command, and the lines that it has printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tool_engine.cli", "--records", url, *words],
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield process, lines
    finally:
        process.kill()
        reader.join(20)
        process.communicate(timeout=20)


@pytest.mark.parametrize("verb", ["history", "events"])
def test_follow_tells_each_call_once_until_ctrl_c(url: str, tmp_path: Path, verb: str) -> None:
    """Calls of another process appear as they are recorded; Ctrl-C ends it with 130, quietly."""
    with following(url, verb, "--follow", "--json", "--limit", "1") as (process, lines):
        first = json.loads(lines.get(timeout=30))
        record_calls(tmp_path)
        later = [json.loads(lines.get(timeout=30)) for _ in range(6)]
        ids = [each["call_id"] for each in (first, *later)]
        assert len(set(ids)) == 7
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert lines.empty()


def test_follow_ends_when_nobody_reads_any_more(url: str) -> None:
    """A reader that goes away ends the command, without a word."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tool_engine.cli", "--records", url, "history", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=30) == 1
    assert process.stderr.read() == ""
    process.stderr.close()


def ended(name: str, time: datetime) -> CallEntry:
    return entry_of(ToolExecutionResult(True, name, {}, executed_at=time))


def test_follow_finds_records_that_come_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is written after a newer one is told of too; each is told of once."""
    monkeypatch.setattr(history, "_INTERVAL", 0)
    monkeypatch.setattr(history, "_PAGE", 1)
    now = datetime.now(UTC)

    class Late(MemoryStorage):
        """Sorts by time, as a database does."""

        async def query(self, query: RecordQuery) -> list[Any]:
            found = await super().query(replace(query, limit=None, after=None, oldest_first=True))
            found.sort(key=lambda each: each.created_at)
            ids = [each.record_id for each in found]
            found = found[ids.index(query.after) + 1 :] if query.after else found
            return (found if query.oldest_first else found[::-1])[: query.limit]

    async def told() -> list[str]:
        store = ToolKnowledgeStore(Late())
        store.storage.add(ended("old", now))
        found = []
        follow = history._followed(store, RecordQuery(limit=5))
        async with asyncio.timeout(10):
            for name, seconds in (("new", 3.0), ("late", 1.0), ("last", 4.0)):
                found.append((await anext(follow)).tool_name)
                store.storage.add(ended(name, now + timedelta(seconds=seconds)))
            found.append((await anext(follow)).tool_name)
        await follow.aclose()  # type: ignore[attr-defined]
        return found

    assert asyncio.run(told()) == ["old", "new", "late", "last"]


def test_follow_prints_lines_for_people(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a call, whatever is in it; Ctrl-C is how it is meant to end."""
    followed = history._followed

    async def until_ctrl_c(store: ToolKnowledgeStore, query: RecordQuery) -> AsyncIterator[Any]:
        async for record in followed(store, query):
            yield record
            if record.record_id == newest:
                raise KeyboardInterrupt

    newest = lines_of(command("--records", url, "history", "--json").out)[-1]["record_id"]
    monkeypatch.setattr(history, "_followed", until_ctrl_c)
    for verb in ("history", "events"):
        done = command("--records", url, verb, "--follow")
        assert done.code == 130
        assert len(done.out.splitlines()) == 6
        assert "broken" in done.out
        assert not ESCAPES.search(done.out)
        assert "interrupted" not in done.err


def test_follow_of_a_database_that_goes_away(command: Command, tmp_path: Path) -> None:
    """What cannot be followed is told of."""
    path = tmp_path / "bad.db"
    path.write_text("not a database" * 100)
    done = command("--records", f"sqlite:///{path}", "history", "--follow")
    assert done.code == 2
    assert "bad.db" in done.err


def test_follow_before_the_first_call(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is recorded yet, `--follow` waits for it; a reader that goes away ends that."""

    @contextmanager
    def gone(on_gone: Callable[[], None]) -> Iterator[None]:
        on_gone()
        yield

    monkeypatch.setattr(history, "reader_watched", gone)
    done = command("history", "--follow")
    assert (done.code, done.out, done.err) == (1, "", "")
