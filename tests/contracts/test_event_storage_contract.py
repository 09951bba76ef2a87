"""What every storage of events keeps to: memory, a SQLite file, a PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tool_engine.errors import ConfigurationError, EventsExpiredError
from tool_engine.events import EventBus, EventLog, MemoryEventStorage
from tool_engine.knowledge.sql.sql_events import SQLEventStorage
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

BOUND = 20.0
STARTED = ToolEngineEventType.EXECUTION_STARTED
COMPLETED = ToolEngineEventType.EXECUTION_COMPLETED


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Makes a storage; all of one test share their database."""
    kind = request.param
    made: list[MemoryEventStorage | SQLEventStorage] = []
    url = f"sqlite:///{tmp_path}/events.db"
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.emptied_database)

    def make_one(max_events: int = 10_000) -> Any:
        made.append(
            MemoryEventStorage(max_events) if kind == "memory" else SQLEventStorage(url, max_events)
        )
        return made[-1]

    yield make_one
    for each in made:
        if isinstance(each, SQLEventStorage):
            await each.close()


async def bus_over(storage: Any) -> EventBus:
    bus = EventBus(log=EventLog(storage))
    await bus.log.open()
    return bus


def publish(bus: EventBus, count: int) -> None:
    for number in range(count):
        bus.publish(ToolEngineEvent(STARTED, "echo", data={"number": number}))


async def written(storage: Any) -> None:
    """Waits until all is in the database, where there is one."""
    async with asyncio.timeout(BOUND):
        while isinstance(storage, SQLEventStorage) and ", 0 waiting" not in repr(storage):  # noqa: ASYNC110 - a database tells nobody
            await asyncio.sleep(0.01)


async def numbers(storage: Any, after: int, limit: int = 1000) -> list[int]:
    return [each.sequence for each in await storage.read(after, limit)]


async def test_what_was_appended_is_read_at_once_and_in_order(make: Callable[..., Any]) -> None:
    """An event is there as soon as it was published, whether it is written yet or not."""
    storage = make()
    bus = await bus_over(storage)
    for _ in range(20):
        publish(bus, 40)
        assert await numbers(storage, 0) == list(range(1, storage.newest + 1))
        await asyncio.sleep(0.01)
    assert await numbers(storage, 790) == list(range(791, 801))
    assert await numbers(storage, 3, limit=4) == [4, 5, 6, 7]
    assert await numbers(storage, 800) == []


async def test_number_that_was_never_given_out(make: Callable[..., Any]) -> None:
    """A reader with a number of another life is told so, and not given something else."""
    storage = make()
    bus = await bus_over(storage)
    publish(bus, 3)
    with pytest.raises(ConfigurationError, match="there is no event 4: the newest is 3"):
        await storage.read(4, 10)


async def test_old_events_go_and_a_reader_learns_which_is_the_oldest(
    make: Callable[..., Any],
) -> None:
    """What is not kept any more is an error that says from where on it can be read."""
    storage = make(max_events=5)
    bus = await bus_over(storage)
    publish(bus, 50)
    async with asyncio.timeout(BOUND):
        while True:
            try:
                await storage.read(0, 100)
            except EventsExpiredError as error:
                if error.oldest == 46:
                    break
            await asyncio.sleep(0.01)
    assert await numbers(storage, 45) == [46, 47, 48, 49, 50]
    with pytest.raises(EventsExpiredError, match=r"oldest is 46: .* after=45") as caught:
        await storage.read(44, 10)
    assert caught.value.error_type == "events_expired"


@pytest.mark.parametrize("count", [0, -1, True, "9"])
async def test_a_storage_keeps_at_least_one(make: Callable[..., Any], count: Any) -> None:
    """A bound that cannot be is refused when the storage is made."""
    with pytest.raises(ConfigurationError, match="max_events"):
        make(max_events=count)


async def test_an_event_comes_back_as_it_was(make: Callable[..., Any]) -> None:
    """All but the tool: types, times, results and data, also values that JSON does not have."""
    storage = make()
    bus = await bus_over(storage)
    result = ToolExecutionResult(
        True, "echo", {"text": "a\x00b", "list": [1, None, 2.5]}, metadata={"call_id": "c"}
    )
    sent = [
        ToolEngineEvent(COMPLETED, "echo", execution_result=result, call_id="c", generation=7),
        ToolEngineEvent(STARTED, error="no", validation_errors=[{"path": "a"}], data={"x": [1]}),
    ]
    for each in sent:
        bus.publish(each)
    await written(storage)
    assert list(await storage.read(0, 10)) == sent


async def test_the_events_of_a_call(make: Callable[..., Any]) -> None:
    """They come in order, written or not, and no other one whose values name the call."""
    storage = make()
    bus = await bus_over(storage)
    for number in range(30):
        bus.publish(ToolEngineEvent(STARTED, call_id=f"c{number % 3}", data={"call_id": "c1"}))
        if number == 15:
            await written(storage)
    for _ in range(2):
        found = await bus.log.read_call("c1", 100)
        assert [each.sequence for each in found] == list(range(2, 31, 3))
        assert [each.sequence for each in await bus.log.read_call("c1", 3)] == [2, 5, 8]
        assert list(await bus.log.read_call('c1", "data', 100)) == []
        await written(storage)


async def test_the_events_of_a_call_behind_those_that_are_gone(make: Callable[..., Any]) -> None:
    """What is not kept any more is left out."""
    storage = make(max_events=1_500)
    bus = await bus_over(storage)
    for number in range(4_000):
        bus.publish(ToolEngineEvent(STARTED, call_id="old" if number < 1_000 else "new"))
    await written(storage)
    found = await bus.log.read_call("new", 10_000)
    assert found[-1].sequence == 4_000
    assert 1_500 <= len(found) <= 3_000
    if not isinstance(storage, SQLEventStorage):
        assert list(await bus.log.read_call("old", 10)) == []


async def test_what_cannot_be_written_costs_no_other_event(make: Callable[..., Any]) -> None:
    """Foreign and hostile values are kept in some form, and what follows is kept too."""
    storage = make()
    bus = await bus_over(storage)
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    hostile: list[Any] = [float("nan"), 2**80, "\ud800", b"\xff", object(), {1: 2}, loop, _Bad()]
    for value in hostile:
        bus.publish(ToolEngineEvent(STARTED, "echo", data={"value": value}))
    publish(bus, 1)
    await written(storage)
    assert await numbers(storage, 0) == list(range(1, len(hostile) + 2))


class _Bad:
    def __repr__(self) -> str:
        raise ValueError("no words")
