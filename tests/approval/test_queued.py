"""How does somebody answer who looks at a list?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.approval.people import NO, TOOL, YES
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.queued import QueueApprover
from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest


def requests(count: int) -> list[ApprovalRequest]:
    book = ApprovalBook("s")
    return [book.ask(TOOL, {"n": number}) for number in range(count)]


async def test_a_list_that_somebody_answers() -> None:
    """S34: what waits is listed, oldest first, and each is answered by its token, in any order."""
    queue = QueueApprover()
    first, second, third = requests(3)
    calls = [asyncio.create_task(queue.approve(each)) for each in (first, second, third)]
    assert await queue.wait_for_request() == first
    assert queue.pending_approvals == [first, second, third]
    assert repr(queue) == "QueueApprover(3 pending)"
    assert queue.refuse(second.token, "Not today.") == second
    assert queue.allow(first.token, is_remembered=True) == first
    assert queue.pending_approvals == [third]
    queue.answer(third.token, YES)
    assert await asyncio.gather(*calls) == [
        ApprovalDecision(is_approved=True, is_remembered=True),
        NO,
        YES,
    ]


async def test_an_answer_counts_once() -> None:
    """Two windows that answer at once: the second one is told that it came too late."""
    queue = QueueApprover()
    (request,) = requests(1)
    call = asyncio.create_task(queue.approve(request))
    await queue.wait_for_request()
    queue.refuse(request.token)
    with pytest.raises(ApprovalError, match="no request waits under this token"):
        queue.allow(request.token)
    assert await call == ApprovalDecision(is_approved=False)


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        (True, YES),
        ("Not today.", ApprovalDecision(is_approved=False, reason="Not today.")),
        (None, None),
    ],
)
async def test_an_answer_in_short(said: Any, decision: ApprovalDecision | None) -> None:
    """S34: what a function may say, somebody at a list may say; what is no answer is told at once,
    and the request waits on."""
    queue = QueueApprover()
    (request,) = requests(1)
    call = asyncio.create_task(queue.approve(request))
    await queue.wait_for_request()
    with pytest.raises(ApprovalError, match="1 is no answer"):
        queue.answer(request.token, 1)  # type: ignore[arg-type]
    assert queue.pending_approvals == [request]
    queue.answer(request.token, said)
    assert await call == decision


async def test_a_call_that_ended() -> None:
    """It is not in the list any more, and nobody can let it run."""
    queue = QueueApprover()
    (request,) = requests(1)
    call = asyncio.create_task(queue.approve(request))
    await queue.wait_for_request()
    call.cancel()
    await asyncio.wait([call])
    assert queue.pending_approvals == []
    with pytest.raises(ApprovalError, match="its call ended"):
        queue.allow(request.token)


async def test_an_answer_and_a_cancellation_at_once() -> None:
    """Whoever is cancelled has no answer, and nobody fails of it."""
    queue = QueueApprover()
    (request,) = requests(1)
    call = asyncio.create_task(queue.approve(request))
    await queue.wait_for_request()
    call.cancel()
    queue.allow(request.token)
    await asyncio.wait([call])
    assert call.cancelled()


async def test_each_request_is_given_once() -> None:
    """Somebody who shows one after the other sees each of them; so do two who take turns."""
    queue = QueueApprover()
    first, second = requests(2)
    watchers = [asyncio.create_task(queue.wait_for_request()) for _ in range(3)]
    await asyncio.sleep(0)
    calls = [asyncio.create_task(queue.approve(each)) for each in (first, second)]
    done, (waiting,) = await asyncio.wait(watchers, timeout=1.0)
    assert sorted(each.result().params["n"] for each in done) == [0, 1]
    waiting.cancel()
    for each in (first, second):
        queue.allow(each.token)
    assert await asyncio.gather(*calls) == [YES, YES]


async def test_one_that_went_away_is_not_given() -> None:
    """A request that ended before anybody looked is no question."""
    queue = QueueApprover()
    first, second = requests(2)
    gone = asyncio.create_task(queue.approve(first))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    call = asyncio.create_task(queue.approve(second))
    assert await queue.wait_for_request() == second
    queue.allow(second.token)
    assert await call == YES
