"""What does a tool's schema say about each place in the arguments?

A `Position` describes one place: the schema that every value there certainly must fit, and those
that may apply besides (branches of `anyOf`, `$ref` and so on). Positions are made on demand, so
that a recursive schema costs only the depth that arguments reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import jsonschema_rs

from tool_engine.model.json.references import resolve_pointer
from tool_engine.model.schema import short_rules
from tool_engine.validation.uniqueness import LINEAR

_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONS: Final = ("then", "else")
_ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "$comment", "$defs")
)
_BELOW: Final = frozenset(
    ("properties", "patternProperties", "additionalProperties", "items", "prefixItems")
)
_SIZED: Final = frozenset(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "not", "if")
)
_WHOLE_ONLY: Final = frozenset(
    ("$ref", "$dynamicRef", "$id", "unevaluatedProperties", "unevaluatedItems")
)
_TOGETHER: Final = {
    "if": ("then", "else"),
    "contains": ("minContains", "maxContains"),
    "patternProperties": ("additionalProperties", "properties"),
    "prefixItems": ("items",),
}
"""Keywords that have a meaning only beside another one."""
_NEVER: Final[dict[str, Any]] = {"not": {}}
"""The schema that `false` stands for."""
_NO_KEYS: Final[Mapping[str, Any]] = {}
_Schemas = tuple[dict[str, Any], ...]


def build_validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """Compile `schema`, formats included, with patterns and `uniqueItems` that are linear.

    Raises:
        ValueError: The schema is not JSON Schema 2020-12, or a pattern needs look-around.
    """
    return jsonschema_rs.Draft202012Validator(
        schema,
        pattern_options=jsonschema_rs.RegexOptions(),
        validate_formats=True,
        keywords=LINEAR,
        offline=True,
    )


class Position:
    """One place in the arguments of a tool.

    Args:
        root: The whole schema, for references.
        schemas: Every schema that may speak about this place.
        certain: The one that certainly applies; empty when only branches do.
        short: The short keys that it was made of, where it was made of nothing else.
    """

    def __init__(
        self,
        root: dict[str, Any],
        schemas: Iterable[Any],
        certain: dict[str, Any] | None = None,
        short: Mapping[str, Any] = _NO_KEYS,
    ) -> None:
        self._root = root
        self._short = short
        self.schemas: _Schemas = tuple(_find_applicable(root, schemas))
        """Every schema that may speak about this place, references followed."""
        self.certain: dict[str, Any] = certain or {}
        types = [name for schema in self.schemas for name in _list_types(schema)]
        self.is_integer: bool = "integer" in types and "number" not in types
        self._children: dict[str | None, Position] = {}
        self.names: dict[str, None] = dict.fromkeys(
            name for schema in self.schemas for name in schema.get("properties", ())
        )
        """The keys that some schema of this place declares."""

    @classmethod
    def of(cls, root: dict[str, Any], short: Mapping[str, Any] = _NO_KEYS) -> Position:
        """Return the position of the arguments as a whole; `short` as above."""
        return cls(root, [root], root, short)

    @cached_property
    def is_open(self) -> bool:
        """True if the schema has no rules for values inside this one."""
        return all(_BELOW.isdisjoint(schema) for schema in self.schemas)

    @cached_property
    def is_bounded(self) -> bool:
        """True if a rule depends on how large a number is."""
        return not all(_SIZED.isdisjoint(schema) for schema in self.schemas)

    @cached_property
    def is_closed(self) -> bool:
        """True if an undeclared key is a mistake."""
        return (
            self.certain.get("additionalProperties") is False
            and "patternProperties" not in self.certain
        )

    @cached_property
    def drops_unknown(self) -> bool:
        """True if undeclared keys may be left out; raw schema judges what was sent."""
        return self.is_closed and "properties" in self._short

    def takes(self, kind: str) -> bool:
        """False if no value of this JSON type is right here."""
        kinds = self.certain.get("type", kind)
        return kind == kinds or (isinstance(kinds, list) and kind in kinds)

    @cached_property
    def required(self) -> list[str]:
        return list(self.certain.get("required", ()))

    @cached_property
    def properties(self) -> dict[str, Any]:
        return dict(self.certain.get("properties", {}))

    def child(self, name: str) -> Position:
        if self.is_open:
            return ANYWHERE
        key = name if name in self.names else None
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = (
                self._declared_property(name) if key else self._rest_schemas()
            )
        return found

    @cached_property
    def item(self) -> Position:
        """Return the position of the items of a list; `prefixItems` share it with the others."""
        if self.is_open:
            return ANYWHERE
        certain = None if "prefixItems" in self.certain else self.certain.get("items")
        schemas = [
            found
            for schema in self.schemas
            for found in (schema.get("items"), *schema.get("prefixItems", ()))
        ]
        short = short_rules(self._short.get("items", "any"))
        return Position(self._root, schemas, certain if isinstance(certain, dict) else None, short)

    @cached_property
    def is_never(self) -> bool:
        """True if no value is allowed here."""
        return self.certain == _NEVER

    @cached_property
    def whole_rules(self) -> jsonschema_rs.Draft202012Validator:
        """The validator of the value and of all inside it."""
        return build_validator(self.certain)

    @cached_property
    def item_rules(self) -> jsonschema_rs.Draft202012Validator:
        """The validator of the items of a list."""
        return build_validator({"items": self.item.certain})

    @cached_property
    def own_rules(self) -> jsonschema_rs.Draft202012Validator | None:
        """The validator of the value itself; None: no rules.

        Left out are the keys that are required or unknown, and the values below, each of which has
        a position of its own.
        """
        return build_validator(self._own_rules) if self._own_rules else None

    def own_rules_hold(self, value: Any) -> bool:
        return self.own_rules is None or self.own_rules.is_valid(value)

    @cached_property
    def own_checks(self) -> list[Check]:
        """The `own_rules`, one keyword at a time."""
        own = self._own_rules
        companions = {other for keyword in own for other in _TOGETHER.get(keyword, ())}
        # `properties` is a rule of its own, beside patterns too.
        companions.discard("properties")
        return [Check(self._root, own, keyword) for keyword in own if keyword not in companions]

    @cached_property
    def _own_rules(self) -> dict[str, Any]:
        rules = {
            keyword: value
            for keyword, value in self.certain.items()
            if keyword not in _ANNOTATIONS and keyword != "required"
        }
        below = rules.pop("properties", {})
        kept = {name: schema for name, schema in below.items() if not isinstance(schema, dict)}
        if "patternProperties" in rules:
            kept.update({name: True for name in below if name not in kept})
        else:
            rules.pop("additionalProperties", None)
        if kept:
            rules["properties"] = kept
        if "prefixItems" not in rules and isinstance(rules.get("items"), dict):
            del rules["items"]
        return rules

    def _declared_property(self, name: str) -> Position:
        schemas = [
            schema["properties"][name]
            for schema in self.schemas
            if name in schema.get("properties", ())
        ]
        certain = self.properties.get(name)
        short = short_rules(self._short.get("properties", _NO_KEYS).get(name, "any"))
        return Position(self._root, schemas, certain if isinstance(certain, dict) else None, short)

    def _rest_schemas(self) -> Position:
        # A value is never put under the one pattern that its key matches: to hand over 1.0 as 1
        # where some pattern says integer loses nothing, and Rust's patterns are not Python's.
        schemas = [
            found
            for schema in self.schemas
            for found in (
                schema.get("additionalProperties"),
                *schema.get("patternProperties", {}).values(),
            )
        ]
        certain = self.certain.get("additionalProperties")
        if "patternProperties" in self.certain or not isinstance(certain, dict):
            certain = None
        return Position(self._root, schemas, certain)


class Check:
    """One keyword of a schema, with the keywords that it depends on.

    Args:
        root: The whole schema, for references.
        rules: All keywords of the place.
        keyword: The one.
    """

    def __init__(self, root: dict[str, Any], rules: dict[str, Any], keyword: str) -> None:
        self.keyword = keyword
        self.value: Any = rules[keyword]
        together = (keyword, *_TOGETHER.get(keyword, ()))
        self.rules = build_validator({key: rules[key] for key in together if key in rules})
        """The validator of the keyword."""
        self.declared: dict[str, Any] = rules.get("properties", {})
        """The keys that are declared beside patterns of keys."""
        self._root = root
        self._all = rules

    @cached_property
    def positions(self) -> list[Position]:
        """Return the keyword's schemas, as far as they locate an error."""
        value, rest = self.value, self._all
        schemas: list[Any] = []
        if self.keyword in _BRANCHES:
            schemas = value
        elif self.keyword == "if":
            schemas = [value, rest.get("then", True), rest.get("else", True)]
        elif self.keyword in ("propertyNames", "items"):
            schemas = [value]
        elif self.keyword in ("dependentSchemas", "properties"):
            schemas = list(value.values())
        elif self.keyword == "patternProperties":
            schemas = [*value.values(), rest.get("additionalProperties", True)]
        elif self.keyword == "prefixItems":
            schemas = [*value, rest.get("items", True)]
        return [self._make_position(schema) for schema in schemas]

    @cached_property
    def matchers(self) -> list[jsonschema_rs.Draft202012Validator]:
        """Return a validator of keys for each key pattern."""
        return [build_validator({"pattern": pattern}) for pattern in self.value]

    def _make_position(self, schema: Any) -> Position:
        if not isinstance(schema, dict):
            schema = {} if schema else _NEVER
        return Position(self._root, [schema], schema)


def can_be_split(schema: Any) -> bool:
    """True if each position can be checked without the whole around it."""
    if isinstance(schema, Mapping):
        return not (_WHOLE_ONLY & schema.keys()) and all(map(can_be_split, schema.values()))
    return all(map(can_be_split, schema)) if isinstance(schema, list | tuple) else True


def _find_applicable(root: dict[str, Any], schemas: Iterable[Any]) -> Iterator[dict[str, Any]]:
    pending = [schema for schema in schemas if isinstance(schema, dict)]
    seen: set[int] = set()
    while pending:
        schema = pending.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        branches = [branch for keyword in _BRANCHES for branch in schema.get(keyword, ())]
        branches += [schema.get(keyword) for keyword in _CONDITIONS]
        branches.append(resolve_pointer(root, schema.get("$ref")))
        pending.extend(branch for branch in branches if isinstance(branch, dict))


def _list_types(schema: dict[str, Any]) -> list[str]:
    declared = schema.get("type", ())
    return [declared] if isinstance(declared, str) else list(declared)


ANYWHERE: Final = Position({}, ())
"""A place without rules."""
