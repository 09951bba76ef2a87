"""Does a process take part in its cluster though its log is broken?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from tests.admission.cluster.test_random_members import Fleet, use_loop_clock
from tool_engine.errors import AdmissionError


def break_logs(logger: Any, name: str, event: Any) -> Any:
    raise BrokenPipeError(32, "nothing reads it")


async def test_a_log_that_is_broken_ends_no_membership(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage, which is logged, calls are granted again."""
    use_loop_clock(monkeypatch)
    structlog.configure(processors=[break_logs])
    fleet = Fleet(0)
    for controller in fleet.controllers:
        controller.release(await controller.acquire("ai"))
    fleet.database.crash()
    await asyncio.sleep(10)
    for controller in fleet.controllers:
        with pytest.raises(AdmissionError, match="has not answered for more than"):
            await controller.acquire("ai")
    fleet.start()
    await asyncio.sleep(10)
    async with asyncio.timeout(60):
        for controller in fleet.controllers:
            controller.release(await controller.acquire("ai"))
    await fleet.end()
