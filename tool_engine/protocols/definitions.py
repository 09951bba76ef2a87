"""How is a tool described to each model?

One function per format, one line per format in `FORMATS`. Every format carries the tool's own JSON
Schema as it is: no rule of a definition is lost on the way to a model.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.errors import ConfigurationError
from tool_engine.model.tool import Tool

__all__ = ["FORMATS", "DefinitionFormat", "accepts_name", "definitions"]

Definitions = list[dict[str, Any]]


class DefinitionFormat(NamedTuple):
    """One way to describe tools."""

    write: Callable[[Iterable[Tool]], Definitions]
    provider: str
    name_pattern: re.Pattern[str]
    """The tool names that the provider takes."""
    name_rule: str
    """The same in words."""


def definitions(format_name: str, tools: Iterable[Tool]) -> Definitions:
    """Describes `tools` in one format, as fresh values that the caller may change.

    Args:
        format_name: `openai` (the `tools` of Chat Completions), `anthropic` (the `tools` of
            Messages), `gemini` (the `tools` of generateContent: one entry with all functions) or
            `mcp` (the `tools` of a tools/list result).
        tools: In the order in which they are to be listed.

    Raises:
        ConfigurationError: The format is not known, or the provider would refuse a tool's name.
    """
    form = FORMATS.get(format_name)
    if form is None:
        near = difflib.get_close_matches(str(format_name), FORMATS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(
            f"unknown definition format {format_name!r}; known are {', '.join(FORMATS)}{hint}"
        )
    listed = list(tools)
    for tool in listed:
        if not form.name_pattern.fullmatch(tool.name):
            raise ConfigurationError(
                f"{form.provider} refuses the tool name {tool.name!r}: a name has {form.name_rule};"
                " rename the tool in its definition"
            )
    return form.write(listed)


def accepts_name(format_name: str, name: str) -> bool:
    """Whether the provider takes a tool of this name; of an unknown format nothing is known."""
    form = FORMATS.get(format_name)
    return form is None or form.name_pattern.fullmatch(name) is not None


def _openai(tools: Iterable[Tool]) -> Definitions:
    # https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": _copied(tool.parameters_schema),
            },
        }
        for tool in tools
    ]


def _anthropic(tools: Iterable[Tool]) -> Definitions:
    # https://docs.claude.com/en/api/messages#body-tools
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": _copied(tool.parameters_schema),
        }
        for tool in tools
    ]


def _gemini(tools: Iterable[Tool]) -> Definitions:
    # https://ai.google.dev/api/caching#FunctionDeclaration
    # `parametersJsonSchema` takes JSON Schema as it is; its older neighbour `parameters` refuses
    # `additionalProperties` and much else, and one such tool fails the whole request.
    declarations = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": _copied(tool.parameters_schema),
        }
        for tool in tools
    ]
    return [{"functionDeclarations": declarations}] if declarations else []


def _mcp(tools: Iterable[Tool]) -> Definitions:
    # https://modelcontextprotocol.io/specification/2025-11-25/schema#tool
    return [_mcp_tool(tool) for tool in tools]


def _mcp_tool(tool: Tool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": _copied(tool.parameters_schema),
    }
    output = _copied(tool.output) or {}
    if output.get("type") == "object":
        described["outputSchema"] = output
    elif "type" in output:
        # What is no object reaches the caller as {"result": value}; MCP wants an object too.
        wrapped = {"type": "object", "properties": {"result": output}, "required": ["result"]}
        described["outputSchema"] = wrapped
    annotations = _mcp_annotations(tool)
    if annotations:
        described["annotations"] = annotations
    return described


def _mcp_annotations(tool: Tool) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    if tool.effect != "unknown":
        hints["readOnlyHint"] = tool.effect == "read"
    if tool.effect == "read" or tool.idempotent:
        hints["idempotentHint"] = True
    return hints


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN_RULE: Final = "1 to 64 of the characters a-z, A-Z, 0-9, _ and -"

FORMATS: Final[Mapping[str, DefinitionFormat]] = {
    "openai": DefinitionFormat(_openai, "OpenAI", _PLAIN_NAME, _PLAIN_RULE),
    "anthropic": DefinitionFormat(_anthropic, "Anthropic", _PLAIN_NAME, _PLAIN_RULE),
    "gemini": DefinitionFormat(
        _gemini,
        "Gemini",
        re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
        "a letter or _ first, then up to 63 of the characters a-z, A-Z, 0-9, _ . : and -",
    ),
    "mcp": DefinitionFormat(
        _mcp,
        "MCP",
        re.compile(r"[A-Za-z0-9_.-]{1,128}"),
        "1 to 128 of the characters a-z, A-Z, 0-9, _ . and -",
    ),
}
"""Every format, by the name under which it is asked for."""
