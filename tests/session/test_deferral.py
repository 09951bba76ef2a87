"""What becomes of a call that was deferred, when things have changed meanwhile?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.approval.callback import CallbackApprover, DeferredApprover
from tool_engine.approval.queued import QueueApprover
from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import Permission
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, keep, prefix

ASK = Permission(execution="ask_always")  # type: ignore[arg-type] # it takes texts
ONCE = Permission(execution="ask_once")  # type: ignore[arg-type]
DENY = Permission(execution="deny")  # type: ignore[arg-type]
REVIEW = Permission(result="always")  # type: ignore[arg-type]
GROUP = ToolGroup(name="net", tools=("put",), permission=DENY, is_enabled=True)
NO = ApprovalDecision(is_approved=False, reason="hush")


def deferring(source: Any, **rules: Permission) -> ToolSession:
    return ToolSession(source, "s", ToolCallConfig(rules=rules), DeferredApprover())


async def token_of(session: ToolSession, name: str, **params: Any) -> str:
    return str((await session.execute(name, params)).approval_token)


async def test_turned_off_since(engine: ToolEngine) -> None:
    """S22: a tool that was turned off meanwhile does not run, whoever said yes."""
    session = deferring(engine, put=ASK)
    token = await token_of(session, "put", text="x")
    session.toolbox.set_tool_enabled("put", False)
    assert (await session.resume(token, True)).error_type == "rejected"
    approver = QueueApprover()
    session = ToolSession(engine, "t", ToolCallConfig(rules={"put": ASK}), approver)
    call = asyncio.create_task(session.execute("put", {"text": "x"}))
    async with asyncio.timeout(10):
        request = await approver.wait_for_request()
        session.toolbox.set_tool_enabled("put", False)
        approver.allow(request.token)
        assert (await call).error_type == "rejected"
    assert engine.puts == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("answers", ["itself", "parent"])
async def test_its_listener_hears_it(engine: ToolEngine, answers: str) -> None:
    """Whoever answers: it is the same call. That of the tool which called it is not its own."""

    @engine.tool(effect="write")
    async def work(context: ToolExecutionContext) -> None:
        """Says that it is done."""
        await context.report_progress(1, 1)

    @engine.tool(effect="write")
    async def detour(context: ToolExecutionContext) -> str:
        """Works by another tool."""
        return str((await context.call("work", {})).error_type)

    parent = ToolSession(engine, "s", ToolCallConfig(rules={"work": ASK}), DeferredApprover())
    session = parent.derive()
    by = {"parent": parent, "itself": session}[answers]
    heard: list[float] = []
    for name, expected in (("work", [1]), ("detour", [])):
        await session.execute(name, {}, on_progress=lambda progress: heard.append(progress.done))
        (request,) = parent.pending_approvals
        assert (await by.resume(request.token, True)).is_success
        assert heard == expected
        heard.clear()


@pytest.mark.parametrize("answers", ["parent", "sibling", "itself"])
@pytest.mark.parametrize("since", ["off", "group", "nested"])
async def test_the_session_that_asked_has_a_say(
    engine: ToolEngine, since: str, answers: str
) -> None:
    """S22: whoever answers for it, what a helper has turned off or forbids does not run."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        return str((await context.call("put", {"text": text})).error_type)

    auto = Permission(execution="auto")  # type: ignore[arg-type]
    config = ToolCallConfig(permission=ASK, rules={"detour": auto})
    parent = ToolSession(engine, "s", config, DeferredApprover())
    helper, sibling = parent.derive(), parent.derive()
    await helper.execute("detour" if since == "nested" else "put", {"text": "x"})
    (request,) = parent.pending_approvals
    if since == "off":
        helper.toolbox.set_tool_enabled("put", False)
    else:
        helper.toolbox.register_group(GROUP)
    by = {"parent": parent, "sibling": sibling, "itself": helper}[answers]
    result = await by.resume(request.token, True)
    assert result.error_type == ("rejected" if since == "off" else "execution_rejected")
    assert engine.puts == []  # type: ignore[attr-defined]
    # It is the helper's word alone.
    assert (await parent.resume(await token_of(parent, "put", text="y"), True)).is_success
    assert engine.puts == ["y"]  # type: ignore[attr-defined]


