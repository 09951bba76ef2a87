"""Whether workflows fit the tools that they call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.executors.workflow.samples import make_tool, make_workflow, step
from tool_engine.catalog.index import ToolIndex
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.workflow.link_check import Link, WorkflowLinks
from tool_engine.model.tool import Tool
from tool_engine.validation import ToolParameterValidator

T = make_tool("t", "x!", "n:integer", "list:array", "token", effect="read")


def links(tool: Tool, *others: Tool) -> list[Link]:
    checker = WorkflowLinks(ExecutorRegistry().is_workflow, ToolParameterValidator().validate)
    index = ToolIndex([tool, *others])
    found = checker.problems(tool, index.get, index.nearest)
    assert checker.problems(tool, index.get, index.nearest) == found
    return found


def told(tool: Tool, *others: Tool) -> list[str]:
    return list(map(str, links(tool, *others)))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"x": "a"}, []),
        ({"x": "${params.s}", "n": "${params.i}"}, []),
        ({"x": "${params.s} ${params.i}", "list": ["${params.i}"]}, []),
        ({}, ["params: 't': missing required parameter 'x' (string)"]),
        ({"x": 3}, ["params.x: 't': 'x' must be a string, got the integer 3: send it in quotes"]),
        ({"x": "${params.i}"}, ["params.x: params.i is of the type integer, and 'x' of 't' of"]),
        ({"x": "${params.f}", "n": "${params.f}"}, ["params.x: params.f is of the type number"]),
        ({"x": "a", "lst": 1}, ["params.lst: 't' has no parameter 'lst'; did you mean 'list'?"]),
        ({"x": "a", "q": "${params.i}"}, ["params.q: 't' has no parameter 'q'; it has x, n, list"]),
        ({"x": "a", "n": "many"}, ["params.n: 't': 'n' must be an integer"]),
        (
            {"n": "${params.i}", "lst": 1},
            ["params.lst: 't' has no parameter 'lst'", "params: 't': missing required"],
        ),
    ],
)  # fmt: skip
def test_arguments(params: dict[str, Any], expected: list[str]) -> None:
    """D21: what is written out is checked like a call, the rest by what is declared."""
    declared = ("s!", "i:integer!", "f:number!")
    used = tuple(each for each in declared if f"params.{each[0]}" in str(params))
    tool = make_workflow(step(params=params), params=used)
    found = told(tool, T)
    assert len(found) == len(expected), found
    for each, start in zip(found, expected, strict=True):
        assert each.startswith(f"entry.steps[0].{start}")


def test_a_tool_without_parameters() -> None:
    """The message of an unknown parameter says that there is none."""
    tool = make_workflow(step(params={"x": 1}))
    assert told(tool, make_tool("t")) == [
        "entry.steps[0].params.x: 't' has no parameter 'x'; it has none"
    ]


def test_a_tool_that_runs_only_as_a_task() -> None:
    """Its step could never run, also where the workflow is a task itself."""
    tool = make_workflow(step(), background="required")
    (link,) = links(tool, make_tool("t", background="required"))
    assert str(link) == (
        "entry.steps[0].tool: 't' runs only as a task (background: required), and no step is one; "
        "write background: allowed in it"
    )
    assert link.is_broken
    assert links(tool, make_tool("t", background="allowed")) == []


def test_a_tool_that_is_not_there() -> None:
    """D21: the nearest names are offered, never the workflow itself."""
    tool = make_workflow(step(tool="flaw"), {"id": "g", "parallel": [step("b", "zzz")]})
    assert told(tool, make_tool("flow_2")) == [
        "entry.steps[0].tool: there is no tool 'flaw'; did you mean 'flow_2'?",
        "entry.steps[1].parallel[0].tool: there is no tool 'zzz'",
    ]
    assert all(link.is_broken and link.is_absent for link in links(tool))


def test_circles() -> None:
    """D21: workflows that call one another are found from each of them, with the way round."""
    a, b, c = (
        make_workflow(step("x", "t"), step("y", other), name=name)
        for name, other in (("a", "b"), ("b", "c"), ("c", "a"))
    )
    plain = make_tool("t")
    assert told(a, b, c, plain) == [
        "entry.steps[1].tool: calls itself without end: a -> b -> c -> a"
    ]
    outside = make_workflow(step("x", "b"))
    (link,) = links(outside, a, b, c, plain)
    assert "more than 20 deep, or without end" in str(link)
    assert told(outside, make_workflow(step(), name="b"), plain) == []


def test_depth() -> None:
    """D21: twenty workflows inside one another fit, one more does not."""
    flows = [make_workflow(step(tool=f"f{n + 1}"), name=f"f{n}") for n in range(21)]
    last = make_tool("f21")
    assert told(flows[1], *flows[2:], last) == []
    assert "more than 20 deep" in told(flows[0], *flows[1:], last)[0]


@pytest.mark.parametrize(("effect", "is_told"), [("read", True), ("write", False)])
def test_effect(effect: str, is_told: bool) -> None:
    """D21: a workflow does not read only when something that it reaches writes."""
    writes = make_tool("writes", effect="write")
    inner = make_workflow(step(tool="writes"), name="inner")
    for tools in ((writes,), (inner, writes)):
        flow = make_workflow(step("s", tools[0].name), effect=effect)
        found = links(flow, *tools)
        assert [link.path for link in found] == (["effect"] if is_told else [])
        for link in found:
            assert "step 's' runs 'writes', whose effect is write; write effect: write" in str(link)
            assert not link.is_broken
    assert told(make_workflow(step(params={"x": "a"}), effect="read"), T) == []


def test_secrets() -> None:
    """D21, K51: a secret that would be recorded as a plain argument of another tool is told."""
    for value, is_told in (("${params.token}", True), ("Bearer ${params.token ?? ''}", True)):
        tool = make_workflow(step(params={"x": value, "token": value}), params=("token!",))
        (link,) = links(tool, T)
        assert is_told
        assert link.path == "entry.steps[0].params.x"
        assert "params.token is secret, and 'x' of 't' is not" in link.message
        assert not link.is_broken


def test_what_may_be_left_out() -> None:
    """D21: an optional parameter is not enough for one that is required."""
    for value, parameter, count in (
        ("${params.s}", "s", 1),
        ("${params.s}", "s!", 0),
        ("${params.s ?? ''}", "s", 0),
    ):
        found = links(make_workflow(step(params={"x": value}), params=(parameter,)), T)
        assert len(found) == count
        for link in found:
            assert "params.s may be left out, and 'x' of 't' is required" in link.message
            assert not link.is_broken


def test_what_was_registered_wrong() -> None:
    """A neighbour that is wrong itself is its own matter."""
    broken = make_workflow({"nonsense": 1}, name="broken")
    parameters = [msgspec.structs.replace(T.parameters[0], validation={"pattern": "("})]
    bad = msgspec.structs.replace(make_tool("bad"), parameters=parameters)
    tool = make_workflow(step(tool="broken"), step("b", "bad", params={"x": "a"}))
    assert told(tool, broken, bad) == []
    assert links(broken) == []


def test_a_changed_neighbour_is_looked_at_again() -> None:
    """D21: what was found is kept for as long as the tools are the same values."""
    checker = WorkflowLinks(ExecutorRegistry().is_workflow, ToolParameterValidator().validate)
    tool = make_workflow(step(params={"x": "a"}))
    for other, count in ((T, 0), (make_tool("t"), 1), (T, 0), (None, 1)):
        index = ToolIndex([tool] if other is None else [tool, other])
        assert len(checker.problems(tool, index.get, index.nearest)) == count
    longer = make_workflow(step(params={"x": "a"}), step("b", params={"x": "a"}))
    index = ToolIndex([longer, T])
    assert checker.problems(longer, index.get, index.nearest) == []
