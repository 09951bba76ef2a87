"""What every `SessionStorage` keeps to: memory, a SQLite file, a PostgreSQL database."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts.test_approval_storage_contract import request_for
from tests.effort import share_of
from tool_engine.errors import ConfigurationError, SessionError
from tool_engine.interfaces import SessionStorage
from tool_engine.knowledge.memory_sessions import MemorySessionStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.settings.retention import RecordRetention

STORES = ("memory", "sqlite", "postgresql")
SHARED = "chat/\u4e2d\u6587 'x' \U0001f600"
YES = ApprovalDecision(is_approved=True)
BOUND = 30.0


class Mood(StrEnum):
    """A text that is more than a text."""

    GOOD = "good"


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ToolKnowledgeStore]:
    """A store over one kind of database; its sessions are those that it keeps."""
    storage = None
    if request.param == "sqlite":
        storage = SQLRecordStorage(f"sqlite:///{tmp_path_factory.mktemp('kept')}/calls.db")
    elif request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        storage = SQLRecordStorage(await asyncio.to_thread(server.emptied_database))
    made = ToolKnowledgeStore(storage)
    yield made
    await made.close()


@pytest.fixture
def sessions(store: ToolKnowledgeStore) -> SessionStorage:
    return store.sessions


async def ids(sessions: SessionStorage, **page: int) -> list[str]:
    return [each.session_id for each in await sessions.list(**page)]


async def test_what_was_saved_last_is_loaded(sessions: SessionStorage) -> None:
    """A conversation takes the place of what was kept of it, and of no other. S35"""
    assert await sessions.load(SHARED) is None
    await sessions.save(SHARED, {"turn": 1, "left": True})
    await sessions.save("other", {"turn": 9})
    await sessions.save(SHARED, {"turn": 2})
    assert await sessions.load(SHARED) == {"turn": 2}
    assert await sessions.load("other") == {"turn": 9}
    assert await sessions.load(SHARED.upper()) is None


async def test_a_copy_goes_in_and_a_copy_comes_out(sessions: SessionStorage) -> None:
    """What somebody does to the values afterwards, or while they are saved, changes nothing."""
    data: dict[str, Any] = {"messages": [{"text": "a"}]}
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        # This one takes its time, and the other one waits for it.
        group.create_task(sessions.save("chat", {"text": ["x"] * 200_000}))
        group.create_task(sessions.save("chat", data))
        await asyncio.sleep(0)
        data["messages"][0]["text"] = "changed"
        data["late"] = True
    loaded = await sessions.load("chat")
    assert loaded == {"messages": [{"text": "a"}]}
    loaded["messages"].append("mine")
    assert await sessions.load("chat") == {"messages": [{"text": "a"}]}


KEPT: list[Any] = [
    "\ud83d\ude00",
    "half \ud800 a character",
    "NUL \x00 and \x1b[31m",
    "\u202e\u2028\ufeff\U0010ffff",
    2**4000,
    -(2**63),
    2**53 + 1,
    5e-324,
    0.1 + 0.2,
    -0.0,
    math.inf,
    True,
    None,
    "",
    {},
    [],
    {"": {"\x00\ud800": [[]]}},
    {"__proto__": 1, "$ref": "#"},
]


@pytest.mark.parametrize("value", KEPT, ids=ascii)
async def test_hostile_values_come_back_exactly(sessions: SessionStorage, value: Any) -> None:
    """What a model, a page or a tool wrote is kept as it is, also what databases do not take."""
    await sessions.save("chat", {"value": value})
    loaded = await sessions.load("chat")
    assert loaded is not None
    assert repr(loaded["value"]) == repr(value)


async def test_what_is_no_number(sessions: SessionStorage) -> None:
    """One odd result does not keep a conversation from being saved."""
    await sessions.save("chat", {"value": [math.nan, -math.inf], "mood": Mood.GOOD, "at": (1, 2)})
    loaded = await sessions.load("chat")
    assert loaded is not None
    assert math.isnan(loaded["value"][0])
    assert (loaded["value"][1], loaded["mood"], loaded["at"]) == (-math.inf, "good", [1, 2])
    assert type(loaded["mood"]) is str


def _nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def _circle() -> dict[str, Any]:
    found: dict[str, Any] = {"list": []}
    found["list"].append(found)
    return found


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"bytes", r"messages\[1\]\.value is no JSON value but bytes"),
        ({1: "a"}, r"messages\[1\]\.value has a key that is no text but int"),
        ({"a": {1, 2}}, r"messages\[1\]\.value\.a is no JSON value but set"),
        (datetime.now(UTC), "is no JSON value but datetime"),
        (10**4300, r"messages\[1\]\.value is a whole number of more than 4300 digits"),
        (_nested(100_000), "is more than 2000 levels deep, or holds itself"),
        (_circle(), "is more than 2000 levels deep, or holds itself"),
    ],
    ids=["bytes", "key", "set", "time", "digits", "deep", "circle"],
)
async def test_what_cannot_be_kept_is_refused_with_its_place(
    sessions: SessionStorage, value: Any, message: str
) -> None:
    """Nothing is turned into something near, and what was kept before stays."""
    await sessions.save("chat", {"turn": 1})
    with pytest.raises(SessionError, match=message):
        await sessions.save("chat", {"messages": ["a", {"value": value}]})
    assert await sessions.load("chat") == {"turn": 1}


async def test_what_is_very_deep(sessions: SessionStorage) -> None:
    """What a model or a tool nests deeper than readers of JSON go is no trouble."""
    for levels in (400, 1_900):
        await sessions.save("chat", {"messages": ["a", _nested(levels)]})
        loaded: Any = await sessions.load("chat")
        inner = loaded["messages"][1]
        for _ in range(levels):
            (inner,) = inner
        assert inner == 0


@pytest.mark.parametrize("data", [None, [], "text", 3])
async def test_data_that_are_no_mapping(sessions: SessionStorage, data: Any) -> None:
    """A conversation is a mapping."""
    with pytest.raises(SessionError, match="is no mapping"):
        await sessions.save("chat", data)


@pytest.mark.parametrize("session_id", ["", "a\x00b", "\ud800", "x" * 513, None, 7])
async def test_id_that_no_storage_could_tell_apart(
    sessions: SessionStorage, session_id: Any
) -> None:
    """An id is never cut or escaped: two conversations would be one."""
    for step in (sessions.load, sessions.delete, lambda each: sessions.save(each, {})):
        with pytest.raises(SessionError, match="the id of a session"):
            await step(session_id)
    await sessions.save("\u4e2d" * 512, {"kept": True})
    assert await sessions.load("\u4e2d" * 512) == {"kept": True}


async def test_large_conversation(sessions: SessionStorage) -> None:
    """Ten megabytes are kept and read, and the list does not have to."""
    messages = [
        {"role": "tool", "text": f"{number} \u4e2d\u6587 " * 700} for number in range(2_000)
    ]
    async with asyncio.timeout(BOUND):
        await sessions.save("chat", {"messages": messages})
        assert await sessions.load("chat") == {"messages": messages}
    (info,) = await sessions.list()
    assert info.size > 9_000_000


async def test_list_has_the_last_saved_first(sessions: SessionStorage) -> None:
    """Times are told, pages follow each other, and a save brings a conversation to the front."""
    start = datetime.now(UTC) - timedelta(seconds=1)
    for name in ("a", "b", "c", "a"):
        await sessions.save(name, {"name": name})
    assert await ids(sessions) == ["a", "c", "b"]
    assert await ids(sessions, limit=2) == ["a", "c"]
    assert await ids(sessions, limit=2, offset=2) == ["b"]
    assert await ids(sessions, limit=0) == []
    first = (await sessions.list())[0]
    assert start < first.created_at < first.updated_at < datetime.now(UTC) + timedelta(seconds=1)
    assert (first.size, first.pending_approvals) == (len('{"name":"a"}'), 0)


@pytest.mark.parametrize("page", [{"limit": -1}, {"offset": -1}, {"limit": True}, {"limit": 2**40}])
async def test_page_that_cannot_be(sessions: SessionStorage, page: dict[str, Any]) -> None:
    """A bound that makes no sense is refused."""
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        await sessions.list(**page)


async def test_delete_forgets_all_of_one_conversation(store: ToolKnowledgeStore) -> None:
    """Its data, open requests and decisions go; those of others stay."""
    for name in ("a", "b"):
        await store.sessions.save(name, {})
        await store.approvals.put(request_for(name, f"token-{name}"))
        await store.approvals.remember(request_for(name), YES)
    found = {each.session_id: each.pending_approvals for each in await store.sessions.list()}
    assert found == {"a": 1, "b": 1}
    assert await store.sessions.delete("a")
    assert not await store.sessions.delete("a")
    assert await store.sessions.load("a") is None
    assert await ids(store.sessions) == ["b"]
    assert [each.session_id for each in await store.approvals.pending()] == ["b"]
    assert not await store.approvals.claim("token-a")
    digest = request_for("a").fingerprint
    assert await store.approvals.remembered("a", digest) is None
    assert await store.approvals.remembered("b", digest) is not None


async def test_delete_of_what_was_asked_alone(store: ToolKnowledgeStore) -> None:
    """A conversation that was never saved may have asked something all the same."""
    await store.approvals.put(request_for("a", "token-a"))
    assert await store.sessions.delete("a")
    assert await store.approvals.pending() == []


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("way", ["delete", "prune"])
async def test_a_request_of_a_forgotten_conversation_stays_closed(
    store: ToolKnowledgeStore, way: str, is_answered: bool
) -> None:
    """A process that has the conversation in memory cannot put it again, and run its call.

    Looked at: all that `removed` takes away, with `delete`, `prune` by age and in memory.
    """
    request = request_for("a", "token-a")
    await store.sessions.save("a", {})
    await store.approvals.put(request)
    if is_answered:
        assert await store.approvals.claim("token-a")
    if way == "delete":
        assert await store.sessions.delete("a")
    else:
        await store.prune(RecordRetention(max_session_age=0.000_001))
        # Where a person is still being asked, the conversation stays; memory has its own bounds.
        is_there = not is_answered or isinstance(store.sessions, MemorySessionStorage)
        assert (await store.sessions.load("a") is not None) == is_there
    if is_answered or way == "delete":
        await store.approvals.put(request)
        assert not await store.approvals.claim("token-a")
        assert await store.approvals.pending() == []


async def test_of_saves_at_once_the_last_stays_whole(sessions: SessionStorage) -> None:
    """Also when an earlier one, which is larger, takes longer to be written."""
    states = [
        {"turn": turn, "text": [f"{turn}"] * (200_000 if turn % 2 == 0 else 1)} for turn in range(8)
    ]
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        for state in states:
            group.create_task(sessions.save("chat", state))
    assert await sessions.load("chat") == states[-1]


async def test_cancelled_saves_leave_one_state_or_the_other(sessions: SessionStorage) -> None:
    """Whenever it is cancelled, a save is whole or did not happen, and the next one works."""
    old, new = {"text": ["old"] * 5_000}, {"text": ["new"] * 5_000}
    for turns in range(14):
        await sessions.save("chat", old)
        task = asyncio.create_task(sessions.save("chat", new))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert await sessions.load("chat") in (old, new)
    await sessions.save("chat", new)
    assert await sessions.load("chat") == new


def state(turn: int, revision: str | None = None) -> dict[str, Any]:
    named = {} if revision is None else {"revision": revision}
    return {"turn": turn, **named}


async def test_only_a_known_state_is_replaced(sessions: Any) -> None:
    """What somebody else has saved stays, whole; whoever knows it may take its place."""
    assert await sessions.save_if(SHARED, state(1, "a"), [])
    assert not await sessions.save_if(SHARED, state(2, "b"), [])
    assert not await sessions.save_if(SHARED, state(2, "b"), ["", "x", "A"])
    assert await sessions.load(SHARED) == state(1, "a")
    assert await sessions.save_if(SHARED, state(2, "b"), ["x", "a"])
    assert not await sessions.save_if(SHARED, state(3, "c"), ["a"])
    assert await sessions.load(SHARED) == state(2, "b")
    await sessions.save(SHARED, state(4, "d"))
    assert not await sessions.save_if(SHARED, state(3, "c"), ["b"])
    assert await sessions.load(SHARED) == state(4, "d")


@pytest.mark.parametrize("revision", [None, "", 7, "\x00", "\ud800", "x" * 65, "'; --"], ids=ascii)
async def test_state_without_a_revision(sessions: Any, revision: Any) -> None:
    """What says none, or none that can be one, is kept as it is, and has the empty one."""
    data = {"revision": revision}
    await sessions.save("chat", data)
    assert not await sessions.save_if("chat", state(2), ["a"])
    assert not await sessions.save_if("chat", state(2), [])
    assert await sessions.load("chat") == data
    assert await sessions.save_if("chat", state(2), [""])
    assert await sessions.load("chat") == state(2)


async def test_what_is_gone_is_kept_anew(sessions: Any) -> None:
    """A session that was deleted, or had to go, is in nobody's way."""
    await sessions.save("chat", state(1, "a"))
    assert await sessions.delete("chat")
    assert await sessions.save_if("chat", state(2, "c"), ["b"])
    assert await sessions.load("chat") == state(2, "c")


