"""The loop with the official SDKs, which talk to a server that is as strict as their provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.agent.models.asking import PROVIDERS, client_of
from tests.agent.models.servers import PlayedServer, failing, play
from tests.agent.world import BOUND, Turn, World, call
from tests.calls.audit import check_idle
from tool_engine.agent.answer import StopReason
from tool_engine.agent.events import AgentEventType
from tool_engine.agent.loop import AgentLoop
from tool_engine.errors import ChatModelError
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession

every_provider = pytest.mark.parametrize("provider", PROVIDERS)
streamed_or_not = pytest.mark.parametrize("is_streamed", [True, False])

LOOKS = Turn(
    text="I look.",
    thought="Two sums, and one that fails.",
    calls=[call(1, a=1, b=2), call(2, a=3, b=4), call(3, "fail")],
)


@asynccontextmanager
async def talking(
    world: World, provider: str, *turns: Turn, config: Any = None, **options: Any
) -> AsyncIterator[tuple[AgentLoop, PlayedServer]]:
    """A conversation over an SDK, and what must hold after it."""
    protocol = options.pop("protocol", None)
    async with play(provider, turns) as server:
        model = await asyncio.to_thread(client_of, provider, server.url, protocol=protocol)
        async with model:
            session = ToolSession(world.engine, "chat", ToolCallConfig(**(config or {})))
            yield AgentLoop(session, model, **options), server
        assert server.problems == []
        check_idle(world.engine)


@every_provider
@streamed_or_not
async def test_two_turns(world: World, provider: str, is_streamed: bool) -> None:
    """A41: parallel calls, one of which fails, and a second turn that knows of the first."""
    turns = [LOOKS, Turn(text="3 and 7."), Turn(text="I said 3 and 7.")]
    async with talking(world, provider, *turns, is_streamed=is_streamed) as (loop, server):
        answer = await loop.run("What is 1 + 2, and 3 + 4?")
        assert (answer.text, answer.stop_reason) == ("3 and 7.", StopReason.COMPLETED)
        assert (await loop.run("What did you say?")).text == "I said 3 and 7."
        assert len(server.requests) == 3
        assert "no such luck" in str(server.requests[2])
        assert answer.usage.total_tokens > 0
    assert sorted(world.ran) == ["add", "add", "fail"]


@every_provider
@streamed_or_not
async def test_the_last_chance(world: World, provider: str, is_streamed: bool) -> None:
    """U41: a provider takes the request in which its model may not call any more."""
    turns = [LOOKS, Turn(text="Enough."), Turn(text="Hello.")]
    bound = {"max_iterations": 1}
    async with talking(world, provider, *turns, config=bound, is_streamed=is_streamed) as (loop, _):
        answer = await loop.run("Go.")
        assert (answer.text, answer.stop_reason) == ("Enough.", StopReason.MAX_ROUNDS)
        assert (await loop.run("Hello?")).text == "Hello."


@every_provider
@streamed_or_not
async def test_cut_replies(world: World, provider: str, is_streamed: bool) -> None:
    """U47: a cut call is not run, one recovery round follows, and its provider takes it."""
    cut = Turn(calls=[call(1, a=1, b=2), call(2, "write", text="x" * 40)], stop="max_tokens")
    turns = [cut, Turn(text="Short.", stop="max_tokens"), Turn(text="Hello.")]
    async with talking(world, provider, *turns, is_streamed=is_streamed) as (loop, _):
        answer = await loop.run("Go.")
        assert (answer.text, answer.stop_reason) == ("Short.", StopReason.TRUNCATED)
        assert (await loop.run("Hello?")).text == "Hello."
    assert world.ran == ["add"]


@every_provider
async def test_refusals(world: World, provider: str) -> None:
    """A refusal is an answer that says so, and the conversation goes on."""
    turns = [Turn(text="I will not.", stop="refusal"), Turn(text="Hello.")]
    async with talking(world, provider, *turns) as (loop, _):
        assert (await loop.run("Go.")).stop_reason is StopReason.REFUSED
        assert (await loop.run("Hello?")).text == "Hello."


@every_provider
@streamed_or_not
@pytest.mark.parametrize("stop", ["refusal", "content_filter"])
async def test_a_refusal_is_not_sent_again(
    world: World, provider: str, is_streamed: bool, stop: str
) -> None:
    """A provider that refuses while it can read what it refused goes on with the next turn."""
    said = [Turn(text="Hi."), LOOKS, Turn(text="Something forbidden.", stop=stop)]
    after = [Turn(text="It is 2."), Turn(text="It is 4.")]
    async with talking(world, provider, *said, *after, is_streamed=is_streamed) as (loop, server):
        ends = [await loop.run(each) for each in ("Hi", "Make a forbidden thing.")]
        kept = AgentLoop.from_dict(json.loads(json.dumps(loop.to_dict())), loop.session, loop.model)
        kept.is_streamed = is_streamed
        ends += [await kept.run(each) for each in ("What is 1+1?", "And 2+2?")]
        assert [each.stop_reason.value for each in ends] == [
            "completed",
            "refused",
            "completed",
            "completed",
        ]
        assert "Calls that ran in it: add" in str(server.requests[-1])
        assert "forbidden" in str([each.text for each in kept.transcript()])


@streamed_or_not
async def test_a_filter_that_answers_with_an_error(world: World, is_streamed: bool) -> None:
    """Azure's filter refuses a request with 400: what it refused is not sent again either."""
    turns = [LOOKS, failing(400, "flagged"), Turn(text="Hello.")]
    async with talking(world, "openai", *turns, is_streamed=is_streamed) as (loop, server):
        server.say_errors_as({"error": {"message": "flagged", "code": "content_filter"}})
        with pytest.raises(ChatModelError, match="flagged") as caught:
            await loop.run("Make a forbidden thing.")
        assert caught.value.is_refusal
        assert "forbidden" not in str(loop.messages)
        assert "Calls that ran in it: add" in str(loop.messages)
        assert (await loop.run("Hello?")).text == "Hello."


