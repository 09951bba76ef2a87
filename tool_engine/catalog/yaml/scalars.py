"""Which value does an unquoted YAML scalar stand for?

The core schema of YAML 1.2, minus what surprises people: `012` and `1_000` stay text, as do `no`,
`on`, `1:30` and dates. A number that would change on the way in is refused, never rounded.
"""

from __future__ import annotations

import math
import re
from typing import Final

_CONSTANTS: Final = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
MAY_BE_MORE: Final = frozenset("~nNtTfF-+.0123456789")
"""First characters of scalars that may be more than text."""
_MAY_BE_NUMBER: Final = frozenset("-+.0123456789")
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER_LIMIT: Final = 2**63
INTEGER_CURE: Final = (
    f"write one from {-_INTEGER_LIMIT} to {_INTEGER_LIMIT - 1}, or leave the key out"
)


class UnreadableScalarError(ValueError):
    """A number that JSON cannot carry, with a cure for numbers."""

    def __init__(self, message: str, number_cure: str) -> None:
        self.message = message
        self.number_cure = number_cure
        self.cure = f"{number_cure}; where a text belongs, quote it"
        super().__init__(f"{message}; {self.cure}")


def resolve_plain(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar; refuse unsafe numbers."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _MAY_BE_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return _read_integer(text, 10)
    if _BASED.fullmatch(text):
        return _read_integer(text, 0)
    if _FLOAT.fullmatch(text):
        return _read_float(text)
    if _NOT_FINITE.fullmatch(text):
        raise UnreadableScalarError(
            f"{text} is not a number that JSON can carry",
            "write a plain number, or leave the key out for its default",
        )
    return text


def _read_integer(text: str, base: int) -> int:
    # Twenty digits are out of range already, and int() refuses thousands with its own error.
    value = int(text, base) if len(text) < 80 else _INTEGER_LIMIT
    if not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        raise UnreadableScalarError(
            f"the integer {text[:40]} does not fit into 64 bits", INTEGER_CURE
        )
    return value


def _read_float(text: str) -> float:
    value = float(text)
    mantissa = text.lower().partition("e")[0]
    vanished = value == 0.0 and any(digit in "123456789" for digit in mantissa)
    if math.isinf(value) or vanished:
        # The key is unknown here, and may take neither 0 nor a negative number.
        cure = "write 1e-307 or a larger one" if vanished else "write one between -1e308 and 1e308"
        raise UnreadableScalarError(
            f"the number {text[:40]} is outside the range of numbers",
            f"{cure}, or leave the key out",
        )
    return value
