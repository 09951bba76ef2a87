"""Which parts of arguments are secret by their schema, however it is put together?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.model.json.secret_schema import is_write_only, write_only_names

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


LOGIN = {"properties": {"user": {"type": "string"}, "password": {"$ref": "#/$defs/secret"}}}
DEFINED = {"login": {"type": "object", **LOGIN}, "secret": SECRET}
LISTED = {
    "name": "login",
    "type": "object",
    "description": "Who",
    "schema": {"$ref": "#/$defs/login", "$defs": DEFINED},
}
WRITTEN = {
    "type": "object",
    "properties": {"login": {"$ref": "#/$defs/login"}},
    "$defs": DEFINED,
}


@pytest.mark.parametrize("parameters", [[LISTED], WRITTEN], ids=["listed", "written"])
@pytest.mark.parametrize(
    "sent",
    [
        {"user": "ann", "password": "hunter22"},
        {"user": "ann", "pasword": "hunter22"},
        '{"user": "ann", "password": "hunter22"}',
        [{"password": "hunter22"}],
    ],
)
async def test_secrets_behind_a_reference(parameters: Any, sent: Any) -> None:
    """R5: what a definition says elsewhere is hidden, whatever form it was sent in."""
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    engine.register_tool(
        {"name": "sign_in", "description": "Signs in", "parameters": parameters},
        lambda login=None: {"seen": login},
    )
    seen: list[Any] = []
    engine.subscribe(lambda event: seen.append(event.to_dict()))
    async with engine:
        result = await engine.execute("sign_in", {"login": sent})
        (record,) = await engine.store.query_call_records()
    assert result.is_success == isinstance(sent, dict)
    said = f"{record.to_dict()} {seen} {result.error} {result.validation_errors}"
    assert "hunter22" not in said
    assert "[hidden]" in said


@pytest.mark.parametrize(
    "pointer",
    [
        "#/properties/list/items",
        "#/properties/map/additionalProperties",
        "#/allOf/0",
        "#/$defs/a~1b%25",
        "#/$defs/login/properties/password",
        "#",
    ],
)
def test_a_reference_to_any_place(pointer: str) -> None:
    """R5: a reference may lead to any schema of the document, and to the whole."""
    schema = {
        "$defs": {"a/b%": SECRET, "login": {"properties": {"password": SECRET}}},
        "allOf": [SECRET],
        "properties": {
            "list": {"items": SECRET},
            "map": {"additionalProperties": SECRET},
            "referred": {"$ref": pointer},
        },
    }
    assert "referred" in set(write_only_names(schema))


def test_what_has_no_name_in_the_whole() -> None:
    """R5: an argument that only the whole speaks of is secret with it."""
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        assert is_write_only({keyword: SECRET})
        assert is_write_only({"anyOf": [{"$ref": "#/$defs/o"}], "$defs": {"o": {keyword: SECRET}}})
    assert is_write_only({"patternProperties": {"^x": SECRET}})
    assert not is_write_only({"properties": {"pin": SECRET}, "additionalProperties": True})
