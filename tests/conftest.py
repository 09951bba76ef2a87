"""What holds for every test: no blocking of the event loop, nothing left behind, no luck.

An async test fails when the package blocks the loop, or when a task or a thread outlives it.
Hypothesis always tries the same examples, so that a failure on one machine fails on all.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
import structlog
from blockbuster import BlockBuster

from tests.postgres import postgres_server as postgres_server  # one server for all tests
from tests.tracing import traced_at_first
from tests.watching import Watch
from tool_engine.redaction.known import known_secrets

hypothesis.settings.register_profile("project", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("project")

GRACE = 2.0
"""Seconds that a thread which has been told to end has for it."""

# The loop's own executor: its idle threads end with the loop, which pytest-asyncio closes later.
LOOP_THREADS = "asyncio_"

_IS_GUARDED = pytest.StashKey[bool]()


_WATCH = Watch()  # before the first test counts the threads


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Lets the one thread watch a test, in place of a thread of its own."""
    if settings.method != "thread":
        return None
    _WATCH.begin(item, settings)
    return True


def pytest_timeout_cancel_timer() -> bool | None:
    """Forgets the test: it has ended."""
    return _WATCH.end() or None


def pytest_collection_finish() -> None:
    """Spares each garbage collection of the run the look at all tests that there are."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Does not pay for tracing where it tells nothing new."""
    with traced_at_first():
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def _what_stays() -> None:
    """Spares each garbage collection of a file the look at what the files before it left."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps what engines cache and record out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def blockbuster(request: pytest.FixtureRequest) -> Iterator[BlockBuster]:
    """Finds blocking calls with a frame of the package on the stack: tests may open files."""
    found = BlockBuster("tool_engine")
    # A plain method that blocks whoever calls it, and is there for that.
    for name in ("threading.Lock.acquire", "threading.Lock.acquire_lock"):
        if name in found.functions:
            found.functions[name].can_block_in("tool_engine/calls/home_loop.py", {"block"})
            found.functions[name].can_block_in("tool_engine/calls/blocking.py", {"start", "end"})
    # A plain method that reads a file blocks whoever calls it, and is there for that.
    loads = {"load_file", "load_file_tools", "load_directory"}
    found.functions["os.stat"].can_block_in("tool_engine/catalog/loader.py", loads)
    # To make the client of a model is to load an SDK and certificates; a script is a file.
    for function in found.functions.values():
        function.can_block_in("tool_engine/agent/models/registry.py", {"chat_model"})
        function.can_block_in("tool_engine/agent/models/client.py", {"__init__"})
        function.can_block_in("tool_engine/agent/models/script.py", {"read_script"})
        function.can_block_in("tool_engine/agent/models/recording.py", {"_check_path"})
        # To judge the first raw schema is to load jsonschema.
        function.can_block_in("tool_engine/catalog/definition/rules.py", {"_check_raw"})
    # Where the process is, the kernel knows without a look at a disk.
    found.functions["os.getcwd"].can_block_in("tool_engine/trusted.py", {"folder_of_now"})
    # Threads that write lines to one place take turns there, for some microseconds.
    found.functions["threading.Lock.acquire"].can_block_in("tool_engine/logger.py", {"_write_line"})
    # What a test run adds of its own: the first look of a thread at a file is counted by coverage.
    found.functions["threading.Lock.acquire"].can_block_in("coverage/collector.py", {"lock_data"})
    yield found
    if request.config.stash.get(_IS_GUARDED, False):
        found.deactivate()


@pytest.fixture
async def _leak_guard() -> AsyncIterator[None]:
    """Fails the test that leaves a task or a thread behind."""
    threads_before = set(threading.enumerate())
    tasks_before = asyncio.all_tasks()
    yield
    this_task = asyncio.current_task()
    # A task that was cancelled needs a few turns of the loop to end; it gets a bounded number.
    for _ in range(20):
        tasks = asyncio.all_tasks() - tasks_before - {this_task}
        if not tasks:
            break
        await asyncio.sleep(0)
    threads = set(threading.enumerate()) - threads_before
    leaked = [thread for thread in threads if not thread.name.startswith(LOOP_THREADS)]
    for thread in leaked:
        await asyncio.to_thread(thread.join, GRACE)
    leaked = [thread for thread in leaked if thread.is_alive()]
    assert not tasks, f"tasks left behind: {tasks}"
    assert not leaked, f"threads left behind: {leaked}"


@pytest.fixture(autouse=True)
def _guards(request: pytest.FixtureRequest) -> None:
    """Guards the loop of an async test; blocking is looked for until the next one that is not."""
    is_async = pytest_asyncio.is_async_test(request.node)
    if is_async is not request.config.stash.get(_IS_GUARDED, False):
        # To replace sixty functions takes as long as a short test: not for each.
        found: BlockBuster = request.getfixturevalue("blockbuster")
        (found.activate if is_async else found.deactivate)()
        request.config.stash[_IS_GUARDED] = is_async
    if is_async:
        request.getfixturevalue("_leak_guard")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Undoes what a test has left in the process: cheaper than a fixture.

    `capture_logs` leaves structlog configured for good, and the secrets of a test are ordinary
    words in the next one.
    """
    try:
        return (yield)
    finally:
        if structlog.is_configured():
            structlog.reset_defaults()
        if len(known_secrets):
            known_secrets.__init__()  # type: ignore[misc]
