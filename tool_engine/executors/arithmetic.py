"""Which numbers, operators and functions does the calculator know, and what may they cost?

The cost of an operation is bounded before it is computed: whoever writes the expression may be
hostile, and `9**9**9` would otherwise never end. Whole numbers stay whole as long as they can;
what is not a finite real number is an error that says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

__all__ = [
    "CONSTANTS",
    "FUNCTIONS",
    "MAX_BITS",
    "CalculationError",
    "Function",
    "call",
    "checked",
    "operate",
]

MAX_BITS: Final = 4096
"""The largest whole number that is computed with, in bits: about 1,233 decimal digits."""
_MAX_CHOICES: Final = 10_000

Number = int | float


class CalculationError(ValueError):
    """An expression has no result; the message says why in plain words."""


class Function(NamedTuple):
    """One function of the calculator."""

    compute: Callable[..., Number]
    least: int
    """How many arguments it takes at least."""
    most: int


CONSTANTS: Final = {"pi": math.pi, "e": math.e, "tau": math.tau}


def operate(symbol: str, left: Number, right: Number) -> Number:
    """`left symbol right`; `//` and `%` round down, as in Python.

    Raises:
        CalculationError: The result is not a finite real number, or would be too large.
    """
    value = checked(symbol, _OPERATORS[symbol], (left, right))
    if value == 0 and symbol in _NEVER_ZERO and left != 0 and not (symbol == "*" and right == 0):
        raise CalculationError(f"the result of {symbol} is too small for a number")
    return value


def call(name: str, arguments: tuple[Number, ...]) -> Number:
    """`name(*arguments)`; raises `CalculationError` as `operate` does."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise CalculationError(f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
    if not function.least <= len(arguments) <= function.most:
        raise CalculationError(f"{name} takes {_count(function)}, got {len(arguments)}")
    return checked(f"{name}()", function.compute, arguments)


def checked(what: str, compute: Callable[..., Any], operands: tuple[Number, ...]) -> Number:
    """`compute(*operands)`, if that is a finite real number of a bearable size."""
    try:
        value = compute(*operands)
    except ZeroDivisionError:
        raise CalculationError(f"division by zero in {what}") from None
    except OverflowError:
        raise CalculationError(f"the result of {what} is too large") from None
    except CalculationError:
        raise
    except (ValueError, TypeError):
        raise CalculationError(
            f"{what} is not defined for {', '.join(_shown(operand) for operand in operands)}"
        ) from None
    if isinstance(value, complex):
        raise CalculationError(
            f"the result of {what} is not a real number (a root of a negative number)"
        )
    if isinstance(value, int):
        _check_bits(what, value.bit_length())
    elif not math.isfinite(value):
        raise CalculationError(f"the result of {what} is too large for a number")
    return value  # type: ignore[no-any-return]


def _check_bits(what: str, bits: float) -> None:
    if bits > MAX_BITS:
        raise CalculationError(
            f"the result of {what} would have more than {int(MAX_BITS * math.log10(2))} digits"
        )


