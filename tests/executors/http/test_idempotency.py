"""`Idempotency-Key`: the same in each attempt of one call, another in the next."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tool_engine import (
    DefinitionError,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.http_entry import check_entry
from tool_engine.executors.http.idempotency import idempotency_key, parse_idempotency_key
from tool_engine.executors.templates import TemplateError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]

URL = "https://api.example/orders"


def key(value: Any, call_id: str | None = "c-1", **params: Any) -> str:
    return idempotency_key(parse_idempotency_key(value), params, call_id)


def test_key() -> None:
    """`true` is the call's id; a template may take parameters, which are percent-encoded."""
    assert key(True) == "c-1"
    assert key("order-{call_id}") == "order-c-1"
    assert key("{order}/{n}", order="a/b é\r\n", n=7) == "a%2Fb%20%C3%A9%0D%0A/7"
    assert idempotency_key(parse_idempotency_key(True), {"call_id": "own"}, "c-1") == "own"
    assert key("{x}", x="\ud800")


def test_a_call_without_id() -> None:
    """An executor that is called by itself still sends a key of its own each time."""
    keys = {key(True, call_id=None) for _ in range(3)}
    assert len(keys) == 3
    assert all(uuid.UUID(each) for each in keys)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (False, "must be true or a text"),
        (7, "must be true or a text"),
        ("order", "is the same for every call"),
        ("", "is the same for every call"),
        ("${env:KEY}-{call_id}", "holds a secret"),
        ("${x}", "is not a placeholder"),
        ("a b {call_id}", "visible ASCII"),
        ("é{call_id}", "visible ASCII"),
        ("a\n{call_id}", "visible ASCII"),
    ],
)
def test_what_is_no_key(value: Any, reason: str) -> None:
    """A key that is always the same would make the server ignore every call but the first."""
    with pytest.raises(TemplateError, match=reason):
        parse_idempotency_key(value)


def test_a_key_that_cannot_be_sent() -> None:
    """Without the parameter the key would be that of another call."""
    for missing in ({}, {"a": None}, {"a": ""}):
        with pytest.raises(ToolExecutionError, match="needs the parameter 'a'"):
            key("{a}", **missing)
    with pytest.raises(ToolExecutionError, match="300 characters long; the most is 255"):
        key("{a}", a="x" * 300)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"method": "GET"}, "GET changes nothing, so it needs none; remove it"),
        ({"headers": {"idempotency-key": "a"}}, "idempotency_key sets it; remove one"),
        ({"idempotency_key": "same"}, "is the same for every call"),
        ({"idempotency_key": "{oder}"}, "'oder', which is not declared; did you mean 'order'?"),
        ({"idempotency_key": "{maybe}"}, "which a call may leave out"),
        ({"idempotency_key": "{items}"}, "of type array"),
    ],
)
def test_a_mistake(make: Make, request_: dict[str, Any], problem: str) -> None:
    """Found before the first call."""
    parameters = [
        "order",
        ToolParameter("maybe", "string"),
        ToolParameter("items", "array", required=True),
    ]
    body = {"o": "{order}", "m": "{maybe}", "i": "{items}"}
    request = {"url": URL, "method": "POST", "idempotency_key": True, "json": body, **request_}
    problems = [each.message for each in check_entry(make({"request": request}, *parameters))]
    assert any(problem in each for each in problems), problems


def test_a_key_counts_as_use(make: Make) -> None:
    """A parameter that only the key takes is used."""
    request = {"url": URL, "method": "POST", "idempotency_key": "{order}"}
    assert check_entry(make({"request": request}, "order")) == []


ORDER = """
name: order
description: Orders a thing.
effect: write
retry: {{attempts: 3, backoff: 0.001}}
parameters:
  - {{name: what, type: string, required: true, description: The thing}}
entry:
  type: http
  request:
    method: POST
    url: {url}/orders
    json: {{what: "{{what}}"}}
    {key}
  allow: ["127.0.0.1:*"]
"""


async def test_a_write_with_a_key_is_tried_again(site: Any, tmp_path: Path) -> None:
    """Issue 5, 1: the attempts of one call carry one key, and the next call another."""
    failures = 2

    async def answer(_request: web.Request) -> web.Response:
        nonlocal failures
        failures -= 1
        return web.Response(status=503 if failures >= 0 else 201)

    site.answer = answer
    text = ORDER.format(url=site.url, key="idempotency_key: true")
    (tmp_path / "order.yaml").write_text(text, encoding="utf-8")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        first = await engine.execute("order", {"what": "tea"})
        second = await engine.execute("order", {"what": "tea"})
    keys = [request.headers["Idempotency-Key"] for request in site.requests]
    assert (first.is_success, first.metadata["attempts"]) == (True, 3)
    assert keys == [first.metadata["call_id"]] * 3 + [second.metadata["call_id"]]
    assert len(set(keys)) == 2


def test_a_write_without_a_key() -> None:
    """It may not name `retry`: the definition is refused."""
    with pytest.raises(DefinitionError, match="retry applies only to tools that may safely run"):
        ToolConfigLoader().load_text(ORDER.format(url=URL, key=""), "order.yaml")
    for wrong in ("idempotency_key: false", "idempotency_key: ''"):
        with pytest.raises(DefinitionError):
            ToolConfigLoader().load_text(ORDER.format(url=URL, key=wrong), "order.yaml")


async def test_a_redirect_keeps_the_key(run: Any, site: Any) -> None:
    """It says which request it is, not who sends it."""
    remaining = ["/next"]

    async def answer(_request: web.Request) -> web.Response:
        if remaining:
            return web.Response(status=307, headers={"Location": remaining.pop()})
        return web.json_response({})

    site.answer = answer
    tool = run.make(
        {
            "request": {"url": site.url, "method": "POST", "idempotency_key": True},
            "allow": run.allow,
        }
    )
    await run.executor.execute(tool, {}, ToolExecutionContext(call_id="c-1"))
    assert [request.headers["Idempotency-Key"] for request in site.requests] == ["c-1", "c-1"]
