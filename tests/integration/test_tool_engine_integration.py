"""The founding document's examples, as written there, on the tools of this project."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tool_engine import (
    ConcurrencyConfig,
    ConcurrencyMetrics,
    ToolCallSummary,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSubAgent,
)

TOOLS = Path(__file__).parents[2] / "tools"
BOUND = 20.0


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def data(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path, "method": request.method})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", data)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
async def engine(tmp_path: Path, port: int) -> AsyncIterator[ToolEngine]:
    """The tools `echo`, `calculator` and `http_request`, the last allowed to reach the service."""
    for name in ("echo", "calculator", "http_request"):
        shutil.copy(TOOLS / f"{name}.yaml", tmp_path)
    path = tmp_path / "http_request.yaml"
    text = path.read_text(encoding="utf-8")
    handler = "  handler: http_request"
    assert handler in text
    allowed = f'  allow: ["127.0.0.1:{port}"]\n{handler}'
    path.write_text(text.replace(handler, allowed), encoding="utf-8")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with asyncio.timeout(BOUND), ToolEngine(config) as made:
        yield made


async def test_section_3_1(engine: ToolEngine, port: int) -> None:
    """K1, K2, K16-K22: a sub-agent executes one tool and a batch, and sums up."""
    tool_engine = engine
    handled: list[ToolExecutionResult] = []
    handle_result = handled.append

    # 1. create
    sub_agent = ToolSubAgent(
        agent_id="tool_sub_agent_001",
        tool_engine=tool_engine,
        parent_agent_id="conversation_agent_001",
        on_result_callback=handle_result,
    )

    # 2. one tool
    result = await sub_agent.execute(
        tool_name="http_request",
        params={"url": f"http://127.0.0.1:{port}/data"},
        timeout=30.0,
    )
    assert result.is_success, result.error
    assert result.output["status_code"] == 200
    assert result.output["body"] == {"path": "/data", "method": "GET"}

    # 3. a batch
    results = await sub_agent.execute_batch(
        [
            ("echo", {"message": "hello"}),
            ("calculator", {"expression": "1+2"}),
        ]
    )
    assert [each.output for each in results] == [{"message": "hello"}, {"result": 3}]

    # 4. summary
    summary = sub_agent.get_execution_summary()
    assert summary["agent_id"] == "tool_sub_agent_001"
    assert summary["total_calls"] == 3
    assert summary["successful_calls"] == 3
    assert summary["success_rate"] == 100.0
    assert summary["tool_usage"] == {"http_request": 1, "echo": 1, "calculator": 1}
    assert len(summary["call_details"]) == 3

    # 5. brief
    brief = sub_agent.get_brief_summary()
    assert brief["total_calls"] == 3
    assert handled == [result, *results]


async def test_section_3_2(engine: ToolEngine) -> None:
    """K1, K23-K28: the flow of the document's chart, from the sub-agent to the callback."""
    order: list[str] = []
    agent = ToolSubAgent("agent", engine, on_result_callback=lambda _: order.append("callback"))
    engine.subscribe(lambda event: order.append(event.event_type.value))
    await agent.execute("echo", {"message": "x"})
    await agent.execute("echo", {})
    await agent.execute("missing", {})
    assert order == [
        *("execution_started", "execution_completed", "callback"),
        *("validation_error", "callback"),
        *("execution_failed", "callback"),
    ]
    records = await engine.query_call_records(limit=1)
    assert records[0].caller_type == "tool_sub_agent"


async def test_section_3_3(engine: ToolEngine) -> None:
    """K30-K32: the context's fields, defaults and factories."""
    context = ToolExecutionContext()
    assert (context.caller_id, context.caller_type) == (None, "unknown")
    assert (context.conversation_id, context.workflow_id) == (None, None)
    assert (context.timeout, context.retry_count, context.max_retries) == (30.0, 0, 3)
    assert context.variables == {}
    conversation = ToolExecutionContext.for_conversation("agent_1", "conv_1", timeout=5.0)
    assert (conversation.caller_id, conversation.caller_type) == ("agent_1", "conversation_agent")
    assert (conversation.conversation_id, conversation.timeout) == ("conv_1", 5.0)
    workflow = ToolExecutionContext.for_workflow("wf_1", "node_1")
    assert (workflow.caller_id, workflow.caller_type) == ("node_1", "workflow_node")
    assert workflow.workflow_id == "wf_1"
    result = await engine.execute("echo", {"message": "x"}, conversation)
    assert result.is_success


def test_section_4_1() -> None:
    """K33: the options of the limits, with the document's defaults."""
    config = ConcurrencyConfig()
    assert config.max_concurrent == 10
    assert config.queue_size == 100
    assert config.default_timeout == 30.0
    assert config.strategy == "fifo"
    assert config.bucket_limits == {}


