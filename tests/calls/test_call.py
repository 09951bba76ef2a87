"""How far has a call come, and in which words does it end?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tool_engine import ToolExecutionContext, ToolExecutionResult
from tool_engine.backends.task import ABORTED, SUPERSEDED
from tool_engine.calls.call import Call, attempt_of, nested_context, too_late
from tool_engine.calls.failure import Failure
from tool_engine.errors import ToolEngineError


def make(context: ToolExecutionContext | None = None, **fields: Any) -> Call:
    """A call of which nothing is known but its context."""
    context = ToolExecutionContext() if context is None else context
    return Call(None, 1, "call-1", "sample", b"", context, **fields)


def test_a_call_that_has_not_ended() -> None:
    """Promise 3: a call has no result before it has ended."""
    with pytest.raises(ToolEngineError, match="call-1 has not ended"):
        make().ended()
    result = ToolExecutionResult(True, "sample")
    assert make(result=result).ended() is result


def test_attempts() -> None:
    """A call without a slot ran nothing; each retry is one attempt more."""
    assert make().attempts == 0
    assert make(held=object()).attempts == 1
    assert make(held=object(), retries=2).attempts == 3


def test_priority_and_timeout_without_a_tool() -> None:
    """What a call has where no tool was found for it."""
    assert make().priority == 5
    assert make(ToolExecutionContext(priority=1)).priority == 1
    assert make().timeout == 0.0
    assert make(ToolExecutionContext(timeout=7)).timeout == 7


def test_the_earlier_deadline_counts() -> None:
    """DESIGN 2.4: a call ends by its own deadline, and by that of the call that it is part of."""
    assert make(ToolExecutionContext(timeout=7)).deadline_from(10.0) == 17.0
    assert make(ToolExecutionContext(timeout=7, deadline=12.0)).deadline_from(10.0) == 12.0
    assert make(ToolExecutionContext(timeout=7, deadline=99.0)).deadline_from(10.0) == 17.0


@pytest.mark.parametrize(
    ("context", "seconds", "words"),
    [
        ({}, 5.0, "within 5 s; raise its timeout"),
        ({"deadline": 1.0}, 5.0, "within 5 s; raise its timeout"),
        ({"deadline": 1.0}, 1.0, "of its context; give the context a later deadline"),
        (
            {"deadline": 1.0, "parent_call_id": "call-0"},
            1.0,
            "of the call call-0 that it is part of; raise its timeout",
        ),
    ],
)
def test_whose_deadline_it_was(context: dict[str, Any], seconds: float, words: str) -> None:
    """A timeout names the deadline that passed, so that the right one can be raised."""
    failure = too_late(make(ToolExecutionContext(timeout=5, **context)), seconds)
    assert failure.error_type == "timeout"
    assert words in failure.error


async def test_a_pause_ends_once() -> None:
    """C22: the first reason to end a pause between two attempts counts."""
    call = make()
    call.supersede()
    call.end_pause(ABORTED)
    call.bell = asyncio.get_running_loop().create_future()
    call.supersede()
    call.end_pause(ABORTED)
    assert call.bell.result() is SUPERSEDED


def test_a_run_is_superseded() -> None:
    """C22: a running call is told why it ends."""

    class Run:
        reasons: list[str] = []

        def end(self, reason: str) -> None:
            self.reasons.append(reason)

    run = Run()
    make(run=run).supersede()
    assert run.reasons == [SUPERSEDED]


def test_a_nested_context() -> None:
    """C23: a nested call speaks for its maker, and never ends after it."""
    maker = make()
    outer = ToolExecutionContext(
        "agent", "direct", "c", "w", variables={"a": 1}, priority=2, call_id="call-0", deadline=9.0
    )
    outer.made_by(maker)
    inner = nested_context(outer, None, 3.0)
    assert (inner.caller_id, inner.conversation_id, inner.workflow_id) == ("agent", "c", "w")
    assert (inner.timeout, inner.priority, inner.deadline) == (3.0, 2, 9.0)
    assert inner.variables is outer.variables
    assert inner.parent_call_id == "call-0"
    assert maker.inside == {}
    own = ToolExecutionContext("other", timeout=4.0, priority=7, deadline=1.0)
    inner = nested_context(outer, own, None)
    assert (inner.caller_id, inner.timeout, inner.priority) == ("other", 4.0, 7)
    assert (inner.deadline, inner.parent_call_id) == (1.0, "call-0")


def test_an_attempt() -> None:
    """What stands in the attempt log."""
    assert attempt_of(None, 1.5) == {
        "is_success": True,
        "error_type": None,
        "error": None,
        "execution_time": 1.5,
    }
    failed = attempt_of(Failure("timeout", "too late"), 2.0)
    assert (failed["is_success"], failed["error_type"]) == (False, "timeout")
    assert failed["error"] == "too late"
