"""One agent's calls: its history, its batches, its summaries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.calls.audit import EMPTY_FOLDER, check_idle
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, EngineClosedError, ToolExecutionError
from tool_engine.model.call import ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.tool import Tool
from tool_engine.protocols.call_runner import CallRunner
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.session.session import ToolSession
from tool_engine.subagent import ToolSubAgent, parts_of

BOUND = 20.0
PARAMETERS: list[dict[str, Any]] = [
    {"name": "word", "type": "string", "secret": True, "description": "A secret word"},
    *(
        {"name": name, "type": kind, "description": "Anything"}
        for name, kind in (
            ("message", "string"),
            ("note", "string"),
            ("password", "string"),
            ("n", "integer"),
            ("items", "array"),
        )
    ),
]


class Engine:
    """A real engine with the tools `echo`, `fail` and `hang`, that notes what it is asked.

    For three more names it breaks in ways that are not its own.
    """

    def __init__(self) -> None:
        config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False)
        self.engine = ToolEngine(config)
        self.contexts: list[ToolExecutionContext] = []
        self.running = 0
        self.most_running = 0
        self.hanging = asyncio.Event()
        self.go = asyncio.Event()
        for name, handler in (("echo", self.echo), ("fail", self.fail), ("hang", self.hang)):
            self.engine.register_tool(
                {
                    "name": name,
                    "version": "1.0.0",
                    "description": "A sample",
                    "category": "custom",
                    "parameters": PARAMETERS,
                    "entry": {"type": "custom", "handler": name},
                },
                handler,
            )

    async def echo(self, **params: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"result": params}

    async def fail(self, **params: Any) -> None:
        await asyncio.sleep(0)
        raise ToolExecutionError(f"refused {params.get('word', '')}")

    async def hang(self, **params: Any) -> dict[str, Any]:
        self.hanging.set()
        await self.go.wait()
        return params

    def get(self, tool_name: str, /) -> Tool | None:
        return self.engine.get(tool_name)

    def get_or_raise(self, tool_name: str, /) -> Tool:
        return self.engine.get_or_raise(tool_name)

    def list_all(self) -> list[Tool]:
        return self.engine.list_all()

    async def execute(
        self, tool_name: str, params: dict[str, Any], context: ToolExecutionContext, /
    ) -> ToolExecutionResult:
        self.contexts.append(context)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if tool_name == "break":
                raise OSError("the engine broke")
            if tool_name == "closed":
                raise EngineClosedError("the engine was closed")
            if tool_name == "stray":
                raise asyncio.CancelledError
            return await self.engine.execute(tool_name, params, context)
        finally:
            self.running -= 1


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    async with made.engine:
        yield made
        assert made.running == 0
        check_idle(made.engine)


@pytest.fixture
async def agent(engine: Engine) -> ToolSubAgent:
    return ToolSubAgent("agent_1", engine, "planner", conversation_id="conv_1")


async def test_call_carries_who_calls(engine: Engine, agent: ToolSubAgent) -> None:
    """K16, K17: the context names the sub-agent, its type and its conversation."""
    result = await agent.execute("echo", {"message": "hello"})
    assert result.output == {"result": {"message": "hello"}}
    (context,) = engine.contexts
    assert context.caller_id == "agent_1"
    assert context.caller_type == "tool_sub_agent"
    assert context.conversation_id == "conv_1"


async def test_timeout_left_out_lets_the_tool_decide(engine: Engine, agent: ToolSubAgent) -> None:
    """K17, X12: a timeout of 30.0 that nobody asked for is told apart from one that was."""
    await agent.execute("echo")
    await agent.execute("echo", timeout=30.0)
    assert engine.contexts[0].timeout is DEFAULT_TIMEOUT
    assert engine.contexts[1].timeout == 30.0
    assert engine.contexts[1].timeout is not DEFAULT_TIMEOUT


async def test_impossible_timeout_is_refused(agent: ToolSubAgent) -> None:
    """A timeout that cannot be is the caller's mistake, and no call is made."""
    with pytest.raises(ConfigurationError, match="timeout must be a positive"):
        await agent.execute("echo", timeout=-1)
    assert agent.history == []


async def test_calls_share_nothing(engine: Engine, agent: ToolSubAgent) -> None:
    """K21: each call has variables and arguments of its own."""
    params = {"message": "hello"}
    result = await agent.execute("echo", params)
    await agent.execute("echo", params)
    assert engine.contexts[0].variables is not engine.contexts[1].variables
    assert result.output["result"] is not params


