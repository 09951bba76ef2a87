"""How are a tool's result limits applied to what its executor returns?"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

from tool_engine.errors import ToolExecutionError
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.content.blocks import lay_out
from tool_engine.model.json.returned_value import as_output, has_own_form
from tool_engine.model.result import MOST_KEPT, ResultLimits
from tool_engine.model.tool import Tool
from tool_engine.output.cutting import cut_output
from tool_engine.output.foreign_values import check_unfolding, plain_output
from tool_engine.output.limited import Kept, LimitedOutput, Reader, is_known
from tool_engine.output.measure import Measure, make_plain
from tool_engine.redaction import OwnSecrets, secrets_of

_AT_ONCE: Final = 32_768
"""Characters of an output that the event loop handles; a larger one goes to a thread."""
SHORT: Final = 32_768
"""Bytes of the packed form of such an output, which is measured at one go: to count the characters
of a table value by value takes thirty times as long."""
_FEW: Final = 16
_SHORT: Final = 512
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_UNLIMITED: Final = ResultLimits()
_PER_OBJECT: Final = 16
"""Characters that each list and each mapping counts for: reading many of them takes longer than
reading long texts."""


class Keeper(Protocol):
    """Decides what a record keeps."""

    def __call__(
        self, returned: dict[str, Any], output: dict[str, Any], fits: Callable[[Any], bool]
    ) -> Kept:
        """Return what to keep of a returned value and of the output selected from it."""


def shape_output(
    executor: Any, limits: ResultLimits, keep: Keeper, *, has_reader: bool
) -> ToolExecutor:
    """Return an executor whose values become `LimitedOutput` where limits change them.

    Limits are a matter of the run: they count in its deadline, and what takes long does not take
    the event loop.

    Args:
        executor: Runs the tool; its `execute` is async or plain.
        limits: The tool's.
        keep: Decides what the record keeps.
        has_reader: Whether models have a tool to read the rest with.
    """
    shaper = _Shaper(limits, keep, has_reader)
    is_async = inspect.iscoroutinefunction(executor.execute) or getattr(executor, "is_async", False)
    return _AsyncShaping(executor, shaper) if is_async else _SyncShaping(executor, shaper)


class _Shaper:
    def __init__(self, limits: ResultLimits, keep: Keeper, has_reader: bool) -> None:
        self._limits = limits
        self._keep = keep
        self._has_reader = has_reader

    def shape(self, value: Any, secrets: OwnSecrets, context: ToolExecutionContext) -> Any:
        """Return the value, or its limited form."""
        try:
            return self._shape_value(value, secrets, context)
        except ToolExecutionError:
            raise
        except Exception as error:  # a foreign mapping may raise anything
            raise ToolExecutionError(
                f"the tool has run, but its output cannot be read: {type(error).__name__}: {error}"
            ) from error

    def _shape_value(self, value: Any, secrets: OwnSecrets, context: ToolExecutionContext) -> Any:
        value = lay_out(value)
        check_unfolding(value)
        if is_quick(value) and not has_own_form(value):
            value = plain_output(value)
        returned = output = as_output(value)
        if self._limits.select is not None:
            output = self._select_part(self._limits.select, value)

        reader = Reader(context.call_id or "", self._has_reader and is_known(context))
        cut = cut_output(output, self._limits, secrets.splits, reader)
        if cut is None and output is returned:
            return value
        kept = self._keep(returned, output, _is_kept)
        return LimitedOutput(output, kept, cut, self._has_reader)

    def _select_part(self, expression: str, returned: Any) -> dict[str, Any]:
        # Loaded by name on first use: few tools select, and the import takes milliseconds.
        select = import_module("tool_engine.output.select")
        try:
            values = make_plain(returned)
        except RecursionError as error:
            raise ToolExecutionError(
                "the tool has run, but its output is nested too deep for result.select"
            ) from error
        return as_output(select.select_output(expression, values))


class _AsyncShaping:
    def __init__(self, executor: ToolExecutor, shaper: _Shaper) -> None:
        self._executor = executor
        self._shaper = shaper
        self.preview = getattr(executor, "preview", None)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        # Read before the tool may change them.
        secrets = secrets_of(tool, params)
        value = await self._executor.execute(tool, params, context)
        if is_quick(value) and has_own_form(value):
            return self._shaper.shape(value, secrets, context)
        return await asyncio.to_thread(self._shaper.shape, value, secrets, context)


class _SyncShaping:
    def __init__(self, executor: Any, shaper: _Shaper) -> None:
        self._executor = executor
        self._shaper = shaper
        self.preview = getattr(executor, "preview", None)

    def execute(self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext) -> Any:
        # Read before the tool may change them.
        secrets = secrets_of(tool, params)
        value = self._executor.execute(tool, params, context)
        if inspect.isawaitable(value):
            return self._shape_later(value, secrets, context)
        return self._shaper.shape(value, secrets, context)

    async def _shape_later(
        self, value: Any, secrets: OwnSecrets, context: ToolExecutionContext
    ) -> Any:
        return await asyncio.to_thread(self._shaper.shape, await value, secrets, context)


def is_quick(value: Any) -> bool:
    """True if an output is small enough to handle without a thread."""
    if _is_tiny(value):
        return True
    # Loaded late: most programs return nothing larger.
    from tool_engine.model.json.weighing import pack_small

    return pack_small(value, SHORT) is not None or _fits_size(value, _AT_ONCE)


def _is_tiny(value: Any) -> bool:
    """True if an output is a few short texts and numbers, which need no measuring."""
    if type(value) is not dict or len(value) > _FEW:
        return False
    for key, item in value.items():
        if type(key) is not str or len(key) > _SHORT:
            return False
        if type(item) is str:
            if len(item) > _SHORT:
                return False
        elif type(item) not in _NUMBERS:
            return False
    return True


def _fits_size(value: Any, most: int) -> bool:
    measure = Measure(_UNLIMITED, overhead=_PER_OBJECT)
    try:
        # What nests too deep is measured no further, and may hold anything.
        return measure.size(as_output(value), most) <= most and not measure.must_cut
    except Exception:  # noqa: BLE001 - a foreign mapping may raise anything
        return False


def _is_kept(value: Any) -> bool:
    return _fits_size(value, MOST_KEPT)
