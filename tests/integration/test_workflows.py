"""Do workflows run through a real engine as any other call does, and tell how they ended?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.calls.audit import Audit, check_idle
from tool_engine import (
    ConcurrencyConfig,
    ToolCallRecord,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
)

# It is loaded with the first function that takes any value, and reads files then.
import_module("tool_engine.catalog.definition.raw_schema")

BOUND = 10.0
Steps = list[dict[str, Any]]


def definition(name: str, steps: Steps, *params: str, **keys: Any) -> dict[str, Any]:
    """A workflow; `output` goes to its entry."""
    entry: dict[str, Any] = {"type": "workflow", "steps": steps}
    if "output" in keys:
        entry["output"] = keys.pop("output")
    kinds = dict(text.partition(":")[::2] for text in params)
    return {
        "name": name,
        "description": "A sample",
        "parameters": [
            {"name": key, "type": kind or "string", "description": "A sample"}
            for key, kind in kinds.items()
        ],
        "entry": entry,
        **keys,
    }


class Crew:
    """An engine with a few tools that steps can call."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.engine = ToolEngine(
            ToolEngineConfig(tools_directory=str(folder), auto_reload=False, close_timeout=0.01),
            concurrency=ConcurrencyConfig(**limits),
        )
        self.audit = Audit(self.engine)
        self.started = asyncio.Event()
        self.running = 0
        self.most_running = 0
        self.seen: list[Any] = []
        self.contexts: list[ToolExecutionContext] = []

    def equip(self) -> None:
        tool = self.engine.tool

        @tool()
        async def say(value: Any = None) -> Any:
            """Returns what it is given."""
            self.seen.append(value)
            return {"value": value}

        @tool()
        async def fail(message: str = "no") -> None:
            """Fails."""
            raise ValueError(message)

        @tool()
        async def hang(context: ToolExecutionContext) -> None:
            """Never ends."""
            self.contexts.append(context)
            self.started.set()
            await asyncio.Event().wait()

        @tool()
        async def meet(value: Any = None) -> Any:
            """Lets others run meanwhile."""
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            for _ in range(10):
                await asyncio.sleep(0)
            self.running -= 1
            return {"value": value}

    def add(self, steps: Steps, *params: str, **keys: Any) -> None:
        """Registers the workflow `flow`."""
        self.engine.register_tool(definition(keys.pop("name", "flow"), steps, *params, **keys))

    async def run(
        self, context: ToolExecutionContext | None = None, /, **params: Any
    ) -> ToolExecutionResult:
        async with asyncio.timeout(BOUND):
            return await self.engine.execute("flow", params, context)

    async def children(self, result: ToolExecutionResult) -> list[ToolCallRecord]:
        """The records of the calls that a workflow made, in their order."""
        records = await self.audit.records()
        return [record for record in records if record.parent_call_id == result.call_id]


async def crewed(folder: Path, **limits: Any) -> AsyncIterator[Crew]:
    crew = Crew(folder, **limits)
    async with crew.engine:
        crew.equip()
        yield crew
        await crew.audit.check()


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[Crew]:
    async for each in crewed(tmp_path):
        yield each


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Crew]:
    """One slot in all."""
    async for each in crewed(tmp_path, max_concurrent=1):
        yield each


def details(result: ToolExecutionResult) -> Mapping[str, Any]:
    found: Mapping[str, Any] = result.metadata["error_details"]
    return found


def statuses(result: ToolExecutionResult) -> dict[str, str]:
    return {each["id"]: each["status"] for each in details(result)["steps"]}


