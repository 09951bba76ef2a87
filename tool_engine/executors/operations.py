"""What may an operation of the calculator cost, and what is its result?

The cost of an operation is bounded before it is computed: expressions may be hostile, and
`9**9**9` would otherwise never end. What is not a finite real number is an error with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeVar

from tool_engine.executors.number import (
    MAX_BITS,
    CalculationError,
    Number,
    Value,
    as_float,
    bits_of,
    max_digits,
    narrow_number,
)

NumberT = TypeVar("NumberT", bound=Number)

_FAR: Final = 10**18
"""An exponent this large gives the same answer as any larger one."""


def apply_operator(symbol: str, left: Value, right: Value) -> Value:
    """Return `left symbol right`; `//` and `%` round down, as in Python."""
    number = compute_checked(symbol, _OPERATORS[symbol], (left.number, right.number))
    return Value(number, left.is_decimal or right.is_decimal)


def compute_checked(
    what: str, compute: Callable[..., Any], operands: tuple[Number, ...], domain: str = ""
) -> Number:
    """Return `compute(*operands)` if finite, real and bounded; `compute` bounds its own cost."""
    try:
        value = compute(*operands)
        if isinstance(value, complex):
            raise CalculationError(
                f"the result of {what} is not a real number (a root of a negative number); for "
                "odd roots there are cbrt(x) and root(x, n)"
            )
        value = narrow_number(value)
    except ZeroDivisionError:
        raise CalculationError(f"division by zero in {what}") from None
    except OverflowError:
        raise CalculationError(f"the result of {what} is too large") from None
    except CalculationError:
        raise
    except (ValueError, TypeError):
        cure = f"; it takes {domain}" if domain else ""
        shown = ", ".join(_show_number(operand) for operand in operands)
        raise CalculationError(f"{what} is not defined for {shown}{cure}") from None
    if isinstance(value, int):
        check_bits(what, value.bit_length())
    elif isinstance(value, float) and not math.isfinite(value):
        raise CalculationError(f"the result of {what} is too large for a number (infinity)")
    return value


def check_bits(what: str, bits: float) -> None:
    if bits > MAX_BITS:
        raise CalculationError(f"the result of {what} would have more than {max_digits()} digits")


def require_real(number: Number) -> float:
    try:
        return as_float(number)
    except OverflowError:
        raise CalculationError(
            f"{_show_number(number)} is too large to compute with here"
        ) from None


def add(left: Number, right: Number) -> Number:
    """Return the sum; a fraction with too many digits becomes a float."""
    return narrow_number(left + right)


def multiply(left: Number, right: Number) -> Number:
    """Return the product, bounded before it is computed."""
    if isinstance(left, int) and isinstance(right, int):
        check_bits("*", left.bit_length() + right.bit_length() - 2)
    return _not_lost("*", left * right, left != 0 and right != 0)


def divide(left: Number, right: Number) -> Number:
    """Return the quotient, exact unless one of the two is a float."""
    if isinstance(left, float) or isinstance(right, float):
        return _not_lost("/", left / right, left != 0)
    return Fraction(left) / Fraction(right)


def power(base: Number, exponent: Number) -> Any:
    """Return the power; complex for an even root of a negative number."""
    if isinstance(base, float) or not isinstance(exponent, int):
        return _not_lost("**", require_real(base) ** require_real(exponent), base != 0)
    if isinstance(base, int) and exponent >= 0:
        if abs(base) > 1:
            check_bits("**", (abs(base).bit_length() - 1) * exponent)
        return base**exponent
    if bits_of(base) * abs(exponent) <= MAX_BITS:
        return Fraction(base) ** exponent
    near = require_real(base) ** float(max(-_FAR, min(exponent, _FAR)))
    return _not_lost("**", near, base != 0)


def _not_lost(what: str, result: NumberT, is_something: bool) -> NumberT:
    """Raise if a float has become zero though the exact result is not."""
    if result == 0 and is_something:
        raise CalculationError(f"the result of {what} is too small for a number")
    return result


def _show_number(value: Number) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text)} digits)"


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": add,
    "-": lambda left, right: left - right,
    "*": multiply,
    "/": divide,
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "**": power,
}
