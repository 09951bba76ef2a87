"""Where the command line keeps the calls that it makes."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import lines_of
from tool_engine.cli.calls import batch_command as calling
from tool_engine.cli.records import recording
from tool_engine.cli.records.recording import records_file, records_place
from tool_engine.cli.settings import Settings
from tool_engine.knowledge.sql.writing.buffer import MOST_BYTES, RecordBuffer


def test_place_by_custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file per tools folder, where this user's programs keep their state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    place = records_place(Settings())
    assert place is not None
    assert place.startswith(f"sqlite:///{tmp_path}/state/tool-engine/{tmp_path.name}-")
    assert place == records_place(Settings(chosen=str(tmp_path / "tools")))
    assert place != records_place(Settings(chosen=str(tmp_path / "others" / "tools")))
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert f"{tmp_path}/home/.local/state/tool-engine/" in str(records_place(Settings()))


def test_place_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home there is no place: calls are made, and not recorded."""

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert records_place(Settings()) is None


def test_named_place(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--records` names another one, before or after the command, and wins over the variable."""
    one, two = f"sqlite:///{tmp_path}/one.db", f"sqlite:///{tmp_path}/a b/two%20.db"
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", one)
    assert command("call", "calculator", "expression=1").code == 0
    assert command("call", "calculator", "expression=2", "--records", two).code == 0
    assert command("--records", "none", "call", "calculator", "expression=3").code == 0
    assert [each["params"] for each in lines_of(command("history", "--json").out)] == [
        {"expression": "1"}
    ]
    assert (tmp_path / "a b" / "two .db").is_file()
    assert len(lines_of(command("--records", two, "history", "--json").out)) == 1


def test_file_is_for_its_owner_only(command: Command, tmp_path: Path) -> None:
    """Nobody else may read what was called."""
    path = tmp_path / "new" / "calls.db"
    command("--records", f"sqlite:///{path}", "call", "calculator", "expression=1")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["file in the way", "no database", "newer", "folder"])
def test_place_that_cannot_be_used_fails_no_call(
    command: Command, tmp_path: Path, kind: str
) -> None:
    """The call works as without records; one line on stderr says why there is none."""
    path = tmp_path / "calls.db"
    if kind == "file in the way":
        path.write_text("")
        path = path / "calls.db"
    elif kind == "no database":
        path.write_text("something else" * 100)
    elif kind == "newer":
        with closing(sqlite3.connect(path)) as connection, connection:
            for table in ("tool_definitions", "tool_values", "tool_calls"):
                connection.execute(f"CREATE TABLE {table} (x)")
            connection.execute("CREATE TABLE tool_engine_schema (version INTEGER)")
            connection.execute("INSERT INTO tool_engine_schema VALUES (999)")
        connection.close()
    else:
        path.mkdir()
    done = command(
        "--records", f"sqlite:///{path}", "call", "calculator", "expression=6*7", "--json"
    )
    assert done.code == 0
    assert done.json["output"] == {"result": 42}
    assert done.err.startswith("warning: calls are not recorded: ")
    assert done.err.count("\n") == 1


def test_unreachable_server_fails_no_call(command: Command) -> None:
    """A database server that is away is waited for only as long as the call is no slower for it."""
    url = "postgresql://nobody:made-up@127.0.0.1:9/none"
    done = command("--records", url, "call", "calculator", "expression=6*7")
    assert done.code == 0
    assert "42" in done.out
    assert "made-up" not in done.err
    assert done.err


def test_place_with_a_secret_that_is_missing_fails_no_call(command: Command) -> None:
    """A URL that cannot be completed is told of by its name."""
    done = command("--records", "${env:NO_SUCH_PLACE}", "call", "calculator", "expression=6*7")
    assert done.code == 0
    assert "NO_SUCH_PLACE" in done.err


def test_without_the_extra(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls work as ever, silently if nobody named a place; `history` says what to install."""
    monkeypatch.setattr(recording, "_has_libraries", lambda: False)
    done = command("call", "calculator", "expression=1")
    assert (done.code, done.err) == (0, "")
    done = command("--records", "sqlite:///calls.db", "call", "calculator", "expression=1")
    assert done.code == 0
    assert done.err == (
        "warning: calls are not recorded: records need the extra sql; run: pip install "
        "'tool-engine[sql]'\n"
    )
    for verb in ("history", "stats", "events", "export"):
        done = command(verb)
        assert done.code == 1
        assert "pip install 'tool-engine[sql]'" in done.err


def test_call_loads_no_library_for_questions(tools: Path, tmp_path: Path) -> None:
    """A call is recorded without what takes longest to load, and can be looked at later."""
    program = (
        "import sys; from tool_engine.cli.app import run; "
        "code = run(['call', 'calculator', 'expression=1']); "
        "print(code, [name for name in ('sqlalchemy', 'aiosqlite') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TOOL_ENGINE_TOOLS": str(tools), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []"
    assert len(list((tmp_path / "tool-engine").glob("*.db"))) == 1


def test_trace_of_recorded_calls(command: Command, tmp_path: Path) -> None:
    """A batch that is recorded can still be traced."""
    batch, trace = tmp_path / "b.jsonl", tmp_path / "t.jsonl"
    batch.write_text('["echo", {"message": "one"}]\n')
    assert command("batch", str(batch), "--trace", str(trace)).code == 0
    assert len(trace.read_text().splitlines()) == 1


def test_locked_file_keeps_no_call_waiting_for_long(command: Command, tmp_path: Path) -> None:
    """While somebody else holds the file, the call ends all the same, and says what was lost."""
    path = tmp_path / "calls.db"
    url = f"sqlite:///{path}"
    assert command("--records", url, "call", "calculator", "expression=1").code == 0
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    done = command("--records", url, "call", "calculator", "expression=2")
    holder.execute("ROLLBACK")
    holder.close()
    assert done.code == 0
    assert "2" in done.out
    assert "records_dropped" in done.err
    assert len(lines_of(command("--records", url, "history", "--json").out)) == 1


def test_large_batch_is_recorded_whole(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that follow one another without a pause do not outrun the records of a batch."""
    monkeypatch.setattr(RecordBuffer.__init__, "__defaults__", (50, MOST_BYTES))
    monkeypatch.setattr(calling, "_PART", 20)
    batch = tmp_path / "b.jsonl"
    batch.write_text('["calculator", {"expression": "1"}]\n' * 205)
    done = command("batch", str(batch), "--json")
    assert done.code == 0
    assert len(done.json["results"]) == done.json["summary"]["total_calls"] == 205
    assert done.err == ""
    assert command("stats", "--json").json["total_records"] == 205


async def test_which_file_the_records_are_in(tmp_path: Path) -> None:
    """A file is told from one that takes its place; a server, or nothing, is none."""
    path = tmp_path / "calls.db"
    settings = Settings(records=f"sqlite:///{path}")
    assert await records_file(settings) is None
    await asyncio.to_thread(path.touch)
    first = await records_file(settings)
    assert first is not None
    await asyncio.to_thread((tmp_path / "other.db").touch)
    await asyncio.to_thread((tmp_path / "other.db").rename, path)
    assert await records_file(settings) not in (None, first)
    assert await records_file(Settings(records="none")) is None
    assert await records_file(Settings(records="postgresql://owner@host/records")) is None
