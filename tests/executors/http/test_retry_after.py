"""For how long does a server ask not to be called, and does the engine listen?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from tool_engine import AdaptivePolicy, ConcurrencyConfig, ToolEngine, ToolEngineConfig
from tool_engine.executors.http.retry_after import pause_asked_for

LIMIT = 10.0
"""Seconds after which a wait in a test has failed."""
NOW = "Fri, 01 May 2026 12:00:00 GMT"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 5 ", 5.0),
        ("1.5", 1.5),
        ("9" * 5000, 1e9),
        ("Fri, 01 May 2026 12:01:30 GMT", 90.0),
        ("Friday, 01-May-26 12:01:30 GMT", 90.0),
        ("Fri May  1 12:01:30 2026", 90.0),
        ("Fri, 01 May 2026 12:01:30 -0000", 90.0),
        ("Fri, 01 May 2026 14:01:30 +0200", 90.0),
    ],
)
def test_a_pause(status: int, value: str, expected: float) -> None:
    """C17, RFC 9110 10.2.3: seconds, or a date in one of the three forms of HTTP."""
    assert pause_asked_for(status, {"Retry-After": value, "Date": NOW}) == expected


@pytest.mark.parametrize(
    "value",
    [
        *["", "0", "0.0", "-5", "+5", "1e3", "1,5", "1.", ".5", "5 s", "0x10", "nan", "inf"],
        *["soon", "\u0665", "5\n6", "Fri", "Fri, 01 May 2026", "Fri, 01 May 2026 11:59:00 GMT"],
        *["Fri, 01 May 2026 12:00:00 GMT", "Fri, 99 Nov 2026 12:00:00 GMT"],
        *[f"Fri, 01 May {'9' * 30} 12:00:00 GMT", "Fri, 01 May 2026 12:00:00 +999999999999"],
    ],
)
def test_no_pause(value: str) -> None:
    """C17: what cannot be read is ignored, and so is a time that has passed."""
    assert pause_asked_for(429, {"Retry-After": value, "Date": NOW}) is None


@pytest.mark.parametrize("status", [200, 301, 400, 404, 500, 502, 504])
def test_other_answers(status: int) -> None:
    """C17: only 429 and 503 are about too many calls."""
    assert pause_asked_for(status, {"Retry-After": "5", "Date": NOW}) is None
    assert pause_asked_for(429, {"Date": NOW}) is None


@pytest.mark.parametrize("date", [{}, {"Date": "garbage"}])
def test_a_date_without_that_of_the_server(date: dict[str, str]) -> None:
    """C17: where the server names no time of its own, ours counts."""
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    pause = pause_asked_for(503, {"Retry-After": until, **date})
    assert pause is not None
    assert 90.0 < pause <= 100.0


async def test_an_executor_without_an_engine(run: Any, site: Any) -> None:
    """An executor that is used alone, with a context of no call, has no bucket to pause."""

    async def busy(_request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "5"})

    site.answer = busy
    assert (await run.request(url=site.url))["status_code"] == 429


def definition(name: str, site: Any, **keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1.0.0",
        "description": "Asks the site",
        "category": "http",
        "entry": {
            "type": "builtin",
            "request": {"method": "GET", "url": f"{site.url}/{name}"},
            "allow": ["127.0.0.1:*"],
        },
        **keys,
    }


@pytest.fixture
async def engine(site: Any, tmp_path: Any) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    limits = ConcurrencyConfig(queue_timeout=None, max_bucket_pause=50.0)
    async with ToolEngine(config, concurrency=limits) as made:
        made.register_tool(definition("one", site))
        made.register_tool(definition("two", site))
        elsewhere = {"bucket": "elsewhere"}
        made.register_tool(definition("elsewhere", site, concurrency=elsewhere))
        made.register_tool(
            {
                **definition("http_request", site),
                "parameters": [
                    {"name": "url", "type": "string", "required": True, "description": "Where"}
                ],
                "entry": {
                    "type": "builtin",
                    "handler": "http_request",
                    "allow": ["127.0.0.1:*"],
                },
            }
        )
        yield made


def answering(site: Any, status: int, **headers: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, headers=shown)

    site.answer = answer


def paused_for(engine: ToolEngine, bucket: str = "http") -> float:
    return float(engine.controller.snapshot().buckets[bucket]["paused_for"])


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("name", ["one", "http_request"])
async def test_the_bucket_pauses(engine: ToolEngine, site: Any, status: int, name: str) -> None:
    """C17: after a 429 with Retry-After later calls of the bucket wait; others go on."""
    answering(site, status, Retry_After="30")
    params = {"url": site.url} if name == "http_request" else None
    async with asyncio.timeout(LIMIT):
        result = await engine.execute(name, params)
        if name == "one":
            assert result.metadata["error_details"] == {"status_code": status}
        else:
            assert result.output["status_code"] == status
        assert 20.0 < paused_for(engine) <= 30.0
        waiting = asyncio.create_task(engine.execute("two"))
        site.requests.clear()
        answering(site, 200)
        assert (await engine.execute("elsewhere")).is_success
        assert [request.path for request in site.requests] == ["/elsewhere"]
        (waiter,) = engine.controller.snapshot().waiting
        assert waiter.tool_name == "two"
        engine.controller.pause_bucket("http", 0)
        assert (await waiting).is_success
        assert len(site.requests) == 2


async def test_a_short_pause_ends(engine: ToolEngine, site: Any) -> None:
    """C17: a call that waits for the end of a pause is made then."""
    answering(site, 429, Retry_After="0.05")
    async with asyncio.timeout(LIMIT):
        await engine.execute("one")
        answering(site, 200)
        result = await engine.execute("two")
    assert result.is_success
    assert len(site.requests) == 2


async def test_a_date(engine: ToolEngine, site: Any) -> None:
    """C17: a date counts from the date of the server, whose clock may be wrong."""
    answering(site, 503, Retry_After="Fri, 01 May 2026 12:00:20 GMT", Date=NOW)
    async with asyncio.timeout(LIMIT):
        await engine.execute("one")
    assert 10.0 < paused_for(engine) <= 20.0


@pytest.mark.parametrize("value", ["999999999", "Fri, 01 May 2099 12:00:00 GMT"])
async def test_the_pause_is_capped(engine: ToolEngine, site: Any, value: str) -> None:
    """C17: no server stops a bucket for longer than max_bucket_pause."""
    answering(site, 429, Retry_After=value)
    async with asyncio.timeout(LIMIT):
        await engine.execute("one")
    assert 40.0 < paused_for(engine) <= 50.0


@pytest.mark.parametrize("value", ["soon", "-5", "0", "Fri, 01 May 1998 12:00:00 GMT"])
async def test_what_asks_for_nothing_ends_nothing(
    engine: ToolEngine, site: Any, value: str
) -> None:
    """C17: garbage and a pause of no length leave a pause as it is that another call asked for."""
    gate = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/one":
            await gate.wait()
        return web.Response(
            status=429, headers={"Retry-After": value if request.path == "/one" else "30"}
        )

    site.answer = answer
    async with asyncio.timeout(LIMIT):
        slow = asyncio.create_task(engine.execute("one"))
        await site.received.wait()
        assert paused_for(engine) == 0.0
        await engine.execute("two")
        gate.set()
        await slow
    assert 20.0 < paused_for(engine) <= 30.0


async def test_a_redirect_asks_for_nothing(engine: ToolEngine, site: Any) -> None:
    """C17: the last answer counts, not those on the way."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/one":
            return web.Response(status=302, headers={"Location": "/there", "Retry-After": "30"})
        return web.Response(status=200)

    site.answer = answer
    async with asyncio.timeout(LIMIT):
        assert (await engine.execute("one")).is_success
    assert paused_for(engine) == 0.0


@pytest.mark.parametrize(("status", "limit"), [(429, 4), (503, 4), (500, 8), (404, 8)])
async def test_a_refusal_without_a_pause_shrinks_an_adaptive_limit(
    engine: ToolEngine, site: Any, status: int, limit: int
) -> None:
    """C19: the service had no room, even if it does not say for how long."""

    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=status)

    site.answer = refuse
    engine.controller.configure(
        ConcurrencyConfig(bucket_limits={"http": 8}, adaptive={"http": AdaptivePolicy()})
    )
    await engine.execute("one")
    bucket = engine.controller.snapshot().buckets["http"]
    assert (bucket["limit"], bucket["paused_for"]) == (limit, 0.0)
