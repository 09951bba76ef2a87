"""How is one output item of OpenAI's Responses API assembled, and how is it sent back?

https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tool_engine.model.call import ToolCall
from tool_engine.protocols.arguments.argument_text import read_arguments
from tool_engine.protocols.chunk_decoder import sort_by_index
from tool_engine.protocols.chunks import dump_object, read_field
from tool_engine.protocols.object_arguments import is_sendable, make_sendable
from tool_engine.protocols.reply_builder import CallInProgress
from tool_engine.protocols.tool_names import NameRule

FUNCTION: Final = "function_call"
AWAITED: Final = frozenset(
    {
        *("custom_tool_call", "computer_call", "local_shell_call", "shell_call"),
        *("apply_patch_call", "mcp_approval_request"),
    }
)
"""Types of items that need an answer which only the program around the engine can give."""
INVALID_JSON: Final = "INVALID_JSON"
"""The key for arguments that are no object: servers parse them again."""
_NOT_SENT: Final = frozenset({"parsed_arguments", "created_by"})
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("result",),
}
"""Fields that must be present, even as null, in items that the provider runs itself."""
_ECHOED: Final = ("caller", "namespace")
_NEVER_INCOMPLETE: Final = frozenset({"image_generation_call", "apply_patch_call"})
"""Types of items that know no such status."""
_LOOSE: Final = ("action", "output")
"""Fields that the provider fills with nulls, and refuses in that form."""
_NULLABLE: Final = ("keys",)
_STATUSES: Final = ("completed", "incomplete")


class PartKey(NamedTuple):
    """The key of an item's text that deltas belong to."""

    field: str
    """`content` or `summary`."""
    kind: str
    """Its `type`, such as `output_text`."""
    place: int


class Item:
    """One output item while it streams; `index` is its `output_index`."""

    def __init__(self, kind: str, raw: Any, index: int | None) -> None:
        self.kind = kind
        self.index = index
        self.call: CallInProgress | None = None
        self.arguments: Any = None
        self.has_arguments = False
        self.is_done = False
        self.texts: dict[PartKey, list[str]] = {}
        self.fields: dict[str, Any] = {}
        self.update(raw)

    def update(self, raw: Any) -> None:
        if isinstance(raw, Mapping):
            raw = {key: value for key, value in raw.items() if key not in _NOT_SENT}
        for key, value in dump_object(raw).items():
            if key == "content" and isinstance(value, str):
                self.fields[key] = [{"type": "output_text", "text": value}]
            elif key not in _NOT_SENT and value is not None:
                self.fields[key] = value

    def list_whole_texts(self) -> Iterable[tuple[PartKey, str]]:
        for name in ("summary", "content"):
            for index, part in enumerate(_as_list(self.fields.get(name))):
                kind = read_field(part, "type")
                text = read_field(part, "refusal" if kind == "refusal" else "text")
                if isinstance(kind, str) and isinstance(text, str):
                    yield PartKey(name, kind, index), text

    def merge_fields(self) -> dict[str, Any]:
        """Return the fields, completed with the texts of deltas."""
        fields = dict(self.fields)
        whole = {key: text for key, text in self.list_whole_texts() if text}
        for key, parts in self.texts.items():
            if key not in whole:
                listed = _as_list(fields.get(key.field))[: key.place]
                name = "refusal" if key.kind == "refusal" else "text"
                fields[key.field] = [*listed, {"type": key.kind, name: "".join(parts)}]
        return fields

    def list_echoed(self) -> dict[str, Any]:
        """Return the fields that the result of a call has to repeat."""
        return {name: self.fields[name] for name in _ECHOED if name in self.fields}

    def join_reasoning(self) -> str:
        if self.kind != "reasoning":
            return ""
        fields = self.merge_fields()
        parts = [*_as_list(fields.get("summary")), *_as_list(fields.get("content"))]
        texts = (read_field(part, "text") for part in parts)
        return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def make_input(
    items: list[Item], calls: Mapping[str, ToolCall], rule: NameRule, *, is_stored: bool
) -> list[dict[str, Any]]:
    """Return the items as the input of the next request.

    `calls` are those read from the items, by id. If the server keeps the items (`is_stored`), an id
    alone stands for one.
    """
    params = [_make_param(item, calls, rule, is_stored=is_stored) for item in sort_by_index(items)]
    sent = [param for param in params if param is not None]
    # The API refuses reasoning that nothing follows: "without its required following item".
    while sent and sent[-1]["type"] == "reasoning":
        sent.pop()
    return [make_sendable(param) for param in sent]


def drop_awaited(messages: Sequence[Any]) -> list[Any]:
    """Remove the items that only the program around the engine could answer.

    The API refuses a conversation with unanswered ones, and reasoning that nothing follows.
    """
    if not any(read_field(each, "type") in AWAITED for each in messages):
        return list(messages)
    kept: list[Any] = []
    for each in messages:
        if read_field(each, "type") not in AWAITED:
            kept.append(each)
            continue
        while kept and read_field(kept[-1], "type") == "reasoning":
            kept.pop()
    return kept


def _make_param(
    item: Item, calls: Mapping[str, ToolCall], rule: NameRule, *, is_stored: bool
) -> dict[str, Any] | None:
    param = {**item.merge_fields(), "type": item.kind}
    if param.get("status") == "in_progress" and item.kind not in _NEVER_INCOMPLETE:
        param["status"] = "incomplete"
    if item.call is not None:
        call = calls[item.call.call_id]
        param["call_id"] = call.call_id
        param["name"] = rule.spell(param.get("name"))
        param["arguments"] = _write_arguments(call)
    elif item.kind == "reasoning":
        # For reasoning, the API answers that it does not know this parameter.
        param.pop("status", None)
        param.setdefault("summary", [])
        if not item.is_done or not (is_stored or param.get("encrypted_content")):
            return None
    elif item.kind == "message":
        return _complete_message(param)
    for name in _REQUIRED.get(item.kind, ()):
        param.setdefault(name, None)
    return {key: _drop_nulls(each) if key in _LOOSE else each for key, each in param.items()}


def _drop_nulls(value: Any) -> Any:
    """Return the fields without nulls that may be missing, but not null."""
    if isinstance(value, list):
        return [_drop_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _drop_nulls(each)
        for key, each in value.items()
        if each is not None or key in _NULLABLE
    }


def _complete_message(param: dict[str, Any]) -> dict[str, Any] | None:
    parts = [
        _complete_part(part) for part in _as_list(param.get("content")) if isinstance(part, dict)
    ]
    if not parts:
        return None
    param["content"] = parts
    if "id" in param and param.get("status") not in _STATUSES:
        param["status"] = "completed"
    return param


def _complete_part(part: dict[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in part.items() if key != "parsed" and value is not None}
    if made.get("type") == "output_text":
        made.setdefault("annotations", [])
    return made


def _write_arguments(call: ToolCall) -> str:
    read = read_arguments(call.raw, repair=False)
    if read.value is not None and is_sendable(read.value):
        # Without text the API knows no arguments at all.
        return call.raw if call.raw.strip() else "{}"
    return json.dumps(call.arguments if call.is_runnable else {INVALID_JSON: call.raw})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
