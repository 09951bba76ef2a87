"""How do tools and buckets become metric labels, so that there are never too many?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tool_engine.model.checks.bounds import check_count

OTHER: Final = "other"
"""The label of names beyond the limit, and of calls of no tool."""


class LabelLimit:
    """Values of one label: the first `limit` names, and `other` for the rest.

    A name keeps its label for good, so that no series changes its meaning.

    Args:
        field: The name of the setting, for its error.
        limit: The most names.
        known: Names that always have their own, beside those.

    Raises:
        ConfigurationError: The limit is not a whole number of 1 or more.
    """

    def __init__(self, field: str, limit: int, known: Iterable[str] = ()) -> None:
        check_count(field, limit, minimum=1)
        self._known: set[str] = set(known)
        self._limit = limit + len(self._known)

    def label(self, name: str | None) -> str:
        """Return the label for `name`; None stands for what has no name."""
        if name in self._known:
            return str(name)
        if name is None or len(self._known) >= self._limit:
            return OTHER
        self._known.add(name)
        return name
