"""Which tools fit a query, best first, among thousands?

BM25F over a tool's name, tags, description and parameters, in that order of weight. The lengths
that it corrects for are fixed instead of the catalog's averages, so that a tool's entry does not
depend on the others, and a change of one tool costs work for one.
"""

from __future__ import annotations

import heapq
import math
import re
import struct
import threading
import unicodedata
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tool_engine.catalog.index import ToolIndex
from tool_engine.errors import ConfigurationError
from tool_engine.model.match import ToolMatch
from tool_engine.model.tool import Tool

_NAME: Final = (6.0, 3.0)
"""The weight of a field's words, and how many words such a field usually has."""
_TAGS: Final = (3.0, 3.0)
_DESCRIPTION: Final = (1.5, 20.0)
_PARAMETERS: Final = (0.6, 25.0)
_LENGTH_MATTERS: Final = 0.6
_SATURATION: Final = 4.0
_BITS: Final = 16
"""Bits of a posting for the term's weight; the rest is the tool's number."""
_FULL: Final = (1 << _BITS) - 1
_POSTING: Final = struct.Struct("Q")

_LONGEST_QUERY: Final = 10_000
_MOST_POSTINGS: Final = 10_000
_MOST_GUESSES: Final = 8
_SPELLINGS: Final = 5
_GUESS: Final = 0.5
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class ToolSearch:
    """Finds tools in the snapshot of each search; threads may share it.

    The first search builds it. Later ones first take up the difference between the snapshot that it
    knows and the one to search.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget_index()

    def __repr__(self) -> str:
        return f"ToolSearch({len(self._numbers)} tools, {len(self._postings)} terms)"

    def find(self, index: ToolIndex, query: str, limit: int) -> list[ToolMatch]:
        """Return the enabled tools that fit `query`; see `CatalogView.search_tools`."""
        if not isinstance(query, str):
            raise ConfigurationError(f"query must be a text, got {type(query).__name__}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"limit must be a whole number >= 1, got {limit!r}")
        with self._lock:
            if index is not self._index:
                self._follow_index(index)
            ranked = self._rank_tools(Terms().of(query[:_LONGEST_QUERY]), limit)
        return [ToolMatch(index.get_or_raise(name), score) for name, score in ranked]

    # Keeping up with the snapshots.

    def _forget_index(self) -> None:
        self._index = ToolIndex()
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []
        # Bytes, so that a full garbage collection has nothing to look at: 8 for each tool.
        self._postings: dict[str, bytearray] = {}
        self._sorted_terms: list[str] | None = None

    def _follow_index(self, index: ToolIndex) -> None:
        terms, before, now = Terms(), list(self._index), list(index)
        gone, new = _without_tools(before, now), _without_tools(now, before)
        try:
            if 4 * len(gone) > len(before):
                self._forget_index()
                gone, new = [], now
            for tool in gone:
                self._remove_tool(tool, terms)
            for tool in new:
                self._add_tool(tool, terms)
        except BaseException:
            # Half of a change would be neither snapshot: build everything anew.
            self._forget_index()
            raise
        self._index = index
        self._sorted_terms = None

    def _add_tool(self, tool: Tool, terms: Terms) -> None:
        if not tool.is_enabled:
            return
        if self._free:
            number = self._free.pop()
            self._names[number] = tool.name
        else:
            number = len(self._names)
            self._names.append(tool.name)
        self._numbers[tool.name] = number
        for term, impact in _weigh_terms(tool, terms):
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = bytearray()
            postings += _POSTING.pack(number << _BITS | impact)

    def _remove_tool(self, tool: Tool, terms: Terms) -> None:
        number = self._numbers.pop(tool.name, None)
        if number is None:
            return
        for term, impact in _weigh_terms(tool, terms):
            postings = self._postings[term]
            at = _POSTING.size * array("Q", postings).index(number << _BITS | impact)
            del postings[at : at + _POSTING.size]
            if not postings:
                del self._postings[term]
        self._free.append(number)

    # Answering.

    def _rank_tools(self, terms: list[str], limit: int) -> list[tuple[str, float]]:
        scores: defaultdict[int, float] = defaultdict(float)
        total, spent = len(self._numbers), 0
        for term, share in self._choose_terms(terms):
            postings = array("Q", self._postings[term])
            # The rarest come first; what is left says little, and would take the time.
            if spent and spent + len(postings) > _MOST_POSTINGS:
                break
            spent += len(postings)
            rarity = math.log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5))
            weight = share * rarity / _FULL
            for posting in postings:
                scores[posting >> _BITS] += weight * (posting & _FULL)
        return self._find_best(scores, limit)

    def _find_best(self, scores: dict[int, float], limit: int) -> list[tuple[str, float]]:
        if len(scores) > limit:
            least = heapq.nlargest(limit, scores.values())[-1]
            scores = {number: score for number, score in scores.items() if score >= least}
        names = self._names
        ranked = [(names[number], round(score, 6)) for number, score in scores.items()]
        return sorted(ranked, key=lambda match: (-match[1], match[0]))[:limit]

    def _choose_terms(self, terms: Iterable[str]) -> list[tuple[str, float]]:
        """Return the known terms for a query with weights, rarest first."""
        chosen: dict[str, float] = {}
        guesses = 0
        for term in dict.fromkeys(terms):
            if term in self._postings:
                chosen[term] = 1.0
            elif guesses < _MOST_GUESSES:
                guesses += 1
                for near in self._near_terms(term):
                    chosen.setdefault(near, _GUESS)
        return sorted(chosen.items(), key=lambda item: (len(self._postings[item[0]]), item[0]))

    def _near_terms(self, term: str) -> list[str]:
        """Return terms that an unknown one begins, or nearly spells."""
        found = list(self._begun_by(term)) or [
            near for near in set(_list_misspellings(term)) if near in self._postings
        ]
        return sorted(found, key=lambda near: (-len(self._postings[near]), near))[:_SPELLINGS]

    def _begun_by(self, start: str) -> Iterator[str]:
        if len(start) < 3 and start.isascii():
            return
        if self._sorted_terms is None:
            self._sorted_terms = sorted(self._postings)
        terms = self._sorted_terms
        for at in range(bisect_left(terms, start), len(terms)):
            if not terms[at].startswith(start):
                return
            yield terms[at]


def _without_tools(tools: list[Tool], others: list[Tool]) -> list[Tool]:
    """Return the `tools` whose very objects are not in `others`."""
    known = set(map(id, others))
    return [tool for tool in tools if id(tool) not in known]


def _weigh_terms(tool: Tool, terms: Terms) -> list[tuple[str, int]]:
    """Return each term's weight for a tool, from 1 to `_FULL`."""
    weights: defaultdict[str, float] = defaultdict(float)
    for text, (weight, usual_length) in _list_fields(tool):
        found = terms.of(text)
        each = weight / (1 - _LENGTH_MATTERS + _LENGTH_MATTERS * len(found) / usual_length)
        for term in found:
            weights[term] += each
    return [
        (term, max(1, round(_FULL * weight / (_SATURATION + weight))))
        for term, weight in weights.items()
    ]


