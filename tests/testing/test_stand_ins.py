"""Does what a test prepares stand in for the world, and is nothing of it left?"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import warm
from tests.testing.checked import cases_of, problems
from tool_engine import DefinitionError, ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.testing import check_definitions
from tool_engine.testing.stand_ins import StandIns

FLOW = """
name: flow
description: Calls every kind of tool.
parameters:
  - {name: name, type: string, required: true, description: N}
entry:
  type: workflow
  steps:
    - {id: get, tool: get, params: {name: "${params.name}"}}
    - id: both
      parallel:
        - {id: run, tool: run, params: {name: "${steps.get.output.result}"}}
        - {id: ask, tool: inner, params: {name: "${params.name}"}}
    - {id: put, tool: put, params: {path: out.txt, content: "${steps.run.output.stdout}"}}
tests:
"""
INNER = """
name: inner
description: A workflow in the workflow.
parameters:
  - {name: name, type: string, required: true, description: N}
entry: {type: workflow, steps: [{id: sql, tool: sql, params: {name: "${params.name}"}}]}
"""
STEPS = (
    """
name: get
description: G.
effect: read
parameters: [{name: name, type: string, required: true, description: N}]
entry:
  type: http
  request:
    url: "https://x.example/{name}"
    headers: {Authorization: "Bearer ${env:TOKEN_OF_STEP}"}
""",
    """
name: run
description: R.
parameters: [{name: name, type: string, required: true, description: N}]
entry: {type: builtin, handler: run_command, argv: [/no/such/program, --, "{name}"]}
""",
    """
name: sql
description: S.
parameters: [{name: name, type: string, required: true, description: N}]
entry: {type: builtin, handler: sql_query, source: shop, sql: "SELECT :name AS name FROM t"}
""",
    """
name: put
description: P.
effect: write
parameters:
  - {name: path, type: string, required: true, description: N}
  - {name: content, type: string, required: true, description: N}
entry: {type: builtin, handler: write_file, root: ../real}
""",
)
PLAYED = """
  - params: {name: a}
    env: {TOKEN_OF_STEP: sesame-of-test}
    http:
      - request: {url: "https://x.example/a", headers: {Authorization: Bearer sesame-of-test}}
        response: {body: from afar}
    command: {argv: [/no/such/program, --, from afar], stdout: tidied}
    sources: {shop: "CREATE TABLE t(x); INSERT INTO t VALUES (1)"}
    expect_files: {out.txt: tidied}
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


async def test_the_steps_of_a_workflow_meet_what_its_test_prepares(
    tmp_path: Path, temporary: Path
) -> None:
    """Requests, commands, statements and files, however deep the call is that asks for them."""
    cases = await cases_of(tmp_path / "tools", FLOW + PLAYED, INNER, *STEPS)
    assert problems(cases) == []
    assert inside(temporary) == []
    assert "real" not in inside(tmp_path)


async def test_a_workflow_reaches_nothing_that_is_not_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do its steps see the real variables that their definitions name."""
    monkeypatch.setenv("TOKEN_OF_STEP", "the real token")
    text = FLOW + "  - {params: {name: a}, expect_part: {}}\n"
    told = problems(await cases_of(tmp_path / "tools", text, INNER, *STEPS))
    assert "TOKEN_OF_STEP is not set" in told[0]
    assert told[1] == 'the real environment is not used here; give it env: {TOKEN_OF_STEP: "…"}'
    assert os.environ["TOKEN_OF_STEP"] == "the real token"


async def test_a_broken_workflow_is_told_as_such(tmp_path: Path) -> None:
    """One that calls itself, or a tool that is not there, and one made in code that has no form."""
    steps = ["x", {"id": "a", "tool": "odd", "params": {}}, {"id": "b", "tool": "gone"}]
    tests = [{"params": {}, "expect": 1}]
    tool = ToolConfigLoader().from_mapping({"name": "odd", "description": "d", "tests": tests})
    entry = {"type": "workflow", "steps": steps}
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        with pytest.raises(DefinitionError, match=r"entry\.steps\[0\]: a step is a mapping"):
            engine.register_tool(msgspec.structs.replace(tool, implementation_config=entry))


async def test_examples_may_prepare_the_same(tmp_path: Path) -> None:
    """An example with an output is run, with files of its own."""
    text = """
