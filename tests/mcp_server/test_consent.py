"""Who is asked for consent to a client's call, and what does an answer hold for?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from tests.mcp_server.conftest import Connect, text_of
from tool_engine import ToolEngine, ToolEngineEventType
from tool_engine.mcp_server import MCPServer, find_request, holding

DEADLINE = 200.0
ALLOW = {"action": "accept", "content": {"allow": True}}
CLIENT = {"execution": "ask_once", "client_may_answer": True}


@pytest.fixture
async def answers(engine: ToolEngine) -> AsyncIterator[list[Any]]:
    """An engine with tools that ask; who answered."""

    @engine.tool(permission=CLIENT)
    async def pay(amount: int) -> str:
        """Pay.

        Args:
            amount: How much.
        """
        return f"paid {amount}"

    @engine.tool(permission={"execution": "ask_always"})
    async def fire() -> str:
        """Fire."""
        return "fired"

    said: list[Any] = []
    engine.subscribe(
        lambda event: said.append((event.data["is_approved"], event.data["by"])),
        ToolEngineEventType.APPROVAL_ANSWERED,
    )
    async with asyncio.timeout(DEADLINE):
        yield said


class Person:
    """Answers forms, and keeps what was read."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self.action, self.content = action, content
        self.read: list[str] = []

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        self.read.append(params.message)
        content = self.content if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)  # type: ignore[arg-type]


async def deciders(engine: ToolEngine) -> list[str | None]:
    """Whom records name as the one who decided, the oldest first, without refused rounds."""
    found = await engine.store.query_call_records(oldest_first=True)
    return [each.decided_by for each in found if each.error_type != "approval_required"]


async def test_a_client_answers_where_the_definition_lets_it(
    engine: ToolEngine, connect: Connect, answers: list[Any]
) -> None:
    """It is asked each time, since it may have made up the answer, and events say who it was."""
    server, person = MCPServer(engine, approvals="client", principal="ann"), Person(allow=True)
    async with connect(server, elicitation_callback=person) as client:
        results = [await client.call_tool("pay", {"amount": 3}) for _ in range(2)]

    assert [text_of(each) for each in results] == ["paid 3"] * 2
    assert answers == [(True, "mcp-client:ann")] * 2
    assert await deciders(engine) == ["mcp-client:ann"] * 2
    assert "pay 1.0.0" in person.read[0]
    assert "amount: 3" in person.read[0]
    assert engine.controller.snapshot().held == []


@pytest.mark.parametrize(
    ("person", "words"),
    [
        (Person("decline"), "did not allow this call"),
        (Person("cancel"), "closed without an answer"),
        (Person(allow=False), "did not allow this call"),
    ],
)
async def test_all_but_a_yes_is_a_no(
    engine: ToolEngine, connect: Connect, answers: list[Any], person: Person, words: str
) -> None:
    server = MCPServer(engine, approvals="client")
    async with connect(server, elicitation_callback=person) as client:
        result = await client.call_tool("pay", {"amount": 3})

    assert result.meta["tool-engine/error_type"] == "execution_rejected"
    assert words in text_of(result)
    assert answers == [(False, "mcp-client")]
    assert await deciders(engine) == ["mcp-client"]


async def test_other_tools_and_other_clients_wait_for_the_operator(
    engine: ToolEngine, connect: Connect, answers: list[Any]
) -> None:
    """A tool whose definition does not say so, and a client without forms, get no say."""
    asked = asyncio.Event()
    engine.subscribe(lambda _: asked.set(), ToolEngineEventType.APPROVAL_REQUESTED)

    async def answer() -> None:
        await asked.wait()
        asked.clear()
        (request,) = await engine.approvals.pending()
        await engine.approvals.answer(request.token, True, by="bob")

    server, person = MCPServer(engine, approvals="client"), Person(allow=True)
    async with connect(server, elicitation_callback=person) as client:
        fired, _ = await asyncio.gather(client.call_tool("fire", {}), answer())
    async with connect(server) as client:
        paid, _ = await asyncio.gather(client.call_tool("pay", {"amount": 3}), answer())

    assert (text_of(fired), text_of(paid)) == ("fired", "paid 3")
    assert answers == [(True, "bob")] * 2
    assert await deciders(engine) == ["bob"] * 2
    assert person.read == []


