"""What does a client of MCP see of tasks, and what of those of others?"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing, suppress
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    Request,
    RequestParams,
    Result,
)

from tests.background.test_restarts import die
from tests.mcp_server.conftest import text_of
from tests.mcp_server.test_transports import META, serving, write_tokens
from tests.mcp_servers.programs import parameters
from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.mcp_server import MCPServer, ToolSelection, find_request
from tool_engine.mcp_server.tasks import task_notices

BOUND = 200.0
EXTENSION = "io.modelcontextprotocol/tasks"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SOON = 0.05
"""Seconds after which a call of these tests is a task."""
LATER = 1.0
"""The same, where its tool has to have begun by then."""


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class AnyResult(Result):
    model_config = {"extra": "allow"}


class Task(AnyResult):
    result_type: Literal["task"] = "task"
    taskId: str  # noqa: N815 - as it stands on the wire


class TakesTasks(ClientExtension):
    """A client that takes tasks, and asks for the result until it is there."""

    identifier = EXTENSION

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self.finish)]

    async def finish(self, task: Task, ctx: ClaimContext) -> CallToolResult:
        found = await until_over(ctx, task.taskId)
        return CallToolResult.model_validate(found["result"])


class Gate:
    """A tool that goes on when it is let."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun = 0

    async def wait(self) -> None:
        self.begun += 1
        await self.open.wait()

    async def until_begun(self) -> None:
        async with asyncio.timeout(BOUND):
            while not self.begun:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path, gate: Gate) -> Any:
    records = None if request.param == "memory" else f"sqlite:///{tmp_path / 'kept.db'}"
    async with open_engine(tmp_path, records, gate) as engine:
        yield engine


def open_engine(folder: Path, records: str | None, gate: Gate, **settings: Any) -> ToolEngine:
    (folder / "tools").mkdir(exist_ok=True)
    config = ToolEngineConfig(
        tools_directory=str(folder / "tools"),
        auto_reload=False,
        records=records,
        close_timeout=0.1,
        **settings,
    )
    engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=1))

    @engine.tool(effect="read")
    async def add(a: int, b: int) -> int:
        """Add.

        Args:
            a: One.
            b: Another.
        """
        return a + b

    @engine.tool(
        background="required", output={"type": "object", "properties": {"year": "integer"}}
    )
    async def report(context: ToolExecutionContext, year: int) -> dict[str, Any]:
        """Write a report.

        Args:
            year: Which.
        """
        await context.report_progress(1, 2, "half")
        await gate.wait()
        return {"year": year}

    @engine.tool
    async def break_off() -> str:
        """Fail."""
        await gate.wait()
        raise RuntimeError("the disk is full")

    @engine.tool
    async def ask() -> str:
        """Ask for a name, twice."""
        await gate.wait()
        request = find_request()
        if request is None:
            return "there is no one to ask"
        first = await request.elicit("name", "Your name?", NAME)
        second = await request.elicit("name", "And your brother's?", NAME)
        return f"{first['content']['name']} and {second['content']['name']}"

    return engine


def connect(server: MCPServer, **options: Any) -> Client:
    return Client(server._server, mode="2026-07-28", extensions=[TakesTasks()], **options)


async def send(where: Any, method: str, task_id: str, **params: Any) -> dict[str, Any]:
    session = getattr(where, "session", where)
    request = TaskRequest(method=method, params=TaskParams(task_id=task_id, **params))
    answer = await session.send_request(request, AnyResult)
    found: dict[str, Any] = answer.model_dump(by_alias=True, exclude_none=True)
    # The SDK's own.
    del found["_meta"]
    return found


async def start(client: Any, name: str, arguments: Any = None, **more: Any) -> str:
    """Calls a tool, and returns the id of the task that it has become."""
    found = await client.session.call_tool(name, arguments or {}, allow_claimed=True, **more)
    assert isinstance(found, Task), found
    return found.taskId


async def until(where: Any, task_id: str, is_so: Callable[[Any], bool]) -> dict[str, Any]:
    async with asyncio.timeout(BOUND):
        while not is_so(found := await send(where, "tasks/get", task_id)):  # noqa: ASYNC110 - as clients do
            await asyncio.sleep(0.02)
    return found


async def until_over(where: Any, task_id: str) -> dict[str, Any]:
    over = ("completed", "failed", "cancelled")
    return await until(where, task_id, lambda found: found["status"] in over)


async def outcomes_of(engine: ToolEngine) -> list[str]:
    return [each.outcome.value for each in await engine.query_call_records()]


