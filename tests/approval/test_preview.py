"""What would a call change, as its executor sees it?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.approval.people import TOOL, Person
from tests.calls.audit import EMPTY_FOLDER
from tool_engine import Permission, ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.approval.preview import preview_of, previewed_by
from tool_engine.errors import ToolExecutionError
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.result import ResultLimits

NO = ApprovalDecision(is_approved=False)
WRITE_FILE = ToolConfigLoader().load_file(Path(__file__).parents[2] / "tools/write_file.yaml")


class Plain:
    def __init__(self, said: Any) -> None:
        self._said = said

    def preview(self, tool: Any, params: dict[str, Any]) -> Any:
        if isinstance(self._said, Exception):
            raise self._said
        return self._said


class Waiting(Plain):
    async def preview(self, tool: Any, params: dict[str, Any]) -> Any:
        await asyncio.sleep(1.0)
        return super().preview(tool, params)


class Endless:
    async def preview(self, tool: Any, params: dict[str, Any]) -> Any:
        await asyncio.Event().wait()


async def said_by(executor: Any, **params: Any) -> str | None:
    with previewed_by(executor):
        return await preview_of(TOOL, params)


@pytest.mark.parametrize("kind", [Plain, Waiting])
async def test_what_an_executor_says(kind: type[Plain]) -> None:
    """Plain or async; without secrets; what would fail is said to fail."""
    assert await said_by(kind("-a\n+b")) == "-a\n+b"
    assert await said_by(kind(ToolExecutionError("no such file"))) == (
        "Nothing, it would fail: no such file"
    )
    shown = await said_by(kind("token=sk-proj-abcdefghijklmnopqrstuvwx123456"))
    assert shown is not None
    assert "abcdefghijkl" not in shown


@pytest.mark.parametrize(
    "executor", [object(), None, Plain(None), Plain(""), Plain(5), Plain(OSError("x")), Endless()]
)
async def test_what_nobody_can_tell(executor: Any) -> None:
    """Whoever is asked does without it, and does not wait for it for ever."""
    assert await said_by(executor) is None
    assert await preview_of(TOOL, {}) is None


async def test_secret_arguments_are_hidden() -> None:
    """What the definition calls a secret is none of the reader's business."""
    names = [ToolParameter(name, "string", secret=True) for name in ("pin", "other", "number")]
    tool = msgspec.structs.replace(TOOL, parameters=names)
    with previewed_by(Plain("the pin is 0000.")):
        assert await preview_of(tool, {"pin": "0000", "other": "", "number": 5}) == (
            "the pin is [hidden]."
        )


@pytest.mark.parametrize("limits", [None, ResultLimits(max_chars=100)])
async def test_a_file_that_would_change(tmp_path: Path, limits: ResultLimits | None) -> None:
    """D19: who is asked about `write_file` reads the difference, in the whole engine, also where
    the definition limits what is read of the result."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    entry = {"type": "builtin", "handler": "write_file", "root": str(tmp_path)}
    permission = Permission(execution="ask_always")  # type: ignore[arg-type] # a text is taken too
    changes = {"implementation_config": entry, "permission": permission, "source": None}
    tool = msgspec.structs.replace(WRITE_FILE, result=limits, **changes)
    person = Person(NO)
    config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False)
    async with ToolEngine(config, approver=person) as engine:
        engine.register_tool(tool)
        await engine.execute("write_file", {"path": "a.txt", "content": "one\n2\n"})
        await engine.execute("write_file", {"path": "../a.txt", "content": ""})
    first, second = [request.preview or "" for request in person.asked]
    assert first.endswith(" one\n-two\n+2\n")
    assert second.startswith("Nothing, it would fail: ")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
