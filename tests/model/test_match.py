"""One answer to a search."""

from __future__ import annotations

from tests.catalog.search_catalog import catalog
from tool_engine.model.match import ToolMatch


def test_a_match_tells_of_its_tool() -> None:
    """Whoever lists matches needs the name and the description, and not the rest of the tool."""
    tool = catalog()[0]
    match = ToolMatch(tool, 2.5)
    assert (match.name, match.description, match.score) == (tool.name, tool.description, 2.5)
