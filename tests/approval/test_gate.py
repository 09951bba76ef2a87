"""May a call run, and may its result be read?"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.approval.people import NO, TOOL, YES, Clock, Nobody, Person, gate_of
from tool_engine.approval.gate import ApprovalGate, gate_of_engine
from tool_engine.approval.queued import QueueApprover
from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import Refusal


async def consent(gate: ApprovalGate, **params: Any) -> Refusal | None:
    return await gate.consent("call_1", TOOL, params)


async def review(gate: ApprovalGate, *, is_error: bool = False) -> Refusal | None:
    return await gate.review("call_1", TOOL, {"x": 1}, "the text", is_error)


async def test_nobody_is_asked_where_nobody_wants_it() -> None:
    """U34: auto lets every call run; deny lets none, and says no more than that."""
    person = Person(YES)
    assert await consent(gate_of(person, "auto")) is None
    refusal = await consent(gate_of(person, "deny"))
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    assert refusal.error == "calls of 'pay' are not allowed here"
    assert refusal.details == {"reason": refusal.error, "rule": "pay"}
    assert person.asked == []


async def test_somebody_is_asked() -> None:
    """S26: about this call, whole; a refusal reaches the model with its reason."""
    person = Person(YES, NO)
    gate = gate_of(person, "ask_always")
    assert await consent(gate, amount=5) is None
    refusal = await consent(gate, amount=5)
    assert refusal is not None
    assert refusal.error == "the user did not allow this call of 'pay': Not today."
    assert refusal.details == {"reason": "Not today.", "rule": "pay"}
    request = person.asked[0]
    assert (request.call_id, request.params, request.is_once) == ("call_1", {"amount": 5}, False)
    assert gate.book.pending() == []


@pytest.mark.parametrize("execution", ["ask_always", "deny"])
async def test_a_silent_refusal(execution: str) -> None:
    """U32: neither the reason nor the rule reaches the model."""
    refusal = await consent(gate_of(Person(NO), execution, is_silent=True))
    assert refusal is not None
    assert "Not today" not in refusal.error
    assert refusal.details is None


async def test_without_anybody_to_ask() -> None:
    """X3: no approver, and a policy that asks: refused, with the cure."""
    gate = gate_of(None, "ask_once", "always")
    refusal = await consent(gate)
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    assert "there is no approver to ask: pass an approver to the session" in refusal.error
    refusal = await review(gate)
    assert refusal is not None
    assert refusal.error_type == "result_rejected"
    assert "the result of 'pay' needs a person's consent" in refusal.error


@pytest.mark.parametrize("answer", [YES, NO])
async def test_asked_once(answer: ApprovalDecision) -> None:
    """S19, U34: the first answer holds for the same call later on, a no as well as a yes."""
    person = Person(answer)
    gate = gate_of(person, "ask_once")
    first = await consent(gate, to="ann", n=1)
    assert await consent(gate, n=1, to="ann") == first
    assert len(person.asked) == 1
    assert person.asked[0].is_once
    await consent(gate, to="ann", n=1.0)
    assert len(person.asked) == 2


async def test_asked_always() -> None:
    """Who answers "always" is asked all the same: that is what the policy says."""
    person = Person(ApprovalDecision(is_approved=True, is_remembered=True))
    gate = gate_of(person, "ask_always")
    for _ in range(3):
        assert await consent(gate) is None
    assert len(person.asked) == 3


async def test_only_this_time() -> None:
    """Somebody who is asked once may still say that it is for this call only; those that waited
    with it are asked about, too."""
    person = Person(ApprovalDecision(is_approved=True, is_remembered=False))
    gate = gate_of(person, "ask_once")
    assert await asyncio.gather(*(consent(gate) for _ in range(3))) == [None] * 3
    assert len(person.asked) == 3


@pytest.mark.parametrize("answer", [YES, NO, OSError("gone")])
async def test_equal_calls_at_once(answer: Any) -> None:
    """U34: of five equal calls that are made at once one asks, and the answer is that of all."""
    person = Person(answer)
    gate = gate_of(person, "ask_once")
    results = await asyncio.gather(
        *(consent(gate, n=1) for _ in range(5)), *(consent(gate, n=2) for _ in range(5))
    )
    assert [request.params["n"] for request in person.asked] == [1, 2]
    assert results[:5] == [results[0]] * 5
    assert results[5:] == [results[5]] * 5
    assert gate.book.pending() == []


async def test_equal_calls_that_wait_for_later() -> None:
    """X3: a token is good for one run, so that each call that waits has one of its own."""
    person = Person(None)
    gate = gate_of(person, "ask_once")
    refusals = await asyncio.gather(*(consent(gate) for _ in range(3)))
    tokens = {each.details["approval_token"] for each in refusals if each and each.details}
    assert tokens == {each.token for each in gate.book.pending()}
    assert len(tokens) == 3


async def test_those_who_wait_ask_when_the_first_goes_away() -> None:
    """A call that is cancelled answers for nobody: the next one asks."""
    queue = QueueApprover()
    gate = gate_of(queue, "ask_once")
    calls = [asyncio.create_task(consent(gate)) for _ in range(3)]
    first = await queue.wait_for_request()
    calls[0].cancel()
    second = await queue.wait_for_request()
    assert gate.book.pending() == [second]
    assert queue.pending_approvals == [second]
    calls[2].cancel()
    await asyncio.wait([calls[0], calls[2]])
    assert first.token != second.token
    queue.allow(second.token)
    assert await calls[1] is None
    assert await consent(gate) is None


async def test_an_answer_while_a_storage_is_read() -> None:
    """Somebody who answered while another call looked up what is known is not asked again."""

    class Slow(MemoryApprovalStorage):
        async def remembered(self, session_id: str, fingerprint: str) -> ApprovalDecision | None:
            known = await super().remembered(session_id, fingerprint)
            await asyncio.sleep(1.0)
            return known

    person = Person(YES)
    clock = Clock()
    gate = gate_of(person, "ask_once", storage=Slow(clock=clock), clock=clock)

    async def later() -> Refusal | None:
        await asyncio.sleep(0.5)
        return await consent(gate)

    first, second = await asyncio.gather(consent(gate), later())
    assert first is second is None
    assert len(person.asked) == 1


async def test_nobody_answers_in_time() -> None:
    """U32: after the time that a request has, the call is refused and the request is gone."""
    nobody = Nobody()
    gate = gate_of(nobody, "ask_always", "always")
    began = asyncio.get_running_loop().time()
    refusal = await consent(gate)
    assert asyncio.get_running_loop().time() - began == 60.0
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    assert refusal.error == "no approver said within 60 s that 'pay' may run"
    refusal = await review(gate)
    assert refusal is not None
    assert refusal.error == "no approver said within 60 s that 'pay' may show its result"
    assert gate.book.pending() == []


async def test_an_answer_after_the_clock_has_gone_on() -> None:
    """A machine that slept meanwhile: consent that is older than its time is none."""
    clock = Clock()

    class Sleeper(Person):
        async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
            clock.now += 60.0
            return YES

    refusal = await consent(gate_of(Sleeper(), "ask_always", clock=clock))
    assert refusal is not None
    assert "came too late" in refusal.error


async def cancelled() -> ApprovalDecision:
    other = asyncio.ensure_future(asyncio.Event().wait())
    other.cancel()
    await other
    return YES


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            OSError("password=hunter2secret"),
            "no approver could be asked whether 'pay' may run: OSError",
        ),
        (TimeoutError(), "no approver could be asked whether 'pay' may run: TimeoutError"),
        (
            asyncio.CancelledError(),
            "no approver could be asked whether 'pay' may run: CancelledError",
        ),
        ("yes", "the user did not allow this call of 'pay': yes"),
        (1, "1 is no answer: answer with True, False, the reason of a refusal"),
    ],
)
async def test_an_approver_that_fails(answer: Any, said: str) -> None:
    """What it raises is a refusal, and so is what is no decision; nothing but a yes is a yes."""
    with capture_logs():
        gate = gate_of(Person(answer), "ask_once", "on_error")
        refusal = await consent(gate)
        assert refusal is not None
        assert refusal.error_type == "execution_rejected"
        assert refusal.error.startswith(said)
        assert "hunter2secret" not in refusal.error
        refusal = await review(gate, is_error=True)
        assert refusal is not None
        assert refusal.error_type == "result_rejected"
    assert gate.book.pending() == []


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_shortest_approver(is_async: bool) -> None:
    """S20: what a function may say, an approver may say, and its method may be a plain one."""

    class Plain:
        def approve(self, request: ApprovalRequest) -> bool:
            return bool(request.params["n"] == 1)

    class Waiting(Plain):
        async def approve(self, request: ApprovalRequest) -> bool:  # type: ignore[override]
            return super().approve(request)

    gate = gate_of(Waiting() if is_async else Plain(), "ask_always")
    assert await consent(gate, n=1) is None
    refusal = await consent(gate, n=2)
    assert refusal is not None
    assert refusal.error == "the user did not allow this call of 'pay'"
    assert refusal.details == {"rule": "pay"}


@pytest.mark.parametrize("approver", [object(), 5, lambda request: True, QueueApprover])
def test_what_cannot_be_asked(approver: Any) -> None:
    """A mistake of the program shows when it is made, and not as a refusal of each call."""
    with pytest.raises(ConfigurationError, match="approver must have 'async def approve"):
        gate_of(approver, "ask_always")


@pytest.mark.parametrize("is_in_time", [False, True])
async def test_an_approver_that_holds_the_end_up(is_in_time: bool) -> None:
    """A call that was cancelled does not run, also when its approver says yes to that. What was
    cancelled before in the same task is another matter."""
    asked = asyncio.Event()

    class Stubborn:
        async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
            asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0 if is_in_time else 30)
            return YES

    gate = gate_of(Stubborn(), "ask_always")

    async def told_to_stop() -> Refusal | None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await consent(gate)

    call = asyncio.create_task(told_to_stop() if is_in_time else consent(gate))
    await asyncio.sleep(0)
    if not is_in_time:
        await asked.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled() is not is_in_time
    assert gate.book.pending() == []


async def test_an_approver_that_breaks_off_after_a_cancellation() -> None:
    """A task that was cancelled before may go on and ask: an approver that breaks off says no."""

    async def goes_on() -> Refusal | None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await consent(gate_of(Person(asyncio.CancelledError()), "ask_always"))

    with capture_logs():
        call = asyncio.create_task(goes_on())
        await asyncio.sleep(0)
        call.cancel()
        refusal = await call
    assert refusal is not None
    assert refusal.error.startswith("no approver could be asked whether 'pay' may run")


async def test_why_a_call_was_refused() -> None:
    """S26: programs are told the reason, also where nobody gave one; a silent rule keeps it."""
    for made in (gate_of(None, "ask_once"), gate_of(None, "deny")):
        refusal = await consent(made)
        assert refusal is not None
        assert refusal.details == {"reason": refusal.error, "rule": "pay"}
    refusal = await consent(gate_of(None, "ask_once", is_silent=True))
    assert refusal is not None
    assert refusal.details is None


async def test_a_call_that_is_cancelled_leaves_no_request() -> None:
    """An answer to a call that has ended finds nothing."""
    queue = QueueApprover()
    gate = gate_of(queue, "ask_always")
    call = asyncio.create_task(consent(gate))
    await queue.wait_for_request()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert gate.book.pending() == queue.pending_approvals == []


async def test_nobody_can_answer_now() -> None:
    """X3: the call ends with a token, and the request stays open, for this process and others."""
    clock = Clock()
    storage = MemoryApprovalStorage(clock=clock)
    gate = gate_of(Person(None), "ask_always", storage=storage, clock=clock)
    refusal = await consent(gate, n=1)
    assert refusal is not None
    assert refusal.error_type == "approval_required"
    assert refusal.details is not None
    token = refusal.details["approval_token"]
    assert [each.token for each in gate.book.pending()] == [token]
    assert [each.token for each in await storage.pending("session_1")] == [token]
    assert (await gate.book.answer(token, YES, TOOL)).params == {"n": 1}


async def test_a_storage_that_cannot_keep_the_request() -> None:
    """What cannot be kept is not promised: the call is refused."""

    class Full(MemoryApprovalStorage):
        async def put(self, request: ApprovalRequest) -> None:
            await super().put(request)
            raise OSError("disk full")

    clock = Clock()
    storage = Full(clock=clock)
    with capture_logs():
        gate = gate_of(Person(None), "ask_always", storage=storage, clock=clock)
        refusal = await consent(gate)
    assert refusal is not None
    assert refusal.error_type == "execution_rejected"
    assert "disk full" in refusal.error
    assert gate.book.pending() == list(await storage.pending()) == []


@pytest.mark.parametrize(
    ("policy", "is_error", "is_asked"),
    [
        ("never", True, False),
        ("on_error", False, False),
        ("on_error", True, True),
        ("always", False, True),
        ("always", True, True),
    ],
)
async def test_who_may_read_a_result(policy: str, is_error: bool, is_asked: bool) -> None:
    """S31, U35: on_error asks about failures, and does fire; always asks about everything."""
    person = Person(NO)
    gate = gate_of(person, "auto", policy)
    refusal = await review(gate, is_error=is_error)
    assert (refusal is not None) is is_asked
    assert len(person.asked) == is_asked
    if refusal is not None:
        assert refusal.error_type == "result_rejected"
        assert refusal.error.endswith("did not let its result be read: Not today.")
        request = person.asked[0]
        assert (request.kind, request.result, request.params) == ("result", "the text", {"x": 1})
        assert await review(gate_of(Person(YES), "auto", policy), is_error=is_error) is None


async def test_a_silent_refusal_of_a_result() -> None:
    """U32: the model is not told why."""
    refusal = await review(gate_of(Person(NO), result="always", is_silent=True))
    assert refusal is not None
    assert "Not today" not in refusal.error
    assert refusal.details is None


async def test_a_result_that_waits() -> None:
    """The text is kept with its request, so that it can be read once somebody allows it."""
    gate = gate_of(Person(None), result="always")
    refusal = await review(gate)
    assert refusal is not None
    assert refusal.error_type == "approval_required"
    assert "the result of 'pay' waits" in refusal.error
    (request,) = gate.book.pending()
    assert (await gate.book.answer(request.token, YES, TOOL)).result == "the text"


async def test_who_listens() -> None:
    """A loop can tell of requests and answers; a listener that fails decides nothing."""
    heard: list[Any] = []

    def on_request(request: ApprovalRequest) -> None:
        heard.append(request.kind)

    def on_answer(request: ApprovalRequest, decision: ApprovalDecision | None) -> None:
        heard.append(decision)
        raise OSError("nobody there")

    with capture_logs() as logs:
        gate = gate_of(
            Person(YES, NO, None), "ask_always", on_request=on_request, on_answer=on_answer
        )
        assert await consent(gate) is None
        assert await consent(gate) is not None
        assert await consent(gate) is not None
    assert heard == ["execution", YES, "execution", NO, "execution", None]
    assert [each["event"] for each in logs] == ["approval_listener_failed"] * 3


async def test_what_is_other_than_last_time_is_shown() -> None:
    """D19: whoever allowed a call before sees what is new in this one."""
    person = Person(YES)
    gate = gate_of(person, "ask_always")
    for amount in (5, 7, 7):
        await consent(gate, to="ann", amount=amount)
    previews = [request.preview for request in person.asked]
    assert previews[0] is previews[2] is None
    assert previews[1] is not None
    assert "-amount: 5\n+amount: 7" in previews[1]


async def test_differences_of_many_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was allowed last is known of the newest tools only."""
    monkeypatch.setattr("tool_engine.approval.gate._MOST_ALLOWED", 0)
    person = Person(YES)
    gate = gate_of(person, "ask_always")
    for amount in (5, 7):
        await consent(gate, amount=amount)
    assert [request.preview for request in person.asked] == [None, None]


async def test_the_gate_of_an_engine() -> None:
    """Calls of no session go by what the tool's own definition says."""
    gate = gate_of_engine(Person(NO))
    assert gate.own("pay") is None
    assert await consent(gate) is None
