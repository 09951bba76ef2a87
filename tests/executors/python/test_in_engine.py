"""R9: YAML and a module are all that a Python tool needs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.cli.files.checking import check_files
from tool_engine.errors import ConfigurationError
from tool_engine.executors.executor_registry import ExecutorRegistry

Write = Callable[[str], str]

BOUND = 30.0

HANDLERS = """
import os
async def later(text, context): return [text, context.caller_id, os.getpid()]
def now(text, context): return [text, context.caller_id, os.getpid()]
def wrong(txt): ...
"""


def define(folder: Path, name: str, place: str, config: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(
        f"name: {name}\ndescription: A sample of this test\n"
        "parameters: [{name: text, type: string, required: true, description: x}]\n"
        f"entry: {{type: custom, handler: '{place}'{config}}}\n"
    )


def engine_of(folder: Path, **settings: object) -> ToolEngine:
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False, **settings)  # type: ignore[arg-type]
    return ToolEngine(config)


RAISING = """
import json
def broken(text):
    return parse(text)
async def broken_later(text):
    return parse(text)
def parse(text):
    return json.loads(text)
def own(text):
    from tool_engine.errors import ToolExecutionError
    raise ToolExecutionError("no")
"""


async def test_the_line_of_an_author_in_another_process(tmp_path: Path, write: Write) -> None:
    """It is the one that a handler in this process has, and not one of Python or the engine."""
    module, tools = write(RAISING), tmp_path / "tools"
    apart = ", config: {isolation: process, memory: 512MiB, workers: 1}"
    for name, config in (("here", ""), ("apart", apart)):
        for function in ("broken", "broken_later", "own"):
            define(tools, f"{name}_{function}", f"{module}:{function}", config)
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        assert engine.load_errors == []
        for function in ("broken", "broken_later", "own"):
            here, there = [
                await engine.execute(f"{name}_{function}", {"text": "{"})
                for name in ("here", "apart")
            ]
            assert there.error == here.error
            found = [each.metadata.get("error_details") for each in (here, there)]
            assert found[0] == found[1]
            assert (found[0] is None) is (function == "own")
            if found[0] is not None:
                assert found[0]["raised_at"].endswith(f"{module}.py:8")


async def test_from_yaml_alone(tmp_path: Path, write: Write) -> None:
    """R9: async, sync and isolated handlers run from a definition, with arguments and context."""
    module, tools = write(HANDLERS), tmp_path / "tools"
    apart = ", config: {isolation: process, memory: 512MiB, workers: 1}"
    define(tools, "later", f"{module}:later")
    define(tools, "now", f"{module}:now")
    define(tools, "apart", f"{module}:now", apart)
    context = ToolExecutionContext(caller_id="me")
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        assert engine.load_errors == []
        found = {}
        for name in ("later", "now", "apart"):
            result = await engine.execute(name, {"text": "a"}, context)
            assert result.is_success, result.error
            *rest, found[name] = result.output["result"]
            assert rest == ["a", "me"]
    assert found["later"] == found["now"] == os.getpid() != found["apart"]


async def test_mistakes_are_load_errors(tmp_path: Path, write: Write) -> None:
    """R9: a handler that cannot run is a load error of its file; the others load."""
    module, tools = write(HANDLERS), tmp_path / "tools"
    broken = write("raise RuntimeError('no licence')\ndef f(text): ...")
    define(tools, "fits", f"{module}:now")
    define(tools, "misses", f"{module}:nwo")
    define(tools, "differs", f"{module}:wrong")
    define(tools, "raises", f"{broken}:f")
    define(tools, "raises_apart", f"{broken}:f", ", config: {isolation: process}")
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        errors = {Path(file).stem: message for file, message in engine.load_errors}
        assert [tool.name for tool in engine.index] == ["fits"]
    assert "entry.handler" in errors["misses"]
    assert "did you mean 'now'" in errors["misses"]
    assert "does not take the declared parameter 'text'" in errors["differs"]
    assert "cannot be imported: RuntimeError: no licence" in errors["raises"]
    assert "cannot be imported: RuntimeError: no licence" in errors["raises_apart"]


async def test_registered_in_code(tmp_path: Path, write: Write) -> None:
    """R9: a definition in code may name its handler too; what is wrong shows at its call."""
    module = write(HANDLERS)
    (tmp_path / "tools").mkdir()
    async with asyncio.timeout(BOUND), engine_of(tmp_path / "tools") as engine:
        for name in ("now", "later", "wrong"):
            engine.register_tool(
                {
                    "name": name,
                    "description": "A sample",
                    "parameters": [
                        {"name": "text", "type": "string", "required": True, "description": "x"}
                    ],
                    "entry": {"type": "custom", "handler": f"{module}:{name}"},
                }
            )
        for name in ("now", "later"):
            assert (await engine.execute(name, {"text": "a"})).output["result"][0] == "a"
            assert (await engine.execute(name, {"text": "b"})).output["result"][0] == "b"
        result = await engine.execute("wrong", {"text": "a"})
        assert result.error_type == "execution_error"
        assert "does not take the declared parameter 'text'" in str(result.error)


async def test_an_executor_of_that_name_comes_first(tmp_path: Path) -> None:
    """R2: what somebody registers in code under the handler's name runs the tool."""

    class Own:
        async def execute(self, tool: object, params: object, context: object) -> str:
            return "own"

    define(tmp_path / "tools", "sample", "some:thing")
    engine = engine_of(tmp_path / "tools")
    engine.register_executor("some:thing", Own())
    async with asyncio.timeout(BOUND), engine:
        assert engine.load_errors == []
        assert (await engine.execute("sample", {"text": "a"})).output == {"result": "own"}


