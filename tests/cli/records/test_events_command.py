"""`events` tells what happened in other processes: from the events that they keep, or records."""

import asyncio
import re
import signal
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.followed import follow_command
from tests.cli.recorded import HOSTILE, lines_of, record_calls
from tests.warm import Program
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
)
from tool_engine.cli.records import events_command as events
from tool_engine.cli.records.events_command import EventFilters, follow_events
from tool_engine.cli.records.filters import RecordFilters
from tool_engine.cli.settings import Settings

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return record_calls(tmp_path)


# From records, where no engine keeps its events.


def test_events_are_the_final_ones(command: Command, url: str) -> None:
    """Each record is the final event of its call, named as in the engine."""
    done = command("--records", url, "events", "--json")
    kinds = [each["event_type"] for each in lines_of(done.out)]
    assert kinds.count("execution_completed") == 4
    assert kinds.count("execution_failed") == 2
    assert done.err == ""
    (event,) = lines_of(command("--records", url, "events", "--json", "--tool", "outer").out)
    assert event["data"]["caller_id"] == "agent-1"
    assert event["sequence"] is None
    words = ("--json", "--call", event["call_id"])
    assert lines_of(command("--records", url, "events", *words).out) == [event]
    assert len(lines_of(command("--records", url, "events", "--failed", "--json").out)) == 2
    words = ("--json", "--type", "execution_started")
    assert command("--records", url, "events", *words).out == ""


def test_events_of_calls_with_bad_arguments(command: Command) -> None:
    """A call that was not valid is told of as such."""
    command("call", "echo")
    (event,) = lines_of(command("events", "--json").out)
    assert event["event_type"] == "validation_error"


def test_events_for_people_say_what_is_missing(command: Command, url: str) -> None:
    """One line an event; what is not told is said, on stderr; nothing steers the terminal."""
    done = command("--records", url, "events")
    assert len(done.out.splitlines()) == 6
    assert "no engine keeps its events there, see keep_events" in done.err
    assert not ESCAPES.search(done.out)


def test_numbers_where_none_are_kept(command: Command, url: str) -> None:
    """Records have no numbers: who asks by number is told why there is no answer."""
    done = command("--records", url, "events", "--after", "3")
    assert (done.code, done.out) == (2, "")
    assert "keep_events" in done.err
    assert command("events", "--after", "3").code == 2


# From the events that an engine keeps.


async def _publish(engine: ToolEngine) -> None:
    """Fifteen events."""
    failures = iter([True, False, True, True, True])

    async def flaky() -> str:
        if next(failures):
            raise ValueError(f"not\n{HOSTILE}")
        return "yes"

    definition = {
        "name": "flaky",
        "version": "1.2.0",
        "description": "Fails at first",
        "category": "custom",
        "effect": "read",
        "retry": {"attempts": 3, "backoff": 0.001, "on": ["execution_error"]},
        "entry": {"type": "custom", "handler": "flaky"},
    }
    engine.register_tool(definition, flaky)  # 1
    one = ToolExecutionContext.for_conversation("agent-1", "chat-1")
    two = ToolExecutionContext.for_conversation("agent-2", "chat-2")
    await engine.execute("flaky", {}, one)  # 2-4
    await engine.execute("flaky", {}, two)  # 5-8
    await engine.execute(f"no{HOSTILE}", {}, two)  # 9
    engine.unregister_tool("flaky")  # 10


