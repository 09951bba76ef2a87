"""Is the number of names in metrics bounded, whatever comes?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.observability.labels import OTHER, LabelLimit


def test_first_come() -> None:
    """The first names keep theirs for good; the rest, and what has no name, are `other`."""
    labels = LabelLimit("max_tools", 2)
    assert [labels.label(name) for name in ("a", None, "b", "c", "a", "b", "c")] == [
        *("a", OTHER, "b", OTHER),
        *("a", "b", OTHER),
    ]


def test_known_names() -> None:
    """What is known beforehand always has its name, whatever came first."""
    labels = LabelLimit("errors", 1, ["timeout", "cancelled"])
    assert [labels.label(name) for name in ("own", "another", "timeout", "cancelled", "own")] == [
        *("own", OTHER, "timeout", "cancelled", "own"),
    ]


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, None])
def test_wrong_limit(limit: Any) -> None:
    """A limit is a whole number of 1 or more."""
    with pytest.raises(ConfigurationError, match="max_tools must be a whole number"):
        LabelLimit("max_tools", limit)