async def test_steps_are_calls(crew: Crew) -> None:
    """D21: each step is a call of its own: validated, admitted, recorded with its parent."""
    crew.add(
        [
            {"id": "a", "tool": "say", "params": {"value": {"n": "${params.x}"}}},
            {"id": "b", "tool": "say", "params": {"value": "${steps.a.output.value.n}"}},
        ],
        "x:integer",
    )
    context = ToolExecutionContext.for_conversation("agent", "conv", priority=2)
    result = await crew.run(context, x=5)
    assert result.output == {"value": 5}
    children = await crew.children(result)
    assert [(child.tool_name, child.params) for child in children] == [
        ("say", {"value": {"n": 5}}),
        ("say", {"value": 5}),
    ]
    for child in children:
        assert (child.caller_id, child.conversation_id) == ("agent", "conv")
        assert child.priority == 2
        assert child.is_success
    (parent,) = await crew.engine.query_call_records(tool_name="flow")
    assert parent.call_id == result.call_id
    assert parent.parent_call_id is None
    assert len(await crew.audit.records()) == 3


async def test_arguments_of_a_step_are_validated(crew: Crew) -> None:
    """D21: a value that only a run knows is checked like the arguments of any call."""
    crew.add([{"id": "a", "tool": "fail", "params": {"message": "${params.x}"}}], "x:object")
    crew.engine.unregister_tool("flow")
    crew.add(
        [
            {"id": "a", "tool": "say", "params": {"value": 3}},
            {"id": "b", "tool": "fail", "params": {"message": "${steps.a.output.value}"}},
        ]
    )
    result = await crew.run()
    assert result.error_type == "execution_error"
    assert details(result)["error_type"] == "validation_error"
    assert "'message' must be a string" in (result.error or "")


async def test_hostile_output_stays_text(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """D21: what a tool returned is never read as a reference, through any number of steps."""
    monkeypatch.setenv("WORKFLOW_SECRET", "s3cret")
    hostile = "${params.token} ${env:WORKFLOW_SECRET} $${x} {token} {{7*7}}"
    crew.add(
        [
            {"id": "a", "tool": "say", "params": {"value": "${params.text}"}},
            {"id": "b", "tool": "say", "params": {"value": "<${steps.a.output.value}>"}},
            {
                "id": "c",
                "tool": "say",
                "params": {"value": ["${steps.b.output}"]},
                "if": "params.token != ''",
            },
        ],
        "text",
        "token",
    )
    result = await crew.run(text=hostile, token="s3cret")
    assert result.output == {"value": [{"value": f"<{hostile}>"}]}
    assert crew.seen == [hostile, f"<{hostile}>", [{"value": f"<{hostile}>"}]]


async def test_conditions(crew: Crew) -> None:
    """D21: a step runs when its condition is true; one that is skipped is null."""
    steps: Steps = [
        {"id": "a", "tool": "say", "params": {"value": 1}, "if": "params.x > 2"},
        {"id": "b", "tool": "say", "params": {"value": 2}, "if": "steps.a.status == 'skipped'"},
        {"id": "g", "parallel": [{"id": "c", "tool": "say"}], "if": False},
    ]
    output = {
        "a": "${steps.a.output.value ?? 'none'}",
        "b": "${steps.b.output.value ?? 'none'}",
        "g": "${steps.g.status} ${steps.c.status}",
    }
    crew.add(steps, "x:integer", output=output)
    assert (await crew.run(x=3)).output == {"a": 1, "b": "none", "g": "skipped skipped"}
    assert (await crew.run(x=1)).output == {"a": "none", "b": 2, "g": "skipped skipped"}
    result = await crew.run()
    assert "if: null and a number cannot be compared with >" in (result.error or "")


async def test_for_each(crew: Crew) -> None:
    """D21: one call for each item, the outputs in the order of the items."""
    crew.add(
        [
            {
                "id": "a",
                "tool": "meet",
                "for_each": "${params.items}",
                "max_parallel": 4,
                "params": {"value": "${index}:${item.name}"},
            }
        ],
        "items:array",
        output={"all": "${steps.a.output}"},
    )
    names = [f"n{number}" for number in range(20)]
    result = await crew.run(items=[{"name": name} for name in names])
    expected = [{"value": f"{number}:{name}"} for number, name in enumerate(names)]
    assert result.output == {"all": expected}
    assert crew.most_running == 4
    assert (await crew.run(items=[])).output == {"all": []}


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (list(range(4)), "for_each has 4 items, and the limit is 3; raise limit or ask for less"),
        ("abc", "for_each needs a list, got a text"),
        (None, "for_each needs a list, got null"),
    ],
)
async def test_for_each_is_never_cut(crew: Crew, items: Any, told: str) -> None:
    """D21: more items than the limit are an error before the first call, not a silent cut."""
    crew.add(
        [
            {"id": "a", "tool": "say", "params": {"value": "${params.x}"}},
            {"id": "b", "tool": "say", "for_each": "${steps.a.output.value}", "limit": 3},
        ],
        "x:object",
    )
    crew.engine.unregister_tool("flow")
    crew.add(
        [{"id": "b", "tool": "say", "for_each": "${params.x.y ?? null}", "limit": 3}], "x:object"
    )
    result = await crew.run(x={"y": items})
    assert result.error_type == "execution_error"
    assert told in (result.error or "")
    assert crew.seen == []


