"""When is a failed call tried again, and what does that hold?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import bare, forever
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.errors import ToolExecutionError


class Failing:
    """Fails `failures` times, then succeeds."""

    def __init__(self, failures: int = 100, error: type[BaseException] = ValueError) -> None:
        self.failures = failures
        self.error = error
        self.runs: list[ToolExecutionContext] = []

    async def __call__(self, context: ToolExecutionContext) -> str:
        self.runs.append(context)
        await asyncio.sleep(1)
        if len(self.runs) <= self.failures:
            raise self.error("no")
        return "yes"


RETRY = {"attempts": 3, "backoff": 2}


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        ({"retry": RETRY, "effect": "read"}, 3),
        ({"retry": RETRY, "idempotent": True}, 3),
        ({"retry": RETRY, "idempotent": True, "effect": "write"}, 3),
        ({"effect": "read"}, 1),
        ({}, 1),
    ],
)
async def test_when_a_tool_is_tried_again(
    engine: ToolEngine, audit: Audit, keys: dict[str, Any], runs: int
) -> None:
    """U16: only a tool that declares `retry` and is read-only or idempotent is tried again."""
    failing = Failing()
    engine.register_tool(bare("failing", **keys), failing)
    result = await engine.execute("failing")
    assert len(failing.runs) == runs
    assert result.error_type == "execution_error"
    assert result.metadata["attempts"] == runs
    assert (await audit.last()).attempts == runs
    retried = ["execution_retried"] * (runs - 1)
    assert audit.kinds() == ["execution_started", *retried, "execution_failed"]
    await audit.check([result])


async def test_success_at_last(engine: ToolEngine, audit: Audit) -> None:
    """U16: each attempt is in the metadata; back-offs double; the context counts the retries."""
    failing = Failing(2)
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=100), failing)
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await engine.execute("failing")
    assert result.output == {"result": "yes"}
    assert loop.time() - began == pytest.approx(1 + 2 + 1 + 4 + 1)
    log = result.metadata["attempt_log"]
    assert [each["is_success"] for each in log] == [False, False, True]
    assert [each["error_type"] for each in log] == ["execution_error", "execution_error", None]
    assert [each["error"] for each in log] == ["ValueError: no", "ValueError: no", None]
    assert [each["execution_time"] for each in log] == [pytest.approx(1)] * 3
    assert [context.retry_count for context in failing.runs] == [0, 1, 2]
    assert len({context.call_id for context in failing.runs}) == 1
    assert len({context.deadline for context in failing.runs}) == 1
    await audit.check([result])


async def test_each_retry_is_an_event(engine: ToolEngine, audit: Audit) -> None:
    """K46: an attempt after the first is told when it begins, with what the one before came to."""
    failing = Failing(2)
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=100), failing)
    runs_heard: list[int] = []
    engine.subscribe(lambda _: runs_heard.append(len(failing.runs)), "execution_retried")
    result = await engine.execute("failing")
    first, second = (e for e in audit.events if e.event_type == "execution_retried")
    assert runs_heard == [1, 2]
    assert [first.data["attempt"], second.data["attempt"]] == [2, 3]
    log = result.metadata["attempt_log"]
    for event, attempt, pause in ((first, log[0], 2), (second, log[1], 4)):
        assert event.call_id == result.call_id
        assert event.data["error_type"] == attempt["error_type"] == "execution_error"
        assert event.data["execution_time"] == attempt["execution_time"]
        assert event.data["delay"] == pytest.approx(pause)
        assert event.data["bucket"] == "custom"
        assert event.execution_result is None


async def test_a_retry_that_never_began_is_no_event(engine: ToolEngine, audit: Audit) -> None:
    """K46: a pause that ends with its call is followed by no attempt, and no event says so."""
    failing = Failing()
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=100), failing)
    task = asyncio.ensure_future(engine.execute("failing"))
    await asyncio.sleep(2)
    assert len(failing.runs) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert audit.kinds() == ["execution_started", "execution_cancelled"]
    await audit.check()


@pytest.mark.parametrize(("drawn", "pauses"), [(0.0, 2 + 4), (0.5, 2.5 + 5), (1.0, 3 + 6)])
async def test_jitter(
    engine: ToolEngine,
    audit: Audit,
    monkeypatch: pytest.MonkeyPatch,
    drawn: float,
    pauses: float,
) -> None:
    """Issue 5, 1: up to half of a pause is added by chance, so that calls that failed together do
    not come back together; none comes earlier than the definition says."""
    monkeypatch.setattr("tool_engine.calls.retrying.random", lambda: drawn)
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=100), Failing(2))
    began = asyncio.get_running_loop().time()
    assert (await engine.execute("failing")).is_success
    assert asyncio.get_running_loop().time() - began == pytest.approx(3 + pauses)
    await audit.check()


async def test_jitter_before_the_deadline(
    engine: ToolEngine, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X12: an attempt for which there is time is not lost to chance."""
    monkeypatch.setattr("tool_engine.calls.retrying.random", lambda: 1.0)
    runs = []

    async def flaky() -> None:
        runs.append(asyncio.get_running_loop().time() - 1000.0)
        if len(runs) == 1:
            raise ValueError

    engine.register_tool(bare("flaky", effect="read", retry=RETRY, timeout=2.5), flaky)
    assert (await engine.execute("flaky")).is_success
    assert runs == [0.0, pytest.approx(2.25)]
    await audit.check()


