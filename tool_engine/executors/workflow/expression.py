"""How are references and conditions written, and what do they mean?

`params.city`, `steps.list.output.items[0].id`, `item`, `index`; `a ?? b` for a value that may be
missing; comparisons with `and`, `or` and `not`. A text is read once, in one pass from left to
right; there is no arithmetic and there are no functions, so that nothing in it can take long.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

MAX_LENGTH: Final = 2000
"""The most characters of one reference or condition."""
_MAX_DEPTH: Final = 20
_ROOTS: Final = ("params", "steps", "item", "index")
_BLANKS: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"[^\W\d][\w-]*")
_KEY: Final = re.compile(r"[\w-]+")
_POSITION: Final = re.compile(r"\s*(-?\d{1,9})\s*\]")
_SINGLE_QUOTED: Final = re.compile(r"'([^']*)'")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_SYMBOLS: Final = ("==", "!=", "<=", ">=", "<", ">")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_KEYWORDS: Final = frozenset({"and", "or", "not", "in"})
_SECRETS: Final = frozenset({"env", "file", "secrets"})
_OF_PARAMS: Final = frozenset({"inputs", "input", "args", "arguments", "parameters", "param"})
"""What others call the parameters."""
_REFERENCE_ENDS: Final = "a reference ends with }"


class ExpressionError(ValueError):
    """A text is no reference or condition; the message gives the cure."""


class Literal(msgspec.Struct, frozen=True):
    value: Any


class Path(msgspec.Struct, frozen=True):
    root: str
    parts: tuple[str | int, ...]
    """Keys of mappings, and positions in lists."""

    def __str__(self) -> str:
        return self.upto(len(self.parts))

    def upto(self, count: int) -> str:
        """Return the first `count` parts, as they are written."""
        return self.root + "".join(map(_shown_part, self.parts[:count]))


class FirstOf(msgspec.Struct, frozen=True):
    """The first of several values that is present and not null."""

    options: tuple[Literal | Path, ...]


class Comparison(msgspec.Struct, frozen=True):
    symbol: str
    left: Node
    right: Node


class Not(msgspec.Struct, frozen=True):
    node: Node


class All(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...]


class AnyOf(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...]


Node = Literal | Path | FirstOf | Comparison | Not | All | AnyOf


def read_reference(text: str, start: int) -> tuple[Node, int]:
    """Return the reference from `start`, after `${`, and where it ends."""
    reader = _Reader(text, start)
    node = reader.value()
    if reader.meets("+-*/%("):
        raise reader.error("a reference holds no arithmetic: let a tool such as calculator do it")
    reader.expect("}", _REFERENCE_ENDS)
    if reader.at - start > MAX_LENGTH:
        raise ExpressionError(f"a reference has at most {MAX_LENGTH} characters")
    return node, reader.at


def parse_condition(text: str) -> Node:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"a condition has at most {MAX_LENGTH} characters, got {len(text)}")
    reader = _Reader(text, 0)
    node = reader.any_of()
    if not reader.is_at_end:
        raise reader.error("expected 'and', 'or' or a comparison")
    return node


def paths_of(node: Node) -> Iterator[Path]:
    if isinstance(node, Path):
        yield node
    elif isinstance(node, FirstOf):
        for option in node.options:
            yield from paths_of(option)
    elif isinstance(node, Comparison):
        yield from paths_of(node.left)
        yield from paths_of(node.right)
    elif isinstance(node, Not):
        yield from paths_of(node.node)
    elif isinstance(node, All | AnyOf):
        for each in node.nodes:
            yield from paths_of(each)


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self._start = at
        self._depth = 0

    @property
    def is_at_end(self) -> bool:
        self._skip_blanks()
        return self.at >= len(self.text)

    def error(self, message: str) -> ExpressionError:
        rest = self.text[self.at : self.at + 20]
        got = f"got {rest!r}" if rest else "got nothing more"
        return ExpressionError(f"{message}, {got} at character {self.at - self._start + 1}")

    def meets(self, symbols: str) -> bool:
        """Return True if one of the symbols comes next."""
        self._skip_blanks()
        return self.text[self.at : self.at + 1] in tuple(symbols)

    def expect(self, symbol: str, message: str) -> None:
        if not self._take_symbol(symbol):
            raise self.error(message)

    def any_of(self) -> Node:
        nodes = [self._read_all()]
        while self._take_word("or"):
            nodes.append(self._read_all())
        return nodes[0] if len(nodes) == 1 else AnyOf(tuple(nodes))

    def _read_all(self) -> Node:
        nodes = [self._read_negation()]
        while self._take_word("and"):
            nodes.append(self._read_negation())
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _read_negation(self) -> Node:
        is_negated = False
        while self._take_word("not"):
            is_negated = not is_negated
        node = self._read_comparison()
        return Not(node) if is_negated else node

    def _read_comparison(self) -> Node:
        left = self._read_operand()
        symbol = self._read_symbol()
        if symbol is None:
            return left
        node = Comparison(symbol, left, self._read_operand())
        if self._read_symbol() is not None:
            raise self.error("a comparison has two sides; join several with 'and'")
        return node

    def _read_symbol(self) -> str | None:
        for symbol in _SYMBOLS:
            if self._take_symbol(symbol):
                return symbol
        if self._take_word("in"):
            return "in"
        before = self.at
        if self._take_word("not"):
            if self._take_word("in"):
                return "not in"
            self.at = before
        if self.text.startswith("=", self._rest_begins):
            raise self.error("to compare write ==")
        return None

    def _read_operand(self) -> Node:
        if self._take_symbol("("):
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise self.error(f"parentheses are nested deeper than {_MAX_DEPTH} levels")
            node = self.any_of()
            self.expect(")", "a parenthesis is not closed: expected )")
            self._depth -= 1
            return node
        if self._take_symbol("${"):
            node = self.value()
            self.expect("}", _REFERENCE_ENDS)
            return node
        return self.value()

    def value(self) -> Node:
        """Read a value, or alternatives of which the first present one counts."""
        options = [self._read_option()]
        while self._take_symbol("??"):
            options.append(self._read_option())
        return options[0] if len(options) == 1 else FirstOf(tuple(options))

    def _read_option(self) -> Literal | Path:
        self._skip_blanks()
        if self.text.startswith(('"', "[", "{"), self.at) or _NUMBER.match(self.text, self.at):
            return self._read_json()
        if quoted := self._match_pattern(_SINGLE_QUOTED):
            return self._make_literal(quoted[1])
        before = self.at
        word = self._match_pattern(_WORD)
        if word is not None and word[0] in _CONSTANTS:
            return Literal(_CONSTANTS[word[0]])
        if word is not None and word[0] in _ROOTS:
            return Path(word[0], tuple(self._read_parts()))
        self.at = before
        if word is not None and word[0] not in _KEYWORDS:
            raise _unknown_error(word[0])
        raise self.error("expected a reference or a value")

    def _read_json(self) -> Literal:
        try:
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            hint = "; a parameter is params.NAME" if self.meets("{") else ""
            raise self.error(f"expected a value as JSON writes it{hint}") from None
        return self._make_literal(value)

    def _make_literal(self, value: Any) -> Literal:
        if isinstance(value, str) and "${" in value:
            raise ExpressionError(
                f"the text {value!r} in quotes stays as it is; write the reference without quotes"
            )
        return Literal(value)

    def _read_parts(self) -> Iterator[str | int]:
        while True:
            if self.text.startswith(".", self.at):
                self.at += 1
                key = _KEY.match(self.text, self.at)
                if key is None:
                    raise self.error('expected a key after the dot; another key stands in ["..."]')
                self.at = key.end()
                yield key[0]
            elif self.text.startswith("[", self.at):
                self.at += 1
                yield self._read_bracketed()
            else:
                return

    def _read_bracketed(self) -> str | int:
        if position := self._match_pattern(_POSITION):
            return int(position[1])
        self._skip_blanks()
        if not self.text.startswith(('"', "'"), self.at):
            raise self.error('expected a position such as [0], or a key such as ["a b"]')
        key: str = self._read_option().value  # type: ignore[union-attr]
        self.expect("]", "a bracket is not closed: expected ]")
        return key

    @property
    def _rest_begins(self) -> int:
        found = _BLANKS.match(self.text, self.at)
        return self.at if found is None else found.end()

    def _skip_blanks(self) -> None:
        self.at = self._rest_begins

    def _match_pattern(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _take_symbol(self, symbol: str) -> bool:
        at = self._rest_begins
        if not self.text.startswith(symbol, at):
            return False
        self.at = at + len(symbol)
        return True

    def _take_word(self, word: str) -> bool:
        found = _WORD.match(self.text, self._rest_begins)
        if found is None or found[0] != word:
            return False
        self.at = found.end()
        return True


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _no_number(text: str) -> float:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(parse_float=_finite_number, parse_constant=_no_number)


def _shown_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _KEY.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"


def _unknown_error(word: str) -> ExpressionError:
    if word in _SECRETS:
        return ExpressionError(
            f"a workflow reads no {word!r}; the tool that needs a secret takes it in its own entry"
        )
    if word in _OF_PARAMS:
        return ExpressionError(f"{word!r} is unknown; did you mean 'params'?")
    return ExpressionError(
        f"{word!r} is unknown; a reference begins with params, steps, item or index, such as "
        f"params.{word} or steps.{word}.output, and a text stands in quotes, such as '{word}'"
    )
