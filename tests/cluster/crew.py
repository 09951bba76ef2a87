"""Which processes call one provider at the same time, and how do they end?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import Any

from tests.warm import ROOT
from tests.warm_async import AsyncProgram, start

BOUND = 20.0


class Crew:
    """Processes that call a provider."""

    def __init__(self, url: str, port: int) -> None:
        self.url, self.port, self.strategy = url, port, "fifo"
        self.grace, self.ttl = 0.3, 3 * BOUND
        self.blocks = 0.0
        self.limits: dict[str, Any] = {"bucket_limits": {"ai": 2}}
        self.running: list[AsyncProgram] = []

    async def start(self, name: str, callers: int, seconds: float) -> AsyncProgram:
        words = [self.url, name, str(self.port), str(callers), str(seconds)]
        words += [json.dumps(self.limits), str(self.grace), self.strategy, str(self.blocks)]
        words.append(str(self.ttl))
        process = await start(
            *("-m", "tests.cluster.worker", *words), cwd=ROOT, imports=("tests.cluster.worker",)
        )
        self.running.append(process)
        async with asyncio.timeout(BOUND):
            assert await process.stdout.readline() == b"ready\n"
        return process

    async def end(self) -> None:
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            if process.returncode is None:
                process.stdin.close()
                try:
                    await asyncio.wait_for(process.wait(), BOUND)
                except TimeoutError:
                    process.kill()
