"""Which value does a text stand for, by the tool's schema? A51.

A text becomes a number, a boolean, null, a list or an object only where the schema does not take
the text itself, and where the text is the JSON of exactly one value that it takes. What may be
meant in two ways stays as it is, for the validation to refuse.

| text | type | becomes |
|---|---|---|
| `5`, ` 5 `, `-0` | integer, number | `5`, `5`, `0` |
| `5.0`, `1e3` | integer | `5`, `1000`: JSON Schema calls them integers |
| `1e3`, `0.10` | number | `1000.0`, `0.1` |
| `1.00000000000000000001`, `1e999`, `012`, `+5`, `0x10`, `1_000`, `٣` | any | stays: not the same |
| `true`, `FALSE` | boolean | `True`, `False` |
| `yes`, `1`, `on` | boolean | stays |
| `null` | null | `None` |
| `[1, 2]`, `{"a": 1}` | array, object | the list, the object |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from tool_engine.model.json.references import resolve_pointer
from tool_engine.model.tool import Tool
from tool_engine.protocols.arguments.json_tokens import nests_too_deep
from tool_engine.protocols.arguments.strict_json import read_json

_ALL: Final = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_MAX_DIGITS: Final = 1000
_MAX_STEPS: Final = 16
_NO_VALUE: Final = object()
_KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
    str: "string",
}


_READ: Final = frozenset((str, dict, list))
"""The classes of what is a text or may hold one, as protocols give them."""


def coerce(
    tool: Tool, arguments: Mapping[str, Any], *, only: Collection[str] | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments with texts converted where the schema leaves no doubt.

    Args:
        tool: The tool whose parameters they are for.
        arguments: They are not changed.
        only: The paths of the texts to convert, such as `filter.sizes[2]`; None: all.

    Returns:
        New arguments, and one sentence for each text that was converted.
    """
    reader = _Reader(tool.parameters_schema, only)
    value = reader.read_object(arguments, tool.parameters_schema, "")
    return value, tuple(reader.repairs)