async def test_a_helper_forbids_an_approved_call_that_waits(engine: ToolEngine) -> None:
    """S22: also where it is turned off after the answer, before the call has its slot."""
    begun, go = asyncio.Event(), asyncio.Event()

    @engine.tool(effect="write", concurrency={"key": "tool", "key_limit": 1})
    async def only(text: str) -> str:
        """Waits."""
        begun.set()
        await go.wait()
        return text

    parent = deferring(engine, only=ASK)
    helper = parent.derive()
    first, second = [await token_of(helper, "only", text=text) for text in "ab"]
    queued = asyncio.Event()
    engine.subscribe(lambda _: queued.set(), ["execution_queued"])
    async with asyncio.timeout(10):
        running = asyncio.create_task(parent.resume(first, True))
        await begun.wait()
        waiting = asyncio.create_task(parent.resume(second, True))
        await queued.wait()
        helper.toolbox.set_tool_enabled("only", False)
        go.set()
        assert (await running).is_success
        assert (await waiting).error_type == "rejected"


async def test_forbidden_since(engine: ToolEngine) -> None:
    """X3: a yes is no way round what forbids the call meanwhile, such as a group's file."""
    approver = QueueApprover()
    config = ToolCallConfig(permission=ASK)
    session = ToolSession(engine, "s", config, DeferredApprover())
    token = await token_of(session, "put", text="x")
    other = ToolSession(engine, "t", config, approver)
    call = asyncio.create_task(other.execute("put", {"text": "x"}))
    async with asyncio.timeout(10):
        request = await approver.wait_for_request()
        engine.register_group(GROUP)
        approver.allow(request.token)
        assert (await call).error_type == "execution_rejected"
    assert (await session.resume(token, True)).error_type == "execution_rejected"
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_a_result_that_is_refused_is_of_a_call_that_ran(engine: ToolEngine) -> None:
    """S31: the model is not told that the call was not made, and there is one record of it."""
    session = deferring(engine, put=REVIEW)
    token = await token_of(session, "put", text="x")
    result = await session.resume(token, NO)
    assert (result.error_type, result.reject_reason) == ("result_rejected", "hush")
    assert "'put' has run" in str(result.error)
    assert [record.is_success for record in await engine.query_call_records()] == [True]


async def test_an_empty_result_is_said_to_be_empty(engine: ToolEngine) -> None:
    """S22: the model reads that the call ended, and that there is nothing to read."""

    @engine.tool(effect="write")
    async def quiet() -> str:
        """Says nothing."""
        return ""

    session = deferring(engine, quiet=ASK)
    token = await token_of(session, "quiet")
    assert (await session.resume(token, True)).is_success
    (told,) = session.take_news()
    assert told.endswith("has ended: its result is empty")


@pytest.mark.parametrize("permission", [ASK, REVIEW])
@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_silent_rule_keeps_the_reason(
    engine: ToolEngine, permission: Permission, is_gone: bool
) -> None:
    """U32: also of an answer that came later, and if the tool is gone."""
    session = deferring(engine, **{"put::SilentReject": permission})
    token = await token_of(session, "put", text="x")
    if is_gone:
        engine.unregister_tool("put")
    result = await session.resume(token, NO)
    assert "hush" not in f"{result} {session.take_news()}"


async def test_of_two_engines_the_one_that_was_asked_about_runs(engine: ToolEngine) -> None:
    """Issue point 3: what was approved is what runs, also if another tool is just like it."""
    puts: list[str] = []
    async with ToolEngine() as other:
        other.register_tool(engine.get_or_raise("put"), _into(puts))
        session = deferring(combine(prefix(engine, "a_"), prefix(other, "b_")), put=ASK)
        token = await token_of(session, "b_put", text="x")
        later = ToolSession.from_dict(json.loads(json.dumps(session.to_dict())), session.source)
        assert (await later.resume(token, True)).tool_name == "b_put"
    assert (puts, engine.puts) == (["x"], [])  # type: ignore[attr-defined]


