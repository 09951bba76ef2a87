"""How does a JSON value differ from the expected one?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from tool_engine.catalog.yaml.document import Path, format_path

_MOST_SHOWN: Final = 10
_MOST_CHARACTERS: Final = 300


def find_differences(
    expected: Any, got: Any, *, root: str = "output", is_partial: bool = False
) -> list[str]:
    """Return at most ten places where `got` is not as expected.

    Equality is that of JSON: 1 equals 1.0 but not true, and the order of keys does not matter.

    Args:
        expected: A JSON value.
        got: A JSON value.
        root: The name that the places begin with.
        is_partial: A mapping in `got` may hold more keys than the expected one.
    """
    found = _find_differences(expected, got, (root,), is_partial)
    shown = list(islice(found, _MOST_SHOWN))
    more = sum(1 for _ in found)
    return [*shown, f"and {more} more differences"] if more else shown


def json_line(value: Any) -> str:
    """Return `value` as JSON on one line, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… ({len(text) - _MOST_CHARACTERS} characters more)"


def _find_differences(expected: Any, got: Any, path: Path, is_partial: bool) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(got, dict):
        yield from _in_mappings(expected, got, path, is_partial)
    elif isinstance(expected, list) and isinstance(got, list):
        yield from _in_lists(expected, got, path, is_partial)
    elif not _is_same(expected, got):
        yield f"{format_path(path)}: expected {json_line(expected)}, got {json_line(got)}"


def _in_mappings(
    expected: dict[str, Any], got: dict[str, Any], path: Path, is_partial: bool
) -> Iterator[str]:
    for key, value in expected.items():
        if key in got:
            yield from _find_differences(value, got[key], (*path, key), is_partial)
        else:
            yield f"{format_path((*path, key))}: expected {json_line(value)}, but it is missing"
    for key, value in got.items():
        if key not in expected and not is_partial:
            yield f"{format_path((*path, key))}: not expected, got {json_line(value)}"


def _in_lists(
    expected: Sequence[Any], got: Sequence[Any], path: Path, is_partial: bool
) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(expected, got, strict=False)):
        yield from _find_differences(one, other, (*path, number), is_partial)
    if len(expected) != len(got):
        yield f"{format_path(path)}: expected {len(expected)} items, got {len(got)}"


def _is_same(one: Any, other: Any) -> bool:
    # Python takes True for 1; JSON does not.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
