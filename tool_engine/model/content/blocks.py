"""Which output holds content, as what a tool returned and as what a model reads?

An output with content is `{"content": [block, ...]}`, as servers of MCP give it. What is not wholly
of this form is plain data, and is read as JSON: nothing of it is left out.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.model.content.pieces import (
    AudioContent,
    Content,
    ImageContent,
    ResourceContent,
    ResourceLink,
    TextContent,
)
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.result import CUT_KEY

_BESIDE: Final = frozenset(("content", "structuredContent", "isError", "_meta", "resultType"))
"""The keys of a result of MCP."""
_KINDS: Final[Mapping[str, type[Content]]] = {
    kind.type: kind
    for kind in (TextContent, ImageContent, AudioContent, ResourceContent, ResourceLink)
}


def lay_out(value: Any) -> Any:
    """Return what a tool returned with its content as blocks; another value as it is.

    Content, a list of content and texts, and a mapping with such a list under `content` become
    `{"content": [block, ...]}`; `structuredContent` may stand beside.

    Raises:
        ToolExecutionError: Something else stands beside content.
    """
    if isinstance(value, Content):
        return {"content": [value.to_dict()]}
    if isinstance(value, list | tuple) and _has_content(value):
        return {"content": _write_blocks(value, "")}
    if isinstance(value, dict) and _has_content(value.get("content")):
        foreign = [key for key in value if key not in _BESIDE]
        if foreign:
            raise ToolExecutionError(
                f"the tool has run, but {str(foreign[0])[:80]!r} stands beside the content that it "
                "returned, where no model reads it: return data under structuredContent"
            )
        return {**value, "content": _write_blocks(value["content"], "content")}
    return value


def _has_content(values: Any) -> bool:
    return isinstance(values, list | tuple) and any(isinstance(each, Content) for each in values)


def _write_blocks(values: list[Any] | tuple[Any, ...], place: str) -> list[dict[str, Any]]:
    blocks = []
    for number, each in enumerate(values):
        if isinstance(each, str):
            each = TextContent(str.__str__(each))  # noqa: PLW2901 - the same, with its class
        if isinstance(each, Content):
            blocks.append(each.to_dict())
        elif read_block(each) is not None:
            blocks.append(each)
        else:
            kind = type(each).__name__
            raise ToolExecutionError(
                f"the tool has run, but the {kind} that it returned at '{place}[{number}]' stands "
                "beside content: make it a text, or return {'content': [...], "
                "'structuredContent': data}"
            )
    return blocks


def read_content(output: Mapping[str, Any]) -> list[Content]:
    """Return what a model reads of an output of `{"content": [block, ...]}`, in order.

    Of one that was cut, blocks that are no longer whole are left out, and the note comes last.

    Empty if the output is none: it has another key than MCP's, declares an error, or an entry is no
    whole content block. Under `structuredContent` stands what a program reads: it is a text behind
    the others, unless one of them says the same.
    """
    blocks = output.get("content")
    note = output.get(CUT_KEY)
    if isinstance(note, str):
        output = {key: value for key, value in output.items() if key != CUT_KEY}
    if not isinstance(blocks, list) or not _BESIDE.issuperset(
        key for key, value in output.items() if value is not None
    ):
        return []
    if output.get("isError") or output.get("resultType") not in (None, "complete"):
        return []
    parts = [read_block(each) for each in blocks]
    read = [part for part in parts if part is not None]
    if isinstance(note, str):
        texts = any(isinstance(part, TextContent) for part in read)
        data = None if texts else output.get("structuredContent")
        shown = [] if data is None else [TextContent(to_text(data))]
        return [*read, *shown, TextContent(note)]
    if len(read) < len(parts):
        return []
    structured = output.get("structuredContent")
    if structured is not None and not any(_says_same(part, structured) for part in read):
        read.append(TextContent(to_text(structured)))
    return read


def write_part(part: Content, reason: str = "") -> str:
    """Return a part as text: bytes and links are named, and why they are not shown."""
    if isinstance(part, TextContent):
        return part.text
    if isinstance(part, ResourceContent) and part.text is not None:
        return f"{part.describe()}\n{part.text}"
    return part.describe(reason)


def write_text(parts: Iterable[Content]) -> str:
    """Return all parts as one text."""
    return "\n".join(write_part(part) for part in parts)


def find_structured(output: Mapping[str, Any]) -> Any:
    """Return the data beside the content of an output; None: it has none."""
    is_content = isinstance(output.get("content"), list) and _BESIDE.issuperset(output)
    return output.get("structuredContent") if is_content else None


def _says_same(part: Content, structured: Any) -> bool:
    if not isinstance(part, TextContent):
        return False
    if isinstance(structured, dict) and len(structured) == 1 and part.text in structured.values():
        # Such as a file, which would be read twice: `{"content": "..."}`.
        return True
    # Servers in Python wrap what is no mapping, and write it as text without the wrapping.
    is_wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
    wanted = (structured, structured["result"]) if is_wrapped else (structured,)
    try:
        return msgspec.json.decode(part.text) in wanted
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return part.text in wanted


def read_block(block: Any) -> Content | None:
    """Return the content of a block as MCP has it; None: it is none, or not whole."""
    if not isinstance(block, Mapping):
        return None
    kind = block.get("type")
    content = _KINDS.get(kind) if isinstance(kind, str) else None
    if content is None or not _FITS[content.type](block):
        return None
    # With all that a server wrote, such as annotations.
    return content.from_block(dict(block))


def _is_text_block(block: Mapping[str, Any]) -> bool:
    return isinstance(block.get("text"), str)


def _is_binary_block(block: Mapping[str, Any]) -> bool:
    mime_type = block.get("mimeType")
    is_kind = isinstance(mime_type, str) and mime_type.startswith(f"{block['type']}/")
    return is_kind and _is_base64(block.get("data"))


def _is_resource_block(block: Mapping[str, Any]) -> bool:
    held = block.get("resource")
    if not isinstance(held, Mapping) or not isinstance(held.get("uri"), str):
        return False
    text, blob = held.get("text"), held.get("blob")
    is_whole = isinstance(text, str) if blob is None else text is None and _is_base64(blob)
    return is_whole and _are_texts(held, "mimeType")


def _is_link_block(block: Mapping[str, Any]) -> bool:
    size = block.get("size")
    is_size = size is None or (isinstance(size, int) and not isinstance(size, bool))
    is_named = isinstance(block.get("uri"), str) and isinstance(block.get("name"), str)
    return is_size and is_named and _are_texts(block, "title", "description", "mimeType")


def _are_texts(held: Mapping[str, Any], *names: str) -> bool:
    return all(held.get(name) is None or isinstance(held[name], str) for name in names)


_FITS: Final = {
    "text": _is_text_block,
    "image": _is_binary_block,
    "audio": _is_binary_block,
    "resource": _is_resource_block,
    "resource_link": _is_link_block,
}


def _is_base64(data: object) -> bool:
    """Return True for bytes as base64: of others a provider refuses the whole request."""
    # The decoder takes more padding than belongs there.
    if not isinstance(data, str) or not data or len(data) % 4 or data.endswith("==="):
        return False
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return True
