"""Which kinds of number does the calculator compute with, and how exactly?

Whole numbers, quotients and decimals such as `0.1` are computed with exactly, as fractions; a float
comes in only where nothing else will do, as in `sqrt(2)`. So `0.1 + 0.2` is `0.3` and `1/3*3` is
`1`. A fraction that grows too large to be worth it becomes a float; a whole number never does.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, NamedTuple

MAX_BITS: Final = 4096
"""The largest whole number that is computed with, in bits: about 1,233 decimal digits."""
_MAX_EXPONENT: Final = 1_300
"""Decimal exponents beyond this are far outside of what a float can hold."""
_MAX_EXACT_TEXT: Final = 40

Number = int | Fraction | float


class CalculationError(ValueError):
    """An expression has no result; the message says why in plain words."""


class Value(NamedTuple):
    number: Number
    is_decimal: bool = False
    """True if a number with a point or an exponent took part: the result is then a float, even
    where it is whole, as in Python."""


def parse_number(text: str) -> Value:
    """Read `12`, `.5` or `1e-3`; raise `CalculationError` if out of range."""
    if text.isdigit():
        return Value(_read_whole(text))
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, places = mantissa.partition(".")
    digits = int((whole + places).lstrip("0") or "0")
    power = _read_exponent(exponent) - len(places)
    if digits == 0:
        return Value(0, is_decimal=True)
    if power + len(str(digits)) > _MAX_EXPONENT:
        raise CalculationError(f"the number {text[:40]} is too large")
    if power + len(str(digits)) < -_MAX_EXPONENT or len(mantissa) > _MAX_EXPONENT:
        raise CalculationError(f"the number {text[:40]} is too small")
    return Value(narrow_number(Fraction(digits) * Fraction(10) ** power), is_decimal=True)


def _read_whole(text: str) -> int:
    # Without its leading zeros: Python itself refuses to read more than 4,300 digits.
    digits = text.lstrip("0")
    if len(digits) * math.log2(10) > MAX_BITS + 4:
        raise CalculationError(
            f"the number {text[:20]}… has {len(digits)} digits; the most is {max_digits()}"
        )
    return int(digits or "0")


def _read_exponent(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-0")
    # Longer than any that is allowed: the value does not matter any more.
    return sign * (10**9 if len(digits) > 9 else int(digits or "0"))


def max_digits() -> int:
    return int(MAX_BITS * math.log10(2))


def bits_of(number: Number) -> int:
    """Return the size of an exact number in bits; 0 for a float."""
    if isinstance(number, int):
        return number.bit_length()
    if isinstance(number, float):
        return 0
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def narrow_number(number: Number) -> Number:
    """Return a whole fraction as int, a huge one as float.

    `ArithmeticError` where no float can hold it.
    """
    if not isinstance(number, Fraction):
        return number
    if number.denominator == 1:
        return number.numerator
    return number if bits_of(number) <= MAX_BITS else as_float(number)


def as_float(number: Number) -> float:
    """Return the nearest float; raise instead of overflow, or of zero."""
    value = float(number)
    if value == 0 and number != 0:
        raise CalculationError("the result is too small for a number")
    return value


def settle_value(value: Value) -> int | float:
    """Return an int where the result is whole, else the nearest float."""
    number = value.number
    if isinstance(number, int) and not value.is_decimal:
        return number
    try:
        return as_float(number)
    except OverflowError:
        raise CalculationError("the result is too large for a number with decimals") from None


def exact_text(value: Value) -> str | None:
    """Return a fraction such as `1/3`; None where decimals show all of it."""
    number = value.number
    if not isinstance(number, Fraction) or Fraction(repr(float(number))) == number:
        return None
    text = str(number)
    return text if len(text) <= _MAX_EXACT_TEXT else None
