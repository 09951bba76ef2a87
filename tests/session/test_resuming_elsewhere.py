"""Does a consent that is given in another process look at what holds there and then?

Looked at: everything that `execute` asks before a call (what is on, groups, bounds, rules, helpers)
and that `resume` did not, where the process has not asked itself.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import pytest

from tests.approval.people import Person
from tests.session.catalogs import definition, group, write
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.permission import Permission
from tool_engine.session.session import ToolSession

BOUND = 20.0
DENY: Any = Permission(execution="deny")  # type: ignore[arg-type]


class Process:
    """An engine on the database that all share."""

    def __init__(self, folder: Path) -> None:
        self.paid: list[str] = []
        self.engine = ToolEngine(
            ToolEngineConfig(
                tools_directory=str(folder / "tools"),
                auto_reload=False,
                records=f"sqlite:///{folder}/records.db",
            )
        )

    async def __aenter__(self) -> Self:
        await self.engine.__aenter__()

        async def pay(text: str, count: int = 0) -> str:
            self.paid.append(text)
            return text

        async def around(text: str, context: ToolExecutionContext, count: int = 0) -> Any:
            return (await context.call("pay", {"text": text})).to_dict()

        for name, handler in (("pay", pay), ("around", around)):
            self.engine.register_executor(name, _Executor(handler))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.engine.__aexit__(*exc_info)


class _Executor:
    def __init__(self, handler: Any) -> None:
        self._handler = handler

    async def execute(self, tool: Any, params: Any, context: Any) -> Any:
        extra = {"context": context} if tool.name == "around" else {}
        return await self._handler(**params, **extra)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path / "tools",
        definition("pay", permission="ask_always", entry={"type": "custom", "handler": "pay"}),
        definition("around", entry={"type": "custom", "handler": "around"}),
        group("money", tools=["pay"], enabled=True),
    )
    return tmp_path


async def deferred(folder: Path, tool_name: str = "pay") -> str:
    """The token of a call that waits, of a process that is gone."""
    async with asyncio.timeout(BOUND), Process(folder) as first:
        session = ToolSession(first.engine, "S", approver=Person(None))
        result = await session.execute(tool_name, {"text": "ada"})
        assert first.paid == []
        (request,) = session.pending_approvals
        assert result.approval_token in (None, request.token)
        return request.token


@pytest.mark.parametrize(
    ("settings", "error_type"),
    [
        ({"tool_toggles": {"pay": False}}, "rejected"),
        ({"enabled": False}, "rejected"),
        ({"group_toggles": {"money": False}}, "rejected"),
        ({"max_calls": 1}, "limit_reached"),
        ({"max_uses": {"pay": 1}}, "limit_reached"),
        ({"rules": {"pay": DENY}}, "execution_rejected"),
        (
            {"group_permissions": {"money": DENY}, "tool_permissions": {"pay": DENY}},
            "execution_rejected",
        ),
    ],
)
async def test_what_holds_by_then(folder: Path, settings: Any, error_type: str) -> None:
    """What is off, used up or forbidden in the process of the answer does not run."""
    token = await deferred(folder)
    async with asyncio.timeout(BOUND), Process(folder) as second:
        session = ToolSession(second.engine, "S", settings)
        # Nobody can be asked about it, and it counts.
        await session.execute("pay", {"text": "bob"})
        result = await session.resume(token, True)
        assert (result.error_type, second.paid) == (error_type, [])


async def test_it_runs_once_and_is_counted(folder: Path) -> None:
    """Of all processes one runs it, where it is one of the calls of its conversation."""
    token = await deferred(folder)
    async with asyncio.timeout(BOUND), Process(folder) as second, Process(folder) as third:
        sessions = [
            ToolSession(each.engine, "S", {"max_uses": {"pay": 1}}) for each in (second, third)
        ]
        ended = await asyncio.gather(
            *(each.resume(token, True) for each in sessions), return_exceptions=True
        )
        assert sorted(second.paid + third.paid) == ["ada"]
        assert sum(isinstance(each, Exception) for each in ended) == 1
        assert sorted(each.usage().calls for each in sessions) == [0, 1]


async def test_a_restored_session_does_not_count_it_twice(folder: Path) -> None:
    """Where it was asked about it was counted already."""
    async with asyncio.timeout(BOUND), Process(folder) as first:
        session = ToolSession(first.engine, "S", {"max_uses": {"pay": 1}}, Person(None))
        token = (await session.execute("pay", {"text": "ada"})).approval_token
        await session.save()
    async with asyncio.timeout(BOUND), Process(folder) as second:
        restored = await ToolSession.restore(second.engine, "S")
        assert restored is not None
        assert token is not None
        assert (await restored.resume(token, True)).is_success
        assert restored.usage().calls == 1


async def test_a_tool_that_only_others_call(folder: Path) -> None:
    """What another tool wanted to call need not be on; only that tools are on at all."""
    token = await deferred(folder, "around")
    async with asyncio.timeout(BOUND), Process(folder) as second:
        off = ToolSession(second.engine, "S", {"enabled": False})
        assert (await off.resume(token, True)).error_type == "rejected"
        assert second.paid == []
    token = await deferred(folder, "around")
    async with asyncio.timeout(BOUND), Process(folder) as second:
        hidden = ToolSession(second.engine, "S", {"tool_toggles": {"pay": False}})
        assert (await hidden.resume(token, True)).is_success
        assert second.paid == ["ada"]
        assert (hidden.usage().calls, hidden.usage().calls_of_turn) == (1, 0)
