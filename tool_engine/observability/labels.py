"""Under which name does a metric count a tool or a bucket, so that there are never too many?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tool_engine.model.checks.bounds import check_count

__all__ = ["OTHER", "LabelLimit"]

OTHER: Final = "other"
"""What has no name of its own in metrics: names beyond the limit, and those of no tool."""


class LabelLimit:
    """The values of one label: the first `limit` names that come, and `other` for the rest.

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
        """The label for `name`; None stands for what has no name."""
        if name in self._known:
            return str(name)
        if name is None or len(self._known) >= self._limit:
            return OTHER
        self._known.add(name)
        return name
