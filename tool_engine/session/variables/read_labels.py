"""Where did all that a session's model has read come from?

A model can retell, translate, encode or split what it has read, so no look at what it types says
what that repeats. All that it types counts as having come from everywhere that it has read from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

OWN_WORDS: Final = frozenset({"model", "rule"})
"""Labels of the model's own words and of rules: a model that reads these
learns nothing new."""
UNKNOWN: Final = "unknown"
"""The label of content of which it is not known where it came from."""
_MOST: Final = 100
"""The most labels that one session remembers one by one."""
_HOST: Final = re.compile(r"(?<=\S)\s+host:\S*")


class ReadLabels:
    """The labels of what a session's model, and those above, have read.

    Args:
        above: Those of the session that it works for, now and later; None: it works for none.
    """

    def __init__(self, above: ReadLabels | None = None) -> None:
        self._above = above
        self._own: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<ReadLabels {', '.join(sorted(self.labels)) or 'none'}>"

    @property
    def labels(self) -> frozenset[str]:
        """The labels of all that may be in what the model types."""
        if self._above is None:
            return self._own
        above = self._above.labels
        return self._own | above if above else self._own

    def has_all(self, labels: frozenset[str]) -> bool:
        """Return True if nothing changes when content with these labels is read."""
        return labels <= self._own

    def note(self, labels: Iterable[str]) -> None:
        """Note that the model reads content with these labels.

        A program that shows its model content itself, such as a page in a message, calls it, too.

        Args:
            labels: Where the content came from, such as `{"crm"}`.
        """
        new = labels if isinstance(labels, frozenset) else frozenset(labels)
        if not new <= self._own:
            self._own = _limit_labels(self._own | (new - OWN_WORDS))


def without_host(label: str) -> str:
    """Return a label without its host, which may be made up."""
    return _HOST.sub("", label)


def _limit_labels(labels: frozenset[str]) -> frozenset[str]:
    """Return labels that are as strict, and not too many."""
    if len(labels) > _MOST:
        labels = frozenset(map(without_host, labels))
    return labels if len(labels) <= _MOST else frozenset({UNKNOWN})
