"""How is an arithmetic expression from an untrusted source computed?

The grammar is numbers, operators, parentheses, named constants and functions, and nothing else:
there is no attribute, no text and no name to escape through. Precedence is Python's: `**` binds
before a sign and from the right. Every bound is checked before anything is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.arithmetic import CONSTANTS, FUNCTIONS, call_function
from tool_engine.executors.number import (
    CalculationError,
    Value,
    exact_text,
    parse_number,
    settle_value,
)
from tool_engine.executors.operations import apply_operator
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import Tool

MAX_LENGTH: Final = 1000
MAX_DEPTH: Final = 50

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z][A-Za-z0-9]*)
      | (?P<symbol>\*\*|//|[-+*/%(),])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)
_BINDING: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}
_HINTS: Final = {
    "^": "write ** for a power",
    "!": "write factorial(n)",
    "=": "comparisons and assignments are not arithmetic",
    "<": "comparisons are not arithmetic",
    ">": "comparisons are not arithmetic",
    "_": "write numbers without '_', and only the listed names",
    "'": "texts are not arithmetic",
    '"': "texts are not arithmetic",
    "[": "lists are not arithmetic; write the numbers as arguments, as in max(1, 2)",
    "{": "write parentheses ( )",
    "×": "write * for multiplication",
    "÷": "write / for division",
    "−": "write - for a minus sign",
    ".": "a number needs a digit beside its point, and nothing else has a point",
}
_NO_NUMBERS: Final = ("inf", "infinity", "nan")


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


class CalculatorExecutor:
    """The executor of `calculator`: `{"expression": "1+2"}` gives `{"result": 3}`.

    Where decimals do not say all of a result, it has the fraction too: `1/3` gives
    `{"result": 0.3333333333333333, "exact": "1/3"}`.
    """

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the value of `params["expression"]`; raise `ToolExecutionError` if it has none."""
        if "expression" not in params:
            raise ToolExecutionError(
                "the calculator takes the parameter 'expression'; declare it, with required: true"
            )
        expression = params["expression"]
        if not isinstance(expression, str):
            raise ToolExecutionError(
                f"expression must be a text such as '1+2', got {type(expression).__name__}"
            )
        try:
            value = evaluate_expression(expression)
            output: dict[str, Any] = {"result": settle_value(value)}
            if (exact := exact_text(value)) is not None:
                output["exact"] = exact
            return output
        except CalculationError as error:
            raise ToolExecutionError(f"cannot calculate: {error}") from None


def calculate(expression: str) -> int | float:
    """Return the value of an arithmetic expression.

    Example:
        >>> calculate("2 * (3 + 4)")
        14

    Raises:
        CalculationError: It is no arithmetic expression, too long, too deep or too costly, or
            its value is not a finite real number.
    """
    return settle_value(evaluate_expression(expression))


def evaluate_expression(expression: str) -> Value:
    """Return the value, as exact as known; raise as `calculate` does."""
    if len(expression) > MAX_LENGTH:
        raise CalculationError(
            f"the expression is {len(expression)} characters long; the most is {MAX_LENGTH}"
        )
    parser = _Parser(_split_tokens(expression))
    value = parser.sum(0)
    parser.expect_end()
    return value


