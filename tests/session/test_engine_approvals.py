"""Does the program that serves an engine see and answer all that people are asked there?"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ApprovalDecision,
    CallbackApprover,
    DeferredApprover,
    QueueApprover,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.errors import ApprovalError, ConfigurationError, EngineClosedError
from tool_engine.model.approval import ApprovalRequest
from tool_engine.sources.composition import combine, prefix

ONCE, EACH_TIME = {"put": "ask_once"}, {"put": "ask_always"}
BOUND = 30.0


class Forever:
    """Answers when its wait ends, which it never does by itself."""

    def __init__(self) -> None:
        self.ended = 0

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1
        return None


async def engine_of(path: Path, approver: Any = None, **config: Any) -> ToolEngine:
    """An engine with the tool `put`, which notes what it is given."""
    await asyncio.to_thread(path.mkdir, exist_ok=True)
    engine = ToolEngine(
        ToolEngineConfig(tools_directory=str(path), auto_reload=False, **config), approver=approver
    )
    await engine.load()
    puts: list[str] = []
    engine.puts = puts  # type: ignore[attr-defined]
    definition = {
        "name": "put",
        "description": "Puts a text.",
        "permission": "ask_once",
        "parameters": [
            {"name": "text", "type": "string", "required": True, "description": "A text"}
        ],
    }

    def put(text: str) -> None:
        puts.append(text)

    engine.register_tool(definition, put)
    return engine


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    made = await engine_of(tmp_path / "tools", Forever())
    yield made
    await made.close()


async def one_request(engine: ToolEngine) -> ApprovalRequest:
    """Waits until there is one open request."""
    async with asyncio.timeout(BOUND):
        while True:
            for request in await engine.approvals.pending():
                return request
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["queue", "callback", "engine", "derived"])
async def test_a_call_that_waits_is_answered(tmp_path: Path, kind: str) -> None:
    """Whatever asks: the first answer counts, the approver's wait ends, a second is an error."""
    approver: Any = QueueApprover() if kind == "queue" else Forever()
    engine = await engine_of(tmp_path / "tools", approver)
    session = ToolSession(engine, "s", approver=approver)
    source: Any = {"engine": engine, "derived": session.derive()}.get(kind, session)
    call = asyncio.create_task(source.execute("put", {"text": "a"}))
    request = await one_request(engine)
    assert await engine.approvals.get(request.token) == request
    answered = await engine.approvals.answer(request.token, True, by="op")
    assert (answered.request, answered.decision.by, answered.result) == (request, "op", None)
    assert (await call).is_success
    assert engine.puts == ["a"]  # type: ignore[attr-defined]
    with pytest.raises(ApprovalError, match="no request of this engine waits"):
        await engine.approvals.answer(request.token, True)
    assert await engine.approvals.pending() == []
    assert kind == "queue" or approver.ended == 1
    await engine.close()


async def test_a_refusal_has_its_reason(engine: ToolEngine) -> None:
    """What the page says is what the model reads."""
    call = asyncio.create_task(engine.execute("put", {"text": "a"}))
    request = await one_request(engine)
    await engine.approvals.answer(request.token, "not today")
    result = await call
    assert result.error_type == "execution_rejected"
    assert str(result.error).endswith("not today")


@pytest.mark.parametrize("approver", [Forever, QueueApprover])
async def test_of_many_answers_the_first_counts(tmp_path: Path, approver: Any) -> None:
    """From many threads at once: one succeeds, and its word is what the call does."""
    asked = approver()
    engine = await engine_of(tmp_path / "tools", asked)
    for number in range(10):
        text = f"{number}"
        call = asyncio.create_task(engine.execute("put", {"text": text}))
        request = await one_request(engine)
        taken: list[str] = []

        def answer(name: str, token: str = request.token, taken: list[str] = taken) -> None:
            said = ApprovalDecision(is_approved=name == "yes", reason=name, by=name)
            try:
                asyncio.run(engine.approvals.answer(token, said))
            except ApprovalError:
                return
            taken.append(name)

        threads = [threading.Thread(target=answer, args=(each,)) for each in ("yes", "no", "nay")]
        for each in threads:
            each.start()
        result = await call
        for each in threads:
            await asyncio.to_thread(each.join)
        assert len(taken) == 1
        assert result.is_success is (taken == ["yes"])
        assert taken[0] in ("yes", str(result.error).rpartition(": ")[2])
    await engine.close()


