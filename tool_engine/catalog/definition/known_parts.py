"""Is a schema made of nothing but parameters that were found right before?

The schemas of a long list resemble one another: their parameters are the same few, under other
names and with other descriptions. Where a schema says nothing beside them that could contradict
them, it is as right as they are, and each kind of parameter is judged once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.foreign_words import as_output_spec
from tool_engine.catalog.definition.keywords import is_known_draft
from tool_engine.catalog.definition.rules import check_value
from tool_engine.catalog.definition.structure import structure_faults
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.limits import LONGEST_NAME, MAX_SCHEMAS
from tool_engine.model.json.references import HOLD_LIST, HOLD_MANY, HOLD_ONE, HOLD_SCHEMAS
from tool_engine.model.schema import output_schema

_OF_OBJECTS: Final = frozenset(
    {"$schema", "type", "properties", "required", "additionalProperties", "description", "title"}
)
"""What a schema may say beside its parameters without contradicting them."""
_TEXTS: Final = frozenset({"description", "title", "$comment"})
"""Keywords that no rule depends on, where they are texts."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_NAMING: Final = frozenset({"aliases", "examples", "tests"})
"""Keys of a definition that are held against its name or its texts."""
_LONGEST_ALIKE: Final = 2000
"""Bytes of a definition without its texts; longer ones are seldom alike."""
_MOST_ALIKE: Final = 1000
_right: Final[set[bytes]] = set()
"""Definitions without fault and warning, as `write_alike` writes them."""

_OF_LISTED: Final = frozenset({"name", "description"})
_LONGEST_KEPT: Final = 1000
"""Bytes of a parameter's schema; longer ones are seldom alike."""
_OF_SCHEMAS: Final = re.compile(rb'"(?:patternProperties|schema|\$ref|\$defs|definitions)":')
"""What only raw schemas say."""
_OF_THE_WHOLE: Final = re.compile(rb'"pattern":|' + _OF_SCHEMAS.pattern)
"""What is counted for a whole definition, or leads through it."""


def write_alike(definition: Any) -> bytes | None:
    """Return what definitions have in common that differ in nothing but names and texts.

    Where one of them has neither fault nor warning, none has: what is left out is right, and no
    rule holds it against anything else. None: that cannot be said of this one.

    Args:
        definition: As plain data.
    """
    if definition.__class__ is not dict or not _NAMING.isdisjoint(definition):
        return None
    name, listed = definition.get("name"), definition.get("parameters", [])
    if name.__class__ is not str or not _NAME.fullmatch(name) or listed.__class__ is not list:
        return None
    alike = definition | {"name": ""}
    described = alike["parameters"] = [*listed]
    for number, part in enumerate((definition, *listed), -1):
        text = part.get("description") if part.__class__ is dict else None
        # Its first character shows that it says something.
        if text.__class__ is not str or not text[:1].isalnum():
            return None
        if number >= 0:
            described[number] = part | {"description": ""}
    alike["description"] = ""
    entry = definition.get("entry")
    if entry.__class__ is dict and entry.get("handler").__class__ is str and entry["handler"]:
        alike["entry"] = entry | {"handler": ""}
    written = msgspec.json.encode(alike)
    return written if len(written) <= _LONGEST_ALIKE else None


def is_alike_right(alike: bytes | None) -> bool:
    """Return True if neither faults nor warnings are to be found; False says nothing."""
    return alike in _right


def note_right(alike: bytes | None) -> None:
    """Note that a definition has neither fault nor warning."""
    if alike is not None and alike not in _right:
        if len(_right) >= _MOST_ALIKE:
            _right.clear()
        _right.add(alike)


def is_known_right(schema: Any) -> bool:
    """Return True if neither faults nor warnings are to be found; False says nothing.

    Args:
        schema: What stands under `parameters`, as plain data.
    """
    if schema.__class__ is not dict or not schema.keys() <= _OF_OBJECTS:
        return False
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not (
        properties.__class__ is dict
        and required.__class__ is list
        and ("$schema" not in schema or is_known_draft(schema["$schema"]))
        and schema.get("additionalProperties", False).__class__ is bool
        and schema.get("description", "").__class__ is str
        and schema.get("title", "").__class__ is str
        and all(name.__class__ is str for name in required)
        and len(required) == len(properties.keys() & required)
    ):
        return False
    schemas = 1
    for name, part in properties.items():
        text = msgspec.json.encode(_strip_texts(part))
        count = _count_right(text) if len(text) <= _LONGEST_KEPT else 0
        schemas += count
        if not count or not 0 < len(name) <= LONGEST_NAME:
            return False
    return schemas <= MAX_SCHEMAS