async def test_a_fast_call_is_no_task(engine: ToolEngine, gate: Gate) -> None:
    """It ends as a call does, one record, and nothing is kept."""
    gate.open.set()
    async with connect(MCPServer(engine, task_after=BOUND)) as client:
        added = await client.call_tool("add", {"a": 1, "b": 2})
        wrong = await client.call_tool("add", {"a": "one", "b": 2})
        written = await client.call_tool("report", {"year": 2026})

    assert text_of(added) == "3"
    assert (wrong.is_error, written.structured_content) == (True, {"year": 2026})
    assert await engine.tasks.list() == []
    assert sorted(await outcomes_of(engine)) == ["failed", "succeeded", "succeeded"]


async def test_a_long_call_is_a_task(engine: ToolEngine, gate: Gate) -> None:
    """Its client may leave: another one of the same principal reads the result."""
    server = MCPServer(engine, task_after=SOON)
    async with connect(server) as client:
        task_id = await start(client, "report", {"year": 2026})
    async with connect(server) as client:
        at_work = await until(client, task_id, lambda found: "half" in found["statusMessage"])
        gate.open.set()
        ended = await until_over(client, task_id)
        again = await send(client, "tasks/get", task_id)

    assert len(task_id) == 32
    assert (at_work["status"], at_work["statusMessage"]) == ("working", "1 of 2: half")
    assert (at_work["ttlMs"], at_work["resultType"]) == (3_600_000, "complete")
    assert ended == again
    assert ended["status"] == "completed"
    assert ended["result"]["structuredContent"] == {"year": 2026}
    assert ended["result"]["isError"] is False
    assert at_work["createdAt"] <= at_work["lastUpdatedAt"] < ended["lastUpdatedAt"]
    assert await outcomes_of(engine) == ["succeeded"]


@pytest.mark.parametrize("records", [None, "kept.db"])
async def test_more_tasks_than_a_principal_may_have(
    tmp_path: Path, gate: Gate, records: str | None
) -> None:
    """One more call is none: its client waits for the result, and what runs only so is refused."""
    url = None if records is None else f"sqlite:///{tmp_path / records}"
    engine = open_engine(tmp_path, url, gate, max_tasks_per_owner=1)
    server = MCPServer(engine, task_after=SOON, principal="ann")
    async with asyncio.timeout(BOUND), engine, connect(server) as client:
        task_id = await start(client, "report", {"year": 2026})
        late = client.session.call_tool("report", {"year": 2027}, allow_claimed=True)
        waiting = asyncio.create_task(late)
        rooms = engine.tasks._quotas._rooms  # type: ignore[attr-defined]
        while not rooms["ann"].full_until:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
        assert [each.id for each in await engine.tasks.list()] == [task_id]
        gate.open.set()
        ended = await waiting
        assert isinstance(ended, CallToolResult)
        assert ended.structured_content == {"year": 2027}
        # No room among those that ask for a slot: such a call would be kept at once.
        for name in ("add", "report"):
            engine.tasks.feeding.places.note_asking(name, 1_000)  # type: ignore[attr-defined]
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        refused = await client.call_tool("report", {"year": 2028})
        assert refused.is_error
        assert "or allow more with max_tasks_per_owner" in text_of(refused)
        assert len(await engine.tasks.list()) == 1


async def test_a_client_that_polls_sees_a_plain_call(engine: ToolEngine, gate: Gate) -> None:
    """The SDK's client with an extension for tasks returns what the tool returned."""
    async with connect(MCPServer(engine, task_after=SOON)) as client:
        asyncio.get_running_loop().call_later(4 * SOON, gate.open.set)
        result = await client.call_tool("report", {"year": 2026})

    assert result.structured_content == {"year": 2026}


async def test_the_fault_of_a_tool_is_a_result(engine: ToolEngine, gate: Gate) -> None:
    async with connect(MCPServer(engine, task_after=SOON)) as client:
        task_id = await start(client, "break_off")
        gate.open.set()
        ended = await until_over(client, task_id)

    assert (ended["status"], ended["result"]["isError"]) == ("completed", True)
    assert "the disk is full" in ended["result"]["content"][0]["text"]


async def test_what_it_waits_for_is_said(engine: ToolEngine, gate: Gate) -> None:
    """Its place in line, as `explain` says it."""
    async with connect(MCPServer(engine, task_after=SOON)) as client:
        first = await start(client, "report", {"year": 2025})
        second = await start(client, "report", {"year": 2026})
        waits = await until(client, second, lambda found: "as number" in found["statusMessage"])
        handle = await engine.tasks.get(second)
        explained = engine.controller.explain(handle.state.call_id or "")
        gate.open.set()
        for each in (first, second):
            await until_over(client, each)

    assert waits["status"] == "working"
    said, meant = (
        re.sub(r"waited [0-9.]+ s", "", each) for each in (waits["statusMessage"], str(explained))
    )
    assert said == meant
    assert "as number 1" in said


