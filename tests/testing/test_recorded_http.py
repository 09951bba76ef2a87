"""Does the real HTTP executor run against a recording as it does over a network?"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import yarl

from tool_engine import Tool, ToolConfigLoader, ToolExecutionContext, ToolExecutionError
from tool_engine.executors.http.addresses import AllowList
from tool_engine.testing.exchanges import Recording
from tool_engine.testing.recorded_http import RecordedHTTPExecutor

URL = "https://a.example/p"
HTTP_REQUEST = """
name: http_request
description: Sends.
parameters:
  - {name: url, type: string, required: true, description: U}
  - {name: method, type: string, description: M}
  - {name: body, type: object, description: B}
  - {name: timeout, type: number, description: T}
entry: {type: builtin, handler: http_request}
"""
CONTEXT = ToolExecutionContext(caller_id="c", caller_type="direct")


@pytest.fixture
def tool() -> Tool:
    return ToolConfigLoader().load_text(HTTP_REQUEST)


async def send(tool: Tool, *exchanges: dict[str, Any], **params: Any) -> dict[str, Any]:
    """What a call returns against these exchanges; all of them have to be used."""
    executor = RecordedHTTPExecutor()
    executor.recording = Recording(exchanges)
    try:
        async with asyncio.timeout(10):
            answer = await executor.execute(tool, {"url": URL, **params}, CONTEXT)
    finally:
        await executor.close()
    assert executor.recording.problems == []
    assert isinstance(answer, dict)
    return answer


WITH_TOKEN = """
name: account
description: Reads the account.
effect: read
entry:
  type: http
  request:
    url: https://a.example/account
    auth:
      type: oauth2
      token_url: https://login.example/token
      client_id: me
      client_secret: ${env:ACCOUNT_SECRET}
"""


async def test_a_token_is_recorded_in_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which requests a test records does not depend on the tests before it: each begins without an
    access token."""
    monkeypatch.setenv("ACCOUNT_SECRET", "made-up-secret")
    account = ToolConfigLoader().load_text(WITH_TOKEN)
    exchanges = [
        {
            "request": {
                "method": "POST",
                "url": "https://login.example/token",
                "body": "grant_type=client_credentials",
            },
            "response": {"json": {"access_token": "made-up-token", "token_type": "bearer"}},
        },
        {
            "request": {
                "url": "https://a.example/account",
                "headers": {"Authorization": "Bearer made-up-token"},
            },
            "response": {"json": {"id": 7}},
        },
    ]
    executor = RecordedHTTPExecutor()
    for _ in range(2):
        executor.recording = Recording(exchanges)
        async with asyncio.timeout(10):
            assert await executor.execute(account, {}, CONTEXT) == {"id": 7}
        assert executor.recording.problems == []
    await executor.close()


async def test_a_large_body_arrives_whole(tool: Tool) -> None:
    """A request and an answer of a megabyte, which are written in parts, are read as one."""
    text = "x" * 1_000_000
    exchange = {
        "request": {"method": "POST", "url": URL, "json": {"text": text}},
        "response": {"body": text},
    }
    answer = await send(tool, exchange, method="POST", body={"text": text})
    assert answer["body"] == text


@pytest.mark.parametrize(
    ("response", "body"),
    [
        ({"json": {"a": [1, None]}}, {"a": [1, None]}),
        ({"body": "é\n"}, "é\n"),
        ({"body": '{"a": 1}', "headers": {"Content-Type": "application/json"}}, {"a": 1}),
        ({"status": 204}, None),
        ({"status": 404, "body": "gone"}, "gone"),
        ({"body": "x", "headers": {"Content-Encoding": "gzip", "Connection": "close"}}, "x"),
    ],
)
async def test_answers_are_read_by_the_real_client(
    tool: Tool, response: dict[str, Any], body: Any
) -> None:
    """Status, headers and body come through aiohttp, by the content type that was recorded."""
    answer = await send(tool, {"request": {"url": URL}, "response": response})
    assert answer["status_code"] == response.get("status", 200)
    assert answer["body"] == body


async def test_a_redirect_is_a_second_exchange(tool: Tool) -> None:
    """The executor follows it by its own rules, to another host and another scheme."""
    answer = await send(
        tool,
        {"request": {"url": URL}, "response": {"status": 302, "headers": {"Location": "/q?x=1"}}},
        {"request": {"url": "https://a.example/q?x=1"}, "response": {"body": "here"}},
    )
    assert answer["body"] == "here"


async def test_a_head_request_has_no_body(tool: Tool) -> None:
    """As over a network: the headers are sent, the body is not."""
    exchange = {"request": {"method": "HEAD", "url": URL}, "response": {"body": "xyz"}}
    answer = await send(tool, exchange, method="HEAD")
    assert answer["headers"] == {"Content-Type": "text/plain; charset=utf-8"}
    assert answer["body"] is None


async def test_private_addresses_stay_refused(tool: Tool) -> None:
    """The address check is the executor's own, and comes before the recording."""
    for url in (
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://2130706433/",
    ):
        exchange = {"request": {"url": url}, "response": {}}
        with pytest.raises(ToolExecutionError):
            await send(tool, exchange, url=url)


async def test_without_a_recording_nothing_is_sent(tool: Tool) -> None:
    """A new executor plays nothing back: each request ends as a failed connection."""
    executor = RecordedHTTPExecutor()
    with pytest.raises(ToolExecutionError, match=r"a\.example"):
        await executor.execute(tool, {"url": URL}, CONTEXT)
    assert executor.recording.is_broken
    await executor.close()


async def test_a_call_that_is_cancelled_leaves_nothing(tool: Tool) -> None:
    """A test that is stopped while a request is under way closes its piece of memory."""
    executor = RecordedHTTPExecutor()
    executor.recording = Recording([{"request": {"url": URL}, "response": {"body": "x"}}] * 50)
    for turns in range(12):
        call = asyncio.create_task(executor.execute(tool, {"url": URL}, CONTEXT))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call], timeout=5)
        assert call.done()
    assert (await executor.execute(tool, {"url": URL}, CONTEXT))["body"] == "x"
    await executor.close()


async def connected(executor: RecordedHTTPExecutor) -> Any:
    """The transport of a new connection, as the client gets it."""
    connector: Any = executor._make_connector(AllowList())
    request = SimpleNamespace(url=yarl.URL(URL))
    protocol = await connector._create_connection(request)
    await connector.close()
    return protocol.transport


async def test_a_request_may_be_written_byte_by_byte() -> None:
    """A client is free to write the head and the body in as many parts as it likes."""
    executor = RecordedHTTPExecutor()
    request = {"method": "POST", "url": URL, "body": "abc"}
    executor.recording = Recording([{"request": request, "response": {}}])
    transport = await connected(executor)
    for byte in b"POST /p HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc":
        assert executor.recording.problems
        transport.write(bytes([byte]))
    await asyncio.sleep(0)
    assert executor.recording.problems == []


async def test_a_connection_that_is_given_up_gets_no_answer() -> None:
    """Whoever aborts before the answer is not called back with one, and may abort again."""
    executor = RecordedHTTPExecutor()
    executor.recording = Recording([{"request": {"url": URL}, "response": {}}])
    transport = await connected(executor)
    transport.write(b"GET /p HTTP/1.1\r\nHost: a.example\r\n\r\n")
    transport.abort()
    transport.abort()
    assert transport.is_closing()
    await asyncio.sleep(0)
    assert executor.recording.problems != []
