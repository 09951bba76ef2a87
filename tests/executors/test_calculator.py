"""K52, U22: the calculator is arithmetic and nothing else, at a bounded cost."""

from __future__ import annotations

import math
import re
import resource
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.executors.arithmetic import CONSTANTS, FUNCTIONS
from tool_engine.executors.calculator import (
    MAX_DEPTH,
    MAX_LENGTH,
    CalculatorExecutor,
    calculate,
    evaluate_expression,
)
from tool_engine.executors.number import CalculationError, max_digits
from tool_engine.model.call import ToolExecutionContext


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
        ("0.1+0.2", 0.3),
        ("1/3*3", 1),
        ("1/3+1/6", 0.5),
        ("(1/3+1/6)*2", 1),
        ("1.1*3", 3.3),
        ("3*1.0", 3.0),
        ("0.5+0.5", 1.0),
        ("100*1.1", 110.0),
        ("5/9*(98.6-32)", 37.0),
        ("-7.5//2", -4.0),
        ("-7.5%2", 0.5),
        ("7.5%-2", -0.5),
        ("1/2//(1/3)", 1),
        ("10**1200%7.5", 2.5),
        ("1.05**10", 1.62889462677744140625),
        ("1.0000001**1000000", 1.1051709126143208),
        ("2**-2", 0.25),
        ("(1/2)**-3", 8),
        ("4.0**3", 64.0),
        ("4**0.5", 2.0),
        ("4**(1/2)", 2.0),
        ("10**400/10**399", 10),
        ("10**400*1.0-10**400", 0.0),
        ("1e-20+1e20-1e20", 1e-20),
        ("0e99999999999999999999", 0.0),
        ("1e+2", 100.0),
        ("-0.0", 0.0),
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
        ("round(2.675, 2)", 2.68),
        ("round(2.5)+round(3.5)", 6),
        ("round(sqrt(2), 3)", 1.414),
        ("round(7, 2)", 7),
        ("round(1/3, 2)", 0.33),
        ("round(1234, -2)", 1200),
        ("max(1, 2, 3) - min(4, 5)", -1),
        ("factorial(20)", math.factorial(20)),
        ("factorial(3.0)", 6),
        ("comb(50, 5)", math.comb(50, 5)),
        ("perm(5, 2)", 20),
        ("gcd(12, 18) + lcm(4, 6)", 18),
        ("log(8, 2)", 3.0),
        ("log(1000, 10)", 3.0),
        ("log(1/8, 2)", -3.0),
        ("log(8, sqrt(4))", 3.0),
        ("log(5, e)", math.log(5)),
        ("log(10**400, 10)", 400.0),
        ("log(2**4000, 2)", 4000.0),
        ("log(10**1230, 10**700)", 1230 / 700),
        ("log10(10**400)", 400.0),
        ("log2(2**2000)", 2000.0),
        ("log(2)", math.log(2)),
        ("sqrt(1/4)", 0.5),
        ("sqrt(2)", math.sqrt(2)),
        ("sqrt(pi)", math.sqrt(math.pi)),
        ("sqrt(10**400)", 1e200),
        ("sqrt(10**401)", 3.1622776601683794e200),
        ("cbrt(27)", 3.0),
        ("cbrt(-8)", -2.0),
        ("cbrt(2)", 2 ** (1 / 3)),
        ("cbrt(0.001)", 0.1),
        ("cbrt(-0.027)", -0.3),
        ("cbrt(10**600)", 1e200),
        ("cbrt(0)", 0.0),
        ("root(1e-300, 3)", 1e-100),
        ("root(0.00032, 5)", 0.2),
        ("root(2, 1)", 2),
        ("root(0, 64)", 0),
        ("root(-32, 5)", -2),
        ("root(2, 2)", 2**0.5),
        ("root(0.25, 2)", 0.5),
        ("max(3, 2.5)", 3),
        ("max(3, 3.5)", 3.5),
        ("min(1/3, 1/2)*3", 1),
        ("avg(1, 2, 3)", 2),
        ("median(5, 1, 3)", 3),
        ("median(1, 2)", 1.5),
        ("median(sqrt(2), 1)", (math.sqrt(2) + 1) / 2),
        ("variance(1, 2, 3, 4)", 5 / 3),
        ("stdev(2, 4, 6)", 2.0),
        ("product(1, 2, 3, 4)", 24),
        ("sum(1, pi)", 1 + math.pi),
        ("hypot(3, 4)", 5.0),
        ("atan2(1, 1)", math.pi / 4),
        ("abs(-1/3)*3", 1),
        ("abs(-2.0)", 2.0),
        ("floor(sqrt(2)*10)", 14),
        ("gcd(12.0, 18)", 6),
        ("lcm(sqrt(16), 6)", 12),
        ("comb(5, 7) + perm(5, 7)", 0),
        ("isqrt(10.0)", 3),
        ("factorial(log2(8))", 6),
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
        ("2**-(10**400)", "too small"),
        ("0.5**99999", "too small"),
        ("0.5**99999999999999999", "too small"),
        ("1e-2000", r"the number 1e-2000 is too small \(at character 1\)"),
        ("1+1e2000", r"the number 1e2000 is too large \(at character 3\)"),
        ("1e-" + "9" * 50, "too small"),
        ("1.5**5000", "too large"),
        ("sqrt(2)**5000", "too large"),
        ("pi*1e308*10", "too large"),
        ("1e-300*sqrt(2)*1e-300", "too small"),
        ("sqrt(2)/1e308/1e308", "too small"),
        ("sin(10**400)", "1000.* is too large to compute with here"),
        ("10**400/3", "too large for a number with decimals"),
        ("2+1/0", r"division by zero in / \(at character 4\)"),
        ("mod(1, 0)", r"division by zero in mod\(\) \(at character 1\)"),
        ("exp(-1000)", r"the result of exp\(\) is too small for a number"),
        ("log(2, 1)", "no logarithm to the base 1"),
        ("log(-1)", "not defined for -1; it takes numbers above 0"),
        ("log(2, 0)", "not defined for 2, 0"),
        ("root(-4, 2)", "even root of a negative"),
        ("root(4, 0)", "degree between 1 and 64"),
        ("root(4, 1.5)", "whole numbers, got 1.5"),
        ("atanh(1)", "between -1 and 1"),
        ("inf", "inf at character 1 is no number; write one that is finite"),
        ("1+NaN", "NaN at character 3 is no number"),
        ("50%", "write 50 / 100 for 50 percent"),
        ("10%*5", "write 50 / 100 for 50 percent"),
        ("(-8)**(1/3)", r"there are cbrt\(x\) and root\(x, n\)"),
        ("1e-300/1e300", "too small"),
        ("1.5.2", "where an operator was expected"),
        ("True", "unknown name 'True'"),
        ("2 * PI", r"unknown name 'PI' at character 5; did you mean 'pi'\?"),
        ("SQRT(4)", r"no function 'SQRT'; did you mean 'sqrt'\?"),
        ("zzz(4)", "no function 'zzz'; there are abs, acos,"),
        ("comb(10001, 2)", "comb takes whole numbers from 0 to 10000"),
        ("x", "unknown name 'x'"),
        ("sqrt", r"sqrt at character 1 needs arguments: write sqrt\(x\)"),
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
        ("comb(-1, 2)", "from 0 to 10000"),
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
        arguments = ["0.5", "1"][: function.least]
        if function.result == "whole" or name == "root":
            arguments = ["4", "2"][: function.least]
        if name == "acosh":
            arguments = ["2"]
        assert math.isfinite(calculate(f"{name}({', '.join(arguments)})"))
    for name in CONSTANTS:
        assert calculate(name) > 0