async def test_sub_agents_do_not_see_each_other(engine: Engine, agent: ToolSubAgent) -> None:
    """K21: two sub-agents on one engine have histories of their own."""
    other = ToolSubAgent("agent_2", engine)
    await agent.execute("echo")
    assert other.history == []
    assert other.get_brief_summary()["total_calls"] == 0


async def test_batch_keeps_its_order(engine: Engine, agent: ToolSubAgent) -> None:
    """K18, U21: a batch runs one call after the other, and its results are in order."""
    results = await agent.execute_batch([("echo", {"n": 1}), ("fail", {}), ("echo", {"n": 2})])
    assert [result.tool_name for result in results] == ["echo", "fail", "echo"]
    assert [result.is_success for result in results] == [True, False, True]
    assert engine.most_running == 1
    assert agent.history == results


@pytest.mark.parametrize(("max_parallel", "most"), [(None, 6), (2, 2), (1, 1), (99, 6)])
async def test_parallel_batch(
    engine: Engine, agent: ToolSubAgent, max_parallel: int | None, most: int
) -> None:
    """U21: a parallel batch runs at most `max_parallel` at once; its results are in order."""
    calls = [("echo", {"n": number}) for number in range(6)]
    results = await agent.execute_batch(calls, parallel=True, max_parallel=max_parallel)
    assert [result.output["result"]["n"] for result in results] == list(range(6))
    assert engine.most_running == most


async def test_slow_call_holds_up_no_other(engine: Engine, agent: ToolSubAgent) -> None:
    """In a parallel batch the next call starts when any one ends, and order stays."""
    calls: list[Any] = [("hang", {}), *(("echo", {}) for _ in range(5))]
    running = agent.execute_batch(calls, parallel=True, max_parallel=2)
    batch = asyncio.create_task(running)
    await asyncio.wait_for(engine.hanging.wait(), BOUND)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(agent.history) == 5
    engine.go.set()
    results = await asyncio.wait_for(batch, BOUND)
    assert [result.tool_name for result in results] == ["hang", *["echo"] * 5]


@pytest.mark.parametrize("parallel", [False, True])
async def test_forms_of_a_batch_item(agent: ToolSubAgent, parallel: bool) -> None:
    """An item may be a pair, a mapping or a `ToolCall`; None as arguments means none."""
    calls: list[Any] = [
        ("echo", {"n": 1}),
        ["echo", {"n": 1}],
        {"tool_name": "echo", "params": {"n": 1}},
        {"name": "echo", "arguments": {"n": 1}},
        ToolCall(call_id="c", tool_name="echo", arguments={"n": 1}),
        ("echo", None),
    ]
    results = await agent.execute_batch(iter(calls), parallel)
    assert [result.output["result"] for result in results] == [{"n": 1}] * 5 + [{}]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    "malformed",
    [
        "echo",
        ("echo",),
        ("echo", {}, 1),
        (3, {}),
        ("echo", "text"),
        {"tool_name": "echo"},
        {"tool_name": "echo", "params": {}, "timeout": 3},
        None,
    ],
    ids=repr,
)
async def test_malformed_item_becomes_a_failure(
    agent: ToolSubAgent, malformed: Any, parallel: bool
) -> None:
    """An item that cannot be read fails with a cure, in its place; the others run."""
    results = await agent.execute_batch([("echo", {}), malformed, ("echo", {})], parallel)
    assert [result.is_success for result in results] == [True, False, True]
    assert results[1].error_type == "validation_error"
    assert "item 1 of the batch must be (tool_name, params)" in str(results[1].error)
    assert agent.get_execution_summary()["total_calls"] == 3


async def test_malformed_item_is_counted_under_its_tool(agent: ToolSubAgent) -> None:
    """What can be read of a malformed item is: its tool, where it names one."""
    results = await agent.execute_batch([("echo", "text"), 3])  # type: ignore[list-item]
    assert [result.tool_name for result in results] == ["echo", ""]


@pytest.mark.parametrize("parallel", [False, True])
async def test_one_failure_loses_no_other(agent: ToolSubAgent, parallel: bool) -> None:
    """An engine that raises, or a tool that was cancelled, costs its own result only."""
    results = await agent.execute_batch(
        [("break", {}), ("stray", {}), ("echo", {}), ("fail", {}), ("closed", {})], parallel
    )
    assert [result.error_type for result in results] == [
        "execution_error",
        "cancelled",
        None,
        "execution_error",
        "engine_closed",
    ]
    assert results[0].error == "the engine broke"
    assert sorted(str(result.tool_name) for result in agent.history) == [
        "break",
        "closed",
        "echo",
        "fail",
        "stray",
    ]


