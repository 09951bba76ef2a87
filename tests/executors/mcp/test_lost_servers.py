"""How often does a tool run whose server dies in each call?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.executors.mcp.conftest import COMMAND
from tool_engine import MCPSource, ToolEngine

READ: dict[str, Any] = {"effect": "read"}
SHARED = {**READ, "concurrency": {"key": "params", "collision": "single_flight"}}


@pytest.mark.parametrize(
    ("says", "runs"),
    [
        ({}, 1),
        (READ, 2),
        (SHARED, 2),
        ({**READ, "retry": {"attempts": 3, "backoff": 0.01}}, 3),
        ({**SHARED, "retry": {"attempts": 3, "backoff": 0.01}}, 3),
        ({**READ, "retry": {"attempts": 1}}, 1),
        ({**READ, "retry": {"attempts": 3, "on": ["timeout"]}}, 1),
    ],
)
async def test_a_retry_says_how_often_it_runs(
    engine: ToolEngine, tmp_path: Path, says: dict[str, Any], runs: int
) -> None:
    """As often as its `retry` says; without one once more, where it may run twice."""
    trace = tmp_path / "trace"
    await engine.add_source(
        MCPSource("odd", command=COMMAND, env={"TRACE": str(trace)}, tools={"die": says})
    )
    is_shared = "concurrency" in says

    results = await asyncio.gather(*(engine.execute("die", {}) for _ in range(1 + is_shared)))

    assert {each.error_type for each in results} == {"worker_lost"}
    assert trace.read_text().count("died") == runs
    if "retry" in says:
        assert results[0].metadata["attempts"] == runs
    metrics = engine.controller.snapshot().metrics
    assert (metrics.active, metrics.zombies) == (0, 0)
    assert (await engine.execute("echo", {"text": "on"})).is_success
