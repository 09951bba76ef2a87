"""How does each kind of model read tools, call them and get the results?

Most names are imported when they are first used: a program that uses no model loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tool_engine.interfaces.source import CallsTools, ToolSource
from tool_engine.late_names import find_later

if TYPE_CHECKING:
    from tool_engine.protocols.arguments.argument_text import ReadArguments, read_arguments
    from tool_engine.protocols.arguments.coercion import coerce, match_keys
    from tool_engine.protocols.cycle import (
        ToolCallCycleResult,
        as_cycle_result,
        as_execution_result,
        as_tool_request,
        process_tool_calls,
    )
    from tool_engine.protocols.cycle_options import BeforeExecute, CycleOptions
    from tool_engine.protocols.definition_formats import FORMATS, definition_findings, definitions
    from tool_engine.protocols.model_protocol import ModelProtocol
    from tool_engine.protocols.prompts import forget_prompts, prompt
    from tool_engine.protocols.registry import PROTOCOLS, get_protocol, protocol_names
    from tool_engine.sources.combined_tools import CombinedTools

__all__ = [
    "FORMATS",
    "PROTOCOLS",
    "BeforeExecute",
    "CallsTools",
    "CombinedTools",
    "CycleOptions",
    "ModelProtocol",
    "ReadArguments",
    "ToolCallCycleResult",
    "ToolSource",
    "as_cycle_result",
    "as_execution_result",
    "as_tool_request",
    "coerce",
    "definition_findings",
    "definitions",
    "forget_prompts",
    "get_protocol",
    "match_keys",
    "process_tool_calls",
    "prompt",
    "protocol_names",
    "read_arguments",
]

_MODULES = {
    "arguments.argument_text": "ReadArguments read_arguments",
    "arguments.coercion": "coerce match_keys",
    "cycle": "ToolCallCycleResult as_cycle_result as_execution_result as_tool_request "
    "process_tool_calls",
    "cycle_options": "BeforeExecute CycleOptions",
    "definition_formats": "FORMATS definition_findings definitions",
    "model_protocol": "ModelProtocol",
    "prompts": "forget_prompts prompt",
    "registry": "PROTOCOLS get_protocol protocol_names",
    ".sources.combined_tools": "CombinedTools",
}
"""Module -> the names that it defines."""


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __getattr__ = find_later(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