@streamed_or_not
async def test_a_paused_reply(world: World, is_streamed: bool) -> None:
    """The provider gets its reply back as it was, and the next turn goes on."""
    paused = Turn(text="I search. ", stop="pause")
    turns = [paused, paused, Turn(text="It is 3."), Turn(text="Hello.")]
    async with talking(world, "anthropic", *turns, is_streamed=is_streamed) as (loop, server):
        assert (await loop.run("Go.")).text == "I search. I search. It is 3."
        assert (await loop.run("Hello?")).text == "Hello."
        sent = [each["messages"] for each in server.requests]
        assert [len(each) for each in sent] == [1, 2, 2, 3]
        assert sent[1][1]["content"] == sent[2][1]["content"][:2]


async def test_notes_and_images_behind_results(world: World) -> None:
    """A server that takes no user behind results, as Mistral's, takes hints, bounds and images."""

    @world.engine.tool(effect="read")
    async def picture() -> dict[str, Any]:
        """Shows a picture."""
        return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}

    turns = [Turn(calls=[call(number, "picture")]) for number in range(3)]
    bound = {"max_iterations": 3}
    async with talking(world, "openai", *turns, Turn(text="Ok."), config=bound) as (loop, server):
        answer = await loop.run("Go.")
        assert answer.stop_reason is StopReason.MAX_ROUNDS
        told = str(server.requests[-1]["messages"])
        assert "You made the same calls before" in told
        assert "max_rounds_reached" in told
        assert told.count("image_url") == 6


@every_provider
@streamed_or_not
async def test_failures(world: World, provider: str, is_streamed: bool) -> None:
    """A provider that fails in the middle of a turn does not spoil the conversation."""
    turns = [
        failing(500, "out of order"),
        LOOKS,
        failing(429, "slow down"),
        Turn(text="This is a long answer.", cut_after=2),
        Turn(text="3 and 7."),
    ]
    async with talking(world, provider, *turns, is_streamed=is_streamed) as (loop, _):
        with pytest.raises(ChatModelError, match="out of order"):
            await loop.run("Go.")
        assert loop.messages == []
        for _ in range(2):
            with pytest.raises(ChatModelError):
                await loop.run("Go.")
        assert (await loop.run("Go on.")).text == "3 and 7."
    assert sorted(world.ran) == ["add", "add", "fail"]


@every_provider
async def test_cancelled_in_a_stream(world: World, provider: str) -> None:
    """Whoever gives up a stream closes the connection, and may go on."""
    turns = [LOOKS, Turn(text="This is a long answer.", pause_after=3), Turn(text="Yes.")]
    async with talking(world, provider, *turns) as (loop, server):
        stream = loop.stream("Go.")
        async for event in stream:
            if event.type is AgentEventType.USAGE:
                break
        turn = asyncio.create_task(drained(stream))
        async with asyncio.timeout(BOUND):
            await server.paused.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await stream.aclose()
            await server.gone.wait()
        assert (await loop.run("And?")).text == "Yes."


async def drained(stream: Any) -> None:
    """Takes what comes."""
    async for _ in stream:
        pass


@every_provider
@pytest.mark.parametrize("protocol", ["vcp", "function_call"])
@streamed_or_not
async def test_text_protocols(
    world: World, provider: str, protocol: str, is_streamed: bool
) -> None:
    """A41: a model without native tools writes its calls as text, in any provider's messages."""
    said = {
        "vcp": "<<<[TOOL_REQUEST]>>>\ntool_name:「始」add「末」,\na:「始」1「末」,\n"
        "b:「始」2「末」\n<<<[END_TOOL_REQUEST]>>>",
        "function_call": '<function_call>{"name": "add", "arguments": {"a": 1, "b": 2}}'
        "</function_call>",
    }[protocol]
    turns = [Turn(text=said), Turn(text=said), Turn(text="It is 3."), Turn(text="Yes, 3.")]
    async with talking(world, provider, *turns, protocol=protocol, is_streamed=is_streamed) as (
        loop,
        server,
    ):
        assert (await loop.run("What is 1 + 2?")).text == "It is 3."
        assert (await loop.run("Sure?")).text == "Yes, 3."
        assert "tools" not in server.requests[0]
        assert "add" in str(server.requests[0])
        # The sentence for a model that repeats itself is a part of the results.
        assert "You made the same calls before" in str(server.requests[2])
    assert world.ran == ["add", "add"]
