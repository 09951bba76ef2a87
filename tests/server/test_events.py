"""How does a client hear what happens, and lose nothing?"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.access.conftest import TOKEN, head, speak
from tests.effort import share_of
from tests.server.conftest import Client, Service, served, write_tokens
from tool_engine import (
    ApprovalDecision,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.server import create_app

BOUND = 10.0


class Reader:
    """Reads the events of a stream one by one."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def next(self) -> tuple[str, str, Any]:
        """The type of an event, its id, and its data."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(BOUND):
            while True:
                line = (await self.answer.content.readline()).decode()
                if not line:
                    raise EOFError
                if line == "\n" and "event" in fields:
                    return fields["event"], fields.get("id", ""), json.loads(fields["data"])
                name, mark, value = line.rstrip("\n").partition(": ")
                if mark:
                    fields[name] = value


@pytest.fixture
def looks_often(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is taken back is noticed at once."""
    monkeypatch.setattr("tool_engine.access.streams._LOOK", 0.01)
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    service.app._guarded._auth._next_look = 0.0  # type: ignore[union-attr]


@asynccontextmanager
async def reading(
    client: Client, path: str = "/v1/events", **headers: str
) -> AsyncIterator[Reader]:
    said = {**client.headers, **{name.replace("_", "-"): each for name, each in headers.items()}}
    async with client.http.get(client.url + path, headers=said) as answer:
        assert answer.status == 200
        assert await answer.content.readline() == b":\n"  # it is heard from here on
        yield Reader(answer)


async def test_what_happens_is_heard(olga: Client, ann: Client) -> None:
    """Each event comes once, in order, with its number."""
    async with reading(olga) as reader:
        await ann.call("add", a=1, b=2)
        heard = [await reader.next() for _ in range(2)]
    assert [name for name, _, _ in heard] == ["execution_started", "execution_completed"]
    first, second = (number.partition("-") for _, number, _ in heard)
    assert (int(second[0]), second[2]) == (int(first[0]) + 1, first[2])
    assert heard[1][2]["execution_result"]["output"] == {"result": 3}
    assert "tool" not in heard[1][2]


async def test_a_reader_that_comes_back(olga: Client, ann: Client) -> None:
    """From the last number on, nothing is missed, whatever happened meanwhile."""
    async with reading(olga) as reader:
        await ann.call("add", a=1, b=2)
        _, last, _ = await reader.next()
    for number in range(5):
        await ann.call("add", a=number, b=0)
    async with reading(olga, last_event_id=last) as reader:
        names = [(await reader.next())[0] for _ in range(11)]
    assert names == ["execution_completed", *["execution_started", "execution_completed"] * 5]


@pytest.mark.parametrize("seed", range(share_of(100)))
async def test_readers_that_come_and_go(
    engine: ToolEngine, olga: Client, ann: Client, seed: int
) -> None:
    """Wherever one stops, it loses nothing and hears nothing twice."""
    dice = random.Random(seed)  # noqa: S311 - a test, no secret
    calls = dice.randrange(1, 40)
    count = 2 * calls + len(engine.list_names())  # each tool was added

    async def read_all() -> list[int]:
        heard: list[int] = []
        place = "0"
        while len(heard) < count:
            async with reading(olga, last_event_id=place) as reader:
                for _ in range(min(dice.randrange(0, 12), count - len(heard))):
                    _, place, data = await reader.next()
                    heard.append(data["sequence"])
                if dice.random() < 0.5:
                    reader.answer.connection.transport.abort()
        return heard

    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        readers = [group.create_task(read_all()) for _ in range(3)]
        for number in range(calls):
            await ann.call("add", a=number, b=0)
            if dice.random() < 0.3:
                await asyncio.sleep(0)
    assert [each.result() for each in readers] == [list(range(1, count + 1))] * 3


async def test_a_reader_that_comes_back_to_another_engine(olga: Client, ann: Client) -> None:
    """Numbers begin anew with each engine in memory: it hears that it may have missed some."""
    await ann.call("add", a=1, b=2)
    async with reading(olga, last_event_id="1-0a1b2c3d") as reader:
        assert await reader.next() == ("dropped", "", {"events": None})
        assert [(await reader.next())[2]["sequence"] for _ in range(2)] == [1, 2]


async def test_where_no_events_are_kept(tmp_path: Path) -> None:
    """Who comes back hears how many it has missed at most, and what comes: it is not refused."""
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:

        @engine.tool(effect="read")
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        async with served(create_app(engine)) as service:
            client = service.client(None)
            async with reading(client) as reader:
                await client.call("add", a=1, b=2)
                heard = [await reader.next() for _ in range(2)]
            async with reading(client, last_event_id=heard[-1][1]) as reader:
                await client.call("add", a=1, b=2)
                again = [await reader.next() for _ in range(2)]
            assert [name for name, _, _ in again] == ["execution_started", "execution_completed"]
            for place, count in ((heard[0][1], 3), ("1-00000000", None)):
                async with reading(client, last_event_id=place) as reader:
                    assert await reader.next() == ("dropped", "", {"events": count})
                    await client.call("add", a=1, b=2)
                    assert (await reader.next())[0] == "execution_started"
                    await reader.next()
            answer = await client.get("/v1/events", last_event_id="999999")
            assert (answer.status, answer.kind) == (409, "unknown-event")


