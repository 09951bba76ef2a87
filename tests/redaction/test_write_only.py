"""Is what a raw schema marks as `writeOnly` hidden, wherever the mark stands?"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.calls.samples import bare
from tool_engine import (
    ApprovalRequest,
    CallbackApprover,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolSession,
)
from tool_engine.errors import DefinitionError
from tool_engine.redaction import secrets_of

SECRET: Final = "zebrafish Horse 77"
MARK: Final = {"type": "string", "writeOnly": True}
PIN: Final = {"type": "object", "properties": {"pin": MARK}}
LIST: Final = {"type": "array"}
HELD: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "properties": ({"properties": {"a": MARK}}, {"a": SECRET}),
    "additionalProperties": ({"additionalProperties": MARK}, {"k": SECRET}),
    "unevaluatedProperties": ({"unevaluatedProperties": MARK}, {"k": SECRET}),
    "patternProperties": ({"patternProperties": {"^k": MARK}}, {"k": SECRET}),
    "dependentSchemas": (
        {"dependentSchemas": {"a": {"additionalProperties": MARK}}},
        {"a": SECRET},
    ),
    "then": ({"if": {}, "then": {"additionalProperties": MARK}}, {"a": SECRET}),
    "items": ({"properties": {"l": {**LIST, "items": MARK}}}, {"l": [SECRET]}),
    "prefixItems": ({"properties": {"l": {**LIST, "prefixItems": [{}, MARK]}}}, {"l": [1, SECRET]}),
    "contains": ({"properties": {"l": {**LIST, "contains": MARK}}}, {"l": [SECRET]}),
    "unevaluatedItems": (
        {"properties": {"l": {**LIST, "unevaluatedItems": MARK}}},
        {"l": [SECRET]},
    ),
    "lists in lists": (
        {"additionalProperties": {**LIST, "items": {**LIST, "items": MARK}}},
        {"k": [[SECRET]]},
    ),
}
SENT_AS_A_TEXT: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "additionalProperties": ({"additionalProperties": PIN}, {"k": json.dumps({"pin": SECRET})}),
    "patternProperties": ({"patternProperties": {"k": PIN}}, {"k": json.dumps({"pin": SECRET})}),
    "prefixItems": (
        {"properties": {"l": {**LIST, "prefixItems": [PIN]}}},
        {"l": [json.dumps({"pin": SECRET})]},
    ),
    "anyOf": (
        {"anyOf": [{"properties": {"o": PIN}}, {"properties": {"n": {}}}]},
        {"o": json.dumps({"pin": SECRET})},
    ),
}
OPEN: Final = {"properties": {"pin": MARK, "user": {"type": "string"}}}
MISSPELT: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    key: ({"properties": {"who": {"type": "object", **OPEN}}}, {"who": {key: SECRET}})
    for key in ("pim", "Pin", "pinn", "PIN")
} | {
    "in a list": ({"properties": {"l": {**LIST, "items": OPEN}}}, {"l": [{"pinn": SECRET}]}),
    "in a mapping": ({"additionalProperties": {"allOf": [OPEN]}}, {"k": {"pinn": SECRET}}),
    "of a wrong type": ({**OPEN, "additionalProperties": {"type": "integer"}}, {"pim": SECRET}),
}


def definition(schema: dict[str, Any], **keys: Any) -> dict[str, Any]:
    parameter = {"name": "v", "type": "object", "required": True, "description": "x"}
    number = {"name": "n", "type": "integer", "description": "x"}
    return bare("t", parameters=[{**parameter, "schema": schema}, number], **keys)


@pytest.mark.parametrize(
    ("schema", "value"),
    [*HELD.values(), *SENT_AS_A_TEXT.values(), *MISSPELT.values()],
    ids=[*HELD, *(f"{name} as a text" for name in SENT_AS_A_TEXT), *MISSPELT],
)
@pytest.mark.parametrize("ending", ["succeeds", "fails", "is refused"])
async def test_no_place_is_forgotten(schema: dict[str, Any], value: Any, ending: str) -> None:
    """R5: it stands in no record, event, error or finding of a call, however the call ends."""

    def run(v: Any, n: int = 0) -> Any:
        return finish(ending, v)

    more = {"n": "x"} if ending == "is refused" else {}
    assert await find_shown(definition(schema), run, {"v": value, **more}) == set()


@pytest.mark.parametrize(
    ("schema", "value"),
    [*HELD.values(), *SENT_AS_A_TEXT.values(), *MISSPELT.values()],
    ids=[*HELD, *(f"{name} as a text" for name in SENT_AS_A_TEXT), *MISSPELT],
)
@pytest.mark.parametrize("ending", ["succeeds", "fails", "is refused"])
async def test_no_place_of_the_whole_is_forgotten(
    schema: dict[str, Any], value: dict[str, Any], ending: str
) -> None:
    """R5: the same where the schema is that of all arguments, and what is nameless is one of them.

    Looked at: arguments under `additionalProperties`, `unevaluatedProperties` and
    `patternProperties` of the whole, also behind forms and references.
    """

    def run(**arguments: Any) -> Any:
        return finish(ending, arguments)

    number = {"n": {"type": "integer"}}
    whole = {
        "type": "object",
        "additionalProperties": True,
        **schema,
        "properties": schema.get("properties", {}) | number,
    }
    for form in (
        whole,
        {"type": "object", "allOf": [{"$ref": "#/$defs/w"}], "$defs": {"w": whole}},
    ):
        tool = bare("t", parameters=form)
        more = {"n": "x"} if ending == "is refused" else {}
        assert await find_shown(tool, run, {**value, **more}) == set()


def finish(ending: str, value: Any) -> Any:
    if ending == "fails":
        raise ValueError(f"cannot use {json.dumps(value)}")
    return {"got": value, "text": json.dumps(value)}


async def find_shown(tool: dict[str, Any], run: Any, arguments: dict[str, Any]) -> set[str]:
    """In what a call with a secret leaves it is shown."""
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(tool, run)
        events: list[Any] = []
        engine.subscribe(events.append)
        session = ToolSession(engine, "s")
        await session.execute("t", arguments)
        result = await engine.execute("t", arguments)
        records = await engine.query_call_records(limit=9)
    assert events
    shown = {
        "records": records,
        "error": result.error,
        "findings": result.validation_errors,
        "events": [event.to_dict() for event in events],
        "kept arguments": [each.text for each in session.variables if each.name.endswith("_args")],
    }
    return {name for name, part in shown.items() if SECRET in str(part)}


async def test_a_question_hides_what_is_misspelt() -> None:
    """R5: so it is in what is asked before the call runs."""
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    schema, value = MISSPELT["pim"]
    config = ToolEngineConfig("none", auto_reload=False)
    async with ToolEngine(config, approver=CallbackApprover(answer)) as engine:
        engine.register_tool(definition(schema, permission="ask_always"), lambda v, n=0: "ok")
        assert (await engine.execute("t", {"v": value})).is_success
    assert SECRET not in str(asked[0].to_dict())


def test_a_name_is_as_far_as_it_goes() -> None:
    """Beside a list or a mapping of secrets, what has a name of its own is shown."""
    schema = {"properties": {"hosts": {"additionalProperties": MARK}, "user": {"type": "string"}}}
    tool = ToolConfigLoader().from_mapping(definition(schema))
    params = {"v": {"hosts": {"a.example": SECRET}, "user": "Ann"}}
    assert secrets_of(tool, params).params(params) == {"v": {"hosts": "[hidden]", "user": "Ann"}}


def test_of_many_unknown_keys_none_is_shown() -> None:
    """P9: only so many are compared with the names of secrets; the others are taken for theirs."""
    tool = ToolConfigLoader().from_mapping(definition(OPEN))
    params = {"v": {f"key {number}": f"value {number}" for number in range(300)} | {"pinn": SECRET}}
    shown = secrets_of(tool, params).params(params)["v"]
    assert sum(part.startswith("value") for part in shown.values()) == 200


def test_a_whole_number_that_was_sent_with_a_fraction() -> None:
    """What is sent as 7391846250.0 reaches the tool as 7391846250."""
    schema = {"properties": {"pin": {"type": "integer", "writeOnly": True}}}
    tool = ToolConfigLoader().from_mapping(definition(schema))
    own = secrets_of(tool, {"v": {"pin": 7391846250.0}})
    assert own.value({"got": 7391846250, "text": "7391846250"}) == {
        "got": "[hidden]",
        "text": "[hidden]",
    }


@pytest.mark.parametrize("names", [MARK, {"anyOf": [MARK, {}]}])
def test_keys_cannot_be_secret(names: dict[str, Any]) -> None:
    """R5: a key is a name and stands in paths and findings; to mark it as a secret is a mistake."""
    with pytest.raises(DefinitionError, match="take what is secret as a value") as caught:
        ToolConfigLoader().from_mapping(definition({"propertyNames": names}))
    assert caught.value.problems[0].path == "parameters[0].schema.propertyNames"
