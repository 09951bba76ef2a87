"""What errors about sources, blocking calls and standing decisions say to do is done.

The rows are as those of `test_cures_of_errors`. That of an answer to a session elsewhere is tried
in `tests/session/test_engine_approvals.py`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tool_engine import (
    ApprovalDecision,
    CallbackApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.cli.app import run
from tool_engine.errors import (
    ConfigurationError,
    EngineClosedError,
    SessionError,
    ToolEngineError,
)

ELSEWHERE = "approval/desk.py: the request stays open"
LOOP = "calls/home_loop.py: use `await engine.execute(...)`, or in a tool `await context.call(...)`"
DECISIONS = "cli/chat/sessions_command.py: `tool-engine sessions decisions` lists those that do"
CLOSED = "following.py: make a new one"
TWICE = (
    "following.py: take it out with remove_source(…), or give this one another origin, which "
    "import_tools takes as origin='import:NAME'"
)
ITS_ENGINE = "cli/files/lock_command.py: name its engine with --app MODULE:NAME"
DAMAGED = "knowledge/memory_approvals.py: it holds for no principal: revoke it"
TRIED = {ELSEWHERE, LOOP, DECISIONS, CLOSED, TWICE, ITS_ENGINE, DAMAGED}


class Source:
    """One tool, which is read when the source is let."""

    executor: Any = None

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.is_read = asyncio.Event()
        self.may_be_read = asyncio.Event()
        self.may_be_read.set()

    async def read_tools(self) -> list[dict[str, Any]]:
        self.is_read.set()
        await self.may_be_read.wait()
        entry = {"type": "builtin", "handler": "echo"}
        return [{"name": f"tool_of_{self.origin[-1]}", "description": "d", "entry": entry}]

    def follow(self, notify: Callable[[], None]) -> None:
        pass


def engine_in(path: Path, **config: Any) -> ToolEngine:
    path.mkdir(exist_ok=True)
    return ToolEngine(ToolEngineConfig(str(path), auto_reload=False, **config))


async def test_one_origin_twice(tmp_path: Path) -> None:
    """The first is removed, or one of the two has another origin."""
    async with engine_in(tmp_path / "tools") as engine:
        await engine.add_source(Source("mcp:a"))
        with pytest.raises(ConfigurationError) as raised:
            await engine.add_source(Source("mcp:a"))
        assert names_cure(TWICE, str(raised.value)), raised.value
        await engine.add_source(Source("mcp:b"))
        await engine.remove_source("mcp:a")
        assert (await engine.add_source(Source("mcp:a")))["added"] == ["tool_of_a"]


async def test_a_source_of_an_engine_that_closes(tmp_path: Path) -> None:
    """Another engine takes it."""
    engine, source = engine_in(tmp_path / "tools"), Source("mcp:a")
    await engine.load()
    source.may_be_read.clear()
    adding = asyncio.create_task(engine.add_source(source))
    await source.is_read.wait()
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    source.may_be_read.set()
    with pytest.raises(EngineClosedError) as raised:
        await adding
    await closing
    assert names_cure(CLOSED, str(raised.value)), raised.value
    async with engine_in(tmp_path / "tools") as another:
        assert (await another.add_source(source))["added"] == ["tool_of_a"]


APP = """
from tests.contracts.test_cures_of_outside import Source
from tool_engine import ToolEngine

async def make():
    engine = ToolEngine()
    await engine.add_source(Source("mcp:a"))
    return engine
"""


def test_a_tool_that_only_a_program_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command asks the program."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "app_of_cures_outside.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    its_engine = ["--app", "app_of_cures_outside:make"]
    assert run(["lock", *its_engine]) == 0
    assert run(["lock", "--approve", "tool_of_a"]) == 2
    said = capsys.readouterr().err
    assert names_cure(ITS_ENGINE, said.strip()), said
    assert run(["lock", "--approve", "tool_of_a", *its_engine]) == 0


async def test_a_call_that_would_block_its_own_loop(tmp_path: Path) -> None:
    """It is awaited, of the engine and of a tool's context."""
    async with engine_in(tmp_path / "tools") as engine:

        async def outer(context: ToolExecutionContext) -> Any:
            return (await context.call("inner")).output

        engine.register_tool({**HEAD, "name": "inner"}, lambda: 7)
        engine.register_tool({**HEAD, "name": "outer"}, outer)
        with pytest.raises(ToolEngineError) as raised:
            engine.execute_sync("inner")
        assert names_cure(LOOP, str(raised.value)), raised.value
        assert (await engine.execute("inner")).output == {"result": 7}
        assert (await engine.execute("outer")).output == {"result": 7}


async def test_a_damaged_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is revoked, and the others are listed; one that is not there is found in the list."""
    path = tmp_path / "calls.db"
    url = f"sqlite:///{path}"
    always = ApprovalDecision(is_approved=True, always="tool")
    async with engine_in(tmp_path / "tools", records=url) as engine:
        engine.register_tool({**HEAD, "permission": "ask_once"}, lambda: 1)
        session = ToolSession(
            engine, "s", approver=CallbackApprover(lambda request: always), principal="ann"
        )
        assert (await session.execute(HEAD["name"], {})).is_success
        (kept,) = await engine.approvals.standing()
        await asyncio.to_thread(_damage, path)
        with pytest.raises(SessionError) as raised:
            await engine.approvals.standing()
        assert names_cure(DAMAGED, str(raised.value)), raised.value
        assert await engine.approvals.revoke(kept.decision_id)
        assert await engine.approvals.standing() == []
    words = ["--records", url, "sessions"]
    assert await asyncio.to_thread(run, [*words, "revoke", kept.decision_id]) != 0
    assert names_cure(DECISIONS, " ".join(capsys.readouterr().err.split()))
    assert await asyncio.to_thread(run, [*words, "decisions"]) == 0


def _damage(path: Path) -> None:
    with sqlite3.connect(path) as database:
        (column,) = [
            each[1]
            for each in database.execute("PRAGMA table_info(tool_standing)")
            if each[1] in ("decision", "data", "content")
        ]
        database.execute(f"UPDATE tool_standing SET {column} = '[broken'")  # noqa: S608 - a column
    database.close()
