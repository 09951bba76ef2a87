"""How are the variable tools defined for a model? U40."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from msgspec.structs import replace

# Loaded with the session, so that nothing is imported while the event loop runs.
from tool_engine.catalog.definition.building import tool_of_mapping
from tool_engine.errors import VariableError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import Tool
from tool_engine.session.variables.references import may_refer
from tool_engine.session.variables.store import NAME, VariableKind

WRITE_VAR: Final = "write_var"
VARIABLE_TOOLS: Final = ("read_var", "list_vars", WRITE_VAR, "remove_vars")
"""The names of the tools, in the order in which a model sees them."""
_MOST_READ: Final = 4_000
_MOST_LISTED: Final = 100
_ANY_JSON: Final = {"type": ["string", "number", "boolean", "array", "object", "null"]}
FILTERS: Final = ("type", "search", "tag")
"""The criteria of `list_vars`."""
_KINDS: Final = [each.value for each in VariableKind]
_RAW: Final[Mapping[str, Mapping[str, Any]]] = {
    "value": _ANY_JSON,
    "filter": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": _KINDS},
            "search": {"type": "string", "maxLength": 200},
            "tag": {"type": "string", "maxLength": 100},
        },
    },
}
_NAME_RULE: Final = {"pattern": f"^{NAME}$"}
_DEFINITIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "read_var": {
        "description": (
            "Reads a variable of this conversation, or a part of it. Use it to read on where a "
            "result was cut, or to look into something that list_vars lists. Do not use it to pass "
            "a variable on to another tool: write $VAR_REF{{name}} in the argument instead, which "
            "costs nothing."
        ),
        "effect": "read",
        # So many characters were asked for, and where they are cut nothing reads on.
        "result": {"limit": 0},
        "parameters": [
            {
                "name": "name",
                "type": "string",
                "required": True,
                "description": "The variable, such as fetch_page_3_result",
                "validation": _NAME_RULE,
            },
            {
                "name": "start",
                "type": "integer",
                "default": 0,
                "description": "The first character to read, counted from 0",
                "validation": {"min": 0, "max": 1_000_000_000},
            },
            {
                "name": "length",
                "type": "integer",
                "default": 2000,
                "description": "The most characters to read",
                "validation": {"min": 1, "max": _MOST_READ},
            },
        ],
    },
    "list_vars": {
        "description": (
            "Lists the variables of this conversation, the last used first: the results and "
            "arguments of earlier calls, notes, and rules. Use it to find what was kept. Do not "
            "use it when you know the name already."
        ),
        "effect": "read",
        "parameters": [
            {
                "name": "type",
                "type": "string",
                "description": "Only variables of this kind; LLMAdd are the ones that you wrote",
                "validation": {"enum": _KINDS},
            },
            {
                "name": "search",
                "type": "string",
                "description": "Only those with this text in the name or the description",
                "validation": {"max_length": 200},
            },
            {
                "name": "tag",
                "type": "string",
                "description": "Only those with this tag",
                "validation": {"max_length": 100},
            },
            {
                "name": "filter",
                "type": "object",
                "description": "The same three as one object, instead of them",
            },
            {
                "name": "page",
                "type": "integer",
                "default": 1,
                "description": "Which page of the list, counted from 1",
                "validation": {"min": 1, "max": 1_000_000},
            },
            {
                "name": "pageSize",
                "type": "integer",
                "default": 25,
                "description": "How many there are on a page",
                "validation": {"min": 1, "max": _MOST_LISTED},
            },
        ],
    },
    "write_var": {
        "description": (
            "Keeps a value under a name in this conversation, such as a plan, a draft or a list "
            "that you will need again. Changes a variable that you wrote earlier; no other can be "
            "written. Do not use it to keep the result of a tool: that is kept already."
        ),
        "effect": "write",
        "idempotent": True,
        "parameters": [
            {
                "name": "name",
                "type": "string",
                "required": True,
                "description": "1 to 200 of the characters A-Z, a-z, 0-9, _ . / and -",
                "validation": _NAME_RULE,
            },
            {
                "name": "value",
                "type": "string",
                "description": "The value, any JSON; left out, the one that is there stays",
            },
            {
                "name": "desc",
                "type": "string",
                "description": "What it holds, in a few words",
                "validation": {"max_length": 2000},
            },
            {
                "name": "tags",
                "type": "array",
                "items": {"type": "string", "validation": {"min_length": 1, "max_length": 100}},
                "description": "Words to find it by",
                "validation": {"max_items": 20},
            },
        ],
    },
    "remove_vars": {
        "description": (
            "Forgets variables of this conversation that are not needed any more. Rules cannot be "
            "removed. Do not use it to make room: what is not used goes by itself."
        ),
        "effect": "write",
        "idempotent": True,
        "parameters": [
            {
                "name": "names",
                "type": "array",
                "required": True,
                "items": {"type": "string", "validation": {"max_length": 200}},
                "description": "The names of the variables",
                "validation": {"min_items": 1, "max_items": 100},
            },
        ],
    },
}


@cache
def define_tool(name: str) -> Tool:
    definition = {
        "name": name,
        "version": "1.0.0",
        "category": "custom",
        "tags": ["variables"],
        **_DEFINITIONS[name],
    }
    tool = tool_of_mapping(definition, "<session>")
    # Set here: the loader checks a raw schema with a library that nothing else needs so early.
    parameters = [
        replace(each, schema=dict(_RAW[each.name])) if each.name in _RAW else each
        for each in tool.parameters
    ]
    return replace(tool, parameters=parameters)


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check for unknown arguments, and for references that would be shown.

    Raises:
        VariableError: The message names the nearest.
    """
    _check_keys("", arguments, [each.name for each in tool.parameters], tool.name)
    chosen = arguments.get("filter")
    if tool.name == "list_vars" and isinstance(chosen, Mapping):
        _check_keys("filter.", chosen, FILTERS, "its filter")
    shown = {key: item for key, item in arguments.items() if key != "value"}
    if tool.name == WRITE_VAR and may_refer(shown):
        # Names, descriptions and tags are listed for the model, whatever it has not read.
        raise VariableError(
            "only the value of write_var takes references: write name, desc and tags out"
        )


def _check_keys(path: str, arguments: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for key in arguments:
        if key not in known:
            raise VariableError(
                f"invalid arguments: unknown parameter '{path}{str(key)[:80]}'"
                f"{suggest_near(key, known)}; {what} takes {', '.join(known)}"
            )
