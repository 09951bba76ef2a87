"""Which raw JSON Schema may stand in a definition?

A keyword that the engine would not enforce is refused: a rule that is written and ignored is worse
than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import jsonschema_rs.canonical
import msgspec
from jsonschema import Draft202012Validator

from tool_engine.catalog.definition.fault import Fault, describe
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
from tool_engine.catalog.definition.rules import compile_check, default_faults
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.tool import write_only_names

_LONGEST_JUDGED: Final = 10_000
"""Bytes of a schema; to find out what a longer one allows could take long."""
_INSTEAD_OF_KEYS: Final = (
    "remove it, and take what is secret as a value: under additionalProperties with writeOnly, or "
    "as a list of objects with a property that is writeOnly"
)
_HOLD_MANY: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_HOLD_ONE: Final = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"),
        *("unevaluatedProperties", "not", "if", "then", "else"),
    }
)
_HOLD_LIST: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
_CERTAIN: Final = frozenset({"properties", "items", "additionalProperties"})
"""Keywords through which a rule still holds for every value."""


def raw_schema_faults(schema: dict[str, Any], path: Path, workload: Workload) -> list[Fault]:
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
    if not faults:
        _check_defaults(schema, path, faults)
    return faults


def misfit_faults(raw: dict[str, Any], schema: dict[str, Any], path: Path) -> list[Fault]:
    """The defaults in `raw`, which stands at `path`, that break a rule in a branch of it.

    Args:
        raw: The raw schema.
        schema: The schema of the whole value, in which it stands.
        path: Its place.
    """
    # By name: what fills a call in is the validator's, and it alone knows what a call gets.
    filling = import_module("tool_engine.validation.filling")
    filled = filling.Filling.of(schema, lambda place: place.default)
    if filled is None:
        return []
    return [
        Fault(
            _place_in(raw, error.instance_path, path),
            f"the default breaks another rule of the schema: {error.message[:300]}",
            got=describe(error.instance),
            cure="change the default or the rule",
        )
        for error in islice(filling.misfits(filled, compile_check(schema)), MAX_PROBLEMS)
    ]


def _place_in(raw: Any, steps: Iterable[Any], path: Path) -> Path:
    """Where the schema of a place in a value stands, as far as `properties` and `items` lead."""
    for step in steps:
        inner = ("items",) if isinstance(step, int) else ("properties", step)
        for key in inner:
            if not isinstance(raw, dict) or key not in raw:
                return path
            raw, path = raw[key], (*path, key)
    return (*path, "default") if isinstance(raw, dict) and "default" in raw else path


def is_impossible(schema: dict[str, Any]) -> bool:
    """Return True if certainly no value fits `schema`."""
    if len(msgspec.json.encode(schema)) > _LONGEST_JUDGED:
        return False
    try:
        empty = jsonschema_rs.canonical.find_unsatisfiable(
            schema,
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=True,
            offline=True,
        )
    except (ValueError, TypeError):  # pragma: no cover - other code reports what is no schema
        return False
    return "" in empty


def idle_defaults(schema: Any, path: Path, *, is_certain: bool = True) -> Iterator[Fault]:
    """Yield the defaults in `schema` that no call ever gets."""
    if not isinstance(schema, dict):
        return
    if not is_certain and "default" in schema:
        message = "a default in a branch is never filled in, as the branch need not apply"
        cure = "move it to the parameter's own properties or items, or remove it"
        yield Fault((*path, "default"), message, at_key=True, cure=cure)
    for keyword, value in schema.items():
        is_sure = is_certain and keyword in _CERTAIN
        is_sure &= not (keyword == "items" and "prefixItems" in schema)
        is_sure &= not (keyword == "additionalProperties" and "patternProperties" in schema)
        for part, child in _inner_schemas(keyword, value):
            yield from idle_defaults(child, (*path, keyword, *part), is_certain=is_sure)


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
            faults.append(_unsupported_fault(keyword, place))
        _check_texts(keyword, value, place, faults, workload)
        if keyword == "propertyNames" and any(write_only_names({"properties": {keyword: value}})):
            message = "writeOnly hides values, and these are keys"
            faults.append(Fault(place, message, cure=_INSTEAD_OF_KEYS))
        for part, child in _inner_schemas(keyword, value):
            _check_keywords(child, (*place, *part), faults, workload)


def _check_defaults(schema: Any, path: Path, faults: list[Fault]) -> None:
    for keyword, value in schema.items():
        for part, child in _inner_schemas(keyword, value):
            if isinstance(child, dict) and len(faults) < MAX_PROBLEMS:
                place = (*path, keyword, *part)
                faults += default_faults(child, child, (*place, "default"))
                _check_defaults(child, place, faults)


def _inner_schemas(keyword: str, value: Any) -> Iterator[tuple[Path, Any]]:
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


def _unsupported_fault(keyword: str, place: Path) -> Fault:
    near, cure = find_nearest(keyword, KEYWORDS), ""
    if keyword in ("$ref", "$defs", "definitions"):
        near, cure = "", "write the schema out where it is used"
    elif not near:
        cure = "remove it"
    message = f"the keyword {keyword[:80]!r} is not supported in a schema"
    return Fault(place, message, at_key=True, nearest=near, cure=cure)
