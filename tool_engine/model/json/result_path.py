"""How is a place in an output written as text and read back?

The text is the plain part of JMESPath: names with dots between them, names that are no words in
double quotes, positions in brackets, such as `items[3]."first name"`. Functions, filters and
wildcards are not part of it: a path is written by a model, and must not make work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

ResultPath: TypeAlias = tuple[str | int, ...]
"""The keys and positions on the way to a value."""

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP: Final = re.compile(
    r"""(?P<dot>\.)?(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<quoted>"(?:[^"\\]|\\.)*"))"""
    r"""|\[(?P<position>[0-9]{1,15})\]""",
    re.DOTALL,
)


def write_path(path: Iterable[str | int]) -> str:
    """Return the path as text; empty for the whole output."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _WORD.fullmatch(step) else _quote_name(step)
            text += f".{name}" if text else name
    return text


def read_path(text: str) -> ResultPath:
    """Return the path that `text` describes.

    Raises:
        ValueError: It says none; the message names the place.
    """
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        found = _STEP.match(text, place)
        is_sound = found is not None and (
            found["position"] is not None or (found["dot"] is not None) is bool(steps)
        )
        if found is None or not is_sound:
            raise ValueError(
                f"not a path: {text[:80]!r} at character {place + 1}; write names with dots "
                'between them and positions in brackets, such as items[3].name or "first name"'
            )
        steps.append(_step_of(found, text))
        place = found.end()
    return tuple(steps)


def _step_of(found: re.Match[str], text: str) -> str | int:
    if found["position"] is not None:
        return int(found["position"])
    if found["word"] is not None:
        return found["word"]
    try:
        return msgspec.json.decode(found["quoted"], type=str)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(
            f"not a path: {text[:80]!r}: {found['quoted'][:40]} is no JSON text"
        ) from error


def _quote_name(name: str) -> str:
    return msgspec.json.encode(name.encode("utf-8", "backslashreplace").decode()).decode()