def is_known_parameter(spec: Any, workload: Workload) -> bool:
    """Return True if a listed parameter's rules have no fault; False says nothing.

    Args:
        spec: A parameter, as far as the structure is right.
        workload: Counts the patterns of those without a fault.
    """
    if spec.__class__ is not dict:
        return False
    rules = {key: value for key, value in spec.items() if key not in _OF_LISTED}
    text = msgspec.json.encode(rules)
    # What is counted while it is looked at stops at the first pattern too many.
    if len(text) > _LONGEST_KEPT or (workload.is_full and b'"pattern"' in text):
        return False
    found = _find_no_fault(text)
    return found is not None and workload.take(found)


def is_known_output(spec: Any) -> bool:
    """Return True if `known_output_schema` returns a schema; the cheaper question."""
    return _find_output_schema(spec) is not None


def known_output_schema(spec: Any) -> dict[str, Any] | None:
    """Return the schema of an output in short keys without a fault; None says nothing.

    Args:
        spec: What stands under `output` or `returns`.
    """
    found = _find_output_schema(spec)
    return None if found is None else msgspec.json.decode(found, type=dict[str, Any])


def _find_output_schema(spec: Any) -> bytes | None:
    if spec.__class__ is not dict or not spec:
        return None
    text = msgspec.json.encode(spec)
    return _write_output_schema(text) if len(text) <= _LONGEST_KEPT else None


def _strip_texts(schema: Any) -> Any:
    """Return a schema without what only people read."""
    if schema.__class__ is not dict:
        return schema
    if HOLD_SCHEMAS.isdisjoint(schema):
        return {
            key: each
            for key, each in schema.items()
            if key not in _TEXTS or each.__class__ is not str
        }
    rules: dict[str, Any] = {}
    for keyword, value in schema.items():
        kind = value.__class__
        if keyword in HOLD_ONE:
            rules[keyword] = _strip_texts(value)
        elif kind is dict and keyword in HOLD_MANY:
            rules[keyword] = {name: _strip_texts(each) for name, each in value.items()}
        elif kind is list and keyword in HOLD_LIST:
            rules[keyword] = [_strip_texts(each) for each in value]
        elif kind is not str or keyword not in _TEXTS:
            rules[keyword] = value
    return rules


@lru_cache(maxsize=2048)
def _count_right(text: bytes) -> int:
    """Return how many schemas a parameter's is made of; 0 if it is not known to be right."""
    if _OF_THE_WHOLE.search(text):
        return 0
    # By name: what explains a definition takes long to import.
    checker = import_module("tool_engine.catalog.definition.raw_schema")
    workload = Workload()
    part = msgspec.json.decode(text)
    alone = {"type": "object", "properties": {"value": part}}
    if checker.root_schema_faults(alone, workload) or checker.root_schema_warnings(alone):
        return 0
    return 0 if checker.is_impossible(part) else workload.schemas


@lru_cache(maxsize=2048)
def _find_no_fault(text: bytes) -> Workload | None:
    """Return the work of rules without a fault; None: they have one, or hold schemas."""
    if _OF_SCHEMAS.search(text):
        return None
    faults: list[Fault] = []
    workload = Workload()
    check_value(msgspec.json.decode(text), (), faults, is_sound=True, workload=workload)
    return None if faults else workload


@lru_cache(maxsize=2048)
def _write_output_schema(text: bytes) -> bytes | None:
    spec = msgspec.json.decode(text)
    faults = structure_faults({"name": "any", "description": "Any.", "output": spec})
    if faults or as_output_spec(spec) is not spec:
        return None
    if _OF_THE_WHOLE.search(text) or _find_no_fault(text) is None:
        return None
    schema = output_schema(spec)
    return msgspec.json.encode(schema) if schema else None