def test_section_4_3() -> None:
    """K37: limits per kind of tool inside the global one."""
    config = ConcurrencyConfig(
        max_concurrent=10,
        bucket_limits={
            "http": 5,
            "ai": 2,
            "database": 3,
        },
    )

    controller = ToolConcurrencyController(config)
    slots = [controller.try_acquire("ai") for _ in range(3)]
    assert [slot is None for slot in slots] == [False, False, True]


async def test_section_4_4(engine: ToolEngine) -> None:
    """K38: a workflow node is not limited and not counted."""
    context = ToolExecutionContext.for_workflow(
        workflow_id="wf_001",
        node_id="node_001",
    )
    result = await engine.execute("echo", {"message": "x"}, context)
    assert result.is_success
    assert engine.controller.get_metrics().total_acquired == 0


async def test_section_4_5(engine: ToolEngine) -> None:
    """K39, K40: the metrics of the limits, in all and per bucket."""
    controller = engine.controller
    await engine.execute("calculator", {"expression": "1"})
    metrics = controller.get_metrics()
    assert metrics == ConcurrencyMetrics(
        current_concurrent=0,
        queue_length=0,
        total_acquired=1,
        total_rejected=0,
        total_timeout=0,
        avg_execution_time=metrics.avg_execution_time,
        total_released=1,
        total_execution_time=metrics.total_execution_time,
        max_concurrent_observed=1,
    )
    bucket_metrics = controller.get_bucket_metrics()
    (bucket,) = bucket_metrics.values()
    assert {"current": 0, "limit": None, "queue": 0}.items() <= bucket.items()


async def test_section_5_2_and_5_3(engine: ToolEngine) -> None:
    """K42-K45: the queries, and the summary that an agent embeds in its final result."""
    context = ToolExecutionContext.for_conversation("agent", "conv_001")
    await engine.execute("echo", {"message": "x"}, context)
    await engine.execute("calculator", {"expression": "1/0"}, context)
    await engine.execute("echo", {"message": "x"})

    records = await engine.query_call_records(conversation_id="conv_001")
    assert [record.tool_name for record in records] == ["calculator", "echo"]
    records = await engine.query_call_records(tool_name="echo")
    assert len(records) == 2
    summary = await engine.get_call_summary("conv_001")
    assert summary == ToolCallSummary(
        conversation_id="conv_001",
        total_calls=2,
        successful_calls=1,
        failed_calls=1,
        success_rate=50.0,
        tool_usage={"echo": 1, "calculator": 1},
    )
    stats = await engine.get_call_statistics()
    assert stats["total_records"] == 3

    conversation_id = "conv_001"
    summary = await engine.get_call_summary(conversation_id)
    final_result: dict[str, Any] = {
        "status": "completed",
        "answer": "done",
        "tool_usage_summary": summary.to_brief(),
    }
    assert final_result["tool_usage_summary"] == {
        "total_calls": 2,
        "success_rate": 50.0,
        "tool_usage": {"echo": 1, "calculator": 1},
        "has_errors": True,
    }


async def test_section_6_2(engine: ToolEngine, capsys: pytest.CaptureFixture[str]) -> None:
    """K46, K47: the document's subscriber prints what was completed and what failed."""

    def on_tool_event(event: ToolEngineEvent) -> None:
        if event.event_type == ToolEngineEventType.EXECUTION_COMPLETED:
            print(f"tool {event.tool_name} completed")
        elif event.event_type == ToolEngineEventType.EXECUTION_FAILED:
            print(f"tool {event.tool_name} failed: {event.error}")

    engine.subscribe(on_tool_event)
    await engine.execute("echo", {"message": "x"})
    await engine.execute("calculator", {"expression": "1/0"})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "tool echo completed"
    assert printed[1].startswith("tool calculator failed: ")


def test_event_types() -> None:
    """K46: the document's eleven events, by name and value."""
    documented = [
        *("tool_loaded", "tool_added", "tool_updated", "tool_removed"),
        *("reload_started", "reload_completed", "load_error", "validation_error"),
        *("execution_started", "execution_completed", "execution_failed"),
    ]
    for value in documented:
        assert ToolEngineEventType[value.upper()].value == value


async def test_address_that_is_not_allowed(engine: ToolEngine, port: int) -> None:
    """K14: an address on this machine is refused unless the tool's definition allows it."""
    result = await engine.execute("http_request", {"url": f"http://127.0.0.1:{port + 1}/"})
    assert result.error_type == "execution_error"
    assert (await engine.execute("http_request", {"url": "ftp://x/"})).error_type == (
        "validation_error"
    )
