"""Which value do finished arguments stand for that are no valid JSON?

json-repair proposes a value, and it is accepted only if the text spells it. It sees a number in the
place of each string, so that it cannot change a string's content; its proposal is then compared
with the tokens of the text, one by one: nothing may be missing, added, moved or turned into
something else, but for commas, quotes and comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from tool_engine.errors import MissingExtraError
from tool_engine.protocols.arguments.json_tokens import (
    CONTROL,
    MAX_TOKENS,
    JSONToken,
    TokenKind,
    read_string,
)

try:
    from json_repair import loads
except ImportError as error:
    raise MissingExtraError(
        "to have malformed arguments repaired, run: pip install 'tool-engine[repair]'"
    ) from error

# json-repair takes more than linear time in these; strings do not count, and tokens are bounded.
_MAX_OUTLINE: Final = 40_000
_MOST_JOINTS: Final = 50
"""Words with a string right behind: at each of them json-repair looks through all of the rest."""
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False}
_LITERALS: Final[dict[str, Any]] = {**_WORDS, "None": None}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_NAME: Final = re.compile(r"[^\W\d][\w$-]*")
_TEXT: Final = re.compile(r"[^\W\d][\w .$@/+-]*")
# Words that are values in some language, but not in JSON.
_NO_VALUES: Final = frozenset({"nan", "infinity", "inf", "undefined", "nil", "none", "nothing"})


def repair_text(text: str, tokens: list[JSONToken]) -> tuple[Any, tuple[str, ...]]:
    """Return the value that the text spells, with the repairs needed.

    Raises:
        json.JSONDecodeError: It spells no value for certain. An empty message means only that it
            is no JSON.
    """
    spelling = _Spelling(text, tokens)
    spelling.check_words()
    outline = "".join(spelling.write_outline()) if len(tokens) <= MAX_TOKENS else ""
    if len(tokens) > MAX_TOKENS or len(outline) > _MAX_OUTLINE or spelling.has_many_joints:
        raise json.JSONDecodeError("Malformed, and too long to be repaired,", text, 0)
    try:
        proposed = loads(outline, skip_json_loads=True)
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError("", text, 0) from error
    value = spelling.spell(proposed)
    spelling.expect_end()
    return value, tuple(spelling.repairs)


class _Spelling:
    def __init__(self, text: str, tokens: list[JSONToken]) -> None:
        self._text = text
        self._all = tokens
        self._tokens = [token for token in tokens if token.kind != TokenKind.COMMENT]
        self._place = 0
        self.repairs: dict[str, None] = {}
        if len(self._tokens) != len(tokens):
            self.repairs["comments in the arguments were left out"] = None

    def check_words(self) -> None:
        """Refuse a text with a word that can be no value.

        Of brackets of other kinds json-repair looks through the rest of the text for each.
        """
        for place, token in enumerate(self._tokens):
            word = token.text
            if token.kind == TokenKind.WORD and not (_TEXT.fullmatch(word) or _is_number(word)):
                self._place = place + 1
                raise self._make_refusal()

    def write_outline(self) -> Iterator[str]:
        """Yield the text without comments and with a number for each string."""
        for place, token in enumerate(self._tokens):
            yield (
                f'"{_name_string(place)}"' if token.kind == TokenKind.STRING else f" {token.text} "
            )

    @property
    def has_many_joints(self) -> bool:
        """Return True if a string stands right behind too many words."""
        joints = (
            word.kind == TokenKind.WORD
            and behind.kind == TokenKind.STRING
            and word.text not in _LITERALS
            and _NUMBER.fullmatch(word.text) is None
            for word, behind in pairwise(self._tokens)
        )
        return sum(joints) > _MOST_JOINTS

    def expect_end(self) -> None:
        if self._place < len(self._tokens):
            raise self._make_refusal()

    def spell(self, proposed: Any) -> Any:
        """Return the proposed value as the next tokens spell it, or raise."""
        if isinstance(proposed, dict):
            return self._spell_object(proposed)
        if isinstance(proposed, list):
            return self._spell_array(proposed)
        return self._spell_leaf(proposed)

    def _spell_object(self, proposed: dict[str, Any]) -> dict[str, Any]:
        self._take_token("{")
        value: dict[str, Any] = {}
        for number, (key, item) in enumerate(proposed.items()):
            if number and not self._skip_comma():
                self.repairs["a missing comma was added"] = None
            name = self._spell_key(key)
            if name in value:
                raise self._make_refusal(f"The key {name[:40]!r} stands twice in one object")
            self._take_token(":")
            value[name] = self.spell(item)
        self._end_bracket("}")
        return value

    def _spell_array(self, proposed: list[Any]) -> list[Any]:
        self._take_token("[")
        value = []
        for number, item in enumerate(proposed):
            if number:
                # Two adjacent strings may also be meant as one.
                self._take_token(",")
            value.append(self.spell(item))
        self._end_bracket("]")
        return value

    def _spell_key(self, proposed: object) -> str:
        token = self._next_token()
        if token.kind == TokenKind.STRING:
            return self._spell_string(token, proposed)
        if token.kind != TokenKind.WORD or token.text != proposed or not _is_key(token.text):
            raise self._make_refusal()
        self.repairs["keys without quotes were read as text"] = None
        return token.text

    def _spell_leaf(self, proposed: object) -> Any:
        token = self._next_token()
        if token.kind == TokenKind.STRING:
            return self._spell_string(token, proposed)
        if token.kind != TokenKind.WORD:
            raise self._make_refusal()
        word = token.text
        if word in _LITERALS:
            if word not in ("true", "false", "null"):
                self.repairs["True, False and None were read as true, false and null"] = None
            return self._check_same(_LITERALS[word], proposed)
        if _NUMBER.fullmatch(word):
            return self._check_same(self._read_number(word), proposed)
        if not _TEXT.fullmatch(word) or word.lower() in _NO_VALUES:
            raise self._make_refusal()
        self.repairs[f"a word without quotes was read as text: {word[:40]!r}"] = None
        return self._check_same(word, proposed)

    def _read_number(self, digits: str) -> object:
        try:
            number: object = json.loads(digits)
        except ValueError as error:
            raise self._make_refusal("A number has too many digits") from error
        if number in (float("inf"), float("-inf")):
            raise self._make_refusal("A number is too large")
        return number

    def _spell_string(self, token: JSONToken, proposed: object) -> str:
        self._check_same(_name_string(self._place - 1), proposed)
        try:
            said = read_string(token)
        except ValueError as error:
            message = "An escape that JSON does not know (write a backslash as two)"
            raise self._make_refusal(message) from error
        if token.text[0] == "'":
            self.repairs["strings in single quotes were read as strings"] = None
        if _CONTROL.search(token.text):
            self.repairs[CONTROL] = None
        return said

    def _check_same(self, spelled: Any, proposed: object) -> Any:
        if type(spelled) is not type(proposed) or spelled != proposed:
            raise self._make_refusal()
        return spelled

    def _skip_comma(self) -> bool:
        is_there = self._place < len(self._tokens) and self._tokens[self._place].kind == ","
        self._place += is_there
        return is_there

    def _end_bracket(self, bracket: str) -> None:
        if self._tokens[self._place - 1].kind not in "{[" and self._skip_comma():
            self.repairs["a comma before a closing bracket was left out"] = None
        self._take_token(bracket)

    def _take_token(self, kind: str) -> None:
        if self._next_token().kind != kind:
            raise self._make_refusal()

    def _next_token(self) -> JSONToken:
        if self._place == len(self._tokens):
            raise self._make_refusal()
        self._place += 1
        return self._tokens[self._place - 1]

    def _make_refusal(self, message: str = "") -> json.JSONDecodeError:
        seen = self._tokens[: self._place]
        place = seen[-1].start if seen else 0
        return json.JSONDecodeError(message, self._text, place)


def _name_string(place: int) -> str:
    return f"s{place}"


def _is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None


def _is_key(word: str) -> bool:
    return _NAME.fullmatch(word) is not None and word not in _LITERALS
