"""Do clients hear of a change after what would tell them of another was cut off?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer
from tool_engine.mcp_server.changes import Changes

BOUND = 20.0


@pytest.fixture
async def changes() -> Changes:
    """Changes that are followed."""
    made = MCPServer(ToolEngine())._changes
    made.follow(lambda *_: list)
    return made


def cancel_new(others: set[asyncio.Task[Any]]) -> int:
    """Cancel the tasks that were made since, as the end of a loop does; return how many."""
    made = asyncio.all_tasks() - others
    for task in made:
        task.cancel()
    return len(made)


async def test_one_that_was_cut_off_at_once(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may be served again on the next loop."""
    heard = asyncio.Event()

    async def hear() -> None:
        heard.set()

    monkeypatch.setattr(changes, "_tell_of_lists", hear)
    others = asyncio.all_tasks()
    changes._begin_telling()
    assert cancel_new(others) == 1
    await asyncio.sleep(0)
    changes.look()
    await asyncio.wait_for(heard.wait(), BOUND)
    await changes.close()


async def test_a_change_just_before_the_end(changes: Changes) -> None:
    """What is noted before the close, and heard after it, leaves nothing behind."""
    others = asyncio.all_tasks()
    changes.look()
    await changes.close()
    await asyncio.sleep(0)
    assert cancel_new(others) == 0
