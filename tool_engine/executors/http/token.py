"""Which access token does a tool send, and when is a new one fetched?

One token serves all calls that send the same to the same endpoint, until shortly before it expires.
Of many calls that miss it at once, one fetches it. The fetch belongs to no call, so that it
outlives the one that began it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import msgspec
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.addresses import AllowList
from tool_engine.executors.http.answer import HTTPAnswer, is_final_status
from tool_engine.executors.http.auth import TokenAuth, basic_value, filled_in
from tool_engine.executors.http.body import BodyError, is_json_type, make_excerpt, read_json
from tool_engine.executors.http.retry_after import pause_asked_for
from tool_engine.executors.http.url import parse_url
from tool_engine.executors.secrets import SecretScope

MAX_TOKEN_BYTES: Final = 64 * 1024
"""The most bytes of an endpoint's answer that are read."""
TOKEN_TIMEOUT: Final = 30.0
"""Seconds for an endpoint's answer."""
_MARGIN: Final = 30.0
_UNSAID_LIFETIME: Final = 300.0
# RFC 6750, 2.1, and the few other visible characters that tokens are made of in practice.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)


class AccessTokenError(ToolExecutionError):
    """A failed fetch; the message names endpoint and reason, never a secret."""

    pause: float | None = None


class TokenRequest(msgspec.Struct, frozen=True):
    """A request to a token endpoint; equal requests share a token."""

    url: URL
    headers: tuple[tuple[str, str], ...]
    body: bytes
    allow: AllowList

    @property
    def place(self) -> str:
        return self.url.host_port_subcomponent or ""


Post = Callable[[TokenRequest], Awaitable[HTTPAnswer]]