async def test_parallel(crew: Crew) -> None:
    """D21: branches run at once; the group's output has one entry for each."""
    branches = [{"id": name, "tool": "meet", "params": {"value": name}} for name in ("a", "b", "c")]
    crew.add([{"id": "all", "parallel": branches}])
    result = await crew.run()
    assert result.output == {name: {"value": name} for name in ("a", "b", "c")}
    assert crew.most_running == 3


async def test_the_first_failure_cancels_the_others(crew: Crew) -> None:
    """D21: a branch that fails ends the other branches, and the workflow names it."""
    branches = [{"id": "long", "tool": "hang"}, {"id": "bad", "tool": "fail"}]
    crew.add([{"id": "all", "parallel": branches}, {"id": "after", "tool": "say"}])
    result = await crew.run()
    assert result.error == (
        "step 'bad' failed: execution_error: ValueError: no; nothing was done before"
    )
    assert statuses(result) == {
        "all": "failed", "long": "cancelled", "bad": "failed", "after": "not_run"
    }  # fmt: skip
    ended = {child.tool_name: child.error_type for child in await crew.children(result)}
    assert ended == {"fail": "execution_error", "hang": "cancelled"}


@pytest.mark.parametrize("on_error", ["continue", {"use": {"value": "${params.x}"}}])
async def test_on_error(crew: Crew, on_error: Any) -> None:
    """D21: a step may fail without the workflow failing, with a value in its place."""
    crew.add(
        [
            {"id": "a", "tool": "fail", "on_error": on_error},
            {
                "id": "b",
                "tool": "fail",
                "for_each": [1, 2],
                "params": {"message": "${item}"},
                "on_error": on_error,
            },
            {
                "id": "c",
                "tool": "say",
                "params": {"value": "${params.x.y.z}"},
                "on_error": on_error,
            },
        ],
        "x:object",
        output={
            "a": "${steps.a.output}",
            "b": "${steps.b.output}",
            "c": "${steps.c.error}",
            "type": "${steps.a.error_type}",
            "status": "${steps.a.status} ${steps.b.status}",
        },
    )
    result = await crew.run(x={})
    instead: Any = None if on_error == "continue" else {"value": {}}
    assert result.output["a"] == instead
    assert result.output["b"] == [instead, instead]
    assert result.output["type"] == "execution_error"
    assert result.output["status"] == "failed failed"
    assert result.output["c"].startswith("there is no params.x.y.z: params.x is empty")


async def test_on_error_of_a_group(crew: Crew) -> None:
    """D21: `continue` lets all branches go on; with a value in its place the others end."""
    branches: Steps = [
        {"id": "bad", "tool": "fail"},
        {"id": "good", "tool": "meet", "params": {"value": 1}},
    ]
    crew.add([{"id": "all", "parallel": branches, "on_error": "continue"}])
    assert (await crew.run()).output == {"bad": None, "good": {"value": 1}}
    branches[1] = {"id": "good", "tool": "hang"}
    group = {"id": "all", "parallel": branches, "on_error": {"use": "none"}}
    crew.engine.unregister_tool("flow")
    crew.add([group], output={"all": "${steps.all.output}", "of": "${steps.all.error}"})
    assert (await crew.run()).output == {"all": "none", "of": "ValueError: no"}


