"""Every way in which a call can end: its result, its record, its events, in their order."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import bare
from tool_engine import (
    Outcome,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionError,
)
from tool_engine.executors.echo import EchoExecutor

ADD = {
    "name": "add",
    "version": "2.1.0",
    "description": "Adds",
    "category": "ai",
    "parameters": [
        {"name": "a", "type": "integer", "required": True, "description": "One"},
        {"name": "b", "type": "integer", "default": 0, "description": "Other"},
    ],
    "entry": {"type": "custom", "handler": "add"},
}


async def add(a: int, b: int) -> int:
    return a + b


async def test_success(engine: ToolEngine, audit: Audit) -> None:
    """K27, K28, K50: a result, a record and STARTED, COMPLETED, all with one call id."""
    tool = engine.register_tool(ADD, add)
    context = ToolExecutionContext.for_conversation("agent", "conv")
    result = await engine.execute("add", {"a": 1}, context)
    assert result.is_success
    assert result.output == {"result": 1}
    assert (result.error, result.error_type, result.validation_errors) == (None, None, [])
    assert result.outcome is Outcome.SUCCEEDED
    assert result.metadata == {
        "call_id": result.call_id,
        "tool_version": "2.1.0",
        "definition_hash": tool.definition_hash,
        "generation": engine.generation,
        "bucket": "ai",
        "queue_wait": 0.0,
        "attempts": 1,
    }
    record = await audit.last()
    assert (record.params, record.result) == ({"a": 1}, {"result": 1})
    assert (record.caller_id, record.caller_type) == ("agent", "conversation_agent")
    assert (record.conversation_id, record.workflow_id) == ("conv", None)
    assert (record.tool_version, record.definition_hash) == ("2.1.0", tool.definition_hash)
    assert (record.reached_executor, record.bucket, record.attempts) == (True, "ai", 1)
    started, completed = audit.events
    assert audit.kinds() == ["execution_started", "execution_completed"]
    assert started.call_id == completed.call_id == result.call_id == record.call_id
    assert completed.execution_result == result
    assert completed.tool is tool
    assert completed.data == {
        "bucket": "ai",
        "queue_wait": 0.0,
        "caller_id": "agent",
        "caller_type": "conversation_agent",
        "conversation_id": "conv",
        "session_id": None,
        "task_id": None,
        "parent_call_id": None,
    }
    await audit.check([result])


@pytest.mark.parametrize("name", ["addd", "", None, 3], ids=repr)
async def test_tool_not_found(engine: ToolEngine, audit: Audit, name: Any) -> None:
    """K23, U15: step 1, a missing tool is a result and a record that never reached an executor."""
    engine.register_tool(ADD, add)
    result = await engine.execute(name, {"a": "wrong"})
    assert result.error_type == "tool_not_found"
    assert result.outcome is Outcome.FAILED
    assert result.output == {}
    assert result.metadata["tool_version"] is None
    is_name = isinstance(name, str)
    words = f"there is no tool {name!r}" if is_name else "a tool is called by its name, a text; got"
    assert words in str(result.error)
    assert ("did you mean 'add'" in str(result.error)) == (name == "addd")
    record = await audit.last()
    assert not record.reached_executor
    assert record.attempts == 0
    assert audit.kinds() == ["execution_failed"]
    await audit.check([result])


async def test_validation_error(engine: ToolEngine, audit: Audit) -> None:
    """K24, U14: step 2, VALIDATION_ERROR comes alone, neither STARTED nor FAILED."""
    engine.register_tool(ADD, add)
    result = await engine.execute("add", {"b": "x", "c": 1})
    assert result.error_type == "validation_error"
    types = sorted(each["type"] for each in result.validation_errors)
    assert types == ["extra_parameter", "missing_required", "type_mismatch"]
    assert [e["level"] for e in result.validation_errors].count("warning") == 1
    assert str(result.error).startswith("invalid arguments: ")
    assert audit.kinds() == ["validation_error"]
    (event,) = audit.events
    assert event.validation_errors == result.validation_errors
    record = await audit.last()
    assert not record.reached_executor
    assert record.params == {"b": "x", "c": 1}
    await audit.check([result])


@pytest.mark.parametrize("params", ["text", [1], 3])
async def test_arguments_that_are_no_mapping(engine: ToolEngine, audit: Audit, params: Any) -> None:
    """K24: arguments that are no mapping are a finding, not an exception."""
    engine.register_tool(ADD, add)
    result = await engine.execute("add", params)
    assert result.error_type == "validation_error"
    assert audit.kinds() == ["validation_error"]


async def test_warnings_reach_the_result(engine: ToolEngine, audit: Audit) -> None:
    """K28: an unknown parameter is kept out, and the result of a call that succeeds says so."""
    engine.register_tool(ADD, add)
    result = await engine.execute("add", {"a": 1, "c": 2})
    assert result.output == {"result": 1}
    assert [each["level"] for each in result.validation_errors] == ["warning"]


async def test_executor_not_found(engine: ToolEngine, audit: Audit) -> None:
    """K25: step 3, a handler that nobody registered, with its cure and the nearest name."""
    engine.register_tool(ADD | {"entry": {"type": "custom", "handler": "ecko"}})
    result = await engine.execute("add", {"a": 1})
    assert result.error_type == "executor_not_found"
    assert "did you mean 'echo'?" in str(result.error)
    assert "engine.register_executor('ecko'" in str(result.error)
    assert not (await audit.last()).reached_executor
    assert audit.kinds() == ["execution_failed"]


@pytest.mark.parametrize(
    ("handler", "cure"),
    [
        ("./parts/look.py", "write parts.look:FUNCTION"),
        ("parts.look", "did you mean 'parts:look'? Or parts.look:FUNCTION, if it is a module"),
        ("look", "write a function of a module as module:function, or register it"),
    ],
)
async def test_a_python_handler_without_its_function(
    engine: ToolEngine, handler: str, cure: str
) -> None:
    """It names no executor, so that to register one is no cure of a path."""
    engine.register_tool(ADD | {"entry": {"type": "python", "handler": handler}})
    result = await engine.execute("add", {"a": 1})
    assert result.error_type == "executor_not_found"
    assert cure in str(result.error)
    assert ("register" in str(result.error)) == (handler == "look")


async def test_steps_come_in_their_order(engine: ToolEngine, audit: Audit) -> None:
    """K23-K26: look-up before validation before the executor before admission before STARTED."""
    engine.register_tool(ADD | {"entry": {"type": "custom", "handler": "missing"}})
    engine.controller.pause()
    missing = await engine.execute("nothing", {"a": "x"})
    invalid = await engine.execute("add", {"a": "x"})
    homeless = await engine.execute("add", {"a": 1})
    engine.controller.resume()
    assert [each.error_type for each in (missing, invalid, homeless)] == [
        "tool_not_found",
        "validation_error",
        "executor_not_found",
    ]
    assert engine.controller.get_metrics().total_enqueued == 0


async def test_executor_registered_later(engine: ToolEngine, audit: Audit) -> None:
    """K25: once the executor is registered, the next call finds it."""
    engine.register_tool(bare("lonely"))
    assert (await engine.execute("lonely")).error_type == "executor_not_found"
    engine.register_executor("lonely", EchoExecutor())
    assert (await engine.execute("lonely")).is_success


class BoomError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        (ValueError(), "ValueError"),
        (ToolExecutionError("plain words"), "plain words"),
        (StopIteration(3), "RuntimeError: coroutine raised StopIteration"),
        (SystemExit(1), "SystemExit"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError(), "CancelledError"),
        (BoomError(), "its message cannot be shown (RuntimeError)"),
        (ExceptionGroup("several", [ValueError("inner")]), "several"),
        (ValueError("token sk-" + "a" * 20), "token [hidden]"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_execution_error(
    engine: ToolEngine, audit: Audit, error: BaseException, message: str
) -> None:
    """K27, K29: whatever a tool raises is an execution_error, never an exception of `execute`."""

    async def fail() -> None:
        raise error

    engine.register_tool(bare("lonely"), fail)
    result = await engine.execute("lonely")
    assert result.error_type == "execution_error"
    assert message in str(result.error)
    assert audit.kinds() == ["execution_started", "execution_failed"]
    assert (await audit.last()).error == result.error
    await audit.check([result])


async def test_error_details(engine: ToolEngine, audit: Audit) -> None:
    """K27: a `ToolExecutionError` carries details into the metadata, secrets hidden."""

    async def fail() -> None:
        raise ToolExecutionError("no", details={"status": 404, "api_key": "abc"})

    engine.register_tool(bare("lonely"), fail)
    result = await engine.execute("lonely")
    assert result.metadata["error_details"] == {"status": 404, "api_key": "[hidden]"}


async def test_executor_that_raises_at_once(engine: ToolEngine, audit: Audit) -> None:
    """K27: an executor that fails before it makes a coroutine fails its call all the same."""

    class Broken:
        is_async = True

        def execute(self, tool: Any, params: Any, context: Any) -> Any:
            raise OSError("cannot even start")

    engine.register_tool(bare("lonely"))
    engine.register_executor("lonely", Broken())
    result = await engine.execute("lonely")
    assert result.error == "OSError: cannot even start"


async def test_keyboard_interrupt_gets_out(engine: ToolEngine, audit: Audit) -> None:
    """K29: Ctrl-C ends the program, not only the call; the slot is given back, the end recorded."""

    async def interrupted() -> None:
        raise KeyboardInterrupt

    engine.register_tool(bare("lonely", effect="read", retry={"attempts": 3}), interrupted)
    with pytest.raises(KeyboardInterrupt):
        await engine.execute("lonely")
    record = await audit.last()
    assert record.error_type == "execution_error"
    assert record.attempts == 1


async def test_what_looks_like_ctrl_c(engine: ToolEngine, audit: Audit) -> None:
    """Where the program hears of Ctrl-C by its event loop, a tool that raises it has failed."""
    ran: list[int] = []

    async def stop() -> None:
        await asyncio.sleep(0)
        ran.append(1)
        raise KeyboardInterrupt

    spec = bare("lonely", effect="read", retry={"attempts": 3, "on": ["execution_error"]})
    engine.register_tool(spec, stop)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, ran.clear)
    try:
        result = await engine.execute("lonely")
        task = await (await engine.start("lonely")).wait(20)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    for each in (result, task):
        assert each.error == "the tool tried to end the process (KeyboardInterrupt)"
        assert each.error_type == "execution_error"
    # As of any other error.
    assert len(ran) == 6


async def test_ctrl_c_of_a_handler_of_its_own(engine: ToolEngine, audit: Audit) -> None:
    """Where the program's own handler raises it in the middle of a tool, it gets out."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    engine.register_tool(bare("lonely"), interrupted)
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            await engine.execute("lonely")
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (None, {"result": None}),
        (3, {"result": 3}),
        ([1, 2], {"result": [1, 2]}),
        ({"a": 1}, {"a": 1}),
        ({}, {}),
        ("text", {"result": "text"}),
    ],
)
async def test_output_is_a_mapping(
    engine: ToolEngine, audit: Audit, output: Any, shown: dict[str, Any]
) -> None:
    """U17: what is no mapping is wrapped as `{"result": x}`, in the result and in the record."""

    async def give() -> Any:
        return output

    engine.register_tool(bare("lonely"), give)
    result = await engine.execute("lonely")
    assert result.output == shown
    assert (await audit.last()).result == shown


