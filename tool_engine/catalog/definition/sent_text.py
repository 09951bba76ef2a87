"""Would a number that a request sends change on its way?

`version: 1.10` in a query is the number 1.1, and the server would get `1.1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tool_engine.catalog.definition.fault import Fault, describe
from tool_engine.catalog.yaml.document import Document, Path


def sent_text_faults(document: Document) -> list[Fault]:
    value: Any = document.value
    for part in ("entry", "request"):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return []
    return [
        Fault(
            path,
            f"this number is sent as the text {str(number)!r}",
            expected="text",
            got=describe(number),
            cure="quote it to send what is written",
        )
        for place in ("query", "headers")
        for path, number in _find_numbers(value.get(place), ("entry", "request", place))
        if _is_changed(document, path, number)
    ]


def _find_numbers(value: Any, path: Path) -> Iterator[tuple[Path, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _find_numbers(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_numbers(item, (*path, number))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def _is_changed(document: Document, path: Path, number: float) -> bool:
    (mark,) = document.marks([(path, False)])
    return document.number_as_written(path, mark) != str(number)