def keep_events(folder: Path) -> str:
    """An engine keeps ten events; the URL of its database."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    url = f"sqlite:///{folder / 'kept.db'}"

    async def run() -> None:
        config = ToolEngineConfig(
            tools_directory=str(empty), auto_reload=False, records=url, keep_events=1_000
        )
        async with ToolEngine(config) as engine:
            await _publish(engine)

    asyncio.run(run())
    return url


@pytest.fixture
def kept(tmp_path: Path) -> str:
    return keep_events(tmp_path)


def numbers(command: Command, url: str, *words: str) -> list[int]:
    done = command("--records", url, "events", "--json", *words)
    assert done.code == 0, done.err
    return [each["sequence"] for each in lines_of(done.out)]


def test_all_that_happened(command: Command, kept: str) -> None:
    """Every event, not only those of calls, with its number, the newest last."""
    done = command("--records", kept, "events", "--json")
    found = lines_of(done.out)
    assert done.err == ""
    assert [each["sequence"] for each in found] == list(range(1, 11))
    assert [each["event_type"] for each in found] == [
        "tool_added",
        *("execution_started", "execution_retried", "execution_completed"),
        *("execution_started", "execution_retried", "execution_retried", "execution_failed"),
        "execution_failed",
        "tool_removed",
    ]
    retried, completed, failed = found[2], found[3], found[7]
    assert retried["data"]["attempt"] == 2
    assert retried["data"]["error_type"] == "execution_error"
    assert completed["data"]["caller_id"] == "agent-1"
    assert completed["data"]["execution_time"] > 0
    assert (completed["error"], completed["error_type"]) == (None, None)
    assert failed["error_type"] == "execution_error"
    assert failed["call_id"] == found[4]["call_id"] != completed["call_id"]


def test_filters(command: Command, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each filter leaves out what does not match; together they all hold; `-n` counts the rest."""
    monkeypatch.setattr("tool_engine.cli.records.events_command._PAGE", 2)
    assert numbers(command, kept, "-n", "3") == [8, 9, 10]
    assert numbers(command, kept, "-n", "0") == []
    assert numbers(command, kept, "--failed") == [8, 9]
    assert numbers(command, kept, "--failed", "-n", "1") == [9]
    assert numbers(command, kept, "--tool", "flaky", "-n", "2") == [8, 10]
    assert numbers(command, kept, "--caller", "agent-1") == [2, 3, 4]
    assert numbers(command, kept, "--conversation", "chat-2", "--failed") == [8, 9]
    types = ("--type", "execution_started", "--type", "tool_removed")
    assert numbers(command, kept, *types) == [2, 5, 10]
    call = lines_of(command("--records", kept, "events", "--json").out)[4]["call_id"]
    assert numbers(command, kept, "--call", call) == [5, 6, 7, 8]
    assert numbers(command, kept, "--since", "1h") == list(range(1, 11))
    assert numbers(command, kept, "--since", "2999-01-01") == []
    assert numbers(command, kept, "--after", "7") == [8, 9, 10]
    assert numbers(command, kept, "--after", "0", "--failed", "-n", "1") == [8, 9]
    assert numbers(command, kept, "--after", "10") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--type", "execution_start"), "did you mean 'execution_started'?"),
        (("--after", "11"), "there is no event 11: the newest is 10"),
        (("--after", "-1"), "--after"),
        (("--since", "yesterday"), "yesterday"),
    ],
)
def test_mistakes(command: Command, kept: str, words: tuple[str, ...], message: str) -> None:
    """A mistake ends with 2 and one message."""
    done = command("--records", kept, "events", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_lines_for_people(command: Command, kept: str) -> None:
    """Time, number, type, tool and call, and what went wrong, on one harmless line each."""
    done = command("--records", kept, "events")
    assert done.err == ""
    lines = done.out.splitlines()
    assert len(lines) == 10
    assert not ESCAPES.search(done.out)
    assert "tool_added" in lines[0]
    assert "version 1.2.0" in lines[0]
    assert "attempt 2 after execution_error" in lines[2]
    assert "execution_error: ValueError: not" in lines[7]
    assert "tool_not_found" in lines[8]


def test_events_without_a_call(command: Command, tmp_path: Path) -> None:
    """What befell definitions says which tool, and how far it changed or why it did not."""
    tools = tmp_path / "changing"
    tools.mkdir()
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    config = ToolEngineConfig(
        tools_directory=str(tools), auto_reload=False, records=url, keep_events=1_000
    )
    text = "name: echo\ndescription: One.\nentry: {type: builtin, handler: echo}\n"
    (tools / "echo.yaml").write_text(text)

    async def run() -> None:
        async with ToolEngine(config) as engine:
            other = text.replace("One", "Two")
            await asyncio.to_thread((tools / "echo.yaml").write_text, other)
            await engine.reload()
            await asyncio.to_thread((tools / "echo.yaml").write_text, "name: [")
            await engine.reload()

    asyncio.run(run())
    told = command("--records", url, "events").out
    assert re.search(r"tool_updated +echo  version \S+, \w+\n", told)
    assert re.search(r"load_error +.*echo\.yaml", told)


def test_the_database_is_only_read(command: Command, kept: str, tmp_path: Path) -> None:
    """Whoever looks takes no numbers: the next engine goes on with the next one."""
    for _ in range(2):
        command("--records", kept, "events")
    keep_events(tmp_path)
    assert numbers(command, kept)[-1] == 20


# `--follow`


ENGINE = """
import asyncio, os, sys
from tool_engine import ToolEngine, ToolEngineConfig

async def main(folder, url, count, is_killed):
    config = ToolEngineConfig(
        tools_directory=folder, auto_reload=False, records=url, keep_events=100_000
    )
    async with ToolEngine(config) as engine:
        @engine.tool(name="add")
        async def add(number: int) -> int:
            "Adds."
            return number + 1

        for number in range(int(count)):
            await engine.execute("add", {"number": number})
            if number % 10 == 0:
                await asyncio.sleep(0.01)
        if is_killed == "yes":
            while engine._bus.log._storage._waiting:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), 9)

asyncio.run(main(*sys.argv[1:]))
"""


def run_engines(
    folder: Path, *counts: int, is_killed: bool = False, name: str = "kept.db"
) -> list[int]:
    """Runs an engine for so many calls each, all at once; gives their exit codes."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    url, last = f"sqlite:///{folder / name}", "yes" if is_killed else "no"
    with ExitStack() as stack:
        running = [
            stack.enter_context(Program(["-c", ENGINE, str(empty), url, str(count), last]))
            for count in counts
        ]
        return [each.wait(60) for each in running]


def calls_of(told: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in told:
        if event["call_id"] is not None:
            found.setdefault(event["call_id"], []).append(event["event_type"])
    return found


def test_follow_through_crashes_and_restarts(kept: str, tmp_path: Path) -> None:
    """Each event of each engine comes once, in order, whoever is killed, ends, or writes beside."""
    with follow_command(kept, "events", "--follow", "--json", "--after", "8") as followed:
        told = [followed.json() for _ in range(2)]
        assert [each["sequence"] for each in told] == [9, 10]
        assert run_engines(tmp_path, 50, is_killed=True) == [-signal.SIGKILL]
        assert run_engines(tmp_path, 20) == [0]
        assert run_engines(tmp_path, 50, 50) == [0, 0]
        told += [followed.json() for _ in range(170 * 2 + 4)]
        process = followed.process
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert followed.lines.empty()
    assert len({each["sequence"] for each in told}) == len(told)
    calls = calls_of(told[2:])
    assert len(calls) == 170
    assert all(each == ["execution_started", "execution_completed"] for each in calls.values())


def test_follow_is_told_of_no_event_twice(kept: str, tmp_path: Path) -> None:
    """Those that were there are not told again when others come, nor what is not wanted."""
    words = ("events", "--follow", "--json", "-n", "2", "--type", "execution_completed")
    with follow_command(kept, *words) as followed:
        assert followed.json()["sequence"] == 4
        assert run_engines(tmp_path, 3) == [0]
        found = [followed.json() for _ in range(3)]
        assert [each["sequence"] for each in found] == [13, 15, 17]
        assert {each["event_type"] for each in found} == {"execution_completed"}


def test_follow_when_an_engine_begins_to_keep_events(url: str, tmp_path: Path) -> None:
    """First records tell; from the first engine that keeps its events on, they do."""
    with follow_command(url, "events", "--follow") as followed:
        lines = [followed.lines.get(timeout=30) for _ in range(6)]
        assert run_engines(tmp_path, 2, name="calls.db") == [0]
        lines += [followed.lines.get(timeout=30) for _ in range(5)]
        followed.process.send_signal(signal.SIGINT)
        assert followed.process.wait(timeout=20) == 130
        assert followed.process.stderr is not None
        err = followed.process.stderr.read().decode()
    assert [line.split()[2] for line in lines[6:]] == [
        "tool_added",
        *["execution_started", "execution_completed"] * 2,
    ]
    assert [line.split()[1] for line in lines[6:]] == ["1", "2", "3", "4", "5"]
    assert err.splitlines() == [
        (
            "no engine keeps its events there, see keep_events; told from the records of calls: "
            "the final event of each"
        ),
        "an engine keeps its events there now: all of them are told from here on",
    ]


async def test_records_and_events_of_one_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not wanted is left out of both, and nothing is told twice on the way."""
    monkeypatch.setattr("tool_engine.cli.records.events_command._INTERVAL", 0.01)
    url = await asyncio.to_thread(record_calls, tmp_path)
    wanted = EventFilters(RecordFilters(is_failed=True), ("execution_failed",))
    told = follow_events(Settings(records=url), wanted, follow=True, is_quiet=True)
    async with aclosing(told), asyncio.timeout(30):
        names = [(await anext(told)).tool_name for _ in range(2)]
        assert names[0] == "broken"
        config = ToolEngineConfig(
            tools_directory=str(tmp_path / "empty"), auto_reload=False, records=url, keep_events=99
        )
        async with ToolEngine(config) as engine:
            await _publish(engine)
            assert [(await anext(told)).sequence for _ in range(2)] == [8, 9]
            await engine.execute("nobody")
            assert (await anext(told)).sequence == 11
    assert capsys.readouterr().err == ""


async def test_what_comes_while_a_follower_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event between the look at what is there and that at what comes is told once."""
    empty = tmp_path / "empty"
    await asyncio.to_thread(empty.mkdir)
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    config = ToolEngineConfig(
        tools_directory=str(empty), auto_reload=False, records=url, keep_events=99
    )
    newest = events._read_newest
    async with ToolEngine(config) as engine, asyncio.timeout(30):

        async def later(*words: Any) -> list[ToolEngineEvent]:
            await engine.execute("nobody")
            while " 0 waiting" not in repr(engine._bus.log._storage):  # noqa: ASYNC110 - storages tell nobody
                await asyncio.sleep(0.01)
            return await newest(*words)

        monkeypatch.setattr(events, "_read_newest", later)
        await engine.execute("nobody")
        told = follow_events(
            Settings(records=url), EventFilters(RecordFilters()), follow=True, is_quiet=True
        )
        async with aclosing(told):
            first = await anext(told)
            await engine.execute("nobody")
            numbers = [first.sequence, *[(await anext(told)).sequence for _ in range(2)]]
    assert numbers == [1, 2, 3]


def test_follow_of_what_is_not_kept_any_more(command: Command, tmp_path: Path) -> None:
    """A gap is never passed over: the command ends, and says from where on there is more."""
    empty = tmp_path / "empty"
    empty.mkdir()
    url = f"sqlite:///{tmp_path / 'kept.db'}"

    async def run() -> None:
        config = ToolEngineConfig(
            tools_directory=str(empty), auto_reload=False, records=url, keep_events=5
        )
        async with ToolEngine(config) as engine:
            for _ in range(20):
                engine._bus.publish(ToolEngineEvent(ToolEngineEventType.RELOAD_STARTED))

    asyncio.run(run())
    done = command("--records", url, "events", "--follow", "--after", "1")
    assert (done.code, done.out) == (1, "")
    assert "not all kept any more, the oldest is 16" in done.err
    assert numbers(command, url, "--after", "15") == [16, 17, 18, 19, 20]
