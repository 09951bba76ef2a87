"""Which request does a call send, and what becomes of it when it is redirected?"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.auth import NO_CREDENTIAL
from tool_engine.executors.http.headers import (
    header_problem,
    without_body_headers,
    without_credentials,
)
from tool_engine.executors.http.idempotency import IDEMPOTENCY_HEADER, idempotency_key
from tool_engine.executors.http.plan_entry import METHODS, RequestPlan
from tool_engine.executors.http.template import query_text
from tool_engine.executors.http.url import (
    MAX_URL_LENGTH,
    is_same_party,
    parse_url,
    redirect_method,
    redirect_target,
)
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import MISSING, value_text
from tool_engine.model.trace import trace_headers

_UNAUTHORIZED: Final = 401


class HTTPRequest(msgspec.Struct):
    """One request, changed from redirect to redirect."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    secrets: SecretScope
    is_body_secret: bool = False
    private_headers: frozenset[str] = frozenset()
    """Lower-case names of headers that only the first host may receive."""
    query_key: str | None = None
    """`name=value`, percent-encoded: a credential that only the first host may receive."""
    renew: Callable[[str], Awaitable[str]] | None = None
    """Replaces the access token that was refused, given here; None: the request has none."""
    token: str | None = None

    def carry(self, token: str) -> None:
        """Send this access token (RFC 6750, 2.1), hidden from now on."""
        self.secrets.hide_value(token)
        self.token = token
        self.headers["Authorization"] = f"Bearer {token}"

    def traced_headers(self) -> dict[str, str]:
        """Return the headers, with a trace's if the host may receive it."""
        propagated = trace_headers(self.url.host or "")
        if not propagated or any(name.lower() in propagated for name in self.headers):
            return self.headers  # a definition's own trace headers are not mixed with ours
        return self.headers | propagated

    async def has_new_token(self, status: int) -> bool:
        """Replace a refused access token, at most once; return True if that worked."""
        if status != _UNAUTHORIZED or self.renew is None or self.token is None:
            return False
        renew, self.renew = self.renew, None
        self.carry(await renew(self.token))
        return True

    def go_to(self, target: URL) -> None:
        """Send the rest of this request to another URL.

        Credentials stay with their host: once the request has left it, they are gone, and do not
        come back when it returns.
        """
        if is_same_party(self.url, target):
            self.url = target if self.query_key is None else _with_key(target, self.query_key)
            return
        if self.body is not None and self.is_body_secret:
            raise ToolExecutionError(
                f"{self.url.host_port_subcomponent} redirects to another host, which must not "
                "receive the secrets in the request body"
            )
        if self.secrets.holds(str(target)):
            raise ToolExecutionError(
                f"{self.url.host_port_subcomponent} redirects to another host, which must not "
                "receive the secret that stands in the URL"
            )
        self.headers = without_credentials(self.headers, self.secrets, self.private_headers)
        self.query_key = self.renew = None
        self.url = target

    def redirect(self, status: int, location: str) -> None:
        target = redirect_target(self.url, location)
        method = redirect_method(status, self.method)
        if method != self.method:
            self.body = None
            self.headers = without_body_headers(self.headers)
        self.method = method
        self.go_to(target)


def request_of_call(params: Mapping[str, Any], secrets: SecretScope) -> HTTPRequest:
    """Return the request of `http_request`, as the call gives it.

    A body that is a text is sent as text, any other as JSON; an empty one of a GET not at all.
    """
    method = str(params.get("method") or "GET").upper()
    if method not in METHODS:
        raise ToolExecutionError(f"method must be one of {', '.join(METHODS)}, got {method[:40]!r}")
    given = params.get("headers") or {}
    headers = {name: value_text(name, value) for name, value in given.items() if value is not None}
    body = params.get("body")
    if body == {} and method in ("GET", "HEAD"):
        body = None
    return _make_checked_request(method, parse_url(str(params["url"])), headers, body, secrets)


