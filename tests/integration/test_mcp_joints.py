"""What holds for a tool of a server of MCP wherever it is called from, through gateways too?"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from mcp import Client
from mcp_types import ElicitResult

from tests.effort import share_of
from tests.mcp_server.conftest import text_of
from tests.mcp_server.test_transports import serving
from tool_engine import (
    MCPSource,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
    ToolSubAgent,
)
from tool_engine.mcp_server import MCPServer, find_request

LIMIT = 100.0
OLD = "2025-11-25"
WAYS = [(None, False), (OLD, False), (None, True), (OLD, True)]

pytestmark = pytest.mark.timeout(3 * LIMIT)


class Behind:
    """What the tools of the last server have seen."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.cancelled = 0
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.fails = 0


def make_engine(folder: Path) -> ToolEngine:
    folder.mkdir(exist_ok=True)
    return ToolEngine(ToolEngineConfig(tools_directory=str(folder)))


def add_tools(engine: ToolEngine, behind: Behind) -> None:
    @engine.tool
    async def note(text: str) -> str:
        """Note a text.

        Args:
            text: The text.
        """
        behind.ran.append(text)
        return f"noted {text}"

    @engine.tool(idempotent=True)
    async def flaky(text: str) -> str:
        """Fail at first.

        Args:
            text: The text.
        """
        behind.ran.append(text)
        if behind.fails:
            behind.fails -= 1
            raise RuntimeError("not yet")
        return "at last"

    @engine.tool(effect="read")
    async def wait(context: ToolExecutionContext, text: str) -> str:
        """Wait for the gate.

        Args:
            text: The text.
        """
        behind.ran.append(text)
        context.report_progress(1, 3, "begun")
        behind.reached.set()
        try:
            await behind.gate.wait()
        except asyncio.CancelledError:
            behind.cancelled += 1
            raise
        context.report_progress(3, 3, "done")
        return f"waited {text}"

    @engine.tool
    async def ask() -> str:
        """Ask the client's person."""
        request = find_request()
        assert request is not None
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await request.elicit("name", "Your name?", schema)
        return f"{answer['action']} {answer.get('content')}"


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
async def last(tmp_path: Path, behind: Behind) -> AsyncIterator[ToolEngine]:
    """The engine that has the tools."""
    async with make_engine(tmp_path / "last") as engine:
        add_tools(engine, behind)
        yield engine


class Hops:
    """Engines in a row: each has the tools of the one before."""

    def __init__(self, folder: Path, revision: str | None, is_http: bool) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self.revision, self.is_http = revision, is_http
        self.count = 0

    async def after(self, other: ToolEngine, **settings: Any) -> ToolEngine:
        """A new engine with the tools of another."""
        self.count += 1
        engine = make_engine(self._folder / f"hop{self.count}")
        server = MCPServer(other)
        reached: dict[str, Any] = {"in_memory": server}
        if self.is_http:
            reached = {"url": await self._stack.enter_async_context(serving(other, server))}
        await self._stack.enter_async_context(engine)
        source = MCPSource(f"hop{self.count}", revision=self.revision, **reached, **settings)
        await engine.add_source(source)
        return engine

    async def client(
        self, engine: ToolEngine, served: MCPServer | None = None, **options: Any
    ) -> Any:
        """A client of the SDK."""
        mode: Any = "legacy" if self.revision else "2026-07-28"
        server = served or MCPServer(engine)
        where: Any = server._server
        if self.is_http:
            where = await self._stack.enter_async_context(serving(engine, server))
        return await self._stack.enter_async_context(Client(where, mode=mode, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


@pytest.fixture(
    params=WAYS, ids=lambda way: f"{way[0] or 'modern'}-{'http' if way[1] else 'memory'}"
)
def hops(request: pytest.FixtureRequest, tmp_path: Path) -> Hops:
    return Hops(tmp_path, *request.param)


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT):
        while not is_so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def pending(engine: ToolEngine, count: int) -> None:
    """Wait until so many questions wait for an answer."""
    while len(await engine.approvals.pending()) != count:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)


def is_idle(*engines: ToolEngine) -> bool:
    snapshots = [each.controller.snapshot() for each in engines]
    return all(each.held == [] and each.waiting == [] for each in snapshots)


async def statuses(engine: ToolEngine) -> list[str]:
    """How its calls ended, by their records."""
    found = await engine.query_call_records(oldest_first=True)
    return [each.error_type or "succeeded" for each in found]