async def test_an_engine_with_an_approver_asks_that_one(tmp_path: Any, connect: Connect) -> None:
    async def refuse(request: Any) -> str:
        return "not today"

    from tool_engine import CallbackApprover

    async with ToolEngine(approver=CallbackApprover(refuse)) as engine:

        @engine.tool(permission=CLIENT)
        async def pay() -> str:
            """Pay."""
            return "paid"

        server, person = MCPServer(engine, approvals="client"), Person(allow=True)
        async with connect(server, elicitation_callback=person) as client:
            result = await client.call_tool("pay", {})

    assert "not today" in text_of(result)
    assert person.read == []


async def test_servers_of_one_engine_ask_in_their_own_way(
    engine: ToolEngine, connect: Connect, answers: list[Any]
) -> None:
    """One that refuses does so where the program, or another server, lets calls wait."""
    strict, person = MCPServer(engine, approvals="refuse"), Person(allow=True)
    engine.approvals.take_questions()
    mild = MCPServer(engine, approvals="client")
    async with connect(strict, elicitation_callback=person) as client:
        refused = await client.call_tool("pay", {"amount": 3})
    async with connect(mild, elicitation_callback=person) as client:
        paid = await client.call_tool("pay", {"amount": 3})

    assert refused.meta["tool-engine/error_type"] == "execution_rejected"
    assert "this server asks no one" in text_of(refused)
    assert text_of(paid) == "paid 3"
    assert answers == [(True, "mcp-client")]


async def test_a_tool_that_asks_too_is_consented_to_once(
    engine: ToolEngine, connect: Connect, answers: list[Any]
) -> None:
    """A question of the tool does not bring up that of the consent again."""

    @engine.tool(permission=CLIENT)
    async def send() -> str:
        """Send."""
        request = find_request()
        assert request is not None
        to = {"type": "object", "properties": {"allow": {"type": "boolean"}}}
        answer = await request.elicit("to", "To all?", to)
        return f"sent {answer['content']['allow']}"

    server, person = MCPServer(engine, approvals="client"), Person(allow=True)
    async with connect(server, elicitation_callback=person) as client:
        result = await client.call_tool("send", {})

    assert text_of(result) == "sent True"
    assert [each.partition("\n")[0] for each in person.read] == ["May this call run?", "To all?"]


# What clients of 2026-07-28 carry from round to round.


@pytest.fixture
def modern() -> Any:
    """Connects a client of 2026-07-28, whose rounds a test makes itself."""
    from mcp import Client

    return lambda server: Client(
        server._server,
        mode="2026-07-28",
        elicitation_callback=Person(),  # type: ignore[arg-type]
    )


async def call(client: Any, name: str, arguments: Any, **more: Any) -> Any:
    return await client.session.call_tool(name, arguments, allow_input_required=True, **more)


async def test_an_answer_that_was_not_asked_for_is_none(
    engine: ToolEngine, modern: Any, answers: list[Any]
) -> None:
    """A client that sends a yes with its first request is asked all the same."""
    async with modern(MCPServer(engine, approvals="client")) as client:
        asked = await call(client, "pay", {"amount": 3})
        (key,) = asked.input_requests
        yes = {key: ElicitResult(**ALLOW)}  # type: ignore[arg-type]
        unasked = await call(client, "pay", {"amount": 3}, input_responses=yes)
        other = await call(client, "pay", {"amount": 3}, input_responses={"x": yes[key]})

    assert [type(each) for each in (asked, unasked, other)] == [InputRequiredResult] * 3
    assert answers == []


