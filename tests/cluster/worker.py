"""A process of a cluster: callers that call a provider again and again.

`python -m tests.cluster.worker URL NAME PORT CALLERS SECONDS LIMITS GRACE STRATEGY BLOCKS`

LIMITS is the JSON of what it shares, by the fields of a `ClusterConfig`. Each call belongs to one
of three conversations, and tells the provider of which, and when it was given its slot.

With BLOCKS each makes one call: all but one end at once, and then the last one keeps the event loop
from doing anything else for that many seconds. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from tool_engine import ClusterConfig, ToolExecutionContext
from tool_engine.admission.cluster.cluster_limits import limits_of
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ClusterUnavailableError, LeaseLostError


async def work(words: list[str]) -> None:  # noqa: C901 - all of one program
    url, name, strategy = words[0], words[1], words[7]
    port, callers, seconds, grace = int(words[2]), int(words[3]), float(words[4]), float(words[6])
    cluster = ClusterConfig(url=url, revision=1, **json.loads(words[5]))
    config = ConcurrencyConfig(
        max_concurrent=100, queue_timeout=None, strategy=strategy, cluster=cluster
    )
    limits = limits_of(config, cluster)
    member = ClusterMember(url, "tests", name, limits, grace=grace, ttl=3.0)
    controller = ClusterController(config, member)

    async def call(conversation: str) -> None:
        context = ToolExecutionContext(conversation_id=conversation)
        while True:
            try:
                await call_once(context, conversation)
            except LeaseLostError:
                pass  # the next one is another call
            except ClusterUnavailableError:
                await asyncio.sleep(0.05)  # its database was away for longer than the ttl

    async def call_once(context: ToolExecutionContext, conversation: str) -> None:
        async with controller.slot("ai", context=context) as slot:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{name} {conversation} {slot.acquired_at}\n".encode())
            await reader.readline()
            await asyncio.sleep(seconds)
            # What the provider has not heard of has not ended for it.
            writer.write_eof()
            await reader.read()
            writer.close()

    async def block(is_last: bool) -> None:
        async with controller.slot("ai") as slot:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{name} c0 {slot.acquired_at}\n".encode())
            await reader.readline()
            if is_last:
                for _ in range(callers - 1):
                    await ended.acquire()
                until = time.monotonic() + blocks
                while time.monotonic() < until:
                    pass
            writer.write_eof()
            await reader.read()
            writer.close()
        ended.release()

    ended = asyncio.Semaphore(0)
    blocks = float(words[8])
    if blocks:
        calls = [asyncio.create_task(block(number == 0)) for number in range(callers)]
    else:
        calls = [asyncio.create_task(call(f"c{number % 3}")) for number in range(callers)]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await member.close()
    print(f"lost {controller.lost}", flush=True)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1:]))
