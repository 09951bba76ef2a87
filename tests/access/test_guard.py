"""Which requests reach an app that is guarded?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tests.access.conftest import JSON, TOKEN, head, speak, status_of
from tests.server.conftest import Service, served, write_tokens
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.access import client_connection
from tool_engine.access.guard import Guard
from tool_engine.access.principal import SCOPES, Principal
from tool_engine.server import create_app
from tool_engine.server.app import OPERATIONS


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8930", 200),
        ("[::1]:1", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("", 421),
    ],
)
async def test_names_that_lead_here(service: Service, host: str, status: int) -> None:
    """A page whose name was bound to this machine afterwards gets nothing."""
    answer = await speak(service.url, head("GET /v1/tools", TOKEN, host=host))
    assert status_of(answer) == status


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://127.0.0.1:8930/healthz", "127.0.0.1", 200),
        ("HTTP://LOCALHOST/v1/tools?limit=1", "localhost", 200),
        ("https://[::1]/v1/tools/add", "127.0.0.1", 200),
        ("http://127.0.0.1/v1/tools/a%2Fb", "127.0.0.1", 404),
        ("http://127.0.0.1?token=x", "127.0.0.1", 400),
        ("http://127.0.0.1", "127.0.0.1", 404),
        # Of two names that of the target counts.
        ("http://127.0.0.1/v1/tools", "evil.example", 200),
        ("http://evil.example/v1/tools", "127.0.0.1", 421),
        ("http://127.0.0.1@evil.example/v1/tools", "127.0.0.1", 404),
        ("ftp://127.0.0.1/v1/tools", "127.0.0.1", 404),
        ("http:/v1/tools", "127.0.0.1", 404),
        ("*", "127.0.0.1", 404),
    ],
)
async def test_targets_that_name_a_host(
    service: Service, target: str, host: str, status: int
) -> None:
    """They lead to the same as a path and that host, which is looked at as each is."""
    answer = await speak(service.url, head(f"GET {target}", TOKEN, host=host))
    assert status_of(answer) == status, answer
    before = f"GET {target} HTTP/1.0\r\n{TOKEN}\r\n"
    names_host = target[:4].lower() == "http" and "@" not in target and "//" in target
    assert status_of(await speak(service.url, before)) == (status if names_host else 421)


async def test_what_the_server_as_a_whole_does(service: Service) -> None:
    """RFC 9110 (9.3.7): `OPTIONS *` is about none of its paths; a token is asked for as always."""
    answer = await speak(service.url, head("OPTIONS *", TOKEN))
    assert status_of(answer) == 204
    done = {each.method for each in OPERATIONS} | {"HEAD", "OPTIONS"}
    assert f"allow: {', '.join(sorted(done))}\r\n" in answer
    assert status_of(await speak(service.url, head("OPTIONS *"))) == 401
    assert status_of(await speak(service.url, head("OPTIONS *", TOKEN, host="evil.example"))) == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://127.0.0.1.evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
    ],
)
async def test_pages_of_others(service: Service, headers: dict[str, str], status: int) -> None:
    """A page of another origin may not use it, with a token or without."""
    answer = await service.client("ann").send("GET", "/v1/tools", headers=headers)
    assert answer.status == status
    own = {"origin": service.url}
    assert (await service.client("ann").send("GET", "/v1/tools", headers=own)).status == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_forms_of_others(service: Service, engine: ToolEngine, kind: str) -> None:
    """What a form can send without being asked is no call."""
    answer = await service.client("ann").send(
        "POST",
        "/v1/tools/add/calls",
        data=b'{"arguments": {"a": 1, "b": 2}}',
        headers={"content-type": kind},
    )
    assert (answer.status, answer.kind) == (415, "wrong-type")
    assert await engine.query_call_records() == []


@pytest.mark.parametrize(
    "headers",
    [
        "",
        "Authorization: Bearer nobody\r\n",
        "Authorization: Basic dG9rZW4tb2YtYW5u\r\n",
        "Authorization: token-of-ann\r\n",
    ],
)
async def test_tokens_that_are_not_taken(service: Service, headers: str) -> None:
    """None, an unknown one, or another scheme."""
    answer = await speak(service.url, head("GET /v1/tools", headers))
    assert status_of(answer) == 401
    assert "www-authenticate: Bearer" in answer
    assert "unknown-token" in answer


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("Authorization", "Bearer token-of-ann", "Bearer token-of-ann"),
        ("Authorization", "Bearer token-of-ann", "Bearer token-of-olga"),
        ("Authorization", "Basic x", "Bearer token-of-ann"),
        ("Origin", "http://127.0.0.1", "http://evil.example"),
        ("Origin", "http://evil.example", "http://127.0.0.1"),
        ("Sec-Fetch-Site", "cross-site", "none"),
        ("Content-Type", "text/plain", "application/json"),
        ("Idempotency-Key", "a", "b"),
        ("Last-Event-ID", "1", "2"),
    ],
)
async def test_headers_that_stand_twice(
    service: Service, engine: ToolEngine, name: str, first: str, second: str
) -> None:
    """Of what decides there is one: a proxy may read the first, and a server the last."""
    more = [f"{name}: {each}\r\n" for each in (first, second)]
    others = [each for each in (TOKEN, JSON) if not each.startswith(name)]
    body = '{"arguments": {"a": 1, "b": 2}}'
    request = head("POST /v1/tools/add/calls", *others, *more, f"Content-Length: {len(body)}\r\n")
    answer = await speak(service.url, request + body)
    assert status_of(answer) == 400
    assert f"'{name.lower()}' stands twice; send it once" in answer
    assert await engine.query_call_records() == []


@pytest.mark.parametrize("name", ["token", "access_token", "API_KEY"])
async def test_a_token_in_the_address(service: Service, name: str) -> None:
    """It would stand in logs; the answer does not repeat it."""
    answer = await service.client("ann").get(f"/v1/tools?{name}=token-of-olga")
    assert (answer.status, answer.kind) == (400, "secret-in-address")
    assert "olga" not in answer.text


async def test_an_address_without_end(service: Service) -> None:
    """Thousands of parameters are not looked at one by one, for someone without a token."""
    answer = await speak(service.url, head("GET /v1/tools?" + "a&" * 20_000))
    assert status_of(answer) == 400
    assert "an address may have 100 parameters; send fewer" in answer


async def test_what_needs_no_token(service: Service) -> None:
    """Whether it is alive and ready, and what it can do, is told to all."""
    client = service.client(None)
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert (await client.get(path)).status == 200
    for path in ("/v1/tools", "/metrics", "/nix", "/healthz/x"):
        assert (await client.get(path)).status == 401


async def test_a_token_that_is_taken_back(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken any more, also on a connection that is open."""
    ann = service.client("ann")
    assert (await ann.get("/v1/tools")).status == 200
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    service.app._guarded._auth._next_look = 0.0  # type: ignore[union-attr]
    await asyncio.to_thread(write_tokens, tmp_path / "tokens.json", {"bob": {}})
    assert (await ann.get("/v1/tools")).status == 401
    assert (await service.client("bob").get("/v1/tools")).status == 200


