"""Which parts of a server's result are content that is known here?

The SDK refuses a whole result of 2025 for one part that it does not know, and takes any of 2026,
which no model could read. So what is known is kept, and a text behind it says what was left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from pydantic import BaseModel, ValidationError

from tool_engine.model.content.blocks import read_block
from tool_engine.visible import escape_hidden

_AT_ONCE: Final = 65_536
"""Characters of bytes that are looked at without a thread."""
_PARTS: Final = 500
"""Parts that are looked at before others have their turn."""
_TOLD: Final = 3
"""Types that are named of those that were left out."""
_LONGEST_TYPE: Final = 40
_TEXT: Final = ("type", "text")
_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource": EmbeddedResource,
    "resource_link": ResourceLink,
}
_BESIDE: Final = frozenset(("annotations", "_meta", "icons"))
"""Keys of a part that may be left out of it."""


async def keep_known(result: dict[str, Any]) -> None:
    """Leave out of a result of `tools/call` what is no content, and say so in its last part."""
    blocks = result.get("content")
    if not isinstance(blocks, list):
        return
    if len(blocks) <= _PARTS:
        if all(map(_is_plain_text, blocks)):
            return
    elif await _are_plain(blocks):
        return
    kept: list[Any] = []
    left_out: list[str] = []
    for number, block in enumerate(blocks, 1):
        if number % _PARTS == 0:
            await asyncio.sleep(0)
        is_large = isinstance(block, dict) and _measure_bytes(block) > _AT_ONCE
        known = await asyncio.to_thread(_read_known, block) if is_large else _read_known(block)
        if known is None:
            left_out.append(_name_type(block))
        else:
            kept.append(known)
    if left_out:
        kept.append({"type": "text", "text": _describe_left_out(left_out)})
    result["content"] = kept


async def _are_plain(blocks: list[Any]) -> bool:
    for first in range(0, len(blocks), _PARTS):
        if not all(map(_is_plain_text, blocks[first : first + _PARTS])):
            return False
        await asyncio.sleep(0)
    return True


class _Parts(list[Any]):
    """The many parts of a result, in a list without any.

    The SDK checks each part of a result in one turn of the loop.
    """

    whole: list[Any]


def put_away(result: dict[str, Any]) -> None:
    """Hide the parts of a result from the SDK, where they are many; they have been looked at."""
    blocks = result["content"]
    if isinstance(blocks, list) and len(blocks) > _PARTS:
        result["content"] = parts = _Parts()
        parts.whole = blocks


def take_out(result: dict[str, Any]) -> None:
    """Show the parts that were put away."""
    if isinstance(parts := result.get("content"), _Parts):
        result["content"] = parts.whole


def _is_plain_text(block: Any) -> bool:
    # Nearly all are: as quick as can be.
    if type(block) is not dict or len(block) != len(_TEXT):
        return False
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _read_known(block: Any) -> dict[str, Any] | None:
    """Return a part without what is wrong beside it; None: it is no content."""
    if type(block) is not dict or read_block(block) is None:
        return None
    model = _MODELS[block["type"]]
    for known in (block, {key: block[key] for key in block if key not in _BESIDE}):
        try:
            model.model_validate(known, by_name=False)
        except ValidationError:
            continue
        return known
    return None


def _measure_bytes(block: dict[str, Any]) -> int:
    resource = block.get("resource")
    data = resource.get("blob") if isinstance(resource, dict) else block.get("data")
    return len(data) if isinstance(data, str) else 0


def _name_type(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return repr(escape_hidden(kind[:_LONGEST_TYPE])) if isinstance(kind, str) else "no type"


def _describe_left_out(types: list[str]) -> str:
    different = list(dict.fromkeys(types))
    named = ", ".join(different[:_TOLD])
    more = " and others" if len(different) > _TOLD else ""
    parts = "1 part" if len(types) == 1 else f"{len(types):,} parts"
    return f"[{parts} of the result left out, not known here or not whole: {named}{more}]"
