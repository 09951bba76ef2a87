"""How is a recorded or handwritten conversation replayed without a provider?

A handwritten reply is sent as each provider would have sent it.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from tool_engine.agent.models.carried import CarriedProtocol, make_message, wire_of
from tool_engine.agent.models.script import Expectation, Script, ScriptReply, read_script
from tool_engine.errors import ChatModelError, ConfigurationError
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.interfaces.protocol import is_for_text
from tool_engine.model.call import ToolCall
from tool_engine.model.chat import ChatRequest
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.protocols.chunks import dump_object, read_field
from tool_engine.protocols.large_replies import read_in_time
from tool_engine.protocols.registry import get_protocol

_OWN_ROLES: Final = frozenset({"assistant", "model"})
_OWN_ITEMS: Final = frozenset({"function_call", "reasoning"})
_MARKS: Final = frozenset({"role", "type"})
_SHOWN: Final = 300
_CALL_SIZE: Final = 200
"""What the writing of one call counts for."""
_PIECE: Final = 12


class RecordedModel(KnownArguments):
    """A `ChatModel` that answers each request with the script's next reply.

    Args:
        script: A file of JSON or YAML, or the same as a mapping; see `Script` for what it holds.
        protocol: Another protocol than the script's, for one that says only text and calls.

    Raises:
        ConfigurationError: The script cannot be read, something in it is wrong, or it holds replies
            of one provider and `protocol` is another.

    Example:
        >>> model = RecordedModel({"replies": [{"text": "It is noon."}]})
    """

    def __init__(
        self,
        script: str | os.PathLike[str] | Mapping[str, Any],
        *,
        protocol: str | None = None,
    ) -> None:
        self._script: Script = read_script(script)
        self._source = "the script" if isinstance(script, Mapping) else os.fspath(script)
        self._protocol = self._choose_protocol(protocol)
        self._asked = 0

    def __repr__(self) -> str:
        return (
            f"RecordedModel({self._source!r}, protocol={self._protocol.name!r}, "
            f"{self._asked} of {len(self._script.replies)} replies given)"
        )

    @property
    def name(self) -> str:
        """The model's name in the script."""
        return self._script.name

    @property
    def protocol(self) -> ToolCallingProtocol:
        """The protocol in which the model reads tools and calls them."""
        return self._protocol

    @property
    def replies_left(self) -> int:
        """The number of recorded replies that are still to come."""
        return len(self._script.replies) - self._asked

    def user_message(self, text: str) -> Any:
        """Return a user's text as a message of the protocol's form."""
        return self.say("user", text)

    def say(self, role: str, text: str) -> Any:
        """Return a protocol's message; the role is `user` or `assistant`."""
        return make_message(wire_of(self._protocol), role, text)

    async def reply(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield the script's next reply.

        Raises:
            ChatModelError: The script has no more replies, the request does not fit what the script
                expects, or the script says that this turn fails.
        """
        recorded, place = self._take_next()
        self._check_request(recorded, request, place)
        size = len(recorded.calls) * _CALL_SIZE
        for chunk in await read_in_time(self._make_chunks, recorded, request, place, before=size):
            yield chunk
        if recorded.error is not None:
            error = recorded.error
            raise ChatModelError(
                error.message,
                status=error.status,
                is_transient=error.is_transient,
                is_refusal=error.is_refusal,
            )

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _choose_protocol(self, wanted: str | None) -> ToolCallingProtocol:
        script = self._script
        is_other = wanted is not None and wanted != script.protocol
        if is_other and any(each.reply or each.chunks for each in script.replies):
            raise ConfigurationError(
                f"{self._source} holds replies as {script.protocol!r} sends them: it cannot be "
                f"played as {wanted!r}"
            )
        found = get_protocol(script.protocol if wanted is None else wanted)
        wire = None if is_other else script.wire
        if wire is None:
            return found
        if not is_for_text(found):
            raise ConfigurationError(
                f"{self._source}: wire says in whose messages a text protocol is spoken, and "
                f"{found.name!r} is none"
            )
        return CarriedProtocol(found, get_protocol(wire))

    def _take_next(self) -> tuple[ScriptReply, str]:
        number = self._asked + 1
        if number > len(self._script.replies):
            raise ChatModelError(
                f"{self._source} ends after {number - 1} replies, and the model is asked once more"
            )
        self._asked = number
        return self._script.replies[number - 1], f"{self._source}, reply {number}"

    def _check_request(self, recorded: ScriptReply, request: ChatRequest, place: str) -> None:
        if recorded.expect is None:
            return
        names = {name: self._sent_name(name) for name in recorded.expect.tools}
        fault = _find_misfit(recorded.expect, request, names)
        if fault:
            raise ChatModelError(f"the conversation has left {place}: {fault}")

    def _make_chunks(
        self, recorded: ScriptReply, request: ChatRequest, place: str
    ) -> Sequence[Any]:
        if recorded.reply is not None:
            return [recorded.reply]
        if recorded.chunks is not None:
            # A reply that breaks off is played in pieces: a whole one never breaks off.
            is_whole = not request.is_streamed and recorded.error is None
            return [recorded.chunks] if is_whole else recorded.chunks
        if recorded.error is not None:
            return []
        try:
            return self._write_reply(recorded, is_streamed=request.is_streamed)
        except ConfigurationError as error:
            raise ChatModelError(f"{place}: {error}") from error

    def _write_reply(self, recorded: ScriptReply, *, is_streamed: bool) -> list[Any]:
        text, calls = recorded.text, self._make_calls(recorded)
        speaks = self._protocol.text if isinstance(self._protocol, CarriedProtocol) else None
        if is_for_text(self._protocol):
            render: Any = getattr(speaks or self._protocol, "render_call", None)
            if calls and render is None:
                raise ConfigurationError(f"{self._protocol.name!r} has no render_call: write reply")
            text, calls = "\n".join([*filter(None, [text]), *map(render, calls)]), []
            if speaks is None:
                return split_text(text) if is_streamed else [text]
        if is_streamed:
            return render_chunks(wire_of(self._protocol), text, calls)
        return [render_reply(wire_of(self._protocol), text, calls)]

    def _make_calls(self, recorded: ScriptReply) -> list[ToolCall]:
        is_text = is_for_text(self._protocol)
        return [
            ToolCall(
                call_id=call.id or f"turn_{self._asked}_{number}",
                tool_name=call.name if is_text else self._sent_name(call.name),
                arguments=call.arguments,
            )
            for number, call in enumerate(recorded.calls, 1)
        ]

    def _sent_name(self, name: str) -> str:
        known = getattr(self._protocol, "known", None)
        return name if known is None else str(known.sent_name(name))


def _find_misfit(expected: Expectation, request: ChatRequest, sent_names: Mapping[str, str]) -> str:
    """Return what of `expected` the request lacks, in words; empty: nothing.

    `sent_names` holds the name sent to the provider, for each expected tool.
    """
    last = dump_object(_last_said(request.messages))
    said = "\n".join(_find_texts(last))
    # Results may be objects, which a script quotes as JSON.
    written = json.dumps(last, ensure_ascii=False, default=str)
    for text in _as_list(expected.contains):
        if text not in said and text not in written:
            return f"the last messages do not hold {text!r}; they say {_show_start(said)}"
    for text in _as_list(expected.system):
        if text not in request.system:
            return (
                f"the system prompt does not hold {text!r}; it says {_show_start(request.system)}"
            )
    names = _list_tools(request.tools)
    for name in expected.tools:
        if sent_names[name] not in names and (request.tools or name not in request.system):
            return f"the model is not told of the tool {name!r}, but of {sorted(names) or 'none'}"
    if expected.may_call not in (None, request.may_call):
        return f"may_call is {request.may_call}, not {expected.may_call}"
    return ""


def _list_tools(tools: Any) -> set[str]:
    if not isinstance(tools, list | tuple):
        return set()
    declared: list[Any] = []
    for tool in tools:
        listed = read_field(tool, "functionDeclarations")
        declared += listed if isinstance(listed, list) else [read_field(tool, "function", tool)]
    return {name for each in declared if isinstance(name := read_field(each, "name"), str)}


def _last_said(messages: Sequence[Any]) -> list[Any]:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if read_field(message, "role") in _OWN_ROLES or read_field(message, "type") in _OWN_ITEMS:
            return list(messages[place + 1 :])
    return list(messages)


def _find_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _MARKS:
                yield from _find_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _find_texts(each)


def _as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _show_start(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def render_reply(wire: str, text: str, calls: Sequence[ToolCall] = ()) -> dict[str, Any]:
    """Return a whole reply of protocol `wire`; calls have their sent names.

    Raises:
        ConfigurationError: The form of this protocol is not known here.
    """
    form = _FORMS.get(wire)
    if form is None:
        raise ConfigurationError(
            f"text and calls cannot be written in the form of {wire!r}, only of "
            f"{', '.join(_FORMS)}: write reply or chunks as the provider sends them"
        )
    return form(text, calls)


def render_chunks(wire: str, text: str, calls: Sequence[ToolCall] = ()) -> list[Any]:
    if wire == "openai":
        return _render_openai_chunks(text, calls)
    if wire == "gemini":
        said = [_render_gemini_chunk([{"text": piece}]) for piece in split_text(text)]
        return [*said, render_reply(wire, "", calls)]
    # A decoder also takes a whole reply in place of its events.
    return [render_reply(wire, text, calls)]


def split_text(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def _render_openai(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_render_openai_call(call) for call in calls]
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"object": "chat.completion", "choices": [choice]}


def _render_openai_chunks(text: str, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in split_text(text)]
    deltas += [
        {"tool_calls": [{"index": place, **_render_openai_call(call)}]}
        for place, call in enumerate(calls)
    ]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    reason = "tool_calls" if calls else "stop"
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    return [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]


def _render_openai_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": json.dumps(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _render_openai_responses(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "content": content})
    items += [
        {
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.tool_name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in calls
    ]
    return {"object": "response", "status": "completed", "output": items}


def _render_anthropic(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.tool_name, "input": call.arguments}
        for call in calls
    ]
    reason = "tool_use" if calls else "end_turn"
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": reason}


def _render_gemini(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts += [
        {"functionCall": {"id": call.call_id, "name": call.tool_name, "args": call.arguments}}
        for call in calls
    ]
    return _render_gemini_chunk(parts, "STOP")


def _render_gemini_chunk(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


_FORMS: Final[Mapping[str, Callable[[str, Sequence[ToolCall]], dict[str, Any]]]] = {
    "openai": _render_openai,
    "openai_responses": _render_openai_responses,
    "anthropic": _render_anthropic,
    "gemini": _render_gemini,
}