def _split_tokens(expression: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(expression, position)
        if match is None:
            raise _unknown_error(expression, position)
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return tokens


def _unknown_error(expression: str, position: int) -> CalculationError:
    rest = expression[position:].lstrip(" \t\r\n")
    column = len(expression) - len(rest) + 1
    hint = _HINTS.get(rest[0])
    if hint is None:
        hint = "write the digits 0 to 9" if rest[0].isnumeric() else "it is not arithmetic"
    return CalculationError(f"unexpected {rest[0]!a} at character {column}; {hint}")


class _Parser:
    """A parser that computes as it reads, within a bounded depth."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def sum(self, least: int) -> Value:
        """Compute a chain of operators that bind at least as strongly as `least`."""
        value = self._read_signed()
        while (binding := _BINDING.get(self._peek_token().text, -1)) >= least:
            symbol, right = self._take_token(), self.sum(binding + 1)
            value = _compute_at(symbol, apply_operator, symbol.text, value, right)
        return value

    def expect_end(self) -> None:
        token = self._peek_token()
        if token.kind != "end":
            raise self._unexpected_error(token, "an operator")

    def _read_signed(self) -> Value:
        is_negative = False
        while (symbol := self._peek_token().text) in ("+", "-"):
            self._take_token()
            is_negative ^= symbol == "-"
        value = self._read_power()
        return Value(-value.number, value.is_decimal) if is_negative else value

    def _read_power(self) -> Value:
        base = self._read_atom()
        if self._peek_token().text != "**":
            return base
        symbol = self._take_token()
        self._enter_level()
        exponent = self._read_signed()
        self._depth -= 1
        return _compute_at(symbol, apply_operator, symbol.text, base, exponent)

    def _read_atom(self) -> Value:
        token = self._take_token()
        if token.kind == "number":
            return _compute_at(token, parse_number, token.text)
        if token.kind == "name":
            return self._read_name(token)
        if token.text == "(":
            return self._read_arguments(token, is_call=False)[0]
        raise self._unexpected_error(token, "a number")

    def _read_name(self, token: _Token) -> Value:
        if self._peek_token().text == "(":
            return _compute_at(
                token,
                call_function,
                token.text,
                self._read_arguments(self._take_token(), is_call=True),
            )
        if token.text in CONSTANTS:
            return Value(CONSTANTS[token.text])
        if token.text in FUNCTIONS:
            raise CalculationError(
                f"{token.text} at character {token.column} needs arguments: write "
                f"{FUNCTIONS[token.text].usage}"
            )
        if token.text.lower() in _NO_NUMBERS:
            raise CalculationError(
                f"{token.text} at character {token.column} is no number; write one that is finite"
            )
        hint = suggest_near(token.text, (*CONSTANTS, *FUNCTIONS)) or (
            f"; there are {', '.join(CONSTANTS)} and functions such as sqrt(2)"
        )
        raise CalculationError(
            f"unknown name {token.text[:40]!r} at character {token.column}{hint}"
        )

    def _read_arguments(self, opening: _Token, *, is_call: bool) -> tuple[Value, ...]:
        self._enter_level()
        values: list[Value] = []
        if not (is_call and self._peek_token().text == ")"):
            values.append(self.sum(0))
            while is_call and self._peek_token().text == ",":
                self._take_token()
                values.append(self.sum(0))
        closing = self._take_token()
        if closing.text == ",":
            raise CalculationError(
                f"',' at character {closing.column} separates arguments only; write numbers "
                "without commas, with a point for decimals"
            )
        if closing.text != ")":
            raise self._unexpected_error(closing, f"')' for the '(' at character {opening.column}")
        self._depth -= 1
        return tuple(values)

    def _enter_level(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CalculationError(f"the expression is nested deeper than {MAX_DEPTH} levels")

    def _peek_token(self) -> _Token:
        return self._tokens[self._next]

    def _take_token(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _unexpected_error(self, token: _Token, expected: str) -> CalculationError:
        place = self._tokens.index(token)
        before = self._tokens[place - 1].text if place else ""
        hint = _find_hint(token, before, expected)
        if token.kind == "end":
            return CalculationError(f"the expression ends where {expected} was expected{hint}")
        return CalculationError(
            f"unexpected {token.text[:40]!r} at character {token.column}, where {expected} was "
            f"expected{hint}"
        )


def _find_hint(token: _Token, before: str, expected: str) -> str:
    if before == "%" and expected == "a number":
        return "; % is the remainder of a division: write 50 / 100 for 50 percent"
    if token.text == ",":
        return "; write numbers without commas, with a point for decimals"
    if before == "0" and token.text[:1] in tuple("xXoObB"):
        return "; write numbers in decimal digits"
    if expected == "an operator" and (token.text == "(" or token.kind == "name"):
        return "; write * for multiplication"
    if before == "*" and token.text == "*":
        return "; write ** without a blank for a power"
    return ""


def _compute_at(token: _Token, compute: Callable[..., Value], *operands: Any) -> Value:
    """Return `compute(*operands)`; an error names the column in the expression."""
    try:
        return compute(*operands)
    except CalculationError as error:
        raise CalculationError(f"{error} (at character {token.column})") from None
