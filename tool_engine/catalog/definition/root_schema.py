"""May this JSON Schema say what all arguments of a tool are?

A definition's `parameters` is a list, or a schema as other tools and protocols have it. Such a
schema is kept as it is written, so that the same one comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tool_engine.catalog.definition.fault import Fault, describe
from tool_engine.catalog.definition.habits import (
    MISPLACED_SCHEMA,
    SCHEMA_KEYS,
    is_root_schema,
    schema_cure,
)
from tool_engine.catalog.definition.raw_schema import (
    idle_defaults,
    is_impossible,
    misfit_faults,
    raw_schema_faults,
)
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.yaml.document import Path

_PLACE: Final[Path] = ("parameters",)
_DRAFTS: Final = tuple(
    f"json-schema.org/{draft}/schema"
    for draft in ("draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)
_LONGEST_NAME: Final = 128


def root_schema_faults(schema: dict[str, Any], workload: Workload) -> list[Fault]:
    """Return why a schema cannot stand as `parameters`."""
    if (misplaced := SCHEMA_KEYS & schema.keys()) and not schema.keys() & {"type", "properties"}:
        key = min(misplaced)
        return [Fault((*_PLACE, key), f"unknown key {key!r}", at_key=True, cure=MISPLACED_SCHEMA)]
    if not is_root_schema(schema):
        expected = "a list, or the JSON Schema of an object"
        cure = schema_cure(schema)
        return [Fault(_PLACE, expected=expected, got=describe(schema), cure=cure)]
    faults = list(_find_misplaced(schema))
    rules = {key: value for key, value in schema.items() if key != "$schema"}
    faults += raw_schema_faults(rules, _PLACE, workload)
    return faults or misfit_faults(rules, rules, _PLACE)


def root_schema_warnings(schema: dict[str, Any]) -> list[Fault]:
    """Return what of a schema can hardly be meant."""
    found = list(idle_defaults(schema, _PLACE))
    if is_impossible(schema):
        message = "no arguments would pass: the rules contradict one another"
        found.append(Fault(_PLACE, message, at_key=True, cure="correct them"))
    return found


def _find_misplaced(schema: dict[str, Any]) -> Iterator[Fault]:
    kind, draft = schema.get("type", "object"), schema.get("$schema", _DRAFTS[-1])
    if kind != "object":
        cure = "write type: object, and what this is under properties"
        yield Fault((*_PLACE, "type"), expected="object", got=describe(kind), cure=cure)
    if not isinstance(draft, str) or not draft.rstrip("#").endswith(_DRAFTS):
        cure = "remove the key; it is read as 2020-12"
        yield Fault((*_PLACE, "$schema"), f"{draft!r:.100} is no known draft", cure=cure)
    for name, each in schema.get("properties", {}).items():
        place = (*_PLACE, "properties", name)
        if not name or len(name) > _LONGEST_NAME:
            message = f"a parameter's name has 1 to {_LONGEST_NAME} characters"
            yield Fault(place, message, at_key=True, cure="change it")
        if isinstance(each, dict) and each.get("writeOnly") is True and "default" in each:
            message = "a model would be shown the default of this secret"
            cure = "write the parameters as a list, this one with secret: true, or remove it"
            yield Fault((*place, "default"), message, at_key=True, cure=cure)
