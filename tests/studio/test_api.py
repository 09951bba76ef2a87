"""Do the pages ask the API as others do, and leave others their turns?"""

from __future__ import annotations

import asyncio

from tests.server.conftest import Service
from tool_engine.studio.api import API
from tool_engine.studio.door import LOCAL


async def test_many_questions_do_not_hold_the_loop(studio: Service) -> None:
    """Between two of them all others have a turn."""

    async def is_known() -> bool:
        return True

    api = API(studio.app.studio._api, LOCAL, is_known, None)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    for _ in range(20):
        await api.get("/v1/limits")
    other.cancel()
    assert turns >= 20