def _multiply(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits("*", left.bit_length() + right.bit_length() - 2)
    return left * right


def _divide(left: Number, right: Number) -> Number:
    """Exact where the quotient of two whole numbers is whole, which floats lose at 2**53."""
    if isinstance(left, int) and isinstance(right, int):
        quotient, rest = divmod(left, right)
        if rest == 0:
            return quotient
    return left / right


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        _check_bits("**", (abs(base).bit_length() - 1) * exponent)
    if isinstance(base, int) and isinstance(exponent, int) and exponent < 0:
        return float(base) ** exponent
    return base**exponent


def _factorial(n: Number) -> int:
    number = _whole("factorial", n)
    if number < 0:
        raise CalculationError("factorial is not defined for negative numbers")
    if number > MAX_BITS:
        _check_bits("factorial", math.inf)
    _check_bits("factorial", math.lgamma(number + 1) / math.log(2) - 1)
    return math.factorial(number)


def _combinations(n: Number, k: Number) -> int:
    total, chosen = _choice("comb", n, k)
    return math.comb(total, chosen)


def _permutations(n: Number, k: Number) -> int:
    total, chosen = _choice("perm", n, k)
    _check_bits("perm", (total - chosen).bit_length() * chosen - chosen)
    return math.perm(total, chosen)


def _choice(name: str, n: Number, k: Number) -> tuple[int, int]:
    total, chosen = _whole(name, n), _whole(name, k)
    if not (0 <= total <= _MAX_CHOICES and 0 <= chosen <= _MAX_CHOICES):
        raise CalculationError(f"{name} takes whole numbers between 0 and {_MAX_CHOICES}")
    return total, chosen


def _round(value: Number, digits: Number = 0) -> Number:
    places = _whole("round", digits)
    if abs(places) > 400:
        raise CalculationError("round takes between -400 and 400 digits")
    return round(value, places) if places else round(value)


def _whole(name: str, value: Number) -> int:
    if isinstance(value, float):
        if not value.is_integer():
            raise CalculationError(f"{name} takes whole numbers, got {value}")
        return int(value)
    return value


def _gcd(*values: Number) -> int:
    return math.gcd(*(_whole("gcd", value) for value in values))


def _lcm(*values: Number) -> int:
    numbers = [_whole("lcm", value) for value in values]
    _check_bits("lcm", sum(number.bit_length() - 1 for number in numbers))
    return math.lcm(*numbers)


def _isqrt(value: Number) -> int:
    return math.isqrt(_whole("isqrt", value))


def _sign(value: Number) -> int:
    return (value > 0) - (value < 0)


def _sum(*values: Number) -> Number:
    return sum(values) if all(isinstance(v, int) for v in values) else math.fsum(values)


def _mean(*values: Number) -> Number:
    return _divide(_sum(*values), len(values))


def _count(function: Function) -> str:
    if function.least == function.most:
        return f"{function.least} argument{'s' if function.least > 1 else ''}"
    if function.most == _MANY:
        return f"at least {function.least} argument{'s' if function.least > 1 else ''}"
    return f"{function.least} to {function.most} arguments"


def _shown(value: Number) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text)} digits)"


_MANY: Final = 500

# Of operands other than zero, these give zero only where a float has lost the value.
_NEVER_ZERO: Final = frozenset({"*", "/", "**"})

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": _multiply,
    "/": _divide,
    "//": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "**": _power,
}

FUNCTIONS: Final[dict[str, Function]] = {
    "abs": Function(abs, 1, 1),
    "acos": Function(math.acos, 1, 1),
    "acosh": Function(math.acosh, 1, 1),
    "asin": Function(math.asin, 1, 1),
    "asinh": Function(math.asinh, 1, 1),
    "atan": Function(math.atan, 1, 1),
    "atan2": Function(math.atan2, 2, 2),
    "atanh": Function(math.atanh, 1, 1),
    "cbrt": Function(math.cbrt, 1, 1),
    "ceil": Function(math.ceil, 1, 1),
    "comb": Function(_combinations, 2, 2),
    "cos": Function(math.cos, 1, 1),
    "cosh": Function(math.cosh, 1, 1),
    "degrees": Function(math.degrees, 1, 1),
    "exp": Function(math.exp, 1, 1),
    "factorial": Function(_factorial, 1, 1),
    "floor": Function(math.floor, 1, 1),
    "gcd": Function(_gcd, 1, _MANY),
    "hypot": Function(math.hypot, 1, _MANY),
    "isqrt": Function(_isqrt, 1, 1),
    "lcm": Function(_lcm, 1, _MANY),
    "ln": Function(math.log, 1, 1),
    "log": Function(math.log, 1, 2),
    "log10": Function(math.log10, 1, 1),
    "log2": Function(math.log2, 1, 1),
    "max": Function(max, 2, _MANY),
    "mean": Function(_mean, 1, _MANY),
    "min": Function(min, 2, _MANY),
    "mod": Function(lambda left, right: left % right, 2, 2),
    "perm": Function(_permutations, 2, 2),
    "pow": Function(_power, 2, 2),
    "radians": Function(math.radians, 1, 1),
    "round": Function(_round, 1, 2),
    "sign": Function(_sign, 1, 1),
    "sin": Function(math.sin, 1, 1),
    "sinh": Function(math.sinh, 1, 1),
    "sqrt": Function(math.sqrt, 1, 1),
    "sum": Function(_sum, 1, _MANY),
    "tan": Function(math.tan, 1, 1),
    "tanh": Function(math.tanh, 1, 1),
    "trunc": Function(math.trunc, 1, 1),
}
"""Name -> function. Angles are in radians; `log` without a base is the natural logarithm."""
