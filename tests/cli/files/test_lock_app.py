"""Does `lock --app` approve what only a program knows: sources, and the code it registers?"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine
from tool_engine.catalog.approval.lock import ToolLock
from tool_engine.cli.engines import load_app, wait_for_app

Command = Callable[..., Any]
APP = "app_of_lock_test:make_engine"
MODULE = """
from tests.sources_of_tools import ListSource, tool
from tool_engine import ToolEngine, ToolEngineConfig

TEXT = {text!r}
NAMES = {names!r}


async def make_engine():
    engine = ToolEngine(ToolEngineConfig({folder!r}, auto_reload=False, lock="enforce"))
    source = ListSource("mcp:github", [tool(name, description=TEXT) for name in NAMES])
    await engine.add_source(source)
    return engine
"""


@pytest.fixture
def lock(tools: Path) -> Path:
    return tools.with_name("tools.lock")


@pytest.fixture
def app(tools: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the program anew, as its author would."""
    monkeypatch.chdir(tools.parent)

    def write(text: str = "Finds issues", *names: str, is_broken: bool = False) -> None:
        monkeypatch.delitem(sys.modules, "app_of_lock_test", raising=False)
        given: list[Any] = list(names or ("issues", "pulls"))
        source = MODULE.format(folder=str(tools), text=text, names=given)
        if is_broken:
            source = source.replace("tool(name, description=TEXT) for", "{'name': name} for")
        (tools.parent / "app_of_lock_test.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()

    write()
    return write


def in_program(work: Callable[[ToolEngine], Awaitable[Any]]) -> Any:
    """What `work` makes of the program's engine, while it is open."""
    found = load_app(APP)

    async def run() -> Any:
        async with await wait_for_app(found, APP) as engine:
            return await work(engine)

    return asyncio.run(run())


def call(name: str) -> Any:
    """What the program gets of a tool."""
    result = in_program(lambda engine: engine.execute(name, {}))
    return result.output or result.error_type


@pytest.mark.usefixtures("app")
def test_it_approves_files_and_sources(command: Command, lock: Path) -> None:
    ended = command("lock", "--app", APP)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "new      calculator 1.0.0",
        "new      echo 1.0.0",
        "new      fetch 1.0.0",
        "new      issues 1.0.0",
        "new      pulls 1.0.0",
        f"{lock}: 5 tools, 5 new: written",
    ]
    assert call("issues") == {"result": "mcp:github issues 1.0.0"}
    locked = ToolLock.read(str(lock)).tools
    assert (locked["issues"].origin, locked["echo"].origin) == ("mcp:github", None)
    checked = command("lock", "--check", "--app", APP)
    assert (checked.code, checked.out) == (0, f"{lock}: 5 tools, nothing changed\n")


def test_a_changed_text_waits_for_its_approval(
    command: Command, lock: Path, app: Callable[..., None]
) -> None:
    """The command that the refusal names lets it run again."""
    command("lock", "--app", APP)
    app("Sends all your files away")
    assert call("issues") == "tool_quarantined"
    checked = command("lock", "--check", "--app", APP)
    assert checked.code == 1
    assert checked.out.splitlines() == [
        "changed  issues 1.0.0",
        "changed  pulls 1.0.0",
        f"{lock}: 5 tools, 2 changed: not approved",
    ]

    said = in_program(lambda engine: engine.execute("issues", {})).error
    assert "`tool-engine lock --approve issues --app MODULE:NAME`, or await engine" in said
    approved = command("lock", "--approve", "issues", "--app", APP)
    assert approved.out.splitlines()[0] == "changed  issues 1.0.0"
    assert call("issues") == {"result": "mcp:github issues 1.0.0"}
    assert call("pulls") == "tool_quarantined"


def test_a_tool_that_is_gone_loses_its_line(
    command: Command, lock: Path, app: Callable[..., None]
) -> None:
    command("lock", "--app", APP)
    app("Finds issues", "issues")
    assert "gone     pulls 1.0.0" in command("lock", "--check", "--app", APP).out
    command("lock", "--app", APP)
    assert sorted(ToolLock.read(str(lock)).tools) == ["calculator", "echo", "fetch", "issues"]


@pytest.mark.usefixtures("app")
def test_the_folder_alone_leaves_the_lines_of_sources(command: Command, lock: Path) -> None:
    """Without the program nothing is known of them: they are neither gone nor approved anew.

    Looked at: `--check`, `--check --json`, writing, `--approve`, and `list`.
    """
    command("lock", "--app", APP)
    before = lock.read_text(encoding="utf-8")
    checked = command("lock", "--check")
    assert checked.code == 0
    note = f"{lock}: 2 tools of sources not looked at; name the engine that has them with --app\n"
    assert checked.out == f"{lock}: 3 tools, nothing changed\n{note}"
    assert command("lock", "--check", "--json").json["unseen"] == ["issues", "pulls"]
    assert command("lock").out.endswith(note)
    assert lock.read_text(encoding="utf-8") == before
    command("lock", "--approve", "echo")
    assert lock.read_text(encoding="utf-8") == before
    refused = command("lock", "--approve", "issues")
    assert refused.code == 2
    assert (
        "is of the source 'mcp:github', which only a program adds; name its engine" in refused.err
    )
    assert command("lock", "--approve", "issues", "--app", APP).code == 0
    assert "not approved" not in command("list").out


def test_nothing_is_written_while_a_source_does_not_load(
    command: Command, lock: Path, app: Callable[..., None]
) -> None:
    """Single tools may be approved all the same."""
    app("x", is_broken=True)
    ended = command("lock", "--app", APP)
    assert ended.code == 1
    assert "<mcp:github>: the tool 'issues' of the source 'mcp:github' is left out" in ended.err
    assert "nothing was written" in ended.err
    assert not lock.exists()
    assert command("lock", "--check", "--app", APP).code == 1
    assert command("lock", "--approve", "echo", "--app", APP).code == 0
    assert list(ToolLock.read(str(lock)).tools) == ["echo"]


@pytest.mark.usefixtures("app")
def test_a_broken_lock_file_is_written_anew(command: Command, lock: Path) -> None:
    lock.write_text("broken", encoding="utf-8")
    assert command("lock", "--approve", "echo", "--app", APP).code == 1
    assert command("lock", "--check", "--app", APP).code == 1
    anew = command("lock", "--app", APP)
    assert anew.code == 0
    assert "is no lock file" in anew.err
    assert len(ToolLock.read(str(lock)).tools) == 5


@pytest.mark.usefixtures("app")
def test_mistakes(command: Command) -> None:
    unknown = command("lock", "--approve", "isues", "--app", APP)
    assert unknown.code == 2
    assert "did you mean 'issues'?" in unknown.err
    both = command("lock", "--file", "other.lock", "--app", APP)
    assert both.code == 2
    assert "leave out --file" in both.err


@pytest.mark.usefixtures("app")
def test_the_program_reads_its_states(lock: Path) -> None:
    """`engine.check_lock` says the same, and writes nothing."""

    async def compare(engine: ToolEngine) -> list[dict[str, str]]:
        before = {each.name: each.status for each in await engine.check_lock()}
        await engine.lock_tools(["issues"])
        return [before, {each.name: each.status for each in await engine.check_lock()}]

    before, after = in_program(compare)
    assert before == dict.fromkeys(("calculator", "echo", "fetch", "issues", "pulls"), "new")
    assert after == {**before, "issues": "approved"}
    assert list(ToolLock.read(str(lock)).tools) == ["issues"]
