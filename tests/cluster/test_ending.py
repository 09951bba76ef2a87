"""What if an engine is closed while it joins a cluster, or afterwards?"""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.conftest import Make
from tests.cluster.crew import BOUND
from tool_engine.errors import EngineClosedError

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.mark.parametrize("is_there", [True, False], ids=["well", "away"])
async def test_it_is_closed_while_it_joins(make: Make, is_there: bool) -> None:
    """It is the engine that is closed, and not the database that does not answer."""
    engine = make() if is_there else make(url=NOWHERE)
    loading = asyncio.create_task(engine.load())
    member = engine.controller.member  # type: ignore[attr-defined]
    async with asyncio.timeout(BOUND):
        while member._running is None:  # noqa: ASYNC110 - it says nothing
            await asyncio.sleep(0)
        await engine.close()
        with pytest.raises(EngineClosedError, match="the engine is closed"):
            await loading


async def test_what_is_asked_of_a_closed_engine(make: Make) -> None:
    engine = make()
    await engine.load()
    view = engine.cluster
    assert view is not None
    await engine.close()
    for asked in (view.snapshot(), view.explain("call-1")):
        with pytest.raises(EngineClosedError, match="the engine is closed"):
            await asked
