"""`--follow` goes on with what comes, from whatever is written where the command looks."""

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.conftest import Command
from tests.cli.followed import follow_command
from tests.cli.recorded import lines_of, record_calls
from tests.knowledge.calls import entry_of
from tests.warm import Program
from tool_engine.cli.records import events_command as events
from tool_engine.cli.records import following as following_module
from tool_engine.cli.records import history_command as history
from tool_engine.cli.records.following import Patience, RecordTail, record_looks
from tool_engine.cli.settings import Settings
from tool_engine.errors import RecordsUnavailableError
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.record import CallEntry, RecordQuery, ToolCallRecord

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


def remove(folder: Path) -> None:
    for each in folder.glob("calls.db*"):
        each.unlink()


@pytest.mark.parametrize("verb", ["history", "events"])
def test_each_call_is_told_once_until_ctrl_c(url: str, tmp_path: Path, verb: str) -> None:
    """Calls of another process appear as they are recorded; Ctrl-C ends it with 130, quietly."""
    with follow_command(url, verb, "--follow", "--json", "--limit", "1") as followed:
        first = followed.json()
        record_calls(tmp_path)
        later = [followed.json() for _ in range(6)]
        ids = [each["call_id"] for each in (first, *later)]
        assert len(set(ids)) == 7
        process = followed.process
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert followed.lines.empty()


def test_it_ends_when_nobody_reads_any_more(url: str) -> None:
    """A reader that goes away ends the command, without a word."""
    words = ["-m", "tool_engine.cli", "--records", url, "history", "--follow"]
    with Program(words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=30) == 1
        assert process.stderr.read() == b""


def test_a_file_that_was_deleted(url: str, tmp_path: Path) -> None:
    """What comes is found in the file that is there now, not in the one that was."""
    with follow_command(url, "history", "--follow", "--json", "--limit", "1") as followed:
        ids = {followed.json()["call_id"]}
        remove(tmp_path)
        record_calls(tmp_path)
        ids |= {followed.json()["call_id"] for _ in range(6)}
        assert len(ids) == 7


def ended(name: str, time: datetime) -> CallEntry:
    return entry_of(ToolExecutionResult(True, name, {}, executed_at=time))


class Sorted(MemoryStorage):
    """Sorts by time, as a database does."""

    is_failing = False

    async def query(self, query: RecordQuery) -> list[Any]:
        if self.is_failing:
            raise RecordsUnavailableError("the disk is on \x1b fire")
        found = await super().query(replace(query, limit=None, after=None, oldest_first=True))
        found.sort(key=lambda each: each.created_at)
        ids = [each.record_id for each in found]
        found = found[ids.index(query.after) + 1 :] if query.after else found
        return (found if query.oldest_first else found[::-1])[: query.limit]


def names(records: list[ToolCallRecord]) -> list[str]:
    return [record.tool_name for record in records]


async def test_records_that_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is written after a newer one is told of too; each is told of once."""
    monkeypatch.setattr(following_module, "_PAGE", 1)
    now = datetime.now(UTC)
    store = ToolKnowledgeStore(Sorted())
    for name in ("first", "old"):
        store.storage.add(ended(name, now))
    tail = RecordTail(RecordQuery(limit=1))
    assert names(await tail.begin(store)) == ["old"]
    assert await tail.look(store) == []
    for name, seconds in (("new", 3.0), ("late", 1.0), ("last", 4.0)):
        store.storage.add(ended(name, now + timedelta(seconds=seconds)))
        assert names(await tail.look(store)) == [name]
    assert await tail.look(store) == []


async def test_a_database_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """It is asked again, what came meanwhile is told, and a person is told once of each turn."""
    storage = Sorted()
    store = ToolKnowledgeStore(storage)
    tail, patience = RecordTail(RecordQuery(limit=5)), Patience()
    assert await tail.begin(store) == []
    storage.is_failing = True
    for _ in range(3):
        assert await patience.ask(tail.look(store)) == []
    storage.add(ended("meanwhile", datetime.now(UTC)))
    storage.is_failing = False
    assert names(await patience.ask(tail.look(store))) == ["meanwhile"]
    assert await patience.ask(tail.look(store)) == []
    assert capsys.readouterr().err.splitlines() == [
        r"warning: the disk is on \x1b fire; it is asked again",
        "the database answers again",
    ]


async def test_what_was_written_before_the_file_was_deleted(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file is asked once more before the new one is opened."""
    monkeypatch.setattr(following_module, "_INTERVAL", 0)
    settings = Settings(records=url)
    async with aclosing(record_looks(settings, RecordQuery(limit=1))) as looks:
        assert len(await anext(looks)) == 1
        await asyncio.to_thread(record_calls, tmp_path)
        await asyncio.to_thread(remove, tmp_path)
        await asyncio.to_thread(record_calls, tmp_path)
        told: list[str | None] = []
        async with asyncio.timeout(20):
            while len(told) < 12:
                told += [record.call_id for record in await anext(looks)]
    assert len(set(told)) == 12


def test_lines_for_people(command: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a call, whatever is in it; Ctrl-C is how it is meant to end."""
    looks = following_module.record_looks

    async def until_ctrl_c(*words: Any) -> AsyncGenerator[list[ToolCallRecord], None]:
        async with aclosing(looks(*words)) as each:
            yield await anext(each)
        raise KeyboardInterrupt

    for module in (history, events):
        monkeypatch.setattr(module, "record_looks", until_ctrl_c)
    for verb in ("history", "events"):
        done = command("--records", url, verb, "--follow")
        assert done.code == 130
        assert len(done.out.splitlines()) == 6
        assert "broken" in done.out
        assert not ESCAPES.search(done.out)
        assert "interrupted" not in done.err


@pytest.mark.parametrize("verb", ["history", "events"])
def test_a_file_that_is_no_database(command: Command, tmp_path: Path, verb: str) -> None:
    """What cannot be followed is told of."""
    path = tmp_path / "bad.db"
    path.write_text("not a database" * 100)
    done = command("--records", f"sqlite:///{path}", verb, "--follow")
    assert done.code == 2
    assert "bad.db" in done.err


def test_before_the_first_call(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is recorded yet, `--follow` waits for it; a reader that goes away ends that."""

    @contextmanager
    def gone(on_gone: Callable[[], None]) -> Iterator[None]:
        on_gone()
        yield

    monkeypatch.setattr(following_module, "reader_watched", gone)
    done = command("history", "--follow")
    assert (done.code, done.out, done.err) == (1, "", "")
    assert lines_of(command("history", "--json").out) == []