@pytest.mark.parametrize(
    ("expression", "exact"),
    [
        ("1/3", "1/3"),
        ("-2/7", "-2/7"),
        ("1/3+0.5", "5/6"),
        ("1/2", None),
        ("0.1+0.2", None),
        ("1/3*3", None),
        ("sqrt(2)", None),
        ("1/(10**40+1)", None),
        ("variance(1, 2, 3, 4)", "5/3"),
    ],
)
async def test_exact(expression: str, exact: str | None) -> None:
    """K52: where decimals do not say all of a result, the fraction stands beside them."""
    tool = ToolConfigLoader().from_mapping({"name": "calculator", "description": "x"})
    context = ToolExecutionContext()
    output = await CalculatorExecutor().execute(tool, {"expression": expression}, context)
    assert output.pop("result") == calculate(expression)
    assert output == ({} if exact is None else {"exact": exact})


@given(
    st.fractions(max_denominator=10**6),
    st.fractions(max_denominator=10**6),
    st.sampled_from("+-*/"),
)
def test_fractions_are_exact(left: Fraction, right: Fraction, symbol: str) -> None:
    """Quotients of whole numbers are computed with exactly; the result is the nearest float."""
    expression = f"({left}) {symbol} ({right})"
    if symbol == "/" and right == 0:
        with pytest.raises(CalculationError, match="division by zero"):
            calculate(expression)
        return
    computed = {"+": left + right, "-": left - right, "*": left * right}.get(symbol)
    expected = left / right if computed is None else computed
    assert evaluate_expression(expression).number == expected
    assert isinstance(calculate(expression), int) == (expected.denominator == 1)


@given(st.integers(-(10**15), 10**15), st.integers(1, 9))
def test_decimals_are_read_exactly(digits: int, places: int) -> None:
    """What is written with a point is that number, and its float is the nearest."""
    whole, rest = divmod(abs(digits), 10**places)
    text = f"{'-' if digits < 0 else ''}{whole}.{rest:0{places}}"
    value = calculate(text)
    assert isinstance(value, float)
    assert value == float(text)


def test_the_documented_table_is_the_code() -> None:
    """K52: `docs/reference/calculator.md` lists every function and constant, as it is."""
    page = Path("docs/reference/calculator.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z0-9]+\(.*)` \| (.*?) \| (.*?) ?\|$", page, re.MULTILINE)
    assert rows == [(each.usage, each.meaning, each.domain) for each in FUNCTIONS.values()]
    assert all(each.usage.startswith(f"{name}(") for name, each in FUNCTIONS.items())
    for name, value in CONSTANTS.items():
        assert f"| `{name}` | {value!r} |" in page
    for number in (MAX_LENGTH, MAX_DEPTH, max_digits()):
        assert f"| {number:,} |" in page