@pytest.mark.parametrize("calls", ["echo", {"echo": {}}, 3, b"echo"])
async def test_batch_that_is_no_list_is_refused(agent: ToolSubAgent, calls: Any) -> None:
    """What is no list of calls is the caller's mistake."""
    with pytest.raises(ConfigurationError, match="calls must be a list"):
        await agent.execute_batch(calls)


@pytest.mark.parametrize("max_parallel", [0, -1, True, 1.5])
async def test_impossible_max_parallel_is_refused(agent: ToolSubAgent, max_parallel: Any) -> None:
    """`max_parallel` is a whole number of 1 or more."""
    with pytest.raises(ConfigurationError, match="max_parallel must be a whole number >= 1"):
        await agent.execute_batch([("echo", {})], parallel=True, max_parallel=max_parallel)


@pytest.mark.parametrize("parallel", [False, True])
async def test_empty_batch(agent: ToolSubAgent, parallel: bool) -> None:
    """A batch of no calls has no results."""
    assert await agent.execute_batch([], parallel) == []


@pytest.mark.parametrize(
    ("parallel", "cancelled", "finished"), [(False, 1, 1), (True, 2, 2)], ids=["serial", "parallel"]
)
async def test_cancelled_batch(
    engine: Engine, agent: ToolSubAgent, parallel: bool, cancelled: int, finished: int
) -> None:
    """Cancelling a batch cancels what runs, starts no more, and keeps what was finished."""
    calls: list[Any] = [("echo", {}), ("hang", {}), ("echo", {}), ("hang", {})]
    batch = asyncio.create_task(agent.execute_batch(calls, parallel))
    await asyncio.wait_for(engine.hanging.wait(), BOUND)
    for _ in range(20):
        await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert engine.running == 0
    types = [result.error_type for result in agent.history]
    assert types.count("cancelled") == cancelled
    assert types.count(None) == finished
    assert agent.get_execution_summary()["total_calls"] == cancelled + finished


