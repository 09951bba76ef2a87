"""Virtual time for every test here but those with threads, whose names say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.calls.audit import Audit, make_engine
from tests.calls.virtual_loop import VirtualLoop
from tool_engine import ToolEngine


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if "thread" in item.path.stem:
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}


@pytest.fixture(autouse=True)
def without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at the earliest time that they may."""
    monkeypatch.setattr("tool_engine.calls.retrying.random", float)


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with make_engine() as made:
        yield made


@pytest.fixture
async def audit(engine: ToolEngine) -> AsyncIterator[Audit]:
    """Checks at the end of the test what must hold for every call."""
    made = Audit(engine)
    yield made
    await made.check()