def test_checking_runs_no_code(tmp_path: Path, write: Write) -> None:
    """R5, R9: `tool-engine validate` reads the module and never imports it."""
    module = write(f"open({str(tmp_path / 'ran')!r}, 'w')\n{HANDLERS}")
    tools = tmp_path / "tools"
    define(tools, "fits", f"{module}:now")
    define(tools, "misses", f"{module}:nwo")
    define(tools, "apart", f"{module}:now", ", config: {isolation: process}")
    checked = {Path(each.file).stem: each for each in check_files([str(tools)])}
    assert checked["fits"].problems == checked["apart"].problems == []
    assert checked["fits"].warnings == checked["apart"].warnings == []
    (problem,) = checked["misses"].problems
    assert (problem.path, problem.line) == ("entry.handler", 4)
    assert not (tmp_path / "ran").exists()
    assert module not in sys.modules


async def test_unapproved_definitions_run_no_code(tmp_path: Path, write: Write) -> None:
    """R9, promise 5: with `lock="enforce"` no module is imported for what nobody approved."""
    module, tools = write(f"open({str(tmp_path / 'ran')!r}, 'w')\n{HANDLERS}"), tmp_path / "tools"
    good = write(HANDLERS)
    define(tools, "sample", f"{good}:now")
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        assert (await engine.execute("sample", {"text": "a"})).error_type == "tool_quarantined"
        await engine.lock_tools(None)
        assert good not in sys.modules
        assert (await engine.execute("sample", {"text": "a"})).output["result"][0] == "a"
        lock = await asyncio.to_thread((tmp_path / "tools.lock").read_text)
        assert lock.count("sha256:") == 2
        define(tools, "sample", f"{module}:now")
        define(tools, "other", f"{module}:now")
        await engine.reload()
        for name in ("sample", "other"):
            assert (await engine.execute(name, {"text": "a"})).error_type == "tool_quarantined"
    assert not (tmp_path / "ran").exists()
    assert module not in sys.modules


async def test_approval_covers_the_code(tmp_path: Path, write: Write) -> None:
    """R9: an approved tool whose module was edited is quarantined until it is approved again."""
    module, tools = write(HANDLERS), tmp_path / "tools"
    define(tools, "sample", f"{module}:now")
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        await engine.lock_tools(None)
    (tmp_path / f"{module}.py").write_text(HANDLERS + "# edited")
    async with asyncio.timeout(BOUND), engine_of(tools, lock="enforce") as engine:
        result = await engine.execute("sample", {"text": "a"})
        assert result.error_type == "tool_quarantined"
        assert "the code of" in str(result.error)


async def test_registry_close_ends_workers(tmp_path: Path, write: Write) -> None:
    """C24: the registry closes the processes of handlers with the other executors."""
    module = write(HANDLERS)
    define(tmp_path / "tools", "apart", f"{module}:now", ", config: {isolation: process}")
    async with asyncio.timeout(BOUND), engine_of(tmp_path / "tools") as engine:
        output = (await engine.execute("apart", {"text": "a"})).output
        pid = output["result"][-1]
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_threads_have_a_limit(tmp_path: Path, write: Write) -> None:
    """R9: no more plain functions run at once than `max_threads`; the others wait, and then run."""
    module = write(
        """
        import threading, time
        running, most = set(), []
        def slow(text):
            running.add(threading.get_ident())
            most.append(len(running))
            time.sleep(0.02)
            running.discard(threading.get_ident())
            return max(most)
        """
    )
    define(tmp_path / "tools", "slow", f"{module}:slow")
    async with asyncio.timeout(BOUND), engine_of(tmp_path / "tools", max_threads=2) as engine:
        calls = [engine.execute("slow", {"text": "a"}) for _ in range(8)]
        results = await asyncio.gather(*calls)
    assert all(result.is_success for result in results)
    assert max(result.output["result"] for result in results) == 2
    with pytest.raises(ConfigurationError, match="max_threads"):
        ToolEngineConfig(max_threads=0)


def test_names(make: Callable[..., object]) -> None:
    """R9: a place in a module is no executor's name, and no suggestion either."""
    registry = ExecutorRegistry()
    tool = make({"handler": "a.b:c"})
    assert registry.is_python(tool)  # type: ignore[arg-type]
    assert not registry.is_python(make({"handler": "echo"}))  # type: ignore[arg-type]
    assert not any(":" in name for name in registry.names())
