"""Who consents to the calls of a conversation, and what becomes of a call that waits for it?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tests.session.catalogs import Catalog
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.approval.callback import CallbackApprover, DeferredApprover
from tool_engine.approval.queued import QueueApprover
from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.result import ResultStatus
from tool_engine.session.session import ToolSession

ASK = Permission(execution=ExecutionPolicy.ASK_ALWAYS)
ONCE = Permission(execution=ExecutionPolicy.ASK_ONCE)
AUTO = Permission(execution=ExecutionPolicy.AUTO)
DENY = Permission(execution=ExecutionPolicy.DENY)
REVIEW = Permission(result=ResultPolicy.ALWAYS)
ON_ERROR = Permission(result=ResultPolicy.ON_ERROR)


def asking(**rules: Permission) -> ToolCallConfig:
    return ToolCallConfig(rules=rules)


class Asked:
    """Answers what it is told to, and knows what it was asked."""

    def __init__(self, answer: bool | str = True) -> None:
        self.requests: list[ApprovalRequest] = []
        self.answer = answer

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
        self.requests.append(request)
        if self.answer is True:
            return ApprovalDecision(is_approved=True)
        return ApprovalDecision(is_approved=False, reason=str(self.answer or "") or None)


async def test_nobody_to_ask_is_a_refusal(engine: ToolEngine) -> None:
    """U34: no approver, and a policy that asks: refused."""
    session = ToolSession(engine, "s", asking(put=ASK))
    result = await session.execute("put", {"text": "x"})
    assert (result.status, engine.puts) == (ResultStatus.EXECUTION_REJECTED, [])  # type: ignore[attr-defined]


async def test_a_refusal_reaches_the_model_with_its_reason(engine: ToolEngine) -> None:
    """S26: the reason goes back; a silent rule keeps it."""
    session = ToolSession(engine, "s", asking(put=ASK), Asked("too early"))
    result = await session.execute("put", {"text": "x"})
    assert (result.error_type, result.reject_reason) == ("execution_rejected", "too early")
    assert "too early" in (result.final_text or "")
    silent = ToolCallConfig(rules={"put::SilentReject": ASK})
    session = ToolSession(engine, "s", silent, Asked("too early"))
    result = await session.execute("put", {"text": "x"})
    assert "too early" not in f"{result.final_text} {result.error} {result.metadata}"


@pytest.mark.parametrize("kind", ["execution", "result"])
@pytest.mark.parametrize("part", ["approver", "storage"])
async def test_what_somebody_fails_with_is_silent_too(
    engine: ToolEngine, kind: str, part: str
) -> None:
    """S26: a silent rule keeps it from the model, whatever of the asking fails."""

    class Fails:
        async def approve(self, request: ApprovalRequest) -> ApprovalDecision:
            raise ValueError("vault on host 10.1.2.3")

        async def remembered(self, *_: object) -> None:
            raise ValueError("vault on host 10.1.2.3")

        put = remembered

    said = Permission(
        execution=ExecutionPolicy.ASK_ONCE if kind == "execution" else None,
        result=ResultPolicy.ALWAYS if kind == "result" else None,
    )
    for rule in ("put::SilentReject", "put"):
        approver: Any = DeferredApprover() if part == "storage" else Fails()
        session = ToolSession(engine, "s", ToolCallConfig(rules={rule: said}), approver)
        if part == "storage":
            session.gate.book.storage = Fails()  # type: ignore[assignment]
        result = await session.execute("put", {"text": "x"})
        assert result.error_type in ("execution_rejected", "result_rejected")
        shown = f"{result.final_text} {result.error} {result.metadata} {result.reject_reason}"
        assert ("vault" in shown) is (rule == "put"), shown


async def test_who_is_asked_sees_what_will_run(engine: ToolEngine) -> None:
    """S25: references are replaced, and defaults filled in, before anybody is asked."""
    approver = Asked()
    session = ToolSession(engine, "s", asking(put=ASK), approver)
    await session.execute("numbers", {"count": 3})
    result = await session.execute("put", {"text": "<$VAR_REF{{numbers_1_result:0}}>"})
    assert result.is_success
    (request,) = approver.requests
    assert request.params == {"text": "<[0, 1, 2]>"}
    assert (request.tool_name, request.session_id, request.kind) == ("put", "s", "execution")


async def test_what_is_most_specific_decides(engine: ToolEngine) -> None:
    """X3: rule, then tool, then definition, then group, then session."""
    approver = Asked()
    declared = msgspec.structs.replace(
        engine.get_or_raise("half"), name="careful", permission=ASK, definition_hash="c"
    )
    engine.register_tool(declared)
    group = ToolGroup(name="math", tools=("half", "careful"), permission=DENY, is_enabled=True)

    def session(**settings: Any) -> ToolSession:
        made = ToolSession(engine, "s", ToolCallConfig(**settings), approver)
        made.toolbox.register_group(group)
        return made

    async def runs(made: ToolSession, name: str = "half") -> bool:
        return (await made.execute(name, {"number": 1})).is_success

    assert not await runs(session())
    assert await runs(session(), "careful")
    assert len(approver.requests) == 1
    assert await runs(session(group_permissions={"math": AUTO}))
    assert await runs(session(tool_permissions={"half": AUTO}))
    assert await runs(session(rules={"half:number=1": AUTO}, tool_permissions={"half": DENY}))
    assert not await runs(session(rules={"half:number=1": DENY}, tool_permissions={"half": AUTO}))
    assert len(approver.requests) == 1


@pytest.mark.parametrize("settings", [{"mode": "manual"}, {"require_confirmation": True}])
async def test_whoever_wants_to_be_asked_is_asked(
    engine: ToolEngine, settings: dict[str, Any]
) -> None:
    """A6, A10, X3: asked before each call, also of tools that their authors call harmless."""
    approver = Asked()
    free = msgspec.structs.replace(
        engine.get_or_raise("half"), name="free", permission=AUTO, definition_hash="f"
    )
    engine.register_tool(free)
    session = ToolSession(engine, "s", ToolCallConfig(**settings), approver)
    await session.execute("half", {"number": 1})
    await session.execute("free", {"number": 1})
    assert len(approver.requests) == 2
    # What the conversation keeps for itself is nobody's to allow, unless a rule says so.
    assert (await session.execute("list_vars", {})).is_success
    assert len(approver.requests) == 2


async def test_asked_once_for_the_same_call(engine: ToolEngine) -> None:
    """S19: the same tool with the same arguments; other arguments are another question."""
    approver = Asked()
    session = ToolSession(engine, "s", asking(put=ONCE), approver)
    for text in ("x", "x", "y", "x"):
        await session.execute("put", {"text": text})
    assert [request.params["text"] for request in approver.requests] == ["x", "y"]
    other = ToolSession(engine, "other", asking(put=ONCE), approver)
    await other.execute("put", {"text": "x"})
    assert len(approver.requests) == 3


async def test_a_queue_answers_for_a_user_interface(engine: ToolEngine) -> None:
    """S34: pending requests are listed, and answered by token; nobody holds a slot meanwhile."""
    approver = QueueApprover()
    session = ToolSession(engine, "s", asking(put=ASK), approver)
    call = asyncio.create_task(session.execute("put", {"text": "x"}))
    async with asyncio.timeout(10):
        request = await approver.wait_for_request()
        assert session.pending_approvals == [request]
        assert engine.controller.get_metrics().current_concurrent == 0
        approver.allow(request.token)
        assert (await call).is_success
    assert session.pending_approvals == []


async def test_a_result_may_be_withheld(engine: ToolEngine) -> None:
    """S31, U35: the program has the data; the model has neither text nor variable."""
    approver = Asked("private")
    session = ToolSession(engine, "s", asking(half=REVIEW), approver)
    result = await session.execute("half", {"number": 5})
    assert (result.status, result.final_text) == (ResultStatus.RESULT_REJECTED, None)
    assert (result.output, result.formatted_text) == ({"result": 2.5}, "2.5")
    assert approver.requests[0].result == "2.5"
    assert len(session.variables) == 0
    cycle = await session.process(_call("half", {"number": 5}), "openai")
    assert "2.5" not in json.dumps(cycle.messages[1:])
    (record, *_) = await engine.query_call_records()
    assert record.is_success


@pytest.mark.parametrize("value", ["x", ["x"]])
async def test_a_tool_cannot_change_what_its_result_is_judged_by(
    engine: ToolEngine, value: Any
) -> None:
    """S31: rules about results are about what the tool was called with, whatever it made of it."""

    def take(params: dict[str, Any]) -> str:
        if isinstance(params["value"], list):
            params["value"].clear()
        params["value"] = "harmless"
        return "taken"

    class Taking:
        is_async = True

        async def execute(self, tool: Tool, params: dict[str, Any], context: Any) -> str:
            return take(params)

    engine.register_executor("take", Taking())
    any_value = {"name": "value", "type": "string", "description": "V", "required": True}
    if isinstance(value, list):
        any_value |= {"type": "array", "items": {"type": "string"}}
    engine.register_tool(
        {"name": "take", "description": "Takes a value.", "parameters": [any_value]}
        | {"version": "1.0.0", "category": "custom", "entry": {"type": "custom", "handler": "take"}}
    )
    asked = Asked(False)
    session = ToolSession(engine, "s", ToolCallConfig(rules={"take:value=*x*": REVIEW}), asked)
    result = await session.execute("take", {"value": value})
    assert result.error_type == "result_rejected"
    assert [each.params for each in asked.requests] == [{"value": value}]


async def test_a_tool_that_is_turned_off_on_the_way(engine: ToolEngine) -> None:
    """S22: what is turned off before a call may run does not run, though nobody is asked."""

    class Waiting(Catalog):
        generation = 1

        def refuse(self, *call: Any) -> Any:
            return engine.refuse(*call)

        async def execute(self, tool_name: str, params: Any, context: Any, /) -> Any:
            await asyncio.sleep(0)
            if params["text"] == "b":
                session.toolbox.set_tool_enabled("put", False)
            return await engine.execute(tool_name, params, context)

    session = ToolSession(Waiting(engine.index.get_or_raise("put")), "s")
    assert (await session.execute("put", {"text": "a"})).is_success
    refused = await session.execute("put", {"text": "b"})
    assert (refused.error_type, engine.puts) == ("rejected", ["a"])  # type: ignore[attr-defined]


async def test_what_holds_for_many_own_forms_of_a_tool(engine: ToolEngine) -> None:
    """X3: whatever is known of tools that were asked about before, each is judged by itself."""
    session = ToolSession(engine, "s", ToolCallConfig(rules={"half": DENY}))
    half = engine.index.get_or_raise("half")
    for number in range(600):
        free = msgspec.structs.replace(half, name=f"half_{number}")
        assert session.policy.decide(free, {}).execution is ExecutionPolicy.AUTO
    assert session.policy.decide(half, {}).execution is ExecutionPolicy.DENY
    assert len(session.policy._known) < 600, "not all of them are remembered"


async def test_of_many_rules_those_about_the_tool_are_kept(engine: ToolEngine) -> None:
    """X3: thousands of rules about other tools cost a call nothing, whatever the tool is called."""
    rules = {f"tool_{number}": DENY for number in range(500)} | {"ha*": ASK, "half:number=1": AUTO}
    approver = Asked(False)
    session = ToolSession(engine, "s", ToolCallConfig(rules=rules), approver)
    assert (await session.execute("half", {"number": 1})).is_success
    assert (await session.execute("half", {"number": 2})).error_type == "execution_rejected"
    assert [each.params for each in approver.requests] == [{"number": 2}]
    ((said,),) = session.policy._known.values()
    assert [each.text for each in said.rules] == ["ha*", "half:number=1"]
    session.toolbox.config = ToolCallConfig(rules={"half": DENY})
    assert (await session.execute("half", {"number": 1})).error_type == "execution_rejected"


async def test_a_failure_may_be_withheld(engine: ToolEngine) -> None:
    """U35: on_error asks about failures, and only about these."""
    approver = Asked("ugly")
    config = ToolCallConfig(permission=ON_ERROR)
    session = ToolSession(engine, "s", config, approver)
    assert (await session.execute("half", {"number": 5})).is_success
    result = await session.execute("fail")
    assert (result.error_type, result.final_text) == ("result_rejected", None)
    assert "no luck" not in str(result.error)
    assert len(approver.requests) == 1


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    called = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": called}],
    }


async def test_deferred_and_resumed(engine: ToolEngine) -> None:
    """Issue point 3: the call ends as approval_required, and goes on with the token, once."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    result = await session.execute("put", {"text": "x"})
    assert (result.error_type, result.outcome.value) == ("approval_required", "rejected")
    token = str(result.approval_token)
    assert [each.token for each in session.pending_approvals] == [token]
    resumed = await session.resume(token, True)
    assert (resumed.is_success, resumed.final_text) == (True, "put x")
    later = ToolSession.from_dict(session.to_dict(), engine)
    assert later.take_news() == ["The call of put that waited for consent has ended: put x"]
    assert later.take_news() == []
    with pytest.raises(ApprovalError, match="no approval is awaited"):
        await session.resume(token, True)
    assert engine.puts == ["x"]  # type: ignore[attr-defined]
    again = await session.execute("put", {"text": "x"})
    assert again.error_type == "approval_required"