async def test_nobody_guesses_which_tool_was_meant(engine: ToolEngine) -> None:
    """Of a call that a tool made nobody knows by which name it goes here."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        return str((await context.call("put", {"text": text})).error_type)

    session = deferring(combine(prefix(engine, "a_"), prefix(engine, "b_")), put=ASK)
    await session.execute("a_detour", {"text": "x"})
    (request,) = session.pending_approvals
    with pytest.raises(ApprovalError, match="'a_put', 'b_put' are the same"):
        await session.resume(request.token, True)
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_where_the_content_came_from_is_not_forgotten(engine: ToolEngine) -> None:
    """Labels: neither a helper, nor a tool in between, nor an older copy loses them."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        return str((await context.call("put", {"text": text})).error_type)

    session = deferring(engine, put=ASK)
    copy = ToolSession.from_dict(session.to_dict(), engine, DeferredApprover())
    child = session.derive()
    for caller, name in ((child, "put"), (session, "detour"), (session, "put")):
        await caller.execute("half", {"number": 5})
        (kept,) = [each.name for each in caller.variables if each.name.startswith("half")][-1:]
        await caller.execute(name, {"text": f"see $VAR_REF{{{{{kept}}}}}"})
        token = session.pending_approvals[-1].token
        result = await session.resume(token, True)
        labels = session.variables.get(str(result.result_variable)).labels
        assert "tool:half effect:read" in labels
    token = await token_of(session, "put", text="x")
    # What is not known is taken for what nobody accepts.
    copy.gate.book = session.gate.book
    result = await copy.resume(token, True)
    assert "unknown" in copy.variables.get(str(result.result_variable)).labels


async def test_a_hidden_tool_is_resumed(engine: ToolEngine) -> None:
    """A call that a tool made of one that the model is not told of goes on, too."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        return str((await context.call("put", {"text": text})).error_type)

    session = deferring(engine, put=ASK)
    session.toolbox.set_tool_enabled("put", False)
    await session.execute("detour", {"text": "x"})
    (request,) = session.pending_approvals
    assert (await session.resume(request.token, True)).is_success
    session = deferring(keep(engine, ["detour"]), put=ASK)
    await session.execute("detour", {"text": "y"})
    (request,) = session.pending_approvals
    with pytest.raises(ApprovalError):
        await session.resume(request.token, True)
    assert engine.puts == ["x"]  # type: ignore[attr-defined]


async def test_a_conversation_and_its_helpers_ask_once(engine: ToolEngine) -> None:
    """S19: calls that are alike wait for one answer, whoever of them makes them."""
    asked: list[ApprovalRequest] = []

    async def allow(request: ApprovalRequest) -> bool:
        asked.append(request)
        await asyncio.sleep(0)
        return True

    session = ToolSession(engine, "s", ToolCallConfig(rules={"put": ONCE}), CallbackApprover(allow))
    callers = [session, session.derive(), session.derive()]
    async with asyncio.timeout(10):
        await asyncio.gather(*(each.execute("put", {"text": "x"}) for each in callers))
    assert (len(asked), engine.puts) == (1, ["x"] * 3)  # type: ignore[attr-defined]


async def test_own_tools_of_one_name_share_no_run(engine: ToolEngine) -> None:
    """S35: two conversations' own tools are two, however alike their definitions are."""
    definition = {
        "name": "mine",
        "description": "Only here.",
        "effect": "read",
        "concurrency": {"collision": "single_flight"},
    }
    go = asyncio.Event()

    def made(text: str) -> Any:
        async def mine() -> str:
            await go.wait()
            return text

        return mine

    sessions = [ToolSession(engine, name) for name in ("a", "b")]
    for session in sessions:
        session.register_tool(definition, made(session.session_id))
    async with asyncio.timeout(10):
        calls = [asyncio.create_task(each.execute("mine")) for each in sessions]
        await asyncio.sleep(0)
        go.set()
        assert [(await each).final_text for each in calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({"concurrency": {"breaker": {"failures": 1, "reset_after": 60}}}, "circuit_open"),
        ({"rate": "1/h", "concurrency": {"queue_timeout": 0.001}}, "rate_limited"),
    ],
)
async def test_own_tools_of_one_name_share_no_limit(
    engine: ToolEngine, limits: dict[str, Any], refused: str
) -> None:
    """S35: what one conversation's tool has used up or broken is nothing to another one's; a
    helper, which has the very tool, gets no fresh allowance."""
    definition = {"name": "mine", "description": "Only here.", "effect": "read", **limits}

    def mine() -> str:
        raise ValueError("it broke")

    first, other = (ToolSession(engine, name) for name in ("a", "b"))
    for session in (first, other):
        session.register_tool(definition, mine)
    callers = (first, first, first.derive(tools=["mine"]), other, other)
    async with asyncio.timeout(10):
        ends = [(await each.execute("mine")).error_type for each in callers]
    assert ends == ["execution_error", refused, refused, "execution_error", refused]


