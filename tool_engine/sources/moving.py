"""How does a saved conversation find its sources again in another order?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tool_engine.interfaces.source import Source
from tool_engine.sources.identity import engine_text

_WORD: Final = re.compile(r"(?<!\S)tool:(?:source-(\d+):)?([^:\s]*)(?!\S)")
_USED: Final = re.compile(r"(\S+)(?: of source (\d+))?")


def sources_of(catalog: Source) -> list[str]:
    """Return the engines of a conversation, in their order; see `engine_of`."""
    return [engine_text(catalog, each) for each in catalog.list_origins()]


class Moves:
    """Map the former places of a conversation's sources to the present ones.

    Args:
        before: Those that it had when it was kept; none: they are unknown.
        now: Those that it has.
    """

    def __init__(self, before: Sequence[str], now: Sequence[str]) -> None:
        # Nothing that is here now is at place 0: what came from there is no source's own.
        found = {each: number for number, each in enumerate(now, 1)}
        self._places = {number: found.get(each, 0) for number, each in enumerate(before, 1)}

    def __bool__(self) -> bool:
        return any(before != now for before, now in self._places.items())

    def labels(self, labels: Iterable[str]) -> frozenset[str]:
        """Return the labels with the present places of their sources."""
        return frozenset(_WORD.sub(self._move_word, each) for each in labels)

    def variables(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the saved variables of a `VariableStore` with such labels."""
        moved = {name: list(map(self._move_labels, data.get(name, ()))) for name in _LABELLED}
        return {**data, **moved}

    def uses(self, uses: Mapping[str, int]) -> dict[str, int]:
        """Return the counts by tool; one whose source is unclear keeps its place."""
        moved: dict[str, int] = {}
        for tool, count in uses.items():
            found = _USED.fullmatch(tool)
            name = tool if found is None else self._move_use(found)
            moved[name] = max(count, moved.get(name, 0))
        return moved

    def _move_use(self, found: re.Match[str]) -> str:
        before = int(found[2] or 1)
        place = self._places.get(before) or before
        return found[1] if place == 1 else f"{found[1]} of source {place}"

    def _move_word(self, found: re.Match[str]) -> str:
        before = int(found[1] or 1)
        place = self._places.get(before, before)
        return f"tool:{found[2]}" if place == 1 else f"tool:source-{place}:{found[2]}"

    def _move_labels(self, data: Any) -> Any:
        if not isinstance(data, Mapping) or not isinstance(data.get("labels"), list):
            return data  # the reader reports what is wrong
        return {**data, "labels": sorted(self.labels(data["labels"]))}


_LABELLED: Final = ("variables", "traces")
