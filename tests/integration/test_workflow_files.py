"""Do workflows fit the tools around them, whichever file comes, changes or goes?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tool_engine import ToolEngine, ToolEngineConfig

ROOT = Path(__file__).parents[2]


def write(folder: Path, *definitions: dict[str, Any]) -> None:
    for each in definitions:
        path = folder / f"{each['name']}.yaml"
        path.write_text(yaml.safe_dump(each, sort_keys=False), encoding="utf-8")


def echo(name: str, *params: str, **keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "A sample",
        "parameters": [
            {"name": key, "type": "string", "required": True, "description": "A sample"}
            for key in params
        ],
        "entry": {"type": "builtin", "handler": "echo"},
        **keys,
    }


def flow(name: str, tool: str, **params: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "A sample",
        "entry": {"type": "workflow", "steps": [{"id": "a", "tool": tool, "params": params}]},
    }


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        yield engine


def findings(engine: ToolEngine, name: str) -> str:
    return "\n".join(engine.get_or_raise(name).findings)


@pytest.mark.parametrize("names", [("a_flow", "z_tool"), ("z_flow", "a_tool")])
async def test_the_order_of_files_does_not_matter(
    names: tuple[str, str], engine: ToolEngine, tmp_path: Path
) -> None:
    """D21: a workflow is judged by all the tools of the folder, whichever is read first."""
    name, tool = names
    write(tmp_path, flow(name, tool, x="1"), echo(tool, "x"))
    await engine.reload()
    assert engine.load_errors == []
    assert engine.get_or_raise(name).findings == []
    assert (await engine.execute(name)).output == {"x": "1"}


async def test_a_tool_that_goes_and_comes_back(engine: ToolEngine, tmp_path: Path) -> None:
    """D21: a workflow outlives the tools that it calls; it says what it lacks, and does nothing."""
    write(tmp_path, flow("flow", "first", x="1"), echo("first", "x"))
    await engine.reload()
    (tmp_path / "first.yaml").unlink()
    write(tmp_path, echo("frist", "x"))
    changes = await engine.reload()
    assert changes == {"added": ["frist"], "modified": [], "removed": ["first"]}
    assert engine.load_errors == []
    path = tmp_path / "flow.yaml"
    assert findings(engine, "flow") == (
        f"{path}: entry.steps[0].tool: there is no tool 'first'; did you mean 'frist'?"
    )
    result = await engine.execute("flow")
    assert result.error_type == "execution_error"
    assert result.error == (
        "the workflow does not fit the tools that are there, and did nothing: "
        "entry.steps[0].tool: there is no tool 'first'; did you mean 'frist'?"
    )
    generation = engine.generation
    assert (await engine.reload()) == {"added": [], "modified": [], "removed": []}
    assert engine.generation == generation
    write(tmp_path, echo("first", "x"))
    await engine.reload()
    assert findings(engine, "flow") == ""
    assert (await engine.execute("flow")).output == {"x": "1"}


async def test_a_tool_that_changes(engine: ToolEngine, tmp_path: Path) -> None:
    """D21: a parameter that is renamed or added under a workflow is told by the workflow."""
    write(tmp_path, flow("flow", "first", x="1"), echo("first", "x"))
    await engine.reload()
    assert findings(engine, "flow") == ""
    write(tmp_path, echo("first", "xs", "y"))
    await engine.reload()
    told = findings(engine, "flow")
    assert "entry.steps[0].params.x: 'first' has no parameter 'x'; did you mean 'xs'?" in told
    assert "missing required parameter 'xs'" in told
    assert "missing required parameter 'y'" in told
    assert engine.load_errors == []
    await engine.rollback(engine.generations()[-2].number)
    assert findings(engine, "flow") == ""
    assert (await engine.execute("flow")).output == {"x": "1"}


async def test_a_tool_that_code_brings(engine: ToolEngine, tmp_path: Path) -> None:
    """D21: a tool that is registered later completes the workflow; without it, it says so again."""
    write(tmp_path, flow("flow", "later", x="1"))
    await engine.reload()
    assert "there is no tool 'later'" in findings(engine, "flow")

    async def later(x: str) -> str:
        return x

    engine.register_tool(echo("later", "x", entry={"type": "custom", "handler": "later"}), later)
    assert findings(engine, "flow") == ""
    assert (await engine.execute("flow")).output == {"result": "1"}
    engine.unregister_tool("later")
    assert "there is no tool 'later'" in findings(engine, "flow")
    await engine.reload()
    assert "there is no tool 'later'" in findings(engine, "flow")


async def test_workflows_that_call_one_another(engine: ToolEngine, tmp_path: Path) -> None:
    """D21: a circle is told by each workflow in it, with the way round, and none of them runs."""
    write(tmp_path, flow("a", "b"), flow("b", "c"), flow("c", "a"), flow("d", "a"))
    await engine.reload()
    assert engine.load_errors == []
    assert "calls itself without end: a -> b -> c -> a" in findings(engine, "a")
    assert "calls itself without end: c -> a -> b -> c" in findings(engine, "c")
    assert "without end" in findings(engine, "d")
    for name in "abcd":
        result = await engine.execute(name)
        assert "and did nothing" in (result.error or "")
    assert len(await engine.query_call_records()) == 4
    write(tmp_path, echo("c"))
    await engine.reload()
    assert [findings(engine, name) for name in "abd"] == ["", "", ""]
    assert (await engine.execute("d")).is_success


async def test_mistakes_refuse_the_file_and_no_other(engine: ToolEngine, tmp_path: Path) -> None:
    """D21: what the file alone shows to be wrong keeps the last good one; neighbours load."""
    write(tmp_path, echo("first", "x"), flow("flow", "first", x="1"))
    await engine.reload()
    write(tmp_path, echo("second"), flow("flow", "first", x="${params.x}"))
    await engine.reload()
    ((file, message),) = engine.load_errors
    assert file == str(tmp_path / "flow.yaml")
    assert "entry.steps[0].params.x: the workflow declares no parameter 'x'" in message
    assert (await engine.execute("flow")).output == {"x": "1"}
    assert (await engine.execute("second")).is_success


async def test_the_bundled_workflow_reads_only(tmp_path: Path) -> None:
    """D21: the workflow that the project ships fits its neighbours."""
    config = ToolEngineConfig(tools_directory=str(ROOT / "tools"), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.get_or_raise("split_bill").findings == []
        result = await engine.execute("split_bill", {"bill": 10, "people": 3})
    assert result.output == {"total": 10, "each": 3.34, "text": "Each of 3 pays 3.34"}
