"""What is the whole of a result as text?

Large outputs become text in pieces: what Python writes at one go keeps all other threads waiting,
and with them every other call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.output import stand_in, to_text
from tool_engine.protocols.content import blocks_of, text_of_blocks

__all__ = ["data_of", "default_text", "text_in_pieces"]

_PIECE: Final = 65_536
"""Characters and values that are written at one go: a millisecond or two."""


def data_of(output: Mapping[str, Any]) -> Any:
    """What a tool returned, of the `output` of its result: `{"result": value}` is the value."""
    return output["result"] if len(output) == 1 and "result" in output else output


def default_text(result: ToolExecutionResult) -> str:
    """All of a result as text; of a failure, its error. A37, S27."""
    blocks = blocks_of(result.output) if result.is_success else []
    if blocks:
        return text_of_blocks(blocks)
    return text_in_pieces(data_of(result.output)) if result.is_success else result.error or ""


def text_in_pieces(value: Any) -> str:
    """The same text as `to_text`, made so that other threads get their turn. Never raises."""
    if isinstance(value, str) and all(_encodable(piece) == piece for piece in _pieces(value)):
        return str.__str__(value)
    try:
        return "".join(_encodable(piece) for piece in _pieces(value))
    except (TypeError, ValueError, RecursionError):
        # What JSON cannot hold: how it is shown is decided for the whole.
        return to_text(value)


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        text = str.__str__(value)
        yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    else:
        yield from _json(value, ())


def _encodable(text: str) -> str:
    return text if text.isascii() else to_text(text)


def _json(value: Any, around: tuple[int, ...]) -> Iterator[str]:
    if id(value) in around:
        raise ValueError("it holds itself")
    if isinstance(value, str) and len(value) > _PIECE:
        yield '"'
        for piece in _pieces(value):
            yield _written(piece)[1:-1]
        yield '"'
    elif isinstance(value, dict) and _weight(value) > _PIECE:
        yield "{"
        yield from _members(value, (*around, id(value)))
        yield "}"
    elif isinstance(value, list | tuple) and _weight(value) > _PIECE:
        yield "["
        yield from _entries(value, (*around, id(value)))
        yield "]"
    else:
        yield _written(value)


def _members(value: dict[Any, Any], around: tuple[int, ...]) -> Iterator[str]:
    few: dict[Any, Any] = {}
    room, comma = _PIECE, ""
    for key, item in value.items():
        weight = _weight(item) + _weight(key)
        if few and weight > room:
            yield comma + _written(few)[1:-1]
            few, room, comma = {}, _PIECE, ", "
        if weight > _PIECE:
            yield comma + _written({key: 0})[1:-2]
            yield from _json(item, around)
            comma = ", "
        else:
            few[key] = item
            room -= weight
    if few:
        yield comma + _written(few)[1:-1]


def _entries(value: list[Any] | tuple[Any, ...], around: tuple[int, ...]) -> Iterator[str]:
    few: list[Any] = []
    room, comma = _PIECE, ""
    for item in value:
        weight = _weight(item)
        if few and weight > room:
            yield comma + _written(few)[1:-1]
            few, room, comma = [], _PIECE, ", "
        if weight > _PIECE:
            yield comma
            yield from _json(item, around)
            comma = ", "
        else:
            few.append(item)
            room -= weight
    if few:
        yield comma + _written(few)[1:-1]


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=stand_in)


def _weight(value: Any) -> int:
    """How many characters and values there are in a value; not counted on above a piece."""
    total = 0
    rest = [value]
    while rest and total <= _PIECE:
        item = rest.pop()
        total += 1
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict | list | tuple):
            total += len(item)
            if total <= _PIECE:
                rest.extend(item.values() if isinstance(item, dict) else item)
    return total