def token_request(auth: TokenAuth, secrets: SecretScope, allow: AllowList) -> TokenRequest:
    """Return the request for a token (RFC 6749, 2.3.1 and 4.4.2)."""
    url = parse_url("".join(auth.token_url.render({}, secrets)))
    if url.scheme == "http" and not allow.lists(url.raw_host or "", url.port or 0):
        raise AccessTokenError(
            f"the token endpoint {url.host_port_subcomponent} would get the client's secret in "
            "clear; write https:// into entry.request.auth.token_url, or list it in entry.allow"
        )
    client, secret = filled_in(auth.client_id, secrets), filled_in(auth.client_secret, secrets)
    form = [("grant_type", "client_credentials")]
    form += [(name, filled_in(text, secrets)) for name, text in auth.form]
    headers = [
        ("Accept", "application/json"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ]
    if auth.is_in_body:
        form += [("client_id", client), ("client_secret", secret)]
    else:
        basic = basic_value(quote_plus(client), quote_plus(secret), secrets)
        headers.append(("Authorization", basic))
    return TokenRequest(url, tuple(headers), urlencode(form).encode(), allow)


class AccessTokens:
    def __init__(self, post: Post, clock: Callable[[], float] = time.monotonic) -> None:
        self._post = post
        self._clock = clock
        self._known: dict[TokenRequest, tuple[str, float]] = {}
        self._fetches: dict[
            tuple[asyncio.AbstractEventLoop, TokenRequest], asyncio.Task[tuple[str, float]]
        ] = {}

    def __repr__(self) -> str:
        return f"AccessTokens(known={len(self._known)}, fetches={len(self._fetches)})"

    async def get(self, wanted: TokenRequest, *, refused: str | None = None) -> str:
        """Return the token; fetch it if none is valid or a service `refused` it.

        Raises:
            AccessTokenError: The endpoint cannot be reached, or gives none.
        """
        token, ends_at = self._known.get(wanted, ("", 0.0))
        if token and token != refused and self._clock() < ends_at:
            return token
        fetch = self._start_fetch(wanted)
        # Neither is the fetch cancelled with this call, nor this call with the fetch.
        await asyncio.wait([fetch])
        if fetch.cancelled():
            raise AccessTokenError(f"no access token from {wanted.place}: the engine is closing")
        if (error := fetch.exception()) is not None:
            raise _failure_error(wanted, error)
        return fetch.result()[0]

    def forget(self) -> None:
        self._known = {}

    async def close(self) -> None:
        running = asyncio.get_running_loop()
        self.forget()
        fetches = [task for (loop, _), task in self._fetches.items() if loop is running]
        for task in fetches:
            task.cancel()
        if fetches:
            await asyncio.wait(fetches)

    def _start_fetch(self, wanted: TokenRequest) -> asyncio.Task[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fetch = self._fetches.get((loop, wanted))
        if fetch is None:
            # In a context of its own: one call's context must not follow a token of all calls.
            fetch = loop.create_task(self._fetch_token(wanted), context=Context())
            self._fetches[loop, wanted] = fetch
            fetch.add_done_callback(lambda task: self._forget_fetch(loop, wanted, task))
        return fetch

    def _forget_fetch(
        self,
        loop: asyncio.AbstractEventLoop,
        wanted: TokenRequest,
        task: asyncio.Task[tuple[str, float]],
    ) -> None:
        self._fetches.pop((loop, wanted), None)
        # Consume the error, so that asyncio logs nothing when no call waits for it any more.
        if not task.cancelled():
            task.exception()

    async def _fetch_token(self, wanted: TokenRequest) -> tuple[str, float]:
        async with asyncio.timeout(TOKEN_TIMEOUT):
            answer = await self._post(wanted)
        token, lifetime = _read_token(answer)
        now = self._clock()
        self._known = {key: known for key, known in self._known.items() if known[1] > now}
        self._known[wanted] = token, now + lifetime - min(_MARGIN, lifetime / 10)
        return self._known[wanted]


def _failure_error(wanted: TokenRequest, error: BaseException) -> AccessTokenError:
    """Return a separate error for each waiting call."""
    if isinstance(error, TimeoutError):
        reason = f"no complete answer within {TOKEN_TIMEOUT:g} seconds"
    elif isinstance(error, ToolExecutionError):
        reason = str(error)
    else:
        reason = type(error).__name__
    failure = AccessTokenError(
        f"no access token from {wanted.place}: {reason}",
        is_final=getattr(error, "is_final", False),
    )
    failure.pause = getattr(error, "pause", None)
    return failure


def _read_token(answer: HTTPAnswer) -> tuple[str, float]:
    """Return the token of an answer (RFC 6749, 5.1), and its valid seconds."""
    if not 200 <= answer.status < 300:
        raise _refusal_error(answer)
    if not is_json_type(answer.content_type):
        raise AccessTokenError(
            f"it answered with {answer.content_type or 'no content type'}, not with JSON; check "
            "entry.request.auth.token_url"
        )
    try:
        fields = read_json(answer.body, answer.charset)
    except BodyError as error:
        raise AccessTokenError(f"it says that it answers with JSON, but: {error}") from None
    if not isinstance(fields, dict):
        fields = {}
    token, kind = fields.get("access_token"), fields.get("token_type", "bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise AccessTokenError("its answer has no access_token that can be sent in a header")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise AccessTokenError(f"its token has the type {str(kind)[:40]!r}; only Bearer is known")
    return token, _read_lifetime(fields.get("expires_in"))


def _refusal_error(answer: HTTPAnswer) -> AccessTokenError:
    status = f"it answered {answer.status_line}"
    if 300 <= answer.status < 400:
        return AccessTokenError(
            f"{status}, and a redirect is not followed with a client's secret; write the final "
            "URL into entry.request.auth.token_url"
        )
    said = make_excerpt(answer.body, answer.content_type, answer.charset)
    failure = AccessTokenError(f"{status}: {said}", is_final=is_final_status(answer.status))
    # HTTP/2, and some HTTP/1.1 servers, send lower-case names.
    headers = {name.title(): value for name, value in answer.headers.items()}
    failure.pause = pause_asked_for(answer.status, headers)
    return failure


def _read_lifetime(value: Any) -> float:
    """Return the seconds; some endpoints send a text, and some nothing."""
    if value is None:
        return _UNSAID_LIFETIME
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return seconds if 0.0 < seconds < float("inf") else 0.0
