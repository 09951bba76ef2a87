"""How workflows learn of the tools around them."""

from __future__ import annotations

import msgspec
import pytest

from tests.executors.workflow.samples import make_tool, make_workflow, step
from tool_engine.catalog.index import ToolIndex
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.workflow.broken_links import broken_links, find_unlinked, with_links
from tool_engine.executors.workflow.linker import WorkflowLinker
from tool_engine.executors.workflow.workflow_executor import WorkflowExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.validation import ToolParameterValidator

FLOW, T = make_workflow(step()), make_tool("t")


@pytest.fixture
def linker() -> WorkflowLinker:
    return WorkflowLinker(ExecutorRegistry().is_workflow, ToolParameterValidator().validate)


def test_a_catalog_without_workflows(linker: WorkflowLinker) -> None:
    """Who has no workflow has no other snapshot either."""
    index = ToolIndex([T])
    assert linker.link(index, ToolIndex()) is index


def test_findings_come_and_go(linker: WorkflowLinker) -> None:
    """D21: a workflow that does not fit tells it for as long as that is so."""
    alone = linker.link(ToolIndex([FLOW]), ToolIndex())
    flow = alone.get_or_raise("flow")
    told = "entry.steps[0].tool: there is no tool 't'"
    assert flow.findings == [f"tool 'flow': {told}"]
    assert broken_links(flow) == (told,)
    assert flow.definition_hash == FLOW.definition_hash
    assert FLOW.findings == []
    again = linker.link(ToolIndex([FLOW]), alone)
    assert again.get("flow") is flow
    # A tool that was registered in code is in the next snapshot as it was in the last one.
    index = alone.with_tool(T)
    both = linker.link(index, alone)
    assert both.get("flow") is FLOW
    assert linker.link(both.without("t"), both).get("flow") == flow
    assert "flow" not in linker.link(ToolIndex([T]), both)
    assert linker.link(ToolIndex([FLOW, T]), ToolIndex([T])).get("flow") is FLOW


def test_a_name_that_is_a_workflow_no_longer(linker: WorkflowLinker) -> None:
    """A name may come to mean another kind of tool."""
    linker.link(ToolIndex([FLOW]), ToolIndex())
    index = ToolIndex([make_tool("flow")])
    assert linker.link(index, ToolIndex()) is index


def test_what_was_prepared_is_the_same(linker: WorkflowLinker) -> None:
    """A look ahead, at tools that are not all there yet, changes nothing about the findings."""
    linker.prepare([FLOW, T], ToolIndex([FLOW]))
    assert linker.link(ToolIndex([FLOW, T]), ToolIndex()).get("flow") is FLOW
    linker.prepare([FLOW], ToolIndex([FLOW, T]))
    assert linker.link(ToolIndex([FLOW]), ToolIndex()).get_or_raise("flow").findings


def test_links_of_a_tool() -> None:
    """A copy tells of its fit; another edit of it does not lose what it was."""
    linked = with_links(FLOW, ["a", "b"], ["b"])
    assert linked.findings == ["a", "b"]
    assert find_unlinked(linked) is FLOW
    assert find_unlinked(FLOW) is FLOW
    assert broken_links(FLOW) == ()
    assert broken_links(msgspec.structs.replace(linked)) == ()


async def test_what_does_not_fit_does_nothing() -> None:
    """D21: a workflow that cannot run to its end does not run its beginning."""
    linked = with_links(FLOW, ["doubt", "worse"], ["worse"])
    with pytest.raises(ToolExecutionError, match="did nothing: worse"):
        await WorkflowExecutor().execute(linked, {}, ToolExecutionContext())
