"""How does a conversation stay valid for its provider, wherever a turn breaks off?

The messages grow by whole units: what a user says, a reply without calls, or a reply together with
one result for each of its calls. A turn in which the model said something ends with the model's
side, so that the next user's message is in its place; one in which it said nothing is taken back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.agent.models.carried import make_message, wire_of
from tool_engine.interfaces import ChatModel, ToolCallingProtocol
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.protocols.anthropic.content_blocks import drop_unanswered
from tool_engine.protocols.object_arguments import make_readable
from tool_engine.protocols.openai_responses.output_items import drop_awaited
from tool_engine.protocols.result_content import REQUEST_ID

_IDS: Final = ("id", "call_id")


class History:
    """The messages of one conversation, in the form of its model's protocol."""

    def __init__(self, model: ChatModel, messages: Sequence[Any] = ()) -> None:
        self._model = model
        self.messages: list[Any] = list(messages)
        self.is_said = False
        self._start = len(self.messages)
        self._awaits_model = False
        self._is_paused = False
        """True if the last message is a reply that its provider will continue."""
        self._ids: set[str] = set()
        """The ids in the first `_looked_through` messages, so that no round scans them again."""
        self._looked_through = 0

    def __repr__(self) -> str:
        return f"History({len(self.messages)} messages)"

    def begin(self, text: str) -> None:
        self._start = len(self.messages)
        self.is_said = False
        self.ask(text)

    def ask(self, text: str) -> None:
        """Add a text from the user's side.

        It joins the message that the model reads next, if possible: many servers require the sides
        to alternate, so that a second user message in a row is the last resort.
        """
        text = make_readable(text)
        self._close_reply()
        if self._awaits_model:
            last = deepcopy(self.messages[-1])
            if _add_text(last, text):
                self.messages[-1] = last
                return
        self.messages.append(self._model.user_message(text))
        self._awaits_model = True

    def add_reply(self, messages: Sequence[Any]) -> None:
        """Add a reply without calls; one without messages leaves no trace."""
        if messages:
            self._add_messages(drop_awaited(messages))
            self._close_reply()

    def add_calls(self, messages: Sequence[Any]) -> None:
        place = self._add_messages(drop_awaited(messages))
        self.messages[place:] = drop_unanswered(self.messages[place:])
        self._awaits_model, self._is_paused = True, False

    def pause(self, messages: Sequence[Any]) -> None:
        """Add a reply that its provider continues with the next one."""
        if messages:
            self._add_messages(messages)
            self._is_paused = True

    def _add_messages(self, messages: Sequence[Any]) -> int:
        """Add the messages of a reply or its rest; return their place."""
        place = len(self.messages)
        joined = (
            _join_messages(self.messages[-1], messages[0]) if self._is_paused and messages else None
        )
        if joined is not None:
            place -= 1
            self.messages[place:] = [joined]
            messages = messages[1:]
        self.messages += messages
        self.is_said, self._awaits_model = True, False
        return place

    def _close_reply(self) -> None:
        """Close the last reply: remove what its provider was still to deliver."""
        if self._is_paused:
            self._is_paused = False
            kept = drop_unanswered(self.messages[-1:])
            self.messages[-1:] = kept
            self._awaits_model = not kept

    def with_new_ids(
        self, messages: Sequence[Any], calls: Sequence[ToolCall]
    ) -> tuple[Sequence[Any], Sequence[ToolCall]]:
        """Return a reply and its calls without ids that are taken.

        Some servers count from 1 in each reply, and some providers refuse a repeated id. Messages
        without ids, such as text, are returned as they are.
        """
        if wire_of(self._model.protocol) == "gemini":
            # This provider needs no unique ids, and signs its calls.
            return messages, calls
        used, own = self._used_ids(), {call.call_id for call in calls}
        names = {}
        for name in own & used & set(_ids_in(messages)):
            free = (f"{name}_{number}" for number in itertools.count(2))
            names[name] = next(each for each in free if each not in used | own)
        if not names:
            return messages, calls
        known = [replace(call, call_id=names.get(call.call_id, call.call_id)) for call in calls]
        return _with_ids(list(messages), names), known

    def _used_ids(self) -> set[str]:
        self._ids.update(_ids_in(self.messages[self._looked_through :]))
        self._looked_through = len(self.messages)
        return self._ids

    def add_said(self, text: str) -> None:
        if text:
            self.add_reply([_assistant_message(self._model, text)])

    def break_off(self, said: str, note: str) -> list[Any]:
        """End the turn early, and return the messages that it added.

        `said` is the text of an incomplete reply, `note` the text in place of a missing answer.
        """
        if said or self._is_paused:
            self.add_said(f"{said}\n\n{note}".strip())
        if not self.is_said:
            del self.messages[self._start :]
            # The ids of what was taken back are free again.
            self._ids.clear()
            self._looked_through = 0
        elif self._awaits_model:
            self.add_said(note)
        self._awaits_model = False
        return self.messages[self._start :]

    def take_back(self, note: str, answer: str) -> list[Any]:
        """Remove the turn, as the provider would refuse everything that follows it.

        `note` takes its place on the user's side (empty: none), `answer` on the model's. Returns
        the messages in its place.
        """
        self.is_said = self._is_paused = self._awaits_model = False
        del self.messages[self._start :]
        if note:
            self.ask(note)
            self.add_said(answer)
        return self.break_off("", "")


