"""Which arguments break one rule of a schema, and which finding must result?

Each rule is broken on its own, in arguments that fit otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.catalog.yaml.document import Path
from tool_engine.testing.arguments import ANNOTATIONS, ArgumentMaker, types_of
from tool_engine.testing.patterns import MAX_TEXT, NoValueError, TextMaker

UNKNOWN_KEY: Final = "not_a_declared_key"
_MISSING: Final = object()
_MAX_ITEMS: Final = 1_000
_MORE_TEXT: Final = 50
_MAX_EXACT: Final = 2**53
_OTHER_KINDS: Final[tuple[tuple[frozenset[str], Any], ...]] = (
    (frozenset({"string"}), "not of the declared type"),
    (frozenset({"number", "integer"}), 7),
    (frozenset({"number"}), 0.5),
    (frozenset({"boolean"}), True),
    (frozenset({"array"}), [None]),
    (frozenset({"object"}), {UNKNOWN_KEY: None}),
)
_BOUNDS: Final = (
    ("minimum", -1, False),
    ("maximum", 1, False),
    ("exclusiveMinimum", -1, True),
    ("exclusiveMaximum", 1, True),
)


class Violation(NamedTuple):
    """Arguments that break one rule."""

    path: Path
    """Where the finding must be."""
    rule: str
    """The keyword that is broken."""
    error_type: str
    """The expected error type of the finding."""
    arguments: dict[str, Any]


class _Breach(NamedTuple):
    path: Path
    rule: str
    error_type: str
    value: Any
    """The value that replaces the one at the path; `_MISSING` removes it."""


def violations(schema: Mapping[str, Any], maker: ArgumentMaker) -> Iterator[Violation]:
    """Break each rule of `schema` in turn, at every place.

    What lies below `anyOf` and other branches is left alone: a value that breaks one branch may
    fit another. A parameter of which no value can be made is left out.
    """
    whole = maker.arguments(whole=True, may_lack=True)
    for path, rule, error_type, value in _find_breaches(schema, whole, (), maker):
        yield Violation(path, rule, error_type, _change_at(whole, path, value))


def _find_breaches(schema: Any, value: Any, path: Path, maker: ArgumentMaker) -> Iterator[_Breach]:
    if not isinstance(schema, dict | Mapping):
        return
    if path:
        yield from _of_type(schema, path)
        yield from _of_options(schema, path)
    if isinstance(value, str):
        yield from _of_text(schema, path, maker)
    elif isinstance(value, dict):
        yield from _of_object(schema, value, path, maker)
    elif isinstance(value, list):
        yield from _of_list(schema, value, path, maker)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(schema, path)


def _of_type(schema: Mapping[str, Any], path: Path) -> Iterator[_Breach]:
    declared = set(types_of(schema))
    for kinds, other in _OTHER_KINDS:
        if declared and not kinds & declared:
            yield _Breach(path, "type", "type_mismatch", other)


def _of_options(schema: Mapping[str, Any], path: Path) -> Iterator[_Breach]:
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if options is None:
        return
    kinds = types_of(schema)
    for candidate in (UNKNOWN_KEY, _exceed_options(options)):
        kind = "string" if isinstance(candidate, str) else "integer"
        fits = not kinds or kind in kinds or (kind == "integer" and "number" in kinds)
        if fits and candidate not in options:
            yield _Breach(path, "enum", "invalid_enum", candidate)


def _exceed_options(options: list[Any]) -> int:
    numbers = [each for each in options if isinstance(each, int | float)]
    return int(max(numbers, default=0)) + 1


def _of_text(schema: Mapping[str, Any], path: Path, maker: ArgumentMaker) -> Iterator[_Breach]:
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", MAX_TEXT))
    texts = _texts_for(schema, maker)
    if 0 < least <= MAX_TEXT:
        text = _make_text(texts, 0, least - 1) or "x" * (least - 1)
        yield _Breach(path, "minLength", "constraint_violation", text)
    if most < MAX_TEXT:
        # Characters of four bytes: a length counts characters, not bytes or UTF-16 units.
        text = _make_text(texts, most + 1, most + _MORE_TEXT) or "🙂" * (most + 1)
        yield _Breach(path, "maxLength", "constraint_violation", text)
    broken = None if texts is None else texts.break_it(least, most)
    if broken is not None:
        yield _Breach(path, "pattern", "constraint_violation", broken)


def _texts_for(schema: Mapping[str, Any], maker: ArgumentMaker) -> TextMaker | None:
    try:
        return maker.text_maker(schema["pattern"]) if "pattern" in schema else None
    except NoValueError:
        return None


def _make_text(texts: TextMaker | None, least: int, most: int) -> str | None:
    """Return a text that fits the pattern; only its length is wrong."""
    try:
        return None if texts is None else texts.make(least, most)
    except NoValueError:
        return None


def _of_number(schema: Mapping[str, Any], path: Path) -> Iterator[_Breach]:
    is_whole = types_of(schema) == ("integer",)
    for keyword, direction, is_exclusive in _BOUNDS:
        if keyword not in schema:
            continue
        bound = schema[keyword]
        if is_exclusive and float(bound).is_integer():
            yield _Breach(path, keyword, "constraint_violation", bound)
        outside = _step_outside(bound, direction, is_whole=is_whole)
        if math.isfinite(outside):
            yield _Breach(path, keyword, "constraint_violation", outside)


def _step_outside(bound: Any, direction: int, *, is_whole: bool) -> Any:
    edge = bound if not is_whole else (math.floor(bound) if direction < 0 else math.ceil(bound))
    # Past 2**53 a float has no neighbour at a distance of one.
    return edge + direction * (1 if abs(edge) < _MAX_EXACT else abs(edge))


def _of_list(
    schema: Mapping[str, Any], value: list[Any], path: Path, maker: ArgumentMaker
) -> Iterator[_Breach]:
    least, most = int(schema.get("minItems", 0)), int(schema.get("maxItems", _MAX_ITEMS))
    if 0 < least <= len(value):
        yield _Breach(path, "minItems", "constraint_violation", value[: least - 1])
    if value and most < _MAX_ITEMS:
        longer = [value[number % len(value)] for number in range(most + 1)]
        yield _Breach(path, "maxItems", "constraint_violation", longer)
    if value:
        yield from _find_breaches(schema.get("items"), value[0], (*path, 0), maker)


def _of_object(
    schema: Mapping[str, Any], value: dict[str, Any], path: Path, maker: ArgumentMaker
) -> Iterator[_Breach]:
    for name in schema.get("required", ()):
        yield _Breach((*path, name), "required", "missing_required", _MISSING)
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is False and UNKNOWN_KEY not in properties:
        place = (*path, UNKNOWN_KEY)
        yield _Breach(place, "additionalProperties", "extra_parameter", 1)
    for name, child in properties.items():
        if name in value and not _has_branches(child):
            yield from _find_breaches(child, value[name], (*path, name), maker)


def _has_branches(schema: Any) -> bool:
    known = {*ANNOTATIONS, *("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "format")}
    return isinstance(schema, dict) and bool(known & schema.keys() - ANNOTATIONS)


def _change_at(value: Any, path: Path, other: Any) -> Any:
    """Return a copy of `value` with `other` at `path`; the rest is shared."""
    if not path:
        return other
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        index = int(first)
        return [*value[:index], _change_at(value[index], rest, other), *value[index + 1 :]]
    copy = dict(value)
    if rest:
        copy[str(first)] = _change_at(copy[str(first)], rest, other)
    elif other is _MISSING:
        copy.pop(str(first), None)
    else:
        copy[str(first)] = other
    return copy
