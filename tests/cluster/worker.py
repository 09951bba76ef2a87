"""A process of a cluster: callers that call a provider again and again.

`python -m tests.cluster.worker URL NAME PORT CALLERS SECONDS LIMIT GRACE STRATEGY`

It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import LeaseLostError


async def work(words: list[str]) -> None:
    url, name, strategy = words[0], words[1], words[7]
    port, callers, limit = int(words[2]), int(words[3]), int(words[5])
    seconds, grace = float(words[4]), float(words[6])
    limits = ClusterLimits(1, buckets={"ai": limit}, strategy=strategy)
    member = ClusterMember(url, "tests", name, limits, grace=grace, ttl=3.0)
    controller = ClusterController(
        ConcurrencyConfig(max_concurrent=100, queue_timeout=None, strategy=strategy), member
    )

    async def call() -> None:
        while True:
            # The next one is another call.
            with contextlib.suppress(LeaseLostError):
                async with controller.slot("ai"):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(f"{name}\n".encode())
                    await reader.readline()
                    await asyncio.sleep(seconds)
                    # What the provider has not heard of has not ended for it.
                    writer.write_eof()
                    await reader.read()
                    writer.close()

    calls = [asyncio.create_task(call()) for _ in range(callers)]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await member.close()
    print(f"lost {controller.lost}", flush=True)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1:]))