async def test_what_replaces_a_list_has_no_item(crew: Crew) -> None:
    """D21: `use` stands for the whole list where the step fails before its first item."""
    each = {"id": "a", "tool": "say", "for_each": "${params.x.list}", "on_error": {"use": []}}
    crew.add([each], "x:object", output="${steps.a.output}")
    assert (await crew.run(x={})).output == {"result": []}
    crew.engine.unregister_tool("flow")
    crew.add([{**each, "on_error": {"use": "${item}"}}], "x:object")
    result = await crew.run(x={})
    assert "there is no item: the step failed before its first item" in (result.error or "")


async def test_what_replaces_a_failure_may_fail_itself(crew: Crew) -> None:
    """D21: a wrong reference in `use` is an error of its step."""
    crew.add(
        [{"id": "a", "tool": "fail", "on_error": {"use": "${params.x.y}"}}],
        "x:object",
    )
    result = await crew.run(x={})
    assert "step 'a' failed: there is no params.x.y" in (result.error or "")


async def test_a_failure_tells_what_was_done(crew: Crew) -> None:
    """D21: the error names the step, its tool and error, and what had been done before."""
    crew.add(
        [
            {"id": "a", "tool": "say"},
            {"id": "b", "tool": "say", "if": "false"},
            {"id": "c", "tool": "say", "for_each": [1, 2, 3], "params": {"value": "${item}"}},
            {
                "id": "d",
                "tool": "fail",
                "for_each": ["x", "y"],
                "params": {"message": "${item}"},
            },
            {"id": "e", "tool": "say"},
        ]
    )
    result = await crew.run()
    assert result.error_type == "execution_error"
    assert result.error == (
        "step 'd', item 0, failed: execution_error: ValueError: x; done before: a, c"
    )
    children = await crew.children(result)
    assert details(result) == {
        "step": "d",
        "tool": "fail",
        "error_type": "execution_error",
        "error": "ValueError: x",
        "call_id": children[-1].call_id,
        "index": 0,
        "steps": [
            {"id": "a", "status": "succeeded", "tool": "say", "calls": 1, "calls_done": 1},
            {"id": "b", "status": "skipped", "tool": "say", "calls": 0, "calls_done": 0},
            {"id": "c", "status": "succeeded", "tool": "say", "calls": 3, "calls_done": 3},
            {
                "id": "d",
                "status": "failed",
                "tool": "fail",
                "calls": 1,
                "calls_done": 0,
                "error_type": "execution_error",
                "error": "ValueError: x",
            },
            {"id": "e", "status": "not_run", "tool": "say", "calls": 0, "calls_done": 0},
        ],
    }


async def test_a_wrong_output(crew: Crew) -> None:
    """D21: an output that cannot be made is told as such."""
    crew.add([{"id": "a", "tool": "say"}], output="${steps.a.output.vlaue}")
    result = await crew.run()
    assert result.error == (
        "the output of the workflow cannot be made: there is no steps.a.output.vlaue: "
        "steps.a.output has value; did you mean 'value'?; done before: a"
    )


async def test_an_output_that_the_call_left_out(crew: Crew) -> None:
    """A workflow whose output is an optional parameter returns null without it."""
    crew.add([{"id": "a", "tool": "say"}], "x", output="${params.x}")
    assert (await crew.run()).output == {"result": None}
    assert (await crew.run(x="y")).output == {"result": "y"}


@pytest.mark.parametrize("shape", ["step", "for_each", "parallel"])
async def test_cancelled(crew: Crew, shape: str) -> None:
    """D21, C8: cancelling the workflow cancels the calls that run in it, and starts no other."""
    hang: dict[str, Any] = {"id": "b", "tool": "hang", "on_error": "continue"}
    step: dict[str, Any] = {
        "step": hang,
        "for_each": {**hang, "for_each": [1, 2], "max_parallel": 2},
        "parallel": {"id": "g", "parallel": [hang, {"id": "c", "tool": "hang"}]},
    }[shape]
    crew.add([step, {"id": "z", "tool": "say"}])
    task = asyncio.create_task(crew.run())
    async with asyncio.timeout(BOUND):
        await crew.started.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    records = await crew.audit.records()
    assert {record.error_type for record in records} == {"cancelled"}
    assert crew.seen == []


