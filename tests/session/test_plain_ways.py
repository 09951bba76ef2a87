"""Does a call that takes the shortest way leave the same as one that takes each step?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig, ToolSession
from tool_engine.session.calling import SessionCalls
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.scope import SessionScope

CALLS: tuple[tuple[str, Any], ...] = (
    ("echo", {"value": "a text"}),
    ("echo", {"value": "ünïcode"}),
    ("echo", {"value": "a\ud800"}),
    ("echo", {"value": 7}),
    ("echo", {"value": -(2**63) - 1}),
    ("echo", {"value": 2.5}),
    ("echo", {"value": None}),
    ("echo", {"value": "x" * 70_000}),
    ("echo", {"value": [1, {"a": "b"}]}),
    ("echo", {"value": "$VAR_REF{{echo_1_result}}"}),
    ("echo", {"value": "a text", "limit": 3}),
    ("echo", {"other": 1}),
    ("echo", {1: 2}),
    ("echo", None),
    ("table", {"count": 20}),
    ("table", {"count": 3_000}),
    ("later", {"value": "slow"}),
    ("failing", {}),
    ("read_var", {"name": "echo_1_result"}),
)
CHANGES: dict[str, Callable[[ToolSession], object]] = {
    "nothing": lambda session: None,
    "off": lambda session: session.toolbox.set_tool_enabled("echo", False),
    "presented": lambda session: session.presentations.update(
        echo=Presentation(format=lambda *_: "made")
    ),
    "in a turn": lambda session: session.meter.begin_turn(),
    "stopped": lambda session: session.meter.stop_calls("max_calls_reached", "no more"),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Callable[[ToolSession], object]:
    return CHANGES[request.param]


async def test_the_shortest_way_leaves_what_each_step_leaves(
    change: Callable[[ToolSession], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: result, texts, variables, labels, use and record are the same, whichever way."""
    short = await _run_calls(change, tmp_path)
    monkeypatch.setattr(SessionCalls, "_begin_plain", lambda *_: None)
    monkeypatch.setattr(SessionScope, "begin_known", lambda *_: False)
    assert short == await _run_calls(change, tmp_path)


async def test_most_calls_take_the_shortest_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: from the second call of a tool on."""
    taken: list[str] = []
    run = SessionCalls._run_plain

    async def note(self: SessionCalls, called: Any, *rest: Any) -> Any:
        taken.append(called.placed.name)
        return await run(self, called, *rest)

    monkeypatch.setattr(SessionCalls, "_run_plain", note)
    await _run_calls(CHANGES["nothing"], tmp_path)
    assert taken.count("echo") > len(CALLS) // 2
    assert taken.count("table") > 2


async def _run_calls(change: Callable[[ToolSession], object], folder: Path) -> list[Any]:
    """Return what each call, made three times around a change, leaves."""
    left: list[Any] = []
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    async with ToolEngine(config) as engine:
        _add_tools(engine)
        session = ToolSession(engine, "chat-1", {"limit": 500}, principal="anna")
        for turn in range(3):
            if turn == 2:
                change(session)
            for name, params in CALLS:
                result = await session.execute(name, params)
                left.append(
                    (
                        (result.is_success, result.error, result.error_type, result.output),
                        (result.formatted_text, result.final_text, result.is_truncated),
                        (result.result_variable, result.args_variable, result.status),
                        result.validation_errors,
                        {**result.metadata, "call_id": "", "queue_wait": 0.0},
                        session.variables.has_large,
                    )
                )
        left += [(each.name, each.value, each.kind, each.labels) for each in session.variables]
        left.append(session.meter.usage().by_tool)
        for record in reversed(await engine.store.query_call_records(limit=200)):
            left.append(
                (
                    (record.tool_name, record.params, record.result, record.error_type),
                    (record.caller_id, record.caller_type, record.conversation_id),
                    (record.session_id, record.priority, record.attempts),
                )
            )
    return left


def _add_tools(engine: ToolEngine) -> None:
    @engine.tool
    async def echo(value: Any) -> Any:
        """Gives a value back."""
        return value

    @engine.tool
    async def table(count: int) -> dict[str, Any]:
        """Makes rows."""
        return {"rows": [{"id": at, "name": f"name {at}"} for at in range(count)]}

    @engine.tool
    async def later(value: str) -> str:
        """Gives a text back in the next turn."""
        await asyncio.sleep(0)
        return value

    @engine.tool
    async def failing() -> str:
        """Fails."""
        raise ValueError("no")
