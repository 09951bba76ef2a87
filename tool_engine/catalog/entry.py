"""In which form are the tools that came of one text kept, apart from where the text was found?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, NamedTuple, get_type_hints

import msgspec

from tool_engine.model.tool import PACKED_FIELDS, Tool, ToolCategory, pack

__all__ = ["entry_of", "tools_of"]

_REBUILT: Final = frozenset({"id", "source", "findings"})
_EMPTY: Final = msgspec.Raw(b"[]")


def entry_of(tools: list[Tool], source: str) -> bytes:
    """What is kept of the tools that were read at `source`."""
    return msgspec.msgpack.encode([_kept(tool, source) for tool in tools])


def tools_of(entry: bytes, source: str) -> list[Tool] | None:
    """The tools of an entry, as if they had just been read; None when it is no entry."""
    form = _form()
    try:
        return [_tool(form, kept, source) for kept in form.decode(entry)]
    except msgspec.DecodeError:
        return None


class _Form(NamedTuple):
    """How a tool is kept: what its packed fields hold, and not where the text was found."""

    kept: type[msgspec.Struct]
    fields: tuple[str, ...]
    texts: tuple[str, ...]
    """Those of the fields that hold the JSON text of a list or a mapping."""
    decode: Callable[[bytes], list[Any]]


@cache
def _form() -> _Form:
    types = get_type_hints(Tool)
    fields: list[Any] = []
    for field in msgspec.structs.fields(Tool):
        if field.name == "category":
            fields.append((field.name, Literal[tuple(each.value for each in ToolCategory)]))
        elif field.name in PACKED_FIELDS and field.name not in _REBUILT:
            fields.append((field.name, bytes | None, None))
        elif field.name not in _REBUILT:
            fields.append((field.name, types[field.name], field.default))
    fields.append(("findings", tuple[str, ...], ()))
    kept = msgspec.defstruct("_KeptTool", fields, kw_only=True, omit_defaults=True, gc=False)
    return _Form(
        kept,
        kept.__struct_fields__[:-1],
        tuple(PACKED_FIELDS - _REBUILT - {"category"}),
        msgspec.msgpack.Decoder(list[kept]).decode,  # type: ignore[valid-type]
    )


def _kept(tool: Tool, source: str) -> msgspec.Struct:
    form = _form()
    values = dict(zip(tool.__struct_fields__, msgspec.structs.astuple(tool), strict=True))
    kept: dict[str, Any] = {name: values[name] for name in form.fields}
    for name in form.texts:
        kept[name] = None if kept[name] is None else bytes(kept[name])
    # A finding begins with the place, which is another when the text is found elsewhere.
    findings = tuple(finding.removeprefix(source) for finding in tool.findings)
    return form.kept(findings=findings, **kept)


def _tool(form: _Form, kept: Any, source: str) -> Tool:
    values = dict(zip(form.fields, msgspec.structs.astuple(kept), strict=False))
    for name in form.texts:
        text = values[name]
        if text is not None:
            values[name] = _EMPTY if text == b"[]" else msgspec.Raw(text)
    values["id"] = kept.name
    values["version"] = sys.intern(kept.version)
    values["source"] = source
    values["findings"] = _EMPTY
    if not kept.findings:
        return Tool(**values)
    values["findings"] = [source + finding for finding in kept.findings]
    return pack(Tool(**values))
