"""Which terms stand for a text, however it is written?

A term is a folded, stemmed word: `getWeather`, `get_weather` and "Getting the weather" share two.
Scripts that put no space between words give pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LONGEST_WORD: Final = 64
_SPACELESS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(r"[^\W_]+(?:[_.\-]+[^\W_]+)*")
_PAIRED: Final = re.compile(rf"[{_SPACELESS}]")
_PIECE: Final = re.compile(rf"[{_SPACELESS}]+|[^\W_{_SPACELESS}]+")
# The last rule keeps the plural of an acronym whole: `URLs`.
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")

_LITTLE_WORDS: Final = (
    "a an and are as at be by can could do does for from give has have how i in into is it its let "
    "me my of on or our please that the their them then there these this to us use want was we "
    "what when where which who will with would you your"
)
_STOP_WORDS: Final = frozenset(_LITTLE_WORDS.split())
_UNCHANGED: Final = frozenset(["news"])
_PLURALS: Final = (
    ("sses", "ss"),
    ("ies", "y"),
    ("ied", "y"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("ss", "ss"),
    ("us", "us"),
    ("s", ""),
)
_VERBS: Final = (("ating", "ate"), ("ated", "ate"), ("ing", ""), ("ed", ""))
_NOUNS: Final = tuple((end, "") for end in ("ation", "ator", "ment", "ate", "ion", "er", "or", "e"))
_ENDINGS: Final = (_PLURALS, _VERBS, _NOUNS)
_SHORTEST_STEM: Final = 3
_SHORTEST_SINGULAR: Final = 2


class Terms:
    """Turns texts into terms; remembers the terms of known words."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, text: str) -> list[str]:
        """Return the terms of any text, in its order, with repetitions."""
        if not text.isascii():
            text = _without_accents(text)
        known = self._known
        found: list[str] = []
        for word in _WORD.findall(text):
            terms = known.get(word)
            if terms is None:
                terms = known[word] = _terms_of_word(word)
            found.extend(terms)
        return found


def stem(word: str) -> str:
    """Return the part of a lower-case English word that its forms share.

    Example:
        >>> [stem(word) for word in ("translate", "translation", "translators")]
        ['transl', 'transl', 'transl']
    """
    if word in _UNCHANGED or not word.isalpha():
        return word
    for endings in _ENDINGS:
        shortest = _SHORTEST_SINGULAR if endings is _PLURALS else _SHORTEST_STEM
        for ending, instead in endings:
            if word.endswith(ending) and len(word) - len(ending) + len(instead) >= shortest:
                word = word[: len(word) - len(ending)] + instead
                break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        word = word[:-1]
    return word


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed))


def _terms_of_word(word: str) -> tuple[str, ...]:
    """Return the terms of a word and its parts: `e-mail`, `GitHub`."""
    parts = [part for piece in _PIECE.findall(word) for part in _HUMP.split(piece)]
    terms = [term for part in parts for term in _terms_of_part(part)]
    if len(parts) > 1 and len(word) <= _LONGEST_WORD and word.isascii():
        terms.append(stem("".join(parts).lower()))
    return tuple(terms)


def _terms_of_part(part: str) -> list[str]:
    if _PAIRED.match(part):
        return [part[at : at + 2] for at in range(max(len(part) - 1, 1))]
    folded = part.casefold()[:_LONGEST_WORD]
    if folded in _STOP_WORDS:
        return []
    return [stem(folded) if folded.isascii() else folded]
