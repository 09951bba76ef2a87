"""Which request does a call send, and what becomes of it when it is redirected?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http_entry import METHODS, RequestPlan
from tool_engine.executors.http_headers import (
    header_problem,
    without_body_headers,
    without_credentials,
)
from tool_engine.executors.http_template import query_text
from tool_engine.executors.http_url import (
    is_same_party,
    parse_url,
    redirect_method,
    redirect_target,
)
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import MISSING, value_text

__all__ = ["HTTPRequest", "request_of_call", "request_of_plan"]


class HTTPRequest(msgspec.Struct):
    """One request, changed from redirect to redirect."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    secrets: SecretScope
    is_body_secret: bool = False

    def redirect(self, status: int, location: str) -> None:
        """Turns this request into the one that follows a redirect.

        Raises:
            ToolExecutionError: The place may not be reached, or must not get the body.
        """
        target = redirect_target(self.url, location)
        method = redirect_method(status, self.method)
        if method != self.method:
            self.body = None
            self.headers = without_body_headers(self.headers)
        if not is_same_party(self.url, target):
            if self.body is not None and self.is_body_secret:
                raise ToolExecutionError(
                    f"{self.url.host_port_subcomponent} redirects to another host, which must not "
                    "receive the secrets in the request body"
                )
            self.headers = without_credentials(self.headers, self.secrets)
        self.method, self.url = method, target


def request_of_call(params: Mapping[str, Any], secrets: SecretScope) -> HTTPRequest:
    """The request of `http_request`: url, method, headers and body as the call gives them.

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
    return _request(method, parse_url(str(params["url"])), headers, body, secrets)


def request_of_plan(
    plan: RequestPlan, params: Mapping[str, Any], secrets: SecretScope
) -> HTTPRequest:
    """The request of a declarative tool, with the call's parameters filled in."""
    origin, rest = plan.url.render(params, secrets)
    query = []
    for name, template in plan.query:
        value = template.render(params, secrets)
        if value is not MISSING and value is not None:
            query.append(query_text(name, value))
    if text := "&".join(part for part in query if part):
        rest += ("&" if "?" in origin + rest else "?") + text
    headers = {}
    for name, header in plan.headers:
        if (rendered := header.render(params, secrets)) is not None:
            headers[name] = rendered
    body = MISSING if plan.json is None else plan.json.render(params, secrets)
    url = _parse_planned(origin, rest)
    request = _request(plan.method, url, headers, None if body is MISSING else body, secrets)
    request.is_body_secret = plan.json is not None and any(
        text.has_secret for text in plan.json.texts
    )
    return request


def _parse_planned(origin: str, rest: str) -> URL:
    url = parse_url(origin + rest)
    if url.origin() != parse_url(origin).origin():
        raise ToolExecutionError("a parameter would change the host that the URL leads to")
    return url


def _request(
    method: str, url: URL, headers: dict[str, str], body: Any, secrets: SecretScope
) -> HTTPRequest:
    for name, value in headers.items():
        if (problem := header_problem(name, value)) is not None:
            raise ToolExecutionError(problem)
    data: bytes | None = None
    if body is not None:
        data, content_type = _encoded(body)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = content_type
    return HTTPRequest(method, url, headers, data, secrets)


def _encoded(body: Any) -> tuple[bytes, str]:
    try:
        if isinstance(body, str):
            return body.encode(), "text/plain; charset=utf-8"
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(), "application/json"
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolExecutionError(f"the request body cannot be sent as JSON: {error}") from None