async def test_waiting_call_is_queued_first() -> None:
    """K26, C7: STARTED means running: a call that waits says QUEUED, and STARTED with its slot."""
    engine = make_engine(1)
    audit = Audit(engine)
    gate = asyncio.Event()

    async def hold() -> None:
        await gate.wait()

    engine.register_tool(bare("lonely"), hold)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        first = group.create_task(engine.execute("lonely"))
        await turns()
        second = group.create_task(engine.execute("lonely"))
        await turns()
        assert audit.kinds() == ["execution_started", "execution_queued"]
        await asyncio.sleep(3)
        gate.set()
    waited = second.result()
    assert audit.kinds(waited.call_id) == [
        "execution_queued",
        "execution_started",
        "execution_completed",
    ]
    assert waited.metadata["queue_wait"] == pytest.approx(3)
    assert waited.execution_time == pytest.approx(0)
    assert first.result().execution_time == pytest.approx(3)
    assert (await audit.last()).queue_wait == pytest.approx(3)
    await audit.check([first.result(), waited])
    await engine.close()


@pytest.mark.parametrize(
    ("limits", "error_type", "was_queued"),
    [
        ({"queue_size": 0}, "queue_full", False),
        ({"strategy": "reject"}, "rejected", False),
        ({"queue_timeout": 2.0}, "queue_timeout", True),
    ],
)
async def test_no_slot(limits: dict[str, Any], error_type: str, was_queued: bool) -> None:
    """K36, C6, C7: queue_full, rejected, queue_timeout: rejected results that never STARTED."""
    engine = make_engine(1, **limits)
    audit = Audit(engine)

    async def hold() -> None:
        await asyncio.sleep(10)

    engine.register_tool(bare("lonely"), hold)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        first = group.create_task(engine.execute("lonely"))
        await turns()
        refused = await engine.execute("lonely")
    assert refused.error_type == error_type
    assert refused.outcome is Outcome.REJECTED
    queued = ["execution_queued"] if was_queued else []
    assert audit.kinds(refused.call_id) == [*queued, "execution_failed"]
    records = {record.call_id: record for record in await audit.records()}
    assert not records[refused.call_id].reached_executor
    assert refused.metadata["queue_wait"] == limits.get("queue_timeout", 0.0)
    assert records[refused.call_id].queue_wait == refused.metadata["queue_wait"]
    await audit.check([first.result(), refused])
    await engine.close()