name: read
description: Reads.
parameters: [{name: path, type: string, required: true, description: P}]
entry: {type: builtin, handler: read_file, root: ../nowhere}
examples:
  - params: {path: a.txt}
    files: {a.txt: "1\\n"}
    output: {path: a.txt, content: "2\\n", first_line: 1, last_line: 1, total_lines: 1, version: v}
"""
    told = problems(await cases_of(tmp_path / "tools", text))
    assert told[0] == 'output.content: expected "2\\n", got "1\\n"'


def inside(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(each.name for each in folder.iterdir())


class Own:
    """A user's executor under one of our names."""

    async def execute(self, tool: Any, params: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"mine": params}


@pytest.mark.parametrize("name", ["write_file", "run_command", "run_shell_command", "sql_query"])
async def test_an_executor_of_the_user_stays(name: str, tmp_path: Path) -> None:
    """What a program has put in the place of ours is what its tools run with."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        engine.register_executor(name, Own())
        entry = {"type": "custom", "handler": name}
        tests: list[Any] = [{"params": {}, "expect": {"mine": {}}}]
        engine.register_tool({"name": "t", "description": "d", "entry": entry, "tests": tests})
        for _ in range(2):
            (report,) = await check_definitions(engine, cases=0)
            assert problems(report.cases) == []


async def test_a_cancelled_test_leaves_nothing(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cancelled: while its folder is made, while it runs, while all is removed."""
    case = {"files": {"a": "x"}, "sources": {"s": "CREATE TABLE t(a)"}}
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
        stand_ins = StandIns(engine)

        async def use() -> None:
            async with stand_ins.of(case):
                assert len(inside(temporary)) == 2
                await asyncio.sleep(0)

        for turns in range(12):
            task = asyncio.create_task(use())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            async with asyncio.timeout(10):
                await asyncio.wait([task])
            assert task.cancelled()
            assert inside(temporary) == []
        async with asyncio.timeout(10):
            await use()
    assert inside(temporary) == []


async def test_a_removal_that_no_thread_has_begun(tmp_path: Path, temporary: Path) -> None:
    """A test that is cancelled while all threads are busy removes its folders when they are not."""
    case = {"files": {"a": "x"}, "sources": {"s": "CREATE TABLE t(a)"}}
    loop, is_free = asyncio.get_running_loop(), threading.Event()
    is_made, may_end = asyncio.Event(), asyncio.Event()
    loop.set_default_executor(ThreadPoolExecutor(1, "asyncio_"))
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:

        async def use() -> None:
            async with StandIns(engine).of(case):
                is_made.set()
                await may_end.wait()

        task = asyncio.create_task(use())
        async with asyncio.timeout(30):
            await is_made.wait()
            busy = loop.run_in_executor(None, is_free.wait, 30)
            may_end.set()
            for _ in range(3):
                await asyncio.sleep(0)
                task.cancel()
            is_free.set()
            await asyncio.wait([task])
            await busy
        assert task.cancelled()
        assert inside(temporary) == []


async def test_what_cannot_be_made_fails_its_test(tmp_path: Path, temporary: Path) -> None:
    """A full disk, or a name too long, is told; nothing else is run and nothing left."""
    name = "x" * 300
    text = (
        "name: echo\ndescription: E.\nentry: {type: builtin, handler: echo}\ntests:\n"
        f"  - {{params: {{}}, files: {{{name}: x}}, expect: {{}}}}\n"
        "  - {params: {}, expect: {}}\n"
    )
    first, second = await cases_of(tmp_path / "tools", text)
    assert first.problems == ["what the test prepares cannot be made: File name too long"]
    assert second.problems == []
    assert inside(temporary) == []


SLOW = """
name: slow
description: Sleeps.
effect: read
entry: {type: builtin, handler: run_command, argv: [sleep, "60"]}
tests: [{params: {}, files: {a.txt: x}, expect_part: {}}]
"""


def test_ctrl_c_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    """A person who has waited long enough finds no folder, and no program still running."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "slow.yaml").write_text(SLOW.lstrip())
    command = ["-m", "tool_engine.cli", "--tools", str(tmp_path / "tools"), "test"]
    env = {**os.environ, "TMPDIR": str(temporary)}
    with warm.Program(command, env=env) as process:
        end = time.monotonic() + 30
        while not list(temporary.glob("tool-engine-test-*/files/a.txt")):
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert inside(temporary) == []
