"""Does the outcome of a file give back the tools that it stands for?"""

from __future__ import annotations

import gc

import pytest

from tool_engine.catalog.file_outcome import FileOutcome
from tool_engine.catalog.loader import ToolConfigLoader

TEXTS = [f"name: tool_{number}\ndescription: d\n" for number in range(3)]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_its_tools(count: int) -> None:
    """A file stands for none, one or several tools, in its order; the list is the reader's."""
    tools = [ToolConfigLoader().load_text(text) for text in TEXTS[:count]]
    outcome = FileOutcome.of("a.yaml", tools, "broken")
    assert (outcome.path, outcome.tools, outcome.error) == ("a.yaml", tools, "broken")
    outcome.tools.clear()
    assert outcome.tools == tools
    assert outcome == FileOutcome.of("a.yaml", list(tools), "broken")


def test_no_collection_visits_it() -> None:
    """Issue 4, 5: the outcome of a file of one tool is nothing to the garbage collector."""
    outcome = FileOutcome.of("a.yaml", [ToolConfigLoader().load_text(TEXTS[0])])
    assert not gc.is_tracked(outcome)
    assert not gc.is_tracked(outcome.held)