async def test_deferred_and_refused(engine: ToolEngine) -> None:
    """The model is told why; the call has one record of its own."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    result = await session.execute("put", {"text": "x"})
    refusal = ApprovalDecision(is_approved=False, reason="no")
    ended = await session.resume(str(result.approval_token), refusal)
    assert (ended.error_type, ended.reject_reason) == ("execution_rejected", "no")
    records = await engine.query_call_records()
    assert [record.error_type for record in records] == ["execution_rejected", "approval_required"]
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_what_was_put_in_is_not_expanded_again(engine: ToolEngine) -> None:
    """U37: a call that is resumed runs with exactly what was shown."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    await session.execute("half", {"number": 5})
    result = await session.execute("put", {"text": "$$VAR_REF{{half_1_result}}"})
    await session.resume(str(result.approval_token), True)
    assert engine.puts == ["$VAR_REF{{half_1_result}}"]  # type: ignore[attr-defined]


async def test_a_deferred_result(engine: ToolEngine) -> None:
    """What was withheld until somebody looked is read as it was."""
    session = ToolSession(engine, "s", asking(half=REVIEW), DeferredApprover())
    result = await session.execute("half", {"number": 5})
    assert (result.error_type, result.final_text) == ("approval_required", None)
    released = await session.resume(str(result.approval_token), True)
    assert (released.is_success, released.final_text) == (True, "2.5")


