"""How is a result written as JSON?"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.output import to_json
from tool_engine.model.json.weighing import pack_small

_PLAIN: Final = frozenset((str, int, bool, type(None)))
"""Types of which there is one way to write them."""
_NOTED: Final = _PLAIN | {float}
"""The same for what the engine itself notes: its numbers are finite."""
_LARGE: Final = 1 << 16
"""Bytes of an output that is made into JSON values in a thread."""


async def write_result(result: ToolExecutionResult) -> bytes:
    """Return a result as JSON, as `ToolExecutionResult.to_dict` has it.

    Most results are small and flat; they are written without a copy.
    """
    is_flat = all(type(each) in _PLAIN for each in result.output.values())
    if is_flat and all(type(each) in _NOTED for each in result.metadata.values()):
        try:
            return msgspec.json.encode(result)
        except (OverflowError, UnicodeError):
            pass  # a number or text that is not JSON's own
    if pack_small(result.output, _LARGE) is None:
        return await asyncio.to_thread(_write_whole, result)
    return _write_whole(result)


def _write_whole(result: ToolExecutionResult) -> bytes:
    return to_json(result.to_dict())
