"""What holds for every test: no blocking of the event loop, nothing left behind, no luck.

An async test fails when the package blocks the loop, or when a task or a thread outlives it.
Hypothesis always tries the same examples, so that a failure on one machine fails on all.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
import structlog
from blockbuster import BlockBuster

from tests.blocking import guarded_calls
from tests.effort import share_of
from tests.postgres import postgres_server as postgres_server  # one server for all tests
from tests.ray_cluster import ray_cluster as ray_cluster
from tests.thinning import list_tried
from tests.tracing import traced_at_first
from tests.turns import list_in_turn
from tests.watching import Watch
from tool_engine.redaction.known import known_secrets

hypothesis.settings.register_profile(
    "project",
    derandomize=True,
    deadline=None,
    database=None,
    # Of those that name no number of their own; Hypothesis has a hundred.
    max_examples=min(100, share_of(300)),
)
hypothesis.settings.load_profile("project")

GRACE = 20.0
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what `thinned` and `turns` say, unless a test is asked for by name."""
    # Not of what was typed: `-W` has such a word, too.
    if any("::" in each for each in config.args):
        return
    tried = list_in_turn(list_tried(items))
    if len(tried) < len(items):
        config.hook.pytest_deselected(items=list(set(items) - set(tried)))
        items[:] = tried


def pytest_collection_finish() -> None:
    """Spares each garbage collection of the run the look at all tests that there are."""
    gc.collect()
    gc.freeze()
    # With few objects that are not frozen, the oldest are looked through all the time.
    gc.set_threshold(5_000, 20, 20)


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
    """Finds blocking calls of the package."""
    found = guarded_calls()
    yield found
    if request.config.stash.get(_IS_GUARDED, False):
        found.deactivate()


class _LeakGuard:
    """What there is before an async test, which leaves no task and no thread more behind."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._threads = set(threading.enumerate())
        self._tasks = asyncio.all_tasks(runner.get_loop())

    def refuse_leaks(self) -> None:
        """Fails the test that leaves a task or a thread behind."""
        # The loop runs once more only for what is left: hardly ever.
        if self._new_threads() or self._new_tasks():
            self._runner.run(self._let_end())
            tasks, threads = self._new_tasks(), self._new_threads()
            assert not tasks, f"tasks left behind: {tasks}"
            assert not threads, f"threads left behind: {threads}"

    async def _let_end(self) -> None:
        # A task that was cancelled needs a few turns of the loop to end, and of generators that are
        # collected each one begins when the one around it has ended: a bounded number for all.
        for _ in range(20):
            await asyncio.sleep(0)
        for thread in self._new_threads():
            await asyncio.to_thread(thread.join, GRACE)

    def _new_tasks(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks(self._runner.get_loop()) - self._tasks

    def _new_threads(self) -> list[threading.Thread]:
        found = set(threading.enumerate()) - self._threads
        return [thread for thread in found if not thread.name.startswith(LOOP_THREADS)]


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
        # A fixture that is async itself would run the loop twice more: a third of a short test.
        guard = _LeakGuard(request.getfixturevalue("_function_scoped_runner"))
        request.addfinalizer(guard.refuse_leaks)  # noqa: PT021 - only of an async test


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
