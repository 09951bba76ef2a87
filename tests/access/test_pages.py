"""Which pages in a browser use a server, and read its answers?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.access.conftest import TOKEN, head, speak, status_of
from tests.server.conftest import Service, served, write_tokens
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.server import create_app

PAGE = "https://app.example"
WANTS = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


@pytest.mark.parametrize(
    "headers",
    [
        "Origin: http://[\r\n",
        "Origin: http://a]b\r\n",
        "Origin: //\r\n",
        "Origin: http://127.0.0.1@evil.example\r\n",
        "Sec-Fetch-Site: nonsense\r\n",
    ],
)
async def test_origins_that_are_none(service: Service, headers: str) -> None:
    """What cannot be read as one origin is that of no page that may use it."""
    answer = await speak(service.url, head("GET /v1/tools", TOKEN, headers))
    assert status_of(answer) == 403
    assert "foreign-origin" in answer


async def test_an_allowed_page(engine: ToolEngine, tmp_path: Path) -> None:
    """A browser lets it ask, and read what is answered, refusals too; and no other page."""
    tokens = write_tokens(tmp_path / "tokens.json")
    app = await asyncio.to_thread(
        create_app, engine, auth=str(tokens), allowed_origins=["https://App.example"]
    )
    async with served(app) as service:
        anyone, ann = service.client(None), service.client("ann")
        path = "/v1/tools/add/calls"
        first = await anyone.send("OPTIONS", path, headers={"origin": PAGE, **WANTS})
        assert first.status == 204
        assert first.headers["access-control-allow-origin"] == PAGE
        assert "access-control-allow-credentials" not in first.headers
        assert first.headers["access-control-allow-headers"] == "authorization,content-type"
        assert "POST" in first.headers["access-control-allow-methods"]
        called = await ann.send(
            "POST",
            path,
            json={"arguments": {"a": 1, "b": 2}},
            headers={"origin": PAGE, "sec-fetch-site": "cross-site"},
        )
        assert called.json["output"] == {"result": 3}
        refused = await anyone.send("GET", "/v1/tools", headers={"origin": PAGE})
        assert refused.status == 401
        for each in (called, refused):
            assert each.headers["access-control-allow-origin"] == PAGE

        evil = await anyone.send(
            "OPTIONS", path, headers={"origin": "http://evil.example", **WANTS}
        )
        assert evil.status == 403
        own = await ann.get("/v1/tools")
        for each in (evil, own):
            assert not [name for name in each.headers if name.lower().startswith("access-control")]
        for each in (first, called, refused, evil, own):
            assert each.headers["vary"] == "origin"  # a cache gives no page another one's answer


async def test_a_preflight_with_a_body_is_none(engine: ToolEngine) -> None:
    """What a browser asks has no body; one that never comes holds no connection."""
    app = create_app(engine, allowed_origins=[PAGE])
    asks = f"Origin: {PAGE}\r\nAccess-Control-Request-Method: POST\r\nContent-Length: 9\r\n"
    async with served(app) as service:
        answer = await speak(service.url, head("OPTIONS /v1/tools", asks))
    assert status_of(answer) == 415


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            PAGE,
            "allowed_origins must be a list of texts, got 'https://app.example'; write",
        ),
        (["*"], "'*' is no origin; write https://HOST or https://HOST:PORT"),
        (["null"], "'null' is no origin; write"),
        (["app.example"], "'app.example' is no origin"),
        ([f"{PAGE}/"], "'https://app.example/' is no origin"),
        ([f"{PAGE}/x"], "'https://app.example/x' is no origin"),
        ([f"{PAGE}:443"], "'https://app.example:443' is no origin"),
        (["http://app.example:80"], "'http://app.example:80' is no origin"),
    ],
)
def test_allowed_origins_that_are_none(given: Any, says: str) -> None:
    """What no browser sends is said, and not waited for."""
    with pytest.raises(ConfigurationError) as caught:
        create_app(ToolEngine(), allowed_origins=given)
    assert says in str(caught.value)