async def test_who_calls(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    """A conversation, a sub-agent, a tool and a workflow: each call runs once, with a record."""
    async with hops, asyncio.timeout(2 * LIMIT):
        engine = await hops.after(last)
        session = ToolSession(engine, "s", ToolCallConfig())
        result = await session.execute("note", {"text": "session"})
        assert "noted session" in str(result.final_text)
        agent = ToolSubAgent("a", engine, tools=["note"])
        assert (await agent.execute("note", {"text": "agent"})).is_success

        @engine.tool
        async def outer(context: ToolExecutionContext) -> Any:
            """Call another."""
            return (await context.call("note", {"text": "nested"})).output["content"]

        assert (await engine.execute("outer")).is_success
        engine.register_tool(
            {
                "name": "both",
                "description": "Notes twice.",
                "parameters": [],
                "entry": {
                    "type": "workflow",
                    "steps": [
                        {"id": "first", "tool": "note", "params": {"text": "one"}},
                        {
                            "id": "second",
                            "tool": "note",
                            "params": {"text": "${steps.first.output.content[0].text}"},
                        },
                    ],
                },
            },
            None,
        )
        ran = await engine.execute("both")
        assert ran.is_success, ran.error
        assert behind.ran == ["session", "agent", "nested", "one", "noted one"]
        assert await statuses(last) == ["succeeded"] * 5
        assert len(await statuses(engine)) == 7


async def test_one_run_for_all(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    async with hops, asyncio.timeout(2 * LIMIT):
        one = {"concurrency": {"collision": "single_flight"}, "effect": "read"}
        engine = await hops.after(last, tools={"wait": one})
        calls = [asyncio.create_task(engine.execute("wait", {"text": "x"})) for _ in range(5)]
        await behind.reached.wait()
        calls[1].cancel()
        behind.gate.set()
        results = await asyncio.gather(calls[0], *calls[2:])
        assert all(each.is_success for each in results), results
        assert behind.ran == ["x"]
        assert await statuses(last) == ["succeeded"]
        assert sorted(await statuses(engine)) == ["cancelled", *["succeeded"] * 4]


async def test_retries(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    """What fails is tried again only where it may run twice, in one call of ours."""
    async with hops, asyncio.timeout(2 * LIMIT):
        again = {
            "retry": {"attempts": 3, "backoff": 0, "on": ["execution_error"]},
            "idempotent": True,
        }
        engine = await hops.after(last, tools={"flaky": again})
        behind.fails = 2
        result = await engine.execute("flaky", {"text": "x"})
        assert result.is_success, result.error
        assert behind.ran == ["x"] * 3
        assert await statuses(last) == [*["execution_error"] * 2, "succeeded"]
        assert await statuses(engine) == ["succeeded"]


async def test_a_task(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    """It outlives its caller, tells how far it is, and its end ends the call of the server."""
    async with hops, asyncio.timeout(2 * LIMIT):
        engine = await hops.after(last)
        handle = await engine.start("wait", {"text": "x"})
        await behind.reached.wait()
        await until(lambda: handle.progress is not None)
        assert "begun" in str(handle.progress)
        behind.gate.set()
        result = await handle.wait()
        assert result.output["content"][0]["text"] == "waited x"
        behind.gate.clear()
        behind.reached.clear()
        handle = await engine.start("wait", {"text": "y"})
        await behind.reached.wait()
        await handle.cancel()
        assert (await handle.wait()).error_type == "cancelled"
        await until(lambda: behind.cancelled == 1)
        await until(lambda: is_idle(engine, last))
        assert await statuses(last) == ["succeeded", "cancelled"]
        assert await statuses(engine) == ["succeeded", "cancelled"]


async def test_two_hops(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    """Results, progress, failures and cancellation, with one record at each engine."""
    async with hops, asyncio.timeout(2 * LIMIT):
        middle = await hops.after(last)
        first = await hops.after(middle)
        client = await hops.client(first)
        assert {"note", "wait"} <= {each.name for each in (await client.list_tools()).tools}
        heard: list[Any] = []

        async def hear(*said: Any) -> None:
            heard.append(said)

        behind.gate.set()
        result = await client.call_tool("wait", {"text": "x"}, progress_callback=hear)
        assert text_of(result) == "waited x"
        assert [each[0] for each in heard][-1] == 3, heard
        behind.fails = 1
        failed = await client.call_tool("flaky", {"text": "z"})
        assert failed.is_error
        assert "not yet" in text_of(failed)
        wrong = await client.call_tool("note", {"txt": "z"})
        assert wrong.meta["tool-engine/error_type"] == "validation_error"
        behind.gate.clear()
        behind.reached.clear()
        call = asyncio.create_task(client.call_tool("wait", {"text": "y"}))
        await behind.reached.wait()
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: behind.cancelled == 1)
        await until(lambda: is_idle(first, middle, last))
        ended = ["succeeded", "execution_error", "cancelled"]
        assert await statuses(last) == await statuses(middle) == ended
        assert await statuses(first) == [*ended[:2], "validation_error", ended[2]]


async def test_questions(hops: Hops, last: ToolEngine) -> None:
    """A server that asks through a gateway is not answered by it: the call says so."""
    async with hops, asyncio.timeout(2 * LIMIT):
        engine = await hops.after(last)

        async def never(*_: Any) -> Any:
            raise AssertionError("no one was asked")

        client = await hops.client(engine, elicitation_callback=never)
        result = await client.call_tool("ask", {})
        assert result.is_error
        assert re.search(
            "the client (must be able|cannot answer .* no elicitation)", text_of(result)
        )


async def test_a_reload_in_a_call(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    """A call goes on as it began when its tool changes at the server, and the next one is new."""
    async with hops, asyncio.timeout(2 * LIMIT):
        engine = await hops.after(last)
        call = asyncio.create_task(engine.execute("wait", {"text": "x"}))
        await behind.reached.wait()
        last.unregister_tool("wait")

        @last.tool(effect="read")
        async def wait(words: str) -> str:
            """Wait no more.

            Args:
                words: The text.
            """
            return f"at once {words}"

        await until(lambda: "words" in str(engine.get("wait")))
        behind.gate.set()
        result = await call
        assert result.is_success, result.error
        assert result.output["content"][0]["text"] == "waited x"
        again = await engine.execute("wait", {"words": "y"})
        assert again.output["content"][0]["text"] == "at once y"


async def test_what_is_given_up_ends_no_other(hops: Hops, last: ToolEngine, behind: Behind) -> None:
    """In line or in a question, its call leaves nothing at any hop, and the connections stay."""
    asks: dict[str, Any] = {"permission": {"execution": "ask_always"}}
    queues = {"concurrency": {"collision": "queue", "key": "tool"}}
    async with hops, asyncio.timeout(2 * LIMIT):
        middle = await hops.after(last, tools={"wait": queues, "note": asks})
        middle.approvals.take_questions()
        first = await hops.after(middle)
        client = await hops.client(first)
        kept = asyncio.create_task(client.call_tool("wait", {"text": "x"}))
        await behind.reached.wait()
        in_line = asyncio.create_task(client.call_tool("wait", {"text": "y"}))
        await until(lambda: middle.controller.snapshot().waiting)
        in_line.cancel()
        await until(lambda: not middle.controller.snapshot().waiting)
        asked = asyncio.create_task(client.call_tool("note", {"text": "z"}))
        await pending(middle, 1)
        asked.cancel()
        await pending(middle, 0)
        behind.gate.set()
        assert text_of(await kept) == "waited x"
        await asyncio.wait([in_line, asked])
        await until(lambda: is_idle(first, middle, last))
        ended = ["cancelled", "cancelled", "succeeded"]
        assert sorted(await statuses(first)) == sorted(await statuses(middle)) == ended
        assert await statuses(last) == ["succeeded"]


@pytest.mark.timeout(3_600)
async def test_random_cancels(
    hops: Hops, last: ToolEngine, behind: Behind, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls that are given up at any moment have at most one record at each hop."""
    chance = random.Random(3)  # noqa: S311 - no secret
    async with hops:
        middle = await hops.after(last)
        first = await hops.after(middle)
        client = await hops.client(first)

        async def give_up() -> None:
            name = chance.choice(["wait", "note"])
            task = asyncio.create_task(client.call_tool(name, {"text": "x"}))
            for _ in range(chance.randrange(80)):
                await asyncio.sleep(0)
            await asyncio.sleep(chance.choice([0, chance.random() / 20]))
            task.cancel()
            await asyncio.wait([task])

        for _ in range(0, share_of(1_000), 25):
            await asyncio.gather(*(give_up() for _ in range(25)))
        await until(lambda: is_idle(first, middle, last))
        counts = [len(await statuses(each)) for each in (first, middle, last)]
        assert counts == sorted(counts, reverse=True)
        assert text_of(await client.call_tool("note", {"text": "on"})) == "noted on"
    assert "mcp_server_down" not in capsys.readouterr().err


async def test_a_change_goes_through(hops: Hops, last: ToolEngine) -> None:
    async with hops, asyncio.timeout(2 * LIMIT):
        first = await hops.after(await hops.after(last))

        @last.tool
        async def late() -> str:
            """Come late."""
            return "here"

        await until(lambda: "late" in first.list_names())
        assert (await first.execute("late")).output["content"][0]["text"] == "here"
        last.unregister_tool("late")
        await until(lambda: "late" not in first.list_names())


async def test_results_are_the_same_at_each_hop(hops: Hops, last: ToolEngine) -> None:
    """Text, structured output and what is declared of it; of annotations none is believed."""

    @last.tool(output={"type": "object", "properties": {"n": "integer"}, "required": ["n"]})
    async def build(n: int) -> dict[str, int]:
        """Build an object.

        Args:
            n: A number.
        """
        return {"n": n}

    @last.tool(effect="read", output={"type": "integer"})
    async def count(n: int) -> int:
        """Count.

        Args:
            n: A number.
        """
        return n

    async with hops, asyncio.timeout(2 * LIMIT):
        middle = await hops.after(last)
        clients = [await hops.client(each) for each in (last, middle, await hops.after(middle))]
        listed = [
            {
                each.name: each.model_dump(exclude={"annotations"})
                for each in (await client.list_tools()).tools
            }
            for client in clients
        ]
        assert listed[0] == listed[1] == listed[2]
        for name in ("build", "count"):
            results = [await client.call_tool(name, {"n": 3}) for client in clients]
            said = [(text_of(each), each.structured_content) for each in results]
            assert said[0] == said[1] == said[2]


async def test_a_client_answers_for_a_tool_of_a_server(
    hops: Hops, last: ToolEngine, behind: Behind
) -> None:
    """Where the operator's own settings let it; the record says who decided."""
    asks = {"permission": {"execution": "ask_always", "client_may_answer": True}}

    async def agree(_: Any, params: Any) -> Any:
        fields = params.requested_schema["properties"]
        return ElicitResult(action="accept", content=dict.fromkeys(fields, True))

    async with hops, asyncio.timeout(2 * LIMIT):
        engine = await hops.after(last, tools={"note": asks})
        server = MCPServer(engine, approvals="client")
        client = await hops.client(engine, server, elicitation_callback=agree)
        result = await client.call_tool("note", {"text": "x"})
        assert text_of(result) == "noted x", result
        record = (await engine.query_call_records())[0]
        assert record.decided_by == "mcp-client"
        assert behind.ran == ["x"]


async def test_engines_that_call_each_other_end_with_the_first_call(tmp_path: Path) -> None:
    """Each call of the circle has no more time than the one that it is made for."""
    revision = "2026-07-28"
    async with (
        make_engine(tmp_path / "one") as one,
        make_engine(tmp_path / "other") as other,
        serving(one) as of_one,
        serving(other) as of_other,
    ):
        await add_call(one, "ping", "pong")
        await add_call(other, "pong", "ping")
        for engine, url, name in ((one, of_other, "pong"), (other, of_one, "ping")):
            source = MCPSource("next", url=url, expose=(name,), revision=revision)
            await engine.add_source(source)
        result = await one.execute("ping", {}, ToolExecutionContext(timeout=3))
        assert result.error_type == "timeout"
        await until(lambda: is_idle(one, other))
        made = [await statuses(each) for each in (one, other)]
        assert {each for names in made for each in names} <= {"timeout", "cancelled"}


async def add_call(engine: ToolEngine, name: str, other: str) -> None:
    @engine.tool(name=name, description="Calls the other.")
    async def call_other(context: ToolExecutionContext) -> Any:
        result = await context.call(other, {})
        return result.error or result.output


@pytest.mark.parametrize("said", [0.2, -1, True, "1", None, 1e300, [1]])
async def test_a_client_says_how_long_it_waits(last: ToolEngine, behind: Behind, said: Any) -> None:
    """Its call ends by then; what is no time is none."""
    async with Client(MCPServer(last)._server, mode="2026-07-28") as client:
        meta: Any = {"tool-engine/timeout": said}
        call = asyncio.create_task(client.call_tool("wait", {"text": "x"}, meta=meta))
        await behind.reached.wait()
        if said != 0.2:
            behind.gate.set()
        result = await call
    assert text_of(result) == "waited x" if said != 0.2 else "deadline" in text_of(result)
    assert await statuses(last) == ["timeout" if said == 0.2 else "succeeded"]
