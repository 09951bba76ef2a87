"""May a window that has its own thread answer?"""

from __future__ import annotations

import asyncio

from tests.approval.people import TOOL, YES
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.queued import QueueApprover


async def test_an_answer_from_a_thread() -> None:
    """S34: to list and to answer is possible from any thread, and the call goes on in its own."""
    queue = QueueApprover()
    request = ApprovalBook("s").ask(TOOL, {})
    call = asyncio.create_task(queue.approve(request))
    assert await queue.wait_for_request() == request

    def window() -> None:
        (shown,) = queue.pending_approvals
        queue.allow(shown.token)

    await asyncio.to_thread(window)
    async with asyncio.timeout(10):
        assert await call == YES


def test_an_answer_when_the_loop_is_gone() -> None:
    """There is nobody who could run anything, and nothing fails."""
    queue = QueueApprover()
    request = ApprovalBook("s").ask(TOOL, {})
    loop = asyncio.new_event_loop()
    call = loop.create_task(queue.approve(request))
    loop.run_until_complete(asyncio.sleep(0))
    (shown,) = queue.pending_approvals
    waiting = queue._asked[shown.token]
    call.cancel()
    loop.run_until_complete(asyncio.wait([call]))
    loop.close()
    waiting.settle(YES)
    assert queue.pending_approvals == []
