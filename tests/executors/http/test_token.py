"""OAuth 2 client credentials against a real token endpoint and a real service on loopback."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.addresses import AllowList
from tool_engine.executors.http.answer import HTTPAnswer
from tool_engine.executors.http.token import (
    AccessTokenError,
    AccessTokens,
    TokenRequest,
)
from tool_engine.executors.http.url import parse_url
from tool_engine.model.call import ToolExecutionContext
from tool_engine.redaction import redact_text

LIMIT = 10.0
SECRET = "s3cr/t: +value"


class Endpoint:
    """What the token endpoint answers: a new token each time, unless told otherwise."""

    def __init__(self, site: Any) -> None:
        self.site = site
        self.site.answer = self._answer
        self.fetches = 0
        self.fields: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600}
        self.response: Callable[[], web.Response] | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def _answer(self, _request: web.Request) -> web.Response:
        self.fetches += 1
        number = self.fetches
        await self.gate.wait()
        if self.response is not None:
            return self.response()
        return web.json_response({"access_token": f"token-{number}", **self.fields})

    @property
    def forms(self) -> list[dict[str, list[str]]]:
        return [parse_qs(body.decode()) for body in self.site.bodies]


@pytest.fixture
def endpoint(other_site: Any, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    monkeypatch.setenv("CLIENT_ID", "me:you")
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    return Endpoint(other_site)


@pytest.fixture
def tokens_seen(site: Any) -> list[str]:
    """What the service was sent; it takes every token."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response({"ok": True, "you": request.headers.get("Authorization")})

    site.answer = answer
    return seen


def auth(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    return {
        "type": "oauth2",
        "token_url": f"{endpoint.site.url}/token",
        "client_id": "${env:CLIENT_ID}",
        "client_secret": "${env:CLIENT_SECRET}",
        **more,
    }


async def call(run: Any, site: Any, endpoint: Endpoint, **more: Any) -> Any:
    return await run.declared({"url": f"{site.url}/items", "auth": auth(endpoint, **more)})


async def test_a_token_is_fetched_and_sent(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str]
) -> None:
    """RFC 6749, 4.4.2 and 2.3.1: id and secret are form-encoded before they are put in base64."""
    await call(run, site, endpoint, scope=["a", "b"], audience="x", fields={"resource": "r"})
    assert tokens_seen == ["Bearer token-1"]
    (request,) = endpoint.site.requests
    kind, _, encoded = request.headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(encoded)) == ("Basic", b"me%3Ayou:s3cr%2Ft%3A+%2Bvalue")
    assert request.method == "POST"
    assert request.content_type == "application/x-www-form-urlencoded"
    assert endpoint.forms == [
        {
            "grant_type": ["client_credentials"],
            "scope": ["a b"],
            "audience": ["x"],
            "resource": ["r"],
        }
    ]


async def test_client_in_the_body(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str]
) -> None:
    """`client_auth: body` sends id and secret in the form, and no header."""
    await call(run, site, endpoint, client_auth="body")
    assert "Authorization" not in endpoint.site.requests[0].headers
    assert endpoint.forms[0]["client_id"] == ["me:you"]
    assert endpoint.forms[0]["client_secret"] == [SECRET]
    assert tokens_seen == ["Bearer token-1"]


async def test_a_token_is_kept(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str]
) -> None:
    """One token serves later calls; another scope gets another token."""
    for _ in range(3):
        await call(run, site, endpoint)
    await call(run, site, endpoint, scope="other")
    assert tokens_seen == ["Bearer token-1"] * 3 + ["Bearer token-2"]


@pytest.mark.parametrize("expires_in", [0, -5, "x", "NaN", "inf", [1]])
async def test_a_lifetime_that_is_none(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str], expires_in: Any
) -> None:
    """A token of which nobody knows how long it is good serves one call."""
    endpoint.fields["expires_in"] = expires_in
    await call(run, site, endpoint)
    await call(run, site, endpoint)
    assert tokens_seen == ["Bearer token-1", "Bearer token-2"]


async def test_many_calls_fetch_once(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str]
) -> None:
    """Fifty calls that all miss the token fetch it once, though the first of them is cancelled."""
    endpoint.gate.clear()
    async with asyncio.timeout(LIMIT):
        first = asyncio.create_task(call(run, site, endpoint))
        await endpoint.site.received.wait()
        others = [asyncio.create_task(call(run, site, endpoint)) for _ in range(49)]
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        endpoint.gate.set()
        for other in others:
            await other
    assert endpoint.fetches == 1
    assert tokens_seen == ["Bearer token-1"] * 49


async def test_nobody_waits_any_more(run: Any, site: Any, endpoint: Endpoint) -> None:
    """A fetch whose only call was cancelled still ends well, and its token is used."""
    endpoint.gate.clear()
    async with asyncio.timeout(LIMIT):
        first = asyncio.create_task(call(run, site, endpoint))
        await endpoint.site.received.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        endpoint.gate.set()
        await call(run, site, endpoint)
    assert endpoint.fetches == 1