async def test_bodies_that_are_too_large(service: Service, engine: ToolEngine) -> None:
    """It is said before they come, or as soon as too much has come."""
    line = "POST /v1/tools/note/calls"
    told = await speak(service.url, head(line, TOKEN, JSON, f"Content-Length: {5 << 20}\r\n"))
    assert status_of(told) == 413
    chunk = b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
    start = head(line, TOKEN, JSON, "Transfer-Encoding: chunked\r\n").encode()
    many = await speak(service.url, start + chunk * 4 + b"1\r\n \r\n", until_end=False)
    assert status_of(many) == 413
    assert await engine.query_call_records() == []


@pytest.mark.parametrize(
    "text",
    [
        head(
            "POST /v1/tools/add/calls",
            TOKEN,
            JSON,
            "Content-Length: 2\r\n",
            "Content-Length: 3\r\n",
        ),
        head("POST /v1/tools/add/calls", TOKEN, JSON, "Content-Length: x\r\n"),
        head("POST /v1/tools/add/calls", TOKEN, JSON, "Content-Length: -1\r\n"),
        head("POST /v1/tools/add/calls", TOKEN, JSON, "Transfer-Encoding: chunked, gzip\r\n"),
        head("POST /v1/tools/add/calls", TOKEN, JSON, "Transfer-Encoding: chunked\r\n") + "zz\r\n",
        "GET /v1/tools HTTP/9.9\r\n\r\n",
        "\x16\x03\x01",
        "GET /" + "a" * 100_000,
    ],
)
async def test_requests_that_can_be_read_in_two_ways(
    service: Service, engine: ToolEngine, text: str
) -> None:
    """They are refused, and the connection is closed: nothing behind them is read."""
    behind = "GET /v1/engine HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    answer = await speak(service.url, text + behind)
    assert answer.count("HTTP/1.1") <= 1
    assert answer == "" or status_of(answer) in (400, 411, 421, 501)
    assert await engine.query_call_records() == []


