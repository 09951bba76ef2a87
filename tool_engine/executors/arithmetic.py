"""Which functions and constants does the calculator know?

`docs/reference/calculator.md` shows both tables, and a test compares it with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any, Final, NamedTuple

from tool_engine.executors.number import MAX_BITS, CalculationError, Number, Value, bits_of
from tool_engine.executors.operations import (
    add,
    check_bits,
    compute_checked,
    divide,
    multiply,
    power,
    require_real,
)
from tool_engine.model.checks.nearness import suggest_near

_MAX_CHOICES: Final = 10_000
_MAX_PLACES: Final = 400
_MAX_DEGREE: Final = 64
_MANY: Final = 500

CONSTANTS: Final = {"pi": math.pi, "e": math.e, "tau": math.tau}


class Function(NamedTuple):
    usage: str
    """The notation, such as `sqrt(x)`, for messages."""
    meaning: str
    compute: Callable[..., Number]
    least: int = 1
    most: int = 1
    domain: str = ""
    """The permitted values, where not every number is one."""
    result: str = "as arguments"
    """`whole`, `decimal`, `chosen` (one of the arguments) or `as arguments`: decimal if one is."""


def call_function(name: str, arguments: tuple[Value, ...]) -> Value:
    """Return `name(*arguments)`; raise `CalculationError` for wrong arguments or no result."""
    function = FUNCTIONS.get(name)
    if function is None:
        hint = suggest_near(name, FUNCTIONS) or f"; there are {', '.join(FUNCTIONS)}"
        raise CalculationError(f"there is no function {name!r}{hint}")
    if not function.least <= len(arguments) <= function.most:
        raise CalculationError(
            f"{name} takes {_describe_count(function)}, got {len(arguments)}; write "
            f"{function.usage}"
        )
    numbers = tuple(argument.number for argument in arguments)
    number = compute_checked(f"{name}()", function.compute, numbers, function.domain)
    if function.result == "chosen":
        return next(argument for argument in arguments if argument.number is number)
    is_whole = function.result == "whole" or (name == "round" and len(arguments) == 1)
    is_decimal = function.result == "decimal" or any(each.is_decimal for each in arguments)
    return Value(number, is_decimal and not is_whole)


def _describe_count(function: Function) -> str:
    least = f"{function.least} argument{'s' if function.least > 1 else ''}"
    if function.least == function.most:
        return least
    if function.most == _MANY:
        return f"at least {least}"
    return f"{function.least} to {function.most} arguments"


def _whole_number(name: str, value: Number) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise CalculationError(f"{name} takes whole numbers, got {float(value)}")
    return value


def _compute_factorial(n: Number) -> int:
    number = _whole_number("factorial", n)
    if number < 0:
        raise CalculationError("factorial is not defined for negative numbers")
    if number > _MAX_CHOICES:
        check_bits("factorial", math.inf)
    check_bits("factorial", math.lgamma(number + 1) / math.log(2) - 1)
    return math.factorial(number)


def _count_combinations(n: Number, k: Number) -> int:
    total, chosen = _check_choice("comb", n, k)
    if chosen <= total:
        logs = math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)
        check_bits("comb", logs / math.log(2) - 1)
    return math.comb(total, chosen)


def _count_permutations(n: Number, k: Number) -> int:
    total, chosen = _check_choice("perm", n, k)
    check_bits("perm", (total - chosen).bit_length() * chosen - chosen)
    return math.perm(total, chosen)


def _check_choice(name: str, n: Number, k: Number) -> tuple[int, int]:
    total, chosen = _whole_number(name, n), _whole_number(name, k)
    if not (0 <= total <= _MAX_CHOICES and 0 <= chosen <= _MAX_CHOICES):
        raise CalculationError(f"{name} takes {_CHOICES}")
    return total, chosen


def _round_number(value: Number, digits: Number = 0) -> Number:
    places = _whole_number("round", digits)
    if abs(places) > _MAX_PLACES:
        raise CalculationError(f"round takes between -{_MAX_PLACES} and {_MAX_PLACES} digits")
    result: Number = round(value, places) if places else round(value)  # type: ignore[assignment]
    return result


def _compute_gcd(*values: Number) -> int:
    return math.gcd(*(_whole_number("gcd", value) for value in values))


def _compute_lcm(*values: Number) -> int:
    numbers = [_whole_number("lcm", value) for value in values]
    check_bits("lcm", sum(number.bit_length() - 1 for number in numbers))
    return math.lcm(*numbers)


def _sign_of(value: Number) -> int:
    return (value > 0) - (value < 0)


def _sum_values(*values: Number) -> Number:
    if any(isinstance(value, float) for value in values):
        return math.fsum(map(require_real, values))
    return reduce(add, values)


def _mean_of(*values: Number) -> Number:
    return divide(_sum_values(*values), len(values))


def _median_of(*values: Number) -> Number:
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    return divide(add(ordered[half - 1], ordered[half]), 2)


def _variance_of(*values: Number) -> Number:
    middle = _mean_of(*values)
    squares = [power(add(value, -middle), 2) for value in values]
    return divide(_sum_values(*squares), len(values) - 1)


def _square_root(value: Number) -> Number:
    """Return the square root, exact for the squares of fractions."""
    if isinstance(value, float):
        return math.sqrt(value)
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    # The root of a large number has so many digits that its fraction makes no difference.
    return float(top) if value > 1e300 else math.sqrt(require_real(value))


def _compute_root(value: Number, degree: Number) -> Number:
    """Return the root, exact for powers of fractions such as 0.001."""
    number = _whole_number("root", degree)
    if not 1 <= number <= _MAX_DEGREE:
        raise CalculationError(f"root takes a degree between 1 and {_MAX_DEGREE}")
    if value < 0 and number % 2 == 0:
        raise CalculationError("an even root of a negative number is not a real number")
    size = value if value > 0 else -value
    if not isinstance(size, float):
        top, bottom = _whole_root(size.numerator, number), _whole_root(size.denominator, number)
        if top**number == size.numerator and bottom**number == size.denominator:
            return Fraction(top if value > 0 else -top, bottom)
    near = math.pow(require_real(size), 1 / number)
    return -near if value < 0 else near


def _whole_root(value: int, degree: int) -> int:
    """Return the root, rounded down; by Newton's method, from above."""
    root = 1 << -(-value.bit_length() // degree)
    less = degree - 1
    while root and root > (smaller := (less * root + value // root**less) // degree):
        root = smaller
    return root


def _of_reals(compute: Callable[..., float]) -> Callable[..., float]:
    return lambda *numbers: compute(*map(require_real, numbers))


def _compute_log(value: Number, base: Number | None = None) -> Number:
    """Return the logarithm, exact where it is whole, unlike a quotient of floats."""
    if base is None:
        return _natural_log(value)
    if base == 1:
        raise CalculationError("there is no logarithm to the base 1")
    near = math.log(_log_operand(value), _log_operand(base))
    whole = round(near)
    # What comes near `value` is hardly larger, so its size needs no other bound.
    is_exact = not isinstance(base, float) and bits_of(base) * abs(whole) <= 2 * MAX_BITS
    return whole if is_exact and Fraction(base) ** whole == value else near


def _compute_exp(value: Number) -> Number:
    result = math.exp(require_real(value))
    if result == 0:
        raise CalculationError("the result of exp() is too small for a number")
    return result


def _natural_log(value: Number) -> float:
    return math.log(_log_operand(value))


def _log_operand(value: Number) -> int | float:
    # A whole number need not fit into a float to have a logarithm.
    return value if isinstance(value, int) else require_real(value)


def _decimal_function(
    usage: str, meaning: str, compute: Callable[..., Any], domain: str = "", most: int = 1
) -> Function:
    return Function(usage, meaning, compute, 1, most, domain, "decimal")


_ANGLE: Final = "in radians"
_POSITIVE: Final = "numbers above 0"
_UNIT: Final = "numbers from -1 to 1"
_CHOICES: Final = f"whole numbers from 0 to {_MAX_CHOICES}"
_TO_WHOLE: Final[dict[str, Any]] = {"result": "whole"}

FUNCTIONS: Final[dict[str, Function]] = {
    "abs": Function("abs(x)", "x without its sign", abs),
    "acos": _decimal_function("acos(x)", f"arc cosine, {_ANGLE}", _of_reals(math.acos), _UNIT),
    "acosh": _decimal_function(
        "acosh(x)", "inverse of cosh", _of_reals(math.acosh), "numbers of 1 or more"
    ),
    "asin": _decimal_function("asin(x)", f"arc sine, {_ANGLE}", _of_reals(math.asin), _UNIT),
    "asinh": _decimal_function("asinh(x)", "inverse of sinh", _of_reals(math.asinh)),
    "atan": _decimal_function("atan(x)", f"arc tangent, {_ANGLE}", _of_reals(math.atan)),
    "atan2": Function(
        "atan2(y, x)", f"angle of the point (x, y), {_ANGLE}", _of_reals(math.atan2), 2, 2
    ),
    "atanh": _decimal_function(
        "atanh(x)", "inverse of tanh", _of_reals(math.atanh), "numbers between -1 and 1"
    ),
    "avg": Function("avg(a, b, ...)", "the same as mean", _mean_of, 1, _MANY),
    "cbrt": _decimal_function(
        "cbrt(x)", "cube root, of negative numbers too", lambda x: _compute_root(x, 3)
    ),
    "ceil": Function("ceil(x)", "the next whole number, up", math.ceil, **_TO_WHOLE),
    "comb": Function(
        "comb(n, k)",
        "ways to choose k of n, in any order",
        _count_combinations,
        2,
        2,
        _CHOICES,
        **_TO_WHOLE,
    ),
    "cos": _decimal_function("cos(x)", f"cosine of x {_ANGLE}", _of_reals(math.cos)),
    "cosh": _decimal_function("cosh(x)", "hyperbolic cosine", _of_reals(math.cosh)),
    "degrees": _decimal_function("degrees(x)", "x radians in degrees", _of_reals(math.degrees)),
    "exp": _decimal_function("exp(x)", "e to the power of x", _compute_exp),
    "factorial": Function("factorial(n)", "1 * 2 * ... * n", _compute_factorial, **_TO_WHOLE),
    "floor": Function("floor(x)", "the next whole number, down", math.floor, **_TO_WHOLE),
    "gcd": Function(
        "gcd(a, b, ...)", "greatest common divisor", _compute_gcd, 1, _MANY, **_TO_WHOLE
    ),
    "hypot": _decimal_function(
        "hypot(a, b, ...)", "root of the sum of squares", _of_reals(math.hypot), most=_MANY
    ),
    "isqrt": Function(
        "isqrt(n)",
        "square root of a whole number, rounded down",
        lambda n: math.isqrt(_whole_number("isqrt", n)),
        domain="whole numbers of 0 or more",
        **_TO_WHOLE,
    ),
    "lcm": Function("lcm(a, b, ...)", "least common multiple", _compute_lcm, 1, _MANY, **_TO_WHOLE),
    "ln": _decimal_function("ln(x)", "natural logarithm", _natural_log, _POSITIVE),
    "log": _decimal_function(
        "log(x) or log(x, base)", "natural logarithm, or to a base", _compute_log, _POSITIVE, most=2
    ),
    "log10": _decimal_function(
        "log10(x)", "logarithm to the base 10", lambda x: math.log10(_log_operand(x)), _POSITIVE
    ),
    "log2": _decimal_function(
        "log2(x)", "logarithm to the base 2", lambda x: math.log2(_log_operand(x)), _POSITIVE
    ),
    "max": Function("max(a, b, ...)", "the largest", max, 2, _MANY, result="chosen"),
    "mean": Function("mean(a, b, ...)", "sum divided by count", _mean_of, 1, _MANY),
    "median": Function(
        "median(a, b, ...)", "the middle one, or the mean of the two", _median_of, 1, _MANY
    ),
    "min": Function("min(a, b, ...)", "the smallest", min, 2, _MANY, result="chosen"),
    "mod": Function("mod(a, b)", "the same as a % b", lambda a, b: a % b, 2, 2),
    "perm": Function(
        "perm(n, k)",
        "ways to choose k of n, in order",
        _count_permutations,
        2,
        2,
        _CHOICES,
        **_TO_WHOLE,
    ),
    "pow": Function("pow(a, b)", "the same as a ** b", power, 2, 2),
    "product": Function(
        "product(a, b, ...)", "all multiplied", lambda *v: reduce(multiply, v), 1, _MANY
    ),
    "radians": _decimal_function("radians(x)", "x degrees in radians", _of_reals(math.radians)),
    "root": Function(
        "root(x, n)", "n-th root, odd ones of negative numbers too", _compute_root, 2, 2
    ),
    "round": Function(
        "round(x) or round(x, digits)",
        "nearest; a half goes to the even neighbour",
        _round_number,
        1,
        2,
    ),
    "sign": Function("sign(x)", "-1, 0 or 1", _sign_of, **_TO_WHOLE),
    "sin": _decimal_function("sin(x)", f"sine of x {_ANGLE}", _of_reals(math.sin)),
    "sinh": _decimal_function("sinh(x)", "hyperbolic sine", _of_reals(math.sinh)),
    "sqrt": _decimal_function("sqrt(x)", "square root", _square_root, "numbers of 0 or more"),
    "stdev": Function(
        "stdev(a, b, ...)",
        "standard deviation of a sample",
        lambda *v: _square_root(_variance_of(*v)),
        2,
        _MANY,
        result="decimal",
    ),
    "sum": Function("sum(a, b, ...)", "all added up", _sum_values, 1, _MANY),
    "tan": _decimal_function("tan(x)", f"tangent of x {_ANGLE}", _of_reals(math.tan)),
    "tanh": _decimal_function("tanh(x)", "hyperbolic tangent", _of_reals(math.tanh)),
    "trunc": Function("trunc(x)", "x without its decimals", math.trunc, **_TO_WHOLE),
    "variance": Function("variance(a, b, ...)", "variance of a sample", _variance_of, 2, _MANY),
}
"""Name -> function. Angles are in radians; `log` without a base is the natural logarithm."""
