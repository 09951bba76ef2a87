"""Which characters of a text are code to another reader of CommonMark?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["in_code"]

_READER: Final = MarkdownIt("commonmark")
_CODE: Final = ("code_inline", "code_block", "fence")


def in_code(text: str) -> set[str]:
    """The characters that stand in inline code or in a block of code."""
    return {
        character
        for token in _all(_READER.parse(text))
        if token.type in _CODE
        for character in token.content + token.info
    }


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())
