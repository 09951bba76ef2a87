"""What the steps of a definition may be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.executors.workflow.samples import make_tool, make_workflow, step
from tool_engine.errors import DefinitionError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.workflow.expression import Comparison, Literal, Path
from tool_engine.executors.workflow.template import Text
from tool_engine.executors.workflow.workflow_entry import (
    MAX_STEPS,
    Step,
    check_entry,
    compile_entry,
)
from tool_engine.model.tool import Tool


def problems(tool: Tool) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in check_entry(tool)]


def test_a_whole_entry() -> None:
    """D21: every key is read, and what is left out has its default."""
    tool = make_workflow(
        step("a", "t", params={"x": "${params.p}"}, timeout=3, **{"if": "params.p == 1"}),
        step("b", "t", for_each="${steps.a.output}", limit=5, max_parallel=2, on_error="continue"),
        {"id": "g", "parallel": [step("c"), step("d", on_error="fail")], "on_error": "continue"},
        params=("p:integer",),
        output={"x": "${steps.c.output}"},
    )
    assert problems(tool) == []
    workflow = compile_entry(tool)
    a, b, group = workflow.steps
    parameter = Path("params", ("p",))
    assert a == Step(
        id="a",
        path="entry.steps[0]",
        condition=Comparison("==", parameter, Literal(1)),
        tool="t",
        params={"x": Text((parameter,))},
        timeout=3.0,
    )
    assert (b.limit, b.max_parallel, b.on_error) == (5, 2, "continue")
    assert [each.on_error for each in (group, *group.branches)] == ["continue", "continue", "fail"]
    assert group.branches[0].path == "entry.steps[2].parallel[0]"
    assert [each.id for each in workflow.all_steps()] == ["a", "b", "g", "c", "d"]
    assert [each.id for each in workflow.calls()] == ["a", "b", "c", "d"]
    bare = compile_entry(make_workflow(step())).steps[0]
    assert (bare.limit, bare.max_parallel, bare.timeout, bare.on_error) == (100, 1, None, "fail")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"id": "a"}, "entry.steps[0]: a step names its tool"),
        (step(tol=1), "entry.steps[0].tol: unknown key 'tol'; did you mean 'tool'?"),
        (step(tool="${params.p}"), "no value chooses what runs"),
        ({"id": "a", "tool": 3}, "entry.steps[0].tool: a step names its tool, as text"),
        (step(tool="flow"), "entry.steps[0].tool: 'flow' calls itself"),
        ({"tool": "t"}, "entry.steps[0]: the id is missing"),
        ({"name": "a", "tool": "t"}, "entry.steps[0].name: unknown key 'name'; did you mean 'id'"),
        (step(when="true"), "entry.steps[0].when: unknown key 'when'; did you mean 'if'?"),
        (step(params={"x": "{p}"}), "uses the parameter 'p'; write ${params.p} in place of {p}"),
        (step(params={"x": "${params.p}"}), "uses the parameter 'longer'; write ${params.longer}"),
        (step(params={"x": "${inputs.p}"}), "'inputs' is unknown; did you mean 'params'?"),
        (step(params={"x": "${params.p + 1}"}), "holds no arithmetic: let a tool such as"),
        (step(**{"if": "{p} > 1"}), "JSON writes it; a parameter is params.NAME, got '{p} > 1'"),
        (step(for_each="params.p"), 'the reference to one, such as "${params.p}"; got the text'),
        (step(params={"x": "${a.output}"}), "such as params.a or steps.a.output, and a text"),
        (step("a b"), "entry.steps[0].id: the id cannot be 'a b'"),
        (step(params=[1]), "entry.steps[0].params: must be a mapping"),
        (step(params={"x": "${parms.p}"}), "entry.steps[0].params.x: 'parms' is unknown"),
        (step(params={"x": ["${params.q}"]}), "entry.steps[0].params.x[0]: the workflow declares"),
        (step(params={"x": "${params.q}"}), "did you mean"),
        (step(params={"x": "${params}"}), "params names no parameter; write params.name"),
        (step(params={"x": "${steps[0]}"}), "steps[0] names no step; write steps.name"),
        (step(params={"x": "${steps.a.output}"}), "no step 'a' has ended before this one; it"),
        (step(params={"x": "${steps.b.output}"}), "no step 'b' has ended before"),
        (step(params={"x": "${item}"}), "item is known only in a step with for_each"),
        (step(**{"if": "index == 1"}), "entry.steps[0].if: index is known only in a step with"),
        (step(**{"if": "params.p = 1"}), "entry.steps[0].if: to compare write =="),
        (step(**{"if": 3}), "entry.steps[0].if: must be a condition, as text, got the number 3"),
        (step(for_each=3), "entry.steps[0].for_each: must be a list, or the reference to one"),
        (step(for_each="a ${params.p}"), "entry.steps[0].for_each: must be a list"),
        (step(for_each="${params.p"), "entry.steps[0].for_each: a reference ends with }"),
        (step(limit=3), "entry.steps[0].limit: limit needs for_each"),
        (step(for_each=[1], limit=1001), "a whole number from 1 to 1000, got the number 1001"),
        (step(for_each=[1], max_parallel=True), "a whole number from 1 to 32, got true"),
        (step(timeout=0), "timeout: must be a number of seconds above 0, got the number 0"),
        (step(timeout=True), "seconds above 0, got true"),
        (step(on_error="contine"), "got the text 'contine'; did you mean 'continue'?"),
        (step(on_error={"use": 1, "x": 2}), "must be fail, continue or {use: value}"),
        (step(on_error={"use": "${params.zz}"}), "entry.steps[0].on_error.use: the workflow"),
        ({"id": "g", "parallel": []}, "entry.steps[0].parallel: must be a list of 1 to 32 steps"),
        ({"id": "g", "parallel": [3]}, "entry.steps[0].parallel[0]: a step is a mapping"),
        ({"id": "g", "parallel": [{"id": "x", "parallel": []}]}, "a branch calls one tool"),
        ({"id": "g", "parallel": [step("x")], "tool": "t"}, "entry.steps[0].tool: unknown key"),
        (
            {"id": "g", "parallel": [step("x"), step("y", params={"v": "${steps.x.output}"})]},
            "parallel[1].params.v: no step 'x' has ended before this one",
        ),
    ],
)  # fmt: skip
def test_mistakes(spec: dict[str, Any], told: str) -> None:
    """D21: each mistake is found when the file is loaded, with its place and its cure."""
    tool = make_workflow(spec, params=("p", "longer"))
    found = problems(tool)
    if told != "did you mean":
        assert any(told in each for each in found), found
    else:
        assert "declared are p, longer" in found[0]
    with pytest.raises(DefinitionError):
        compile_entry(tool)


def test_all_mistakes_at_once() -> None:
    """D21: a file with many mistakes tells them all, those of the output too."""
    tool = make_workflow(
        step("a", tool=""),
        step("a", params={"x": "${steps.a.outptu}"}),
        step("b", params={"x": "${steps.a}", "y": "${steps.a.items[0].id}"}),
        output=["${params.x}", "${steps.aa.output}"],
    )
    facts = "of a step there is output, status, error, error_type, got"
    found = problems(tool)
    assert found.pop(0).startswith("entry.steps[0].tool: a step names its tool")
    assert found == [
        "entry.steps[1].id: entry.steps[0] has the id 'a' too; rename one of them",
        f"entry.steps[1].params.x: {facts} 'outptu'; write steps.a.output",
        f"entry.steps[2].params.x: {facts} nothing; write steps.a.output",
        (
            f"entry.steps[2].params.y: {facts} 'items'; write steps.a.output.items[0].id for that "
            "part of its output, or steps.a.output for all of it"
        ),
        "entry.output[0]: the workflow declares no parameter 'x'; declare it under parameters",
        "entry.output[1]: no step 'aa' has ended before this one; did you mean 'a'?",
    ]


def test_the_number_of_steps() -> None:
    """D21: a workflow has a bounded number of steps, branches included."""
    group = {"id": "g", "parallel": [step(f"b{number}") for number in range(30)]}
    steps = [step(f"a{number}") for number in range(MAX_STEPS - 31)]
    assert problems(make_workflow(*steps, group)) == []
    (told,) = problems(make_workflow(*steps, group, step("one_more")))
    assert "101 steps; a workflow has at most 100" in told


@pytest.mark.parametrize(
    "entry", [{"type": "workflow"}, {"type": "builtin", "handler": "run_workflow"}]
)
def test_without_steps(entry: dict[str, Any]) -> None:
    """D21: a workflow without steps is told so, however it is declared."""
    tool = make_tool("flow", entry=entry)
    (found,) = ExecutorRegistry().check(tool)
    assert found.message == "a workflow has a list of steps, each with id and tool"


def test_what_is_no_step_at_all() -> None:
    """What code registers without the loader is checked the same."""
    tool = make_workflow(step())
    entry = {"steps": [3, {"id": "a", "tool": "t", "params": 1}]}
    broken = msgspec.structs.replace(tool, implementation_config=entry)
    assert len(problems(broken)) == 2
    with pytest.raises(DefinitionError):
        compile_entry(msgspec.structs.replace(tool, implementation_config={"steps": []}))


class Own:
    async def execute(self, tool: Tool, params: Any, context: Any) -> None:
        """Runs steps of its own kind."""


def test_steps_of_an_executor_of_your_own() -> None:
    """U17: a registered executor reads `steps` as it likes; they are no workflow of ours."""
    registry = ExecutorRegistry()
    tool = make_tool("flow", entry={"type": "workflow", "handler": "mine", "steps": [{"do": 1}]})
    assert registry.check(tool) == []
    assert not registry.is_workflow(tool)
    mine = make_workflow({"do": 1})
    assert registry.is_workflow(mine)
    assert registry.name_of(mine) == "run_workflow"
    registry.register("flow", Own())
    assert registry.check(mine) == []
    assert not registry.is_workflow(mine)
    assert registry.name_of(mine) == "flow"
