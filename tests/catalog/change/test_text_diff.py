"""Do people see which lines differ, and no secret among them?"""

from __future__ import annotations

from tests.catalog.definition.test_showing import make_tool
from tool_engine.catalog.change.text_diff import diff_definitions


def test_lines() -> None:
    before, after = make_tool(version="1.0.0"), make_tool(version="1.1.0")
    found = diff_definitions(before, after)
    assert found is not None
    lines = found.split("\n")
    assert lines[0].startswith("@@")
    assert {"-version: 1.0.0", "+version: 1.1.0"} <= set(lines)
    assert "xyzzy" not in found
    assert diff_definitions(before, before) == ""


def test_long_ones_are_not_compared() -> None:
    """No definition holds up what else runs here, however long it is."""
    tags = [f"tag-{number}" for number in range(1_000)]
    assert diff_definitions(make_tool(), make_tool(tags=tags)) is None
