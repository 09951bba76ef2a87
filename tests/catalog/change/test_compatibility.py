"""Is each edit of a tool classed by what it means for those who call it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import DefinitionError, Tool, ToolConfigLoader, ToolParameterValidator
from tool_engine.catalog.change import compatibility
from tool_engine.catalog.change.compatibility import ToolDiff, compare_versions

BASE: dict[str, Any] = {
    "name": "search",
    "version": "1.2.3",
    "description": "Searches.",
    "category": "http",
    "tags": ["web"],
    "effect": "read",
    "parameters": [
        {"name": "query", "type": "string", "description": "What", "required": True},
        {"name": "limit", "type": "integer", "description": "How many", "default": 5},
        {"name": "kind", "type": "string", "description": "Kind", "enum": ["web", "news"]},
    ],
    "entry": {
        "type": "http",
        "handler": "http_request",
        "request": {
            "url": "https://one.example/find",
            "headers": {"Authorization": "Bearer abcd1234"},
        },
    },
    "output": {"type": "object", "properties": {"hits": {"type": "array", "items": "string"}}},
}


def tool(**keys: Any) -> Tool:
    """The base tool, with other keys; None takes one away."""
    definition = {key: value for key, value in {**BASE, **keys}.items() if value is not None}
    return ToolConfigLoader().from_mapping(definition)


def with_parameter(**keys: Any) -> Tool:
    """The base tool with one more parameter, `extra`."""
    spec = {"name": "extra", "type": "string", "description": "More", **keys}
    return tool(parameters=[*BASE["parameters"], spec])


def kinds(diff: ToolDiff) -> list[tuple[str, str, str]]:
    return [(change.path, change.kind, change.level) for change in diff.changes]


def without(name: str) -> list[dict[str, Any]]:
    return [spec for spec in BASE["parameters"] if spec["name"] != name]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"required": True}, ("required", "became_required", "breaking")),
        ({"required": True}, {}, ("required", "became_optional", "compatible")),
        ({"type": "integer"}, {"type": "number"}, ("type", "type_widened", "compatible")),
        ({"type": "number"}, {"type": "integer"}, ("type", "type_narrowed", "breaking")),
        ({}, {"type": "boolean"}, ("type", "type_changed", "breaking")),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, ("enum", "enum_shrunk", "breaking")),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, ("enum", "enum_grown", "compatible")),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, ("enum", "enum_reordered", "cosmetic")),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, ("enum", "enum_changed", "breaking")),
        ({}, {"enum": ["a"]}, ("enum", "enum_added", "breaking")),
        ({"enum": ["a"]}, {}, ("enum", "enum_removed", "compatible")),
        ({"schema": {"const": "a"}}, {}, ("enum", "enum_removed", "compatible")),
        ({"schema": {"const": "a"}}, {"enum": ["a", "b"]}, ("enum", "enum_grown", "compatible")),
        (
            {"schema": {"const": "a"}},
            {"enum": ["a", "b"], "schema": {"const": "a"}},
            ("", "rewritten", "cosmetic"),
        ),
        ({}, {"min_length": 2}, ("min_length", "min_length_added", "breaking")),
        ({"min_length": 2}, {}, ("min_length", "min_length_removed", "compatible")),
        ({"min_length": 2}, {"min_length": 3}, ("min_length", "min_length_tightened", "breaking")),
        ({"max_length": 9}, {"max_length": 8}, ("max_length", "max_length_tightened", "breaking")),
        ({"max_length": 8}, {"max_length": 9}, ("max_length", "max_length_loosened", "compatible")),
        ({"pattern": "a"}, {"pattern": "b"}, ("pattern", "pattern_changed", "breaking")),
        ({"pattern": "a"}, {}, ("pattern", "pattern_removed", "compatible")),
        ({}, {"default": "x"}, ("default", "default_changed", "breaking")),
        ({"default": "x"}, {"default": "y"}, ("default", "default_changed", "breaking")),
        ({"default": "x"}, {}, ("default", "default_changed", "breaking")),
        ({}, {"secret": True}, ("secret", "became_secret", "compatible")),
        ({"secret": True}, {}, ("secret", "became_visible", "breaking")),
        ({}, {"description": "Other"}, ("description", "description_changed", "cosmetic")),
        ({}, {"schema": {"format": "date"}}, ("format", "format_added", "breaking")),
        (
            {"schema": {"allOf": [{"minLength": 1}]}},
            {"schema": {"allOf": [{"minLength": 2}]}},
            ("allOf", "allOf_changed", "breaking"),
        ),
        ({"schema": {"not": {"const": "x"}}}, {}, ("not", "not_removed", "compatible")),
        (
            {"schema": {"if": {"minLength": 2}, "then": {"maxLength": 5}}},
            {"schema": {"if": {"minLength": 2}, "then": {"maxLength": 6}}},
            ("schema", "rules_changed", "breaking"),
        ),
    ],
)
def test_edit_of_a_parameter(
    old: dict[str, Any], new: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    """Each edit of a parameter has its kind and its level."""
    path, kind, level = expected
    found = kinds(compare_versions(with_parameter(**old), with_parameter(**new)))
    assert found == [(f"parameters.extra.{path}" if path else "", kind, level)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"min": 1}, {"min": 2}, [("min", "min_tightened", "breaking")]),
        ({"min": 2}, {"min": 1}, [("min", "min_loosened", "compatible")]),
        ({"max": 1}, {"max": 2.5}, [("max", "max_loosened", "compatible")]),
        ({"min": 1}, {"min": 1.0}, []),
        ({"schema": {"multipleOf": 4}}, {"schema": {"multipleOf": 2}},
         [("multipleOf", "multipleOf_changed", "compatible")]),
        ({"schema": {"multipleOf": 2}}, {"schema": {"multipleOf": 4}},
         [("multipleOf", "multipleOf_changed", "breaking")]),
        ({"schema": {"multipleOf": 2}}, {"schema": {"multipleOf": 0.5}},
         [("multipleOf", "multipleOf_changed", "breaking")]),
        ({"schema": {"exclusiveMinimum": 1}}, {"schema": {"exclusiveMinimum": 2}},
         [("exclusiveMinimum", "exclusiveMinimum_tightened", "breaking")]),
    ],
)  # fmt: skip
def test_edit_of_a_number(
    old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """Bounds that move inwards are breaking, those that move outwards are not."""
    before, after = (with_parameter(type="number", **keys) for keys in (old, new))
    found = kinds(compare_versions(before, after))
    assert found == [
        (f"parameters.extra.{path}", kind, level) for path, kind, level in expected
    ] or (not expected and found == [("", "rewritten", "cosmetic")])


def raw(schema: dict[str, Any]) -> dict[str, Any]:
    return {"schema": schema} if schema else {}


OBJECT = {"type": "object", "properties": {"a": "string", "b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({"a": "string"}, ("b", "property_removed", "breaking")),
        ({"a": "string", "b": "integer", "c": "string"}, ("c", "property_added", "compatible")),
        ({"a": "string", "b": "number"}, ("b.type", "type_widened", "compatible")),
        (
            {"a": {"type": "string", "required": True}, "b": "integer"},
            ("a.required", "became_required", "breaking"),
        ),
        (
            {"a": {"type": "string", "default": "x"}, "b": "integer"},
            ("a.default", "default_changed", "breaking"),
        ),
        (
            {"a": {"type": "string", "description": "x"}, "b": "integer"},
            ("a.description", "description_changed", "cosmetic"),
        ),
    ],
)
def test_edit_inside_an_object(new: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """What is inside an object is looked at as its parameters are, at any depth."""
    path, kind, level = expected
    changed = {"type": "object", "properties": new}
    found = kinds(compare_versions(with_parameter(**OBJECT), with_parameter(**changed)))
    assert found == [(f"parameters.extra.{path}", kind, level)]
    deep = [with_parameter(type="array", items=spec) for spec in (OBJECT, changed)]
    assert kinds(compare_versions(*deep)) == [(f"parameters.extra.items.{path}", kind, level)]


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ({"additionalProperties": True}, {"additionalProperties": False}, "breaking"),
        ({"additionalProperties": False}, {"additionalProperties": {"type": "string"}},
         "compatible"),
        ({"additionalProperties": {"type": "integer"}},
         {"additionalProperties": {"type": "number"}},
         "compatible"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False},
         {"additionalProperties": False}, "breaking"),
        ({"unevaluatedProperties": False}, {"unevaluatedProperties": False, "maxProperties": 3},
         "breaking"),
        ({"properties": {"a": {"type": "string"}}}, {}, "compatible"),
        ({}, {"properties": {"a": {"type": "string"}}}, "breaking"),
        ({"properties": {"a": True}}, {"properties": {"a": False}}, "breaking"),
        ({"properties": {"a": False}}, {"properties": {"a": {"type": "string"}}}, "compatible"),
        ({"minProperties": 0}, {}, "cosmetic"),
        ({"patternProperties": {"^a": {}}, "properties": {"b": {"type": "string"}}},
         {"patternProperties": {"^a": {}}}, "breaking"),
        ({"properties": {"a": {"description": "x"}}}, {}, "cosmetic"),
    ],
)  # fmt: skip
def test_raw_schema_of_an_object(old: dict[str, Any], new: dict[str, Any], level: str) -> None:
    """Rules that depend on one another count as breaking unless it is certain that they are not."""
    before, after = (with_parameter(type="object", **raw(schema)) for schema in (old, new))
    assert compare_versions(before, after).level == level


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ({"uniqueItems": True}, {}, "compatible"),
        ({}, {"uniqueItems": True}, "breaking"),
        ({"uniqueItems": False}, {}, "cosmetic"),
        ({"prefixItems": [{"type": "string"}]}, {"prefixItems": [{}]}, "breaking"),
        ({"prefixItems": [{}], "items": {"type": "string"}}, {"prefixItems": [{}]}, "breaking"),
        ({"contains": {"const": 1}}, {"contains": {"const": 1}, "maxContains": 2}, "breaking"),
        ({"items": {"type": ["integer", "string"]}}, {"items": {"type": ["number", "string"]}},
         "compatible"),
        ({"items": {"type": "string"}}, {"items": {}}, "compatible"),
        ({"items": {"enum": [1]}}, {"items": {"enum": [True]}}, "breaking"),
    ],
)  # fmt: skip
def test_raw_schema_of_a_list(old: dict[str, Any], new: dict[str, Any], level: str) -> None:
    """The same for lists; 1 and true are two values."""
    before, after = (with_parameter(type="array", **raw(schema)) for schema in (old, new))
    assert compare_versions(before, after).level == level


def test_null_that_becomes_a_value() -> None:
    """A null stands for a value left out unless the schema takes it: to change that is breaking."""
    plain = with_parameter(default="x")
    nullable = with_parameter(default="x", schema={"type": ["string", "null"]})
    assert ("parameters.extra", "null_changed", "breaking") in kinds(
        compare_versions(plain, nullable)
    )
    # A required parameter has no value to be left out.
    before = with_parameter(required=True)
    after = with_parameter(required=True, schema={"type": ["string", "null"]})
    assert kinds(compare_versions(before, after)) == [
        ("parameters.extra.type", "type_widened", "compatible")
    ]


def test_parameters_come_and_go() -> None:
    """An optional parameter may come; one that is required, gone or renamed breaks callers."""
    optional = compare_versions(tool(), with_parameter())
    assert kinds(optional) == [("parameters.extra", "parameter_added", "compatible")]
    required = compare_versions(tool(), with_parameter(required=True))
    assert kinds(required) == [("parameters.extra", "parameter_added", "breaking")]
    gone = compare_versions(with_parameter(), tool())
    assert kinds(gone) == [("parameters.extra", "parameter_removed", "breaking")]
    renamed = compare_versions(with_parameter(), with_parameter(name="other"))
    assert kinds(renamed) == [("parameters.extra", "parameter_renamed", "breaking")]
    assert renamed.changes[0].message == "'extra' is called 'other' now"
    turned = compare_versions(tool(), tool(parameters=BASE["parameters"][::-1]))
    assert kinds(turned) == [("parameters", "reordered", "cosmetic")]


def test_default_of_a_required_parameter_is_never_used() -> None:
    """No call went without it, so that another default changes nothing for anybody."""
    before, after = (with_parameter(required=True, default=text) for text in "ab")
    assert kinds(compare_versions(before, after)) == [
        ("parameters.extra.default", "default_changed", "cosmetic")
    ]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"description": "Other"}, ("description", "description_changed", "cosmetic")),
        ({"tags": ["web", "new"]}, ("tags", "tags_changed", "cosmetic")),
        ({"author": "me"}, ("author", "author_changed", "cosmetic")),
        ({"icon": "x"}, ("icon", "icon_changed", "cosmetic")),
        ({"version": "1.2.4"}, ("version", "version_changed", "cosmetic")),
        ({"version": "1.2.2"}, ("version", "version_lowered", "cosmetic")),
        ({"name": "find"}, ("name", "name_changed", "breaking")),
        ({"category": "ai"}, ("category", "category_changed", "compatible")),
        ({"status": "deprecated"}, ("status", "status_changed", "compatible")),
        ({"timeout": 5}, ("timeout", "timeout_changed", "compatible")),
        ({"rate": "1/s"}, ("rate", "rate_changed", "compatible")),
        ({"retry": {"attempts": 2}}, ("retry", "retry_changed", "compatible")),
        ({"concurrency": {"bucket": "b"}}, ("concurrency.bucket", "bucket_changed", "compatible")),
        ({"idempotent": True}, ("idempotent", "idempotent_changed", "compatible")),
        ({"effect": "write"}, ("effect", "effect_changed", "breaking")),
        ({"effect": None}, ("effect", "effect_changed", "breaking")),
        ({"shareable_scope": "public"}, ("shareable_scope", "scope_widened", "compatible")),
        ({"output": None}, ("output", "output_undeclared", "breaking")),
    ],
)
def test_edit_of_the_tool(keys: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """Each edit beside the parameters has its kind and its level."""
    assert kinds(compare_versions(tool(), tool(**keys))) == [expected]


def test_promises() -> None:
    """A promise made where there was none is compatible; one that is taken back is breaking."""
    assert compare_versions(tool(effect=None), tool(effect="write")).level == "compatible"
    assert compare_versions(tool(idempotent=True), tool()).level == "breaking"
    assert compare_versions(tool(output=None), tool()).level == "compatible"
    assert compare_versions(tool(shareable_scope="public"), tool()).level == "breaking"


def test_a_collision_policy_is_part_of_what_a_call_means() -> None:
    """Whether a call waits, fails or shares a result is nothing that may change unannounced."""
    before = tool(concurrency={"key": "tool"})
    after = tool(concurrency={"key": "tool", "collision": "cancel_in_progress"})
    assert kinds(compare_versions(before, after)) == [
        ("concurrency.collision", "collision_changed", "breaking")
    ]


@pytest.mark.parametrize(
    ("entry", "path", "kind"),
    [
        ({"handler": "other"}, "entry.handler", "handler_changed"),
        ({"request": {"url": "https://two.example/find"}}, "entry.request.url", "endpoint_changed"),
        ({"request": {"method": "POST"}}, "entry.request.method", "entry_changed"),
        ({"allow": ["127.0.0.1"]}, "entry.allow", "entry_changed"),
    ],
)
def test_edit_of_the_entry(entry: dict[str, Any], path: str, kind: str) -> None:
    """Where a call goes and what runs it is what it means: every edit of the entry is breaking."""
    merged = {**BASE["entry"], **entry}
    if "request" in entry:
        merged["request"] = {**BASE["entry"]["request"], **entry["request"]}
    assert kinds(compare_versions(tool(), tool(entry=merged))) == [(path, kind, "breaking")]


@pytest.mark.parametrize(
    ("output", "level"),
    [
        ({"hits": {"type": "array", "items": "string"}, "total": "integer"}, "compatible"),
        ({}, "breaking"),
        ({"hits": {"type": "array", "items": "any"}}, "breaking"),
        ({"hits": {"type": "array", "items": "string", "max_items": 5}}, "compatible"),
        ({"hits": {"type": "array", "items": "string", "required": True}}, "compatible"),
        ({"hits": {"type": "array", "items": "string", "default": []}}, "cosmetic"),
    ],
)
def test_outputs_are_the_other_way_round(output: dict[str, Any], level: str) -> None:
    """Who reads an answer is surprised by what it may now hold, not by what it no longer does."""
    changed = tool(output={"type": "object", "properties": output})
    assert compare_versions(tool(), changed).level == level


def test_nothing_changed() -> None:
    """The same definition differs in nothing, wherever it lies."""
    moved = msgspec.structs.replace(tool(), source="other.yaml", findings=["x"])
    diff = compare_versions(tool(), moved)
    assert (diff.level, diff.changes, diff.warning) == ("none", [], None)


def test_every_field_of_a_tool_is_classed() -> None:
    """A key that tools get later counts as breaking until somebody says what it means."""
    known = {*compatibility._COMPARED, *compatibility._NOT_CONTENT}
    assert known == set(Tool.__struct_fields__)
    changes = list(compatibility._compare_unknown("later", 1, 2))
    assert [change.level for change in changes] == ["breaking"]


def test_secrets_stay_hidden() -> None:
    """A difference goes into events and logs, so no secret of a definition is in it."""
    headers = {"Authorization": "Bearer zzzz9999"}
    entry = {**BASE["entry"], "request": {**BASE["entry"]["request"], "headers": headers}}
    before = with_parameter(secret=True, default="hunter2", enum=["hunter2", "hunter3"])
    after = tool(
        entry=entry,
        parameters=[
            *BASE["parameters"],
            {"name": "extra", "type": "string", "description": "More", "default": "hunter4"},
        ],
    )
    diff = compare_versions(before, after)
    said = msgspec.json.encode(diff.to_dict()).decode() + str(diff.warning)
    assert diff.level == "breaking"
    for secret in ("abcd1234", "zzzz9999", "hunter"):
        assert secret not in said
    assert "[hidden]" in said


def test_long_values_are_cut() -> None:
    """An event does not carry a definition's megabyte twice."""
    entries = [{**BASE["entry"], "allow": [letter * 100_000]} for letter in "ab"]
    (change,) = compare_versions(*(tool(entry=entry) for entry in entries)).changes
    assert len(str(change.old)) < 3_000
    assert len(change.message) < 5_000