async def test_a_state_is_good_for_one_call(
    engine: ToolEngine, modern: Any, answers: list[Any]
) -> None:
    """Replayed, for other arguments, another tool or principal, or changed: refused."""
    who = ["ann"]
    async with modern(MCPServer(engine, approvals="client", principal=lambda _: who[0])) as client:
        asked = await call(client, "pay", {"amount": 3})
        (key,) = asked.input_requests
        carried = {
            "input_responses": {key: ElicitResult(**ALLOW)},  # type: ignore[arg-type]
            "request_state": asked.request_state,
        }
        for name, arguments in (("pay", {"amount": 4}), ("add", {"amount": 3})):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call(client, name, arguments, **carried)
        for state in ("", "x", asked.request_state[:-2], "v1." + asked.request_state[9:]):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call(client, "pay", {"amount": 3}, **{**carried, "request_state": state})
        who[0] = "bob"
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await call(client, "pay", {"amount": 3}, **carried)
        who[0] = "ann"
        paid = await call(client, "pay", {"amount": 3}, **carried)
        with pytest.raises(MCPError, match="it was used before; call again without it"):
            await call(client, "pay", {"amount": 3}, **carried)

    assert text_of(paid) == "paid 3"
    assert answers == [(True, "mcp-client:ann")]


@pytest.mark.parametrize(("age", "is_taken"), [(590.0, True), (610.0, False)])
async def test_a_state_is_good_for_ten_minutes(
    engine: ToolEngine, modern: Any, answers: list[Any], age: float, is_taken: bool
) -> None:
    keys = [b"k" * 32]
    codec = AESGCMRequestStateCodec(keys)
    server = MCPServer(engine, approvals="client", state_keys=keys)
    async with modern(server) as client:
        asked = await call(client, "pay", {"amount": 3})
        (key,) = asked.input_requests
        claims = json.loads(codec.unseal(asked.request_state))
        older = claims | {name: claims[name] - age for name in ("iat", "exp") if name in claims}
        carried = {
            "input_responses": {key: ElicitResult(**ALLOW)},  # type: ignore[arg-type]
            "request_state": codec.seal(json.dumps(older).encode()),
        }
        if is_taken:
            assert text_of(await call(client, "pay", {"amount": 3}, **carried)) == "paid 3"
        else:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call(client, "pay", {"amount": 3}, **carried)

    assert answers == [(True, "mcp-client")] * is_taken


async def test_a_changed_tool_is_asked_about_again(
    engine: ToolEngine, modern: Any, answers: list[Any]
) -> None:
    """A yes that came back for what is another tool by now counts for nothing."""
    async with modern(MCPServer(engine, approvals="client")) as client:
        asked = await call(client, "pay", {"amount": 3})
        (key,) = asked.input_requests
        engine.unregister_tool("pay")

        @engine.tool(permission=CLIENT)
        async def pay(amount: int) -> str:
            """Pay twice.

            Args:
                amount: How much.
            """
            return f"paid {2 * amount}"

        again = await call(
            client,
            "pay",
            {"amount": 3},
            input_responses={key: ElicitResult(**ALLOW)},  # type: ignore[arg-type]
            request_state=asked.request_state,
        )

    assert isinstance(again, InputRequiredResult)
    assert answers == []


@pytest.mark.usefixtures("answers")
async def test_an_operators_yes_is_for_one_call(engine: ToolEngine, modern: Any) -> None:
    """A state that was used at one server brings it to no other, which asks anew."""
    keys = [b"k" * 32]

    @engine.tool(permission={"execution": "ask_always"})
    async def send() -> str:
        """Send."""
        request = find_request()
        assert request is not None
        answer = await request.elicit("to", "To whom?", {"type": "object", "properties": {}})
        return f"sent {answer['action']}"

    async def allow(calling: asyncio.Task[Any]) -> Any:
        while not (pending := await engine.approvals.pending()):  # noqa: ASYNC110 - it may be there
            await asyncio.sleep(0.01)
        await engine.approvals.answer(pending[0].token, True, by="bob")
        return await calling

    one, other = [MCPServer(engine, state_keys=keys) for _ in range(2)]
    async with asyncio.timeout(DEADLINE), modern(one) as here, modern(other) as there:
        asked = await allow(asyncio.create_task(call(here, "send", {})))
        carried = {
            "input_responses": {"to": ElicitResult(action="accept", content={})},
            "request_state": asked.request_state,
        }
        sent = await call(here, "send", {}, **carried)
        again = asyncio.create_task(call(there, "send", {}, **carried))
        await allow(again)

    assert [text_of(each) for each in (sent, again.result())] == ["sent accept"] * 2