async def test_first_success_has_no_log(engine: ToolEngine, audit: Audit) -> None:
    """U16: a call that succeeds at once carries no log of attempts."""
    engine.register_tool(bare("failing", effect="read", retry=RETRY), Failing(0))
    result = await engine.execute("failing")
    assert "attempt_log" not in result.metadata
    assert result.metadata["attempts"] == 1


@pytest.mark.parametrize(("max_retries", "runs"), [(0, 1), (1, 2), (2, 3), (9, 3)])
async def test_caller_bounds_retries(
    engine: ToolEngine, audit: Audit, max_retries: int, runs: int
) -> None:
    """K30, U16: never more retries than `context.max_retries`."""
    failing = Failing()
    engine.register_tool(bare("failing", effect="read", retry=RETRY), failing)
    await engine.execute("failing", {}, ToolExecutionContext(max_retries=max_retries))
    assert len(failing.runs) == runs


@pytest.mark.parametrize(
    ("error", "on", "runs"),
    [
        (ValueError, ["timeout"], 1),
        (TimeoutError, ["timeout"], 3),
        (TimeoutError, ["execution_error"], 1),
        (asyncio.CancelledError, ["execution_error"], 3),
        (SystemExit, ["execution_error"], 3),
    ],
)
async def test_error_types_that_are_tried_again(
    engine: ToolEngine, audit: Audit, error: type[BaseException], on: list[str], runs: int
) -> None:
    """U16: only the error types of `retry.on` are tried again."""
    failing = Failing(error=error)
    engine.register_tool(bare("failing", effect="read", retry={**RETRY, "on": on}), failing)
    await engine.execute("failing")
    assert len(failing.runs) == runs


async def test_a_final_failure_is_not_tried_again(engine: ToolEngine, audit: Audit) -> None:
    """U16: a tool that says that its failure is final is not run again."""
    runs = []

    async def missing() -> str:
        runs.append(1)
        raise ToolExecutionError("no such customer", details={"code": 404}, is_final=True)

    engine.register_tool(bare("missing", effect="read", retry=RETRY), missing)
    result = await engine.execute("missing")
    assert (len(runs), result.metadata["attempts"]) == (1, 1)
    assert (result.error, result.metadata["error_details"]) == ("no such customer", {"code": 404})
    await audit.check([result])