async def test_an_error_that_nobody_waits_for(
    run: Any, site: Any, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not logged as one that was never looked at."""
    endpoint.response = lambda: web.Response(status=500)
    endpoint.gate.clear()
    async with asyncio.timeout(LIMIT):
        first = asyncio.create_task(call(run, site, endpoint))
        await endpoint.site.received.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        fetches = [*run.executor._tokens._fetches.values()]
        endpoint.gate.set()
        await asyncio.wait(fetches)
    del fetches, first
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_refused_token_is_fetched_anew(run: Any, site: Any, endpoint: Endpoint) -> None:
    """A 401 gets another token, once; the call that got it succeeds, and later ones use it."""
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({}, status=401 if "token-1" in seen[-1] else 200)

    site.answer = answer
    await call(run, site, endpoint)
    await call(run, site, endpoint)
    assert seen == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]
    assert endpoint.fetches == 2


async def test_a_service_that_refuses_every_token(run: Any, site: Any, endpoint: Endpoint) -> None:
    """It is asked twice, not for ever, and what it says is the error."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=401, text="not you")

    site.answer = answer
    with pytest.raises(ToolExecutionError, match="answered 401 Unauthorized: not you"):
        await call(run, site, endpoint)
    assert (len(site.requests), endpoint.fetches) == (2, 2)


async def test_many_refused_tokens(run: Any, site: Any, endpoint: Endpoint) -> None:
    """Calls whose token is revoked under them fetch one new token together."""

    async def answer(request: web.Request) -> web.Response:
        is_old = request.headers["Authorization"] == "Bearer token-1"
        return web.json_response({}, status=401 if is_old else 200)

    site.answer = answer
    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(call(run, site, endpoint))
    assert endpoint.fetches == 2


async def test_a_401_after_the_host_was_left(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str]
) -> None:
    """The token does not follow a redirect, not back to its host either, and is not fetched for
    another one."""
    del tokens_seen
    steps = [web.Response(status=302, headers={"Location": f"{endpoint.site.url}/elsewhere"})]
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return steps.pop() if steps else web.json_response({})

    token_answer = endpoint.site.answer

    async def elsewhere(request: web.Request) -> web.Response:
        if request.path == "/token":
            return await token_answer(request)  # type: ignore[no-any-return]
        assert "Authorization" not in request.headers
        return web.Response(status=302, headers={"Location": f"{site.url}/back"})

    site.answer, endpoint.site.answer = answer, elsewhere
    await call(run, site, endpoint)
    assert seen == ["Bearer token-1", None]


async def test_a_401_of_another_host(run: Any, site: Any, endpoint: Endpoint) -> None:
    """A host that a redirect led to gets no token by asking for one."""
    token_answer = endpoint.site.answer
    seen = []

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{endpoint.site.url}/elsewhere"})

    async def elsewhere(request: web.Request) -> web.Response:
        if request.path == "/token":
            return await token_answer(request)  # type: ignore[no-any-return]
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=401)

    site.answer, endpoint.site.answer = answer, elsewhere
    with pytest.raises(ToolExecutionError, match="answered 401"):
        await call(run, site, endpoint)
    assert (seen, endpoint.fetches) == ([None], 1)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (
            lambda: web.json_response({"error": "invalid_client", "said": SECRET}, status=401),
            'answered 401 Unauthorized: {"error": "invalid_client", "said": "[hidden]"}',
        ),
        (lambda: web.Response(text="<html>"), "answered with text/plain, not with JSON"),
        (lambda: web.Response(text="{", content_type="application/json"), "with JSON, but"),
        (lambda: web.json_response([1]), "no access_token"),
        (lambda: web.json_response({"access_token": ""}), "no access_token"),
        (lambda: web.json_response({"access_token": "a\r\nX: y"}), "no access_token"),
        (lambda: web.json_response({"access_token": 7}), "no access_token"),
        (
            lambda: web.json_response({"access_token": "a", "token_type": "mac"}),
            "has the type 'mac'; only Bearer is known",
        ),
        (lambda: web.Response(status=302, headers={"Location": "/"}), "redirect is not followed"),
        (lambda: web.json_response({"access_token": "a" * 70_000}), "larger than 65536 bytes; che"),
    ],
)
async def test_no_token(
    run: Any, site: Any, endpoint: Endpoint, response: Callable[[], web.Response], reason: str
) -> None:
    """The error names the endpoint and the reason; it holds no secret; nothing was sent on."""
    endpoint.response = response
    with pytest.raises(ToolExecutionError) as caught:
        await call(run, site, endpoint)
    message = str(caught.value)
    assert message.startswith(f"no access token from {endpoint.site.address}: ")
    assert reason in message
    assert SECRET not in message
    assert site.requests == []
    endpoint.response = None
    await call(run, site, endpoint)


async def test_a_token_is_hidden(
    run: Any, site: Any, endpoint: Endpoint, tokens_seen: list[str]
) -> None:
    """A service that echoes the token does not hand it to the model, nor to a record."""
    assert (await call(run, site, endpoint))["you"] == "Bearer [hidden]"
    assert tokens_seen == ["Bearer token-1"]
    assert "token-1" not in redact_text("a token-1 b")