async def test_a_deferred_result_is_whole(engine: ToolEngine) -> None:
    """S29, S31: what is read later on is what would have been read at once, variables as well; a
    no leaves it to the program."""
    session = ToolSession(engine, "s", asking(half=REVIEW), DeferredApprover())
    first, second = [await session.execute("half", {"number": 5}) for _ in range(2)]
    # It has run: nobody may take it for a call that has not.
    assert first.status is ResultStatus.RESULT_REJECTED
    read = await session.resume(str(first.approval_token), True)
    assert (read.status, read.output) == (ResultStatus.SUCCESS, {"result": 2.5})
    assert session.variables.get(str(read.result_variable)).value == 2.5
    kept = await session.resume(str(second.approval_token), "not yours")
    assert (kept.status, kept.reject_reason) == (ResultStatus.RESULT_REJECTED, "not yours")
    assert (kept.output, kept.final_text, kept.result_variable) == ({"result": 2.5}, None, None)


@pytest.mark.parametrize("is_later", [False, True])
async def test_a_deferred_failure(engine: ToolEngine, is_later: bool) -> None:
    """U35: a failure that somebody lets be read is a failure, in another process as well."""
    session = ToolSession(engine, "s", asking(fail=ON_ERROR), DeferredApprover())
    result = await session.execute("fail")
    if is_later:
        session = ToolSession.from_dict(json.loads(json.dumps(session.to_dict())), engine)
    read = await session.resume(str(result.approval_token), True)
    assert (read.is_success, read.error_type) == (False, "execution_error")
    assert read.status is ResultStatus.ERROR
    assert read.final_text == read.error == result.formatted_text


