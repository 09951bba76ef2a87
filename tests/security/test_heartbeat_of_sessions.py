"""Do all other calls go on while a conversation of some megabytes is kept or taken up?

A heartbeat as in `test_heartbeat`. Two megabytes may hold the loop for 50 ms each; of lists, which
the collector looks at one by one, it is one. Looked at: a
large variable of each shape, many small ones, long messages, memory and SQLite, saving, restoring,
`to_dict`, `from_dict`, requests for approval that are kept, and that what is kept is of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contracts.test_approval_storage_contract import request_for
from tests.security.heartbeat import assert_beats_on
from tool_engine import ToolEngine, ToolEngineConfig, ToolSession
from tool_engine.session.variables.store import Variable

pytestmark = pytest.mark.beats

SIZE: Final = 2_000_000
SHAPES: Final[dict[str, Callable[[], Any]]] = {
    "rows": lambda: [
        {"name": f"n{n}", "text": "some text of a row " * 3, "id": n} for n in range(SIZE // 95)
    ],
    "lists": lambda: [[n] for n in range(SIZE // 18)],  # a megabyte
    "keys": lambda: {f"key{n}": n for n in range(SIZE // 18)},
    "numbers": lambda: list(range(SIZE // 8)),
    "a text": lambda: "some text, \u4e2d " * (SIZE // 13),
}


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ToolEngine]:
    records = f"sqlite:///{tmp_path}/calls.db" if request.param == "sqlite" else None
    async with ToolEngine(ToolEngineConfig(auto_reload=False, records=records)) as made:
        await ToolSession(made, "first").save()  # what is loaded on first use is loaded
        yield made


def session_of(engine: ToolEngine, shape: str) -> ToolSession:
    """A conversation of two megabytes."""
    session = ToolSession(engine, "chat")
    if shape == "many":
        session.variables.capacity = SIZE
        for number in range(SIZE // 190):
            session.variables.add(Variable(name=f"x{number}", value={"a": number}))
    else:
        session.variables.add(Variable(name="x", value=SHAPES[shape]()))
    return session


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shape", [*SHAPES, "many"])
async def test_the_heart_beats_on_while_it_is_kept(engine: ToolEngine, shape: str) -> None:
    """Variables, as they are saved and restored."""
    session = session_of(engine, shape)
    await assert_beats_on(session.save)
    await assert_beats_on(lambda: ToolSession.restore(engine, "chat"))
    restored = await ToolSession.restore(engine, "chat")
    assert restored is not None
    assert [each.value for each in restored.variables] == [each.value for each in session.variables]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shape", SHAPES)
async def test_the_heart_beats_on_while_messages_are_kept(engine: ToolEngine, shape: str) -> None:
    """What is saved beside the conversation."""
    session = ToolSession(engine, "chat")
    more = {"messages": SHAPES[shape]()}
    await assert_beats_on(lambda: session.save(more))
    restored = await ToolSession.restore(engine, "chat")
    assert restored is not None
    assert restored.more == more


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shape", SHAPES)
async def test_the_heart_beats_on_while_a_request_is_kept(engine: ToolEngine, shape: str) -> None:
    """Long arguments about which a person is asked later."""
    request = request_for(session_id="chat", params={"value": SHAPES[shape]()})
    approvals = engine.store.approvals
    await assert_beats_on(lambda: approvals.put(request))
    await assert_beats_on(lambda: approvals.pending("chat"))
    assert [each.params for each in await approvals.pending("chat")] == [request.params]


@pytest.mark.parametrize("shape", ["rows", "a text", "numbers"])
async def test_as_json_values(shape: str) -> None:
    """`to_dict` and `from_dict` are no coroutines: what they do is done at once, and quickly."""
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    session = session_of(engine, shape)

    async def write() -> dict[str, Any]:
        return session.to_dict()

    async def read() -> ToolSession:
        return ToolSession.from_dict(data, engine)

    await assert_beats_on(write)
    data = session.to_dict()
    await assert_beats_on(read)
    assert (await read()).variables.get("x").value == session.variables.get("x").value


async def test_what_is_kept_is_of_one_moment(engine: ToolEngine) -> None:
    """Calls go on, and messages come, while a thread writes: none of it is kept, and no half."""
    session = session_of(engine, "rows")
    messages: list[dict[str, Any]] = [{"content": ["a"] * 1_000} for _ in range(1_000)]
    saving = asyncio.ensure_future(session.save({"messages": messages}))
    await asyncio.sleep(0)
    for each in messages:
        each["content"].append("later")
    messages.append({"content": []})
    session.variables.add(Variable(name="later", value=1))
    await saving
    restored = await ToolSession.restore(engine, "chat")
    assert restored is not None
    assert [len(each["content"]) for each in restored.more["messages"]] == [1_000] * 1_000
    assert [each.name for each in restored.variables] == ["x"]


async def test_of_two_saves_the_later_one_stays(engine: ToolEngine) -> None:
    """However long the one before takes to be written."""
    storage = engine.store.sessions
    large = {"rows": SHAPES["rows"](), "revision": "a"}
    saves: list[Awaitable[Any]] = [
        storage.save("chat", large),
        storage.save("chat", {"revision": "b"}),
    ]
    await asyncio.gather(*saves)
    assert await storage.load("chat") == {"revision": "b"}
    first = asyncio.ensure_future(storage.save("chat", large))
    await asyncio.sleep(0)
    assert not await storage.save_if("chat", {"revision": "c"}, ["b"])  # type: ignore[attr-defined]
    await first