async def test_cancelling(engine: ToolEngine, gate: Gate) -> None:
    """One that runs and one that waits: one record each, and no slot is left."""
    server = MCPServer(engine, task_after=SOON, principal="ann")
    async with connect(server) as client:
        runs = await start(client, "report", {"year": 2025})
        waits = await start(client, "report", {"year": 2026})
        for task_id in (waits, runs, runs):
            assert await send(client, "tasks/cancel", task_id) == {"resultType": "complete"}
        ended = [await until_over(client, each) for each in (runs, waits)]

    assert [each["status"] for each in ended] == ["cancelled"] * 2
    assert ended[0]["statusMessage"] == "the task was cancelled: ann wished so"
    assert not any({"result", "error"} & each.keys() for each in ended)
    assert await outcomes_of(engine) == ["cancelled"] * 2
    assert engine.controller.get_metrics().active == 0


async def test_a_client_that_leaves_before_it_is_a_task(engine: ToolEngine, gate: Gate) -> None:
    """It knows no id, so the call is cancelled, as each one whose client leaves."""
    async with connect(MCPServer(engine, task_after=BOUND)) as client:
        calling = asyncio.create_task(client.call_tool("report", {"year": 2026}))
        await gate.until_begun()
        calling.cancel()
        await asyncio.wait([calling])

    assert await outcomes_of(engine) == ["cancelled"]
    assert await engine.tasks.list() == []


async def wait_for_all_but(engine: ToolEngine, known: list[str]) -> None:
    """Waits until no other task goes on: one that is being taken as it is cancelled does so."""
    async with asyncio.timeout(BOUND):
        while any(  # noqa: ASYNC110 - no event
            not each.is_final and each.id not in known
            for each in await engine.tasks.list(limit=1_000)
        ):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(3))
