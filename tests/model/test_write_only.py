"""Which parts of arguments are secret by their schema, however it is put together?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError
from tool_engine.model.tool import write_only_names

SECRET = {"type": "string", "writeOnly": True}
REF = {"$ref": "#/$defs/secret"}


@pytest.mark.parametrize(
    "password",
    [
        SECRET,
        REF,
        {"allOf": [REF]},
        {"anyOf": [{"type": "null"}, REF]},
        {"$ref": "#/$defs/alias"},
        {"$ref": "#/$defs/round"},
    ],
)
def test_by_a_reference(password: dict[str, Any]) -> None:
    """R5: a tool made in code may have its parts elsewhere; those are secret all the same."""
    schema = {
        "$defs": {
            "secret": SECRET,
            "alias": REF,
            "round": {"oneOf": [{"$ref": "#/$defs/round"}, REF]},
            "login": {"properties": {"password": password, "user": {"$ref": "#/$defs/user"}}},
            "user": {"type": "string"},
        },
        "properties": {"login": {"$ref": "#/$defs/login"}, "gone": {"$ref": "#/$defs/none"}},
    }
    assert set(write_only_names(schema)) == {"password"}


@pytest.mark.parametrize("keyword", ["$ref", "$defs", "definitions"])
def test_definitions_have_no_references(keyword: str) -> None:
    """R5: in a definition each part is written out where it is used."""
    schema = {"type": "object", keyword: "#/x" if keyword == "$ref" else {"x": SECRET}}
    parameter = {"name": "login", "type": "object", "description": "Who", "schema": schema}
    with pytest.raises(DefinitionError, match="write the schema out where it is used"):
        ToolConfigLoader().from_mapping(
            {
                "name": "sign_in",
                "version": "1.0.0",
                "description": "Signs in",
                "parameters": [parameter],
                "entry": {"type": "builtin", "handler": "echo"},
            }
        )
