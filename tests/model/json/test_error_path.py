"""Is what the validator complains about found in the value that it was given?"""

from __future__ import annotations

from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.samples import bare
from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.errors import DefinitionError
from tool_engine.model.json.error_path import find_error

KEYS: Final = (
    "5",
    "007",
    "+7",
    "-1",
    "1e3",
    "",
    "٣",
    "18446744073709551616",
    "0" * 5000 + "1",
    "a",
)
WHOLE: Final = (
    {"patternProperties": {"": {"type": "integer"}}, "unevaluatedProperties": False},
    {"properties": {"$ref": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
)
"""Schemas that cannot be judged place by place."""


@given(
    st.recursive(
        st.just(1),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
        ),
    )
)
def test_every_place_is_found(value: Any) -> None:
    """Each wrong value is found once under its own keys, whatever these look like."""
    schema = {
        "type": ["object", "array"],
        "items": {"$ref": "#"},
        "additionalProperties": {"$ref": "#"},
    }
    errors = jsonschema_rs.Draft202012Validator(schema).iter_errors(value)
    for error in errors:
        path, found = find_error(error, value)
        inside = value
        for step in path:
            inside = inside[step]
        assert inside is found
        assert found == error.instance


def test_the_wrong_one_of_several() -> None:
    """Of keys that are one number to the validator, the one with the wrong value is named."""
    value = {"7": 1, "07": 2, "+7": "x", "": [{"007": "y"}]}
    schema = {"patternProperties": {"7": {"type": "integer"}}, "properties": {"": {"items": {
        "additionalProperties": {"type": "integer"}}}}}  # fmt: skip
    errors = jsonschema_rs.Draft202012Validator(schema).iter_errors(value)
    assert {find_error(error, value) for error in errors} == {
        (("+7",), "x"),
        (("", 0, "007"), "y"),
    }


@pytest.mark.parametrize("schema", WHOLE)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("wrong", ["x", [["x"]]])
async def test_a_call_ends_as_a_wrong_argument(schema: Any, key: str, wrong: Any) -> None:
    """R3: a wrong value under a key of digits is a finding at its place, and ends the call."""
    parameter = {"name": "rows", "type": "object", "description": "x", "schema": schema}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(bare("t", parameters=[parameter]), lambda rows=None: rows)
        result = await engine.execute("t", {"rows": {key: wrong}})
        assert result.error_type == "validation_error"
        (finding,) = result.validation_errors
        assert finding["error_type"] == "type_mismatch"
        assert finding["path"].startswith("rows")
        assert finding["actual"] in (wrong, str(wrong))
        assert len(await engine.query_call_records(limit=9)) == 1


@pytest.mark.parametrize("key", ["5", "007"])
def test_a_definition_is_refused_at_its_place(key: str) -> None:
    """P4: the same in a definition, where a property may have such a name."""
    parameter = {"name": "v", "type": "object", "description": "x"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"properties": {key: {"type": "integer", "pattern": "x"}}}, f"properties.{key}.pattern"),
        (
            {"default": {key: "x"}, "schema": {"additionalProperties": {"type": "integer"}}},
            f"default.{key}",
        ),
    ]
    for more, place in wrong:
        with pytest.raises(DefinitionError) as caught:
            ToolConfigLoader().from_mapping(bare("t", parameters=[{**parameter, **more}]))
        assert caught.value.problems[0].path == f"parameters[0].{place}"