async def test_the_endpoint_is_dialled_under_the_same_guard(
    run: Any, site: Any, endpoint: Endpoint
) -> None:
    """The tool's own `allow` decides for the token endpoint, too."""
    run.allow = [site.address]
    with pytest.raises(ToolExecutionError, match="would get the client's secret in clear"):
        await call(run, site, endpoint)
    private = f"https://{endpoint.site.address}/token"
    with pytest.raises(ToolExecutionError, match="not a public address"):
        await call(run, site, endpoint, token_url=private)
    assert endpoint.site.requests == []


async def test_an_endpoint_that_cannot_be_reached(run: Any, site: Any, endpoint: Endpoint) -> None:
    """What went wrong is said in plain words."""
    run.allow = ["127.0.0.1:*"]
    with pytest.raises(ToolExecutionError, match=r"no access token from 127.0.0.1:1: cannot conn"):
        await call(run, site, endpoint, token_url="http://127.0.0.1:1/")


async def test_close_during_a_fetch(run: Any, site: Any, endpoint: Endpoint) -> None:
    """A call that waits for a token ends with an error when its executor is closed."""
    endpoint.gate.clear()
    async with asyncio.timeout(LIMIT):
        waiting = asyncio.create_task(call(run, site, endpoint))
        await endpoint.site.received.wait()
        await run.executor.close()
        with pytest.raises(ToolExecutionError, match="the engine is closing"):
            await waiting
    endpoint.gate.set()
    assert repr(run.executor._tokens) == "AccessTokens(known=0, fetches=0)"


async def test_a_busy_endpoint(run: Any, site: Any, endpoint: Endpoint) -> None:
    """Its `Retry-After` is passed on as the service's own would be."""

    class Owner:
        paused: list[float] = []

        def back_off(self, _call: Any, seconds: float) -> None:
            self.paused.append(seconds)

    class Bound:
        owner = Owner()

    async def nest(*_: Any) -> Any:
        raise AssertionError

    endpoint.response = lambda: web.Response(status=429, headers={"retry-after": "7"})
    tool = run.make(
        {"request": {"url": site.url, "auth": auth(endpoint)}, "allow": ["127.0.0.1:*"]}
    )
    context = ToolExecutionContext().bound_to(Bound(), nest)
    with pytest.raises(AccessTokenError, match="429 Too Many Requests"):
        await run.executor.execute(tool, {}, context)
    assert Owner.paused == [7.0]


class Clock:
    """Seconds that pass when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_request(name: str = "a") -> TokenRequest:
    return TokenRequest(parse_url(f"https://{name}.example/"), (), b"", AllowList())


def answering(
    *expires_in: Any,
) -> tuple[list[int], Callable[[TokenRequest], Awaitable[HTTPAnswer]]]:
    left, posted = list(expires_in), []

    async def post(_wanted: TokenRequest) -> HTTPAnswer:
        posted.append(1)
        fields = {"access_token": f"token-{len(posted)}", "expires_in": left.pop(0)}
        body = json.dumps({key: each for key, each in fields.items() if each is not None})
        return HTTPAnswer(
            200, "OK", {}, "application/json", None, body.encode(), URL("https://a.example")
        )

    return posted, post


@pytest.mark.parametrize(
    ("expires_in", "until"), [(3600, 3570.0), ("3600", 3570.0), (10, 9.0), (None, 270.0)]
)
async def test_a_token_ends_early(expires_in: Any, until: float) -> None:
    """It is not sent in the last 30 seconds of its life, or in the last tenth of a short one."""
    clock = Clock()
    posted, post = answering(expires_in, 3600)
    tokens = AccessTokens(post, clock)
    assert await tokens.get(a_request()) == "token-1"
    clock.now = until - 0.01
    assert await tokens.get(a_request()) == "token-1"
    clock.now = until
    assert await tokens.get(a_request()) == "token-2"
    assert len(posted) == 2


async def test_old_tokens_are_let_go() -> None:
    """Endpoints that are asked no more do not fill the memory."""
    clock = Clock()
    _, post = answering(10, 10)
    tokens = AccessTokens(post, clock)
    await tokens.get(a_request("a"))
    clock.now = 60.0
    await tokens.get(a_request("b"))
    assert repr(tokens) == "AccessTokens(known=1, fetches=0)"


async def test_an_endpoint_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that belongs to nobody has a limit of its own."""
    monkeypatch.setattr("tool_engine.executors.http.token.TOKEN_TIMEOUT", 0.01)

    async def post(_wanted: TokenRequest) -> HTTPAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(LIMIT):
        with pytest.raises(AccessTokenError, match=r"a\.example: no complete answer within 0.01 s"):
            await AccessTokens(post).get(a_request())


async def test_an_error_of_ours() -> None:
    """A defect in the sending is an error of the call by its name, without its details."""

    async def post(_wanted: TokenRequest) -> HTTPAnswer:
        raise KeyError("secret")

    with pytest.raises(AccessTokenError, match=r"a\.example: KeyError$"):
        await AccessTokens(post).get(a_request())
