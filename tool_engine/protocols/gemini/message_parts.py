"""How does a reply of Gemini go back into the history, so that Gemini takes it?

All parts in their order, each `thoughtSignature` on the part that it came with, texts that were cut
into chunks joined. https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tool_engine.model.call import ToolCall
from tool_engine.protocols.object_arguments import make_sendable
from tool_engine.protocols.reply_builder import CallInProgress
from tool_engine.protocols.tool_names import KnownTools

_TEXT_KEYS: Final = frozenset({"text", "thought"})


def wrap_response(response: Any) -> dict[str, Any]:
    """Return the `response` of a functionResponse, always an object. X9."""
    return dict(response) if isinstance(response, Mapping) else {"output": response}


class _CallPart:
    def __init__(self, part: dict[str, Any], call: CallInProgress, *, has_id: bool) -> None:
        self.part = part
        self.call = call
        self.has_id = has_id


class MessageParts:
    """The parts of one reply, as they come."""

    def __init__(self, known: KnownTools) -> None:
        self._known = known
        self.role = "model"
        self._parts: list[dict[str, Any] | _CallPart] = []
        self._contents = [(self.role, self._parts)]
        """The last one is being read; a reply has one, a history passed as a reply has more."""
        self._texts: list[str] = []

    def __len__(self) -> int:
        return sum(len(parts) for _, parts in self._contents)

    def enter(self, role: Any) -> None:
        said = "model" if role == "assistant" or not isinstance(role, str) else role
        if said != self.role:
            self._join_texts()
            self.role, self._parts = said, []
            self._contents.append((said, self._parts))

    def add(self, part: dict[str, Any]) -> None:
        last = self._parts[-1] if self._parts else None
        if self._texts and isinstance(last, dict) and _continues_text(last, part):
            self._texts.append(part["text"])
            return
        self._join_texts()
        if "functionResponse" in part and isinstance(part["functionResponse"], Mapping):
            answer = part["functionResponse"]
            answered = {**answer, "response": wrap_response(answer.get("response"))}
            part = {**part, "functionResponse": answered}
        is_text = part.keys() <= _TEXT_KEYS
        if is_text and part.get("text"):
            self._texts = [part["text"]]
        if not is_text or self._texts:
            # Gemini refuses a text without letters, which ends many streams.
            self._parts.append(part)

    def add_call(self, part: dict[str, Any], call: CallInProgress, *, has_id: bool) -> None:
        self._join_texts()
        self._parts.append(_CallPart(part, call, has_id=has_id))

    def sign(self, call: CallInProgress, signature: Any) -> None:
        for known in reversed(self._parts):
            if isinstance(known, _CallPart) and known.call is call and signature is not None:
                known.part["thoughtSignature"] = signature
                return

    def contents(self, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        """Return the reply's content in a list; empty if there is none."""
        self._join_texts()
        read = {call.call_id: call for call in calls}
        said = [
            (role, [each for each in parts if not _is_repeated(each)])
            for role, parts in self._contents
        ]
        return [
            {
                "role": role,
                "parts": make_sendable(
                    [
                        self._write_call(each, read[each.call.call_id])
                        if isinstance(each, _CallPart)
                        else each
                        for each in parts
                    ]
                ),
            }
            for role, parts in said
            if parts
        ]

    def _write_call(self, entry: _CallPart, call: ToolCall) -> dict[str, Any]:
        value = entry.call.value
        named: dict[str, Any] = {"id": call.call_id} if entry.has_id else {}
        named["name"] = self._known.sent_name(call.tool_name)
        named["args"] = call.arguments if value is None else dict(value)
        return {**entry.part, "functionCall": named}

    def _join_texts(self) -> None:
        last = self._parts[-1] if self._parts else None
        if len(self._texts) > 1 and isinstance(last, dict):
            self._parts[-1] = {**last, "text": "".join(self._texts)}
        self._texts = []


def _is_repeated(part: dict[str, Any] | _CallPart) -> bool:
    return isinstance(part, _CallPart) and part.call.is_repeated


def _continues_text(last: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Return True if two texts were one, with no signature between."""
    return (
        part.keys() <= _TEXT_KEYS
        and isinstance(part.get("text"), str)
        and bool(last.get("thought")) == bool(part.get("thought"))
    )