def result_messages(
    protocol: ToolCallingProtocol,
    results: Sequence[ToolExecutionResult],
    calls: Sequence[ToolCall],
    formatted: Any = None,
) -> list[Any]:
    """Return the messages that report the results of `calls` to the model.

    `formatted` holds the results as the protocol has formatted them already.
    """
    if formatted is None:
        pairs = zip(results, calls, strict=True)
        # Under the names that the model wrote, as it matches results by them.
        named = [
            replace(
                result,
                tool_name=call.tool_name,
                metadata={**result.metadata, REQUEST_ID: call.call_id},
            )
            for result, call in pairs
        ]
        formatted = protocol.format_results(named, calls)
    is_text = isinstance(formatted, str)
    return [{"role": "user", "content": formatted}] if is_text else list(formatted)


def _assistant_message(model: ChatModel, text: str) -> Any:
    own: Callable[[str, str], Any] | None = getattr(model, "say", None)
    if own is not None:
        return own("assistant", text)
    return make_message(wire_of(model.protocol), "assistant", text)


def _join_messages(said: Any, more: Any) -> Any:
    """Join two block messages of the model; return None if impossible."""
    both = (said, more)
    if not all(isinstance(each, dict) and each.get("role") == "assistant" for each in both):
        return None
    blocks = [_list_blocks(said.get("content")), _list_blocks(more.get("content"))]
    if blocks[0] is None or blocks[1] is None:
        return None
    return {**said, "content": [*blocks[0], *blocks[1]]}


def _list_blocks(content: Any) -> list[Any] | None:
    text = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return text if isinstance(text, list) else None


def _add_text(message: Any, text: str) -> bool:
    """Append a text to a message, if the model reads it next.

    Many servers take no user message after results: the text then joins the last result.
    """
    if not isinstance(message, dict) or message.get("role") not in ("user", "tool"):
        return False
    content, parts = message.get("content"), message.get("parts")
    if isinstance(content, str):
        message["content"] = f"{content}\n\n{text}"
    elif isinstance(content, list) and all(_is_block(each) for each in content):
        content.append({"type": "text", "text": text})
    elif isinstance(parts, list):
        parts.append({"text": text})
    else:
        return False
    return True


def _ids_in(value: Any) -> Iterator[str]:
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from _ids_in(each)
    if isinstance(value, dict):
        yield from (value[key] for key in _IDS if isinstance(value.get(key), str))


def _with_ids(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_with_ids(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: names.get(each, each)
        if key in _IDS and isinstance(each, str)
        else _with_ids(each, names)
        for key, each in value.items()
    }


def _is_block(part: Any) -> bool:
    """Return True if a part may join text blocks (not in Responses)."""
    kinds = ("text", "image", "image_url", "input_audio", "file", "tool_result")
    return isinstance(part, dict) and part.get("type") in kinds
