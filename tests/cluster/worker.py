"""A process of a cluster: callers that call a provider again and again.

`python -m tests.cluster.worker URL NAME PORT CALLERS SECONDS LIMITS GRACE STRATEGY BLOCKS TTL`

LIMITS is the JSON of what it shares, by the fields of a `ClusterConfig`. Each call belongs to one
of three conversations, and tells the provider of which, and when it was given its slot.

With BLOCKS each makes one call: all but one end at once, and then the last one keeps the event loop
from doing anything else for that many seconds. It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import structlog

from tool_engine import ClusterConfig, ToolExecutionContext
from tool_engine.admission.cluster.cluster_limits import limits_of
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ClusterUnavailableError, LeaseLostError


class Caller:
    """Makes the calls of a process.

    Args:
        controller: What gives slots.
        name: What the process is called.
        port: The provider's.
    """

    def __init__(self, controller: ClusterController, name: str, port: int) -> None:
        self.controller, self.name, self.port = controller, name, port
        self.ended = asyncio.Semaphore(0)
        """Released by each call that blocks nothing."""

    async def call_again_and_again(self, conversation: str, seconds: float) -> None:
        """Call, for ever; each call takes that long."""
        while True:
            try:
                # Where its lease was lost, the provider has seen it; the next one is another call.
                with contextlib.suppress(LeaseLostError):
                    await self._call(conversation, asyncio.sleep, seconds)
            except ClusterUnavailableError:
                await asyncio.sleep(0.05)  # its database was away for longer than the ttl

    async def call_and_end(self) -> None:
        """Call once, for a moment."""
        await self._call("c0", asyncio.sleep, 0.0)
        self.ended.release()

    async def call_and_block(self, others: int, seconds: float) -> None:
        """Call once, and let nothing else run as soon as so many others have ended."""
        await self._call("c0", self._block, others, seconds)

    async def _block(self, others: int, seconds: float) -> None:
        for _ in range(others):
            await self.ended.acquire()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass

    async def _call(self, conversation: str, work: Callable[..., Any], *arguments: Any) -> None:
        context = ToolExecutionContext(conversation_id=conversation)
        async with self.controller.slot("ai", context=context) as slot:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(f"{self.name} {conversation} {slot.acquired_at}\n".encode())
            await reader.readline()
            await work(*arguments)
            # What the provider has not heard of has not ended for it.
            writer.write_eof()
            await reader.read()
            writer.close()


async def work(words: list[str]) -> None:
    url, name, strategy = words[0], words[1], words[7]
    port, callers, seconds, grace = int(words[2]), int(words[3]), float(words[4]), float(words[6])
    blocks, ttl = float(words[8]), float(words[9])
    cluster = ClusterConfig(url=url, revision=1, **json.loads(words[5]))
    config = ConcurrencyConfig(
        max_concurrent=100, queue_timeout=None, strategy=strategy, cluster=cluster
    )
    member = ClusterMember(url, "tests", name, limits_of(config, cluster), grace=grace, ttl=ttl)
    controller = ClusterController(config, member)
    caller = Caller(controller, name, port)
    if blocks:
        coroutines = [caller.call_and_end() for _ in range(callers - 1)]
        coroutines.append(caller.call_and_block(callers - 1, blocks))
    else:
        coroutines = [caller.call_again_and_again(f"c{n % 3}", seconds) for n in range(callers)]
    calls = [asyncio.create_task(each) for each in coroutines]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await member.close()
    print(f"lost {controller.lost}", flush=True)


if __name__ == "__main__":
    structlog.configure()  # its lines on the standard output, where a test reads them
    asyncio.run(work(sys.argv[1:]))
