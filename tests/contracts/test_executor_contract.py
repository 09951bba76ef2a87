"""Every executor keeps to the contract of `ToolExecutor`; a new one adds a line to `KINDS`."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from tests.executors.python.apart import Apart
from tool_engine.executors.calculator import CalculatorExecutor
from tool_engine.executors.commands.command_executor import CommandExecutor
from tool_engine.executors.echo import EchoExecutor
from tool_engine.executors.executor_registry import BUILTIN_EXECUTORS
from tool_engine.executors.files.file_reading import FileReadExecutor
from tool_engine.executors.files.listing import FolderReadExecutor
from tool_engine.executors.files.searching import FileSearchExecutor
from tool_engine.executors.files.writing import FileWriteExecutor
from tool_engine.executors.handler import AsyncHandlerExecutor, SyncHandlerExecutor
from tool_engine.executors.http.http_executor import HTTPExecutor
from tool_engine.executors.result_reading import ResultReadExecutor
from tool_engine.executors.sql.sql_executor import SQLExecutor
from tool_engine.executors.tool_search import ToolSearchExecutor
from tool_engine.executors.workflow.workflow_executor import WorkflowExecutor
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.match import ToolMatch
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.settings.databases import checked_sources
from tool_engine.model.tool import Tool, ToolCategory

LIMIT = 10.0


class Case(NamedTuple):
    executor: Any
    tool: Tool
    params: dict[str, Any]
    context: ToolExecutionContext | None = None


def tool(name: str, entry: dict[str, Any], *parameters: str) -> Tool:
    return Tool(
        id=name,
        name=name,
        version="1.0.0",
        description="A sample",
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=[ToolParameter(p, "string", required=True) for p in parameters],
        implementation_config=entry,
    )


async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def add_plainly(a: int, b: int) -> int:
    return a + b


def echo(_port: int) -> Case:
    return Case(EchoExecutor(), tool("echo", {}), {"message": "é", "deep": {"a": [1, None]}})


def calculator(_port: int) -> Case:
    return Case(CalculatorExecutor(), tool("calculator", {}), {"expression": "2**100 + 1"})


def http_request(port: int) -> Case:
    entry = {"handler": "http_request", "allow": [f"127.0.0.1:{port}"]}
    params = {"url": f"http://127.0.0.1:{port}/x", "method": "POST", "body": {"a": [1, "é"]}}
    return Case(HTTPExecutor(), tool("http_request", entry, "url"), params)


def declared_request(port: int) -> Case:
    entry = {
        "request": {"url": f"http://127.0.0.1:{port}/{{x}}"},
        "response": "path",
        "allow": [f"127.0.0.1:{port}"],
    }
    return Case(HTTPExecutor(), tool("declared", entry, "x"), {"x": "a/b"})


def async_handler(_port: int) -> Case:
    return Case(AsyncHandlerExecutor(add), tool("add", {}), {"a": 1, "b": 2})


def sync_handler(_port: int) -> Case:
    return Case(SyncHandlerExecutor(add_plainly), tool("add", {}), {"a": 1, "b": 2})


def isolated_handler(_port: int) -> Case:
    entry = {"handler": "textwrap:dedent", "config": {"isolation": "process"}}
    return Case(Apart(), tool("isolated", entry, "text"), {"text": "  é\n  b"})


def tool_search(_port: int) -> Case:
    matches = [ToolMatch(tool(name, {}, "x"), 1.0) for name in ("a", "é")]
    executor = ToolSearchExecutor(lambda _query, limit: matches[:limit])
    return Case(executor, tool("search_tools", {}, "query"), {"query": "x", "limit": 2})


def result_reading(_port: int) -> Case:
    record = ToolCallRecord(
        record_id="r1",
        tool_name="search",
        params={},
        result={"items": ["a", "é", None]},
        execution_time=0.1,
        is_success=True,
        error=None,
        caller_id="someone",
        caller_type="unknown",
        conversation_id=None,
        workflow_id=None,
        created_at=datetime.now(UTC),
        call_id="call-1",
    )

    async def find_call(_call_id: str) -> ToolCallRecord:
        return record

    context = ToolExecutionContext(caller_id="someone")
    params = {"call_id": "call-1", "path": "items", "offset": 1}
    return Case(ResultReadExecutor(find_call), tool("read_result", {}, "call_id"), params, context)


def command(_port: int) -> Case:
    entry = {"argv": ["echo", "a", "{x}"]}
    return Case(CommandExecutor(), tool("command", entry, "x"), {"x": "é b"})


def file_tool(executor: Any, name: str, **params: Any) -> Case:
    entry = {"handler": name, "root": "${env:CONTRACT_ROOT}"}
    return Case(executor, tool(name, entry, *params), params)


def file_read(_port: int) -> Case:
    return file_tool(FileReadExecutor(), "read_file", path="a.txt")


def file_write(_port: int) -> Case:
    return file_tool(FileWriteExecutor(), "write_file", path="a.txt", content="é")


def folder_read(_port: int) -> Case:
    return file_tool(FolderReadExecutor(), "read_folder", path=".")


def file_search(_port: int) -> Case:
    return file_tool(FileSearchExecutor(), "search_files", pattern=".")


async def nest(
    _outer: Any, name: str, params: dict[str, Any], _timeout: float | None
) -> ToolExecutionResult:
    await asyncio.sleep(0)
    return ToolExecutionResult(True, name, {"got": params})


def workflow(_port: int) -> Case:
    steps = [
        {"id": "a", "tool": "t", "params": {"x": "${item}"}, "for_each": ["é", "${params.x}"]},
        {"id": "b", "parallel": [{"id": "c", "tool": "t"}, {"id": "d", "tool": "t"}]},
    ]
    entry = {"steps": steps, "output": {"a": "${steps.a.output}", "b": "${steps.b.output}"}}
    context = ToolExecutionContext().bound_to(None, nest)
    return Case(WorkflowExecutor(), tool("workflow", entry, "x"), {"x": "${params.x}"}, context)


def sql_query(_port: int) -> Case:
    path = Path(os.environ["CONTRACT_ROOT"], "shop.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS items AS SELECT 1 AS id, 'é' AS name")
        connection.commit()
    sources = checked_sources({"shop": "sqlite:///${env:CONTRACT_ROOT}/shop.db"})
    entry = {"sql": "SELECT * FROM items WHERE name = :name", "source": "shop"}
    return Case(SQLExecutor(sources), tool("sql_query", entry, "name"), {"name": "é"})


KINDS: tuple[Callable[[int], Case], ...] = (
    echo,
    calculator,
    http_request,
    declared_request,
    async_handler,
    sync_handler,
    isolated_handler,
    tool_search,
    result_reading,
    command,
    file_read,
    file_write,
    folder_read,
    file_search,
    workflow,
    sql_query,
)
ELSEWHERE = {"edit_file", "run_shell_command", "mcp_tool"}
"""What was edited once cannot be edited again in the same way, a sandbox for scripts is not on
every system, and a server is no part of a definition: `executors/files/test_editing.py`,
`executors/commands/test_shell.py` and `executors/mcp` try them."""
PLAIN = (sync_handler, file_read, file_write, folder_read, file_search)
"""Those whose `execute` has no await."""


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("é", encoding="utf-8")
    monkeypatch.setenv("CONTRACT_ROOT", str(tmp_path))


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture(params=KINDS, ids=[kind.__name__ for kind in KINDS])
async def case(request: pytest.FixtureRequest, port: int) -> AsyncIterator[Case]:
    found: Case = request.param(port)
    yield found
    await close(found.executor)


async def run(case: Case, params: dict[str, Any]) -> Any:
    """Runs the executor as a backend does: a plain `execute` in a thread."""
    context = case.context or ToolExecutionContext()
    async with asyncio.timeout(LIMIT):
        if is_async(case):
            return await case.executor.execute(case.tool, params, context)
        return await asyncio.to_thread(case.executor.execute, case.tool, params, context)


def is_async(case: Case) -> bool:
    """Whether `execute` gives something to await, as a backend tells."""
    execute = case.executor.execute
    return inspect.iscoroutinefunction(execute) or getattr(case.executor, "is_async", False)


async def close(executor: Any) -> None:
    if hasattr(executor, "close"):
        await executor.close()


def test_every_handler_of_the_table_is_tried(port: int) -> None:
    """Who adds an executor learns here that it has no case yet."""
    tried = {type(kind(port).executor).__name__ for kind in KINDS}
    untried = {name for name, at in BUILTIN_EXECUTORS.items() if at.split(":")[1] not in tried}
    assert untried == ELSEWHERE


def test_is_an_executor(port: int) -> None:
    """The registry and the type checker take it for one."""
    for kind in KINDS:
        executor: ToolExecutor = kind(port).executor
        assert isinstance(executor, ToolExecutor)


async def test_output_is_json(case: Case) -> None:
    """What is returned can cross to another process and into a record, unchanged."""
    output = await run(case, case.params)
    assert json.loads(json.dumps(output, allow_nan=False)) == output


async def test_params_may_cross_as_json(case: Case) -> None:
    """Parameters that went through JSON give the same output."""
    crossed = json.loads(json.dumps(case.params))
    first, second = await run(case, case.params), await run(case, crossed)
    for output in (first, second):
        if isinstance(output, dict):
            output.pop("headers", None)  # the server's clock
    assert first == second


async def test_the_tool_is_left_as_it_was(case: Case) -> None:
    """A tool is immutable to its executor: the next call finds the same."""
    before = copy.deepcopy((case.tool.implementation_config, case.tool.parameters))
    await run(case, copy.deepcopy(case.params))
    assert (case.tool.implementation_config, case.tool.parameters) == before


async def test_calls_run_at_once(case: Case) -> None:
    """One executor object runs many calls at the same time."""
    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(case, copy.deepcopy(case.params))) for _ in range(20)]
    assert len({json.dumps(_stable(task.result())) for task in tasks}) == 1


def _stable(output: Any) -> Any:
    return (
        {k: v for k, v in output.items() if k != "headers"} if isinstance(output, dict) else output
    )


@pytest.mark.parametrize(
    "case", [kind for kind in KINDS if kind not in PLAIN], indirect=True, ids=lambda it: it.__name__
)
async def test_cancelled_at_every_await(case: Case) -> None:
    """Wherever a call waits it can be cancelled, and the executor works afterwards."""
    assert is_async(case)
    # A cancelled call of an isolated handler costs a process; where it waits is soon reached.
    for turns in range(6 if case.tool.name == "isolated" else 200):
        task = asyncio.create_task(run(case, copy.deepcopy(case.params)))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        # Waiting for a socket or a program takes as many turns of the loop as it takes.
        names = ("http_request", "declared", "command", "isolated", "sql_query")
        assert case.tool.name in names
    await run(case, case.params)


async def test_close_twice(case: Case) -> None:
    """Closing is idempotent, before the first call and after the last."""
    await close(case.executor)
    output = await run(case, copy.deepcopy(case.params))
    await close(case.executor)
    await close(case.executor)
    assert _stable(await run(case, case.params)) == _stable(output)