async def test_a_deferred_result_in_another_process(engine: ToolEngine) -> None:
    """S31: what was to be read is kept with the request, and nothing else of the result."""
    session = ToolSession(engine, "s", asking(half=REVIEW), DeferredApprover())
    tokens = [str((await session.execute("half", {"number": 5})).approval_token) for _ in range(2)]
    later = ToolSession.from_dict(json.loads(json.dumps(session.to_dict())), engine)
    read = await later.resume(tokens[0], True)
    assert (read.status, read.final_text) == (ResultStatus.SUCCESS, "2.5")
    kept = await later.resume(tokens[1], "not yours")
    assert (kept.status, kept.reject_reason) == (ResultStatus.RESULT_REJECTED, "not yours")
    assert (kept.final_text, kept.output) == (None, {})


@pytest.mark.parametrize("answer", [1, None, {"is_approved": True}, object()])
async def test_what_is_no_answer(engine: ToolEngine, answer: Any) -> None:
    """It is told, and the request waits on; a text is the reason of a refusal."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    token = str((await session.execute("put", {"text": "x"})).approval_token)
    with pytest.raises(ApprovalError, match="is no answer"):
        await session.resume(token, answer)
    assert [each.token for each in session.pending_approvals] == [token]
    refused = await session.resume(token, "Not today.")
    assert (refused.error_type, refused.reject_reason) == ("execution_rejected", "Not today.")


def test_an_approver_that_is_none(engine: ToolEngine) -> None:
    """What cannot be asked is told when it is passed."""
    with pytest.raises(ConfigurationError, match="write CallbackApprover"):
        ToolSession(engine, "s", approver=lambda request: True)  # type: ignore[arg-type]


async def test_a_tool_that_goes_while_somebody_is_asked(engine: ToolEngine) -> None:
    """A yes to what is gone meanwhile is told so."""

    def answer(request: ApprovalRequest) -> bool:
        engine.unregister_tool("put")
        return True

    session = ToolSession(engine, "s", asking(put=ASK), CallbackApprover(answer))
    result = await session.execute("put", {"text": "x"})
    assert (result.status, engine.puts) == (ResultStatus.NOT_FOUND, [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("permission", "ends", "said"),
    [
        (REVIEW, "result_rejected", "nest too deep"),
        # They are no text: what the tool would have been allowed is no matter.
        (Permission(execution=ExecutionPolicy.DENY), "validation_error", "text"),
    ],
)
async def test_arguments_that_nest_too_deep(
    engine: ToolEngine, permission: Permission, ends: str, said: str
) -> None:
    """A model that sends a thousand brackets gets a result, and no rule lets them through."""
    text: Any = "x"
    for _ in range(5000):
        text = [text]
    session = ToolSession(engine, "s", ToolCallConfig(rules={"put:text=x": permission}), Asked())
    result = await session.execute("put", {"text": text})
    assert (result.error_type, engine.puts) == (ends, [])  # type: ignore[attr-defined]
    assert said in str(result.error)


async def test_two_answers_at_once(engine: ToolEngine) -> None:
    """A token is good for one answer, whoever is quicker."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    result = await session.execute("put", {"text": "x"})
    token = str(result.approval_token)
    ends = await asyncio.gather(
        *(session.resume(token, True) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(end, ApprovalError) for end in ends) == 4
    assert engine.puts == ["x"]  # type: ignore[attr-defined]


async def test_an_answer_after_the_definition_changed(engine: ToolEngine) -> None:
    """Consent is bound to the definition: another one is another question."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    result = await session.execute("put", {"text": "x"})
    old = engine.get_or_raise("put")
    engine.unregister_tool("put")
    engine.register_tool(msgspec.structs.replace(old, version="2.0.0", definition_hash="new"))
    with pytest.raises(ApprovalError, match="not what was approved"):
        await session.resume(str(result.approval_token), True)
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_an_answer_after_the_tool_is_gone(engine: ToolEngine) -> None:
    """A refusal is taken in any case; a yes is not."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    tokens = [
        str((await session.execute("put", {"text": text})).approval_token) for text in ("x", "y")
    ]
    engine.unregister_tool("put")
    with pytest.raises(ApprovalError):
        await session.resume(tokens[0], True)
    refused = await session.resume(tokens[1], False)
    assert refused.error_type == "execution_rejected"