async def test_a_reader_that_comes_back_too_late(olga: Client, ann: Client) -> None:
    """It hears how many are not kept any more, and then the 1,000 that are."""
    for number in range(510):
        await ann.call("add", a=number, b=0)
    async with reading(olga, last_event_id="4") as reader:
        name, _, data = await reader.next()
        # Calls that take long are joined by a reload of what was new at the start.
        assert (name, data["events"]) >= ("dropped", 20)
        first = 5 + data["events"]
        heard = [(await reader.next())[2]["sequence"] for _ in range(1000)]
        assert heard == [*range(first, first + 1000)]


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30, "1-", "1-x"])
async def test_a_number_that_is_none(olga: Client, number: str) -> None:
    """It is refused, and not taken for the beginning."""
    answer = await olga.get("/v1/events", last_event_id=number)
    assert (answer.status, answer.kind) == (400, "invalid-request")
    answer = await olga.get(f"/v1/events?after={number}")
    assert (answer.status, answer.kind) == (400, "invalid-request")


async def test_a_number_that_is_not_given_out(olga: Client) -> None:
    """It is refused too: from where it comes, it means another event."""
    answer = await olga.get("/v1/events", last_event_id="17")
    assert (answer.status, answer.kind) == (409, "unknown-event")


async def test_a_text_that_is_none(olga: Client, ann: Client, engine: ToolEngine) -> None:
    """Half of a surrogate pair, from a program of the engine's, ends no stream."""
    async with reading(olga) as reader:
        context = ToolExecutionContext(caller_id="ann", conversation_id="c\ud800")
        await engine.execute("add", {"a": 1, "b": 2}, context)
        await ann.call("add", a=1, b=2)
        heard = [(await reader.next())[2] for _ in range(4)]
    said = [each["data"]["conversation_id"] for each in heard]
    assert said == [r"c\ud800", r"c\ud800", None, None]


async def test_the_head_of_a_stream(service: Service) -> None:
    """It is answered, and nothing follows: the connection is free for another request."""
    for path in ("/v1/events", "/v1/tools"):
        request = head(f"HEAD {path}", TOKEN).replace("Connection: close\r\n", "")
        answer = await speak(service.url, request + head("GET /healthz"))
        assert answer.count("HTTP/1.1 200 OK") == 2
        assert '{"status":"ok"}' in answer
        # That of a stream says of no length that its events do not have.
        assert ("content-length" in answer.partition("\r\n\r\n")[0]) == (path == "/v1/tools")


async def test_filters(olga: Client, ann: Client) -> None:
    """Types and tools can be chosen; what there is not is refused."""
    async with reading(olga, "/v1/events?types=execution_completed&tool_name=note") as reader:
        await ann.call("add", a=1, b=2)
        await ann.call("note", text="x")
        assert (await reader.next())[2]["tool_name"] == "note"
    for said, words in (
        ("types=exploded", "unknown event type 'exploded'; known: "),
        ("types=execution_complete", "; did you mean 'execution_completed'?"),
        ("types=", "unknown event type ''"),
    ):
        answer = await olga.get(f"/v1/events?{said}")
        assert (answer.status, answer.kind) == (400, "invalid-request")
        assert words in answer.json["detail"]


