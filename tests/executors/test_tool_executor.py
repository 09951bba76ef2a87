"""K53: executors as the founding document names them, and the tools that come with the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.calculator import CalculatorExecutor
from tool_engine.executors.echo import EchoExecutor
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.http.http_executor import HTTPExecutor
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory

TOOLS = Path(__file__).parents[2] / "tools"
GROUPS = ("files", "web")
FILES = [path for path in sorted(TOOLS.glob("*.yaml")) if path.stem not in GROUPS]


def load(path: Path) -> Tool:
    """A tool as far as an executor looks at it; the loader has tests of its own."""
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Tool(
        id=read["name"],
        name=read["name"],
        version=read["version"],
        description=read["description"],
        category=ToolCategory(read["category"]),
        tags=read["tags"],
        parameters=[
            ToolParameter(
                p["name"], p["type"], p.get("required", False), p.get("default"), p["description"]
            )
            for p in read["parameters"]
        ],
        implementation_config=read["entry"],
        source=str(path),
    )


@pytest.mark.parametrize("executor", [EchoExecutor(), CalculatorExecutor(), HTTPExecutor()])
def test_the_protocol(executor: Any) -> None:
    """K52: EchoExecutor, CalculatorExecutor and HTTPExecutor are ToolExecutors."""
    assert isinstance(executor, ToolExecutor)


async def test_echo(context: ToolExecutionContext) -> None:
    """K52: echo returns its message."""
    params = {"message": "hello"}
    output = await EchoExecutor().execute(load(TOOLS / "echo.yaml"), params, context)
    assert output == {"message": "hello"}


async def test_calculator(context: ToolExecutionContext) -> None:
    """K52: `{"expression": "1+2"}` gives `{"result": 3}`."""
    tool = load(TOOLS / "calculator.yaml")
    executor = CalculatorExecutor()
    assert await executor.execute(tool, {"expression": "1+2"}, context) == {"result": 3}
    with pytest.raises(ToolExecutionError, match="cannot calculate: division by zero"):
        await executor.execute(tool, {"expression": "1/0"}, context)
    with pytest.raises(ToolExecutionError, match="must be a text such as '1"):
        await executor.execute(tool, {"expression": 7}, context)


def test_http_request_is_the_documents() -> None:
    """K14: handler, parameters and entry are the founding document's example."""
    tool = load(TOOLS / "http_request.yaml")
    assert tool.implementation_config == {"type": "builtin", "handler": "http_request"}
    assert [p.name for p in tool.parameters] == ["url", "method", "headers", "body", "timeout"]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_example_has_its_executor(path: Path) -> None:
    """K6: each file in `tools/` finds an executor, and its entry has no mistake."""
    registry, tool = ExecutorRegistry(), ToolConfigLoader().load_file(path)
    assert path.stem == tool.name
    assert registry.resolve(tool) is not None
    assert registry.check(tool) == []


async def test_get_weather(
    site: Any,
    executor: HTTPExecutor,
    context: ToolExecutionContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K6: a tool that is only YAML calls a real service."""
    monkeypatch.setenv("WEATHER_URL", site.url)

    async def answer(request: web.Request) -> web.Response:
        if request.query["city"] != "São Paulo & x":
            return web.json_response({"error": "unknown city"}, status=404)
        found = {"city": "São Paulo", "temperature": 21.5, "conditions": "sun", "units": "celsius"}
        return web.json_response(found)

    site.answer = answer
    tool = load(TOOLS / "get_weather.yaml")
    output = await executor.execute(tool, {"city": "São Paulo & x"}, context)
    assert output == {"city": "São Paulo", "temperature": 21.5, "conditions": "sun"}
    assert site.requests[0].path == "/weather"
    with pytest.raises(ToolExecutionError, match=r"answered 404 Not Found: .*unknown city"):
        await executor.execute(tool, {"city": "nowhere"}, context)


async def test_notify_team(
    site: Any, context: ToolExecutionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K6: a body keeps the types of its parameters, and leaves out what the call leaves out."""
    monkeypatch.setenv("CHAT_WEBHOOK_URL", f"{site.url}/hooks/T0/B0")
    executor, tool = HTTPExecutor(allow=[site.address]), load(TOOLS / "notify_team.yaml")
    await executor.execute(tool, {"text": "hi", "mentions": ["a"], "urgent": True}, context)
    await executor.execute(tool, {"text": "hi", "urgent": False}, context)
    await executor.close()
    assert [request.path for request in site.requests] == ["/hooks/T0/B0"] * 2
    assert site.bodies == [
        b'{"text":"hi","mentions":["a"],"urgent":true,"source":"tool_engine"}',
        b'{"text":"hi","urgent":false,"source":"tool_engine"}',
    ]