async def test_a_head_that_never_comes_whole(
    engine: ToolEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that sends no request is closed; one that has sent one is not."""
    monkeypatch.setattr(client_connection, "_HEAD_LIMIT", 0.2)
    tokens = write_tokens(tmp_path / "tokens.json")
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens))
    async with served(app) as service:
        for text in ("", "GET /v1/tools HTTP/1.1\r\nHost: 127.0"):
            assert await speak(service.url, text) == ""
        body = {"timeout": 0.6}
        slow = await service.client("ann").send("POST", "/v1/tools/endless/calls", json=body)
        assert slow.json["error_type"] == "timeout"


async def test_a_body_that_never_comes_whole(
    service: Service, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not waited for without end."""
    monkeypatch.setattr("tool_engine.access.bodies._LONGEST_WAIT", 0.2)
    start = head("POST /v1/tools/add/calls", TOKEN, JSON, "Content-Length: 20\r\n")
    answer = await speak(service.url, start + "{")
    assert status_of(answer) == 408
    assert await engine.query_call_records() == []


async def test_a_client_that_leaves_in_its_body(service: Service, engine: ToolEngine) -> None:
    """Nothing runs, and nothing is left."""
    host, port = service.url.removeprefix("http://").split(":")
    for _ in range(20):
        _, writer = await asyncio.open_connection(host, int(port))
        start = head("POST /v1/tools/add/calls", TOKEN, JSON, "Content-Length: 20\r\n")
        writer.write(start.encode() + b"{")
        await writer.drain()
        writer.close()
    assert (await service.client("ann").get("/v1/tools")).status == 200
    assert await engine.query_call_records() == []


async def test_more_than_may_come(engine: ToolEngine, tmp_path: Path) -> None:
    """Each principal has a rate of its own."""
    tokens = write_tokens(tmp_path / "tokens.json")
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens), rate="3/h")
    async with served(app) as service:
        ann, bob = service.client("ann"), service.client("bob")
        assert [(await ann.get("/v1/tools")).status for _ in range(4)] == [200, 200, 200, 429]
        last = await ann.get("/v1/tools")
        assert last.kind == "too-many-requests"
        assert 3000 < int(last.headers["retry-after"]) <= 3601
        assert (await bob.get("/v1/tools")).status == 200


async def test_what_is_public_has_no_rate(engine: ToolEngine, tmp_path: Path) -> None:
    """Whether it is alive can be asked at any time, whatever all others ask."""
    tokens = write_tokens(tmp_path / "tokens.json")
    for auth in (str(tokens), None):
        app = await asyncio.to_thread(create_app, engine, auth=auth, rate="1/h")
        async with served(app) as service:
            await service.client("ann").get("/v1/tools")
            asked = [await service.client(None).get("/healthz") for _ in range(3)]
            assert [each.status for each in asked] == [200, 200, 200]


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("", "/healthz", 200),
        ("", "/v1/tools", 401),
        ("/api", "/api/healthz", 200),
        ("/api/", "/api/healthz", 200),
        ("/api", "/api/v1/tools", 401),
        ("/api", "/apihealthz", 401),
        ("/api", "/api//healthz", 401),
        ("/healthz", "/healthz/v1/tools", 401),
        ("/healthz", "/healthz/healthz", 200),
    ],
)
async def test_an_app_in_an_app(
    engine: ToolEngine, tmp_path: Path, root: str, path: str, status: int
) -> None:
    """What is public is so below the path that it is mounted at, and nothing else is."""
    tokens = write_tokens(tmp_path / "tokens.json")
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens))

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": root}, receive, send)

    mounted.end = app.end  # type: ignore[attr-defined]
    async with served(mounted) as service:
        assert (await service.client(None).get(path)).status == status