async def test_an_answer_in_another_process(engine: ToolEngine) -> None:
    """The conversation goes on from JSON: with its open request, and what was put in."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    result = await session.execute("put", {"text": "x"})
    data = json.loads(json.dumps(session.to_dict()))
    later = ToolSession.from_dict(data, engine)
    resumed = await later.resume(str(result.approval_token), True)
    assert resumed.is_success
    assert engine.puts == ["x"]  # type: ignore[attr-defined]


async def test_an_answer_where_no_storage_knows_of_it(engine: ToolEngine) -> None:
    """X3: the data of the conversation is enough, also for an engine that keeps nothing; there as
    well a request is answered once, whatever copies of the data there are."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    token = str((await session.execute("put", {"text": "x"})).approval_token)
    data = json.dumps(session.to_dict())
    put = engine.get_or_raise("put")
    async with ToolEngine(engine.config) as other:
        # Consent is to this code, and to no other under the same definition.
        other.register_executor("put", engine._registry.get("put"))  # type: ignore[arg-type]
        other.register_tool(put)
        copies = [ToolSession.from_dict(json.loads(data), other) for _ in range(2)]
        assert (await copies[0].resume(token, True)).is_success
        with pytest.raises(ApprovalError, match="answered or withdrawn before"):
            await copies[1].resume(token, True)


