"""Does whatever counts go on counting, whatever changes meanwhile? C17, C18, C20.

A table: each counter has counted something, then each change is made, and the counter must go on
from where it was. Looked at: rates and breakers of tools and of buckets, limits and weights of
keys, places in line, uses and calls of a conversation. Not in it: `single_flight`, whose calls
share a run of one definition only, and attempts, which belong to one call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ConcurrencyConfig,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolSession,
)
from tool_engine.session import rename

BOUND = 10.0
LIMITS: dict[str, Any] = {"strategy": "reject", "max_concurrent": 5}


class Stage:
    """An engine with one tool, and what the table does with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.definition: dict[str, Any] = {
            "name": "probe",
            "version": "1.0.0",
            "description": "Counts.",
            "category": "custom",
            "effect": "read",
            "parameters": [],
            "entry": {"type": "custom", "handler": "probe"},
        }
        self.file = folder / "probe.yaml"
        self.limits = dict(LIMITS)
        self.is_failing = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.shown = "probe"
        self.engine = ToolEngine(ToolEngineConfig(tools_directory=str(folder), auto_reload=False))
        self.engine.register_executor("probe", self)
        self.session = ToolSession(self.engine, "s")

    async def execute(self, tool: Any, params: Any, context: Any) -> dict[str, Any]:
        await self.gate.wait()
        if self.is_failing:
            raise ConnectionError("down")
        return {}

    async def write(self, **changes: Any) -> None:
        self.definition |= changes
        self.file.write_text(json.dumps(self.definition))
        await self.engine.reload()
        assert self.engine.load_errors == []

    async def configure(self, **changes: Any) -> None:
        self.limits |= changes
        self.engine.controller.configure(ConcurrencyConfig(**self.limits))

    async def call(self) -> str | None:
        async with asyncio.timeout(BOUND):
            if self.shown == "probe":
                return (await self.engine.execute("probe", {})).error_type
            view = ToolSession(rename(self.engine, {"probe": self.shown}), "view")
            return (await view.execute(self.shown, {})).error_type

    async def calls(self, number: int) -> list[str | None]:
        return [await self.call() for _ in range(number)]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path)
    await made.engine.load()
    await made.write()
    await made.configure()
    yield made
    made.gate.set()
    await made.engine.close()


async def edit_description(stage: Stage) -> None:
    if stage.file.exists():
        await stage.write(description="Counts, too.")


async def edit_category(stage: Stage) -> None:
    await stage.write(category="http", concurrency={"bucket": "custom"} | _wants(stage))


async def move_to_another_bucket(stage: Stage) -> None:
    await stage.write(concurrency={**_wants(stage), "bucket": "elsewhere"})


async def edit_there_and_back(stage: Stage) -> None:
    before = dict(stage.definition)
    await stage.write(concurrency={**_wants(stage), "bucket": "elsewhere"}, description="Other.")
    stage.definition = {}
    await stage.write(**before)


async def edit_priority_and_patience(stage: Stage) -> None:
    await stage.write(concurrency={**_wants(stage), "priority": 1, "queue_timeout": 9})


async def add_a_breaker(stage: Stage) -> None:
    policy = {"failures": 3, "reset_after": 900}
    await stage.write(concurrency={**_wants(stage), "breaker": policy})


async def add_a_rate(stage: Stage) -> None:
    if "rate" not in stage.definition:
        await stage.write(rate="1000/s")


async def lose_the_limits_and_get_them_back(stage: Stage) -> None:
    before = dict(stage.definition)
    stage.definition = {k: v for k, v in before.items() if k not in ("rate", "concurrency")}
    await stage.write()
    await stage.write(**before)


async def widen_the_rate_and_narrow_it(stage: Stage) -> None:
    rate = stage.definition.get("rate", "1000/s")
    await stage.write(rate="100/s")
    await stage.write(rate=rate)


async def reload(stage: Stage) -> None:
    await stage.engine.reload()


async def roll_back(stage: Stage) -> None:
    generation = stage.engine.generation
    await stage.write(description="A mistake.", concurrency={**_wants(stage), "bucket": "mistake"})
    await stage.engine.rollback(generation)


async def rename_the_file(stage: Stage) -> None:
    stage.file = stage.file.rename(stage.folder / "other.yaml")
    await stage.engine.reload()


async def remove_the_file_and_bring_it_back(stage: Stage) -> None:
    stage.file.unlink()
    await stage.engine.reload()
    assert await stage.call() == "tool_not_found"
    await stage.write()


async def move_into_code(stage: Stage) -> None:
    stage.file.unlink(missing_ok=True)
    await stage.engine.reload()
    stage.engine.register_tool(stage.definition)


async def register_again(stage: Stage) -> None:
    await move_into_code(stage)
    stage.engine.unregister_tool("probe")
    stage.engine.register_tool({**stage.definition, "description": "Registered."})


async def register_another_tool(stage: Stage) -> None:
    stage.engine.register_tool({**stage.definition, "name": "stranger"})


