"""What may stand in the one row of a cluster, and for how long does it wait?"""

from __future__ import annotations

import asyncio

import pytest

from tests.postgres import PostgresServer
from tool_engine import (
    ClusterConfig,
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.admission.cluster.cluster_database import read_state
from tool_engine.errors import ConfigurationError

URL = "postgresql://host/coordination"
LONG = "x" * 3_000_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lease_ttl": 1e308}, "cluster.lease_ttl must be at most 86400 s"),
        ({"idle_time": 1e9}, "cluster.idle_time must be at most 86400 s"),
        ({"session_grace": 1e6, "lease_ttl": 1e9}, "cluster.session_grace must be at most 86400"),
        ({"session_grace": 1e-9}, "cluster.session_grace must be at least 0.01 s"),
        ({"lease_ttl": float("inf")}, "finite"),
        ({"name": None}, "cluster.name must be a text that is not empty, got None"),
        ({"name": LONG}, "cluster.name must be a text of at most 100 characters"),
        ({"name": "a\0b"}, "without a zero character"),
        ({"name": "\ud800"}, "one half of a surrogate pair"),
        ({"bucket_limits": {LONG: 1}}, "a name in cluster.bucket_limits must be"),
        ({"bucket_rates": {"\ud800": "1/s"}}, "a name in cluster.bucket_rates must be"),
        ({"breakers": {"\0": {}}}, "a name in cluster.breakers must be"),
    ],
)
def test_settings_out_of_bounds(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        ClusterConfig(**{"url": URL, **fields})  # type: ignore[arg-type]
    assert len(str(raised.value)) < 500


def test_settings_at_the_bounds() -> None:
    made = ClusterConfig(
        url=URL, name="x" * 100, lease_ttl=86_400, idle_time=86_400, session_grace=0.01
    )
    assert (len(made.name), made.lease_ttl, made.session_grace) == (100, 86_400, 0.01)


async def test_what_calls_say_makes_no_large_row(
    postgres_server: PostgresServer, tmp_path: object
) -> None:
    """Whatever is long is named by its hash: keys of callers and of tools, and the process."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    kinds = ("conversation_id", "caller_id", "workflow_id")
    cluster = ClusterConfig(url=url, bucket_limits={"ai": 9}, key_limits=dict.fromkeys(kinds, 9))
    engine = ToolEngine(
        ToolEngineConfig(tools_directory=str(tmp_path), process=f"\ud800\0{LONG}"),
        concurrency=ConcurrencyConfig(strategy="fair", cluster=cluster),
    )
    started, gate = asyncio.Semaphore(0), asyncio.Event()

    async def work(order: str) -> int:
        """Wait."""
        started.release()
        await gate.wait()
        return len(order)

    own = {"bucket": "ai", "key": "params.order", "scope": "cluster"}
    engine.tool(name="work", concurrency=own)(work)
    async with engine, asyncio.timeout(20):
        calls = []
        for number in range(3):
            context = ToolExecutionContext(
                **dict.fromkeys(kinds, f"{number}{LONG}")  # type: ignore[arg-type]
            )
            order = {"order": f"{number}{LONG}"}
            calls.append(asyncio.create_task(engine.execute("work", order, context)))
            await started.acquire()
        found = await read_state(url, "default")
        assert found is not None
        assert 100 < len(found.state) < 10_000
        gate.set()
        for each in await asyncio.gather(*calls):
            assert each.is_success, each.error
