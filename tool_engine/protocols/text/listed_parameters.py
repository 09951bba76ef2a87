"""Which parameters does a definition in text list, and what does it not say of them?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool


class ListedParameter(NamedTuple):
    """A parameter of a tool, as its schema declares it."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool


def list_parameters(tool: Tool) -> list[ListedParameter]:
    """Return a tool's parameters in their order."""
    schema = tool.parameters_schema
    required = schema.get("required", ())
    return [
        ListedParameter(name, each if isinstance(each, Mapping) else {}, name in required)
        for name, each in schema.get("properties", {}).items()
    ]


def find_unsaid(
    tool: Tool, parameter: ListedParameter, said: Collection[str], cure: str
) -> Iterator[ReplyFinding]:
    """Yield a finding for what a style leaves out.

    Args:
        tool: Whose parameter it is.
        parameter: The parameter.
        said: The keywords that the style writes.
        cure: `the style 'a' does not say {} of {}; the style 'b' does`.
    """
    lost = sorted(set(parameter.schema).difference(said))
    if lost:
        message = cure.format(", ".join(lost), repr(parameter.name))
        yield ReplyFinding(error_type="dropped", tool_name=tool.name, message=message)