async def test_invalid_arguments_are_not_tried_again(engine: ToolEngine, audit: Audit) -> None:
    """U16: what fails before the tool runs is never tried again."""
    failing = Failing()
    parameters = [{"name": "a", "type": "integer", "required": True, "description": "x"}]

    async def handler(a: int, context: ToolExecutionContext) -> str:
        return await failing(context)

    engine.register_tool(
        bare("failing", effect="read", retry=RETRY, parameters=parameters), handler
    )
    result = await engine.execute("failing", {"a": "x"})
    assert result.error_type == "validation_error"
    assert failing.runs == []


async def test_each_attempt_has_its_own_arguments(engine: ToolEngine, audit: Audit) -> None:
    """U16: what an attempt does to its arguments is not seen by the next one, nor the record."""
    seen: list[list[int]] = []

    async def spoil(items: list[int]) -> int:
        seen.append(list(items))
        items.append(99)
        raise ValueError

    parameters = [{"name": "items", "type": "array", "required": True, "description": "x"}]
    engine.register_tool(bare("spoil", effect="read", retry=RETRY, parameters=parameters), spoil)
    mine = {"items": [1]}
    await engine.execute("spoil", mine)
    assert seen == [[1], [1], [1]]
    assert mine == {"items": [1]}
    assert (await audit.last()).params == {"items": [1]}


async def test_deadline_holds_for_all_attempts(engine: ToolEngine, audit: Audit) -> None:
    """X12: the deadline is the call's: no attempt begins that could not begin before it."""
    failing = Failing()
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=5), failing)
    result = await engine.execute("failing")
    assert len(failing.runs) == 2
    assert result.error_type == "execution_error"


async def test_deadline_in_a_later_attempt(engine: ToolEngine, audit: Audit) -> None:
    """X12: the deadline ends an attempt that is running; its log says timeout."""

    class Slower(Failing):
        async def __call__(self, context: ToolExecutionContext) -> str:
            if self.runs:
                await forever()
            return await super().__call__(context)

    engine.register_tool(bare("slower", effect="read", retry=RETRY, timeout=8), Slower())
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await engine.execute("slower")
    assert result.error_type == "timeout"
    assert loop.time() - began == pytest.approx(8)
    assert result.metadata["attempts"] == 2
    log = result.metadata["attempt_log"]
    assert [each["error_type"] for each in log] == ["execution_error", "timeout"]
    assert [each["is_success"] for each in log] == [False, False]


async def test_execution_time_counts_all_attempts(engine: ToolEngine, audit: Audit) -> None:
    """K50: the execution time of a call that was tried again counts every attempt."""
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=100), Failing(2))
    result = await engine.execute("failing")
    assert result.execution_time >= 3


async def test_back_off_holds_no_slot() -> None:
    """U16, C23: while a call backs off its slot serves others; it resumes before those who wait."""
    engine = make_engine(1)
    audit = Audit(engine)
    failing = Failing(1)

    async def quick() -> None:
        return None

    engine.register_tool(
        bare("failing", effect="read", retry={"attempts": 2, "backoff": 50}), failing
    )
    engine.register_tool(bare("quick"), quick)
    async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
        context = ToolExecutionContext(timeout=100)
        call = group.create_task(engine.execute("failing", {}, context))
        await asyncio.sleep(10)
        metrics = engine.controller.get_metrics()
        assert (metrics.parked, metrics.current_concurrent) == (1, 0)
        assert (await engine.execute("quick")).metadata["queue_wait"] == 0
    assert call.result().is_success
    await audit.check([call.result()])
    await engine.close()


async def test_deadline_while_it_waits_to_resume() -> None:
    """X12: a call whose slot is not free again by its deadline ends then, as a timeout."""
    engine = make_engine(1)
    audit = Audit(engine)
    engine.register_tool(bare("failing", effect="read", retry=RETRY, timeout=10), Failing())
    engine.register_tool(bare("wait", timeout=60), forever)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
        began = loop.time()
        call = group.create_task(engine.execute("failing"))
        await asyncio.sleep(1.5)
        group.create_task(engine.execute("wait"))
        result = await call
        assert result.error_type == "timeout"
        assert loop.time() - began == pytest.approx(10)
    await turns()
    await audit.check([result])
    await engine.close()