async def test_a_deferred_call_goes_on_in_its_session(engine: ToolEngine) -> None:
    """A yes runs it here, once, and its model learns of it; a late answer runs nothing."""
    session = ToolSession(engine, "s", approver=DeferredApprover())
    first = await session.execute("put", {"text": "a"})
    second = await session.execute("put", {"text": "b"})
    tokens = [each.token for each in await engine.approvals.pending()]
    assert tokens == [first.approval_token, second.approval_token]
    answered = await engine.approvals.answer(tokens[0], True, by="op")
    assert answered.result.is_success
    refused = await engine.approvals.answer(tokens[1], False)
    assert refused.result.error_type == "execution_rejected"
    assert len(session.take_news()) == 2
    assert engine.puts == ["a"]  # type: ignore[attr-defined]
    for token in tokens:
        with pytest.raises(ApprovalError):
            await engine.approvals.answer(token, True)


async def test_a_session_that_is_not_here(tmp_path: Path) -> None:
    """It is listed, cannot be answered without its session, stays open, and the cure works."""
    url = f"sqlite:///{tmp_path}/calls.db"
    there = await engine_of(tmp_path / "tools", records=url)
    here = await engine_of(tmp_path / "tools", records=url)
    session = ToolSession(there, "s", approver=DeferredApprover())
    token = str((await session.execute("put", {"text": "a"})).approval_token)
    await session.save()
    for decision in (True, False):
        with pytest.raises(ApprovalError, match=r"ToolSession\.restore"):
            await here.approvals.answer(token, decision)
    assert [each.token for each in await here.approvals.pending()] == [token]
    restored = await ToolSession.restore(here, "s")
    assert restored is not None
    answered = await here.approvals.answer(token, True)
    assert answered.result.is_success
    assert here.puts == ["a"]  # type: ignore[attr-defined]
    # The one that asked has it still, and says that it is over.
    assert await there.approvals.pending() == []
    with pytest.raises(ApprovalError):
        await there.approvals.answer(token, True)
    assert there.puts == []  # type: ignore[attr-defined]
    await here.close()
    await there.close()


async def test_each_engine_has_its_own(tmp_path: Path) -> None:
    """Of a conversation over two engines, each lists and answers what is about its tools."""
    queue = QueueApprover()
    one, other = [await engine_of(tmp_path / each, queue) for each in ("one", "other")]
    both = combine(prefix(one, "a_"), prefix(other, "b_"))
    session = ToolSession(both, "s", approver=queue)
    call = asyncio.create_task(session.execute("b_put", {"text": "x"}))
    request = await one_request(other)
    assert await one.approvals.pending() == []
    with pytest.raises(ApprovalError, match="no request of this engine"):
        await one.approvals.answer(request.token, True)
    await other.approvals.answer(request.token, True)
    assert (await call).is_success
    assert (one.puts, other.puts) == ([], ["x"])  # type: ignore[attr-defined]
    for each in (one, other):
        await each.close()


async def test_results_are_listed_too(engine: ToolEngine) -> None:
    """A result that a person must see first is answered in the same list."""
    config = ToolCallConfig.from_dict({"rules": {"put": {"execution": "auto", "result": "always"}}})
    session = ToolSession(engine, "s", config, Forever())
    call = asyncio.create_task(session.execute("put", {"text": "a"}))
    request = await one_request(engine)
    assert (request.kind, request.engine) == ("result", engine.approvals.engine_text)
    await engine.approvals.answer(request.token, False)
    assert (await call).error_type == "result_rejected"