async def test_what_cannot_be_kept_replaces_nothing(sessions: Any) -> None:
    """As with `save`."""
    await sessions.save("chat", state(1, "a"))
    with pytest.raises(SessionError, match="text is no JSON value but bytes"):
        await sessions.save_if("chat", {"text": b"x"}, ["a"])
    with pytest.raises(SessionError, match="the id of a session"):
        await sessions.save_if("", {}, [])
    assert await sessions.load("chat") == state(1, "a")


async def test_of_many_that_go_on_from_one_state_one_is_kept(
    sessions: Any,
) -> None:
    """To look and to keep is one step, however large they are."""
    await sessions.save("chat", state(0, "a"))
    states = [{**state(turn, f"b{turn}"), "text": ["x"] * (turn % 3) * 40_000} for turn in range(9)]
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        done = [group.create_task(sessions.save_if("chat", each, ["a"])) for each in states]
    (kept,) = [each for each, task in zip(states, done, strict=True) if task.result()]
    assert await sessions.load("chat") == kept


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(
    max_examples=share_of(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.dictionaries(st.text(), JSON, max_size=4))
async def test_any_json_comes_back(sessions: SessionStorage, data: dict[str, Any]) -> None:
    """Whatever JSON a conversation is made of, it comes back as it was."""
    await sessions.save("chat", data)
    assert repr(await sessions.load("chat")) == repr(data)
