"""Log lines: set up by the program, one per event, with the call in each, and no secret in any."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest
import structlog

from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import ConfigurationError
from tool_engine.logger import Logger, configured, current_call, is_configured
from tool_engine.observability.logging import add_call, configure, processors

SECRET = "sk-abcdefghijklmnopqrstuvwx"


@pytest.fixture(autouse=True)
def _only_here() -> Any:
    yield
    structlog.reset_defaults()


@pytest.fixture
async def engine(tmp_path: Any) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as made:
        yield made


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def named(stream: io.StringIO, name: str) -> list[dict[str, Any]]:
    return [line for line in lines_of(stream) if line["event"] == name]


IDLE = """
import asyncio, logging, sys

before = (list(logging.root.handlers), logging.root.level, len(logging.root.manager.loggerDict))
from tool_engine import ToolEngine, ToolEngineConfig

async def main():
    config = ToolEngineConfig(tools_directory=sys.argv[1], auto_reload=False)
    async with ToolEngine(config) as engine:
        @engine.tool(description="Adds.")
        async def add(a: int) -> int:
            return a
        @engine.tool(description="Fails.")
        async def fail(a: int) -> int:
            raise ValueError("no")
        assert (await engine.execute("add", {"a": 1})).is_success
        assert not (await engine.execute("fail", {"a": 1})).is_success
        assert not (await engine.execute("add", {"a": "x"})).is_success
        assert not (await engine.execute("nobody", {})).is_success

asyncio.run(main())
import structlog
assert not structlog.is_configured(), "structlog was configured"
ours = [name for name in logging.root.manager.loggerDict if name.startswith("tool_engine")]
assert not ours, ours
assert (list(logging.root.handlers), logging.root.level) == before[:2]
"""


async def test_importing_and_running_an_engine_configures_nothing(tmp_path: Any) -> None:
    """structlog and logging are as the program left them, and calls that fail print nothing."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", IDLE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_the_lines_of_a_tool_name_its_call(engine: ToolEngine) -> None:
    """Each line that a tool writes has its call, also in its tasks and threads; others have not."""
    log = structlog.get_logger()

    @engine.tool(description="Writes lines.")
    async def talk(name: str) -> str:
        log.info("mine", name=name)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(log.info, "thread", name=name))
        if name == "outer":
            await engine.execute("talk", {"name": "inner"})
            log.info("again", name=name)
        return name

    @engine.tool(description="Writes a line in a thread.")
    def plain(name: str) -> str:
        log.info("plain", name=name)
        return name

    stream = io.StringIO()
    configure(stream=stream)
    context = ToolExecutionContext(conversation_id="talk-1")
    results = await asyncio.gather(
        engine.execute("talk", {"name": "outer"}, context),
        engine.execute("talk", {"name": "other"}),
        engine.execute("plain", {"name": "plain"}),
    )
    log.info("outside")
    calls = dict(zip(("outer", "other", "plain"), (r.call_id for r in results), strict=True))
    for line in lines_of(stream):
        if line["event"] == "outside":
            assert "call_id" not in line
        elif line["name"] == "inner":
            assert line["call_id"] not in calls.values()
            assert line["conversation_id"] == "talk-1"
        else:
            assert line["call_id"] == calls[line["name"]]
            assert line["tool_name"] == ("plain" if line["name"] == "plain" else "talk")
            assert line.get("conversation_id") == ("talk-1" if line["name"] == "outer" else None)
    assert len(lines_of(stream)) == 3 + 2 + 2 + 1 + 1
    assert current_call.get() is None


async def test_the_lines_of_each_attempt_name_the_call(engine: ToolEngine) -> None:
    """A call that is tried again is the same call."""
    log = structlog.get_logger()
    tries: list[int] = []

    @engine.tool(
        description="Fails once.",
        retry={"attempts": 3, "backoff": 0.001},
        effect="read",
    )
    async def flaky() -> str:
        tries.append(1)
        log.info("try", number=len(tries))
        if len(tries) < 2:
            raise ValueError("once")
        return "done"

    stream = io.StringIO()
    configure(stream=stream)
    result = await engine.execute("flaky", {})
    assert [line["call_id"] for line in named(stream, "try")] == [result.call_id] * 2


