"""What does a reference inside a JSON Schema mean, and how does a schema become a part of another?

References lead to places of their own document (`#/$defs/node`); nothing is ever fetched. Where a
schema is put into a larger one, its definitions move to the top of that one, and its references
with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final
from urllib.parse import quote, unquote

HOLD_MANY: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""Keywords whose value is a mapping of schemas."""
HOLD_LIST: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
"""Keywords whose value is a list of schemas."""
HOLD_ONE: Final = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"),
        *("unevaluatedProperties", "not", "if", "then", "else"),
    }
)
"""Keywords whose value is one schema."""
IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
)
"""Keywords whose schemas apply to the value itself."""
DEFINITIONS: Final = ("$defs", "definitions")
HOLD_SCHEMAS: Final = HOLD_MANY | HOLD_LIST | HOLD_ONE
"""Keywords whose value holds schemas."""
_MOST_SCHEMAS: Final = 100_000
_SELF: Final = "schema"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")

Steps = tuple[str | int, ...]


def resolve_pointer(root: Any, pointer: Any) -> Any:
    """Return the schema that a `$ref` means inside of `root`, or None."""
    if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
        return None
    found = root
    for step in split_pointer(pointer):
        if isinstance(found, list) and step in map(str, range(len(found))):
            found = found[int(step)]
        elif isinstance(found, Mapping) and step in found:
            found = found[step]
        else:
            return None
    return found if isinstance(found, Mapping | bool) else None


def split_pointer(pointer: str) -> list[str]:
    """Return the steps of a local reference such as `#/$defs/node`; none for any other form."""
    steps = unquote(pointer[1:]).split("/")[1:]
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


def write_pointer(steps: Iterable[str | int]) -> str:
    """Return the local reference that `split_pointer` reads."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    # A lone surrogate has a place as well; it is refused elsewhere.
    return "/".join(("#", *(quote(step, safe="~$", errors="surrogatepass") for step in escaped)))


def resolve_schema(root: Any, schema: Any) -> Any:
    """Return what a schema that is only a reference leads to; else the schema."""
    known: set[str] = set()
    while isinstance(schema, Mapping) and isinstance(pointer := schema.get("$ref"), str):
        if pointer in known:
            return None
        known.add(pointer)
        schema = resolve_pointer(root, pointer)
    return schema


def inner_schemas(keyword: str, value: Any) -> Iterator[tuple[Steps, Any]]:
    """Yield the schemas that a keyword's value holds, each with the steps to it."""
    if keyword in HOLD_ONE:
        yield (), value
    elif keyword in HOLD_LIST and isinstance(value, list):
        for number, item in enumerate(value):
            yield (number,), item
    elif keyword in HOLD_MANY and isinstance(value, dict):
        for name, item in value.items():
            yield (name,), item


def copy_schemas(schema: dict[str, Any]) -> list[tuple[Steps, dict[str, Any]]]:
    """Copy a schema and all schemas inside it; what they hold besides is shared.

    Returns:
        Each copy with the steps to it, the whole first.

    Raises:
        ValueError: There are more than 100,000, or it holds itself.
    """
    found: list[tuple[Steps, dict[str, Any]]] = [((), dict(schema))]
    # The list grows while it is read.
    for steps, node in found:
        if len(found) > _MOST_SCHEMAS:
            raise ValueError(f"more than {_MOST_SCHEMAS:,} schemas inside of one")
        for keyword in HOLD_SCHEMAS & node.keys():
            value = node[keyword]
            if keyword in HOLD_LIST and isinstance(value, list):
                node[keyword] = value = list(value)
            elif keyword in HOLD_MANY and isinstance(value, dict):
                node[keyword] = value = dict(value)
            for inner, below in inner_schemas(keyword, value):
                if isinstance(below, dict):
                    copy = dict(below)
                    holder: Any = value if inner else node
                    holder[inner[0] if inner else keyword] = copy
                    found.append(((*steps, keyword, *inner), copy))
    return found


def embed_schema(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as a part of a larger one that has these definitions under `$defs`.

    Args:
        schema: It is not changed. What its references do not find in it is left to the larger one.
        definitions: Takes its definitions, under other names where a name is taken.
    """
    if not _has_references(schema):
        return schema
    for number in count(1):
        whole, own = _rename_references(schema, "" if number == 1 else f"_{number}")
        if all(definitions.get(name, each) == each for name, each in own.items()):
            definitions.update(own)
            return whole
    raise AssertionError  # pragma: no cover - some number is free


def _has_references(schema: dict[str, Any]) -> bool:
    if not schema.keys().isdisjoint(DEFINITIONS):
        return True
    return any(
        "$ref" in node and resolve_pointer(schema, node["$ref"]) is not None
        for _, node in copy_schemas(schema)
    )


def _rename_references(
    schema: dict[str, Any], ending: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a copy without definitions, and these, with references from `#/$defs` on."""
    names = _name_definitions(schema, ending)
    is_whole_meant = False
    copies = copy_schemas(schema)
    for _, node in copies:
        pointer = node.get("$ref")
        if resolve_pointer(schema, pointer) is None:
            continue
        steps = split_pointer(str(pointer))
        name = names.get((steps[0], steps[1])) if len(steps) > 1 else None
        if name is None:
            is_whole_meant, name, rest = True, f"{_SELF}{ending}", steps
        else:
            rest = steps[2:]
        node["$ref"] = write_pointer(("$defs", name, *rest))
    whole = copies[0][1]
    own = {
        names[section, name]: each
        for section in DEFINITIONS
        for name, each in _definitions_in(whole, section)
    }
    for section in DEFINITIONS:
        whole.pop(section, None)
    if is_whole_meant:
        own[f"{_SELF}{ending}"] = whole
    return whole, own


def _name_definitions(schema: dict[str, Any], ending: str) -> dict[tuple[str, str], str]:
    names: dict[tuple[str, str], str] = {}
    for section in DEFINITIONS:
        for name, _ in _definitions_in(schema, section):
            safe = f"{_UNSAFE.sub('_', name)}{ending}"
            while safe in names.values():
                safe += "_"
            names[section, name] = safe
    return names


def _definitions_in(schema: dict[str, Any], section: str) -> list[tuple[str, Any]]:
    found = schema.get(section)
    return list(found.items()) if isinstance(found, dict) else []