async def test_one_slot_is_enough(narrow: Crew) -> None:
    """D21, C23: workflows inside one another, with branches, pass with a single slot."""
    narrow.add(
        [{"id": "a", "tool": "meet", "for_each": [1, 2, 3], "max_parallel": 3}], name="inner"
    )
    branches = [{"id": name, "tool": "inner"} for name in ("a", "b", "c")]
    narrow.add([{"id": "g", "parallel": branches}])
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        tasks = [group.create_task(narrow.run()) for _ in range(3)]
    assert all(task.result().is_success for task in tasks)
    assert narrow.most_running == 1
    assert narrow.engine.controller.get_metrics().max_concurrent_observed == 1
    assert len(await narrow.audit.records()) == 3 * (1 + 3 * (1 + 3))


async def test_calls_of_a_run_are_bounded(crew: Crew) -> None:
    """D21: for_each inside for_each ends at the bound, whatever on_error says."""
    items = list(range(100))
    crew.add([{"id": "a", "tool": "say", "for_each": items}], name="inner")
    crew.add([{"id": "a", "tool": "inner", "for_each": items, "on_error": "continue"}])
    result = await crew.run()
    assert result.error_type == "execution_error"
    assert "the run has made 1000 calls, which is the most" in (result.error or "")
    assert crew.audit.kinds().count("execution_started") == 1 + 1000
    # The next run begins anew.
    assert (await crew.engine.execute("inner")).is_success


async def test_depth_is_bounded(crew: Crew) -> None:
    """D21: a workflow that calls itself through a tool of code ends at the bound."""
    engine = crew.engine

    @engine.tool()
    async def again(context: ToolExecutionContext) -> None:
        """Calls the workflow that called it."""
        result = await context.call("flow")
        if not result.is_success:
            raise ValueError((result.error or "")[-60:])

    crew.add([{"id": "a", "tool": "again"}])
    result = await crew.run()
    assert result.error_type == "execution_error"
    assert len([r for r in await crew.audit.records() if r.tool_name == "flow"]) == 21


async def test_a_workflow_that_outlives_another(crew: Crew) -> None:
    """What goes on in the background after a run has a budget of its own."""
    engine, has_ended = crew.engine, asyncio.Event()
    tasks: list[asyncio.Task[ToolExecutionResult]] = []
    engine.subscribe(lambda _: has_ended.set(), "execution_completed", "flow")

    @engine.tool()
    async def leave() -> None:
        """Starts a workflow that it does not wait for."""

        async def later() -> ToolExecutionResult:
            await has_ended.wait()
            return await engine.execute("other")

        tasks.append(asyncio.create_task(later()))

    crew.add([{"id": "a", "tool": "say", "for_each": list(range(600)), "limit": 600}], name="other")
    crew.add(
        [
            {"id": "a", "tool": "leave"},
            {"id": "b", "tool": "say", "for_each": list(range(600)), "limit": 600},
        ]
    )
    assert (await crew.run()).is_success
    async with asyncio.timeout(BOUND):
        assert (await tasks[0]).is_success


async def test_closing_ends_a_workflow(tmp_path: Path) -> None:
    """D21, C11: closing the engine ends a workflow and its calls; nothing is left."""
    crew = Crew(tmp_path)
    async with crew.engine:
        crew.equip()
        crew.add([{"id": "a", "tool": "hang", "on_error": "continue"}, {"id": "b", "tool": "say"}])
        task = asyncio.create_task(crew.run())
        await crew.started.wait()
    assert (await task).error_type == "engine_closed"
    assert crew.seen == []
    check_idle(crew.engine)