async def register_the_executor_again(stage: Stage) -> None:
    stage.engine.register_executor("probe", stage)


async def call_it_by_another_name(stage: Stage) -> None:
    stage.shown = "seen"


async def configure_other_limits(stage: Stage) -> None:
    await stage.configure(max_concurrent=7, queue_size=9)


async def configure_keys(stage: Stage) -> None:
    await stage.configure(key_limits={"limit": 5, "weights": {"a": 2.0}})


async def configure_there_and_back(stage: Stage) -> None:
    limits = dict(stage.limits)
    stage.limits = dict(LIMITS)
    await stage.configure()
    stage.limits = limits
    await stage.configure()


async def pause_and_resume(stage: Stage) -> None:
    stage.engine.controller.pause()
    stage.engine.controller.resume()


def _wants(stage: Stage) -> dict[str, Any]:
    wants: dict[str, Any] = stage.definition.get("concurrency", {})
    return wants


Change = Callable[[Stage], Awaitable[None]]
OF_THE_CATALOG: list[Change] = [
    edit_description,
    edit_category,
    edit_there_and_back,
    edit_priority_and_patience,
    add_a_rate,
    lose_the_limits_and_get_them_back,
    widen_the_rate_and_narrow_it,
    reload,
    roll_back,
    rename_the_file,
    remove_the_file_and_bring_it_back,
    move_into_code,
    register_again,
    register_another_tool,
    register_the_executor_again,
    call_it_by_another_name,
]
OF_THE_LIMITS: list[Change] = [
    configure_other_limits,
    configure_keys,
    configure_there_and_back,
    pause_and_resume,
]
CHANGES = [*OF_THE_CATALOG, *OF_THE_LIMITS]
OF_THE_TOOL = [*CHANGES, move_to_another_bucket]
"""What changes nothing for a limit of the tool's own; of its bucket it does."""


def but(*left_out: Change) -> list[Change]:
    return [each for each in OF_THE_TOOL if each not in left_out]