async def test_a_silent_stream(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says from time to time that it is alive, so that no proxy ends it."""
    monkeypatch.setattr("tool_engine.server.streaming._HEARTBEAT", 0.01)
    async with reading(olga) as reader:
        said = [await reader.answer.content.readline() for _ in range(6)]
    assert said == [b"\n", b":\n"] * 3


async def test_others_are_not_heard(service: Service, ann: Client) -> None:
    """One that does not operate hears of its own calls, and of tools that it may use."""
    bob = service.client("bob")
    async with reading(bob) as reader:
        await ann.call("add", a=1, b=2)
        await bob.call("note", text="mine")
        heard = [(await reader.next())[2] for _ in range(2)]
    assert {each["data"]["caller_id"] for each in heard} == {"bob"}


async def test_decisions_of_others_are_not_heard(
    service: Service, engine: ToolEngine, ann: Client, olga: Client
) -> None:
    """What stands for another, and what another's session does, is the operators' to hear."""

    @engine.tool(permission="ask_once")
    async def pay_once() -> str:
        """Pay."""
        return "paid"

    bob = service.client("bob")
    toolbox = ToolSession(engine, "of-bob", principal="bob").toolbox
    async with reading(ann) as reader, reading(olga) as operator:
        task = asyncio.create_task(bob.call("pay_once"))
        async with asyncio.timeout(BOUND):
            while not (waiting := await engine.approvals.pending()):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
        always = ApprovalDecision(is_approved=True, always="tool")
        await engine.approvals.answer(waiting[0].token, always)
        await task
        toolbox.set_tool_enabled("add", False)
        await ann.call("note", text="mine")
        names = [(await operator.next())[0] for _ in range(6)]
        heard = [(await reader.next())[2] for _ in range(2)]
    assert {"decision_kept", "tool_toggled"} < set(names)
    assert {each["data"]["caller_id"] for each in heard} == {"ann"}


async def test_the_end_of_the_server_ends_streams(service: Service, olga: Client) -> None:
    """A server that ends does not wait for those that listen."""
    async with reading(olga) as reader:
        service.app.end()
        with pytest.raises(EOFError):
            await reader.next()


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("entries", [{}, {"olga": {"scopes": ["call"]}}], ids=["none", "less"])
async def test_a_reader_whose_token_is_taken_back(
    olga: Client,
    ann: Client,
    tmp_path: Path,
    entries: dict[str, Any],
) -> None:
    """Its stream ends, as soon as it is looked at again; that of another goes on."""
    async with reading(olga) as reader, reading(ann) as other:
        kept = {**entries, "ann": {"scopes": ["call", "read"]}}
        await asyncio.to_thread(write_tokens, tmp_path / "tokens.json", kept)
        name, _, problem = await reader.next()
        assert (name, problem["type"]) == ("problem", "urn:tool-engine:unknown-token")
        with pytest.raises(EOFError):
            await reader.next()
        await ann.call("add", a=1, b=2)
        assert (await other.next())[0] == "execution_started"


@pytest.mark.usefixtures("looks_often")
async def test_a_call_whose_token_is_taken_back(
    engine: ToolEngine,
    ann: Client,
    tmp_path: Path,
) -> None:
    """One whose events are streamed is cancelled, as when its client leaves."""
    address = ann.url + "/v1/tools/endless/calls"
    said = {**ann.headers, "accept": "text/event-stream"}
    async with ann.http.post(address, headers=said, json={}) as answer:
        reader = Reader(answer)
        assert (await reader.next())[0] == "execution_started"
        await asyncio.to_thread(write_tokens, tmp_path / "tokens.json", {})
        async with asyncio.timeout(BOUND):
            rest = (await answer.read()).decode()
    assert "event: result" not in rest
    assert "unknown-token" in rest
    (record,) = await engine.query_call_records()
    assert record.outcome.value == "cancelled"


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("way", ["call", "key", "task"])
async def test_one_that_waits_and_whose_token_is_taken_back(
    way: str,
    service: Service,
    engine: ToolEngine,
    ann: Client,
    tmp_path: Path,
) -> None:
    """It is told so; its call is cancelled, but a task goes on, which belongs to its name."""
    path, method, headers = "/v1/tools/endless/calls", "POST", dict(ann.headers)
    if way == "task":
        prefer = {**headers, "prefer": "respond-async"}
        async with ann.http.post(ann.url + path, headers=prefer, json={}) as answer:
            path, method = f"{answer.headers['location']}?wait=60", "GET"
    if way == "key":
        headers["idempotency-key"] = "once"
    body: dict[str, Any] | None = {} if method == "POST" else None
    waiting = asyncio.create_task(
        ann.http.request(method, ann.url + path, headers=headers, json=body)
    )
    async with asyncio.timeout(BOUND):
        while not (  # noqa: ASYNC110 - of the server
            engine.controller.snapshot().metrics.active
            and "ann" in repr(service.app._guarded._open)
        ):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(write_tokens, tmp_path / "tokens.json", {})
        answer = await waiting
        assert (answer.status, (await answer.json())["type"]) == (
            401,
            "urn:tool-engine:unknown-token",
        )
    if way == "call":
        (record,) = await engine.query_call_records()
        assert (record.outcome.value, record.caller_id) == ("cancelled", "ann")
        return
    (task,) = await engine.tasks.list()
    assert (task.status, task.owner) == ("running", "ann")
    await engine.tasks.cancel(task.id)  # else the end waits for it


async def test_readers_that_never_read(
    service: Service, olga: Client, ann: Client, engine: ToolEngine
) -> None:
    """They hold up no call, and leave nothing behind."""
    address = olga.url + "/v1/events"
    answers = [await olga.http.get(address, headers=olga.headers) for _ in range(50)]
    for number in range(200):
        assert (await ann.call("note", text="x" * 1000 * (number % 3))).status == 200
    for answer in answers:
        answer.close()
    async with asyncio.timeout(BOUND):
        while engine.get_event_statistics()["subscribers"]:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
