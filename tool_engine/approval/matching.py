"""Does an argument match a pattern, or a disguised form of it?

An exact match is quick. Strict rules also match other spellings and lists that contain them: lists
may be long, so all that is in one is checked together.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from tool_engine.model.json.returned_value import to_text
from tool_engine.visible import is_deceptive, without_unseen

_WILD: Final = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
_PART: Final = re.compile(rf"{_WILD.pattern}|.", re.S)
_MAPPING: Final = (dict, Mapping)
_CONTAINER: Final = (dict, list, tuple, Mapping)
"""Ordered by how quickly each type is checked."""
_OTHER_PATHS: Final = ("//", "/.", "./", "/\n", "\\")
"""A path not in its plain form contains one of these, once a line break is added."""
_LONGEST_NESTED: Final = 262_144
"""Characters of nested lists that are written out; longer ones count as alike."""


def is_pattern(glob: str) -> bool:
    return _WILD.search(glob) is not None


def spelled_in(glob: str) -> int:
    """Return how many literal letters the pattern contains."""
    return len(_WILD.sub("", glob))


def is_match(text: str, glob: str) -> bool:
    """Return True if a text matches `*`, `?` and `[...]`, case-sensitively."""
    if not is_pattern(glob):
        return text == glob
    # In a long text the search for a literal piece is much quicker.
    return _find_literal(glob) in text and _compile_glob(glob).match(text) is not None


class _Inside(NamedTuple):
    """All that a list or mapping contains, at any depth."""

    texts: set[str]
    """Texts, and numbers in their JSON form."""
    together: str
    spellings: set[str]
    numbers: set[float]
    others: list[Any]
    nested: list[Any]


class _Forms(NamedTuple):
    """The forms that a text may stand for."""

    plain: set[str]
    seen: set[str]
    """The text without invisible characters; empty if it has none."""


class Argument:
    """One argument of a call, for all rules about it.

    The value must not change while rules look at it.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def fits(self, glob: str) -> bool:
        """Return True if value or JSON matches and is not deceptive."""
        if isinstance(self._value, _CONTAINER) and not _may_be_json(glob):
            return False
        return is_match(self._as_text, glob) and not self._is_deceptive

    def is_like(self, glob: str) -> bool:
        """Return True if another spelling or a contained value matches."""
        value = self._value
        if not isinstance(value, _CONTAINER):
            return _is_form(self._all_forms, glob) or _is_number_like(value, glob)
        if _may_be_json(glob) and _is_form(self._all_forms, glob):
            return True
        return _is_inside(self._all_inside, glob)

    @cached_property
    def _as_text(self) -> str:
        return to_text(self._value)

    @cached_property
    def _all_forms(self) -> _Forms:
        return _forms_of(self._as_text)

    @cached_property
    def _is_deceptive(self) -> bool:
        parts = self._as_text.replace("\\", "/").split("/")
        return ".." in parts or is_deceptive(self._as_text)

    @cached_property
    def _all_inside(self) -> _Inside:
        return _inside_of(self._value)


@lru_cache(4096)
def _find_literal(glob: str) -> str:
    """Return the longest literal piece of the pattern."""
    return max(_WILD.split(glob), key=len)


@lru_cache(4096)
def _compile_glob(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))


@lru_cache(4096)
def _may_be_json(glob: str) -> bool:
    """Return True if the JSON of a container may match."""
    parts = _PART.findall(glob) or [""]
    ends = ((parts[0], "[{"), (parts[-1], "]}"))
    return all(any(is_match(each, part) for each in marks) for part, marks in ends)


def _is_text_like(text: str, glob: str) -> bool:
    return is_match(text, glob) or _is_form(_forms_of(text), glob)


def _forms_of(text: str) -> _Forms:
    plain = {text, unicodedata.normalize("NFC", text)}
    return _Forms(_spell_texts(plain), _spell_texts({_strip_unseen(text)} - plain))


def _spell_texts(texts: set[str]) -> set[str]:
    bare = texts | {each.strip() for each in texts}
    return bare | set(map(_normalize_path, bare))


def _is_form(forms: _Forms, glob: str) -> bool:
    if any(is_match(text, each) for each in _spell_glob(glob) for text in forms.seen):
        return True
    plain = unicodedata.normalize("NFC", glob)
    return any(is_match(text, each) for each in {glob, plain} for text in forms.plain)


def _strip_unseen(text: str) -> str:
    # Letters that an invisible character separated may be one letter now.
    return unicodedata.normalize("NFC", without_unseen(text))


