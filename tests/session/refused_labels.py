"""The labels of a content that a tool does not accept."""

from __future__ import annotations

from collections.abc import Iterable

from tool_engine.session.variables.accepts import find_refused_labels

__all__ = ["list_refused_labels"]


def list_refused_labels(
    labels: Iterable[str], accepts: Iterable[str] | None, source: str = ""
) -> list[str]:
    """Those that `find_refused_labels` finds, as the tool reads them, sorted."""
    return sorted(shown for shown, _ in find_refused_labels(labels, accepts, source))
