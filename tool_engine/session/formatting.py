"""How is a complete result written as text?

Large outputs become text in pieces: what Python writes at one go keeps all other threads waiting,
and with them every other call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.content.blocks import read_content, write_text
from tool_engine.model.json.plain import write_short
from tool_engine.model.json.returned_value import stand_in, to_text
from tool_engine.model.json.weighing import PIECE, is_written_at_once, write_in_pieces

LIMIT: Final = "limit"
"""The argument `limit`, which every tool takes without declaring it. U39."""


def data_of(output: Mapping[str, Any]) -> Any:
    """Return the tool's value: `{"result": value}` becomes the value."""
    return output["result"] if len(output) == 1 and "result" in output else output


def short_text(output: Mapping[str, Any]) -> str | None:
    """Return `default_text` of a plain text or number, else None."""
    return write_short(output["result"]) if len(output) == 1 and "result" in output else None


def default_text(result: ToolExecutionResult) -> str:
    """Return the full text of a result, or its error. A37, S27."""
    if not result.is_success:
        return result.error or ""
    output = result.output
    parts = read_content(output) if "content" in output else []
    return write_text(parts) if parts else text_in_pieces(data_of(output))


def text_in_pieces(value: Any) -> str:
    """Return the text of `to_text`, while other threads run. Never raises."""
    text = write_short(value)
    if text is not None:
        return text
    if isinstance(value, str) and all(
        _make_encodable(piece) == piece for piece in _write_pieces(value)
    ):
        return str.__str__(value)
    try:
        return "".join(_make_encodable(piece) for piece in _write_pieces(value))
    except (TypeError, ValueError, RecursionError):
        # What JSON cannot hold: how it is shown is decided for the whole.
        return to_text(value)


def _write_pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        text = str.__str__(value)
        yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    elif is_written_at_once(value):
        yield write_part(value)
    else:
        yield from write_in_pieces(value, write_part)


def _make_encodable(text: str) -> str:
    return text if text.isascii() else to_text(text)


def write_part(value: Any) -> str:
    """Write a part of a weighed value as JSON on one line.

    Raises:
        ValueError: JSON cannot hold it.
        TypeError: The same, of a key.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=stand_in)
