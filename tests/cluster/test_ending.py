"""What if an engine is closed while it joins a cluster, or afterwards?"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from tests.cluster.conftest import Make, Service
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


class Stubborn:
    """Work that goes on, whoever wants it to end."""

    def __init__(self) -> None:
        self.may_end, self.has_begun = threading.Event(), threading.Event()

    async def swallow(self) -> None:
        """Work on the event loop."""
        self.has_begun.set()
        while not self.may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    def block(self) -> None:
        """Work in a thread."""
        self.has_begun.set()
        self.may_end.wait(BOUND)


@pytest.mark.parametrize("way", ["swallow", "block"])
async def test_work_that_cannot_be_ended(make: Make, service: Service, way: str) -> None:
    """Its unit is with it until it has ended, though its engine is closed."""
    stubborn = Stubborn()
    handler: Callable[[], Awaitable[None] | None] = getattr(stubborn, way)
    service.gate.set()
    one, other = (make(bucket_limits={"ai": 1}) for _ in range(2))
    one.tool(name="stay", concurrency={"bucket": "ai"})(handler)
    await one.load()
    await other.load()
    try:
        lost = asyncio.create_task(one.execute("stay"))
        assert await asyncio.to_thread(stubborn.has_begun.wait, BOUND)
        waiting = asyncio.create_task(other.execute("work"))
        with capture_logs() as logs:
            await one.close()
        assert [each["units"] for each in logs if each["event"] == "cluster_units_kept"] == [
            {"bucket:ai": 1}
        ]
        assert (await lost).error_type == "engine_closed"
        assert other.cluster is not None
        async with asyncio.timeout(BOUND):
            while not (found := await other.cluster.snapshot()).waiting:  # noqa: ASYNC110 - only the database knows
                await asyncio.sleep(0.01)
        assert [(each.process, each.units) for each in found.processes] == [
            ("p0", {"bucket:ai": 1}),
            ("p1", {}),
        ]
        assert not waiting.done()
    finally:
        stubborn.may_end.set()
    async with asyncio.timeout(BOUND):
        assert (await waiting).is_success
        while [each.process for each in (await other.cluster.snapshot()).processes] != ["p1"]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        # Nothing of the closed engine stays behind.
        member = one.controller.member  # type: ignore[attr-defined]
        while not member._running.done() or member._stand_in._thread.is_alive():  # noqa: ASYNC110 - they end
            await asyncio.sleep(0.01)
