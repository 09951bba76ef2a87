"""A process of a cluster that takes and gives back one slot as it is bid, and never waits for it.

`python -m tests.cluster.baton URL NAME LIMITS`: `try` is answered with `granted` or with what
refuses it, `end` with `ended`. LIMITS is the JSON of what its engine has beside the cluster. It
ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile

from tool_engine import ClusterConfig, ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.errors import AdmissionError


async def work(url: str, name: str, limits: str) -> None:
    # A holder that is slow to answer is no frozen one.
    cluster = ClusterConfig(
        url=url, revision=1, bucket_limits={"ai": 1}, session_grace=20.0, lease_ttl=60.0
    )
    concurrency = ConcurrencyConfig(cluster=cluster, **json.loads(limits))
    slots = []
    with tempfile.TemporaryDirectory() as folder:
        config = ToolEngineConfig(tools_directory=folder, process=name, concurrency=concurrency)
        async with ToolEngine(config) as engine:
            print("ready", flush=True)
            while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
                try:
                    if word == "try":
                        slots.append(await engine.controller.acquire("ai"))
                    else:
                        engine.controller.release(slots.pop())
                    print("granted" if word == "try" else "ended", flush=True)
                except AdmissionError as error:
                    print(type(error).__name__, flush=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
