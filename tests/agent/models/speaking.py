"""How does each provider write a turn of a conversation, and what does it refuse in a request?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.protocols import wire_anthropic, wire_gemini, wire_openai, wire_openai_responses
from tests.protocols.wire_openai import fault_of
from tool_engine.model.call import ToolCall

__all__ = ["PROVIDERS", "Speech", "Turn"]

SIGNATURE = "c2lnbmVk"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says in one turn, whatever its provider."""

    text: str = ""
    """What it says; of a failure, the provider's words."""
    calls: list[ToolCall] = []
    """Under the names that the provider was told of."""
    thought: str = ""
    """What it thinks before, where the provider wants it back."""
    stop: str | None = None
    """`max_tokens` (the last call is cut), `context`, `content_filter`, `refusal`, `pause` (of
    Anthropic), `unknown`; None: by itself."""
    status: int = 200
    """Another one: the request fails."""
    headers: Mapping[str, str] = {}
    """Of a failure, such as `Retry-After`."""
    raw: bytes | None = None
    """What is sent in the place of a reply."""
    cut_after: int | None = None
    """After so many events the connection is cut; of a whole reply, in its middle."""
    pause_after: int | None = None
    """After so many events the server waits for `go_on`."""


class Speech:
    """One provider's way; one object for one conversation."""

    STOPS: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._thoughts: dict[str, str] = {}
        """The id of the first call of a turn -> what was thought before it."""
        self._refused: list[str] = []
        """What was refused, and is refused again wherever it stands."""

    def remember(self, turn: Turn) -> None:
        """Takes up what the next request has to hold."""
        if turn.thought and turn.calls:
            self._thoughts[turn.calls[0].call_id] = turn.thought

    def end(self, turn: Turn) -> None:
        """The turn was said to its end: what was refused in it stays refused."""
        if turn.stop in ("refusal", "content_filter"):
            self._refused.append("forbidden" if "forbidden" in turn.text else turn.text)

    def faults(self, body: dict[str, Any]) -> list[str]:
        """What is wrong with a request, in words."""
        faults = [*self._faults(body)]
        sent = json.dumps(body) if self._refused else ""
        if any(each and each in sent for each in self._refused):
            faults.append("refused once more: what was refused is still in the conversation")
        if "tool_choice" in body and not body.get("tools"):
            faults.append("tool_choice is only allowed when tools are specified")
        if any(isinstance(each, str) for each in body.get("tools", ())):
            faults.append("tools must be objects")
        return faults

    def whole(self, turn: Turn) -> dict[str, Any]:
        """The whole reply."""
        raise NotImplementedError

    def events(self, turn: Turn) -> list[bytes]:
        """The events of the same reply."""
        raise NotImplementedError

    def error(self, status: int, message: str) -> dict[str, Any]:
        """A failure in the provider's form."""
        kind = "rate_limit_error" if status == 429 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "code": None, "param": None}}

    def _faults(self, body: dict[str, Any]) -> Iterator[str]:
        raise NotImplementedError

    def _stop(self, turn: Turn) -> str | None:
        return None if turn.stop is None else self.STOPS[turn.stop]


class OpenAISpeech(Speech):
    STOPS = {
        "max_tokens": "length",
        "context": "model_context_window_exceeded",
        "content_filter": "content_filter",
        "refusal": "stop",
        "unknown": "brand_new",
    }

    def whole(self, turn: Turn) -> dict[str, Any]:
        reply = wire_openai.render_reply(turn.calls, turn.text, self._stop(turn))
        message = reply["choices"][0]["message"]
        if turn.stop == "refusal":
            message.update(content=None, refusal=turn.text)
        if turn.stop == "max_tokens" and turn.calls:
            function = message["tool_calls"][-1]["function"]
            function["arguments"] = function["arguments"][:-2]
        return reply

    def events(self, turn: Turn) -> list[bytes]:
        if turn.stop == "refusal":
            chunks = [wire_openai.chunk(role="assistant", refusal=turn.text)]
            chunks.append(wire_openai.chunk(finish_reason="stop"))
        else:
            chunks = wire_openai.render_stream(turn.calls, turn.text, self._stop(turn))
        if turn.stop == "max_tokens" and turn.calls:
            del chunks[-3]
        return [*(wire_openai.sse([each], done=False) for each in chunks), b"data: [DONE]\n\n"]

    def _faults(self, body: dict[str, Any]) -> Iterator[str]:
        if not body["messages"]:
            yield "Invalid 'messages': empty array"
        if (fault := fault_of(body)) is not None:
            yield fault
        calls = [call["id"] for each in body["messages"] for call in each.get("tool_calls", ())]
        if len(set(calls)) != len(calls):
            yield f"a tool call id twice: {calls}"
        for place, each in enumerate(body["messages"]):
            if each["role"] not in ("system", "user", "assistant", "tool"):
                yield f"messages[{place}]: role {each['role']!r}"
            if each["role"] == "system" and place:
                yield "System message must be at the beginning"