async def test_clients_that_leave_at_any_moment(engine: ToolEngine, gate: Gate, seed: int) -> None:
    """Each call ends once, no slot is held, and no task goes on of which no client was told."""
    chance = random.Random(seed)  # noqa: S311 - for moments
    told: list[str] = []

    async def note(ctx: Any, call_next: Any) -> Any:
        answer = await call_next(ctx)
        told.extend([answer["taskId"]] if answer.get("resultType") == "task" else [])
        return answer

    async def call_and_leave(client: Any, moment: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(moment):
                await start(client, "report", {"year": 2026})

    server = MCPServer(engine, task_after=SOON)
    server._server.middleware.append(note)
    async with connect(server) as client:
        # Some stay until they have a task.
        moments = [BOUND] * 5 + [chance.uniform(0, 3 * SOON) for _ in range(60)]
        await asyncio.gather(*(call_and_leave(client, each) for each in moments))
    await wait_for_all_but(engine, told)
    async with connect(server) as client:
        for task_id in told:
            await send(client, "tasks/cancel", task_id)
    await wait_for_all_but(engine, [])

    metrics = engine.controller.get_metrics()
    assert {each.status for each in await engine.tasks.list(limit=1_000)} == {"cancelled"}
    assert (metrics.active, metrics.zombies, metrics.queue_length) == (0, 0, 0)
    calls = [each.call_id for each in await engine.query_call_records(limit=1_000)]
    assert len(set(calls)) == len(calls) >= len(told) > 0


async def test_others_are_unknown(engine: ToolEngine, gate: Gate) -> None:
    """A task of another principal, and one whose tool is not shown, in the words of none."""
    who = ["ann"]
    server = MCPServer(engine, task_after=SOON, principal=lambda _: who[0])
    other = MCPServer(engine, principal=lambda _: who[0], expose=ToolSelection(names=("add",)))
    own = await engine.start("report", {"year": 2026})
    async with connect(server) as client, connect(other) as elsewhere:
        task_id = await start(client, "report", {"year": 2026})
        who[0] = "bob"
        cases = [(client, task_id), (client, "f" * 32), (client, own.id), (elsewhere, task_id)]
        said = []
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            more: dict[str, Any] = {"input_responses": {}} if method == "tasks/update" else {}
            for where, asked_for in cases:
                who[0] = "ann" if where is elsewhere else "bob"
                with pytest.raises(MCPError) as caught:
                    await send(where, method, asked_for, **more)
                said.append((caught.value.code, str(caught.value).replace(asked_for, "ID")))
        who[0] = "ann"
        found = await send(client, "tasks/get", task_id)

    text = "Unknown task: 'ID', or its ttlMs is over; call the tool again"
    assert set(said) == {(-32602, text)}
    assert found["status"] == "working"


@pytest.mark.parametrize("names", [(), ("rep*",), ("add",)])
async def test_a_tool_that_is_gone(engine: ToolEngine, gate: Gate, names: Any) -> None:
    """Clients hear how a task ended whose tool was taken away, and nothing that it returned."""
    server = MCPServer(engine, task_after=SOON, principal="ann")
    chosen = ToolSelection(names=names)
    elsewhere = MCPServer(engine, principal="ann", expose=chosen)
    async with connect(server) as client, connect(elsewhere) as other:
        runs = await start(client, "report", {"year": 2025})
        await gate.until_begun()
        waits = await start(client, "report", {"year": 2026})
        engine.unregister_tool("report")
        gate.open.set()
        for task_id in (runs, waits):
            await (await engine.tasks.get(task_id)).wait(BOUND)
        if names == ("add",):
            with pytest.raises(MCPError, match="Unknown task"):
                await send(other, "tasks/get", runs)
            return
        ended = [await send(other, "tasks/get", each) for each in (runs, waits)]

    assert [each["status"] for each in ended] == ["completed"] * 2
    texts = [each["result"]["content"][0]["text"] for each in ended]
    assert "the tool 'report' is gone" in texts[0]
    assert "2025" not in json.dumps(ended[0]["result"]["content"])
    assert "structuredContent" not in ended[0]["result"]
    assert "report" in texts[1]
    assert ended[1]["result"]["isError"]


async def test_an_error_that_a_person_must_see_first(engine: ToolEngine, gate: Gate) -> None:
    """Neither the result of a task nor its message has it."""

    @engine.tool(permission={"execution": "auto", "result": "always"})
    async def look_up() -> str:
        """Look up what is private."""
        await gate.wait()
        raise RuntimeError("ann is ill")

    async with connect(MCPServer(engine, task_after=SOON)) as client:
        task_id = await start(client, "look_up")
        gate.open.set()
        ended = await until_over(client, task_id)

    assert "needs a person's consent" in ended["statusMessage"]
    assert "is ill" not in json.dumps(ended)


async def names_of(client: Client) -> list[str]:
    """The tools of the list, read page by page."""
    names: list[str] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [each.name for each in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return names


async def test_each_client_sees_what_it_can_call(engine: ToolEngine) -> None:
    """Clients of one server, that ask in turns: pages, rules, searches and near names."""
    rules = "Use {{tools}}.\n{{if report}}Report once."
    engine.register_group({"name": "work", "tools": ["add", "report"], "rules": rules})
    engine.register_group({"name": "late", "tools": ["report"], "rules": "Use {{tools}} late."})
    engine.register_group({"name": "words", "rules": "Be brief."})
    lists = MCPServer(engine, task_after=SOON, page_size=2)
    finds = MCPServer(engine, task_after=SOON, mode="search")
    plain: Any = {"mode": "2026-07-28"}
    for _ in range(2):
        async with connect(lists) as client, Client(lists._server, **plain) as other:
            assert await names_of(client) == ["add", "ask", "break_off", "report"]
            assert await names_of(other) == ["add", "ask", "break_off"]
            for each, names in ((client, ["late", "words", "work"]), (other, ["words", "work"])):
                listed = (await each.list_prompts()).prompts
                assert [prompt.name for prompt in listed] == [f"{name}.rules" for name in names]
            for each, said in (
                (client, "Use `add`, `report`.\nReport once."),
                (other, "Use `add`."),
            ):
                message: Any = (await each.get_prompt("work.rules")).messages[0]
                assert message.content.text == said
            with pytest.raises(MCPError, match="did you mean 'report'"):
                await client.call_tool("reports", {})
            with pytest.raises(MCPError, match=r"Unknown tool: 'reports'$"):
                await other.call_tool("reports", {})
        async with connect(finds) as client, Client(finds._server, **plain) as other:
            for each, names in ((client, ["report"]), (other, [])):
                found = await each.call_tool("search_tools", {"query": "write a report"})
                assert [tool["name"] for tool in found.structured_content["tools"]] == names


async def test_a_client_that_takes_no_tasks(engine: ToolEngine, gate: Gate) -> None:
    """It waits for the result, or is refused what runs only as a task; and has no methods."""
    server = MCPServer(engine, task_after=SOON)
    async with Client(server._server, mode="2026-07-28") as client:
        assert await names_of(client) == ["add", "ask", "break_off"]
        asyncio.get_running_loop().call_later(4 * SOON, gate.open.set)
        failed = await client.call_tool("break_off", {})
        with pytest.raises(MCPError) as required:
            await client.call_tool("report", {"year": 2026})
        with pytest.raises(MCPError) as asked:
            await send(client, "tasks/get", "x")

    assert failed.is_error
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    for caught in (required, asked):
        assert (caught.value.code, caught.value.error.data) == (-32021, needed)
    assert "'report' runs only as a task (background: required)" in str(required.value)


async def test_an_older_client(engine: ToolEngine) -> None:
    """The tasks of 2025-11-25 were an experiment, which is not served; and that is said."""
    server = MCPServer(engine, task_after=SOON)
    async with Client(server._server, mode="legacy", extensions=[TakesTasks()]) as client:
        assert await names_of(client) == ["add", "ask", "break_off"]
        refused = await client.call_tool("report", {"year": 2026})
        with pytest.raises(MCPError) as caught:
            await send(client, "tasks/get", "x")

    assert refused.is_error
    assert (
        "runs only as a task (background: required); call it with a client of 2026-07-28"
        in text_of(refused)
    )
    assert caught.value.code == -32601


async def test_a_server_without_tasks(engine: ToolEngine, gate: Gate) -> None:
    server = MCPServer(engine, task_after=None)
    async with connect(server) as client:
        asyncio.get_running_loop().call_later(4 * SOON, gate.open.set)
        failed = await client.call_tool("break_off", {})
        assert await names_of(client) == ["add", "ask", "break_off"]
        refused = await client.call_tool("report", {"year": 2026})
        with pytest.raises(MCPError) as caught:
            await send(client, "tasks/get", "x")

    assert failed.is_error
    assert "this server makes no tasks" in text_of(refused)
    assert caught.value.code == -32601


async def test_a_task_asks_its_client(engine: ToolEngine, gate: Gate) -> None:
    """Each question has a key of its own; what was not asked, or is no answer, changes nothing."""

    async with connect(
        MCPServer(engine, task_after=SOON), elicitation_callback=never_asked
    ) as client:
        task_id = await start(client, "ask")
        gate.open.set()
        first = await until(client, task_id, lambda found: "inputRequests" in found)
        answer = {"action": "accept", "content": {"name": "Ann"}}
        await send(client, "tasks/update", task_id, input_responses={"other": {"x": 1}})
        with pytest.raises(MCPError, match="the answer 'name' is no ElicitResult"):
            await send(client, "tasks/update", task_id, input_responses={"name": {"x": 1}})
        assert (await send(client, "tasks/get", task_id))["inputRequests"].keys() == {"name"}
        await send(client, "tasks/update", task_id, input_responses={"name": answer})
        second = await until(client, task_id, lambda found: "name-2" in str(found))
        # Once more, for a question that was answered.
        await send(client, "tasks/update", task_id, input_responses={"name": answer})
        answer = {"action": "accept", "content": {"name": "Bob"}}
        await send(client, "tasks/update", task_id, input_responses={"name-2": answer})
        ended = await until_over(client, task_id)

    (question,) = first["inputRequests"].values()
    assert question["params"]["message"] == "Your name?"
    assert second["inputRequests"].keys() == {"name-2"}
    assert ended["result"]["content"][0]["text"] == "Ann and Bob"
    assert await outcomes_of(engine) == ["succeeded"]


async def test_what_is_asked_at_once_is_asked_at_once(engine: ToolEngine, gate: Gate) -> None:
    """Before a call is a task, its client is asked as by every other call."""
    gate.open.set()
    names = iter(["Ann", "Bob"])

    async def answer(*_: Any) -> Any:
        return ElicitResult(action="accept", content={"name": next(names)})

    server = MCPServer(engine, task_after=BOUND)
    async with connect(server, elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {})

    # The tool runs again from its start, where the same question has the same answer.
    assert text_of(result) == "Ann and Ann"


async def test_asked_while_it_becomes_a_task(engine: ToolEngine, gate: Gate) -> None:
    """A call that has asked its client ends, and is repeated: it becomes no task."""

    @engine.tool
    async def ask_and_tidy() -> str:
        """Ask, and leave nothing behind."""
        request = find_request()
        assert request is not None
        try:
            return str(await request.elicit("name", "Your name?", NAME))
        finally:
            await gate.wait()

    async with connect(
        MCPServer(engine, task_after=LATER), elicitation_callback=never_asked
    ) as client:
        asyncio.get_running_loop().call_later(2 * LATER, gate.open.set)
        asked = await client.session.call_tool(
            "ask_and_tidy", {}, allow_input_required=True, allow_claimed=True
        )

    assert isinstance(asked, InputRequiredResult)
    assert await engine.tasks.list() == []


async def test_a_task_finds_what_its_client_sees(engine: ToolEngine) -> None:
    """A search of a call that may become a task shows no other tools than the list."""
    parameters = [{"name": "query", "type": "string", "required": True, "description": "what"}]
    entry = {"type": "builtin", "handler": "search_tools"}
    search = {"name": "find", "description": "Finds", "parameters": parameters, "entry": entry}
    (Path(engine.config.tools_directory) / "find.yaml").write_text(json.dumps(search))
    await engine.reload()
    server = MCPServer(engine, expose=ToolSelection(names=("find", "add")))
    async with connect(server) as client:
        text = text_of(await client.call_tool("find", {"query": "write a report, or add"}))

    assert "add" in text
    assert "report" not in text


@pytest.mark.parametrize("name", ["add", "report"])
async def test_a_database_that_does_not_answer(tmp_path: Path, gate: Gate, name: str) -> None:
    """What may run while its client waits does so; what runs only as a task is refused."""
    arguments = {"add": {"a": 1, "b": 2}, "report": {"year": 2026}}[name]
    async with open_engine(tmp_path, f"sqlite:///{tmp_path / 'kept.db'}", gate) as engine:
        assert await engine.tasks.list() == []
        kept = sqlite3.connect(tmp_path / "kept.db", timeout=BOUND, isolation_level=None)
        with closing(kept) as connection:
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON tool_tasks "
                "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
            )
        async with connect(MCPServer(engine, task_after=SOON)) as client:
            result = await client.call_tool(name, arguments)

    assert (result.is_error, gate.begun) == (name == "report", 0)
    said = text_of(result)
    assert said == "3" or ("cannot be kept or read: " in said and "the disk is full" in said)


@pytest.mark.parametrize("kind", ["lines", "progress"])
async def test_notices_end_where_the_task_begins(engine: ToolEngine, gate: Gate, kind: str) -> None:
    """Until then it is a call as any other; nothing is sent to a request that was answered."""
    heard: list[Any] = []

    @engine.tool
    async def talk(context: ToolExecutionContext, after: str) -> str:
        """Talk.

        Args:
            after: What is said in the end.
        """
        await say(context, f"early, then {after}", 1 + len(after))
        await gate.wait()
        await say(context, after, 2 + len(after))
        return after

    async def say(context: ToolExecutionContext, line: str, done: int) -> None:
        if kind == "lines":
            await context.log(line)
        else:
            await context.report_progress(done)

    async def note(params: Any) -> None:
        heard.append(params.data)

    async def hear_progress(done: float, *_: Any) -> None:
        heard.append(done)

    wishes: dict[str, dict[str, Any]] = {
        "lines": {"meta": {"io.modelcontextprotocol/logLevel": "info"}},
        "progress": {"progress_callback": hear_progress},
    }
    more = wishes[kind]
    async with connect(MCPServer(engine, task_after=LATER), logging_callback=note) as client:
        task_id = await start(client, "talk", {"after": "late"}, **more)
        gate.open.set()
        await until_over(client, task_id)
        await client.session.call_tool("talk", {"after": "the last"}, **more)

    if kind == "lines":
        assert heard == ["early, then late", "early, then the last", "the last"]
    else:
        # Of what comes at once the newest is sent.
        assert [each for each in heard if each != 9] == [5, 10]


async def test_a_client_that_cannot_answer(engine: ToolEngine, gate: Gate) -> None:
    """The protocol's own error is the end of the task: it stays what it was."""
    async with connect(MCPServer(engine, task_after=SOON)) as client:
        task_id = await start(client, "ask")
        gate.open.set()
        ended = await until_over(client, task_id)

    assert ended["status"] == "failed"
    assert ended["error"]["code"] == -32021
    assert ended["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
    assert "result" not in ended


PERMISSION = {"execution": "ask_always", "client_may_answer": True}


async def never_asked(*_: Any) -> Any:
    raise AssertionError("the client is asked in the middle of a request")


def add_paying(engine: ToolEngine, gate: Gate) -> None:
    @engine.tool(permission=PERMISSION)
    async def pay(amount: int) -> str:
        """Pay.

        Args:
            amount: How much.
        """
        return f"paid {amount}"

    @engine.tool
    async def shop(context: ToolExecutionContext) -> str:
        """Choose, then pay."""
        await gate.wait()
        paid = await context.call("pay", {"amount": 3})
        return str(paid.output if paid.is_success else paid.error)


@pytest.mark.parametrize("may", [True, False])
async def test_an_operator_is_waited_for(tmp_path: Path, gate: Gate, may: bool) -> None:
    """The client has nothing to answer, so the task is at work, and says what it waits for."""
    async with open_engine(tmp_path, None, gate) as engine:
        add_paying(engine, gate)
        async with connect(
            MCPServer(engine, task_after=SOON), elicitation_callback=never_asked
        ) as client:
            task_id = await start(client, "pay", {"amount": 3})
            waits = await until(client, task_id, lambda found: "consent" in str(found))
            (request,) = await engine.approvals.pending()
            await engine.approvals.answer(request.token, may, by="bob")
            ended = await until_over(client, task_id)

    said = "waits for a person's consent"
    assert (waits["status"], waits["statusMessage"]) == ("working", said)
    assert ended["result"]["isError"] is not may


@pytest.mark.parametrize("may", [True, False])
async def test_a_client_consents_to_what_its_task_does(
    tmp_path: Path, gate: Gate, may: bool
) -> None:
    async with open_engine(tmp_path, None, gate) as engine:
        add_paying(engine, gate)
        server = MCPServer(engine, task_after=SOON, approvals="client")
        async with connect(server, elicitation_callback=never_asked) as client:
            task_id = await start(client, "shop")
            gate.open.set()
            asks = await until(client, task_id, lambda found: "inputRequests" in found)
            answers = {
                key: {"action": "accept", "content": {"allow": may}}
                for key in asks["inputRequests"]
            }
            await send(client, "tasks/update", task_id, input_responses=answers)
            ended = await until_over(client, task_id)
        kept = {each.tool_name: each.decided_by for each in await engine.query_call_records()}

    assert kept == {"pay": "mcp-client", "shop": None}
    (question,) = asks["inputRequests"].values()
    assert "amount: 3" in question["params"]["message"]
    text = ended["result"]["content"][0]["text"]
    assert ("paid 3" in text) is may


async def test_a_restart(tmp_path: Path, gate: Gate) -> None:
    """On one database: what was queued runs, and what ran has ended as `worker_lost`."""
    records = f"sqlite:///{tmp_path / 'kept.db'}"
    engine = open_engine(tmp_path, records, gate)
    await engine.load()
    async with connect(MCPServer(engine, task_after=SOON)) as client:
        runs = await start(client, "report", {"year": 2025})
        waits = await start(client, "report", {"year": 2026})
        await until(client, runs, lambda found: "half" in found["statusMessage"])
        await die(engine)
    gate.open.set()
    async with open_engine(tmp_path, records, gate) as second:
        second.tasks.feeding.lease = 0.6  # type: ignore[attr-defined]
        async with connect(MCPServer(second)) as client:
            lost, ran = [await until_over(client, each) for each in (runs, waits)]
    await engine.close()

    assert lost["result"]["_meta"]["tool-engine/error_type"] == "worker_lost"
    assert ran["result"]["structuredContent"] == {"year": 2026}


@pytest.mark.parametrize("records", ["none", "sqlite:///kept.db"])
def test_a_program_over_standard_input_and_output(tmp_path: Path, records: str) -> None:
    """It runs the tasks of its client, also where records are kept, and leaves none to others."""
    (tmp_path / "rest.yaml").write_text(
        "name: rest\ndescription: Rests.\neffect: read\nparameters: []\n"
        "entry: {type: builtin, handler: run_command, argv: [sleep, '2.5']}\n"
    )

    async def use() -> tuple[dict[str, Any], dict[str, Any]]:
        words = ["-m", "tool_engine.cli", "--tools", str(tmp_path), "--records", records]
        command = parameters(*words, "mcp", "serve", cwd=tmp_path)
        extensions = [TakesTasks()]
        async with (
            asyncio.timeout(3 * BOUND),
            Client(command, mode="2026-07-28", extensions=extensions) as client,
        ):
            task_id = await start(client, "rest")
            return await send(client, "tasks/get", task_id), await until_over(client, task_id)

    first, last = asyncio.run(use())
    assert first["taskId"] == last["taskId"]
    assert (last["status"], last["result"]["isError"]) == ("completed", False)


async def test_an_engine_that_leaves_tasks_to_others(tmp_path: Path, gate: Gate) -> None:
    """Its client waits for the call, and not for a program that takes it."""
    engine = open_engine(tmp_path, f"sqlite:///{tmp_path / 'kept.db'}", gate, run_tasks=False)
    async with (
        asyncio.timeout(BOUND),
        engine,
        connect(MCPServer(engine, task_after=SOON)) as client,
    ):
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"


def request_of(token: str, method: str, named: str | None, **params: Any) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"extensions": {EXTENSION: {}}}
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Authorization": f"Bearer {token}",
        **({} if named is None else {"Mcp-Name": named}),
    }
    return {"json": body, "headers": headers}


