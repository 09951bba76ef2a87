"""What do the English or Chinese words of a description state?

Words are counted and looked for; nothing here understands a text. In doubt a text counts as right:
a false alarm costs more trust than a missed fault.
"""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CHINESE: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_CHARACTERS_PER_WORD: Final = 1.5
"""A Chinese word has one or two characters, and no blank shows where it ends."""
_EMPTY_WORDS: Final = frozenset({"a", "an", "the", "of", "to", "this", "that", "for", "tool", "is"})

_WHEN: Final = re.compile(
    r"""
      \b(?:use|used|useful|uses|call|choose|prefer|pick|when|whenever|where|if|before|after|once
        |while|during|needs?|needed|wants?|wanted|asks?|asked|intended|meant|helps|suitable)\b
    | 当|用于|用来|用作|适用|适合|如果|若|需要|想要|要求|以便|场景|之前|之后|使用|可用
    | (?<![超定临按准及实小延])时(?![间区长刻效钟])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WHEN_NOT: Final = re.compile(
    r"""
      \b(?:not|no|never|nothing|none|nor|neither|only|cannot|without|instead|except|unless|avoid
        |rather\s+than|other\s+than|at\s+most|up\s+to|limited)\b
    | n['’]t\b
    | 不|勿|仅|只|禁|无法|无需|没有|未|除了|除非|除外|避免|切忌|而非|最多|限于
    """,
    re.VERBOSE | re.IGNORECASE,
)


def word_count(text: str) -> float:
    """Count words; a Chinese character is two thirds of a word."""
    chinese = len(_CHINESE.findall(text))
    return len(_WORD.findall(_CHINESE.sub(" ", text))) + chinese / _CHARACTERS_PER_WORD


def says_when(text: str) -> bool:
    return _WHEN.search(text) is not None


def says_when_not(text: str) -> bool:
    """Return True if `text` draws a line: not, only, without, ..."""
    return _WHEN_NOT.search(text) is not None


def repeats_name(text: str, name: str) -> bool:
    """Return True if all words of `text` are in `name`.

    Example:
        >>> repeats_name("Gets the weather.", "get_weather")
        True
    """
    return _stem_words(text) <= _stem_words(name)


def _stem_words(text: str) -> set[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text.replace("_", " "))
    words = {word.casefold() for word in _WORD.findall(spaced)} - _EMPTY_WORDS
    return {word.removesuffix("s") for word in words}
