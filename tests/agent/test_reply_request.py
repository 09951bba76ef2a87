"""Protocols and models of others do not break a conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from tests.agent.world import Turn, World, run_turn
from tests.calls.audit import check_idle
from tests.protocols.line_protocol import LineDecoder, LineProtocol
from tool_engine.agent.answer import StopReason
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models import RecordedModel
from tool_engine.errors import ChatModelError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.chat import ChatRequest
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.registry import get_protocol
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


def half_said(text: str, call_id: str, *, is_streamed: bool) -> dict[str, Any]:
    """A reply of a model whose server cuts characters."""
    arguments = '{"a": 1, "b": 2}'
    called = {"index": 0, "id": call_id, "function": {"name": "add", "arguments": arguments}}
    calls = [{**called, "type": "function"}] if call_id else []
    end = "tool_calls" if calls else "stop"
    if not is_streamed:
        said = {"role": "assistant", "content": text, "tool_calls": calls}
        return {"reply": {"choices": [{"message": said, "finish_reason": end}]}}
    deltas: list[dict[str, Any]] = [{"content": letter} for letter in text]
    chunks = [{"choices": [{"delta": each}]} for each in [*deltas, {"tool_calls": calls}]]
    return {"chunks": [*chunks, {"choices": [{"delta": {}, "finish_reason": end}]}]}


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_half_a_character(world: World, is_streamed: bool) -> None:
    """Half of a surrogate pair, which no client can send, never gets into a conversation."""
    replies = [("\ud83d\ude00 cut \ud83d", "id\ud800"), ("3 \ud83d", "")]
    script = {"replies": [half_said(*each, is_streamed=is_streamed) for each in replies]}
    loop = loop_of(world, RecordedModel(script), is_streamed=is_streamed)
    events = [event async for event in loop.stream("Go.")]
    assert events[-1].answer is not None
    assert events[-1].answer.text == "3 \\ud83d"
    said = [each.content for each in events if each.content]
    assert "".join(said) == "\U0001f600 cut \\ud83d3 \\ud83d"
    assert world.ran == ["add"]
    written = json.dumps(loop.to_dict(), ensure_ascii=False).encode().decode()
    assert written.count("\U0001f600 cut \\\\ud83d") == 2
    assert loop.messages[1]["tool_calls"][0]["id"] == "call_1"


HALF = "\ud83d"
CALLED = {"name": "add" + HALF, "arguments": json.dumps({"a": HALF}, ensure_ascii=False)}
OF_OPENAI = {"role": "assistant", "content": HALF, "reasoning_content": HALF, "refusal": HALF}
HALVES: dict[str, dict[str, Any]] = {
    "openai": {
        "choices": [
            {
                "message": {
                    **OF_OPENAI,
                    "tool_calls": [{"id": HALF, "type": "function", "function": CALLED}],
                },
                "finish_reason": HALF,
            }
        ]
    },
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": HALF, "signature": HALF},
            {"type": "tool_use", "id": HALF, "name": "add" + HALF, "input": {"a": HALF}},
        ],
        "stop_reason": HALF,
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": HALF, "thought": True},
                        {"functionCall": {"id": HALF, "name": "add", "args": {"a": HALF}}},
                    ],
                },
                "finishReason": HALF,
            }
        ]
    },
    "openai_responses": {
        "object": "response",
        "status": HALF,
        "output": [
            {"type": "reasoning", "id": HALF, "summary": []},
            {"type": "function_call", "id": HALF, "call_id": HALF, **CALLED},
        ],
    },
}


class RepeatingModel:
    """A model that says the same, over and over."""

    name = "repeating"

    def __init__(self, protocol: str, reply: Any) -> None:
        self.protocol = get_protocol(protocol)
        self.said = reply

    def user_message(self, text: str) -> Any:
        return {"role": "user", "content": text}

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        await asyncio.sleep(0)
        yield self.said


@pytest.mark.parametrize("wire", HALVES)
async def test_half_a_character_anywhere(world: World, wire: str) -> None:
    """Neither a request, nor an event, nor what is kept holds what UTF-8 cannot write."""
    loop = loop_of(world, RepeatingModel(wire, HALVES[wire]), is_streamed=False)
    events = [event async for event in loop.stream("Go.")]
    assert events[-1].answer is not None
    told = [loop.to_dict(), loop.messages, *(each.to_dict() for each in events)]
    assert "\\ud83d" in msgspec.json.encode(told).decode()


async def test_half_a_character_in_a_block_of_text(world: World) -> None:
    """What a text protocol puts back into the conversation is what a model wrote, and sendable."""
    block = f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」add「末」,\na:「始」{HALF}「末」\n"
    for is_streamed in (True, False):
        model = RepeatingModel("vcp", f"{HALF}{block}<<<[END_TOOL_REQUEST]>>>")
        loop = loop_of(world, model, is_streamed=is_streamed)
        events = [event async for event in loop.stream("Go.")]
        assert events[-1].answer is not None
        msgspec.json.encode([loop.to_dict(), *(each.to_dict() for each in events)])
    cycle = await loop.session.process(model.said, "vcp")
    msgspec.json.encode(cycle.messages)


@pytest.mark.parametrize("said", ["", " \n"])
async def test_a_text_protocol_and_nothing_said(world: World, said: str) -> None:
    """Many providers refuse a message without text: a reply without any leaves none."""
    loop = loop_of(world, RepeatingModel("vcp", said))
    answer = await loop.run("Go.")
    assert (answer.stop_reason, loop.messages) == (StopReason.EMPTY, [])


async def test_a_client_that_streams_all_the_same(world: World) -> None:
    """Where a whole reply was asked for, each piece of a stream counts, and not only the last."""

    class Streaming(LineModel):
        async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
            await asyncio.sleep(0)
            said = self.replies.pop(0)
            for at in range(0, len(said), 5):
                yield said[at : at + 5]

    loop = loop_of(world, Streaming(ADDS, "It is 3, I think."), is_streamed=False)
    assert (await loop.run("Go.")).text == "It is 3, I think."
    assert world.ran == ["add"]
    assert loop.messages[-1]["content"] == "It is 3, I think."


@pytest.mark.parametrize(
    ("raised", "is_transient"),
    [
        (KeyError("choices"), False),
        (RuntimeError("token=sk-live-1234567890abcdef is wrong"), False),
        (ConnectionResetError("gone"), True),
        (TimeoutError("too slow"), True),
    ],
)
async def test_a_client_of_others_that_fails(
    world: World, raised: Exception, is_transient: bool
) -> None:
    """Whatever a model's client raises is a failure of the model, and the turn is taken back."""
    loop = world.loop("openai", raised, raised, Turn(text="Hello."))
    with pytest.raises(ChatModelError, match=type(raised).__name__) as caught:
        await loop.run("Go.")
    assert caught.value.__cause__ is raised
    assert caught.value.is_transient is is_transient
    assert "sk-live" not in str(caught.value)
    heard = [event async for event in loop.stream("Go.")]
    assert [each.type.value for each in heard] == ["round_started", "error"]
    assert loop.messages == []
    assert (await run_turn(loop)).text == "Hello."


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