async def test_another_session_cannot_answer(engine: ToolEngine) -> None:
    """S35: a token is good in its own conversation only."""
    session = ToolSession(engine, "s", asking(put=ASK), DeferredApprover())
    result = await session.execute("put", {"text": "x"})
    other = ToolSession(engine, "other", asking(put=ASK), DeferredApprover())
    with pytest.raises(ApprovalError):
        await other.resume(str(result.approval_token), True)
    assert (await session.resume(str(result.approval_token), True)).is_success


async def test_a_cancelled_call_leaves_no_request(engine: ToolEngine) -> None:
    """An answer after the cancel changes nothing, and says so."""
    approver = QueueApprover()
    session = ToolSession(engine, "s", asking(put=ASK), approver)
    call = asyncio.create_task(session.execute("put", {"text": "x"}))
    async with asyncio.timeout(10):
        request = await approver.wait_for_request()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert session.pending_approvals == []
    with pytest.raises(ApprovalError):
        approver.allow(request.token)
    (record,) = await engine.query_call_records()
    assert record.error_type == "cancelled"


async def test_a_reload_while_somebody_is_asked(engine: ToolEngine) -> None:
    """Issue point 3: asked again when the definition changed meanwhile."""
    asked: list[ApprovalRequest] = []
    old = engine.get_or_raise("put")

    async def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        if len(asked) == 1:
            engine.unregister_tool("put")
            new = msgspec.structs.replace(old, version="2.0.0", definition_hash="new")
            engine.register_tool(new, _put_anew)
        return True

    session = ToolSession(engine, "s", asking(put=ASK), CallbackApprover(ask))
    result = await session.execute("put", {"text": "x"})
    assert [each.tool_version for each in asked] == ["1.0.0", "2.0.0"]
    assert result.final_text == "anew x"


async def _put_anew(text: str) -> str:
    return f"anew {text}"


async def test_before_each_call_of_a_reply(engine: ToolEngine) -> None:
    """A29: the hook of the cycle is asked besides what the settings say."""
    session = ToolSession(engine, "s")
    cycle = await session.process_cycle(
        "<<<[TOOL_REQUEST]>>>\ntool_name:「始」half「末」\nnumber:「始」5「末」\n"
        "<<<[END_TOOL_REQUEST]>>>",
        {"protocol": "vcp", "language": "zh"},
        lambda call, tool: False,
    )
    assert "用户未授权" in str(cycle.execution_results[0].error)


REQUEST = (
    "<<<[TOOL_REQUEST]>>>\ntool_name:「始」{}「末」\ntext:「始」x「末」\n<<<[END_TOOL_REQUEST]>>>"
)


@pytest.mark.parametrize("answer", [True, None, False, "no"])
async def test_the_hook_is_the_consent_where_nobody_else_is_asked(
    engine: ToolEngine, answer: Any
) -> None:
    """A10, A29: its True, and nothing else; for the call that it was asked about, and no other."""
    config = ToolCallConfig(require_confirmation=True)
    session = ToolSession(engine, "s", config)
    cycle = await session.process_cycle(REQUEST.format("put"), None, lambda call, tool: answer)
    assert cycle.execution_results[0].is_success is (answer is True)
    assert not (await session.execute("put", {"text": "y"})).is_success
    assert engine.puts == ["x"] * (answer is True)  # type: ignore[attr-defined]


async def test_the_hook_allows_nothing_that_is_denied(engine: ToolEngine) -> None:
    """X3, A29: nor what the tool calls in its turn, nor beside an approver that says no."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        return str((await context.call("put", {"text": text})).error_type)

    def yes(call: Any, tool: Any) -> bool:
        return True

    denied = ToolSession(engine, "a", asking(put=DENY))
    cycle = await denied.process_cycle(REQUEST.format("put"), None, yes)
    assert cycle.execution_results[0].error_type == "execution_rejected"
    nested = ToolSession(engine, "b", ToolCallConfig(require_confirmation=True))
    cycle = await nested.process_cycle(REQUEST.format("detour"), None, yes)
    assert cycle.execution_results[0].output == {"result": "execution_rejected"}
    refused = ToolSession(engine, "c", asking(put=ASK), Asked("no"))
    cycle = await refused.process_cycle(REQUEST.format("put"), None, yes)
    assert not cycle.execution_results[0].is_success
    assert engine.puts == []  # type: ignore[attr-defined]
