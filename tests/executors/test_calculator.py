"""K52, U22: the calculator is arithmetic and nothing else, at a bounded cost."""

from __future__ import annotations

import math
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.executors.arithmetic import CONSTANTS, FUNCTIONS, CalculationError
from tool_engine.executors.calculator import MAX_DEPTH, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+2", 3),
        (" ( 2 + 3 ) \n* 4 ", 20),
        ("-2**2", -4),
        ("(-2)**2", 4),
        ("2**3**2", 512),
        ("2**-1", 0.5),
        ("2*-3", -6),
        ("2--3", 5),
        ("-+-3", 3),
        ("7//-2", -4),
        ("-7%3", 2),
        ("-7//2", -4),
        ("7.5//2", 3.0),
        ("7-2-1", 4),
        ("8/2/2", 2),
        ("2+3*4%5", 4),
        ("4/2", 2),
        ("1/3", 1 / 3),
        ("10**30/10", 10**29),
        ("0.1+0.2", 0.1 + 0.2),
        (".5+1.", 1.5),
        ("1e3", 1000.0),
        ("2**0.5", 2**0.5),
        ("0**0", 1),
        ("0*5.0", 0.0),
        ("0/7", 0),
        ("(-1)**4097", -1),
        ("sqrt(16)", 4.0),
        ("round(2.567, 2)", 2.57),
        ("round(2.6)", 3),
        ("round(1234, -2)", 1200),
        ("max(1, 2, 3) - min(4, 5)", -1),
        ("factorial(20)", math.factorial(20)),
        ("factorial(3.0)", 6),
        ("comb(50, 5)", math.comb(50, 5)),
        ("perm(5, 2)", 20),
        ("gcd(12, 18) + lcm(4, 6)", 18),
        ("log(8, 2)", 3.0),
        ("ln(e)", 1.0),
        ("isqrt(17)", 4),
        ("sign(-3) + sign(0) + sign(2.5)", 0),
        ("sum(1, 2, 3)", 6),
        ("sum(0.1, 0.2, 0.3)", 0.6),
        ("mean(1, 2)", 1.5),
        ("mod(7, 4)", 3),
        ("pow(2, 10)", 1024),
        ("sin(pi/2)", 1.0),
        ("floor(2.7) + ceil(2.1) + trunc(-2.5)", 3),
        ("tau - 2*pi", 0.0),
        ("007", 7),
    ],
)
def test_value(expression: str, value: float) -> None:
    """Precedence and rounding are Python's; whole numbers stay whole as long as they can."""
    result = calculate(expression)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1/0", "division by zero in /"),
        ("1//0", "division by zero"),
        ("1%0", "division by zero"),
        ("1.0%0", "division by zero"),
        ("0**-1", "division by zero"),
        ("(-8)**0.5", "not a real number"),
        ("(-8)**(1/3)", "not a real number"),
        ("sqrt(-1)", r"sqrt\(\) is not defined for -1"),
        ("log(0)", "not defined for 0"),
        ("acos(2)", "not defined"),
        ("9e999", "too large"),
        ("1e308*10", "too large"),
        ("exp(1000)", "too large"),
        ("10**400*1.0", "too large"),
        ("9e307-(-9.5e307)+9e307", "too large"),
        ("1e-400", "too small"),
        ("1e-200*1e-200", "too small"),
        ("2**-5000", "too small"),
        ("1e-300/1e300", "too small"),
        ("1.5.2", "where an operator was expected"),
        ("True", "unknown name 'True'"),
        ("x", "unknown name 'x'"),
        ("sqrt", "needs arguments"),
        ("foo(1)", "no function 'foo'"),
        ("max(1)", "at least 2 arguments"),
        ("sqrt(1, 2)", "1 argument, got 2"),
        ("round(1, 2, 3)", "1 to 2 arguments"),
        ("gcd()", "at least 1 argument, got 0"),
        ("sqrt()", "1 argument, got 0"),
        ("comb(1)", "2 arguments"),
        ("round(1, 500)", "400 digits"),
        ("factorial(-1)", "negative"),
        ("factorial(2.5)", "whole numbers"),
        ("comb(-1, 2)", "between 0 and"),
        ("1_000", "without '_'"),
        ("0x10", "decimal digits"),
        ("0b1", "decimal digits"),
        ("1,000+2", "without commas"),
        ("(1,2)", "separates arguments only"),
        ("2(3)", r"write \* for multiplication"),
        ("2pi", r"write \* for multiplication"),
        ("2^3", r"write \*\* for a power"),
        ("2 * * 3", "without a blank"),
        ("5!", "factorial"),
        ("1 == 1", "comparisons"),
        ("1 < 2", "comparisons"),
        ("'a'*9", "texts"),
        ('"a"', "texts"),
        ("[1]", "lists"),
        ("{1}", "parentheses"),
        ("1;2", "not arithmetic"),
        ("2×3", "for multiplication"),
        ("\u0663+1", "digits 0 to 9"),
        ("\uff11+1", "digits 0 to 9"),
        ("½", "digits 0 to 9"),
        ("(1).real", "point"),
        ("a.b", "point"),
        ("lambda: 1", "not arithmetic"),
        ("__import__('os')", "without '_'"),
        ("1 if 1 else 2", "operator was expected"),
        ("1 and 2", "operator was expected"),
        ("5 5", "operator was expected"),
        ("", "ends where a number"),
        ("()", r"unexpected '\)'"),
        ("(1", "ends where"),
        ("(1 2", r"where '\)' for the '\(' at character 1"),
        ("1)", r"unexpected '\)'"),
        ("max(1,", "ends where"),
        ("1+", "ends where"),
        ("*1", "a number was expected"),
        ("\ud800", "not arithmetic"),
        ("1\x00", "not arithmetic"),
    ],
)
def test_no_value(expression: str, reason: str) -> None:
    """What has no value says why, in plain words."""
    with pytest.raises(CalculationError, match=reason):
        calculate(expression)


