"""Which requests reach an app, and for whom?

The checks stand in the order that says least: the address first, then who asks, and what is
asked last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from tool_engine.access.bodies import announces_body, discard_body, has_body, read_body, replay_body
from tool_engine.access.heads import (
    check_address,
    find_path,
    read_headers,
    read_token,
    split_path,
)
from tool_engine.access.hosts import Hosts, is_of_this_machine
from tool_engine.access.open_requests import OpenRequests
from tool_engine.access.pages import Pages, answer_preflight, check_own, is_preflight
from tool_engine.access.principal import SCOPES, Principal
from tool_engine.access.problem import Problem, make_unknown, send_problem
from tool_engine.access.rates import Rates
from tool_engine.access.texts import require_texts
from tool_engine.logger import get_logger
from tool_engine.redaction import trace_of

_JSON: Final = b"application/json"
_TOKEN: Final = b"authorization"
_LOCAL: Final = Principal("local", frozenset(SCOPES))
"""Who asks where no tokens are asked for."""
_ANYONE: Final = Principal("", frozenset(), ())
"""Who asks for what is public."""
_log: Final = get_logger(__name__)


class Verifier(Protocol):
    """Knows tokens: `TokenFile`, `JWTVerifier`, or your own."""

    async def find_principal(self, token: str) -> Principal | None:
        """Return who a token belongs to; None: it is not taken."""


class Guard:
    """An ASGI app that passes on the requests that may reach another one.

    What passes has its principal in `scope["principal"]`, and in `scope["is_known"]` a function
    that says whether its token is still taken, for the same, its headers by their names in
    `scope["sent"]`, its path below the app's in `scope["inner_path"]`, and its body in
    `scope["body"]`, beside what `receive` gives; the token itself goes no further.

    Args:
        app: What is guarded.
        auth: Knows tokens; None: none are asked for, and only this machine is heard.
        allowed_hosts: The names under which it may be reached, as `HOST` or `HOST:PORT`, beside
            those of this machine.
        allowed_origins: The origins of pages that may use it, beside its own.
        public: Paths that need no token.
        rates: How many requests a principal may send; None: any number.
        open_requests: How many of them may be open at once; None: any number.

    Raises:
        ConfigurationError: A host or an origin is none, or a list is one text.
    """

    def __init__(
        self,
        app: Any,
        *,
        auth: Verifier | None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        public: Collection[str] = (),
        rates: Rates | None = None,
        open_requests: OpenRequests | None = None,
    ) -> None:
        self._app = app
        self._auth = auth
        self._hosts = Hosts(allowed_hosts)
        self._pages = Pages(allowed_origins)
        self._public = frozenset(require_texts("public", public))
        self._rates = rates
        self._open = open_requests or OpenRequests(None)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # nothing here speaks by sockets
            return
        try:
            sent = read_headers(scope["headers"])
            page = self._pages.find_allowed(sent)
            send = self._pages.mark_answers(page, send)
            host = self._hosts.check_name(sent.get(b"host", b""))
            if page is None:
                check_own(sent, host)
            wants_body = has_body(scope, sent)
            if page is not None and not wants_body and is_preflight(scope["method"], sent):
                await answer_preflight(sent, send)
                return
            check_address(scope["query_string"])
            token, path = read_token(sent), find_path(scope)
            principal = self._find_unnamed(scope, sent, path) or await self._find_named(token)
            self._count_request(principal)
        except Problem as problem:
            await _refuse_request(problem, scope, receive, send)
            return
        try:
            body = b""
            if wants_body:
                found = await _take_body(scope, sent, receive, send, principal)
                if found is None:
                    return
                body, receive = found, replay_body(found, receive)
            sent.pop(_TOKEN, None)
            passed = {
                **scope,
                "headers": [each for each in scope["headers"] if each[0] != _TOKEN],
                "principal": principal,
                "is_known": _KnownToken(self._auth, token, principal),
                "inner_path": path,
                "inner_parts": split_path(scope),
                "body": body,
                "sent": sent,
            }
            await self._app(passed, receive, send)
        finally:
            if principal is not _ANYONE:
                self._open.leave(principal.name)

    def _count_request(self, principal: Principal) -> None:
        """Count a request of who asks; `leave` of the open ones follows.

        Raises:
            Problem: There are too many of them.
        """
        if principal is _ANYONE:
            return
        if self._rates is not None:
            self._rates.check(principal.name)
        self._open.enter(principal.name)

    def _find_unnamed(self, scope: Any, sent: Mapping[bytes, bytes], path: str) -> Principal | None:
        """Return who asks where no token is asked for; None: one is."""
        if self._auth is None and not is_of_this_machine(scope, sent):
            raise Problem(
                403, "not-local", "without tokens only this machine is heard; give out tokens"
            )
        if path in self._public:
            return _ANYONE
        return _LOCAL if self._auth is None else None

    async def _find_named(self, token: str | None) -> Principal:
        """Return who a token belongs to."""
        auth, found = self._auth, None
        if auth is not None and token is not None:
            found = await _verify_token(auth, token)
        if found is None:
            raise make_unknown(is_sent=token is not None)
        return found


class _KnownToken:
    """Says whether a token is still taken, for the same.

    It shows nothing of the token to what prints the request. Those of one token are equal: what
    looks at it for many looks once.
    """

    __slots__ = ("_said",)

    def __init__(self, auth: Verifier | None, token: str | None, principal: Principal) -> None:
        self._said = (auth, token, principal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KnownToken) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said[1])

    async def __call__(self) -> bool:
        auth, token, principal = self._said
        if auth is None or token is None or principal is _ANYONE:
            return True
        try:
            return await _verify_token(auth, token) == principal
        except Problem:
            return False


async def _verify_token(auth: Verifier, token: str) -> Principal | None:
    try:
        found = await auth.find_principal(token)
        if found is not None and not isinstance(found, Principal):
            raise TypeError(f"find_principal must give a Principal or None, got {found!r:.80}")
    except Exception as error:
        _log.error("request_failed", operation="find_principal", error=trace_of(error))
        detail = "the server has failed; its log says how"
        raise Problem(500, "server-error", detail) from error
    return found


async def _refuse_request(problem: Problem, scope: Any, receive: Any, send: Any) -> None:
    """Answer a request that does not pass, then read on what its client still sends."""
    problem.headers["connection"] = "close"
    is_last = not announces_body(scope)
    await send_problem(problem, send, is_last=is_last)
    if not is_last:
        await discard_body(receive)
        await send({"type": "http.response.body", "body": b""})


async def _take_body(
    scope: Any, sent: Mapping[bytes, bytes], receive: Any, send: Any, principal: Principal
) -> bytes | None:
    """Return the body; None: it was refused, or the client has left."""
    try:
        _check_body(sent, principal)
        return await read_body(receive)
    except Problem as problem:
        await _refuse_request(problem, scope, receive, send)
        return None


def _check_body(sent: Mapping[bytes, bytes], principal: Principal) -> None:
    if principal is _ANYONE:
        raise Problem(400, "unwanted-body", "no body belongs here; send none")
    kind = sent.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != _JSON:
        raise Problem(415, "wrong-type", "a body must be JSON; send Content-Type: application/json")
    if b"content-encoding" in sent:
        raise Problem(
            415, "wrong-type", "a body must not be packed; send it without Content-Encoding"
        )