async def test_a_successful_call_logs_at_debug_only(engine: ToolEngine) -> None:
    """At the default level a call that succeeds leaves no line; at debug its start and end do."""

    @engine.tool(description="Adds.")
    async def add(a: int) -> int:
        return a

    stream = io.StringIO()
    configure(stream=stream)
    await engine.execute("add", {"a": 1})
    assert stream.getvalue() == ""
    configure("debug", stream=stream)
    result = await engine.execute("add", {"a": 1})
    found = [(line["event"], line["level"], line["call_id"]) for line in lines_of(stream)]
    assert found == [
        ("execution_started", "debug", result.call_id),
        ("execution_completed", "debug", result.call_id),
    ]


async def test_failures_say_what_is_needed_and_no_secret(engine: ToolEngine) -> None:
    """A fault of a tool is a warning; what the one who calls got wrong is information."""

    @engine.tool(description="Fails.")
    async def fail(token: str) -> int:
        raise ValueError(f"refused {token} and {SECRET}")

    stream = io.StringIO()
    configure(stream=stream)
    context = ToolExecutionContext(caller_id="me", conversation_id="talk-1")
    failed = await engine.execute("fail", {"token": "hunter2-hunter2"}, context)
    await engine.execute("fail", {"token": 3})
    await engine.execute("nobody")
    first, second, third = lines_of(stream)
    assert (first["event"], first["level"]) == ("execution_failed", "warning")
    assert (first["error_type"], first["call_id"]) == ("execution_error", failed.call_id)
    assert (first["caller_id"], first["conversation_id"]) == ("me", "talk-1")
    assert (first["attempts"], first["bucket"]) == (1, "custom")
    assert {"execution_time", "queue_wait", "generation", "sequence"} <= set(first)
    assert (second["event"], second["level"]) == ("validation_error", "info")
    assert (third["event"], third["level"]) == ("execution_failed", "info")
    assert third["error_type"] == "tool_not_found"
    assert SECRET not in stream.getvalue()


async def test_a_program_that_had_configured_structlog_before(tmp_path: Any) -> None:
    """An engine looks at what is configured when it is made and when it is loaded."""
    written: list[Any] = []

    def keep(logger: Any, name: str, event: Any) -> Any:
        written.append(dict(event))
        raise structlog.DropEvent

    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    made_before = ToolEngine(config)
    structlog.configure(
        processors=[add_call, keep], wrapper_class=structlog.make_filtering_bound_logger(30)
    )
    for engine in (made_before, ToolEngine(config)):
        async with engine:
            engine.register_tool(TOOL, _log_and_fail)
            result = await engine.execute("fail")
            await engine.execute("fail", {"a": 1, "b": 2})
        mine, failed = written[:2]
        assert (mine["event"], mine["call_id"]) == ("mine", result.call_id)
        assert (failed["event"], failed["call_id"]) == ("execution_failed", result.call_id)
        written.clear()


TOOL = {
    "name": "fail",
    "version": "1.0.0",
    "description": "Fails.",
    "parameters": [],
    "entry": {"type": "python", "handler": "fail"},
}


async def _log_and_fail() -> None:
    structlog.get_logger().warning("mine")
    raise ValueError("no")


async def test_an_engine_that_is_gone_or_closed_is_left_alone(engine: ToolEngine) -> None:
    """Configuring again does not stumble over an engine that was closed."""
    stream = io.StringIO()
    configure("debug", stream=stream)
    await engine.close()
    stream.truncate(0)
    configure("info", stream=stream)
    configure("debug", stream=stream)
    await engine.execute("nobody")
    assert stream.getvalue() == ""
    structlog.reset_defaults()


async def test_a_reload_is_logged_under_the_names_of_its_events(
    engine: ToolEngine, tmp_path: Any
) -> None:
    """Log line and event have one name, and the same number."""
    stream = io.StringIO()
    configure("debug", stream=stream)
    seen: list[tuple[str, int | None]] = []
    engine.subscribe(lambda event: seen.append((event.event_type.value, event.sequence)))
    (tmp_path / "bad.yaml").write_text("name: [")
    await engine.reload()
    lines = lines_of(stream)
    told = [(line["event"], line["sequence"]) for line in lines if "sequence" in line]
    assert told == [each for each in seen if each[0] != "load_error"]
    assert [line["level"] for line in lines if line["event"] == "load_error"] == ["warning"]


async def test_ten_thousand_names_are_no_line(engine: ToolEngine) -> None:
    """A long list is cut, and says how much of it is missing."""
    stream = io.StringIO()
    configure(stream=stream)
    from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

    names = [f"tool_{number}" for number in range(50)]
    engine._bus.publish(
        ToolEngineEvent(
            ToolEngineEventType.RELOAD_COMPLETED, error="no disk", data={"added": names}
        )
    )
    (line,) = lines_of(stream)
    assert line["added"] == [*names[:20], "... 30 more"]
    assert line["level"] == "warning"


