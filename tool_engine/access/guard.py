"""Which requests reach an app, and for whom?

The checks stand in the order that says least: the address first, then who asks, and what is
asked last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from time import monotonic
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from tool_engine.access.bodies import LONGEST, LONGEST_WAIT, read_body, replay_body
from tool_engine.access.principal import SCOPES, Principal
from tool_engine.access.rates import Rates

_SCHEME: Final = "bearer "
_JSON: Final = b"application/json"
_LOCAL: Final = Principal("local", frozenset(SCOPES))
"""Who asks where no tokens are asked for."""
_OWN_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_OWN_CLIENTS: Final = ("127.0.0.1", "::1")
_SECRETS: Final = frozenset(("access_token", "api_key", "apikey", "authorization", "key", "token"))
"""Parameters of an address that would end up in logs."""
_SAFE: Final = ("GET", "HEAD", "OPTIONS")

Refuse = Callable[[int, str, str, dict[str, str]], tuple[int, bytes, dict[str, str]]]
"""Makes an answer of a status, the kind of problem, its detail, and headers."""


class Verifier(Protocol):
    """Knows tokens: `TokenFile`, `JWTVerifier`, or your own."""

    async def find_principal(self, token: str) -> Principal | None:
        """Return who a token belongs to; None: it is not taken."""


class Guard:
    """An ASGI app that passes on the requests that may reach another one.

    What passes has its principal in `scope["principal"]`; its token goes no further.

    Args:
        app: What is guarded.
        auth: Knows tokens; None: none are asked for, and only this machine is heard.
        allowed_hosts: The names under which it may be reached, as `HOST` or `HOST:PORT`, beside
            those of this machine.
        allowed_origins: The origins of pages that may use it, beside its own.
        refuse: Makes the answer of what does not pass.
        public: Paths that need no token.
        rates: How many requests a principal may send; None: any number.
    """

    def __init__(
        self,
        app: Any,
        *,
        auth: Verifier | None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        refuse: Refuse,
        public: Collection[str] = (),
        rates: Rates | None = None,
    ) -> None:
        self._app = app
        self._auth = auth
        self._hosts = frozenset(each.lower() for each in (*_OWN_HOSTS, *allowed_hosts))
        self._origins = frozenset(each.lower().rstrip("/") for each in allowed_origins)
        self._refuse = refuse
        self._public = frozenset(public)
        self._rates = rates

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing here speaks by sockets; the server refuses what is not accepted
        try:
            principal = await self._check_request(scope)
            receive = await self._take_body(scope, receive)
        except _Refused as refused:
            await _send_answer(send, self._refuse(*refused.answer))
            return
        if receive is None:
            return  # its client has left
        await self._app({**scope, "principal": principal}, receive, send)

    async def _check_request(self, scope: Any) -> Principal:
        headers = scope["headers"]
        self._check_host(headers)
        self._check_origin(scope)
        query = scope["query_string"].decode("latin-1")
        for name, _ in parse_qsl(query, keep_blank_values=True) if query else ():
            if name.lower() in _SECRETS:
                raise _Refused(
                    400,
                    "secret-in-address",
                    f"{name[:40]!r} in the address would end up in logs; send the header "
                    "Authorization: Bearer",
                )
        principal = await self._find_principal(scope)
        if self._rates is not None:
            wait = self._rates.count(principal.name, monotonic())
            if wait > 0:
                raise _Refused(
                    429,
                    "too-many-requests",
                    f"more requests than {self._rates.text} have come; send less",
                    {"retry-after": str(int(wait) + 1)},
                )
        return principal

    def _check_host(self, headers: Any) -> None:
        sent = [value for name, value in headers if name == b"host"]
        host = sent[0].decode("latin-1").lower() if len(sent) == 1 else ""
        name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts and host not in self._hosts:
            raise _Refused(
                421,
                "unknown-host",
                "this server does not answer under that name; name it in allowed_hosts",
            )

    def _check_origin(self, scope: Any) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        sent, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"none").lower()
        origin = None if sent is None else sent.decode("latin-1").lower()
        if origin is not None and origin not in self._origins:
            named = urlsplit(origin)
            is_own = named.netloc == headers[b"host"].decode("latin-1").lower()
            if named.scheme not in ("http", "https") or not is_own:
                raise _Refused(
                    403, "foreign-origin", "pages of another origin may not use this server"
                )
        if site not in (b"none", b"same-origin") and origin not in self._origins:
            raise _Refused(403, "foreign-origin", "pages of another site may not use this server")

    async def _find_principal(self, scope: Any) -> Principal:
        if self._auth is None:
            client = scope.get("client")
            if client is None or client[0] not in _OWN_CLIENTS:
                raise _Refused(403, "not-local", "without tokens only this machine is heard")
            return _LOCAL
        if scope["path"] in self._public:
            return Principal("", frozenset(), ())
        token = read_token(scope)
        found = None if token is None else await self._auth.find_principal(token)
        if found is None:
            raise _Refused(
                401,
                "unknown-token",
                "send a known token in one header Authorization: Bearer",
                {"www-authenticate": "Bearer" if token is None else 'Bearer error="invalid_token"'},
            )
        return found

    async def _take_body(self, scope: Any, receive: Any) -> Any:
        """Return what gives the body to the app; None: the client has left."""
        if scope["method"] in _SAFE:
            return receive
        sent: dict[bytes, bytes] = dict(scope["headers"])
        length = sent.get(b"content-length", b"0")
        if length == b"0" and b"transfer-encoding" not in sent:
            return receive
        kind = sent.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != _JSON:
            raise _Refused(
                415, "wrong-type", "a body must be JSON; send Content-Type: application/json"
            )
        if len(length) > 9 or int(length) > LONGEST:
            raise _make_too_large()
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                body = await read_body(receive, LONGEST)
        except TimeoutError:
            raise _Refused(
                408, "late-body", "the body did not come in time; send it again"
            ) from None
        if body is None:
            return None
        if len(body) > LONGEST:
            raise _make_too_large()
        return replay_body(body, receive)


def read_token(scope: Any) -> str | None:
    """Return the token of a request; None: it has none, or more than one."""
    sent = [value for key, value in scope["headers"] if key == b"authorization"]
    if len(sent) != 1:
        return None
    text = sent[0].decode("latin-1")
    return text[len(_SCHEME) :].strip() if text[: len(_SCHEME)].lower() == _SCHEME else None


class _Refused(Exception):  # noqa: N818 - an answer, not a failure of this program
    def __init__(
        self, status: int, kind: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.answer = status, kind, detail, headers or {}


def _make_too_large() -> _Refused:
    return _Refused(413, "too-large", f"a body may have {LONGEST >> 20} MiB; send less")


async def _send_answer(send: Callable[[Any], Awaitable[None]], answer: Any) -> None:
    status, body, headers = answer
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    raw.append((b"content-length", b"%d" % len(body)))
    # What else the client sends is not read any more.
    raw.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
