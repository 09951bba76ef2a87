"""In which form does a cache keep the tools of a text?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    TypedDict,
    get_type_hints,
)

import msgspec

from tool_engine.model.tool import PACKED_FIELDS, Tool, ToolCategory, pack
from tool_engine.visible import visible

_REBUILT: Final = frozenset({"id", "source", "findings", "once_secret"})
_TEXTS: Final = tuple(sorted(PACKED_FIELDS - _REBUILT - {"category"}))
"""The fields that hold the JSON text of a list or a mapping."""
_EMPTY: Final = msgspec.Raw(b"[]")
_EMPTY_LISTS: Final = {"examples": _EMPTY, "tests": _EMPTY, "findings": _EMPTY}
"""Fields that are not kept when empty, as most are, and their value then."""


def entry_of(tools: list[Tool], source: str) -> bytes:
    return msgspec.msgpack.encode([_cached_values(tool, source) for tool in tools])


def tools_of(entry: bytes, source: str) -> list[Tool] | None:
    """Return the tools of an entry; None if it is damaged."""
    try:
        return [_restore_tool(kept, source) for kept in _cached_form().decode(entry)]
    except msgspec.DecodeError:
        return None


class _Form(NamedTuple):
    """How a tool is kept: its packed fields, without its file."""

    defaults: dict[str, Any]
    """The fields that are kept, each with the value that it has where it is not kept."""
    decode: Callable[[bytes], list[dict[str, Any]]]


@cache
def _cached_form() -> _Form:
    types = get_type_hints(Tool)
    kinds: dict[str, Any] = {"findings": NotRequired[list[str]]}
    defaults: dict[str, Any] = {}
    for field in msgspec.structs.fields(Tool):
        if field.name in _REBUILT:
            continue
        kind = bytes if field.name in _TEXTS else types[field.name]
        if field.name == "category":
            kind = Literal[tuple(each.value for each in ToolCategory)]
        kinds[field.name] = kind if field.required else NotRequired[kind]
        defaults[field.name] = _EMPTY_LISTS.get(field.name, field.default)
    # A dict becomes the arguments of `Tool` at once, in less time than a struct takes.
    kept: Any = TypedDict("kept", kinds)  # type: ignore[misc]
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(list[kept]).decode
    return _Form(defaults, decode)


def _cached_values(tool: Tool, source: str) -> dict[str, Any]:
    values = dict(zip(tool.__struct_fields__, msgspec.structs.astuple(tool), strict=True))
    kept: dict[str, Any] = {}
    for name, default in _cached_form().defaults.items():
        if values[name] != default:
            kept[name] = bytes(values[name]) if name in _TEXTS else values[name]
    if tool.findings:
        # A finding begins with the file's path, which another file of the same text has not.
        kept["findings"] = [each.removeprefix(visible(source)) for each in tool.findings]
    return kept


def _restore_tool(kept: dict[str, Any], source: str) -> Tool:
    for name in _TEXTS:
        text = kept.get(name)
        if text is not None:
            kept[name] = _EMPTY if text == b"[]" else msgspec.Raw(text)
    kept["id"] = kept["name"]
    kept["version"] = sys.intern(kept["version"])
    kept["source"] = source
    findings = kept.pop("findings", None)
    tool = Tool(**(_EMPTY_LISTS | kept))
    if findings is None:
        return tool
    placed = [visible(source) + each for each in findings]
    return pack(msgspec.structs.replace(tool, findings=placed))
