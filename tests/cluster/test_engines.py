"""Do engines that share a cluster keep its limits, and do calls end that lost their slots?"""

from __future__ import annotations

import asyncio
import ctypes
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from tests import warm
from tests.cluster.conftest import BRIEF, TTL, Make, Service
from tests.cluster.crew import BOUND
from tool_engine import (
    ClusterConfig,
    ClusterUnavailableError,
    ConcurrencyConfig,
    ConfigurationError,
    LeaseLostError,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.cluster import controller as cluster_controller
from tool_engine.observability.prometheus import instrument

STILL = 1.1 * TTL


def block_loop(seconds: float) -> int:
    """Keep the whole process from doing anything else, as if it were stopped."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # no other thread runs meanwhile
    return 1


async def test_one_limit_for_two_engines(make: Make, service: Service) -> None:
    engines = [make(), make()]
    for engine in engines:
        await engine.load()
    calls = [asyncio.create_task(engines[i % 2].execute("work")) for i in range(12)]
    await service.until(2)
    await asyncio.sleep(0.1)
    assert service.running == 2
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert service.most == 2
    assert [result.error_type for result in results] == [None] * 12


async def test_what_a_closed_engine_had_is_there_for_others(make: Make, service: Service) -> None:
    first, second = make(), make()
    service.gate.set()
    await first.load()
    await second.load()
    assert (await first.execute("work")).is_success
    await first.close()
    service.gate.clear()
    calls = [asyncio.create_task(second.execute("work")) for _ in range(2)]
    await service.until(2)
    service.gate.set()
    assert all(result.is_success for result in await asyncio.gather(*calls))


async def test_a_process_that_stood_still_ends_its_calls(make: Make, service: Service) -> None:
    """Both the one in which it stood still and the one that waited meanwhile."""
    engine = make(**BRIEF)

    async def stand_still() -> int:
        """Keep the event loop from doing anything else."""
        return block_loop(STILL)

    engine.tool(name="stand_still", concurrency={"bucket": "ai"})(stand_still)
    engine.tool(name="apart", concurrency={"bucket": "own"})(service.work)
    await engine.load()
    waiting = asyncio.create_task(engine.execute("work"))
    apart = asyncio.create_task(engine.execute("apart"))
    await service.until(2)
    stood_still = await engine.execute("stand_still")
    assert stood_still.error_type == "lease_lost"
    assert stood_still.output == {}
    assert "look whether the tool has run" in (stood_still.error or "")
    async with asyncio.timeout(BOUND):
        lost = await waiting
    assert lost.error_type == "lease_lost"
    assert service.running == 1, "the tool of the lost call goes on"
    service.gate.set()
    assert (await apart).is_success, "what is not shared was not lost"
    records = await engine.store.query_call_records()
    assert [each.error_type for each in records].count("lease_lost") == 2
    async with asyncio.timeout(BOUND):
        assert (await engine.execute("work")).is_success, "its next calls have slots again"


async def test_a_lost_call_is_not_tried_again(make: Make, service: Service) -> None:
    engine = make(**BRIEF)
    attempts = 0

    async def flaky() -> int:
        """Fail after a while."""
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.sleep(0)
            block_loop(STILL)
        raise ValueError("too bad")

    retry = {"attempts": 5, "backoff": 0.01, "on": ["execution_error"]}
    engine.tool(name="flaky", concurrency={"bucket": "ai"}, retry=retry, idempotent=True)(flaky)
    await engine.load()
    result = await engine.execute("flaky")
    assert result.error_type == "lease_lost", result.error
    assert attempts == 1


async def test_a_call_that_calls_after_it_was_lost(make: Make, service: Service) -> None:
    """It ends before the inner call begins: its slot is lent only if it is its own."""
    engine = make(**BRIEF)
    service.gate.set()

    async def outer(context: ToolExecutionContext) -> int:
        """Stand still, then make a call."""
        block_loop(STILL)
        return len((await context.call("work")).output)

    engine.tool(name="outer", concurrency={"bucket": "ai"})(outer)
    await engine.load()
    result = await engine.execute("outer")
    assert result.error_type == "lease_lost", result.error
    async with asyncio.timeout(BOUND):
        calls = [engine.execute("work") for _ in range(6)]
        assert all(result.is_success for result in await asyncio.gather(*calls))
    assert service.most <= 2


async def test_a_call_that_waits_for_its_own_call(make: Make, service: Service) -> None:
    """What it has lent it cannot lose: the inner call alone is lost."""
    engine = make(**BRIEF)

    async def outer(context: ToolExecutionContext) -> str:
        """Wait for a call that stands still, and say how it ended."""
        return str((await context.call("inner")).error_type)

    async def inner() -> int:
        """Keep the event loop from doing anything else."""
        return block_loop(STILL)

    engine.tool(name="outer", concurrency={"bucket": "ai"})(outer)
    engine.tool(name="inner", concurrency={"bucket": "ai"})(inner)
    await engine.load()
    async with asyncio.timeout(BOUND):
        result = await engine.execute("outer")
    assert (result.error_type, result.output) == (None, {"result": "lease_lost"})


async def test_calls_that_share_a_run_share_its_loss(make: Make, service: Service) -> None:
    engine = make(**BRIEF)

    async def shared() -> int:
        """Stand still after a while."""
        await service.work()
        return block_loop(STILL)

    concurrency = {"bucket": "ai", "collision": "single_flight"}
    engine.tool(name="shared", concurrency=concurrency, effect="read")(shared)
    await engine.load()
    calls = [asyncio.create_task(engine.execute("shared")) for _ in range(3)]
    await service.until(1)
    service.gate.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*calls)
    assert [result.error_type for result in results] == ["lease_lost"] * 3
    assert service.ended == 1


async def test_a_slot_that_was_lost_says_so(make: Make) -> None:
    engine = make(**BRIEF)
    await engine.load()
    with pytest.raises(LeaseLostError, match="look at it, then do it again"):
        async with engine.controller.slot("ai"):
            block_loop(STILL)
    async with engine.controller.slot("ai"):
        await asyncio.sleep(0)


async def test_a_pause_holds_everywhere(make: Make, service: Service) -> None:
    """As after an answer with Retry-After: other processes leave the service alone, too."""
    first, second = make(), make()
    service.gate.set()
    for engine in (first, second):
        await engine.load()
        assert (await engine.execute("work")).is_success
    assert second.cluster is not None
    first.controller.pause_bucket("ai", 3.0)
    began = time.monotonic()
    async with asyncio.timeout(BOUND):
        while not second.controller.pause_left("ai"):  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.005)
        assert 0.0 < (await second.cluster.snapshot()).paused["bucket:ai"] <= 3.0
        assert (await second.execute("work")).is_success
    assert time.monotonic() - began >= 2.9, "it waited for the end of the pause"


async def test_a_higher_revision_holds_everywhere(make: Make, service: Service) -> None:
    first, second = make(), make()
    for engine in (first, second):
        await engine.load()
    calls = [asyncio.create_task([first, second][i % 2].execute("work")) for i in range(8)]
    await service.until(2)
    config = first.controller.config
    assert config.cluster is not None
    fields = {"revision": 2, "bucket_limits": {"ai": 5}}
    first.controller.configure(with_cluster(config, **fields))
    await service.until(5)
    await asyncio.sleep(0.1)
    assert service.running == 5
    service.gate.set()
    await asyncio.gather(*calls)


def with_cluster(config: ConcurrencyConfig, **fields: Any) -> ConcurrencyConfig:
    """The same limits with other ones of the cluster."""
    assert config.cluster is not None
    return msgspec.structs.replace(
        config, cluster=msgspec.structs.replace(config.cluster, **fields)
    )


async def test_what_can_be_seen_of_a_cluster(make: Make, service: Service, url: str) -> None:
    first, second = make(), make()
    for engine in (first, second):
        await engine.load()
    assert first.cluster is not None
    assert second.cluster is not None
    calls = [asyncio.create_task(first.execute("work")) for _ in range(3)]
    await service.until(2)
    call_id = second.calls.reserve_id()
    calls.append(asyncio.create_task(second.execute("work", call_id=call_id)))
    async with asyncio.timeout(BOUND):
        while len((await second.cluster.snapshot()).waiting) < 2:  # noqa: ASYNC110 - others say it
            await asyncio.sleep(0.01)
        said = await second.cluster.explain(call_id)
    assert said == "number 2 for bucket:ai in the cluster, behind 1 call of p0; held by p0 (2)"
    for engine, leased in ((first, 2), (second, 0)):
        bucket = engine.controller.snapshot().buckets["ai"]
        assert (bucket["limit"], bucket["leased"]) == (2, leased)
        assert engine.controller.get_bucket_metrics()["ai"]["utilization"] == leased / 2
    found = await first.cluster.snapshot()
    assert (found.revision, found.limits, found.used) == (1, {"bucket:ai": 2}, {"bucket:ai": 2})
    assert [(each.process, each.units, each.waiting) for each in found.processes] == [
        ("p0", {"bucket:ai": 2}, 1),
        ("p1", {}, 1),
    ]
    assert [(each.position, each.process) for each in found.waiting] == [(1, "p0"), (2, "p1")]
    ended = await asyncio.to_thread(
        warm.run, ["-m", "tool_engine", "--cluster", url, "cluster", "status"]
    )
    assert "bucket:ai\t2\t2\t2\t-" in ended.stdout, ended
    with instrument(first) as metrics:
        text = generate_latest(metrics.registry).decode()
    assert 'tool_bucket_leased_count{bucket="ai"} 2.0' in text
    assert "tool_cluster_connected 1.0" in text
    assert "tool_cluster_waiting 1.0" in text
    assert "tool_cluster_lost_total 0.0" in text
    assert first.cluster.count()["statements"] > 1
    (running, _) = first.controller.snapshot().held
    said = await first.cluster.explain(str(running.call_id))
    assert said == "it does not wait for other processes"
    unknown = "it neither runs nor waits in this process: it has ended, or is a call of another one"
    assert (await first.cluster.explain(call_id)).startswith(unknown)
    service.gate.set()
    await asyncio.gather(*calls)
    assert (await second.cluster.explain(call_id)).startswith(unknown)


async def test_what_is_shared_may_change(make: Make, service: Service) -> None:
    """A revision may share another bucket, and another one no more, while calls run and wait."""
    first, second = make(), make()
    for engine in (first, second):
        engine.tool(name="other", concurrency={"bucket": "web"})(service.work)
        await engine.load()
    calls = [asyncio.create_task([first, second][i % 2].execute("work")) for i in range(4)]
    await service.until(2)
    config = first.controller.config
    first.controller.configure(with_cluster(config, revision=2, bucket_limits={"web": 1}))
    await service.until(4)  # the others do not wait any more
    await until_it_knows(second, 2)
    service.gate.set()
    assert all(result.is_success for result in await asyncio.gather(*calls))
    service.gate.clear()
    service.most = 0
    calls = [asyncio.create_task([first, second][i % 2].execute("other")) for i in range(4)]
    await service.until(1)
    await asyncio.sleep(0.2)
    assert service.running == 1
    free = [asyncio.create_task(second.execute("work")) for _ in range(4)]
    await service.until(5)
    service.gate.set()
    assert all(result.is_success for result in await asyncio.gather(*calls, *free))


async def until_it_knows(engine: ToolEngine, revision: int) -> None:
    """Waits until an engine goes by the limits of a revision."""
    async with asyncio.timeout(BOUND):
        while read_revision(engine) < revision:  # noqa: ASYNC110 - another process says it
            await asyncio.sleep(0.01)


def read_revision(engine: ToolEngine) -> int:
    cluster = engine.controller.config.cluster
    assert cluster is not None
    return cluster.revision


async def test_what_runs_as_its_bucket_comes_to_be_shared(make: Make, service: Service) -> None:
    """It has none of the units, so others start beside it; what comes later has."""
    first, second = make(bucket_limits={}), make(bucket_limits={})
    for engine in (first, second):
        await engine.load()
    before = [asyncio.create_task(first.execute("work")) for _ in range(3)]
    await service.until(3)
    config = second.controller.config
    second.controller.configure(with_cluster(config, revision=2, bucket_limits={"ai": 1}))
    await until_it_knows(first, 2)
    after = [asyncio.create_task(engine.execute("work")) for engine in (first, second) * 2]
    await service.until(4)
    await asyncio.sleep(0.2)
    assert service.running == 4
    service.gate.set()
    assert all(result.is_success for result in await asyncio.gather(*before, *after))


async def test_one_revision_has_one_set_of_limits(make: Make) -> None:
    first, second = make(), make(bucket_limits={"ai": 3})
    await first.load()
    with pytest.raises(ConfigurationError, match=r"other bucket_limits; give .* revision 2"):
        await second.load()
    with pytest.raises(ConfigurationError, match="make a new engine for another one"):
        first.controller.configure(with_cluster(first.controller.config, name="another"))


async def test_who_came_second_with_limits_shows_those_that_hold(make: Make) -> None:
    """Two bring a revision at once: one of them is refused, and the configuration says so."""
    engines = [make(), make()]
    for engine in engines:
        await engine.load()
    for engine, limit in zip(engines, (3, 4), strict=True):
        fields = {"revision": 2, "bucket_limits": {"ai": limit}}
        engine.controller.configure(with_cluster(engine.controller.config, **fields))
    async with asyncio.timeout(BOUND):
        # An answer tells each of them.
        for engine in engines:
            async with engine.controller.slot("ai"):
                assert engine.cluster is not None
                holds = (await engine.cluster.snapshot()).limits
    for engine in engines:
        cluster = engine.controller.config.cluster
        assert cluster is not None
        assert {f"bucket:{name}": n for name, n in cluster.bucket_limits.items()} == holds


async def test_who_refuses_at_once_leaves_the_order_to_others(make: Make) -> None:
    """`reject` has none, and `aging_interval` counts where waiting calls age alone."""
    rejecting = make(concurrency={"strategy": "reject"})
    await rejecting.load()
    urgent = make(concurrency={"strategy": "priority", "aging_interval": 3.0})
    await urgent.load()
    assert urgent.cluster is not None
    assert (await urgent.cluster.snapshot()).strategy == "priority"
    for engine in (make(concurrency={"strategy": "reject"}), rejecting):
        await engine.load()
        async with engine.controller.slot("ai"):
            pass
    for own, what in (
        ({"strategy": "fifo"}, "strategy and aging_interval"),
        ({"strategy": "priority"}, "aging_interval"),
    ):
        with pytest.raises(ConfigurationError, match=f"revision 1 with other {what};"):
            await make(concurrency=own).load()
    config = urgent.controller.config
    with pytest.raises(ConfigurationError, match="with other strategy"):
        urgent.controller.configure(msgspec.structs.replace(config, strategy="fair"))
    assert urgent.controller.config.strategy == "priority"


async def test_limits_without_an_order_keep_the_one_that_there_is(make: Make) -> None:
    fair = make(concurrency={"strategy": "fair"})
    await fair.load()
    await make(revision=2, bucket_limits={"ai": 3}, concurrency={"strategy": "reject"}).load()
    for aging in (3.0, 4.0):  # nothing ages
        own = {"strategy": "fair", "aging_interval": aging}
        await make(revision=2, bucket_limits={"ai": 3}, concurrency=own).load()
    assert fair.cluster is not None
    found = await fair.cluster.snapshot()
    assert (found.strategy, found.revision, found.limits) == ("fair", 2, {"bucket:ai": 3})


async def test_a_lower_revision_changes_nothing(make: Make) -> None:
    """The configuration shows what holds, and not what was asked for."""
    engine = make(revision=3)
    await engine.load()
    older = with_cluster(engine.controller.config, revision=2, bucket_limits={"ai": 9})
    engine.controller.configure(msgspec.structs.replace(older, max_concurrent=7))
    config = engine.controller.config
    assert config.max_concurrent == 7
    assert config.cluster is not None
    assert (config.cluster.revision, config.cluster.bucket_limits) == (3, {"ai": 2})


async def test_a_database_that_is_not_there(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_controller, "_PATIENCE", 0.5)
    nowhere = "postgresql://someone:secret-word@127.0.0.1:1/none"
    engine = make(url=nowhere)
    async with asyncio.timeout(BOUND):
        with pytest.raises(ClusterUnavailableError, match="on_unavailable='local'") as raised:
            await engine.load()
    assert "secret-word" not in str(raised.value)
    assert raised.value.error_type == "rejected"


async def test_secrets_of_the_url(make: Make, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_URL", url)
    engine = make(url="${env:CLUSTER_URL}")
    await engine.load()
    missing = make(url="postgresql://owner:${env:NO_SUCH_WORD}@127.0.0.1/x")
    with pytest.raises(ConfigurationError, match="cluster: the environment variable 'NO_SUCH"):
        await missing.load()


def test_one_engine_on_one_loop_after_another(url: str, tmp_path: Path) -> None:
    """It connects anew, and has nothing any more that others may have had meanwhile."""
    running = most = 0

    async def work() -> int:
        """Count how many run at once."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return 1

    def make_engine() -> ToolEngine:
        config = ConcurrencyConfig(cluster=ClusterConfig(url=url, bucket_limits={"ai": 1}))
        engine = ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path)), concurrency=config)
        engine.tool(name="work", concurrency={"bucket": "ai"})(work)
        return engine

    async def call(*engines: ToolEngine) -> None:
        async with asyncio.timeout(BOUND):
            for engine in engines[1:]:
                await engine.load()
            first = asyncio.create_task(engines[-1].execute("work"))
            while not running:  # noqa: ASYNC110 - it waits until the other one is given up
                await asyncio.sleep(0.005)
            calls = await asyncio.gather(first, *(each.execute("work") for each in engines * 2))
        assert all(each.is_success for each in calls)

    async def end(*engines: ToolEngine) -> None:
        await call(*engines)
        for engine in engines:
            await engine.close()

    one, other = make_engine(), make_engine()
    asyncio.run(call(one))
    asyncio.run(end(one, other))
    assert most == 1


def test_a_controller_alone_shares_nothing(url: str) -> None:
    config = ConcurrencyConfig(cluster=ClusterConfig(url=url, bucket_limits={"ai": 1}))
    with pytest.raises(ConfigurationError, match="or leave cluster out"):
        ToolConcurrencyController(config)
    with pytest.raises(ConfigurationError, match="or leave cluster out"):
        ToolConcurrencyController().configure(config)