class AnthropicSpeech(Speech):
    STOPS = {
        "max_tokens": "max_tokens",
        "context": "model_context_window_exceeded",
        "content_filter": "refusal",
        "refusal": "refusal",
        "pause": "pause_turn",
        "unknown": "brand_new",
    }

    def __init__(self) -> None:
        super().__init__()
        self._searches = 0
        self._is_searching = self._has_found = False

    def remember(self, turn: Turn) -> None:
        super().remember(turn)
        self._has_found, self._is_searching = self._is_searching, turn.stop == "pause"
        self._searches += self._is_searching

    def whole(self, turn: Turn) -> dict[str, Any]:
        reply = wire_anthropic.render_reply(turn.calls, turn.text, self._stop(turn))
        if turn.thought:
            reply["content"].insert(0, self._thinking(turn.thought, SIGNATURE))
        if self._has_found:
            found = f"srvtoolu_{self._searches - self._is_searching}"
            reply["content"].insert(
                0, {"type": "web_search_tool_result", "tool_use_id": found, "content": []}
            )
        if self._is_searching:
            use = {"type": "server_tool_use", "id": f"srvtoolu_{self._searches}"}
            reply["content"].append({**use, "name": "web_search", "input": {"query": "x"}})
        return reply

    def events(self, turn: Turn) -> list[bytes]:
        if self._has_found or self._is_searching:
            content = self.whole(turn)["content"]
            blocks = [wire_anthropic.block(place, each) for place, each in enumerate(content)]
            ended = wire_anthropic.end(self._stop(turn) or "end_turn")
            events = [wire_anthropic.start(), *(each for one in blocks for each in one), *ended]
            return [wire_anthropic.sse([each]) for each in events]
        first, *rest = wire_anthropic.render_stream(turn.calls, turn.text, self._stop(turn))
        if turn.stop == "max_tokens" and turn.calls:
            del rest[-4]
        if turn.thought:
            moved = [
                {**each, "index": each["index"] + 1} if "index" in each else each for each in rest
            ]
            thinking = {"type": "thinking_delta", "thinking": turn.thought}
            signed = {"type": "signature_delta", "signature": SIGNATURE}
            rest = [*wire_anthropic.block(0, self._thinking("", ""), thinking, signed), *moved]
        return [wire_anthropic.sse([each]) for each in (first, *rest)]

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"type": "error", **super().error(status, message)}

    def _thinking(self, thought: str, signature: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": thought, "signature": signature}

    def _faults(self, body: dict[str, Any]) -> Iterator[str]:
        yield from wire_anthropic.faults_of(body)
        if self._is_searching and body["messages"][-1]["role"] != "assistant":
            self._is_searching = False
        if not isinstance(body.get("max_tokens"), int):
            yield "max_tokens: Field required"
        if not body["messages"] or body["messages"][0]["role"] != "user":
            yield "messages: first message must use the user role"
        ids: list[str] = []
        for each in body["messages"]:
            if each["role"] not in ("user", "assistant"):
                yield f"messages: unexpected role {each['role']!r}"
            blocks = each["content"] if isinstance(each["content"], list) else []
            if blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
                yield "the final block in an assistant message cannot be `thinking`"
            used = [block["id"] for block in blocks if block["type"] == "tool_use"]
            ids += used
            thought = self._thoughts.get(used[0]) if used else None
            if thought and self._thinking(thought, SIGNATURE) not in blocks:
                yield "a final `assistant` message must start with a thinking block"
        if len(set(ids)) != len(ids):
            yield f"tool_use ids must be unique: {ids}"


class ResponsesSpeech(Speech):
    def whole(self, turn: Turn) -> dict[str, Any]:
        items = self._items(turn)
        if turn.stop == "refusal":
            part = {"type": "refusal", "refusal": turn.text}
            return wire_openai_responses.response([{**items[0], "content": [part]}])
        if turn.stop is None:
            return wire_openai_responses.response(items)
        if turn.stop == "unknown":
            return wire_openai_responses.response(items, "brand_new")
        reason = "content_filter" if turn.stop == "content_filter" else "max_output_tokens"
        if turn.calls:
            cut = {**items[-1], "arguments": items[-1]["arguments"][:-2], "status": "incomplete"}
            items = [*items[:-1], cut]
        return wire_openai_responses.cut(items, reason)

    def events(self, turn: Turn) -> list[bytes]:
        whole = self.whole(turn)
        events = wire_openai_responses.stream(whole["output"], {**whole, "status": "completed"})
        events[-1] = {**events[-1], "response": whole, "type": f"response.{whole['status']}"}
        if turn.stop == "unknown":
            events[-1]["type"] = "response.completed"
        return [wire_openai_responses.sse([each]) for each in events]

    def _items(self, turn: Turn) -> list[dict[str, Any]]:
        wire = wire_openai_responses
        items = [self._reasoning(turn.thought)] if turn.thought else []
        if turn.text:
            items.append(wire.message(turn.text))
        return [*items, *(wire.function_call(call) for call in turn.calls)]

    def _reasoning(self, thought: str) -> dict[str, Any]:
        return wire_openai_responses.reasoning(summary=[{"type": "summary_text", "text": thought}])

    def _faults(self, body: dict[str, Any]) -> Iterator[str]:
        if not isinstance(body["input"], list) or not body["input"]:
            yield "One of 'input' must be provided"
            return
        yield from wire_openai_responses.faults_of(body)
        kept = [each["summary"][0]["text"] for each in body["input"] if "summary" in each]
        for each in body["input"]:
            thought = self._thoughts.get(each.get("call_id", ""))
            if each.get("type") == "function_call" and thought and thought not in kept:
                yield "function_call was provided without its required reasoning item"


class GeminiSpeech(Speech):
    STOPS = {
        "max_tokens": "MAX_TOKENS",
        "context": "MAX_TOKENS",
        "content_filter": "SAFETY",
        "refusal": "SAFETY",
        "unknown": "BRAND_NEW",
    }

    def whole(self, turn: Turn) -> dict[str, Any]:
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
        finish = self._stop(turn) or "STOP"
        return wire_gemini.chunk(self._parts(turn), finish, usageMetadata=usage)

    def events(self, turn: Turn) -> list[bytes]:
        chunks = [wire_gemini.chunk([each]) for each in self._parts(turn)]
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
        finish = self._stop(turn) or "STOP"
        last = wire_gemini.chunk([{"text": ""}], finish, usageMetadata=usage)
        return [f"data: {json.dumps(each)}\r\n\r\n".encode() for each in (*chunks, last)]

    def error(self, status: int, message: str) -> dict[str, Any]:
        words = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
        return {
            "error": {"code": status, "message": message, "status": words.get(status, "INTERNAL")}
        }

    def _parts(self, turn: Turn) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if turn.thought:
            parts.append({"text": turn.thought, "thought": True})
        parts += [{"text": turn.text[at : at + 5]} for at in range(0, len(turn.text), 5)]
        calls = [wire_gemini.call_part(call) for call in turn.calls]
        if calls:
            calls[0]["thoughtSignature"] = SIGNATURE
        return [*parts, *calls]

    def _faults(self, body: dict[str, Any]) -> Iterator[str]:
        yield from wire_gemini.faults_of(body)
        if not body["contents"]:
            yield "contents is not specified"


PROVIDERS: Mapping[str, type[Speech]] = {
    "openai": OpenAISpeech,
    "openai_responses": ResponsesSpeech,
    "anthropic": AnthropicSpeech,
    "gemini": GeminiSpeech,
}