async def test_a_verifier_that_fails(engine: ToolEngine) -> None:
    """A mistake in who knows the tokens lets no one in, and is a problem as any other."""

    class Broken:
        async def find_principal(self, token: str) -> Any:
            if token == "token-of-ann":
                raise RuntimeError("no database")
            return "olga"

    async with served(create_app(engine, auth=Broken())) as service:
        for name in ("ann", "olga"):
            answer = await service.client(name).get("/v1/tools")
            assert (answer.status, answer.kind) == (500, "server-error")
            assert "database" not in answer.text


@pytest.fixture
async def open_service(engine: ToolEngine) -> AsyncIterator[Service]:
    async with served(create_app(engine)) as service:
        yield service


async def test_without_tokens(open_service: Service) -> None:
    """This machine may do all, and still no page of another origin."""
    client = open_service.client(None)
    assert (await client.get("/v1/engine")).status == 200
    assert (await client.call("add", a=1, b=2)).json["output"] == {"result": 3}
    evil = await client.send("GET", "/v1/tools", headers={"origin": "http://evil.example"})
    assert evil.status == 403


@pytest.mark.parametrize(
    "line",
    [
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-For: 203.0.113.7",
        "Forwarded: for=203.0.113.7",
        "X-Real-IP: 203.0.113.7",
        "Via: 1.1 proxy",
    ],
)
async def test_without_tokens_no_proxy_is_heard(open_service: Service, line: str) -> None:
    """One of this machine speaks for others."""
    answer = await speak(open_service.url, head("GET /v1/tools", f"{line}\r\n"))
    assert status_of(answer) == 403
    assert "not-local" in answer


async def test_without_tokens_others_are_not_heard(engine: ToolEngine) -> None:
    """An app that is served elsewhere without tokens answers no other machine."""
    app = create_app(engine)
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/tools",
        "raw_path": b"/v1/tools",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("10.0.0.7", 4711),
    }

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, send)
    assert sent[0]["status"] == 403


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"auth": 7}, "auth must be a token file or have find_principal"),
        ({"auth": "/nix/tokens"}, "the token file '/nix/tokens' cannot be read"),
        ({"rate": "many"}, "rate: not a rate: 'many'; write it as 10/s"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], says: str) -> None:
    """What would be served otherwise than it was meant is refused."""
    with pytest.raises(ConfigurationError) as caught:
        create_app(ToolEngine(), **given)
    assert says in str(caught.value)
    with pytest.raises(ConfigurationError, match="engine must be a ToolEngine"):
        create_app("engine")  # type: ignore[arg-type]


async def test_a_token_goes_no_further() -> None:
    """Whatever the app behind the guard logs of its request, the token is not in it."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    class Known:
        async def find_principal(self, token: str) -> Principal | None:
            return Principal("ann", frozenset(SCOPES)) if token == "token-of-ann" else None

    headers = [
        (b"host", b"127.0.0.1"),
        (b"authorization", b"Bearer token-of-ann"),
        (b"x-kept", b""),
    ]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
    nothing = AsyncMock()
    await Guard(app, auth=Known())({**scope, "client": ("127.0.0.1", 1)}, nothing, nothing)
    assert {name: each for name, each in seen[0].items() if "token-of-ann" in repr(each)} == {}
    assert (b"x-kept", b"") in seen[0]["headers"]
    assert seen[0]["sent"][b"x-kept"] == b""
    assert await seen[0]["is_known"]()
