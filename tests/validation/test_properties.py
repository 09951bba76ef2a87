"""Do the fast path, the full path and the reference implementation agree on any value?"""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.validation import ToolParameterValidator

STRICT = ToolParameterValidator(strict=True)
LENIENT = ToolParameterValidator()
NAMES = st.sampled_from(["a", "b", "c", "d"])
SMALL = st.integers(min_value=0, max_value=3)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-3, max_value=5)
    | st.floats(min_value=-3, max_value=5)
    | st.sampled_from([0.0, 1.0, 2.0, 10**30, -1.0])
    | st.sampled_from(["", "a", "ab", "abc", "1", "中文", "GET"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def specs() -> st.SearchStrategy[dict[str, Any]]:
    """Short-key definitions of values of the six types, nested up to a few levels."""
    leaves = st.one_of(
        st.just({"type": "boolean"}),
        st.fixed_dictionaries(
            {"type": st.sampled_from(["number", "integer"])}, optional={"min": SMALL, "max": SMALL}
        ),
        st.fixed_dictionaries(
            {"type": st.just("string")},
            optional={
                "min_length": SMALL,
                "max_length": SMALL,
                "pattern": st.sampled_from(["^a", "b$", "^[a-z]*$"]),
                "enum": st.just(["a", "GET", "1"]),
            },
        ),
        st.just({"type": "any"}),
    )

    def containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        arrays = st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={"items": inner, "min_items": SMALL, "max_items": SMALL},
        )
        objects = st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(NAMES, inner, max_size=3),
                "required": st.lists(NAMES, max_size=2, unique=True),
            },
        )
        return arrays | objects

    return st.recursive(leaves, containers, max_leaves=5)


@st.composite
def tools(draw: st.DrawFn, *, with_defaults: bool = False) -> Tool:
    """A tool of up to four parameters."""
    parameters = []
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        spec = dict(draw(specs()))
        kind = spec.pop("type")
        is_required = draw(st.booleans())
        has_default = with_defaults and not is_required and kind == "any" and draw(st.booleans())
        parameters.append(
            ToolParameter(
                name,
                kind,
                is_required,
                draw(values) if has_default else None,
                validation=spec,
                has_default=has_default,
            )
        )
    return Tool("t", "t", "1", "", ToolCategory.CUSTOM, [], parameters, {})


arguments = st.dictionaries(NAMES, values, max_size=4)


@given(tools(), arguments)
def test_strict_agrees_with_the_reference(tool: Tool, params: dict[str, Any]) -> None:
    """K8-K13: strict accepts exactly what JSON Schema does, null for an optional one apart."""
    reference = jsonschema.Draft202012Validator(tool.parameters_schema)
    optional = {item.name for item in tool.parameters if not item.required}
    plain = {k: v for k, v in params.items() if v is not None or k not in optional}
    result = STRICT.validate(tool, params)
    assert result.is_valid is reference.is_valid(plain)
    assert result.is_valid is not bool(result.errors)
    assert result.is_valid or result.validated_params == {}


@given(tools(with_defaults=True), arguments)
def test_accept_agrees_with_explain(tool: Tool, params: dict[str, Any]) -> None:
    """What `accept` returns is what `explain` would hand over, and neither changes the input."""
    before = copy.deepcopy(params)
    for validator in (STRICT, LENIENT):
        compiled = validator.compiled(tool)
        accepted = compiled.accept(params)
        explained = compiled.explain(params)
        assert accepted is None or repr(sorted(accepted.items())) == repr(
            sorted(explained.validated_params.items())
        )
        assert accepted is None or explained.is_valid
    assert repr(params) == repr(before)


@given(tools(with_defaults=True), arguments)
def test_what_is_handed_over_is_valid(tool: Tool, params: dict[str, Any]) -> None:
    """Not strict, what is handed over fits the schema, declares no unknown key, and is JSON."""
    result = LENIENT.validate(tool, params)
    if result.is_valid:
        reference = jsonschema.Draft202012Validator(tool.parameters_schema)
        assert reference.is_valid(result.validated_params)
    for finding in [*result.errors, *result.warnings]:
        json.dumps(finding.to_dict(), allow_nan=False)
        assert finding.message
