"""How is a statement's text read so that a value can never become a part of it?

A text is cut into pieces once, when its tool is loaded: text, `:name` for a value, `{name}` for a
chosen identifier. Strings, quoted names and comments are text, whatever they look like. Rendering
joins the pieces and puts a numbered place where a value belongs; the value itself goes to the
database separately.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

MAX_CHARACTERS: Final = 100_000
"""Of one statement: cutting it takes the event loop 0.05 s."""


class StatementError(ValueError):
    """Not one statement with `:name` parameters; the message gives the cure."""


class Value(msgspec.Struct, frozen=True):
    name: str
    is_null_test: bool = False
    """True if IS NULL or IS NOT NULL follows, which leaves its type open."""


class Membership(msgspec.Struct, frozen=True):
    """`IN :names`, or `IN (:names)`: one value or a list of them."""

    name: str
    is_negated: bool
    has_parentheses: bool


class Identifier(msgspec.Struct, frozen=True):
    """The place of a chosen column, table or order: `{name}`."""

    name: str


Piece = str | Value | Membership | Identifier


class Dialect(msgspec.Struct, frozen=True):
    mark: str
    """The start of a place, such as `$` for `$1`."""
    member: str
    """The test for a member of the list in the place `{}`."""
    not_member: str
    null_test: str = ""
    """The cast of a place that only has an IS NULL test."""


class Statement(msgspec.Struct, frozen=True):
    """One statement, without the semicolon at its end."""

    pieces: tuple[Piece, ...]
    keyword: str
    inner_keywords: frozenset[str]
    """The first words in parentheses, in capitals: what a CTE or a sub-query does."""

    @property
    def values(self) -> set[str]:
        return {piece.name for piece in self.pieces if isinstance(piece, Value | Membership)}

    @property
    def identifiers(self) -> set[str]:
        return {piece.name for piece in self.pieces if isinstance(piece, Identifier)}

    def render(
        self, dialect: Dialect, lists: Collection[str], chosen: Mapping[str, str]
    ) -> tuple[str, list[str]]:
        """Return the text for one database, and its values' names by number.

        A parameter that is used twice has one number, so that both uses have one type. `chosen`
        holds the quoted identifiers.
        """
        numbers: dict[tuple[str, str], int] = {}
        texts: list[str] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                texts.append(piece)
            elif isinstance(piece, Identifier):
                texts.append(chosen[piece.name])
            else:
                cast = ""
                if isinstance(piece, Value) and piece.is_null_test:
                    cast = dialect.null_test
                number = numbers.setdefault((piece.name, cast), len(numbers) + 1)
                place = f"{dialect.mark}{number}{cast}"
                texts.append(_place_piece(piece, place, dialect, lists))
        return "".join(texts), [name for name, _ in numbers]


def _place_piece(
    piece: Value | Membership, place: str, dialect: Dialect, lists: Collection[str]
) -> str:
    if isinstance(piece, Value):
        return place
    if piece.name in lists:
        return (dialect.not_member if piece.is_negated else dialect.member).format(place)
    return f"{'NOT ' * piece.is_negated}IN ({place})"


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str


_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<string>[eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*`)
    | (?P<dollar>\$(?P<tag>[^\W\d]\w*)?\$)
    | (?P<cast>::|:=)
    | :(?P<value>[^\W\d]\w*)
    | \{(?P<identifier>[^\W\d]\w*)\}
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<place>\$\w+|\?\d+)
    | (?P<open>['"`])
    | (?P<end>;)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_OPEN: Final = {"'": "string", '"': "quoted name", "`": "quoted name"}


def parse_statement(text: str) -> Statement:
    """Read one whole statement, whose only places are `:name`; raise `StatementError`."""
    if len(text) > MAX_CHARACTERS:
        raise StatementError(
            f"has {len(text)} characters, and a statement has at most {MAX_CHARACTERS}; put what "
            "is long into a view of the database"
        )
    if "\0" in text:
        raise StatementError("holds a NUL character; remove it")
    tokens = _single_statement(list(_split_tokens(text)))
    words = [token for token in tokens if token.kind != "space"]
    if not words:
        raise StatementError("holds no statement; write one, such as SELECT name FROM shops")
    return Statement(tuple(_make_pieces(tokens)), _first_keyword(words), _inner_keywords(words))


def _split_tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101 - the last alternative takes any character
        kind, end = match.lastgroup or "other", match.end()
        if kind == "tag":
            kind = "dollar"
        if kind == "comment":
            kind, end = "space", _end_of_comment(text, at)
        elif kind == "dollar":
            kind, end = "string", _end_of_dollar(text, match)
        elif kind == "place":
            raise StatementError(f"has {match.group()!r}; write a value's place as :name")
        elif kind == "open":
            raise StatementError(
                f"has a {_OPEN[match.group()]} without end: {text[at : at + 40]!r}"
            )
        yield _Token(kind, match[kind] if kind in _NAMES else text[at:end])
        at = end


_NAMES: Final = ("value", "identifier")


def _end_of_comment(text: str, at: int) -> int:
    edge = _COMMENT_EDGE.search(text, at + 2)
    if edge is None:
        raise StatementError(f"has a comment without end: {text[at : at + 40]!r}")
    if edge.group() == "/*":
        # PostgreSQL nests comments and SQLite does not: they would read different statements.
        raise StatementError("has a comment inside a comment; remove one")
    return edge.end()


def _end_of_dollar(text: str, match: re.Match[str]) -> int:
    end = text.find(match.group(), match.end())
    if end < 0:
        raise StatementError(f"has a string without end: {match.group()!r}")
    return end + len(match.group())


def _single_statement(tokens: list[_Token]) -> list[_Token]:
    ends = [place for place, token in enumerate(tokens) if token.kind == "end"]
    if not ends:
        return tokens
    for token in tokens[ends[0] :]:
        if token.kind not in ("end", "space"):
            raise StatementError(
                f"holds more than one statement: {token.text[:40]!r} follows a semicolon; a tool "
                "runs one"
            )
    return tokens[: ends[0]]


def _make_pieces(tokens: list[_Token]) -> Iterator[Piece]:
    text: list[str] = []
    at = 0
    while at < len(tokens):
        found = _read_membership(tokens, at)
        piece: Piece
        if found is not None:
            piece, at = found
        elif tokens[at].kind == "value":
            piece, at = Value(tokens[at].text, _is_null_test(tokens, at)), at + 1
        elif tokens[at].kind == "identifier":
            piece, at = Identifier(tokens[at].text), at + 1
        else:
            text.append(tokens[at].text)
            at += 1
            continue
        if text:
            yield "".join(text)
        text = []
        yield piece
    if text:
        yield "".join(text)


def _is_null_test(tokens: list[_Token], at: int) -> bool:
    shape = [_token_shape(tokens[place]) for place in _solid_places(tokens, at + 1, 3)]
    return shape[:2] == ["IS", "NULL"] or shape == ["IS", "NOT", "NULL"]


def _read_membership(tokens: list[_Token], at: int) -> tuple[Membership, int] | None:
    """Return `[NOT] IN :names` at `at`, and where it ends."""
    if tokens[at].kind != "word" or tokens[at].text.upper() not in ("IN", "NOT"):
        return None
    places = _solid_places(tokens, at, 5)
    shape = [_token_shape(tokens[place]) for place in places]
    is_negated = shape[0] == "NOT"
    shape, places = shape[is_negated:], places[is_negated:]
    if shape[:2] == ["IN", ":"]:
        return Membership(tokens[places[1]].text, is_negated, False), places[1] + 1
    if shape[:4] == ["IN", "(", ":", ")"]:
        return Membership(tokens[places[2]].text, is_negated, True), places[3] + 1
    return None


def _solid_places(tokens: list[_Token], at: int, most: int) -> list[int]:
    """Return where the next tokens stand that are no space or comment."""
    # Stop at the last of them: a statement has thousands of words.
    solid = (place for place in range(at, len(tokens)) if tokens[place].kind != "space")
    return list(itertools.islice(solid, most))


def _token_shape(token: _Token) -> str:
    return ":" if token.kind == "value" else token.text.upper()


def _first_keyword(words: list[_Token]) -> str:
    first = next((token for token in words if token.text != "("), words[0])
    return first.text.upper()


def _inner_keywords(words: list[_Token]) -> frozenset[str]:
    pairs = itertools.pairwise(words)
    return frozenset(
        token.text.upper() for before, token in pairs if before.text == "(" and token.kind == "word"
    )
