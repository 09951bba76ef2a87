"""What does a program hear of a storage of its own that fails in a way of its own?

One kind of error, with the cause, and no word of what is kept. Looked at: records, events,
conversations (`tests/session/test_session_storage.py`); what raises at once, what raises when
awaited, and what returns something else; `BaseException`s of other libraries; errors of the
engine's own kinds, which stay what they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig, ToolKnowledgeStore, ToolSubAgent
from tool_engine.errors import ConfigurationError, RecordsUnavailableError
from tool_engine.events import MemoryEventStorage
from tool_engine.knowledge.memory import MemoryStorage

WORDS = "disk is full, token=abcd1234"
CAUSES: tuple[type[BaseException], ...] = (OSError, ValueError, pytest.fail.Exception)
ASKED: dict[str, tuple[str, Callable[[ToolEngine], Awaitable[Any]]]] = {
    "records": ("query", lambda engine: engine.store.query_call_records()),
    "one record": ("query", lambda engine: engine.store.get_output("call-1")),
    "calls below": ("query", lambda engine: engine.store.get_tools_below("call-1")),
    "a summary": ("totals", lambda engine: engine.store.get_call_summary("chat")),
    "own statistics": ("statistics", lambda engine: engine.store.get_call_statistics()),
    "pruning": ("prune", lambda engine: engine.store.prune()),
    "opening": ("open", lambda engine: engine.store.open()),
    "closing": ("close", lambda engine: engine.store.close()),
}


def storage_with(base: type, method: str, error: BaseException, *, is_late: bool) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    async def fail_later(*args: Any, **kwargs: Any) -> Any:
        raise error

    own = type("Own", (base,), {method: fail_later if is_late else fail})
    return own()


@pytest.mark.parametrize("is_late", [True, False], ids=["awaited", "at once"])
@pytest.mark.parametrize("kind", CAUSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("asked", ASKED)
async def test_records(asked: str, kind: type[BaseException], is_late: bool) -> None:
    """Each question to the store, and the storage's own way to open, to prune and to close."""
    method, ask = ASKED[asked]
    storage = storage_with(MemoryStorage, method, kind(WORDS), is_late=is_late)
    engine = ToolEngine(ToolEngineConfig(auto_reload=False), store=ToolKnowledgeStore(storage))
    with pytest.raises(RecordsUnavailableError, match=f"storage Own failed in {method}") as caught:
        await ask(engine)
    assert isinstance(caught.value.__cause__, kind)
    assert "abcd1234" not in str(caught.value)


@pytest.mark.parametrize("kind", CAUSES, ids=lambda kind: kind.__name__)
async def test_events(kind: type[BaseException]) -> None:
    """A replay that cannot be read."""
    storage = storage_with(MemoryEventStorage, "read", kind(WORDS), is_late=True)
    config = ToolEngineConfig(auto_reload=False)
    async with ToolEngine(config, event_storage=storage) as engine:
        engine.register_tool({"name": "one", "description": "O."}, lambda: 1)
        await engine.execute("one")
        replay = aiter(engine.events(after=0))
        with pytest.raises(RecordsUnavailableError, match="event storage Own failed in read"):
            await anext(replay)


JUNK: tuple[Any, ...] = (None, 5, "", {"a": 1}, [None], [{"tool_name": "one"}])


@pytest.mark.parametrize("junk", JUNK, ids=repr)
@pytest.mark.parametrize("asked", [each for each in ASKED if each not in ("opening", "closing")])
async def test_records_that_are_none(asked: str, junk: Any) -> None:
    """What a storage returns is looked at before anything is made of it."""
    method, ask = ASKED[asked]
    if method == "prune" and junk == 5:
        return

    async def answer(*args: Any) -> Any:
        return junk

    storage = type("Own", (MemoryStorage,), {method: staticmethod(answer)})()
    engine = ToolEngine(ToolEngineConfig(auto_reload=False), store=ToolKnowledgeStore(storage))
    with pytest.raises(
        RecordsUnavailableError, match=rf"storage Own failed in {method}: it returned \w+ in place"
    ) as caught:
        await ask(engine)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("junk", [None, [None], [{"event_type": "tool_added"}]], ids=repr)
async def test_events_that_are_none(junk: Any) -> None:
    """A replay passes on nothing but events."""

    async def answer(*args: Any) -> Any:
        return junk

    storage = type("Own", (MemoryEventStorage,), {"read": staticmethod(answer)})()
    config = ToolEngineConfig(auto_reload=False)
    async with ToolEngine(config, event_storage=storage) as engine:
        with pytest.raises(RecordsUnavailableError, match="failed in read: it returned"):
            await anext(aiter(engine.events(after=0)))


async def test_a_time_until_which_records_are_gone_that_is_none() -> None:
    """A sub-agent's history asks for it."""

    async def answer(*args: Any) -> Any:
        return "yesterday"

    storage = type("Own", (MemoryStorage,), {"removed_until": staticmethod(answer)})()
    engine = ToolEngine(ToolEngineConfig(auto_reload=False), store=ToolKnowledgeStore(storage))
    with pytest.raises(RecordsUnavailableError, match="it returned str in place of a time"):
        await ToolSubAgent.restore("a", engine)


async def test_what_a_storage_says_in_the_words_of_the_engine() -> None:
    """Its `ConfigurationError` about a filter is the program's own to read."""
    error = ConfigurationError("no such filter")
    storage = storage_with(MemoryStorage, "query", error, is_late=True)
    with pytest.raises(ConfigurationError, match="no such filter"):
        await ToolKnowledgeStore(storage).query_call_records()


async def test_an_engine_closes_though_its_records_cannot() -> None:
    """All else is closed first; then the error says which storage it was."""
    storage = storage_with(MemoryStorage, "close", OSError(WORDS), is_late=True)
    engine = ToolEngine(ToolEngineConfig(auto_reload=False), store=ToolKnowledgeStore(storage))
    await engine.load()
    with pytest.raises(RecordsUnavailableError, match="record storage Own failed in close"):
        await engine.close()
    assert (await engine.execute("one")).error_type == "engine_closed"
