"""Protocols and models of others do not break a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest

from tests.agent.world import World
from tests.pipeline.audit import check_idle
from tests.protocols.line_protocol import LineDecoder, LineProtocol
from tool_engine.agent.answer import StopReason
from tool_engine.agent.loop import AgentLoop
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.chat import ChatRequest
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.session.session import ToolSession

ADDS = 'I add.\nCALL x1 add {"a": 1, "b": 2}'


class LineModel:
    """A model of texts, whose protocol knows nothing of messages."""

    name = "lines"

    def __init__(self, *replies: str, protocol: LineProtocol | None = None) -> None:
        self.protocol = LineProtocol() if protocol is None else protocol
        self.replies = list(replies)
        self.requests: list[ChatRequest] = []

    def user_message(self, text: str) -> Any:
        return {"role": "user", "content": text}

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        self.requests.append(request)
        await asyncio.sleep(0)
        said = self.replies.pop(0)
        for at in range(0, len(said), 9 if request.is_streamed else len(said)):
            yield said[at : at + 9] if request.is_streamed else said


class IteratorModel(LineModel):
    """The same, with a plain iterator: nothing has to be closed."""

    def reply(self, request: ChatRequest) -> AsyncIterator[Any]:  # type: ignore[override]
        return _Iterator(self.replies.pop(0))


class _Iterator:
    def __init__(self, said: str) -> None:
        self.left = [said]

    def __aiter__(self) -> _Iterator:
        return self

    async def __anext__(self) -> str:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


def loop_of(world: World, model: Any, **options: Any) -> AgentLoop:
    return AgentLoop(ToolSession(world.engine, "chat"), model, **options)


@pytest.mark.parametrize("kind", [LineModel, IteratorModel])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_protocol_without_messages(world: World, is_streamed: bool, kind: Any) -> None:
    """What the model wrote goes back as it was, where the protocol says nothing else."""
    model = kind(ADDS, "It is 3.")
    loop = loop_of(world, model, is_streamed=is_streamed)
    answer = await loop.run("What is 1 + 2?")
    assert answer.text == "It is 3."
    assert loop.messages == [
        {"role": "user", "content": "What is 1 + 2?"},
        {"role": "assistant", "content": ADDS},
        {"role": "user", "content": "RESULT x1 add 3"},
        {"role": "assistant", "content": "It is 3."},
    ]
    check_idle(world.engine)


class MessageProtocol(LineProtocol):
    """One message in the place of a list."""

    def decoder(self) -> LineDecoder:
        return _MessageDecoder()


class _MessageDecoder(LineDecoder):
    def close(self) -> ParsedReply:
        return ParsedReply(text="Hello.", message={"role": "assistant", "content": "Hello."})


class UnreadingProtocol(LineProtocol):
    """A decoder that fails, at the place that it is told."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def decoder(self) -> LineDecoder:
        return _FailingDecoder(self.place)


class _FailingDecoder(LineDecoder):
    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def feed(self, chunk: Any) -> list[StreamEvent]:
        if self.place == "feed":
            raise RuntimeError("token=sk-live-1234567890abcdef")
        return []

    def close(self) -> ParsedReply:
        raise RuntimeError("token=sk-live-1234567890abcdef")


async def test_a_protocol_with_one_message(world: World) -> None:
    """A message that stands for itself is a list of one."""
    loop = loop_of(world, LineModel("Hello.", protocol=MessageProtocol()))
    await loop.run("Go.")
    assert loop.messages[1:] == [{"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize("place", ["feed", "close"])
async def test_a_decoder_that_fails(world: World, place: str) -> None:
    """A27: what a protocol fails on is a finding, without secrets, and the turn ends."""
    model = LineModel("Hello, this is long.", "Hello, too.", protocol=UnreadingProtocol(place))
    answer = await loop_of(world, model).run("Go.")
    assert answer.stop_reason is StopReason.UNREADABLE
    assert len(model.requests) == 2
    (one, other) = answer.findings
    assert one == other
    assert one.message.startswith("the reply could not be read: RuntimeError: token=")
    assert "sk-live" not in one.message
    assert "could not be read" in model.requests[1].messages[-1]["content"]


class UnspeakingProtocol(LineProtocol):
    """It cannot write results down."""

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> str:
        raise RuntimeError("no words")


async def test_results_that_cannot_be_told(world: World) -> None:
    """A reply whose results cannot be written is not in the history without them."""
    model = LineModel(ADDS, "It is 3.", protocol=UnspeakingProtocol())
    loop = loop_of(world, model)
    answer = await loop.run("Go.")
    assert answer.stop_reason is StopReason.UNREADABLE
    assert world.ran == ["add"]
    assert [each["role"] for each in loop.messages] == ["user", "assistant"]
    assert "CALL" not in str(loop.messages)
    assert answer.findings[-1].message.startswith("the results could not be written down")


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_reply_without_anything(world: World, is_streamed: bool) -> None:
    """A stream without a chunk is an empty reply."""

    class Silent(LineModel):
        async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
            await asyncio.sleep(0)
            for chunk in self.replies:
                yield chunk

    loop = loop_of(world, Silent(), is_streamed=is_streamed)
    assert (await loop.run("Go.")).stop_reason is StopReason.EMPTY
    assert loop.messages == []