def match_keys(tool: Tool, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments under the tool's names, ignoring case, `_`, `-`.

    `IMAGE-SIZE` becomes `image_size`. A key stays as it is where two parameters, or two keys, would
    be the same. U27.

    Returns:
        New arguments, and one sentence for each key that was renamed.
    """
    declared = [parameter.name for parameter in tool.parameters]
    meant = _index_folded(declared)
    given = _index_folded(arguments)
    matched: dict[str, Any] = {}
    repairs = []
    for key, value in arguments.items():
        plain = fold_key(key)
        name = meant.get(plain) or key
        if key in declared or given[plain] is None or name in arguments:
            name = key
        if name != key:
            repairs.append(f"the key {key[:64]!r} was read as the parameter {name!r}")
        matched[name] = value
    return matched, tuple(repairs)


def _index_folded(names: Iterable[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in names:
        plain = fold_key(name)
        found[plain] = None if plain in found else name
    return found


def fold_key(name: str) -> str:
    """Return a key as it compares without case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").casefold()


class _Reader:
    def __init__(self, root: Mapping[str, Any], only: Collection[str] | None) -> None:
        self._root = root
        self._only = only
        self.repairs: list[str] = []

    def read_object(self, value: Mapping[str, Any], schema: Any, path: str) -> dict[str, Any]:
        schema = self._resolve_schema(schema)
        copy = dict(value)
        for key, item in value.items():
            below = self._find_property(schema, key)
            if isinstance(below, Mapping):
                copy[key] = self.read_value(item, below, f"{path}.{key}" if path else key)
        return copy

    def read_value(self, value: Any, schema: Any, path: str) -> Any:
        if not isinstance(schema, Mapping):
            return value
        if isinstance(value, str):
            is_left = self._only is not None and path not in self._only
            read = _NO_VALUE if is_left else self._read_text(value, schema)
            if read is _NO_VALUE:
                return value
            kind = _KINDS[type(read)]
            self.repairs.append(f"the text of {path[:80]!r} was read as its JSON value ({kind})")
            value = read
        if isinstance(value, dict):
            return self.read_object(value, self._choose_branch(schema, "object"), path)
        if isinstance(value, list):
            items = self._resolve_schema(self._choose_branch(schema, "array")).get("items")
            # A million numbers are copied at once.
            if not isinstance(items, Mapping) or _READ.isdisjoint(map(type, value)):
                return list(value)
            return [self.read_value(item, items, f"{path}[{n}]") for n, item in enumerate(value)]
        return value

    def _read_text(self, text: str, schema: Mapping[str, Any]) -> Any:
        """Return the one value that text and schema allow, else `_NO_VALUE`."""
        listed = self._list_values(schema)
        if listed is not None:
            return _choose_listed(text, listed)
        types = self._find_types(schema, _MAX_STEPS)
        if "string" in types:
            return _NO_VALUE
        value = _read_json_text(text)
        if type(value) is float and value.is_integer() and "number" not in types:
            value = int(value)
        kind = _KINDS.get(type(value))
        is_taken = kind in types or (kind == "integer" and "number" in types)
        return value if is_taken else _NO_VALUE

    def _list_values(self, schema: Mapping[str, Any]) -> list[Any] | None:
        schema = self._resolve_schema(schema)
        if "const" in schema:
            return [schema["const"]]
        listed = schema.get("enum")
        return listed if isinstance(listed, list) else None

    def _find_types(self, schema: Any, steps: int) -> frozenset[str]:
        schema = self._resolve_schema(schema)
        if not steps:
            return _ALL
        listed = self._list_values(schema)
        types = _ALL if listed is None else frozenset(_KINDS.get(type(v), "") for v in listed)
        declared = schema.get("type")
        if declared is not None:
            names = [declared] if isinstance(declared, str) else declared
            types &= frozenset(names) | ({"integer"} if "number" in names else frozenset())
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            if isinstance(branches, list):
                types &= frozenset().union(
                    *(self._find_types(each, steps - 1) for each in branches)
                )
        for each in schema.get("allOf") or ():
            types &= self._find_types(each, steps - 1)
        return types

    def _choose_branch(self, schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
        for _ in range(_MAX_STEPS):
            schema = self._resolve_schema(schema)
            branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if not isinstance(branches, list) or "properties" in schema or "items" in schema:
                return schema
            fitting = [each for each in branches if kind in self._find_types(each, _MAX_STEPS)]
            if len(fitting) != 1:
                return {}
            schema = fitting[0]
        return {}

    def _find_property(self, schema: Mapping[str, Any], key: str) -> Any:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
        patterns = schema.get("patternProperties")
        # The validation decides which pattern a key matches.
        return None if patterns else schema.get("additionalProperties")

    def _resolve_schema(self, schema: Any) -> Mapping[str, Any]:
        for _ in range(_MAX_STEPS):
            if not isinstance(schema, Mapping):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = resolve_pointer(self._root, reference)
        return {}


def _read_json_text(text: str) -> Any:
    """Return the value of a lossless JSON text, else `_NO_VALUE`."""
    bare = text.strip()
    if bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    if bare == "null":
        return None
    if _NUMBER.fullmatch(bare):
        return _read_number(bare)
    if bare[:1] not in ("[", "{") or nests_too_deep(bare):
        return _NO_VALUE
    try:
        return read_json(bare)
    except (ValueError, RecursionError):
        return _NO_VALUE


def _read_number(digits: str) -> Any:
    if len(digits) > _MAX_DIGITS:
        return _NO_VALUE
    try:
        value = read_json(digits)
    except ValueError:
        return _NO_VALUE
    # `repr` is the shortest text of a float: the text must write exactly that value.
    return value if Decimal(repr(value)) == Decimal(digits) else _NO_VALUE


def _choose_listed(text: str, listed: list[Any]) -> Any:
    if any(isinstance(each, str) and each == text for each in listed):
        return _NO_VALUE
    value = _read_json_text(text)
    if value is _NO_VALUE:
        return _NO_VALUE
    fitting = [each for each in listed if each == value and _is_bool(each) == _is_bool(value)]
    return fitting[0] if len(fitting) == 1 else _NO_VALUE


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)