@pytest.mark.parametrize(
    ("old", "new", "is_announced"),
    [
        ("1.2.3", "2.0.0", True),
        ("1.2.3", "1.3.0", False),
        ("1.2.3", "1.2.3", False),
        ("1.9", "1.10", False),
        ("v1", "v2", True),
        ("1.0.0-rc1", "1.0.0", False),
        ("0.3.1", "0.4.0", True),
        ("0.3.1", "0.3.2", False),
        ("0.9.0", "1.0.0", True),
        ("2.0.0", "1.9.0", True),
        ("beta", "1.0.0", True),
        ("1.0.0", "beta", False),
        ("alpha", "beta", False),
        ("2024-05", "2025-01", True),
        ("1.0.0", "1" * 30, False),
    ],
)
def test_major_step(old: str, new: str, is_announced: bool) -> None:
    """A breaking edit is announced when the first number of the version differs."""
    diff = compare_versions(tool(version=old), tool(version=new, effect="write"))
    assert diff.breaks_unannounced is not is_announced
    if not is_announced:
        assert "a breaking edit of 'search'" in str(diff.warning)
        assert "effect: changed from" in str(diff.warning)


@pytest.mark.parametrize(
    ("version", "cure"), [("1.2.3", "2.0.0"), ("0.3.1", "0.4.0"), ("beta", "1.0.0")]
)
def test_the_warning_names_the_version_that_cures_it(version: str, cure: str) -> None:
    """The message says which version to write, and that version is right."""
    diff = compare_versions(tool(version=version), tool(version=version, effect="write"))
    assert str(diff.warning).endswith(f"make it version {cure}")
    assert "still version" in str(diff.warning)
    mended = compare_versions(tool(version=version), tool(version=cure, effect="write"))
    assert mended.warning is None