async def test_a_call_that_ends_takes_its_request_along(engine: ToolEngine) -> None:
    """Cancelled or closed: nothing is listed, and an answer is an error that says so."""
    call = asyncio.create_task(engine.execute("put", {"text": "a"}))
    request = await one_request(engine)
    call.cancel()
    await asyncio.wait([call])
    assert await engine.approvals.pending() == []
    call = asyncio.create_task(engine.execute("put", {"text": "b"}))
    request = await one_request(engine)
    await engine.close()
    assert (await call).error_type == "engine_closed"
    with pytest.raises(ApprovalError, match="closed"):
        await engine.approvals.answer(request.token, True)
    for asked in (engine.approvals.pending, engine.approvals.standing):
        with pytest.raises(EngineClosedError):
            await asked()
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_what_is_no_answer_leaves_it_open(engine: ToolEngine) -> None:
    """None, a number, and a name that is no text: the request waits on."""
    call = asyncio.create_task(engine.execute("put", {"text": "a"}))
    request = await one_request(engine)
    for answer in (None, 1, object()):
        with pytest.raises(ApprovalError):
            await engine.approvals.answer(request.token, answer)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="by must be a text"):
        await engine.approvals.answer(request.token, True, by=7)  # type: ignore[arg-type]
    assert await one_request(engine) == request
    await engine.approvals.answer(request.token, True)
    assert (await call).is_success


async def test_a_fork_answers_nothing(engine: ToolEngine) -> None:
    """The call waits in the other process: there it can be answered, and nowhere else."""
    call = asyncio.create_task(engine.execute("put", {"text": "a"}))
    request = await one_request(engine)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            coroutine = engine.approvals.answer(request.token, True)
            try:
                coroutine.send(None)
            except ApprovalError as error:
                code = 0 if "forked" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == 0
    assert not call.done()
    await engine.approvals.answer(request.token, True)
    assert (await call).is_success


async def test_events_say_who_is_asked_and_who_answered(engine: ToolEngine) -> None:
    """They bear the call's id and no token."""
    seen: list[ToolEngineEvent] = []
    engine.subscribe(seen.append, ["approval_requested", "approval_answered"])
    context = ToolExecutionContext(caller_id="ann", conversation_id="c")
    call = asyncio.create_task(engine.execute("put", {"text": "a"}, context))
    request = await one_request(engine)
    assert [each.token for each in await engine.approvals.pending("ann")] == [request.token]
    assert await engine.approvals.pending("bob") == []
    await engine.approvals.answer(request.token, False, by="op")
    call_id = (await call).call_id
    asked, answered = seen
    assert {each.call_id for each in seen} == {call_id}
    common = {"kind": "execution", "session_id": "engine", "conversation_id": "c"}
    assert asked.data == {**common, "principal": "ann"}
    assert answered.data == {**common, "principal": "ann", "is_approved": False, "by": "op"}
    assert request.token not in repr([each.to_dict() for each in seen])


async def test_toggles_are_events(engine: ToolEngine) -> None:
    """What a conversation turns on or off is heard, and what changes nothing is not."""
    seen: list[Any] = []
    engine.subscribe(seen.append, ["tool_toggled", "group_toggled"])
    toolbox = ToolSession(engine, "s").toolbox
    toolbox.set_tool_enabled("put", False)
    toolbox.set_tool_enabled("put", False)
    toolbox.register_group({"kind": "group", "name": "g", "tools": ["put"]})
    toolbox.toggle_group_enabled("g", True)
    toolbox.toggle_group_enabled("g", True)
    assert [(each.event_type.value, each.tool_name, each.data) for each in seen] == [
        (
            "tool_toggled",
            "put",
            {"session_id": "s", "conversation_id": "s", "is_enabled": False},
        ),
        (
            "group_toggled",
            None,
            {"group": "g", "session_id": "s", "conversation_id": "s", "is_enabled": True},
        ),
    ]


async def test_sessions_that_are_gone_are_not_kept(engine: ToolEngine) -> None:
    """What is listed keeps no conversation alive."""
    for number in range(20):
        ToolSession(engine, f"s-{number}", approver=CallbackApprover(lambda request: True))
    gc.collect()
    assert await engine.approvals.pending() == []
    assert len(engine.approvals._sessions) <= 1
