"""What is the whole of a result as text?

Large outputs become text in pieces: what Python writes at one go keeps all other threads waiting,
and with them every other call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.output import has_odd_keys, stand_in, to_text
from tool_engine.protocols.content import blocks_of, text_of_blocks

__all__ = [
    "PIECE",
    "data_of",
    "default_text",
    "short_text",
    "text_in_pieces",
    "weight_of",
    "written",
]

PIECE: Final = 65_536
"""Characters and values that are written at one go: a millisecond or two."""
_MOST_LEVELS: Final = 12
"""Values in one another that are each larger than a piece."""
_SHORT: Final = 2**64
"""Whole numbers below it are written as they are."""


def data_of(output: Mapping[str, Any]) -> Any:
    """What a tool returned, of the `output` of its result: `{"result": value}` is the value."""
    return output["result"] if len(output) == 1 and "result" in output else output


def short_text(output: Mapping[str, Any]) -> str | None:
    """The same as `default_text`, of an output that is a plain text or number; None: it is none."""
    return _short(output["result"]) if len(output) == 1 and "result" in output else None


def default_text(result: ToolExecutionResult) -> str:
    """All of a result as text; of a failure, its error. A37, S27."""
    if not result.is_success:
        return result.error or ""
    output = result.output
    blocks = blocks_of(output) if "content" in output else []
    return text_of_blocks(blocks) if blocks else text_in_pieces(data_of(output))


def text_in_pieces(value: Any) -> str:
    """The same text as `to_text`, made so that other threads get their turn. Never raises."""
    text = _short(value)
    if text is not None:
        return text
    if isinstance(value, str) and all(_encodable(piece) == piece for piece in _pieces(value)):
        return str.__str__(value)
    try:
        return "".join(_encodable(piece) for piece in _pieces(value))
    except (TypeError, ValueError, RecursionError):
        # What JSON cannot hold: how it is shown is decided for the whole.
        return to_text(value)


def _short(value: Any) -> str | None:
    kind = type(value)
    if kind is str and len(value) <= PIECE and value.isascii():
        return value  # type: ignore[no-any-return] # of exactly this type
    return str(value) if kind is int and -_SHORT < value < _SHORT else None


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        text = str.__str__(value)
        yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    else:
        yield from _json(value, ())


def _encodable(text: str) -> str:
    return text if text.isascii() else to_text(text)


def _json(value: Any, around: tuple[int, ...], *, is_large: bool = False) -> Iterator[str]:
    if id(value) in around:
        raise ValueError("it holds itself")
    if len(around) > _MOST_LEVELS:
        # Each level is weighed before it is written: of a chain, that is all of it again.
        raise ValueError("it is large at every level")
    if isinstance(value, str) and len(value) > PIECE:
        yield '"'
        for piece in _pieces(value):
            yield written(piece)[1:-1]
        yield '"'
    elif isinstance(value, dict) and (is_large or weight_of(value) > PIECE):
        yield "{"
        yield from _members(value, (*around, id(value)))
        yield "}"
    elif isinstance(value, list | tuple) and (is_large or weight_of(value) > PIECE):
        yield "["
        yield from _entries(value, (*around, id(value)))
        yield "]"
    else:
        yield written(value)


def _members(value: dict[Any, Any], around: tuple[int, ...]) -> Iterator[str]:
    few: dict[Any, Any] = {}
    room, comma = PIECE, ""
    for key, item in value.items():
        weight = weight_of(item) + weight_of(key)
        if few and weight > room:
            yield comma + written(few)[1:-1]
            few, room, comma = {}, PIECE, ", "
        if weight > PIECE:
            yield comma + written({key: 0})[1:-2]
            yield from _json(item, around, is_large=True)
            comma = ", "
        else:
            few[key] = item
            room -= weight
    if few:
        yield comma + written(few)[1:-1]


def _entries(value: list[Any] | tuple[Any, ...], around: tuple[int, ...]) -> Iterator[str]:
    few: list[Any] = []
    room, comma = PIECE, ""
    for item in value:
        weight = weight_of(item)
        if few and weight > room:
            yield comma + written(few)[1:-1]
            few, room, comma = [], PIECE, ", "
        if weight > PIECE:
            yield comma
            yield from _json(item, around, is_large=True)
            comma = ", "
        else:
            few.append(item)
            room -= weight
    if few:
        yield comma + written(few)[1:-1]


def written(value: Any) -> str:
    """A small value as JSON on one line.

    Raises:
        ValueError: JSON cannot hold it.
        TypeError: The same, of a key.
    """
    if has_odd_keys(value):
        raise TypeError("two keys may be the same in JSON")
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=stand_in)


def weight_of(value: Any) -> int:
    """How many characters and values there are in a value; not counted on above a piece."""
    total = 0
    rest = [value]
    while rest and total <= PIECE:
        item = rest.pop()
        total += 1
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict | list | tuple):
            total += len(item)
            if total <= PIECE:
                rest.extend(item.values() if isinstance(item, dict) else item)
    return total
