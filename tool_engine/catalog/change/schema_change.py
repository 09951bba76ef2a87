"""Does a new schema accept more values than before, fewer, or others?

Each keyword of a schema allows a set of values, and the schema allows what all of them allow. So a
schema accepts everything that it did before when each of its keywords does. How two forms of one
keyword compare is said only where it is certain; any other edit counts as `OTHER`, as bad as both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.model.schema import SHORT_KEYS


class Reach(str, Enum):
    """What an edit does to the set of values that are accepted."""

    SAME = "same"
    """Only the words or the layout changed."""
    MORE = "more"
    """All values of before, and others."""
    FEWER = "fewer"
    """Some values of before no longer."""
    OTHER = "other"
    """Other values, or unknown."""
    DEFAULT = "default"
    """The same values; another default for a value that is left out."""


class SchemaChange(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    """Where, such as `("items", "name", "max_length")`."""
    kind: str
    reach: Reach
    old: Any
    """The keyword's value before; None where there was none."""
    new: Any
    message: str


_ALL_TYPES: Final = frozenset({"string", "number", "boolean", "array", "object", "null"})
_WORDS: Final = frozenset(
    {"title", "description", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
)
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_PLAIN_RULES: Final = frozenset(
    {
        *("pattern", "format", "uniqueItems", "multipleOf", "not", "allOf", "anyOf", "oneOf"),
        *("propertyNames", "dependentRequired", "dependentSchemas"),
    }
)
"""Keywords that only ever take values away, whatever stands beside them."""
_HANDLED: Final = _WORDS | {"type", "enum", "const", "default", "required", "properties"}
_NOTHING: Final[Mapping[str, Any]] = {"not": {}}
_NO_RULE: Final = {"uniqueItems": False, "minLength": 0, "minItems": 0, "minProperties": 0}
"""Values with the same meaning as no value."""
_SEES_ALL: Final = ("unevaluatedItems", "unevaluatedProperties")
_SHORT_NAMES: Final = {keyword: key for key, keyword in SHORT_KEYS.items()}


def schema_changes(
    old: Mapping[str, Any] | bool, new: Mapping[str, Any] | bool
) -> list[SchemaChange]:
    before, after = _as_mapping(old), _as_mapping(new)
    if is_same(before, after):
        return []
    if _NOTHING in (before, after):
        kind, reach = ("allowed", Reach.MORE) if before == _NOTHING else ("forbidden", Reach.FEWER)
        return [SchemaChange((), f"values_{kind}", reach, old, new, f"any value is {kind} now")]
    if _is_entangled(before, after):
        message = "rules that depend on one another changed"
        return [SchemaChange(("schema",), "rules_changed", Reach.OTHER, before, after, message)]
    return [
        *_type_changes(before, after),
        *_enum_changes(before, after),
        *_rule_changes(before, after),
        *_object_changes(before, after),
        *_item_changes(before, after),
        *_word_changes(before, after),
    ]


def is_same(old: Any, new: Any) -> bool:
    """Return True for equal JSON; 1, 1.0 and true all differ."""
    return _encode_value(old) == _encode_value(new)


def _encode_value(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _as_mapping(schema: Mapping[str, Any] | bool) -> Mapping[str, Any]:
    if isinstance(schema, Mapping):
        return schema
    return {} if schema else _NOTHING


def _is_entangled(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    changed = {
        key
        for key in {*old, *new} - _WORDS
        if (key in old) != (key in new) or not is_same(old.get(key), new.get(key))
    }
    if any(key in schema for key in _SEES_ALL for schema in (old, new)):
        return bool(changed)
    known = {*_LOWER, *_UPPER, *_PLAIN_RULES, *_HANDLED, "items", "additionalProperties"}
    if not changed <= known:
        return True
    objects = bool(changed & {"properties", "additionalProperties"})
    if objects and ("patternProperties" in old or "patternProperties" in new):
        return True
    return "items" in changed and ("prefixItems" in old or "prefixItems" in new)


def _make_change(
    key: str, kind: str, reach: Reach, old: Any, new: Any, message: str | None = None
) -> SchemaChange:
    name = _SHORT_NAMES.get(key, key)
    return SchemaChange((name,), kind, reach, old, new, message or f"{name} {_from_to(old, new)}")


def _from_to(old: Any, new: Any) -> str:
    if old is None:
        return f"{_show_value(new)} is new"
    if new is None:
        return f"{_show_value(old)} is gone"
    return f"changed from {_show_value(old)} to {_show_value(new)}"


def _show_value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}…"


def _list_types(schema: Mapping[str, Any]) -> frozenset[str]:
    declared = schema.get("type")
    if declared is None:
        return _ALL_TYPES
    types = frozenset([declared] if isinstance(declared, str) else declared)
    # Every integer is a number, so a set that holds number need not name it.
    return types - {"integer"} if "number" in types else types


def _type_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[SchemaChange]:
    before, after = _list_types(old), _list_types(new)
    if before == after:
        return
    is_wider = all(each in after or (each == "integer" and "number" in after) for each in before)
    is_narrower = all(
        each in before or (each == "integer" and "number" in before) for each in after
    )
    kind, reach = "type_changed", Reach.OTHER
    if is_wider:
        kind, reach = "type_widened", Reach.MORE
    elif is_narrower:
        kind, reach = "type_narrowed", Reach.FEWER
    yield _make_change("type", kind, reach, old.get("type", "any"), new.get("type", "any"))


def _allowed_values(schema: Mapping[str, Any]) -> set[bytes] | None:
    """Return the values left by `enum` and `const`; None for all."""
    allowed: set[bytes] | None = None
    if "enum" in schema:
        allowed = {_encode_value(value) for value in schema["enum"]}
    if "const" in schema:
        const = {_encode_value(schema["const"])}
        allowed = const if allowed is None else allowed & const
    return allowed


def _enum_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[SchemaChange]:
    before, after = _allowed_values(old), _allowed_values(new)
    if before is None and after is None:
        return
    kind, reach = "changed", Reach.OTHER
    if before is None or after is None:
        kind, reach = ("added", Reach.FEWER) if before is None else ("removed", Reach.MORE)
    elif before == after:
        kind, reach = "reordered", Reach.SAME
    elif before < after or after < before:
        kind, reach = ("grown", Reach.MORE) if before < after else ("shrunk", Reach.FEWER)
    shown = _shown_enum(old), _shown_enum(new)
    if not is_same(*shown):
        yield _make_change("enum", f"enum_{kind}", reach, *shown)


def _shown_enum(schema: Mapping[str, Any]) -> Any:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _rule_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[SchemaChange]:
    for key in [*_LOWER, *_UPPER, *sorted(_PLAIN_RULES)]:
        before, after = (_read_rule(schema, key) for schema in (old, new))
        name = _SHORT_NAMES.get(key, key)
        if is_same(before, after):
            continue
        if before is None:
            yield _make_change(key, f"{name}_added", Reach.FEWER, before, after)
        elif after is None:
            yield _make_change(key, f"{name}_removed", Reach.MORE, before, after)
        elif key in _LOWER or key in _UPPER:
            yield from _bound_changes(key, name, before, after)
        else:
            reach = _step_reach(before, after) if key == "multipleOf" else Reach.OTHER
            yield _make_change(key, f"{name}_changed", reach, before, after)


def _read_rule(schema: Mapping[str, Any], key: str) -> Any:
    value = schema.get(key)
    return None if key in _NO_RULE and value == _NO_RULE[key] else value


def _bound_changes(key: str, name: str, before: float, after: float) -> Iterator[SchemaChange]:
    if before == after:
        return
    is_tighter = (after > before) == (key in _LOWER)
    word, reach = ("tightened", Reach.FEWER) if is_tighter else ("loosened", Reach.MORE)
    yield _make_change(key, f"{name}_{word}", reach, before, after)


def _step_reach(before: float, after: float) -> Reach:
    if not (isinstance(before, int) and isinstance(after, int)):
        return Reach.OTHER
    if before % after == 0:
        return Reach.MORE
    return Reach.FEWER if after % before == 0 else Reach.OTHER


def _object_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[SchemaChange]:
    before, after = old.get("properties", {}), new.get("properties", {})
    rest_before = old.get("additionalProperties", True)
    rest_after = new.get("additionalProperties", True)
    for name in before:
        if name in after:
            yield from _nest_changes(name, schema_changes(before[name], after[name]))
        else:
            reach = _reach_of(schema_changes(before[name], rest_after))
            message = f"the property {name!r} is gone"
            yield SchemaChange((name,), "property_removed", reach, before[name], None, message)
    for name in after:
        if name not in before:
            reach = _reach_of(schema_changes(rest_before, after[name]))
            message = f"the property {name!r} is new"
            yield SchemaChange((name,), "property_added", reach, None, after[name], message)
    if not is_same(rest_before, rest_after):
        reach = _reach_of(schema_changes(rest_before, rest_after))
        key = "additionalProperties"
        yield _make_change(key, "other_properties_changed", reach, rest_before, rest_after)
    yield from _required_changes(old.get("required", ()), new.get("required", ()))


def _required_changes(old: Any, new: Any) -> Iterator[SchemaChange]:
    for name in sorted({*new} - {*old}):
        message = f"{name!r} is required now"
        yield SchemaChange((name, "required"), "became_required", Reach.FEWER, False, True, message)
    for name in sorted({*old} - {*new}):
        message = f"{name!r} may be left out now"
        yield SchemaChange((name, "required"), "became_optional", Reach.MORE, True, False, message)


def _item_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[SchemaChange]:
    yield from _nest_changes(
        "items", schema_changes(old.get("items", True), new.get("items", True))
    )


def _word_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[SchemaChange]:
    before, after = old.get("default"), new.get("default")
    if ("default" in old) != ("default" in new) or not is_same(before, after):
        yield _make_change("default", "default_changed", Reach.DEFAULT, before, after)
    for key in sorted(_WORDS):
        if not is_same(old.get(key), new.get(key)):
            message = f"another {key}"
            yield _make_change(
                key, f"{key}_changed", Reach.SAME, old.get(key), new.get(key), message
            )


def _nest_changes(name: str, changes: list[SchemaChange]) -> Iterator[SchemaChange]:
    for change in changes:
        yield msgspec.structs.replace(change, path=(name, *change.path))


def _reach_of(changes: list[SchemaChange]) -> Reach:
    reaches = {change.reach for change in changes} - {Reach.SAME, Reach.DEFAULT}
    if not reaches:
        return Reach.SAME
    return reaches.pop() if len(reaches) == 1 else Reach.OTHER
