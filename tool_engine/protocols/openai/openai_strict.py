"""Which schema makes OpenAI's models follow a tool's parameters, and how is the reply read?

With `strict` a model cannot write anything that the schema excludes. Such a schema is closed and
has no optional properties: an optional argument is `null` when it is left out, and has to be
removed again. https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tool_engine.protocols.schemas.fitting import (
    FittedSchema,
    Place,
    SchemaChange,
    SchemaSubset,
    fit_schema,
)
from tool_engine.protocols.schemas.schema_words import move_to_words
from tool_engine.protocols.strict_protocol import UnstrictError

Node = dict[str, Any]

_MAX_DEPTH: Final = 10
_MAX_PROPERTIES: Final = 5_000
_MAX_ENUM_VALUES: Final = 1_000
# A grammar cannot look around or back.
_LOOKS_AROUND: Final = re.compile(r"\(\?(?!:)|\\[1-9kbB]")
_NULL: Final = {"type": "null"}


def _drop_odd_pattern(node: Node, place: Place) -> Node:
    pattern = node.get("pattern")
    if isinstance(pattern, str) and _LOOKS_AROUND.search(pattern):
        move_to_words(node, "pattern")
        place.note(
            "rewritten", "pattern", "OpenAI's strict mode takes no pattern that looks around"
        )
    return node


_SUBSET: Final = SchemaSubset(
    provider="OpenAI's strict mode",
    keywords=frozenset(
        {
            *("type", "description", "enum", "const", "anyOf", "properties", "required", "items"),
            *("additionalProperties", "pattern", "format", "multipleOf", "minimum", "maximum"),
            *("exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
        }
    ),
    not_at_root=frozenset({"anyOf", "enum", "const"}),
    formats=frozenset(
        {
            *("date-time", "time", "date", "duration", "email", "hostname"),
            *("ipv4", "ipv6", "uuid"),
        }
    ),
    keeps_references=False,
    finish=_drop_odd_pattern,
)


def make_strict(schema: Mapping[str, Any]) -> FittedSchema:
    """Convert a tool's schema for `strict`, and list the changes.

    Raises:
        UnstrictError: Strict mode cannot express it, as with objects of any keys.
    """
    fitted = fit_schema(schema, _SUBSET)
    changes = list(fitted.changes)
    strict = _Strictly(changes).close_node(fitted.schema, "", 1)
    return FittedSchema(strict, changes)


class _Strictly:
    def __init__(self, changes: list[SchemaChange]) -> None:
        self._changes = changes
        self._properties = 0
        self._enum_values = 0

    def close_node(self, node: Node, path: str, depth: int) -> Node:
        """Return the schema, closed and without optional properties, or raise `UnstrictError`."""
        if not node.keys() & {"type", "enum", "const", "anyOf"}:
            raise UnstrictError(f"parameters{path}: any value is allowed there")
        kinds = node.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        self._count_node(node, path, depth)
        made = dict(node)
        if "object" in kinds:
            made.update(self._close_object(node, path, depth))
        if "items" in node:
            made["items"] = self.close_node(node["items"], f"{path}/items", depth)
        elif "array" in kinds:
            raise UnstrictError(f"parameters{path}: items of any kind are allowed there")
        if "anyOf" in node:
            made["anyOf"] = self._close_alternatives(node["anyOf"], path, depth)
        return made

    def _count_node(self, node: Node, path: str, depth: int) -> None:
        self._properties += len(node.get("properties", ()))
        self._enum_values += len(node.get("enum", ()))
        if depth > _MAX_DEPTH:
            raise UnstrictError(
                f"parameters{path}: objects nest more than {_MAX_DEPTH} levels deep"
            )
        if self._properties > _MAX_PROPERTIES or self._enum_values > _MAX_ENUM_VALUES:
            raise UnstrictError(
                f"parameters: more than {_MAX_PROPERTIES} properties or {_MAX_ENUM_VALUES} values"
            )

    def _close_object(self, node: Node, path: str, depth: int) -> Node:
        properties = node.get("properties", {})
        others = node.get("additionalProperties")
        if others not in (None, False) or (path and not properties):
            raise UnstrictError(f"parameters{path}: any keys are allowed there")
        if others is None and path:
            self._note_change(path, "additionalProperties", "no keys but these are allowed")
        needed = node.get("required", [])
        made = {}
        for name, part in properties.items():
            place = f"{path}/properties/{name}"
            made[name] = self.close_node(part, place, depth + 1)
            if name not in needed and not _takes_null(part):
                made[name] = _allow_null(made[name])
                self._note_change(place, "", "it has to be there: null stands for left out")
        if any(name not in properties for name in needed):
            raise UnstrictError(f"parameters{path}: a key is required and not declared")
        return {"properties": made, "required": [*made], "additionalProperties": False}

    def _close_alternatives(self, branches: list[Node], path: str, depth: int) -> list[Node]:
        made = [
            self.close_node(each, f"{path}/anyOf/{n}", depth) for n, each in enumerate(branches)
        ]
        if len(_drop_null_branches(branches)) > 1 and any(map(_has_optional, branches)):
            # Such a null could not be removed again: which meaning it has would be uncertain.
            raise UnstrictError(f"parameters{path}: alternatives have optional properties")
        return made

    def _note_change(self, path: str, keyword: str, message: str) -> None:
        where = f"{path}/{keyword}" if keyword else path
        self._changes.append(SchemaChange("rewritten", where, f"strict: {message}"))


def drop_nulls(value: dict[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Remove the nulls that stand for left out, and return their number."""
    taken: list[str] = []
    made: dict[str, Any] = _clear_nulls(value, fit_schema(schema, _SUBSET).schema, taken)
    return made, len(taken)


def _clear_nulls(value: Any, node: Any, taken: list[str]) -> Any:
    if not isinstance(node, Mapping):
        return value
    branches = _drop_null_branches(node.get("anyOf", ()))
    if len(branches) == 1:
        value = _clear_nulls(value, branches[0], taken)
    if isinstance(value, list):
        return [_clear_nulls(each, node.get("items"), taken) for each in value]
    properties = node.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    needed = node.get("required", ())
    made = {}
    for name, item in value.items():
        part = properties.get(name)
        if item is None and part is not None and name not in needed and not _takes_null(part):
            taken.append(name)
        else:
            made[name] = _clear_nulls(item, part, taken)
    return made


def _drop_null_branches(branches: Iterable[Node]) -> list[Node]:
    return [each for each in branches if each.get("type") != "null"]


def _takes_null(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    if "enum" in node:
        return None in node["enum"]
    if "const" in node:
        return node["const"] is None
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return kind is None and any(_takes_null(each) for each in node.get("anyOf", ()))


def _allow_null(node: Node) -> Node:
    kind = node.get("type")
    if isinstance(kind, str) and kind != "object" and "const" not in node and "anyOf" not in node:
        made = {**node, "type": [kind, "null"]}
        if "enum" in node:
            made["enum"] = [*node["enum"], None]
        return made
    inner = {key: value for key, value in node.items() if key != "description"}
    kept = {"description": node["description"]} if "description" in node else {}
    if inner.keys() == {"anyOf"}:
        return {**kept, "anyOf": [*inner["anyOf"], dict(_NULL)]}
    return {**kept, "anyOf": [inner, dict(_NULL)]}


def _has_optional(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return False
    properties = node.get("properties", {})
    inner = (*properties.values(), node.get("items"), *node.get("anyOf", ()))
    return any(name not in node.get("required", ()) for name in properties) or any(
        map(_has_optional, inner)
    )