def test_json_lines_are_always_json() -> None:
    """Whatever a line says: numbers that JSON does not have, half characters, foreign objects."""
    stream = io.StringIO()
    configure(stream=stream, renderer="json")
    structlog.get_logger().info(
        "odd\nline",
        nan=float("nan"),
        deep=[{"inf": float("inf")}, (1.5,)],
        half="\ud800",
        foreign=object(),
        bytes=b"\xff",
    )
    (line,) = lines_of(stream)
    assert line["event"] == "odd\nline"
    assert line["nan"] == "NaN"
    assert line["deep"] == [{"inf": "Infinity"}, [1.5]]
    assert stream.getvalue().count("\n") == 1


def test_console_lines_cannot_be_forged() -> None:
    """A text of a model's neither begins a line of its own nor speaks to the terminal."""
    stream = io.StringIO()
    configure(stream=stream, renderer="console")
    structlog.get_logger().info(
        "failed", error="no\n2026-01-01 [info] all is well\x1b[2J\u202e", half="\ud800"
    )
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\\n2026-01-01" in text
    assert "\\ud800" in text


def test_secrets_are_hidden_also_in_tracebacks() -> None:
    """Keys that name secrets, texts that look like some, and what an exception says."""
    for renderer in ("json", "console"):
        stream = io.StringIO()
        configure(stream=stream, renderer=renderer)
        try:
            raise ValueError(f"key {SECRET}")
        except ValueError:
            structlog.get_logger().exception("failed", password="hunter2", note=f"is {SECRET}")
        text = stream.getvalue()
        assert "ValueError: key [hidden]" in text
        assert "hunter2" not in text
        assert SECRET not in text


def test_extra_steps_come_before_secrets_are_hidden() -> None:
    """What a program adds to its lines is looked through as well."""
    stream = io.StringIO()

    def add_token(logger: Any, name: str, event: Any) -> Any:
        return event | {"service": "billing", "token": "t"}

    configure(stream=stream, extra=[add_token])
    structlog.get_logger().info("started")
    (line,) = lines_of(stream)
    assert (line["service"], line["token"]) == ("billing", "[hidden]")


def test_without_a_stream_lines_follow_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever `sys.stderr` is when a line is written; stdout is nobody's but the program's."""
    configure()
    structlog.get_logger().info("started")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "started"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "verbose"}, "level must be one of debug, info"),
        ({"renderer": "jason"}, "did you mean 'json'"),
        ({"extra": [3]}, "extra must be processors"),
    ],
)
def test_what_cannot_be_configured(options: dict[str, Any], message: str) -> None:
    """A wrong word is refused, and structlog stays as it is."""
    with pytest.raises(ConfigurationError, match=message):
        configure(**options)
    assert not structlog.is_configured()


def test_an_engine_made_while_a_thread_imports_structlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine of the process may have its thread at it: nothing is configured yet."""
    monkeypatch.setitem(sys.modules, "structlog", ModuleType("structlog"))
    assert not is_configured()


def test_terminals_get_the_console_in_colour() -> None:
    """`auto` looks at the stream; a program with its own set-up gets the same steps."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    configure(stream=stream)
    structlog.get_logger().info("started")
    assert "\x1b[" in stream.getvalue()
    assert len(processors(is_console=True)) == len(processors()) + 1


def test_a_wrapper_that_cannot_tell_its_level() -> None:
    """A logger of the program's own, without levels, gets every line."""

    class Plain:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.bind = lambda **_: self

    structlog.configure(wrapper_class=Plain)  # type: ignore[arg-type]
    assert Logger("x").is_enabled("debug")
    structlog.reset_defaults()
    assert Logger("x").is_enabled("error")
    assert not Logger("x").is_enabled("info")


async def test_a_log_that_is_broken_breaks_no_call(
    engine: ToolEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's processors raise: calls end as they would, and stderr says so once."""
    monkeypatch.setattr("tool_engine.logger._reported", set())

    def broken(logger: Any, name: str, event: Any) -> Any:
        raise OSError(f"no space for {event}")

    @engine.tool(description="Adds.")
    async def add(a: int) -> int:
        return a

    structlog.configure(processors=[broken])
    configured()
    for _ in range(3):
        assert (await engine.execute("add", {"a": 1})).is_success
        assert not (await engine.execute("add", {"a": SECRET})).is_success
    err = capsys.readouterr().err
    assert err == "tool_engine: a log line is lost, writing it failed: OSError\n"
