"""How is a tool's JSON Schema changed so that a provider takes it?

Providers take subsets of JSON Schema 2020-12, and refuse the whole request when one tool steps out
of theirs. `fit_schema` makes the schema to send: the same rule in other keywords where there is
one, in words in the description where not. Every difference is a `SchemaChange`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.model.json.references import (
    DEFINITIONS,
    HOLD_LIST,
    HOLD_MANY,
    HOLD_ONE,
    resolve_pointer,
)
from tool_engine.model.json.returned_value import PLAIN, safe_repr
from tool_engine.protocols.schemas.rewrites import REWRITES, unite_properties
from tool_engine.protocols.schemas.schema_words import append_words, say_rule

Node = dict[str, Any]


class SchemaChange(msgspec.Struct, frozen=True):
    """One difference between a tool's schema and the schema that is sent."""

    kind: str
    """`rewritten`: the model gets the rule in another way; `dropped`: it does not."""
    path: str
    """The place, as a JSON Pointer into the tool's schema: `/properties/city/minLength`."""
    message: str


class FittedSchema(msgspec.Struct, frozen=True):
    schema: dict[str, Any]
    """A fresh value."""
    changes: list[SchemaChange]


class Place:
    """The current place in a schema; `note` lists a change there."""

    __slots__ = ("_changes", "depth", "path")

    def __init__(self, path: str, depth: int, changes: list[SchemaChange]) -> None:
        self.path = path
        self.depth = depth
        self._changes = changes

    def inside(self, *keys: object) -> Place:
        steps = (str(key).replace("~", "~0").replace("/", "~1") for key in keys)
        return Place("/".join((self.path, *steps)), self.depth + 1, self._changes)

    def note(self, kind: str, keyword: str, message: str) -> None:
        path = f"{self.path}/{keyword}" if keyword else self.path
        self._changes.append(SchemaChange(kind, path, message))


class SchemaSubset(msgspec.Struct, frozen=True, kw_only=True):
    """The part of JSON Schema 2020-12 that a provider takes; root: object."""

    provider: str
    """Its name for people."""
    keywords: frozenset[str] | None = None
    """The keywords that it takes; None: all."""
    not_at_root: frozenset[str] = frozenset()
    """The keywords that it refuses in the schema of all arguments."""
    formats: frozenset[str] | None = None
    """The values of `format` that it takes; None: all."""
    keeps_references: bool = True
    """True if it takes `$ref` into `$defs`; if not, the definition is inserted."""
    has_lone_references: bool = False
    """True if nothing may stand beside a `$ref`."""
    enum_types: tuple[type, ...] | None = None
    """The types of the values that an `enum` may list; None: all."""
    needs_items: bool = False
    """True if an array has to declare its items."""
    property_name: re.Pattern[str] | None = None
    """The names of parameters that it takes; None: all."""
    max_depth: int = 60
    """The levels of schemas inside schemas that are sent."""
    finish: Callable[[dict[str, Any], Place], dict[str, Any]] | None = None
    """The last step for each schema, after its inner ones: returns the one to send."""

    def takes(self, keyword: str, *, is_root: bool = False) -> bool:
        """Return True if the provider takes the keyword in this place."""
        if is_root and keyword in self.not_at_root:
            return False
        return self.keywords is None or keyword in self.keywords

    def takes_enum(self, values: Any) -> bool:
        """Return True if the provider takes an `enum` of these values."""
        kinds = self.enum_types
        return kinds is None or not isinstance(values, list) or {*map(type, values)} <= {*kinds}


def fit_schema(schema: Mapping[str, Any] | bool, subset: SchemaSubset) -> FittedSchema:
    """Convert a tool's schema to the one that a provider is sent.

    Args:
        schema: The schema of all arguments; it is not changed.
        subset: What the provider takes.
    """
    changes: list[SchemaChange] = []
    walk = _Walk(schema, subset)
    return FittedSchema(walk.fit(schema, Place("", 0, changes)), changes)


_OR_BOOL: Final = frozenset(
    {"additionalProperties", "unevaluatedItems", "unevaluatedProperties", "items"}
)
_MAX_SCHEMAS: Final = 20_000
"""A bound for definitions that contain each other twice, and so on."""


