"""Who consents to a call before it may ask for a slot, and to what exactly?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.calls.audit import EMPTY_FOLDER, Audit, turns
from tests.calls.samples import bare
from tool_engine import (
    ApprovalDecision,
    ApprovalRequest,
    CallbackApprover,
    ConcurrencyConfig,
    ConfigurationError,
    Permission,
    PermissionRule,
    QueueApprover,
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.policy import decide
from tool_engine.model.call import Refusal

BOUND = 10_000.0
ASKING = ("ask_once", "ask_always")
TO = [{"name": "to", "type": "object", "required": True, "description": "Whom"}]


def asking(name: str = "pay", execution: str = "ask_always", **keys: Any) -> Tool:
    """A tool whose definition wants somebody to be asked."""
    tool = ToolConfigLoader().from_mapping(bare(name, **keys))
    permission = Permission(execution=execution)  # type: ignore[arg-type] # a text is taken too
    return msgspec.structs.replace(tool, permission=permission)


class Payments:
    """What was paid."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    async def pay(self, **params: Any) -> str:
        self.made.append(params.get("to"))
        return "paid"


class Deferring:
    """Nobody can answer now."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        self.asked.append(request)
        return None


@pytest.fixture
def payments() -> Payments:
    return Payments()


@pytest.fixture
def queue() -> QueueApprover:
    return QueueApprover()


MakeEngine = Callable[[Any], ToolEngine]


@pytest.fixture
async def make() -> AsyncIterator[MakeEngine]:
    """Engines with one slot; each must have an agreeing record and event per call at the end."""
    audits: list[Audit] = []

    def made(approver: Any) -> ToolEngine:
        config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False)
        engine = ToolEngine(
            config, approver=approver, concurrency=ConcurrencyConfig(max_concurrent=1)
        )
        audits.append(Audit(engine))
        return engine

    yield made
    for audit in audits:
        await audit.check()
        await audit.engine.close()


@pytest.mark.parametrize(
    ("execution", "told"),
    [
        *((asks, "pass an approver to the engine or the session") for asks in ASKING),
        ("deny", "calls of 'pay' are not allowed here"),
    ],
)
async def test_nobody_can_be_asked(
    make: MakeEngine, payments: Payments, execution: str, told: str
) -> None:
    """X3: without an approver, what must be asked is refused, and the message has the cure; for
    what is denied an approver is none."""
    engine = make(None)
    engine.register_tool(asking(execution=execution), payments.pay)
    result = await engine.execute("pay")
    assert (result.error_type, result.outcome.value) == ("execution_rejected", "rejected")
    assert (result.error or "").endswith(told)
    assert result.metadata["attempts"] == 0
    assert payments.made == []


async def test_denied(make: MakeEngine, payments: Payments) -> None:
    """X3: nobody is asked about what is denied."""
    engine = make(CallbackApprover(lambda _: True))
    engine.register_tool(asking(execution="deny"), payments.pay)
    result = await engine.execute("pay")
    assert result.error == "calls of 'pay' are not allowed here"
    assert payments.made == []


async def test_what_asks_nobody(make: MakeEngine, payments: Payments) -> None:
    """Tools of which nobody says anything run as if there were no approver."""
    asked: list[ApprovalRequest] = []
    engine = make(CallbackApprover(asked.append))
    engine.register_tool(asking(execution="auto"), payments.pay)
    assert (await engine.execute("pay")).is_success
    assert asked == []


async def test_whoever_is_asked_holds_no_slot(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """S26: while somebody thinks about it, other calls have the only slot there is."""
    engine = make(queue)
    engine.register_tool(asking(), payments.pay)
    engine.register_tool(bare("other"), Payments().pay)
    call = asyncio.create_task(engine.execute("pay"))
    request = await queue.wait_for_request()
    metrics = engine.controller.get_metrics()
    assert (metrics.active, metrics.queue_length) == (0, 0)
    assert (await engine.execute("other")).is_success
    assert request.call_id
    queue.allow(request.token)
    result = await call
    assert result.is_success
    assert result.call_id == request.call_id


async def test_a_refusal_reaches_the_model(make: MakeEngine, payments: Payments) -> None:
    """S26: the reason is in the error."""
    engine = make(CallbackApprover(lambda _: "Too much."))
    engine.register_tool(asking(), payments.pay)
    result = await engine.execute("pay")
    assert result.error == "the user did not allow this call of 'pay': Too much."
    assert result.metadata["error_details"] == {"reason": "Too much."}


async def test_nobody_can_answer_now(make: MakeEngine, payments: Payments) -> None:
    """X3: the call ends with a token, and has not run."""
    engine = make(CallbackApprover(lambda _: None))
    engine.register_tool(asking(), payments.pay)
    result = await engine.execute("pay")
    assert result.error_type == "approval_required"
    assert result.metadata["error_details"]["approval_token"]
    assert payments.made == []


async def test_a_token_of_a_call_with_secrets(make: MakeEngine, payments: Payments) -> None:
    """X3: what a call goes on with is not taken for one of the secrets that it was sent."""
    engine = make(queue := Deferring())
    pin = {"name": "pin", "type": "string", "secret": True, "description": "The PIN."}
    engine.register_tool(asking(parameters=[pin]), payments.pay)
    result = await engine.execute("pay", {"pin": "0000"})
    (request,) = queue.asked
    assert result.metadata["error_details"] == {"approval_token": request.token}
    assert "0000" not in f"{result.error} {result.output}"


@pytest.mark.parametrize("has_secrets", [False, True])
async def test_only_the_caller_gets_the_token(
    make: MakeEngine, payments: Payments, *, has_secrets: bool
) -> None:
    """X3: whoever has the token may allow the call, so no event, kept event, record or log line has
    it; the id of the call names the request instead."""
    engine = make(queue := Deferring())
    pin = {"name": "pin", "type": "string", "secret": True, "description": "The PIN."}
    engine.register_tool(asking(parameters=[pin] if has_secrets else []), payments.pay)
    told: list[ToolEngineEvent] = []
    engine.subscribe(told.append)
    with capture_logs() as lines:
        result = await engine.execute("pay", {"pin": "0000"} if has_secrets else {})
    (request,) = queue.asked
    records = await engine.query_call_records()
    assert result.metadata["error_details"]["approval_token"] == request.token
    assert not any(request.token in repr(each) for each in (*told, *records, *lines))
    (final,) = (each for each in told if each.execution_result is not None)
    assert final.call_id == request.call_id


async def test_what_was_seen_is_what_runs(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """X3: neither the caller nor the approver changes arguments while somebody looks at them."""
    engine = make(queue)
    engine.register_tool(asking(parameters=TO), payments.pay)
    params = {"to": {"name": "ann"}}
    call = asyncio.create_task(engine.execute("pay", params))
    request = await queue.wait_for_request()
    params["to"]["name"] = "eve"
    request.params["to"]["name"] = "mallory"
    queue.allow(request.token)
    assert (await call).is_success
    assert payments.made == [{"name": "ann"}]


async def test_wrong_arguments_bother_nobody(make: MakeEngine, payments: Payments) -> None:
    """U33: validation comes first: nobody is asked about a call that cannot run."""
    asked: list[ApprovalRequest] = []
    engine = make(CallbackApprover(asked.append))
    engine.register_tool(asking(parameters=TO), payments.pay)
    assert (await engine.execute("pay", {"to": 5})).error_type == "validation_error"
    assert asked == []


async def test_asked_once_by_equal_calls(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """U34: five equal calls ask once and run five times; the sixth asks nobody."""
    engine = make(queue)
    engine.register_tool(asking(execution="ask_once", parameters=TO), payments.pay)
    calls = [asyncio.create_task(engine.execute("pay", {"to": {}})) for _ in range(5)]
    request = await queue.wait_for_request()
    await turns()
    assert queue.pending_approvals == [request]
    queue.allow(request.token)
    assert all([(await call).is_success for call in calls])
    assert (await engine.execute("pay", {"to": {}})).is_success
    assert len(payments.made) == 6


Change = Callable[..., Awaitable[tuple[ApprovalRequest, asyncio.Task[ToolExecutionResult]]]]


@pytest.fixture
def allowed_after_a_change(make: MakeEngine, payments: Payments, queue: QueueApprover) -> Change:
    """A call that is allowed once its tool has become another one, or none; and what was asked."""

    async def change(*become: Tool) -> tuple[ApprovalRequest, asyncio.Task[ToolExecutionResult]]:
        engine = make(queue)
        engine.register_tool(asking(), payments.pay)
        call = asyncio.create_task(engine.execute("pay"))
        request = await queue.wait_for_request()
        engine.unregister_tool("pay")
        for tool in become:
            engine.register_tool(tool, payments.pay)
        queue.allow(request.token)
        return request, call

    return change


async def test_a_definition_that_changes_meanwhile(
    allowed_after_a_change: Change, payments: Payments, queue: QueueApprover
) -> None:
    """X3: consent to what the tool was is none to what it is: somebody is asked again."""
    first, call = await allowed_after_a_change(asking(version="2.0.0"))
    second = await queue.wait_for_request()
    assert (first.tool_version, second.tool_version) == ("1.0.0", "2.0.0")
    assert payments.made == []
    queue.allow(second.token)
    assert (await call).is_success
    assert len(payments.made) == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_question_about_a_former_tool(
    make: MakeEngine, payments: Payments, queue: QueueApprover, is_cancelled: bool
) -> None:
    """Nothing waits for an answer to it: the question is put anew as soon as the tool changes."""
    engine = make(queue)
    engine.register_tool(asking(), payments.pay)
    call = asyncio.create_task(engine.execute("pay"))
    first = await queue.wait_for_request()
    engine.unregister_tool("pay")
    engine.register_tool(asking(version="2.0.0"), payments.pay)
    (present,) = await engine.calls.list()
    if is_cancelled:
        assert await engine.calls.cancel(present.call_id, "no longer")
        assert "no longer" in str((await call).error)
        assert queue.pending_approvals == []
        return
    second = await queue.wait_for_request()
    while second.token == first.token:
        await asyncio.sleep(0)
        second = await queue.wait_for_request()
    assert [each.token for each in queue.pending_approvals] == [second.token]
    assert (first.tool_version, second.tool_version) == ("1.0.0", "2.0.0")
    queue.allow(second.token)
    assert (await call).is_success
    assert len(payments.made) == 1


async def test_arguments_that_do_not_fit_any_more(
    allowed_after_a_change: Change, payments: Payments
) -> None:
    """X3: with a new definition the arguments are checked again."""
    _, call = await allowed_after_a_change(asking(parameters=TO))
    assert (await call).error_type == "validation_error"
    assert payments.made == []


async def test_a_tool_that_is_gone_meanwhile(
    allowed_after_a_change: Change, payments: Payments
) -> None:
    """X3: what is not there any more does not run."""
    _, call = await allowed_after_a_change()
    assert (await call).error_type == "tool_not_found"
    assert payments.made == []


async def test_the_engine_closes_meanwhile(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """C24: calls that wait for somebody end at once, and their requests are gone."""
    engine = make(queue)
    engine.register_tool(asking(execution="ask_once"), payments.pay)
    calls = [asyncio.create_task(engine.execute("pay")) for _ in range(3)]
    request = await queue.wait_for_request()
    began = asyncio.get_running_loop().time()
    await engine.close()
    for call in calls:
        result = await call
        assert result.error_type == "engine_closed"
    assert asyncio.get_running_loop().time() == began
    assert queue.pending_approvals == []
    assert request.tool_name == "pay"
    assert payments.made == []


async def test_the_engine_closes_in_another_thread(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """Whoever closes between two steps of a call closes this one, too, and may do so twice."""
    engine = make(queue)
    engine.register_tool(asking(), payments.pay)
    call = asyncio.create_task(engine.execute("pay"))
    await queue.wait_for_request()
    consents = engine._pipeline.consents
    consents.close()
    consents.close()
    assert (await call).error_type == "engine_closed"
    assert (await engine.execute("pay")).error_type == "engine_closed"
    assert queue.pending_approvals == payments.made == []


async def test_an_approver_that_closes_the_engine(make: MakeEngine, payments: Payments) -> None:
    """A yes that comes with the end of the engine is too late."""

    async def end(request: ApprovalRequest) -> bool:
        asyncio.get_running_loop().call_soon(engine._pipeline.close)
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            return True
        return False

    engine = make(CallbackApprover(end))
    engine.register_tool(asking(), payments.pay)
    assert (await engine.execute("pay")).error_type == "engine_closed"
    assert payments.made == []


async def test_an_approver_that_fails(make: MakeEngine, payments: Payments) -> None:
    """Whoever cannot answer has not consented."""

    def fail(request: ApprovalRequest) -> bool:
        raise OSError("api_key=sk-proj-abcdefghijklmnopqrstuvwx123456")

    engine = make(CallbackApprover(fail))
    engine.register_tool(asking(), payments.pay)
    with capture_logs():
        result = await engine.execute("pay")
    assert result.error_type == "execution_rejected"
    assert "OSError" in (result.error or "")
    assert "abcdefghijkl" not in (result.error or "")
    assert payments.made == []


async def test_a_scope_that_fails(make: MakeEngine, payments: Payments) -> None:
    """A conversation whose own code raises lets nothing run."""

    class Broken:
        def own(self, tool_name: str) -> None:
            return None

        async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> None:
            raise ZeroDivisionError("oops")

    engine = make(None)
    engine.register_tool(bare("pay"), payments.pay)
    with capture_logs() as logs:
        result = await engine.execute("pay", {}, ToolExecutionContext(scope=Broken()))
    assert result.error_type == "execution_rejected"
    assert "no approver could be asked for consent: ZeroDivisionError: oops" in (result.error or "")
    assert [each["event"] for each in logs] == ["consent_failed"]
    assert payments.made == []


async def test_asked_once_for_all_attempts(make: MakeEngine) -> None:
    """Consent is to the call, which may be tried again without another question."""
    asked: list[ApprovalRequest] = []
    runs: list[int] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    async def flaky() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise OSError("again")
        return "paid"

    engine = make(CallbackApprover(answer))
    retry = {"attempts": 3, "backoff": 0.5}
    engine.register_tool(asking("flaky", effect="read", retry=retry), flaky)
    assert (await engine.execute("flaky")).is_success
    assert len(asked) == 1
    assert len(runs) == 3


async def test_a_nested_call_is_asked_like_any_other(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """A tool cannot do by calling what a call may not do; its slot is parked meanwhile."""
    engine = make(queue)
    engine.register_tool(asking(), payments.pay)

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("pay")).error_type

    engine.register_tool(bare("outer"), outer)
    engine.register_tool(bare("other"), Payments().pay)
    call = asyncio.create_task(engine.execute("outer"))
    request = await queue.wait_for_request()
    metrics = engine.controller.get_metrics()
    assert (metrics.current_concurrent, metrics.parked) == (0, 1)
    assert (await engine.execute("other")).is_success
    queue.refuse(request.token)
    assert (await call).output == {"result": "execution_rejected"}
    assert payments.made == []


async def test_the_deadline_of_whoever_calls(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """A nested call waits for consent no longer than its caller may run."""
    engine = make(queue)
    engine.register_tool(asking(), payments.pay)

    async def outer(context: ToolExecutionContext) -> bool:
        return (await context.call("pay")).is_success

    engine.register_tool(bare("outer", timeout=2.0), outer)
    began = asyncio.get_running_loop().time()
    assert (await engine.execute("outer")).error_type == "timeout"
    assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)
    assert queue.pending_approvals == []


@pytest.mark.parametrize("way", ["workflow", "context.call", "engine.execute", "another context"])
async def test_what_a_conversation_forbids(make: MakeEngine, payments: Payments, way: str) -> None:
    """D19: no workflow, no tool, and no context of its own gets a call around a rule."""
    engine = make(None)
    engine.register_tool(bare("pay"), payments.pay)

    async def outer(context: ToolExecutionContext) -> bool:
        if way == "context.call":
            return (await context.call("pay")).is_success
        other = ToolExecutionContext(caller_id="me") if way == "another context" else None
        return (await engine.execute("pay", {}, other)).is_success

    engine.register_tool(bare("outer"), outer)
    steps = {"type": "workflow", "handler": "run_workflow", "steps": [{"id": "one", "tool": "pay"}]}
    engine.register_tool({**bare("flow"), "entry": steps})
    rules = [PermissionRule.parse("pay", Permission(execution="deny"))]  # type: ignore[arg-type]
    gate = ApprovalGate(
        ApprovalBook("s"), None, lambda tool, params: decide(tool.name, params, rules, [])
    )
    name = "flow" if way == "workflow" else "outer"
    result = await engine.execute(name, {}, ToolExecutionContext(scope=gate))
    assert not result.is_success or result.output == {"result": False}
    assert payments.made == []
    assert "execution_rejected" in [each.error_type for each in await engine.query_call_records()]
    assert (await engine.execute(name)).is_success
    assert len(payments.made) == 1


async def test_a_call_that_is_cancelled_meanwhile(
    make: MakeEngine, payments: Payments, queue: QueueApprover
) -> None:
    """An answer to a call that has ended finds nothing to allow."""
    engine = make(queue)
    engine.register_tool(asking(), payments.pay)
    call = asyncio.create_task(engine.execute("pay"))
    await queue.wait_for_request()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert queue.pending_approvals == []
    assert [each.error_type for each in await engine.query_call_records()] == ["cancelled"]
    assert payments.made == []


async def test_arguments_that_nobody_can_read(make: MakeEngine, payments: Payments) -> None:
    """What nests too deep to be shown is refused before anybody is asked, and does not run."""
    deep: dict[str, Any] = {}
    for _ in range(600):
        deep = {"x": deep}
    asked: list[ApprovalRequest] = []
    engine = make(CallbackApprover(asked.append))
    engine.register_tool(asking(parameters=TO), payments.pay)
    result = await engine.execute("pay", {"to": deep})
    assert result.error_type == "validation_error"
    assert "at most 64 levels of nesting" in str(result.error)
    assert asked == payments.made == []


def test_what_is_no_approver() -> None:
    """A mistake of the program shows when the engine is made, with the cure."""
    with pytest.raises(ConfigurationError, match=r"for a function write CallbackApprover"):
        ToolEngine(approver=lambda _: True)  # type: ignore[arg-type]


async def test_a_decision_of_another_kind(make: MakeEngine, payments: Payments) -> None:
    """A decision of no truth value cannot be made, so it allows nothing."""
    word: Any = "false"
    engine = make(CallbackApprover(lambda _: ApprovalDecision(is_approved=word)))
    engine.register_tool(asking(), payments.pay)
    with capture_logs():
        result = await engine.execute("pay")
    assert result.error_type == "execution_rejected"
    assert "is_approved must be True or False, got 'false'" in (result.error or "")
    assert payments.made == []


class AnsweringAtOnce:
    """A conversation that knows of some calls that they may run."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def own(self, tool_name: str) -> None:
        del tool_name

    def is_free(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal:
        self.asked.append(tool.name)
        return Refusal("execution_rejected", "no")


@pytest.mark.parametrize("answer", [True, False, 1, None, ValueError("broken")])
async def test_a_call_that_is_free(make: MakeEngine, payments: Payments, answer: Any) -> None:
    """A conversation that says at once that a call may run is not asked; only True says so."""
    engine = make(None)
    engine.register_tool(asking(), payments.pay)
    scope = AnsweringAtOnce(answer)
    result = await engine.execute("pay", None, ToolExecutionContext(scope=scope))
    assert result.is_success is (answer is True)
    assert scope.asked == ([] if answer is True else ["pay"])


async def test_nothing_is_free_once_the_engine_is_closed(
    make: MakeEngine, payments: Payments
) -> None:
    """A call that comes while the engine closes ends as `engine_closed`, whoever lets it run."""
    engine = make(None)
    engine.register_tool(asking(), payments.pay)
    scope = AnsweringAtOnce(True)
    context = ToolExecutionContext(scope=scope)
    assert (await engine.execute("pay", None, context)).is_success
    engine._pipeline.close()
    assert (await engine.execute("pay", None, context)).error_type == "engine_closed"
    assert payments.made == [None]
