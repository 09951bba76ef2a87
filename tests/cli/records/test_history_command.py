"""`history` shows the calls that were made."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of, record_calls
from tool_engine.cli.records.record_line import local_time

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


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


@pytest.mark.parametrize("columns", [*range(110, 260, 10)])
def test_what_was_sent_has_room(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A table whose last column would have a letter a line is printed as lines. A long name."""
    name = "summarize_a_page_of_the_web"
    text = f"name: {name}\ndescription: Echoes.\nentry: {{type: builtin, handler: echo}}\n"
    (tools := tmp_path / "long").mkdir()
    parameter = "{name: page, type: string, description: A page.}"
    (tools / "a.yaml").write_text(f"{text}parameters: [{parameter}]\n")
    assert command("--tools", str(tools), "call", name, f"page={'word ' * 30}").code == 0
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    done = command("--tools", str(tools), "history")
    assert "word word word word" in done.out


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


@pytest.mark.parametrize("verb", ["history", "stats", "events", "export"])
def test_a_time_to_come(command: Command, url: str, verb: str) -> None:
    """Nothing has ended since then, which is no mistake. Looked at: all that take `--since`."""
    done = command("--records", url, verb, "--since", "9999-01-01")
    assert (done.code, "inner" in done.out, "error" in done.err) == (0, False, False)


def test_a_limit_of_none(command: Command, url: str) -> None:
    """Who asks for no call learns nothing of the calls that there are."""
    done = command("--records", url, "history", "--limit", "0")
    assert (done.code, done.out, done.err) == (0, "", "--limit 0 shows none\n")


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
