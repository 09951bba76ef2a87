"""Is an engine read on its own loop, wherever the question comes from?"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.observability.telemetry import BOUND, sample_engine
from tool_engine import ToolEngine
from tool_engine.observability import prometheus as scrape
from tool_engine.observability.prometheus import EngineReader


async def test_on_its_loop() -> None:
    """From a thread, the reading is done by the thread of the loop; there, at once."""
    engine, _ = sample_engine()
    reader, threads = EngineReader(engine), []
    figures = reader._read_figures

    def noted() -> Any:
        threads.append(threading.current_thread())
        return figures()

    reader._read_figures = noted  # type: ignore[method-assign]
    assert reader.read() is not None
    assert await asyncio.wait_for(asyncio.to_thread(reader.read), BOUND) is not None
    assert threads == [threading.current_thread()] * 2
    await engine.close()


async def test_a_blocked_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the loop is blocked there are no figures, and none are read when it is too late."""
    monkeypatch.setattr(scrape, "_TIMEOUT", 0.01)
    engine, _ = sample_engine()
    reader, found, read = EngineReader(engine), [], []
    reader._read_figures = lambda: read.append(1)  # type: ignore[assignment, method-assign, return-value]
    thread = threading.Thread(target=lambda: found.append(reader.read()))
    thread.start()
    thread.join(BOUND)  # blocks the loop
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (found, read) == ([None], [])
    await engine.close()


async def test_a_reading_that_fails() -> None:
    """What goes wrong in the loop is raised where it was asked for."""
    engine, _ = sample_engine()
    reader = EngineReader(engine)
    controller, engine._admission = engine._admission, None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        await asyncio.wait_for(asyncio.to_thread(reader.read), BOUND)
    engine._admission = controller
    await engine.close()


def test_without_a_loop() -> None:
    """Before the first loop, between two and after the last, it is read directly."""
    engine, _ = sample_engine_now()
    reader = EngineReader(engine)
    assert reader.read() is not None

    async def meet() -> None:
        reader.meet_loop()
        reader.meet_loop()
        assert reader._loop is asyncio.get_running_loop()

    asyncio.run(meet())
    assert reader.read() is not None
    asyncio.run(meet())
    asyncio.run(engine.close())


def sample_engine_now() -> tuple[ToolEngine, Any]:
    """`asyncio.Event` of the samples needs no loop."""
    return sample_engine()


async def test_closed_in_between() -> None:
    """A loop that is closed just when it is asked leaves the engine to be read directly."""
    engine, _ = sample_engine()
    reader = EngineReader(engine)

    class Closing:
        def is_running(self) -> bool:
            return True

        def call_soon_threadsafe(self, *_: Any) -> None:
            raise RuntimeError("Event loop is closed")

    reader._loop = Closing()  # type: ignore[assignment]
    assert reader.read() is not None
    await engine.close()
