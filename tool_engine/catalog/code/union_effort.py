"""How often does pydantic read a value whose type has several forms at each of its levels?

Of a union it reads the value by each of its types, and what is inside of each once more: a value
of thirty levels is read a thousand million times. A discriminator says which type is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_KINDS: Final = dict.fromkeys(
    ("model", "model-fields", "dataclass", "dataclass-args", "typed-dict", "dict"), "object"
) | dict.fromkeys(("list", "tuple", "set", "frozenset"), "array")
MOST_READINGS: Final = 20_000
_EACH: Final = 16
"""Readings that each object or list may take besides."""


class TooManyReadingsError(ValueError):
    """A value would be read too often."""


def bound_effort(validate: Callable[[Any], Any], core: Any) -> Callable[[Any], Any]:
    """Return `validate`, such that it raises TooManyReadingsError for what takes too long."""
    forms = count_forms(core)
    if not forms:
        return validate

    def validate_bounded(value: Any) -> Any:
        if not _is_quick(value, forms):
            raise TooManyReadingsError(
                "it has too many levels for a type with several forms at each of them: send "
                "fewer levels, or give the union a discriminator in the tool's code"
            )
        return validate(value)

    return validate_bounded


def count_forms(core: Any) -> dict[str, int]:
    """Return how many times an object or list is read inside each reading of what holds it."""
    named = {part["ref"]: part for part in _walk_parts(core, {}) if "ref" in part}
    found: dict[str, int] = {}
    for union in _walk_parts(core, named):
        if union.get("type") == "union":
            choices = [each[0] if isinstance(each, tuple) else each for each in union["choices"]]
            inside = [each for each in choices if any(p is union for p in _walk_parts(each, named))]
            for kind, count in Counter(_kind_of(each, named) for each in inside).items():
                if kind is not None and count > 1:
                    found[kind] = max(count, found.get(kind, 1))
    return found


def _is_quick(value: Any, forms: Mapping[str, int]) -> bool:
    waiting, readings, parts = [(value, 1)], 0, 0
    while waiting:
        part, times = waiting.pop()
        if isinstance(part, Mapping):
            kind, inner = "object", list(part.values())
        elif isinstance(part, list | tuple):
            kind, inner = "array", list(part)
        else:
            continue
        if kind in forms:
            times *= forms[kind]
            readings, parts = readings + times, parts + 1
        waiting += ((each, times) for each in inner)
    return readings <= MOST_READINGS + _EACH * parts


def _walk_parts(core: Any, named: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that a schema is made of, also those that it refers to, once each."""
    pending, seen = [core], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        if isinstance(part, list | tuple):
            pending += part
        elif isinstance(part, dict):
            seen.add(id(part))
            yield part
            pending += [value for key, value in part.items() if key != "metadata"]
            pending.append(named.get(str(part.get("schema_ref"))))


def _kind_of(core: Any, named: Mapping[str, Any]) -> str | None:
    """Return whether a type is made of an object or of a list; None: of neither, or of several."""
    while isinstance(core, Mapping) and core.get("type") not in _KINDS:
        core = named.get(str(core.get("schema_ref")), core.get("schema"))
    return _KINDS[core["type"]] if isinstance(core, Mapping) else None