async def post(url: str, token: str, method: str, named: str | None, **params: Any) -> Any:
    request = request_of(token, method, named, **params)
    async with aiohttp.ClientSession() as session, session.post(url, **request) as answer:
        return answer.status, await answer.json()


async def hear(url: str, token: str, **wanted: Any) -> AsyncGenerator[dict[str, Any], None]:
    """Listens, and gives each message that comes."""
    request = request_of(token, "subscriptions/listen", None, notifications=wanted)
    async with aclosing(stream(url, request)) as messages:
        async for message in messages:
            yield message


async def stream(url: str, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    async with (
        asyncio.timeout(BOUND),
        aiohttp.ClientSession() as session,
        session.post(url, **request) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


async def test_over_http(engine: ToolEngine, gate: Gate, tmp_path: Path) -> None:
    """A task is its token's; a header by which proxies find the way names no other."""
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a", bob="secret-b")
    server = MCPServer(engine, task_after=SOON)
    async with serving(engine, server, token_file=file) as url:
        arguments = {"year": 2026}
        _, made = await post(
            url, "secret-a", "tools/call", "report", name="report", arguments=arguments
        )
        task_id = made["result"]["taskId"]
        of_bob = await post(url, "secret-b", "tasks/get", task_id, taskId=task_id)
        unnamed = await post(url, "secret-a", "tasks/get", None, taskId=task_id)
        misnamed = await post(url, "secret-a", "tasks/cancel", "x" * 32, taskId=task_id)
        gate.open.set()
        status, found = await post(url, "secret-a", "tasks/get", task_id, taskId=task_id)

    assert made["result"]["resultType"] == "task"
    assert (of_bob[0], of_bob[1]["error"]["code"]) == (400, -32602)
    # FastMCP's client of `fastmcp-tasks` 4.1.4 sends no such header.
    assert (unnamed[0], unnamed[1]["result"]["taskId"]) == (200, task_id)
    assert (misnamed[0], misnamed[1]["error"]["code"]) == (400, -32020)
    assert (status, found["result"]["taskId"]) == (200, task_id)


async def test_a_client_hears_of_its_tasks(
    engine: ToolEngine, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `tasks/get` would say, at each change and no more often; of another's nothing."""
    monkeypatch.setattr(task_notices, "_LOOK", 0.01)
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a", bob="secret-b")
    server = MCPServer(engine, task_after=SOON)
    async with serving(engine, server, token_file=file) as url:
        made = [
            await post(url, token, "tools/call", "report", name="report", arguments={"year": year})
            for token, year in (("secret-a", 2025), ("secret-b", 2026))
        ]
        own, other = [each["result"]["taskId"] for _, each in made]
        heard = []
        async with aclosing(hear(url, "secret-a", taskIds=[own, other, "x"])) as messages:
            async for message in messages:
                heard.append(message)
                if "half" in str(message):
                    # Many looks later.
                    asyncio.get_running_loop().call_later(0.3, gate.open.set)
                if message["params"].get("status") == "completed":
                    break
        _, found = await post(url, "secret-a", "tasks/get", own, taskId=own)

    first, *told = heard
    assert first["params"]["notifications"]["taskIds"] == [own]
    assert {each["method"] for each in told} == {"notifications/tasks"}
    assert {each["params"]["taskId"] for each in told} == {own}
    last = told[-1]["params"]
    assert last.pop("_meta")["io.modelcontextprotocol/subscriptionId"] == 1
    for left_out in ("_meta", "resultType"):
        del found["result"][left_out]
    assert last == found["result"]
    assert len(told) < 5


async def test_a_fast_call_ends_after_its_lines(
    engine: ToolEngine, gate: Gate, tmp_path: Path
) -> None:
    """Each line of the tool comes before the result, and none is lost."""

    @engine.tool
    async def chat(context: ToolExecutionContext) -> str:
        """Chat."""
        for number in range(20):
            await context.log(f"line {number}")
        return "done"

    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a")
    async with serving(engine, MCPServer(engine, task_after=BOUND), token_file=file) as url:
        request = request_of("secret-a", "tools/call", "chat", name="chat", arguments={})
        request["json"]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info"
        async with aclosing(stream(url, request)) as messages:
            *lines, result = [message async for message in messages]

    assert [each["params"]["data"] for each in lines] == [f"line {n}" for n in range(20)]
    assert result["result"]["content"][0]["text"] == "done"


async def test_who_may_hear_of_tasks(engine: ToolEngine, gate: Gate, tmp_path: Path) -> None:
    """Not who takes none, and not of what is no id."""
    file = write_tokens(tmp_path / "tokens.yaml", ann="secret-a")
    async with serving(engine, token_file=file) as url:
        refused = []
        for ids, takes in ((["x"], False), ("x", True), ([1], True), (["x"] * 101, True)):
            wanted = {"notifications": {"taskIds": ids}}
            request = request_of("secret-a", "subscriptions/listen", None, **wanted)
            if not takes:
                request["json"]["params"]["_meta"] = META
            async with aiohttp.ClientSession() as session, session.post(url, **request) as answer:
                refused.append((answer.status, (await answer.json())["error"]["code"]))

    assert refused == [(400, -32021), (400, -32602), (400, -32602), (400, -32602)]