@pytest.mark.parametrize(
    ("limits", "was_queued"), [({"strategy": "reject"}, False), ({"queue_timeout": 3.0}, True)]
)
async def test_rate_limited(limits: dict[str, Any], was_queued: bool) -> None:
    """C7, C17: a rate that allows no call ends as rate_limited and says when to try again."""
    engine = make_engine(5, **limits)
    audit = Audit(engine)

    async def ping() -> None:
        return None

    engine.register_tool(bare("lonely", rate="1/min"), ping)
    first = await engine.execute("lonely")
    async with asyncio.timeout(100):
        refused = await engine.execute("lonely")
    assert refused.error_type == "rate_limited"
    assert refused.metadata["error_details"]["retry_after"] > 50
    queued = ["execution_queued"] if was_queued else []
    assert audit.kinds(refused.call_id) == [*queued, "execution_failed"]
    await audit.check([first, refused])
    await engine.close()


async def test_bypass_callers_do_not_count() -> None:
    """K38, C12, X11: a workflow node runs beside a full engine; every other caller type counts."""
    engine = make_engine(1, strategy="reject", bucket_limits={"custom": 1})
    audit = Audit(engine)
    gate = asyncio.Event()

    async def hold() -> None:
        await gate.wait()

    engine.register_tool(bare("lonely"), hold)
    flow = ToolExecutionContext.for_workflow("wf", "node")
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.execute("lonely", {}, flow)) for _ in range(3)]
        await turns()
        metrics = engine.controller.get_metrics()
        assert (metrics.bypass_active, metrics.current_concurrent) == (3, 0)
        calls.append(group.create_task(engine.execute("lonely")))
        await turns()
        assert engine.controller.get_metrics().current_concurrent == 1
        for kind in ("tool_sub_agent", "conversation_agent", "direct", "unknown"):
            context = ToolExecutionContext(caller_type=kind)
            assert (await engine.execute("lonely", {}, context)).error_type == "rejected"
        gate.set()
    assert all(call.result().is_success for call in calls)
    await audit.check()
    await engine.close()