@lru_cache(4096)
def _spell_glob(glob: str) -> frozenset[str]:
    """Return the pattern with the same characters removed as in texts' forms."""
    plain, seen = unicodedata.normalize("NFC", glob), _strip_unseen(glob)
    # A pattern of invisible characters only would match everything without them.
    return frozenset({glob, plain} | ({seen} if _WILD.sub("", seen).strip() else set()))


def _normalize_path(text: str) -> str:
    if text and not _is_other_path(f"{text}\n"):
        return text
    return posixpath.normpath(text.replace("\\", "/"))


def _is_other_path(lines: str) -> bool:
    return any(each in lines for each in _OTHER_PATHS)


def _is_number_like(value: Any, glob: str) -> bool:
    if isinstance(value, bool):
        return is_match(str(value), glob)
    if not isinstance(value, int | float):
        return False
    if isinstance(value, float) and value.is_integer() and is_match(str(int(value)), glob):
        return True
    return value == _parse_number(glob)


@lru_cache(4096)
def _parse_number(glob: str) -> float | None:
    with suppress(ValueError):
        return float(glob)
    return None


def _is_inside(inside: _Inside, glob: str) -> bool:
    if _parse_number(glob) in inside.numbers:
        return True
    if any(_has_match(inside.spellings, None, each) for each in _spell_glob(glob)):
        return True
    plain = unicodedata.normalize("NFC", glob)
    if any(_has_match(inside.texts, inside.together, each) for each in {glob, plain}):
        return True
    for each in inside.others:
        if _is_text_like(to_text(each), glob) or _is_number_like(each, glob):
            return True
    # What matches `*word*` in a part of the JSON also does in the whole.
    return _may_be_json(glob) and glob[0] + glob[-1] != "**" and _is_nested(inside.nested, glob)


def _has_match(texts: set[str], together: str | None, glob: str) -> bool:
    if not is_pattern(glob):
        return glob in texts
    if together is not None and _find_literal(glob) not in together:
        return False
    return any(map(_compile_glob(glob).match, texts))


def _is_nested(nested: Iterable[Any], glob: str) -> bool:
    left = _LONGEST_NESTED
    for each in nested:
        text = to_text(each)
        left -= len(text)
        if left < 0 or _is_text_like(text, glob):
            return True
    return False


def _inside_of(value: Any) -> _Inside:
    texts: set[str] = set()
    whole: set[int] = set()
    broken: set[float] = set()
    # By identity: each object is read once, and a cycle ends.
    others: dict[int, Any] = {}
    nested: dict[int, Any] = {id(value): value}
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for item in holder.values() if isinstance(holder, _MAPPING) else holder:
            kind = type(item)
            if kind is str:
                texts.add(item)
            elif kind is int:
                whole.add(item)
            elif kind is float:
                broken.add(item)
            elif not isinstance(item, _CONTAINER):
                others[id(item)] = item
            elif id(item) not in nested:
                nested[id(item)] = item
                waiting.append(item)
    texts, spellings, together = _write_texts(texts)
    numbers = _write_numbers(whole).union(map(repr, broken))
    numbers |= {str(int(each)) for each in broken if each.is_integer()}
    together = "\n".join((together, *numbers))
    texts |= numbers
    listed = list(others.values()), list(nested.values())[1:]
    return _Inside(texts, together, spellings, whole | broken, *listed)


def _write_numbers(numbers: set[int]) -> set[str]:
    try:
        return set(map(repr, numbers))
    except ValueError:
        # Python writes no number of more than 4,300 digits.
        return set(map(to_text, numbers))


def _write_texts(texts: set[str]) -> tuple[set[str], set[str], str]:
    """Return the texts, their other forms, and all texts as lines."""
    together = "\n".join(texts) + "\n"
    plain = texts
    if not together.isascii():
        try:
            together.encode()
        except UnicodeEncodeError:
            plain = texts = set(map(to_text, texts))
            together = "\n".join(texts) + "\n"
        if not unicodedata.is_normalized("NFC", together):
            plain = {unicodedata.normalize("NFC", each) for each in texts}
    spellings = plain - texts
    if without_unseen(together) != together:
        spellings |= set(map(_strip_unseen, plain)) - texts
    if "\n".join([*together.split(), ""]) != together:
        # There is a blank somewhere.
        spellings |= {bare for each in plain | spellings if (bare := each.strip()) != each}
    if "" in texts or "" in spellings or _is_other_path("\n".join((together, *spellings, ""))):
        spellings |= set(map(_normalize_path, plain | spellings))
    return texts, spellings, together