def over(changes: list[Change]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("change", changes, ids=[each.__name__ for each in changes])


@over([*OF_THE_TOOL, add_a_breaker])
async def test_the_rate_of_a_tool(stage: Stage, change: Change) -> None:
    """Two of three calls an hour have started: one more may, and no second allowance is given."""
    await stage.write(rate="3/h")
    assert await stage.calls(2) == [None, None]
    await change(stage)
    assert await stage.calls(3) == [None, "rate_limited", "rate_limited"]
    await edit_description(stage)
    assert await stage.call() == "rate_limited"


@pytest.mark.parametrize(
    ("rate", "more"), [("4/h", 1), ("3/h", 0), ("2/h", 0), ("6/d", 3), ("3/2s", 0)]
)
async def test_another_rate(stage: Stage, rate: str, more: int) -> None:
    """An edit of the rate itself lets as many more start as the new one allows, and back."""
    await stage.write(rate="3/h")
    assert await stage.calls(3) == [None] * 3
    await stage.write(rate=rate, category="http")
    assert (await stage.calls(4)).count(None) == more
    await stage.write(rate="3/h", category="custom")
    assert await stage.call() == "rate_limited"


@over(CHANGES)
async def test_the_rate_of_a_bucket(stage: Stage, change: Change) -> None:
    """The same for a rate that a bucket has."""
    await stage.configure(bucket_rates={"custom": "3/h"})
    assert await stage.calls(2) == [None, None]
    await change(stage)
    assert await stage.calls(3) == [None, "rate_limited", "rate_limited"]


BREAKER = {"failures": 3, "reset_after": 900}


@over(OF_THE_TOOL)
async def test_the_breaker_of_a_tool(stage: Stage, change: Change) -> None:
    """Two calls in a row have failed: the third opens it, and it stays open."""
    await stage.write(concurrency={"breaker": BREAKER})
    await check_breaker(stage, change)


@over(CHANGES)
async def test_the_breaker_of_a_bucket(stage: Stage, change: Change) -> None:
    """The same for a breaker that a bucket has."""
    await stage.configure(breakers={"custom": BREAKER})
    await check_breaker(stage, change)


async def check_breaker(stage: Stage, change: Change) -> None:
    stage.is_failing = True
    assert await stage.calls(2) == ["execution_error"] * 2
    await change(stage)
    assert await stage.calls(2) == ["execution_error", "circuit_open"]


@over(OF_THE_TOOL)
async def test_calls_that_hold_the_key_of_a_tool(stage: Stage, change: Change) -> None:
    """One call of the tool at a time, also while an edit comes between two of them."""
    await stage.write(concurrency={"key": "tool", "key_limit": 1})
    stage.gate.clear()
    running = asyncio.create_task(stage.call())
    await until(lambda: stage.engine.controller.get_metrics().active == 1)
    await change(stage)
    assert await stage.call() == "rejected"
    stage.gate.set()
    assert await running is None
    assert await stage.call() is None


@over(but(configure_other_limits))
async def test_slots_that_are_held(stage: Stage, change: Change) -> None:
    """What runs already counts against a limit in all, whatever its tool becomes."""
    await stage.configure(max_concurrent=1)
    stage.gate.clear()
    running = asyncio.create_task(stage.call())
    await until(lambda: stage.engine.controller.get_metrics().active == 1)
    await change(stage)
    assert await stage.call() == "rejected"
    stage.gate.set()
    assert await running is None
    assert stage.engine.controller.get_metrics().active == 0


@over(but(call_it_by_another_name))
async def test_the_uses_of_a_conversation(stage: Stage, change: Change) -> None:
    """Two of three uses are spent, and stay so."""
    session = ToolSession(
        stage.engine, "counted", ToolCallConfig(max_uses={"probe": 3}, max_calls=3)
    )

    async def use() -> str | None:
        async with asyncio.timeout(BOUND):
            return (await session.execute("probe", {})).error_type

    assert [await use(), await use()] == [None, None]
    await change(stage)
    assert [await use(), await use()] == [None, "limit_reached"]
    assert session.usage().calls == 3


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not is_so():  # noqa: ASYNC110 - the controller tells nobody
            await asyncio.sleep(0)


async def wait(stage: Stage, names: str, ended: list[str], group: asyncio.TaskGroup) -> None:
    """Each name calls, the next one when that waits or runs."""

    async def call(name: str) -> None:
        assert await stage.call() is None
        ended.append(name)

    def came() -> int:
        metrics = stage.engine.controller.get_metrics()
        return metrics.total_acquired + metrics.queue_length

    def has_come(number: int) -> bool:
        return came() >= number

    for name in names:
        group.create_task(call(name))
        await until(partial(has_come, came() + 1))


@over(but(configure_other_limits, remove_the_file_and_bring_it_back))
async def test_places_in_line(stage: Stage, change: Change) -> None:
    """Those who wait keep their places, before those who come after the change."""
    await stage.configure(strategy="fifo", max_concurrent=1, queue_timeout=None)
    ended: list[str] = []
    stage.gate.clear()
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        await wait(stage, "abc", ended, group)
        await change(stage)
        await wait(stage, "d", ended, group)
        stage.gate.set()
    assert ended == ["a", "b", "c", "d"]


@pytest.mark.parametrize("also", [{}, {"category": "http"}, {"description": "Other."}])
@pytest.mark.parametrize("rate", ["1000/s", None])
async def test_calls_that_wait_have_the_new_rate(
    stage: Stage, rate: str | None, also: dict[str, Any]
) -> None:
    """Those who wait for an hour's rate go at once under a faster one, and before newcomers."""
    await stage.configure(strategy="fifo", queue_timeout=None)
    await stage.write(rate="1/h")
    ended: list[str] = []
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        await wait(stage, "abcd", ended, group)
        assert ended in ([], ["a"])
        if rate is None:
            del stage.definition["rate"]
        await stage.write(**also, **({} if rate is None else {"rate": rate}))
    assert ended == ["a", "b", "c", "d"]


async def test_calls_that_wait_have_the_slower_rate(stage: Stage) -> None:
    """A rate that becomes slower holds up those who wait already."""
    await stage.configure(strategy="fifo", queue_timeout=None)
    await stage.write(rate="2/2s")
    ended: list[str] = []
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        await wait(stage, "abc", ended, group)
        await stage.write(rate="2/h")
        reason = stage.engine.controller.snapshot().waiting[0].reason
        assert reason.startswith("the rate of tool 'probe' lets the next call through in 35")
        await stage.write(rate="3/h")
    assert ended == ["a", "b", "c"]


async def test_calls_that_wait_have_the_new_limit_of_their_key(stage: Stage) -> None:
    """A key limit that grows lets in who waits, and one that is taken away all of them."""
    await stage.configure(strategy="fifo", queue_timeout=None)
    await stage.write(concurrency={"key": "tool", "key_limit": 1})
    ended: list[str] = []
    stage.gate.clear()
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        await wait(stage, "abcd", ended, group)
        for active, wants in ((2, {"key": "tool", "key_limit": 2}), (4, {})):
            await stage.write(concurrency=wants)
            assert stage.engine.controller.get_metrics().active == active
        stage.gate.set()
    assert len(ended) == 4


async def test_a_tool_that_waits_in_two_buckets(stage: Stage) -> None:
    """After its bucket has changed, its calls share one rate, and the first to come goes first."""
    await stage.configure(strategy="fifo", queue_timeout=None)
    await stage.write(rate="1/100s")
    ended: list[str] = []
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        await wait(stage, "ab", ended, group)
        await stage.write(category="http")
        await wait(stage, "c", ended, group)
        await stage.write(category="custom")
        await wait(stage, "d", ended, group)
        for rate in ("2/100s", "3/100s", "4/100s"):
            await stage.write(rate=rate)
            await asyncio.sleep(0)
    assert ended == ["a", "b", "c", "d"]