def request_of_plan(
    plan: RequestPlan, params: Mapping[str, Any], secrets: SecretScope, call_id: str | None = None
) -> HTTPRequest:
    """Return the filled-in request of a declarative tool; secret files were read before."""
    origin, rest = plan.url.render(params, secrets)
    credential = NO_CREDENTIAL if plan.auth is None else plan.auth.credential(secrets)
    has_query = plan.query or credential.query
    if has_query and (text := _make_query(plan, params, secrets, credential.query)):
        rest += ("&" if "?" in origin + rest else "?") + text
    headers = _make_headers(plan, params, secrets, call_id)
    if credential.header is not None:
        headers[credential.header[0]] = credential.header[1]
    body = MISSING if plan.json is None else plan.json.render(params, secrets)
    url = _parse_planned(origin, rest)
    request = _make_checked_request(
        plan.method, url, headers, None if body is MISSING else body, secrets
    )
    request.is_body_secret = plan.is_body_secret
    request.private_headers = plan.private_headers
    request.query_key = credential.query
    return request


def _make_query(
    plan: RequestPlan, params: Mapping[str, Any], secrets: SecretScope, key: str | None
) -> str:
    query = []
    for name, template in plan.query:
        value = template.render(params, secrets)
        if value is not MISSING and value is not None:
            query.append(query_text(name, value))
    return "&".join(part for part in (*query, key) if part)


def _make_headers(
    plan: RequestPlan, params: Mapping[str, Any], secrets: SecretScope, call_id: str | None
) -> dict[str, str]:
    headers = {}
    for name, header in plan.headers:
        if (rendered := header.render(params, secrets)) is not None:
            headers[name] = rendered
    if plan.idempotency_key is not None:
        headers[IDEMPOTENCY_HEADER] = idempotency_key(plan.idempotency_key, params, call_id)
    return headers


def _with_key(url: URL, key: str) -> URL:
    """Add the credential again: redirects on the same host seldom repeat it."""
    name = key.partition("=")[0]
    query = url.raw_query_string
    if any(entry.partition("=")[0] == name for entry in query.split("&")):
        return url
    return parse_url(f"{url}{'&' if query else '?'}{key}")


def _parse_planned(origin: str, rest: str) -> URL:
    """Return the URL, with `rest` sent exactly as it was percent-encoded.

    A parser that decodes `%3B` to `;` would let a parameter write `..;`, which some servers take
    for `..`.
    """
    start, is_in_query = _parse_origin(origin)
    if rest and rest[0] not in ("&" if is_in_query else "/?"):
        raise ToolExecutionError("a parameter would change the host that the URL leads to")
    if len(start) + len(rest) > MAX_URL_LENGTH:
        raise ToolExecutionError(
            f"the URL is {len(start) + len(rest)} characters long; the most is {MAX_URL_LENGTH}"
        )
    return URL(start + rest, encoded=True)


@lru_cache(maxsize=256)
def _parse_origin(origin: str) -> tuple[str, bool]:
    """Return a URL's start in dialled form, and True if its query has begun."""
    url = parse_url(origin)
    text = str(url)
    if not origin.endswith("/"):
        text = text.removesuffix("/")
    return text, bool(url.raw_query_string)


def _make_checked_request(
    method: str, url: URL, headers: dict[str, str], body: Any, secrets: SecretScope
) -> HTTPRequest:
    for name, value in headers.items():
        if (problem := header_problem(name, value)) is not None:
            raise ToolExecutionError(problem)
    data: bytes | None = None
    if body is not None:
        data, content_type = _encode_body(body)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = content_type
    return HTTPRequest(method, url, headers, data, secrets)


def _encode_body(body: Any) -> tuple[bytes, str]:
    try:
        if isinstance(body, str):
            return body.encode(), "text/plain; charset=utf-8"
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(), "application/json"
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolExecutionError(f"the request body cannot be sent as JSON: {error}") from None
