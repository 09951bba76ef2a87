"""Which engines have another controller, or another backend, than that of their own process?"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.calls.audit import EMPTY_FOLDER, Audit
from tests.calls.samples import bare
from tests.contracts.doors.far_backend import FarBackend
from tests.contracts.doors.far_controller import FarController
from tests.contracts.doors.wire import Wire
from tests.properties.admission_ledger import WatchedController
from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.backends import LocalBackend

__all__ = ["A_WHILE", "DOORS", "Crowd", "Stand"]

A_WHILE = 60.0
"""Virtual seconds in which all messages have arrived that ever will."""
DOORS = ("local, local", "far, local", "local, far", "far, far")
"""The controllers and the backends."""


class Stand:
    """An engine, and those who look on at its doors.

    Args:
        doors: Which controller and which backend.
        seed: Of the lines.
        limits: The fields of `ConcurrencyConfig`.
    """

    def __init__(self, doors: str, seed: int = 1, **limits: Any) -> None:
        controller, backend = doors.split(", ")
        loop = asyncio.get_running_loop()
        self.decides = WatchedController(ConcurrencyConfig(**limits), loop.time)
        self.far_backend = FarBackend(Wire(seed)) if backend == "far" else None
        self.engine = ToolEngine(
            ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False, max_records=100_000),
            controller=self.decides
            if controller == "local"
            else FarController(self.decides, Wire(seed)),
            backend=self.far_backend or LocalBackend(),
        )
        self.audit = Audit(self.engine)

    async def check(self, results: list[ToolExecutionResult] | None = None) -> None:
        """K28, C14, C26: one end per call, nothing held on any side, and all goes on."""
        await asyncio.sleep(A_WHILE)
        await self.audit.check(results)
        self.decides.check()
        self.decides.check_idle()
        if self.far_backend is not None:
            worker = self.far_backend.worker
            assert not worker.running
            assert len(worker.runs) == len(set(worker.runs)), "an attempt was run twice"

    async def close(self) -> None:
        self.audit.unsubscribe()
        await self.engine.close()
        assert (await self.engine.execute("quick")).error_type == "engine_closed"


class Crowd:
    """Tools of all kinds, and callers who lose patience.

    Args:
        stand: Whose engine is called.
        seed: Of the dice.
    """

    TOOLS = ("quick", "slow", "fail", "flaky", "stubborn", "here_nest", "rated", "keyed")

    def __init__(self, stand: Stand, seed: int) -> None:
        self.stand = stand
        self.dice = random.Random(seed)  # noqa: S311 - the same crowd each time
        self.results: list[ToolExecutionResult] = []
        self.cancelled = 0
        keys: dict[str, dict[str, Any]] = {
            "flaky": {"effect": "read", "retry": {"attempts": 3, "backoff": 0.5}},
            "rated": {"rate": "5/s"},
            "keyed": {"concurrency": {"key": "caller_id", "key_limit": 1}},
        }
        for name in self.TOOLS:
            tool = getattr(self, name)
            stand.engine.register_tool(bare(name, **keys.get(name, {})), tool)

    async def quick(self) -> str:
        return "quick"

    async def slow(self) -> str:
        await asyncio.sleep(self.dice.random() * 2)
        return "slow"

    rated = keyed = slow

    async def fail(self) -> None:
        raise ValueError("crowd")

    async def flaky(self) -> None:
        await asyncio.sleep(self.dice.random())
        if self.dice.random() < 0.6:
            raise ValueError("flaky")

    async def stubborn(self) -> None:
        try:
            await asyncio.sleep(self.dice.random() * 4)
        except asyncio.CancelledError:
            await asyncio.sleep(self.dice.random() * 3)

    async def here_nest(self, context: ToolExecutionContext) -> str | None:
        inner = await context.call(self.dice.choice(self.TOOLS))
        return inner.error_type

    async def caller(self, number: int) -> None:
        await asyncio.sleep(self.dice.random() * 10)
        timeout = self.dice.choice([0.4, 2.0, 8.0])
        context = ToolExecutionContext(caller_id=f"caller-{number % 7}", timeout=timeout)
        name = self.dice.choice(self.TOOLS)
        call = asyncio.ensure_future(self.stand.engine.execute(name, {}, context))
        if self.dice.random() < 0.3:
            asyncio.get_running_loop().call_later(self.dice.random() * 3, call.cancel)
        try:
            result = await call
        except asyncio.CancelledError:
            self.cancelled += 1
            return
        self.results.append(result)
        # Its time runs from when it has its slot, and no further.
        assert result.execution_time <= timeout + 1e-6, result