def _list_fields(tool: Tool) -> list[tuple[str, tuple[float, float]]]:
    words: list[Any] = []
    for parameter in tool.parameters:
        words += parameter.name, parameter.description
    # A tool made in code may hold anything where a text belongs.
    return [
        (str(tool.name), _NAME),
        (" ".join(map(str, tool.tags)), _TAGS),
        (str(tool.description), _DESCRIPTION),
        (" ".join(map(str, words)), _PARAMETERS),
    ]


def _list_misspellings(word: str) -> Iterator[str]:
    """Yield `word` with one letter left out, added, changed or swapped."""
    if not 4 <= len(word) <= 24 or not word.isascii():
        return
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in _LETTERS:
            yield head + letter + tail
            yield head + letter + tail[1:]


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


# A term is a folded, stemmed word: `getWeather`, `get_weather` and "Getting the weather" share two.
# Scripts that put no space between words give pairs of neighbouring characters.
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


def stem_word(word: str) -> str:
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
        terms.append(stem_word("".join(parts).lower()))
    return tuple(terms)


def _terms_of_part(part: str) -> list[str]:
    if _PAIRED.match(part):
        return [part[at : at + 2] for at in range(max(len(part) - 1, 1))]
    folded = part.casefold()[:_LONGEST_WORD]
    if folded in _STOP_WORDS:
        return []
    return [stem_word(folded) if folded.isascii() else folded]