def test_a_version_that_goes_down_is_told() -> None:
    """Most likely the slip of somebody who copied an old file; but nothing is refused for it."""
    diff = compare_versions(tool(version="1.3.0"), tool(version="1.2.0"))
    assert "goes down, from 1.3.0 to 1.2.0" in str(diff.warning)
    assert not diff.breaks_unannounced


def test_many_breaks_are_counted() -> None:
    """The warning names three and counts the others; the worst changes come first."""
    diff = compare_versions(tool(), tool(parameters=[], effect="write", description="x"))
    assert "and 1 more" in str(diff.warning)
    assert [change.level for change in diff.changes] == ["breaking"] * 4 + ["cosmetic"]


# What calls were right before, and are they after? Definitions and edits are made at random.

NAMES = st.sampled_from("abc")
TEXTS = st.sampled_from(["", "a", "b", "ab", "abc", "abcd", "zz", "1"])
NUMBERS = st.integers(-3, 6)


def optional(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(st.just({}), values.map(lambda value: {name: value}))


def bounds(low: str, high: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.tuples(values, values).map(sorted)
    return st.one_of(
        st.just({}),
        values.map(lambda value: {low: value}),
        values.map(lambda value: {high: value}),
        pairs.map(lambda pair: {low: pair[0], high: pair[1]}),
    )


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(
        lambda found: {key: v for part in found for key, v in part.items()}
    )


STRINGS = merged(
    st.just({"type": "string"}),
    bounds("min_length", "max_length", st.integers(0, 4)),
    optional("enum", st.lists(TEXTS, min_size=1, max_size=4, unique=True)),
    optional("pattern", st.sampled_from(["a", "^a", "b$"])),
)
NUMERIC = merged(
    st.sampled_from([{"type": "integer"}, {"type": "number"}]),
    bounds("min", "max", NUMBERS),
    optional("enum", st.lists(NUMBERS, min_size=1, max_size=4, unique=True)),
)
NULLABLE = st.just({"type": "string", "schema": {"type": ["string", "null"]}})
SCALARS = st.one_of(STRINGS, NUMERIC, st.just({"type": "boolean"}), NULLABLE)


Strategy = st.SearchStrategy[dict[str, Any]]


def extend(inner: Strategy) -> tuple[Strategy, Strategy]:
    lists = merged(
        st.just({"type": "array"}),
        bounds("min_items", "max_items", st.integers(0, 3)),
        optional("items", inner),
    )
    objects = merged(
        st.just({"type": "object"}),
        optional(
            "properties",
            st.dictionaries(NAMES, merged(inner, optional("required", st.booleans())), min_size=1),
        ),
    )
    return lists, objects


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(extend(inner)), max_leaves=4)
Spec = dict[str, Any]


def loaded(specs: list[Spec]) -> Tool:
    return ToolConfigLoader().from_mapping(
        {"name": "x", "description": "x", "parameters": specs, "entry": {"type": "custom"}}
    )


@st.composite
def parameters(draw: st.DrawFn, name: str) -> Spec:
    """One parameter; if it has a default, then one that fits."""
    spec = {"name": name, "description": "x", **draw(VALUES), "required": draw(st.booleans())}
    if not spec["required"] and draw(st.booleans()):
        spec["default"] = draw(fitting(spec))
    return spec


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[Spec], list[Spec]]:
    """The parameters of a tool, before and after one of them was edited, added or removed."""
    old = [draw(parameters(name)) for name in draw(st.lists(NAMES, unique=True, max_size=3))]
    name = draw(st.sampled_from([spec["name"] for spec in old] or ["a"]))
    kind = draw(st.sampled_from(["add", "drop", "replace", *["edit"] * 12]))
    if kind == "add" or not old:
        return old, [*old, draw(parameters("d"))]
    new = [spec for spec in old if spec["name"] != name]
    before = next(spec for spec in old if spec["name"] == name)
    if kind == "replace":
        new.append(draw(parameters(name)))
    elif kind == "edit":
        new.append(draw(edited(before)))
    return old, new


