"""Which rules does a value break, and where?

The compiled validator would list everything at once, each time with a copy of the value, so that a
few kilobytes of wrong keys could hold up the event loop for a minute. So it is only asked whether a
rule holds, keyword by keyword, and the places are found here: the work grows with the value and
with the schema, and never with the square of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from tool_engine.validation.position import Check, Position
from tool_engine.validation.rules import (
    COUNTED_KEYWORDS,
    Reading,
    broken_rule,
    first_of_forms,
    phrase_of,
    read_counted,
    read_options,
    read_rule,
    read_type,
)
from tool_engine.validation.shape import Path
from tool_engine.validation.wording import cut_text, path_text

_CHUNK: Final = 256
"""Items of a list that are judged at once before each is judged alone."""
_SMALL: Final = 100
"""Values, and thousands of characters, of which copies may be made."""
_NAMED: Final = 5


class Missing(NamedTuple):
    """A required key that is missing."""

    path: Path
    """The object that lacks it."""
    name: str


class Undeclared(NamedTuple):
    """A key that no rule allows."""

    path: Path
    """The object that has it."""
    key: str
    known: Any
    """The keys that are declared."""


class Broken(NamedTuple):
    """A value that breaks a rule."""

    path: Path
    value: Any
    read: Callable[[], Reading]
    """Puts the rule into words."""


Breach = Missing | Undeclared | Broken


def find_breaches(value: Any, position: Position, path: Path = ()) -> Iterator[Breach]:
    """Yield everything that is wrong with `value`, at `path`, and inside it."""
    if position.is_never:
        yield Broken(path, value, partial(phrase_of, "false"))
        return
    if type(value) is not dict and type(value) is not list:
        yield from _of_scalar(value, position, path)
        return
    checks = position.own_checks
    # With one rule alone, to ask for all of them would be to ask twice.
    if checks and (len(checks) == 1 or not position.own_rules_hold(value)):
        for check in checks:
            if not check.rules.is_valid(value):
                yield from _of_keyword(value, check, position, path)
    if type(value) is dict:
        yield from _of_object(value, position, path)
    elif type(value) is list and position.item.certain:
        yield from _of_items(value, position, path)


def _of_scalar(value: Any, position: Position, path: Path) -> Iterator[Breach]:
    if not position.own_rules_hold(value) and position.own_rules is not None:
        declared = position.certain.get("type")
        for error in position.own_rules.iter_errors(value):
            yield Broken(path, value, partial(read_rule, error, value, declared))


def _of_object(value: dict[str, Any], position: Position, path: Path) -> Iterator[Breach]:
    for name in position.required:
        if name not in value:
            yield Missing(path, name)
    if position.is_open:
        return
    for key, item in value.items():
        if position.is_closed and key not in position.properties:
            yield Undeclared(path, key, position.properties)
            continue
        below = position.child(key)
        if below.certain:
            yield from find_breaches(item, below, (*path, key))


def _of_items(value: list[Any], position: Position, path: Path) -> Iterator[Breach]:
    are_right, below = position.item_rules.is_valid, position.item
    for start in range(0, len(value), _CHUNK):
        chunk = value[start : start + _CHUNK]
        if not are_right(chunk):
            for index, item in enumerate(chunk, start):
                yield from find_breaches(item, below, (*path, index))


def _of_keyword(value: Any, check: Check, position: Position, path: Path) -> Iterator[Breach]:
    explain = _EXPLAINED.get(check.keyword)
    if explain is not None:
        yield from explain(value, check, path)
    elif check.keyword in COUNTED_KEYWORDS:
        yield Broken(path, value, partial(read_counted, check.keyword, check.value, value))
    elif check.keyword == "type":
        types = [check.value] if isinstance(check.value, str) else list(check.value)
        yield Broken(path, value, partial(read_type, types, value))
    elif check.keyword in ("enum", "const"):
        options = check.value if check.keyword == "enum" else [check.value]
        yield Broken(path, value, partial(read_options, options, value))
    else:
        yield Broken(path, value, partial(phrase_of, check.keyword))


def _of_branches(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    for branch in check.positions:
        yield from find_breaches(value, branch, path)


def _of_forms(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    is_several = check.keyword == "oneOf" and any(
        form.whole_rules.is_valid(value) for form in check.positions
    )
    if is_several:
        yield Broken(path, value, partial(phrase_of, "oneOf"))
    else:
        yield Broken(path, value, partial(_read_forms, value, check))


def _read_forms(value: Any, check: Check) -> Reading:
    first = [next(find_breaches(value, form), None) for form in check.positions]
    declared = [form.certain.get("type") for form in check.positions]
    firsts = [None if found is None else _as_form(found) for found in first]
    return first_of_forms(value, declared, firsts)


def _as_form(breach: Breach) -> tuple[Path, Reading]:
    if isinstance(breach, Broken):
        return breach.path, breach.read()
    if isinstance(breach, Missing):
        rule = f"have the key '{path_text((breach.name,))}'"
        return breach.path, broken_rule(rule, breach.name)
    rule = f"not have the key '{path_text((breach.key,))}'"
    return breach.path, broken_rule(rule, list(breach.known))


def _of_condition(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    condition, then, otherwise = check.positions
    branch = then if condition.whole_rules.is_valid(value) else otherwise
    yield from find_breaches(value, branch, path)


def _of_names(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    (names,) = check.positions
    wrong = [key for key in value if not names.whole_rules.is_valid(key)]
    yield Broken(path, value, partial(_read_names, wrong, names))


def _read_names(wrong: list[str], names: Position) -> Reading:
    found = next(find_breaches(wrong[0], names), None)
    inner = found.read() if isinstance(found, Broken) else phrase_of("not")
    named = ", ".join(f"'{path_text((key,))}'" for key in wrong[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    return broken_rule(f"have keys that each {inner.rule}", inner.expected, cut_text(named) + more)


def _of_needs(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    for key, needed in check.value.items():
        if key in value:
            for name in needed:
                if name not in value:
                    yield Missing(path, name)


def _of_key_branches(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    for key, branch in zip(check.value, check.positions, strict=True):
        if key in value:
            yield from find_breaches(value, branch, path)


def _of_patterns(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    *patterns, rest = check.positions
    for key, item in value.items():
        fitting = [
            below
            for pattern, below in zip(check.matchers, patterns, strict=True)
            if pattern.is_valid(key)
        ]
        for below in fitting:
            yield from find_breaches(item, below, (*path, key))
        if not fitting and key not in check.declared:
            if rest.is_never:
                yield Undeclared(path, key, check.declared)
            else:
                yield from find_breaches(item, rest, (*path, key))


def _of_first_items(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    *first, rest = check.positions
    for index, item in enumerate(value):
        below = first[index] if index < len(first) else rest
        yield from find_breaches(item, below, (*path, index))


def _of_parts(value: Any, check: Check, path: Path) -> Iterator[Breach]:
    for key, branch in zip(check.value, check.positions, strict=True):
        if key in value:
            yield from find_breaches(value[key], branch, (*path, key))


_EXPLAINED: Final[dict[str, Callable[[Any, Check, Path], Iterator[Breach]]]] = {
    "allOf": _of_branches,
    "anyOf": _of_forms,
    "oneOf": _of_forms,
    "if": _of_condition,
    "propertyNames": _of_names,
    "dependentRequired": _of_needs,
    "dependentSchemas": _of_key_branches,
    "patternProperties": _of_patterns,
    "prefixItems": _of_first_items,
    "items": _of_first_items,
    "properties": _of_parts,
}


def is_small(value: Any) -> bool:
    """True if `value` is so small that it may be copied for each rule that it breaks."""
    left, pending = _SMALL, [value]
    while pending and left > 0:
        value = pending.pop()
        left -= 1
        if isinstance(value, str):
            left -= len(value) // 1000
        elif isinstance(value, dict):
            left -= sum(map(len, value)) // 1000
            pending.extend(list(value.values())[:_SMALL])
        elif isinstance(value, list):
            pending.extend(value[:_SMALL])
    return left > 0