class WrappingModel(LineModel):
    """A model that never answers, whose client makes an error of its own of being broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
            yield ""
        except BaseException as error:
            raise RuntimeError("the connection is lost") from error


async def test_a_client_that_hides_a_cancellation(world: World) -> None:
    """A turn that is cancelled, or out of time, ends as that, whatever a client makes of it."""
    model = WrappingModel()
    loop = loop_of(world, model)
    turn = asyncio.create_task(loop.run("Go."))
    await model.is_asked.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert loop.messages == []
    session = ToolSession(world.engine, "in-time", {"max_seconds": 0.01})
    answer = await AgentLoop(session, WrappingModel()).run("Go.")
    assert answer.stop_reason is StopReason.MAX_SECONDS


async def test_a_client_that_cannot_be_closed(world: World) -> None:
    """The reply is there: what fails behind it takes nothing away."""

    class Stuck(_Iterator):
        async def aclose(self) -> None:
            raise RuntimeError("closed already")

    class StuckModel(LineModel):
        def reply(self, request: ChatRequest) -> AsyncIterator[Any]:  # type: ignore[override]
            return Stuck(self.replies.pop(0))

    answer = await loop_of(world, StuckModel("Hello.")).run("Go.")
    assert (answer.text, answer.stop_reason) == ("Hello.", StopReason.COMPLETED)
