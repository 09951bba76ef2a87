"""Every test of the admission runs on virtual time: no test waits, and none can hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.admission.crew import Crew
from tests.admission.virtual_time import VirtualTimeLoop

MakeCrew = Callable[..., Crew]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


@pytest.fixture
async def crew_of() -> AsyncIterator[MakeCrew]:
    """Makes crews; at the end, all leave and their controllers must be empty."""
    crews: list[Crew] = []

    def make(**limits: object) -> Crew:
        crews.append(Crew(**limits))
        return crews[-1]

    yield make
    for crew in crews:
        await crew.leave()
