"""An attribute that an engine has not: the error says where what was meant is."""

from __future__ import annotations

import re
from operator import attrgetter

import pytest

from tool_engine import ToolEngine
from tool_engine.missing_attributes import _MEANT


@pytest.mark.parametrize(
    "name",
    [*_MEANT, "explain", "snapshot", "pause", "drain", "tools_directory", "excute", "get_stats"],
)
def test_what_is_told_is_there(name: str) -> None:
    engine = ToolEngine()
    with pytest.raises(AttributeError) as raised:
        getattr(engine, name)
    found = re.search(r"(?:it is engine\.|did you mean ')([\w.]+)", str(raised.value))
    assert found, raised.value
    attrgetter(found[1])(engine)


@pytest.mark.parametrize("name", ["_private", "__len__", "qqqq"])
def test_nothing_is_made_up(name: str) -> None:
    """What is like nothing has Python's own words, and `hasattr` is false."""
    engine = ToolEngine()
    assert not hasattr(engine, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'$"):
        getattr(engine, name)