class _Walk:
    def __init__(self, root: Any, subset: SchemaSubset) -> None:
        self._root = root
        self._subset = subset
        self._provider = subset.provider
        self._open: list[str] = []
        """The references inside which the walk is: a repeated one would never end."""
        self._count = 0

    def fit(self, schema: Any, place: Place) -> Node:
        self._count += 1
        if place.depth > self._subset.max_depth or self._count > _MAX_SCHEMAS:
            place.note(
                "dropped", "", f"{self._provider} is told of no schema that deep or that large"
            )
            return {}
        if isinstance(schema, bool):
            return self._fit_bool(allows=schema, place=place)
        if not isinstance(schema, Mapping):
            place.note("dropped", "", f"{safe_repr(schema):.60} is no schema")
            return {}
        if "$ref" in schema:
            return self._fit_reference(schema, place)
        return self._fit_node(dict(schema), place)

    def _fit_bool(self, *, allows: bool, place: Place) -> Node:
        if allows or place.depth == 0:
            return self._fit_node({}, place)
        if self._subset.takes("not"):
            return {"not": {}}
        place.note("rewritten", "", f"{self._provider} takes no `false`: the description says it")
        return {"description": "must be left out"}

    def _fit_node(self, node: Node, place: Place) -> Node:
        is_root = place.depth == 0
        words: list[str] = []
        if is_root:
            self._open_root(node, place)
        for rewrite in REWRITES:
            rewrite(node, self._subset, place)
        made: Node = {}
        for keyword, value in node.items():
            if not isinstance(keyword, str):
                place.note("dropped", "", f"{safe_repr(keyword):.60} is no keyword")
            elif self._is_taken(keyword, value, is_root=is_root):
                made[keyword] = self._fit_child(keyword, node, place, words)
            else:
                self._say_in_words(keyword, value, place, words)
        self._drop_unnamed(made, node)
        if words:
            made["description"] = append_words(node.get("description"), words)
        if self._subset.needs_items and _is_array(made) and "items" not in made:
            made["items"] = {}
            place.note(
                "rewritten", "items", f"{self._provider} wants items of an array: any are allowed"
            )
        finish = self._subset.finish
        return made if finish is None else finish(made, place)

    @staticmethod
    def _drop_unnamed(made: Node, node: Node) -> None:
        declared, sent = node.get("properties"), made.get("properties")
        names = made.get("required")
        if not (isinstance(declared, Mapping) and isinstance(sent, dict)) or declared == sent:
            return
        if isinstance(names, list):
            lost = [name for name in declared if name not in sent]
            made["required"] = [name for name in names if name not in lost]

    def _open_root(self, node: Node, place: Place) -> None:
        kind = node.get("type", "object")
        if kind != "object":
            place.note("rewritten", "type", f"arguments are an object, not {safe_repr(kind):.60}")
        node.pop("type", None)
        unite_properties(node, self._subset)
        rest = dict(node)
        node.clear()
        node["type"] = "object"
        node.update(rest)
        if not isinstance(node.get("properties"), Mapping):
            node["properties"] = {}

    def _is_taken(self, keyword: str, value: Any, *, is_root: bool) -> bool:
        subset = self._subset
        if not subset.takes(keyword, is_root=is_root):
            return False
        if keyword == "format":
            return subset.formats is None or (isinstance(value, str) and value in subset.formats)
        if keyword == "enum" and not subset.takes_enum(value):
            return False
        return _holds_schemas(keyword, value) or not is_deeper(value, subset.max_depth)

    def _say_in_words(self, keyword: str, value: Any, place: Place, words: list[str]) -> None:
        if keyword in DEFINITIONS:
            # What refers to one is sent with what it means.
            return
        rule = say_rule(keyword, value)
        if rule is None:
            place.note("dropped", keyword, f"{self._provider} takes no {keyword!r} here")
            return
        words.append(rule)
        message = f"{self._provider} takes no {keyword!r} here: the description says it"
        if keyword == "format":
            message = (
                f"{self._provider} takes no format {safe_repr(value):.60}: the description says it"
            )
        place.note("rewritten", keyword, message)

    def _fit_child(self, keyword: str, node: Node, place: Place, words: list[str]) -> Any:
        value = node[keyword]
        if keyword == "properties" and isinstance(value, Mapping):
            value = self._keep_nameable(value, node, place, words)
        if not _holds_schemas(keyword, value):
            return copy_plain(value)
        if keyword in HOLD_MANY:
            return {
                str(name): self.fit(part, place.inside(keyword, name))
                for name, part in value.items()
            }
        if keyword in HOLD_LIST:
            return [
                self.fit(part, place.inside(keyword, index)) for index, part in enumerate(value)
            ]
        return self.fit(value, place.inside(keyword))

    def _keep_nameable(
        self, properties: Mapping[str, Any], node: Node, place: Place, words: list[str]
    ) -> Mapping[str, Any]:
        pattern = self._subset.property_name
        if pattern is None:
            return properties
        required = node.get("required")
        required = required if isinstance(required, list) else []
        kept = {}
        for name, part in properties.items():
            if pattern.fullmatch(str(name)):
                kept[name] = part
                continue
            inner = place.inside("properties", name)
            needed = ", which is required" if name in required else ""
            rule = say_rule(f"it also takes {name!r}{needed}", part)
            kind = "dropped" if rule is None else "rewritten"
            how = "the model is not told of it" if rule is None else "the description tells of it"
            inner.note(kind, "", f"{self._provider} takes no parameter named {name!r:.80}: {how}")
            if rule is not None:
                words.append(rule)
        return kept

    def _fit_reference(self, schema: Mapping[str, Any], place: Place) -> Node:
        pointer = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = resolve_pointer(self._root, pointer)
        if target is None:
            place.note("dropped", "$ref", f"there is no schema {safe_repr(pointer):.80} in it")
            return self._fit_node(beside, place)
        if self._subset.keeps_references and re.fullmatch(r"#/\$defs/[^/]+", pointer):
            return self._keep_reference(pointer, beside, place)
        if pointer in self._open:
            place.note("dropped", "$ref", f"{safe_repr(pointer):.80} holds itself: it is told once")
            return self._fit_node(beside, place)
        self._open.append(pointer)
        try:
            if not isinstance(target, Mapping):
                return self.fit(target, place)
            return self.fit({**target, **beside}, place)
        finally:
            self._open.pop()

    def _keep_reference(self, pointer: str, beside: Node, place: Place) -> Node:
        if place.depth == 0:
            target = resolve_pointer(self._root, pointer)
            return self._fit_node(
                {**(target if isinstance(target, Mapping) else {}), **beside}, place
            )
        if not beside or not self._subset.has_lone_references:
            return (
                {"$ref": pointer, **self._fit_node(beside, place)} if beside else {"$ref": pointer}
            )
        made = self._fit_node(beside, place)
        if "anyOf" in made:
            place.note("dropped", "", f"{self._provider} takes nothing beside a '$ref'")
            return {"$ref": pointer}
        place.note(
            "rewritten", "$ref", f"{self._provider} takes nothing beside a '$ref': it is an anyOf"
        )
        return {**made, "anyOf": [{"$ref": pointer}]}


def _holds_schemas(keyword: str, value: Any) -> bool:
    if keyword in HOLD_MANY:
        return isinstance(value, Mapping)
    if keyword in HOLD_LIST:
        return isinstance(value, list | tuple)
    return keyword in HOLD_ONE and not (keyword in _OR_BOOL and isinstance(value, bool))


def _is_array(node: Node) -> bool:
    kind = node.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        # Most of a value is plain, and the check for a Mapping is slow.
        level = [each for each in level if type(each) not in PLAIN or type(each) is list]
        held = [each for each in level if isinstance(each, Mapping | list | tuple)]
        if not held:
            return False
        level = [
            inner
            for each in held
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
    return True


def copy_plain(value: Any) -> Any:
    """Copy the mappings and lists of a value."""
    if isinstance(value, Mapping):
        return {key: copy_plain(item) for key, item in value.items()}
    return [copy_plain(item) for item in value] if isinstance(value, list | tuple) else value
