"""How is one content block of an Anthropic message assembled, and how is it sent back?

https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tool_engine.model.call import ToolCall
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.chunk_decoder import sort_by_index
from tool_engine.protocols.chunks import dump_object, read_field
from tool_engine.protocols.object_arguments import is_sendable, make_sendable
from tool_engine.protocols.reply_builder import CallInProgress
from tool_engine.protocols.tool_names import NameRule

INVALID_JSON: Final = "INVALID_JSON"
"""The key for arguments that are no object: the API takes nothing but objects.
https://docs.claude.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming
"""
TEXTS: Final = {"text": "text", "thinking": "thinking"}
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_NOT_SENT: Final = frozenset({"input", "parsed_output"})
"""Fields that are sent back in another way, or that only the SDK adds."""


class Block:
    """One content block while it streams."""

    def __init__(self, kind: str, raw: Any, index: Any = None) -> None:
        self.kind = kind
        self.index = index
        self.call: CallInProgress | None = None
        self.input = read_field(raw, "input")
        self.is_stopped = False
        if isinstance(raw, Mapping):
            raw = {key: value for key, value in raw.items() if key != "input"}
        self.fields: dict[str, Any] = {
            key: value
            for key, value in dump_object(raw).items()
            if key not in _NOT_SENT and value is not None
        }
        self.parts: list[str] = []
        """Pieces of its text, or of the arguments of the provider's own call."""
        begun = self.fields.get(TEXTS.get(kind, ""))
        if isinstance(begun, str) and begun:
            self.parts.append(begun)

    def take(self, delta: Any) -> None:
        for key, value in dump_object(delta).items():
            if key == "citation":
                if not isinstance(self.fields.get("citations"), list):
                    self.fields["citations"] = []
                self.fields["citations"].append(value)
            elif key != "type" and value is not None:
                self.fields[key] = value

    def make_param(
        self, call: ToolCall | None, rule: NameRule, *, is_whole: bool
    ) -> dict[str, Any] | None:
        if self.kind in TEXTS:
            return self._make_text_param(is_whole=is_whole)
        param = dict(self.fields)
        if call is not None:
            param["id"] = call.call_id
            param["name"] = rule.spell(param.get("name"))
            param["input"] = _write_input(call)
        elif self.parts:
            param["input"] = _read_object("".join(self.parts))
        elif self.input is not None:
            param["input"] = self.input if is_sendable(self.input) else {}
        return param

    def _make_text_param(self, *, is_whole: bool) -> dict[str, Any] | None:
        text = "".join(self.parts)
        # The API refuses texts without a letter. It also refuses thinking without a signature: its
        # own has one unless it broke off. Other servers sign nothing, and want it back as it is.
        if self.kind == "text" and not text.strip():
            return None
        if self.kind == "thinking" and not (is_whole or self.fields.get("signature")):
            return None
        return {**self.fields, TEXTS[self.kind]: text}


def make_message(
    blocks: list[Block], calls: Mapping[str, ToolCall], rule: NameRule, *, is_whole: bool
) -> list[dict[str, Any]]:
    """Return the assistant's message of these blocks in a list, maybe empty.

    `calls` are those read from the blocks, by id; `is_whole` is true if the reply was complete.
    """
    params = [
        block.make_param(calls[block.call.call_id] if block.call else None, rule, is_whole=is_whole)
        for block in sort_by_index(blocks)
    ]
    content = [make_sendable(param) for param in params if param is not None]
    # The API refuses a message that ends with thinking, as when a reply was cut there.
    while content and content[-1].get("type") in _THOUGHTS:
        content.pop()
    return [{"role": "assistant", "content": content}] if content else []


def drop_unanswered(messages: Sequence[Any]) -> list[Any]:
    """Remove the provider's own calls that still lack a result.

    The API refuses a user's message behind one of them. Replies that the provider continues keep
    them, and so do those with calls of ours.
    """
    return [each for message in messages for each in _keep_answered(message)]


def _keep_answered(message: Any) -> list[Any]:
    content = read_field(message, "content")
    if read_field(message, "role") != "assistant" or not isinstance(content, list):
        return [message]
    answers = {read_field(each, "tool_use_id") for each in content}
    kept = [each for each in content if not _is_own_call(each) or read_field(each, "id") in answers]
    has_calls = any(read_field(each, "type") == "tool_use" for each in content)
    if has_calls or len(kept) == len(content):
        return [message]
    while kept and read_field(kept[-1], "type") in _THOUGHTS:
        kept.pop()
    return [{**message, "content": kept}] if kept else []


def _is_own_call(block: Any) -> bool:
    kind = read_field(block, "type", "")
    return isinstance(kind, str) and kind.endswith("_tool_use")


def _write_input(call: ToolCall) -> dict[str, Any]:
    return dict(call.arguments) if call.is_runnable else _read_object(call.raw)


def _read_object(text: str) -> dict[str, Any]:
    value = read_arguments(text, repair=False).value
    return {INVALID_JSON: text} if value is None else value
