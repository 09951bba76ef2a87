"""Does the outcome of a file give back the tools that it stands for?"""

from __future__ import annotations

import gc

import pytest

from tool_engine.catalog.folder.merging import FileOutcome
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


def test_its_groups() -> None:
    """S10: tools and groups of a file are told apart, and both keep the order of the file."""
    text = "kind: group\nname: g\ntags: [a]\n---\n" + TEXTS[0]
    definitions = ToolConfigLoader().load_definitions(text)
    outcome = FileOutcome.of("a.yaml", definitions)
    assert outcome.definitions == definitions
    assert [group.name for group in outcome.groups] == ["g"]
    assert [tool.name for tool in outcome.tools] == ["tool_0"]
    alone = FileOutcome.of("a.yaml", definitions[:1])
    assert (alone.tools, len(alone.groups)) == ([], 1)
    assert FileOutcome.of("a.yaml", definitions[1:]).groups == []