async def test_a_changed_tool_gets_no_answer_to_what_another_asked(
    engine: ToolEngine, modern: Any
) -> None:
    """Neither an answer nor what it passed along: it is asked about again."""
    got: list[Any] = []

    async def play(version: int) -> str:
        request = find_request()
        assert request is not None
        got.append(request.state)
        form = {
            "message": f"Play {version}?",
            "requestedSchema": {"type": "object", "properties": {}},
        }
        question = {"method": "elicitation/create", "params": form}
        answers = await request.ask({"yes": question}, state=f"of version {version}")
        return f"{version}: {answers['yes']['action']}"

    def register(version: int) -> None:
        head = {"description": f"Plays {version}.", "parameters": [], "entry": {"type": "custom"}}
        engine.register_tool({**head, "name": "play"}, partial(play, version))

    register(1)
    async with modern(MCPServer(engine)) as client:
        asked = await call(client, "play", {})
        engine.unregister_tool("play")
        register(2)
        yes = {"yes": ElicitResult(action="accept", content={})}
        again = await call(
            client, "play", {}, input_responses=yes, request_state=asked.request_state
        )
        played = await call(
            client, "play", {}, input_responses=yes, request_state=again.request_state
        )

    assert got == [None, None, "of version 2"]
    assert again.input_requests["yes"].params.message == "Play 2?"
    assert text_of(played) == "2: accept"


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "HOLDS", 0.05)


@pytest.mark.usefixtures("short_rounds")
async def test_a_client_comes_back_for_a_call_that_waits(
    engine: ToolEngine, modern: Any, answers: list[Any]
) -> None:
    """The operator takes longer than a request may: it is one question, one call, one record."""
    async with modern(MCPServer(engine)) as client:
        rounds = [await call(client, "fire", {})]
        for _ in range(2):
            state = rounds[-1].request_state
            rounds.append(await call(client, "fire", {}, request_state=state))
        (request,) = await engine.approvals.pending()
        await engine.approvals.answer(request.token, True, by="bob")
        result = await call(client, "fire", {}, request_state=rounds[-1].request_state)
        with pytest.raises(MCPError, match="used before"):
            await call(client, "fire", {}, request_state=rounds[-1].request_state)

    assert [each.input_requests for each in rounds] == [None] * 3
    assert text_of(result) == "fired"
    assert answers == [(True, "bob")]
    assert len(await engine.query_call_records()) == 1


@pytest.mark.usefixtures("short_rounds")
async def test_a_client_that_does_not_come_back_has_given_up(
    engine: ToolEngine, modern: Any, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call is cancelled, and the question is gone."""
    monkeypatch.setattr(holding, "_GRACE", 0.05)
    ended = asyncio.Event()
    engine.subscribe(lambda _: ended.set(), ToolEngineEventType.EXECUTION_CANCELLED)
    async with modern(MCPServer(engine)) as client:
        left = await call(client, "fire", {})
        await ended.wait()
        with pytest.raises(MCPError, match="is over; call again without requestState"):
            await call(client, "fire", {}, request_state=left.request_state)

    assert await engine.approvals.pending() == []
    (record,) = await engine.query_call_records()
    assert record.outcome.value == "cancelled"
    assert answers == []


@pytest.mark.usefixtures("short_rounds")
async def test_a_server_that_ends_leaves_no_call(
    engine: ToolEngine, modern: Any, answers: list[Any]
) -> None:
    async with modern(MCPServer(engine)) as client:
        await call(client, "fire", {})
        assert len(await engine.approvals.pending()) == 1

    assert await engine.approvals.pending() == []
    (record,) = await engine.query_call_records()
    assert record.outcome.value == "cancelled"
    assert answers == []


async def test_a_task_that_outlives_its_call_has_no_client(
    engine: ToolEngine, connect: Connect
) -> None:
    """What a tool left behind cannot ask the client, which has its result."""
    found: list[Any] = []
    go_on = asyncio.Event()

    async def look() -> None:
        await go_on.wait()
        found.append(find_request())

    left: list[Any] = []

    @engine.tool
    async def leave() -> str:
        """Leave a task behind."""
        left.append(asyncio.create_task(look()))
        return "left"

    async with connect(MCPServer(engine)) as client:
        await client.call_tool("leave", {})
        go_on.set()
        await left[0]

    assert found == [None]
