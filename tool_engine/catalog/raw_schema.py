"""May this raw JSON Schema stand in a definition?

Every keyword that the engine enforces may; one that it would not enforce is refused, because a
rule that is written and ignored is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import jsonschema_rs
from jsonschema import Draft202012Validator

from tool_engine.catalog.document import Path
from tool_engine.catalog.fault import Fault, describe, nearest
from tool_engine.catalog.keywords import FORMATS, KEYWORDS
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.rules import compile_check
from tool_engine.catalog.workload import Workload

__all__ = ["raw_schema_faults"]

_HOLD_MANY: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_HOLD_ONE: Final = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"),
        *("unevaluatedProperties", "not", "if", "then", "else"),
    }
)
_HOLD_LIST: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})


def raw_schema_faults(schema: dict[str, Any], path: Path, workload: Workload) -> list[Fault]:
    """Everything that is wrong with `schema`, which stands at `path`."""
    faults: list[Fault] = []
    _check_keywords(schema, path, faults, workload)
    if len(faults) >= MAX_PROBLEMS or not workload.is_bearable:
        return faults
    if "$schema" in schema or not jsonschema_rs.meta.is_valid(schema):
        errors = Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)
        faults.extend(_not_a_schema(error, path) for error in islice(errors, MAX_PROBLEMS))
    if not faults:
        try:
            compile_check(schema)
        except jsonschema_rs.ValidationError as error:  # pragma: no cover - the two agree so far
            faults.append(Fault(path, f"not a usable JSON Schema: {error.message[:300]}"))
    return faults


def _not_a_schema(error: Any, path: Path) -> Fault:
    return Fault(
        (*path, *error.absolute_path),
        f"not JSON Schema 2020-12: {error.message[:300]}",
        got=describe(error.instance),
        cure="mend it",
    )


def _check_keywords(schema: Any, path: Path, faults: list[Fault], workload: Workload) -> None:
    if not isinstance(schema, dict) or len(faults) >= MAX_PROBLEMS:
        return
    if fault := workload.schema_fault(path):
        faults.append(fault)
    if not workload.is_bearable:
        return
    for keyword, value in schema.items():
        place = (*path, keyword)
        if keyword not in KEYWORDS:
            faults.append(_unsupported(keyword, place))
        _check_texts(keyword, value, place, faults, workload)
        for part, child in _children(keyword, value):
            _check_keywords(child, (*place, *part), faults, workload)


def _children(keyword: str, value: Any) -> Iterator[tuple[Path, Any]]:
    """The schemas that a keyword's value holds, each with its place in the value."""
    if keyword in _HOLD_ONE:
        yield (), value
    elif keyword in _HOLD_LIST and isinstance(value, list):
        for number, item in enumerate(value):
            yield (number,), item
    elif keyword in _HOLD_MANY and isinstance(value, dict):
        for name, item in value.items():
            yield (name,), item


def _check_texts(
    keyword: str, value: Any, place: Path, faults: list[Fault], workload: Workload
) -> None:
    if (
        keyword == "pattern"
        and isinstance(value, str)
        and (fault := workload.pattern_fault(value, place))
    ):
        faults.append(fault)
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        message = f"the format {value[:80]!r} is not checked"
        faults.append(Fault(place, message, cure="use a pattern or remove it"))
    if keyword == "patternProperties" and isinstance(value, dict):
        wrong = (
            workload.pattern_fault(pattern, (*place, pattern), at_key=True) for pattern in value
        )
        faults.extend(fault for fault in wrong if fault)


def _unsupported(keyword: str, place: Path) -> Fault:
    near, cure = nearest(keyword, KEYWORDS), ""
    if keyword in ("$ref", "$defs", "definitions"):
        near, cure = "", "write the schema out where it is used"
    elif not near:
        cure = "remove it"
    message = f"the keyword {keyword[:80]!r} is not supported in a schema"
    return Fault(place, message, at_key=True, nearest=near, cure=cure)