async def test_priority_of_the_context() -> None:
    """K35: under `priority` the most urgent waiter runs first; the context's wish is heard."""
    engine = make_engine(1, strategy="priority")
    order: list[str | None] = []

    async def note(context: ToolExecutionContext) -> None:
        order.append(context.caller_id)
        await asyncio.sleep(1)

    engine.register_tool(bare("lonely"), note)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        for name, priority in (("first", 5), ("late", 9), ("default", None), ("urgent", 1)):
            context = ToolExecutionContext(caller_id=name, priority=priority)
            group.create_task(engine.execute("lonely", {}, context))
            await turns()
    assert order == ["first", "urgent", "default", "late"]
    await engine.close()


async def test_nothing_is_built_when_nobody_listens(engine: ToolEngine) -> None:
    """K47: a call without subscribers is recorded all the same."""
    engine.register_tool(ADD, add)
    heard: list[Any] = []
    unsubscribe = engine.subscribe(heard.append, event_types="execution_failed")
    assert (await engine.execute("add", {"a": 1})).is_success
    unsubscribe()
    assert (await engine.execute("nothing")).error_type == "tool_not_found"
    assert heard == []
    assert len(await engine.query_call_records()) == 2


async def test_failing_subscribers_change_nothing(engine: ToolEngine, audit: Audit) -> None:
    """K47: a subscriber that raises, in whatever way, breaks no call."""

    def broken(event: Any) -> None:
        raise ValueError("subscriber")

    async def broken_later(event: Any) -> None:
        raise asyncio.CancelledError

    engine.register_tool(ADD, add)
    engine.subscribe(broken)
    engine.subscribe(broken_later)
    assert (await engine.execute("add", {"a": 1})).is_success
    assert audit.kinds() == ["execution_started", "execution_completed"]