@st.composite
def edited(draw: st.DrawFn, before: Spec) -> Spec:
    """The same parameter with one key a little different, or as in another one of its type."""
    other = draw(LIKE[before["type"]])
    spec = {**before}
    own = sorted(before.keys() & TWEAKS.keys())
    rules = sorted({*before, *other} - {"name", "description", "default", "required"})
    key = draw(st.sampled_from(["required", "default", *own, *own, *own, *rules]))
    if key == "required":
        spec["required"] = not before["required"]
    elif key == "default":
        spec.pop("default", None)
        if draw(st.booleans()):
            spec["default"] = draw(fitting(spec))
    elif key in own and draw(st.booleans()):
        spec[key] = draw(TWEAKS[key](spec[key]))
    else:
        spec.pop(key, None)
        spec |= {key: other[key]} if key in other else {}
        spec["type"] = spec.get("type", before["type"])
    try:
        loaded([spec])
    except DefinitionError:
        reject()
    return spec


def tweaked_number(value: int) -> st.SearchStrategy[int]:
    return st.sampled_from([value - 1, value + 1])


def tweaked_values(values: list[Any]) -> st.SearchStrategy[list[Any]]:
    more = TEXTS if isinstance(values[0], str) else NUMBERS
    fewer = values[1:] or values
    return st.one_of(st.just(fewer), st.just(values[::-1]), more.map(lambda one: [*values, one]))