HOSTILE = (
    "9**9**9",
    "9**9**9**9**9",
    "2**4096",
    "(-2)**99999999999",
    "99999999999999999999**99999",
    "factorial(99999999)",
    "factorial(5000)",
    "factorial(factorial(20))",
    "comb(10000, 5000)",
    "comb(99999999, 5000)",
    "perm(10000, 9000)",
    "lcm(" + ",".join(str(10**60 + n) for n in range(15)) + ")",
    "*".join(["9" * 90] * 10) + "**9",
    "(10**600)*(10**600)*(10**600)",
    "sum(" + ",".join(["10**1200"] * 90) + ")**9",
    "round(1.5, 10**1000)",
    "1" * 100_000,
    "-" * 5_000 + "1",
    "-" * 1_000,
    "(" * 1_000,
    "(" * 400 + "1" + ")" * 400,
    "abs(" * 200 + "1" + ")" * 200,
    "2**" * 330 + "2",
    "1+" * 499 + "1",
    "1e" + "9" * 900,
    "." * 900,
    "1/" * 499 + "0",
    "(10**1000/3)**7",
    "10**1200%7.5",
    "e" * 900,
    " " * 999,
)


@pytest.mark.parametrize("expression", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(expression: str) -> None:
    """U22: every hostile input has a value or a clean error, whose message is short."""
    message = "has a value"
    try:
        calculate(expression)
    except CalculationError as error:
        message = str(error)
    assert 0 < len(message) < 600


def test_hostile_in_bounds() -> None:
    """U22: all hostile inputs together stay within a second of CPU each and 200 MB."""
    program = (
        "import resource, sys\n"
        "from tool_engine.executors.calculator import calculate\n"
        "used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for line in sys.stdin.read().split('\\x1e'):\n"
        "    try: calculate(line)\n"
        "    except ValueError: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used)\n"
    )

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))

    done = subprocess.run(
        [sys.executable, "-c", program],
        input="\x1e".join(HOSTILE),
        text=True,
        capture_output=True,
        check=True,
        preexec_fn=bounded,
    )
    assert int(done.stdout) < 200 * 1024


def test_depth() -> None:
    """The bound is exact: the deepest expression that is allowed has a value."""
    assert calculate("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH) == 1
    with pytest.raises(CalculationError, match="deeper"):
        calculate("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1))


@given(st.text(alphabet="0123456789.eE+-*/%(), sqrtmaxpi", max_size=60))
def test_any_text(expression: str) -> None:
    """Any text has a finite value or a `CalculationError`; nothing else ever comes out."""
    try:
        value = calculate(expression)
    except CalculationError:
        return
    assert isinstance(value, int) or math.isfinite(value)


@given(st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
        lambda part: f"({part[0]} {part[1]} -{part[2]})"
    ),
    max_leaves=8,
))  # fmt: skip
def test_like_python(expression: str) -> None:
    """On whole numbers the value is the one that Python computes."""
    try:
        expected = eval(expression)  # noqa: S307 - made of digits and operators above
    except ZeroDivisionError:
        with pytest.raises(CalculationError, match="zero"):
            calculate(expression)
    else:
        assert calculate(expression) == expected


def test_every_function_computes() -> None:
    """Each name of the table has a value for some arguments."""
    for name, function in FUNCTIONS.items():
        argument = "0.5" if name == "atanh" else "1"
        assert math.isfinite(calculate(f"{name}({', '.join([argument] * function.least)})"))
    for name in CONSTANTS:
        assert calculate(name) > 0
