"""Does a form that is sent as it was shown hold the same arguments?

The oracle is the value itself, and jsonschema for which values a schema allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tool_engine.studio.forms.controls import Control, make_form
from tool_engine.studio.forms.fields import fill_fields
from tool_engine.studio.forms.reading import read_arguments

KEYS = st.text(max_size=6) | st.sampled_from(["a/b", "~", "~2", "~20", "__proto__", "", "名", '"'])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["", "\n", "\r\n", "a\nb", " ", "2026-01-31", "AAAA", "\x00", "\ud800"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=12,
)
SINGLE = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 50},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "contentEncoding": "base64"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"type": ["integer", "string", "boolean"]},
        {"enum": [1, True, "1", None, 1.0, {"a": 1}]},
        {"const": "x"},
        {"type": "object"},
        {"allOf": [{"type": "string"}]},
        {"$ref": "#/$defs/tree"},
        {"$ref": "#/$defs/nowhere"},
        {},
        True,
    ]
)
SCHEMAS = st.recursive(
    SINGLE,
    lambda inside: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inside),
        st.builds(
            lambda properties, needed, further: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if needed],
                "additionalProperties": further,
            },
            st.dictionaries(KEYS, inside, max_size=3),
            st.booleans(),
            st.booleans() | inside,
        ),
        st.builds(lambda each: {"anyOf": each}, st.lists(inside, min_size=1, max_size=3)),
        st.builds(lambda each: {"oneOf": each}, st.lists(inside, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "left": {"$ref": "#/$defs/tree"},
        "rest": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
    },
    "required": ["name"],
}


def list_controls(control: Control) -> Iterator[Control]:
    yield control
    for each in control.inside:
        yield from list_controls(each)


def send_form(form: Control) -> dict[str, str]:
    """The fields that a browser sends of what is shown."""
    pairs: list[tuple[str, str]] = []
    for each in list_controls(form):
        if each.name is not None:
            pairs.append((f"k:{each.pointer}", each.name))
        if each.kind in ("json", "raw"):
            pairs.append((f"j:{each.pointer}", each.value.replace("\n", "\r\n")))
        elif each.kind in ("list", "object"):
            if each.is_open:
                letter = "n" if each.kind == "list" else "x"
                pairs += [(f"o:{each.pointer}", "1"), (f"{letter}:{each.pointer}", str(each.count))]
        elif each.kind == "union":
            pairs.append((f"u:{each.pointer}", each.value))
        else:
            pairs.append((f"v:{each.pointer}", each.value.replace("\n", "\r\n")))
            if each.is_empty:
                pairs.append((f"e:{each.pointer}", "1"))
    # What stands first counts where a form has two of a name: it has none.
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(parse_qsl(urlencode(pairs), keep_blank_values=True, strict_parsing=True))


def is_same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(SCHEMAS, VALUES)
def test_what_is_filled_in_comes_back(schema: Any, value: Any) -> None:
    """Of any value, also one that its schema does not allow; nothing changes, nothing is lost.

    Where something that is needed is not there, the form says so, or only one value is possible.
    """
    whole = make_schema(schema)
    arguments = {"x": value}
    fields = fill_fields(whole, arguments)
    for found in (
        read_arguments(whole, fields),
        read_arguments(whole, send_form(make_form(whole, fields))),
    ):
        is_complete = is_same(found.value, arguments) and found.faults == []
        assert is_complete or is_without_needed(whole, arguments)
        assert is_complete or found.faults or holds(arguments, found.value)


def make_schema(schema: Any) -> dict[str, Any]:
    defs = {"tree": TREE, "nowhere": True}
    return {"properties": {"x": schema}, "type": "object", "$defs": defs}


def is_without_needed(schema: Any, value: Any) -> bool:
    """Whether a member that is required is not there, somewhere."""
    errors = list(Draft202012Validator(schema).iter_errors(value))
    while errors:
        error = errors.pop()
        if error.validator == "required":
            return True
        errors += error.context or []
    return False


def holds(part: Any, whole: Any) -> bool:
    """Whether all that stands in one value stands in the other."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and holds(each, whole[name]) for name, each in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(holds, part, whole))
    return is_same(part, whole)


@given(SCHEMAS)
def test_an_empty_form_makes_nothing_up(schema: Any) -> None:
    """What is read from it is nothing, or faults, or what the schema allows."""
    whole = {**make_schema(schema), "required": ["x"]}
    found = read_arguments(whole, send_form(make_form(whole, {})))
    assert found.faults or Draft202012Validator(whole).is_valid(found.value)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a", "left": {"name": "b", "rest": [{"name": "c"}, {"name": ""}]}},
        {"name": "a", "~2": 1, "a/b": {"~0": None}},
        {"name": "x" * 100_000, "rest": []},
    ],
)
def test_trees(value: Any) -> None:
    whole = {**TREE, "$defs": {"tree": TREE}}
    found = read_arguments(whole, send_form(make_form(whole, fill_fields(whole, value))))
    assert (found.value, found.faults) == (value, [])