async def test_cancelled_call_is_in_the_history(engine: Engine, agent: ToolSubAgent) -> None:
    """A call that its caller cancels raises, and the history says how it ended."""
    call = asyncio.create_task(agent.execute("hang"))
    await asyncio.wait_for(engine.hanging.wait(), BOUND)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [result.error_type for result in agent.history] == ["cancelled"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_callback_comes_after_the_history(engine: Engine, is_async: bool) -> None:
    """K22: when the callback is called, the history has the result; `execute` returns after it."""
    agent: ToolSubAgent
    seen: list[tuple[ToolExecutionResult, int]] = []

    def plain(result: ToolExecutionResult) -> None:
        seen.append((result, len(agent.history)))

    async def waiting(result: ToolExecutionResult) -> None:
        await asyncio.sleep(0)
        plain(result)

    agent = ToolSubAgent("agent_1", engine, on_result_callback=waiting if is_async else plain)
    result = await agent.execute("echo")
    (failed,) = await agent.execute_batch(["malformed"])  # type: ignore[list-item]
    assert seen == [(result, 1), (failed, 2)]


def raising(error: BaseException) -> Callable[[ToolExecutionResult], None]:
    def callback(result: ToolExecutionResult) -> None:
        raise error

    return callback


@pytest.mark.parametrize(
    "error", [ValueError("sk-" + "a" * 20), asyncio.CancelledError()], ids=["error", "cancelled"]
)
async def test_failing_callback_changes_nothing(engine: Engine, error: BaseException) -> None:
    """K22: what a callback raises is logged, secrets hidden, and changes no result."""
    agent = ToolSubAgent("agent_1", engine, on_result_callback=raising(error))
    with capture_logs() as logs:
        result = await agent.execute("echo")
    assert result.is_success
    assert agent.history == [result]
    (line,) = logs
    assert line["event"] == "result_callback_failed"
    assert line["agent_id"] == "agent_1"
    assert type(error).__name__ in line["error"]
    assert "sk-a" not in line["error"]


async def test_cancelled_while_the_callback_runs(engine: Engine) -> None:
    """A caller that is cancelled during its callback is cancelled; the call counts as finished."""
    entered = asyncio.Event()

    async def callback(result: ToolExecutionResult) -> None:
        entered.set()
        await asyncio.Event().wait()

    agent = ToolSubAgent("agent_1", engine, on_result_callback=callback)
    call = asyncio.create_task(agent.execute("echo"))
    await asyncio.wait_for(entered.wait(), BOUND)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [result.is_success for result in agent.history] == [True]


async def test_execution_summary(agent: ToolSubAgent) -> None:
    """K19, U21: the summary's keys, its rate in percent and its times to four decimals."""
    results = [
        await agent.execute("echo", {"message": "a"}),
        await agent.execute("echo", {"message": "b"}),
        failed := await agent.execute("fail", {"password": "p"}),
    ]
    seconds = sum(result.execution_time for result in results)
    summary = agent.get_execution_summary()
    details = summary.pop("call_details")
    errors = summary.pop("errors")
    assert summary == {
        "agent_id": "agent_1",
        "parent_agent_id": "planner",
        "total_calls": 3,
        "successful_calls": 2,
        "failed_calls": 1,
        "success_rate": 66.67,
        "total_execution_time": round(seconds, 4),
        "avg_execution_time": round(seconds / 3, 4),
        "tool_usage": {"echo": 2, "fail": 1},
    }
    assert [each["params"] for each in details[:2]] == [{"message": "a"}, {"message": "b"}]
    assert details[2] == {
        "tool_name": "fail",
        "is_success": False,
        "error": "refused ",
        "error_type": "execution_error",
        "execution_time": failed.execution_time,
        "executed_at": failed.executed_at.isoformat(),
        "call_id": failed.call_id,
        "params": {"password": "[hidden]"},
    }
    assert errors == [
        {
            "tool_name": "fail",
            "error": "refused ",
            "error_type": "execution_error",
            "executed_at": failed.executed_at.isoformat(),
            "call_id": failed.call_id,
        }
    ]


async def test_summary_of_no_calls(agent: ToolSubAgent) -> None:
    """U21: rate and times are 0.0 when nothing was called."""
    assert agent.get_execution_summary() == {
        "agent_id": "agent_1",
        "parent_agent_id": "planner",
        "total_calls": 0,
        "successful_calls": 0,
        "failed_calls": 0,
        "success_rate": 0.0,
        "total_execution_time": 0.0,
        "avg_execution_time": 0.0,
        "tool_usage": {},
        "errors": [],
        "call_details": [],
    }


async def test_brief_summary(agent: ToolSubAgent) -> None:
    """K20: the short form for a front end."""
    await agent.execute("echo")
    brief = {"agent_id": "agent_1", "total_calls": 1, "success_rate": 100.0}
    assert agent.get_brief_summary() == {**brief, "tool_usage": {"echo": 1}, "has_errors": False}
    await agent.execute("fail")
    assert agent.get_brief_summary()["has_errors"] is True


async def test_summary_shows_no_declared_secret(agent: ToolSubAgent) -> None:
    """No secret in a summary: what the definition declares secret is hidden."""
    await agent.execute("echo", {"word": "hunter2", "note": "hunter2!"})
    (details,) = agent.get_execution_summary()["call_details"]
    assert details["params"] == {"word": "[hidden]", "note": "[hidden]!"}


async def test_summary_does_not_follow_later_changes(agent: ToolSubAgent) -> None:
    """The arguments of a summary are those that the call was made with."""
    params: dict[str, Any] = {"items": [1]}
    await agent.execute("echo", params)
    params["items"].append(2)
    assert agent.get_execution_summary()["call_details"][0]["params"] == {"items": [1]}


async def test_summary_hides_secrets_of_a_call_that_broke_the_engine(
    engine: Engine, agent: ToolSubAgent
) -> None:
    """A call that ended with an exception of the engine shows no declared secret either."""
    made = {"name": "break", "parameters": PARAMETERS, "version": "1.0.0", "description": "x"}
    engine.engine.register_tool({**made, "category": "custom", "entry": {"type": "custom"}})
    await agent.execute_batch([("break", {"word": "hunter2"})])
    (details,) = agent.get_execution_summary()["call_details"]
    assert details["params"] == {"word": "[hidden]"}


async def test_history_is_a_copy(agent: ToolSubAgent) -> None:
    """K21: whoever changes the list of results changes no history."""
    await agent.execute("echo")
    agent.history.clear()
    assert len(agent.history) == 1


async def test_clear_history(agent: ToolSubAgent) -> None:
    """U21: after `clear_history` a sub-agent is as new."""
    new = agent.get_execution_summary()
    await agent.execute_batch([("echo", {}), ("fail", {})])
    agent.clear_history()
    assert agent.history == []
    assert agent.get_execution_summary() == new
    await agent.execute("echo")
    assert agent.get_execution_summary()["total_calls"] == 1


async def test_history_is_bounded_and_totals_are_not(engine: Engine) -> None:
    """The details of the newest calls are kept; the totals count all."""
    agent = ToolSubAgent("agent_1", engine, max_history=2)
    await agent.execute_batch([("fail", {}), ("echo", {"n": 1}), ("echo", {"n": 2})])
    summary = agent.get_execution_summary()
    assert [each["params"] for each in summary["call_details"]] == [{"n": 1}, {"n": 2}]
    assert (summary["total_calls"], summary["failed_calls"]) == (3, 1)
    assert summary["errors"] == []
    assert agent.get_brief_summary()["has_errors"] is True


@pytest.mark.parametrize("agent_id", ["", None, 3])
def test_agent_needs_an_id(agent_id: Any) -> None:
    """A sub-agent without an id could not be told apart in records."""
    with pytest.raises(ConfigurationError, match="agent_id must be a non-empty string"):
        ToolSubAgent(agent_id, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("max_history", [0, -1, True, None])
async def test_history_bound_must_be_a_count(engine: Engine, max_history: Any) -> None:
    """`max_history` is a whole number of 1 or more."""
    with pytest.raises(ConfigurationError, match="max_history must be a whole number >= 1"):
        ToolSubAgent("agent_1", engine, max_history=max_history)


async def test_arguments_that_are_no_mapping_reach_the_engine(engine: Engine) -> None:
    """Arguments that are no mapping are the engine's to refuse: its finding says what is wrong."""
    agent = ToolSubAgent("agent_1", engine)
    result = await agent.execute("echo", "text")  # type: ignore[arg-type]
    assert result.error_type == "validation_error"
    assert result.validation_errors


async def test_repr(agent: ToolSubAgent) -> None:
    """`repr` shows the live state."""
    await agent.execute_batch([("echo", {}), ("fail", {})])
    assert repr(agent) == "<ToolSubAgent 'agent_1', 2 calls, 1 successful>"


# Which tools its model is told of.


@pytest.fixture
def searchable(engine: Engine) -> Engine:
    """The engine with the tool `find`, which is a search."""
    find = {
        "name": "find",
        "version": "1.0.0",
        "description": "Finds tools",
        "category": "custom",
        "parameters": [{"name": "query", "type": "string", "description": "What to look for"}],
        "entry": {"type": "builtin", "handler": "search_tools"},
    }
    engine.engine.register_tool(find)
    return engine


async def test_every_tool_is_enabled_from_the_start(engine: Engine) -> None:
    """Without a choice, its model is told of all that the engine tells of."""
    agent = ToolSubAgent("agent_1", engine)
    assert agent.enabled_tools == ["echo", "fail", "hang"]
    for format_name in ("openai", "anthropic", "gemini", "mcp"):
        assert agent.tool_definitions(format_name) == engine.engine.tool_definitions(format_name)


async def test_found_tools_are_enabled_for_one_agent(searchable: Engine) -> None:
    """What its own search finds is enabled for it, and for no other agent of the engine."""
    agent = ToolSubAgent("agent_1", searchable, tools=["find"])
    other = ToolSubAgent("agent_2", searchable, tools=["find"])
    assert agent.enabled_tools == ["find"]
    (result,) = await agent.execute_batch([("find", {"query": "echo"})])
    assert [each["name"] for each in result.output["tools"]] == ["echo"]
    assert agent.enabled_tools == ["find", "echo"]
    assert agent.tool_definitions("openai") == searchable.engine.tool_definitions(
        "openai", ["find", "echo"]
    )
    assert other.enabled_tools == ["find"]
    agent.clear_history()
    assert agent.enabled_tools == ["find", "echo"]


async def test_the_most_found_tools(searchable: Engine) -> None:
    """No more than `max_found_tools` are added; those that are called stay longest."""
    agent = ToolSubAgent("agent_1", searchable, tools=["find"], max_found_tools=2)
    await agent.execute("find", {"query": "sample"})
    assert agent.enabled_tools == ["find", "echo", "fail"]
    await agent.execute("fail", {"word": "x"})
    await agent.execute("find", {"query": "hang"})
    assert agent.enabled_tools == ["find", "fail", "hang"]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_max_found_tools_is_a_count(limit: Any) -> None:
    """The limit is a whole number of at least 1."""
    with pytest.raises(ConfigurationError, match="max_found_tools must be a whole number >= 1"):
        ToolSubAgent("agent_1", ToolEngine(), max_found_tools=limit)


@pytest.mark.parametrize("tool", ["echo", "hang"])
async def test_callback_that_never_ends(engine: Engine, tool: str) -> None:
    """C7: a callback that hangs keeps the result back for a second at most, and this is logged.

    Looked at: what else is awaited for each result, with the same bound: `on_result` of a cycle.
    """
    seen: list[str | None] = []

    async def callback(result: ToolExecutionResult) -> None:
        seen.append(result.error_type)
        await asyncio.Event().wait()

    agent = ToolSubAgent("agent_1", engine, on_result_callback=callback)
    with capture_logs() as logs:
        async with asyncio.timeout(BOUND):
            result = await agent.execute(tool, {}, timeout=0.1)
    assert seen == [result.error_type] == [None if tool == "echo" else "timeout"]
    (line,) = [each for each in logs if each["log_level"] == "warning"]
    assert line["event"] == "result_callback_failed"
    assert "the callback had not ended after 1 s, and was cancelled" in line["error"]


LIMITS: list[dict[str, Any]] = [
    {},
    {"strategy": "reject"},
    {"strategy": "reject", "bucket_limits": {"custom": 2}},
    {"strategy": "fair", "key_limits": {"limit": 2, "queue_size": 1}},
    {"queue_size": 0},
    {"bucket_limits": {"custom": 1}, "bucket_queue_sizes": {"custom": 0}},
]


@pytest.mark.parametrize("is_inside", [False, True], ids=["outside", "inside of a tool"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
async def test_a_batch_refuses_none_of_its_own_calls(
    limits: dict[str, Any], is_inside: bool
) -> None:
    """U21: without `max_parallel` as many run at once as may, and 300 calls have 300 results.

    Looked at: the calls of a reply, of a loop and of `tool-engine batch`, which go the same way;
    the steps of a workflow, which never wait in the queue.
    """
    engine = ToolEngine(
        ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False),
        concurrency=ConcurrencyConfig(**limits),
    )

    @engine.tool(effect="read", category="custom")
    async def leaf() -> None:
        """Waits a moment."""
        await asyncio.sleep(0)

    @engine.tool(category="custom")
    async def batch() -> list[str | None]:
        """Makes a batch, and a reply of a model."""
        agent = ToolSubAgent("agent_1", engine, conversation_id="chat")
        results = await agent.execute_batch([("leaf", {})] * 300, parallel=True)
        calls = [ToolCall(call_id=f"id_{n}", tool_name="leaf", arguments={}) for n in range(50)]
        options = CycleOptions(max_parallel=None, max_calls=50)
        results += await CallRunner(ToolSession(engine, "chat"), options).run(calls)
        return [result.error_type for result in results]

    async with asyncio.timeout(BOUND), engine:
        made = (await engine.execute("batch")).output["result"] if is_inside else await batch()
        assert made == [None] * 350
        check_idle(engine)


@pytest.mark.parametrize(
    "call",
    [
        ("echo", {"n": 1}),
        ["echo", {"n": 1}],
        {"tool_name": "echo", "params": {"n": 1}},
        {"tool_name": "echo", "arguments": {"n": 1}},
        {"name": "echo", "params": {"n": 1}},
        {"arguments": {"n": 1}, "name": "echo"},
        ToolCall(call_id="c", tool_name="echo", arguments={"n": 1}),
    ],
    ids=repr,
)
def test_forms(call: Any) -> None:
    """Each documented form has the name and the arguments."""
    assert parts_of(call) == ("echo", {"n": 1})


@pytest.mark.parametrize("call", [None, 3, "ab", ("echo",), {"tool_name": "echo"}, b"ab"], ids=repr)
def test_other_forms(call: Any) -> None:
    """What is no call has no name."""
    assert parts_of(call) == (None, {})


def test_no_arguments() -> None:
    """None as arguments means none."""
    assert parts_of(("echo", None)) == ("echo", {})