TWEAKS: dict[str, Callable[[Any], st.SearchStrategy[Any]]] = {
    **dict.fromkeys(["min", "max"], tweaked_number),
    **dict.fromkeys(["min_length", "max_length", "min_items", "max_items"], tweaked_number),
    "enum": tweaked_values,
    "pattern": lambda _: st.sampled_from(["a", "b", "^a", "b$"]),
}


LISTS, OBJECTS = extend(SCALARS)
LIKE: dict[str, st.SearchStrategy[Spec]] = {
    "string": st.one_of(STRINGS, NULLABLE),
    "integer": NUMERIC,
    "number": NUMERIC,
    "boolean": st.just({"type": "boolean"}),
    "array": LISTS,
    "object": OBJECTS,
}


def fitting(spec: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a parameter accepts."""
    plain = {key: value for key, value in spec.items() if key not in ("default", "required")}
    plain = {"name": "v", "description": "x", **plain, "required": True}
    judge = ToolConfigLoader().from_mapping(
        {"name": "x", "description": "x", "parameters": [{**plain, "name": "v"}]}
    )
    return candidates(plain).filter(
        lambda value: ToolParameterValidator(strict=True).validate(judge, {"v": value}).is_valid
    )


def candidates(spec: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that are likely to fit, so that few are thrown away."""
    if "enum" in spec:
        return st.sampled_from(spec["enum"])
    kind = spec["type"]
    if kind == "array":
        return st.lists(candidates(spec.get("items", {"type": "integer"})), max_size=4)
    if kind == "object":
        inner = spec.get("properties", {"a": {"type": "integer"}})
        needed = {name: candidates(each) for name, each in inner.items() if each.get("required")}
        other = {name: candidates(each) for name, each in inner.items() if name not in needed}
        return st.fixed_dictionaries(needed, optional=other)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXTS,
        "boolean": st.booleans(),
        "integer": NUMBERS,
        "number": st.one_of(NUMBERS, st.sampled_from([0.5, 2.5])),
    }
    found = simple[kind]
    return st.one_of(found, st.none()) if "schema" in spec else found


