"""How is a result written as JSON?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json.returned_value import to_json
from tool_engine.model.json.weighing import pack_small
from tool_engine.model.task import TaskState

_PLAIN: Final = frozenset((str, int, bool, type(None)))
"""Types of which there is one way to write them."""
_NOTED: Final = _PLAIN | {float}
"""The same for what the engine itself notes: its numbers are finite."""
_LARGE: Final = 1 << 16
"""Bytes of an output that is made into JSON values in a thread."""
Moment: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time as `to_dict` has it: msgspec writes the same one with a `Z`."""


async def write_result(result: ToolExecutionResult) -> bytes:
    """Return a result as JSON, as `ToolExecutionResult.to_dict` has it.

    Most results are small and flat; they are written without a copy.
    """
    is_flat = _PLAIN.issuperset(map(type, result.output.values()))
    if is_flat and _NOTED.issuperset(map(type, result.metadata.values())):
        # A number or a text may not be JSON's own, or have too many digits.
        with suppress(OverflowError, ValueError):
            moment: Any = result.executed_at.isoformat()
            return msgspec.json.encode(replace(result, executed_at=moment))
    if pack_small(result.output, _LARGE) is None:
        return await asyncio.to_thread(_write_whole, result)
    return _write_whole(result)


async def show_tasks(states: Sequence[TaskState]) -> tuple[list[dict[str, Any]], bool]:
    """Return tasks as JSON values, and whether they are large: these are made in a thread."""
    outputs = [each.result.output for each in states if each.result is not None]
    if any(pack_small(output, _LARGE) is None for output in outputs):
        return await asyncio.to_thread(lambda: [each.to_dict() for each in states]), True
    return [each.to_dict() for each in states], False


def _write_whole(result: ToolExecutionResult) -> bytes:
    return to_json(result.to_dict())
