"""What an error about metrics, traces or virtual time says to do is done, and it works.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest
from prometheus_client import CollectorRegistry

from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tool_engine import ToolEngine
from tool_engine.errors import ConfigurationError
from tool_engine.observability import opentelemetry, prometheus
from tool_engine.testing import VirtualLoop

CLOSE = "close() the first instrumentation before"
OF_TRACES = f"observability/opentelemetry.py: {CLOSE}"
OF_METRICS = f"observability/prometheus.py: {CLOSE}"
OWN_REGISTRY = "observability/prometheus.py: give this one a registry of its own"
HOSTS = (
    "observability/spans.py: write api.example.com, *.example.com or *, without scheme, "
    "port and path"
)
THREADS = (
    "testing/virtual_loop.py: keep threads out of what runs on it, or use an ordinary event loop"
)
NEW_LOOP = "testing/virtual_loop.py: make a new one"
STOP = "testing/virtual_loop.py: stop it first"
TRIED = {OF_TRACES, OF_METRICS, OWN_REGISTRY, HOSTS, THREADS, NEW_LOOP, STOP}


def answer() -> int:
    return 42


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with ToolEngine() as made:
        made.register_tool(HEAD, answer)
        yield made


def calls_in(registry: CollectorRegistry) -> float | None:
    """How many calls succeeded, as Prometheus reads it."""
    labels = {"tool_name": "t", "status": "succeeded"}
    return registry.get_sample_value("tool_executions_total", labels)


@pytest.mark.parametrize(
    ("row", "instrument"),
    [(OF_TRACES, opentelemetry.instrument), (OF_METRICS, prometheus.instrument)],
)
async def test_second_instrumentation(
    engine: ToolEngine, row: str, instrument: Callable[[ToolEngine], prometheus.PrometheusMetrics]
) -> None:
    """An engine whose first instrumentation was closed takes another one."""
    first = instrument(engine)
    with pytest.raises(ConfigurationError) as raised:
        instrument(engine)
    assert names_cure(row, str(raised.value)), raised.value
    first.close()
    with instrument(engine):
        assert (await engine.execute("t")).is_success


async def test_registry_of_another_engine(engine: ToolEngine) -> None:
    """With a registry of its own each engine has its own numbers."""
    own = CollectorRegistry()
    async with ToolEngine() as other:
        other.register_tool(HEAD, answer)
        first = prometheus.instrument(engine)
        with pytest.raises(ConfigurationError) as raised:
            prometheus.instrument(other, first.registry)
        assert names_cure(OWN_REGISTRY, str(raised.value)), raised.value
        with prometheus.instrument(other, own):
            await other.execute("t")
            assert (calls_in(own), calls_in(first.registry)) == (1, None)
        first.close()


@pytest.mark.parametrize("wrong", ["https://api.example.com", "api.example.com:443", "a.b/path"])
@pytest.mark.parametrize("right", ["api.example.com", "*.example.com", "*"])
async def test_hosts_of_a_trace(engine: ToolEngine, wrong: str, right: str) -> None:
    """A host in each of the three forms is taken."""
    with pytest.raises(ConfigurationError) as raised:
        opentelemetry.instrument(engine, propagate_to=[wrong])
    assert names_cure(HOSTS, str(raised.value)), raised.value
    opentelemetry.instrument(engine, propagate_to=[right]).close()


async def from_a_thread() -> list[str]:
    """What a thread has to say of the loop that it calls into: nothing, or its error."""
    loop, said = asyncio.get_running_loop(), asyncio.Event()
    errors: list[str] = []

    def work() -> None:
        try:
            loop.call_soon_threadsafe(said.set)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if not errors:
        await said.wait()
    return errors


def test_thread_that_calls_into_virtual_time() -> None:
    """Without the thread it runs; with it, on an ordinary loop."""
    loop = VirtualLoop()
    (error,) = loop.run_until_complete(from_a_thread())
    assert names_cure(THREADS, error), error
    loop.run_until_complete(asyncio.sleep(3600))
    assert asyncio.run(from_a_thread()) == []


def test_closed_virtual_loop() -> None:
    """What a closed loop refuses, a new one runs."""
    loop = VirtualLoop()
    loop.close()
    with pytest.raises(RuntimeError) as raised:
        loop.run_until_complete(asyncio.sleep(1))
    assert names_cure(NEW_LOOP, str(raised.value)), raised.value
    VirtualLoop().run_until_complete(asyncio.sleep(1))


def test_virtual_loop_that_is_closed_while_it_runs() -> None:
    """It is closed once it was stopped."""
    loop, errors = VirtualLoop(), []

    def close() -> None:
        try:
            loop.close()
        except RuntimeError as error:
            errors.append(str(error))
        loop.stop()

    loop.call_soon(close)
    loop.run_forever()
    (error,) = errors
    assert names_cure(STOP, error), error
    loop.close()
    assert loop.is_closed()
