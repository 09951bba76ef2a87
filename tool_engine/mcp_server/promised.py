"""Does what is sent of an output hold what the list of tools says of it?

A server must send what its list declares, and the clients of the SDKs refuse all else with an error
of their own. The engine is more patient: `output_mode` may let a misfit pass, and a lone value, or
data beside content, may be what a definition declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.model.call import ValidationError
from tool_engine.model.content.blocks import find_structured
from tool_engine.model.json.halves import escape_halves
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.model.tool import Tool
from tool_engine.validation.output import OutputCheck


def is_wrapped(output: Mapping[str, Any], *, is_modern: bool) -> bool:
    """Return True if a declared output is `result` of an object in the list.

    Before 2026-07-28 each one that is no object; since then those that may be null: the SDK leaves
    null out, and a client then takes them for missing.
    """
    declared = output["type"]
    return declared != "object" and (not is_modern or "null" in declared)


class PromisedOutputs:
    """What is sent of outputs, held against what the list says."""

    def __init__(self) -> None:
        self._checks = CompiledEntries(lambda tool: OutputCheck(tool.output or {}))

    def find_fitting(
        self, tool: Tool, output: Mapping[str, Any], *, is_large: bool
    ) -> tuple[Any, list[ValidationError]]:
        """Return what holds of an output, as JSON has it, and where it differs if nothing does.

        Args:
            tool: What returned it, whose list entry has an `outputSchema`.
            output: The output.
            is_large: Whether it is to be looked at in small pieces.
        """
        check = self._checks.of(tool)
        first: list[ValidationError] | None = None
        for candidate in _list_forms(tool, output):
            value = copy_plain(candidate)
            found = _find_misfits(check, value, is_large=is_large)
            if not found:
                return value, []
            first = first or found
        return None, first or []


def _find_misfits(check: OutputCheck, value: Any, *, is_large: bool) -> list[ValidationError]:
    try:
        return [] if not is_large and check.accepts(value) else check.explain_value(value)
    except UnicodeEncodeError:
        # As it will be sent, see `sendable`.
        return check.explain_value(escape_halves(value))


def _list_forms(tool: Tool, output: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a definition may declare of an output, the likeliest first."""
    structured = find_structured(output)
    if structured is not None:
        yield structured
    is_lone = len(output) == 1 and "result" in output
    is_object = (tool.output or {}).get("type") == "object"
    if is_lone and not is_object:
        yield output["result"]
    yield output
    if is_lone and is_object:
        yield output["result"]