STRICT = ToolParameterValidator(strict=True)


@settings(max_examples=share_of(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(edit=edits(), data=st.data())
def test_compatible_means_that_old_calls_go_on(
    edit: tuple[list[Spec], list[Spec]], data: st.DataObject
) -> None:
    """Arguments that were right are right after a compatible edit, and mean the same."""
    old, new = edit
    before, after = loaded(old), loaded(new)
    diff = compare_versions(before, after)
    if diff.level == "breaking":
        return
    for _ in range(3):
        arguments = {
            spec["name"]: data.draw(fitting(spec))
            for spec in old
            if spec["required"] or data.draw(st.booleans())
        }
        # A null stands for a value that was left out.
        arguments |= {
            spec["name"]: None
            for spec in old
            if spec["name"] not in arguments and data.draw(st.booleans())
        }
        was, now = STRICT.validate(before, arguments), STRICT.validate(after, arguments)
        assert was.is_valid
        assert now.is_valid, (diff, now.errors)
        kept = {name: now.validated_params.get(name, "gone") for name in was.validated_params}
        assert msgspec.json.encode(kept) == msgspec.json.encode(was.validated_params)


ONE_RULE = st.one_of(
    st.tuples(st.sampled_from(["min", "max"]), NUMBERS, NUMBERS),
    st.tuples(st.sampled_from(["min_length", "max_length"]), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(
        st.just("enum"),
        st.lists(TEXTS, min_size=1, max_size=4, unique=True),
        st.lists(TEXTS, min_size=1, max_size=4, unique=True),
    ),
    st.tuples(st.just("required"), st.booleans(), st.booleans()),
)
DOMAIN: list[Any] = ["x" * length for length in range(7)]
DOMAIN += ["", "a", "b", "ab", "abc", "abcd", "zz", "1", *range(-6, 9), 0.5, None, True]


@settings(max_examples=share_of(150), deadline=None)
@given(rule=ONE_RULE, has_old=st.booleans(), has_new=st.booleans())
def test_breaking_has_a_witness(rule: tuple[str, Any, Any], has_old: bool, has_new: bool) -> None:
    """Of one simple rule: the edit is breaking exactly when some right call is wrong afterwards."""
    key, old, new = rule
    kind = "number" if key in ("min", "max") else "string"
    specs = [
        {"name": "v", "type": kind, "description": "x"} | ({key: value} if has else {})
        for has, value in ((has_old, old), (has_new, new))
    ]
    before, after = (loaded([spec]) for spec in specs)
    calls: list[dict[str, Any]] = [{}, *({"v": value} for value in DOMAIN)]
    refused = [
        call
        for call in calls
        if STRICT.validate(before, call).is_valid and not STRICT.validate(after, call).is_valid
    ]
    assert (compare_versions(before, after).level == "breaking") is bool(refused)


def test_a_narrowed_type_has_a_witness() -> None:
    """What a wider type took, a narrower one refuses: 0.5 is a number and no integer."""
    wide, narrow = (loaded([{"name": "v", "type": kind, "description": "x"}])
                    for kind in ("number", "integer"))  # fmt: skip
    assert compare_versions(wide, narrow).level == "breaking"
    assert STRICT.validate(wide, {"v": 0.5}).is_valid
    assert not STRICT.validate(narrow, {"v": 0.5}).is_valid


@settings(max_examples=share_of(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(edit=edits())
def test_levels_of_there_and_back(edit: tuple[list[Spec], list[Spec]]) -> None:
    """What differs differs both ways, and the same in the same is nothing."""
    before, after = (loaded(specs) for specs in edit)
    there, back = compare_versions(before, after), compare_versions(after, before)
    assert (
        (there.level == "none")
        is (back.level == "none")
        is (before.definition_hash == after.definition_hash)
    )
    assert compare_versions(before, loaded(edit[0])).level == "none"
