"""How do JSON arguments become the Python values of a function's hints?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect as types

from tool_engine.catalog.code.annotation import read_hint
from tool_engine.catalog.code.made_defaults import (
    Check,
    check_of,
    convert_json,
    runs_code,
    split_error,
)
from tool_engine.catalog.code.metadata import readable_hint
from tool_engine.errors import InvalidArgumentsError
from tool_engine.model.call import ValidationError
from tool_engine.redaction import redact, redact_text

_LONGEST: Final = 200
_NO_DECIMAL: Final = "Invalid decimal string"
_MEANT: Final = {
    "Invalid RFC3339 encoded datetime": "a date and time, such as 2026-01-31T09:30:00Z",
    "Invalid RFC3339 encoded date": "a date, such as 2026-01-31",
    "Invalid RFC3339 encoded time": "a time, such as 09:30:00",
    "Invalid ISO8601 duration": "a duration, such as PT1H30M",
    _NO_DECIMAL: "a number written as text, such as 12.50",
    "Invalid base64 encoded string": "text in base64",
    "Invalid UUID": "a UUID, such as 123e4567-e89b-12d3-a456-426614174000",
}
"""A reason of the converter -> what it asks for, in words that a model understands."""
Judge = Callable[[Any], tuple[str, str] | None]
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MOST_DIGITS: Final = 10_000
"""The most digits before the point, and the most zeros behind it."""


class Supplier(NamedTuple):
    name: str
    supply: Callable[[], Any]
    judge: Judge | None
    """Returns where and why a default misfits; None: it was checked at registration."""


class Conversion:
    """Converts arguments to the hints of a function.

    `wanted` are the hints that ask for more than JSON gives; `suppliers` make the defaults that
    only a `Field` describes.
    """

    def __init__(self, wanted: Mapping[str, Any], suppliers: Iterable[Supplier]) -> None:
        typed = {name: read_hint(hint).typed for name, hint in wanted.items()}
        self._typed = [
            (name, each.validate, each) for name, each in typed.items() if each is not None
        ]
        """What pydantic makes values of."""
        self._wanted = {
            name: (hint, check_of(readable_hint(hint)))
            for name, hint in wanted.items()
            if typed[name] is None
        }
        self._at_once = {
            name: hint for name, (hint, _) in self._wanted.items() if not runs_code(hint)
        }
        self._decimal = {
            name for name, (hint, _) in self._wanted.items() if holds_decimals(readable_hint(hint))
        }
        self._suppliers = list(suppliers)
        self.converts_at_once = bool(self._at_once)
        """Whether `misfits` can find anything."""
        self.runs_code = len(self._at_once) < len(self._wanted) or any(
            each.runs_code for _, _, each in self._typed
        )
        """Whether it runs functions of the hints' classes, which may take long."""

    def only_validator(self) -> tuple[str, Callable[[Any], Any]] | None:
        """Return the parameter that pydantic makes and its validator, if that is all to do."""
        if self.runs_code or self._wanted or self._suppliers or len(self._typed) != 1:
            return None
        ((name, validate, _),) = self._typed
        return name, validate

    def misfits(self, arguments: Mapping[str, Any]) -> list[ValidationError]:
        """Return the conversion errors that show without running user code."""
        found: list[ValidationError] = []
        for name, hint in self._at_once.items():
            if name in arguments:
                self._convert_value(name, arguments[name], hint, None, found)
        return found

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the converted arguments, with new defaults; InvalidArgumentsError: misfits."""
        converted = dict(arguments)
        found: list[ValidationError] = []
        for name, validate, typed in self._typed:
            if name in converted:
                try:
                    converted[name] = validate(converted[name])
                except Exception as error:  # noqa: BLE001 - validators may raise anything
                    value = converted[name]
                    faults = typed.split_misfits(error, value)
                    found += [_make_finding(name, at, why, value) for at, why in faults]
        for name, (hint, check) in self._wanted.items():
            if name in converted:
                converted[name] = self._convert_value(name, converted[name], hint, check, found)
        for name, supply, judge in self._suppliers:
            if name not in converted:
                value = converted[name] = supply()
                if judge is not None and (fault := judge(value)) is not None:
                    found.append(_make_finding(name, *fault, value, is_default=True))
        if found:
            raise InvalidArgumentsError(
                "; ".join(each.message for each in found), [each.to_dict() for each in found]
            )
        return converted

    def _convert_value(
        self, name: str, value: Any, hint: Any, check: Check | None, found: list[ValidationError]
    ) -> Any:
        try:
            made = convert_json(value, hint)
            place = find_unusable(made) if name in self._decimal else None
        except Exception as error:  # noqa: BLE001 - classes of a user may raise anything
            found.append(_make_finding(name, *split_error(error), value))
            return None
        if place is not None:
            found.append(_make_finding(name, place, _NO_DECIMAL, value))
        if check is not None:
            faults = check(value, made, "")
            found += [_make_finding(name, *fault, None, is_default=True) for fault in faults]
        return made


def _make_finding(
    name: str, place: str, reason: str, value: Any, *, is_default: bool = False
) -> ValidationError:
    path = name + place
    expected = _MEANT.get(reason) or redact_text(reason)[:_LONGEST]
    meant = f"; it must be {expected}" if reason in _MEANT else ""
    whose = f"the default that is made for '{path}'" if is_default else f"'{path}'"
    message = f"{whose} does not fit: {redact_text(reason)[:_LONGEST]}{meant}"
    actual = None if is_default else _value_at(name, place, value)
    return ValidationError(path, "constraint_violation", message, expected, actual)


def _value_at(name: str, place: str, value: Any) -> Any:
    for key, index in _STEP.findall(place):
        try:
            value, name = value[key or int(index)], key or name
        except (LookupError, TypeError):
            break
    if isinstance(value, list | dict):
        return f"{'an array' if isinstance(value, list) else 'an object'} of {len(value)}"
    shown = redact({name: value})[name]
    return shown[:_LONGEST] if isinstance(shown, str) else shown


def holds_decimals(hint: Any) -> bool:
    """Return True if values of a hint that msgspec reads may hold decimals."""
    return "DecimalType" in repr(types.type_info(hint))


def find_unusable(made: Any) -> str | None:
    """Return the place of a decimal that is not finite, or far too long; None: there is none.

    msgspec reads 'NaN' and 'Infinity' as decimals, and '1e999999999', which fills the memory once
    it is written out or made an integer.
    """
    plain = msgspec.to_builtins(
        made, builtin_types=(Decimal,), str_keys=True, enc_hook=lambda _value: None
    )
    return next(_walk_value(plain, ""), None)


def _walk_value(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
            yield place
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _walk_value(each, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _walk_value(each, f"{place}[{number}]")