async def test_own_tools_of_one_name_share_no_key(engine: ToolEngine) -> None:
    """S35: a call of one conversation's tool is in nobody else's way; the snapshot names both."""
    limits = {"key": "tool", "key_limit": 1, "collision": "reject"}
    definition = {"name": "mine", "description": "Only here.", "concurrency": limits}
    go, running = asyncio.Event(), asyncio.Semaphore(0)

    def made() -> Any:
        async def mine() -> None:
            running.release()
            await go.wait()

        return mine

    sessions = [ToolSession(engine, name) for name in ("a", "b")]
    for session in sessions:
        session.register_tool(definition, made())
    async with asyncio.timeout(10):
        calls = [asyncio.create_task(each.execute("mine")) for each in sessions]
        for _ in calls:
            await running.acquire()
        again = [(await each.execute("mine")).error_type for each in sessions]
        keys = engine.controller.snapshot().tool_keys["mine"]
        go.set()
        ends = [(await each).is_success for each in calls]
    assert (ends, again) == ([True, True], ["rejected", "rejected"])
    assert sorted(each["current"] for each in keys.values()) == [1, 1]


async def test_a_helper_has_no_more_time(engine: ToolEngine) -> None:
    """R13: never more means: also a call takes no longer than the conversation allows."""

    @engine.tool(effect="read")
    async def slow() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    session = ToolSession(engine, "s", ToolCallConfig(timeout=0.05))
    async with asyncio.timeout(10):
        assert (await session.derive(timeout=600).execute("slow")).error_type == "timeout"


async def test_who_leads_later_asks_for_what_the_tool_is_by_then(engine: ToolEngine) -> None:
    """Issue point 3: a call that shared a run may become the one that runs; consent to a definition
    that is no more is none."""
    definition = {
        "name": "shared",
        "version": "1.0.0",
        "description": "Waits.",
        "effect": "read",
        "concurrency": {"collision": "single_flight"},
    }
    asked: list[str] = []
    has_begun, is_asked = asyncio.Event(), asyncio.Event()

    async def allow(request: ApprovalRequest) -> bool:
        asked.append(request.tool_version)
        if len(asked) == 2:
            is_asked.set()
        return True

    session = ToolSession(engine, "s", ToolCallConfig(permission=ASK), CallbackApprover(allow))

    async def waits() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async def ends() -> str:
        return "new"

    engine.register_tool(definition, waits)
    async with asyncio.timeout(10):
        leader = asyncio.create_task(session.execute("shared"))
        await has_begun.wait()
        follower = asyncio.create_task(session.execute("shared"))
        await is_asked.wait()
        for _ in range(5):
            await asyncio.sleep(0)  # by then it waits for the leader
        engine.unregister_tool("shared")
        engine.register_tool({**definition, "version": "2.0.0"}, ends)
        leader.cancel()
        assert (await follower).final_text == "new"
    assert asked == ["1.0.0", "1.0.0", "2.0.0"]


async def test_what_expired_is_forgotten(engine: ToolEngine) -> None:
    """A conversation does not grow by what nobody ever answered."""
    session = deferring(engine, put=ASK)
    first = await token_of(session, "put", text="x")
    session.gate.book.withdraw(first)
    second = await token_of(session, "put", text="y")
    assert list(session.to_dict()["deferred"]) == [second]


async def test_what_is_open_is_not_counted_each_time(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is deferred does not look at each one that was deferred before it."""
    session = deferring(engine, put=ASK)
    looked: list[str] = []
    is_open = session.gate.book.is_open

    def looks(token: str) -> bool:
        looked.append(token)
        return is_open(token)

    monkeypatch.setattr(session.gate.book, "is_open", looks)
    for number in range(30):
        await token_of(session, "put", text=str(number))
    assert len(session.deferred) == 30
    assert len(looked) < 4 * 30


async def test_a_request_does_not_show_its_arguments(engine: ToolEngine) -> None:
    """A log of errors tells neither arguments nor the token."""
    session = deferring(engine, put=ASK)
    token = await token_of(session, "put", text="private")
    shown = repr(session.pending_approvals)
    assert shown.startswith("[<ApprovalRequest execution of 'put' 1.0.0, call call-")
    assert "private" not in shown
    assert token not in shown


@pytest.mark.parametrize("name", [None, [], {}, 5])
async def test_what_is_no_name_is_no_tool(engine: ToolEngine, name: Any) -> None:
    """Whatever a model or a program comes up with, the call ends with a result."""
    assert (await ToolSession(engine, "s").execute(name, {})).error_type == "tool_not_found"


def _into(puts: list[str]) -> Any:
    async def put(text: str) -> None:
        puts.append(text)

    return put
