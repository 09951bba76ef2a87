"""May this raw JSON Schema stand in a definition?

Every keyword that the engine enforces may; one that it would not enforce is refused, because a
rule that is written and ignored is worse than none.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import jsonschema_rs
from jsonschema import Draft202012Validator

from tool_engine.catalog.document import Path
from tool_engine.catalog.keywords import FORMATS, KEYWORDS
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.rules import compile_check, pattern_error
from tool_engine.catalog.structure import Fault

__all__ = ["raw_schema_faults"]

_HOLD_MANY: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_HOLD_ONE: Final = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"),
        *("unevaluatedProperties", "not", "if", "then", "else"),
    }
)
_HOLD_LIST: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})


def raw_schema_faults(schema: dict[str, Any], path: Path) -> list[Fault]:
    """Everything that is wrong with `schema`, which stands at `path`."""
    faults: list[Fault] = []
    _check_keywords(schema, path, faults)
    errors = Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)
    faults.extend(
        Fault((*path, *error.absolute_path), f"not JSON Schema 2020-12: {error.message[:300]}")
        for error in islice(errors, MAX_PROBLEMS)
    )
    if not faults:
        try:
            compile_check(schema)
        except jsonschema_rs.ValidationError as error:  # pragma: no cover - the two agree so far
            faults.append(Fault(path, f"not a usable JSON Schema: {error.message[:300]}"))
    return faults


def _check_keywords(schema: Any, path: Path, faults: list[Fault]) -> None:
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        place = (*path, keyword)
        if keyword not in KEYWORDS:
            faults.append(Fault(place, _unsupported(keyword), at_key=True))
        _check_texts(keyword, value, place, faults)
        for part, child in _children(keyword, value):
            _check_keywords(child, (*place, *part), faults)


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


def _check_texts(keyword: str, value: Any, place: Path, faults: list[Fault]) -> None:
    if keyword == "pattern" and isinstance(value, str) and (message := pattern_error(value)):
        faults.append(Fault(place, message))
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        faults.append(
            Fault(place, f"the format {value!r} is not checked; use a pattern or remove it")
        )
    if keyword == "patternProperties" and isinstance(value, dict):
        wrong = [(pattern, pattern_error(pattern)) for pattern in value]
        faults.extend(
            Fault((*place, pattern), message, at_key=True) for pattern, message in wrong if message
        )


def _unsupported(keyword: str) -> str:
    if keyword in ("$ref", "$defs", "definitions"):
        return f"{keyword} is not supported in a parameter; write the schema out where it is used"
    near = difflib.get_close_matches(keyword[:80], KEYWORDS, n=1)
    cure = f"did you mean {near[0]!r}?" if near else "remove it"
    return f"the keyword {keyword[:80]!r} is not supported; {cure}"
