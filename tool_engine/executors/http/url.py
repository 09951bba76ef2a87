"""May a request be sent to this URL, and where does a redirect lead?

The URL that is checked is the very object that aiohttp dials, so that two parsers can never
disagree on the host.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.addresses import ends_in_number

MAX_URL_LENGTH: Final = 8192
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f-\x9f\\\ud800-\udfff]")
_HOST_NAME: Final = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?", re.ASCII)


def parse_url(text: str) -> URL:
    """Return the URL, its host in the dialled form; refuse ambiguous spellings."""
    if len(text) > MAX_URL_LENGTH:
        raise ToolExecutionError(
            f"the URL is {len(text)} characters long; the most is {MAX_URL_LENGTH}"
        )
    if (unsafe := _UNSAFE.search(text)) is not None:
        raise ToolExecutionError(
            f"the URL has the character {unsafe.group()!a} at position {unsafe.start()}; "
            "percent-encode it"
        )
    try:
        url = URL(text)
        port = url.port
    except (ValueError, IndexError) as error:  # yarl has both for brackets at odd places
        raise ToolExecutionError(f"the URL cannot be read: {error}") from None
    _check_parts(url, port)
    return url.with_fragment(None)


def redirect_target(current: URL, location: str) -> URL:
    """Return the target of a redirect; raise `ToolExecutionError` for a forbidden one.

    A fragment is dropped. From https to http is refused: private data would travel in clear.
    """
    try:
        joined = str(current.join(URL(location)))
    except (ValueError, IndexError) as error:
        raise ToolExecutionError(f"the redirect cannot be read: {error}") from None
    target = parse_url(joined)
    if current.scheme == "https" and target.scheme == "http":
        raise ToolExecutionError(
            f"{current.host_port_subcomponent} redirects from https to http, which is refused"
        )
    return target


def redirect_method(status: int, method: str) -> str:
    """Return the method that follows a redirect (RFC 9110, 15.4)."""
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        return "GET"
    return method


def is_same_party(one: URL, other: URL) -> bool:
    """Return True if a credential for `one` may be sent to `other`.

    That is the same origin, or the same host on its way from http to https.
    """
    if one.origin() == other.origin():
        return True
    return one.raw_host == other.raw_host and (
        (one.scheme, one.port, other.scheme, other.port) == ("http", 80, "https", 443)
    )


def _check_parts(url: URL, port: int | None) -> None:
    if url.scheme not in ("http", "https"):
        raise ToolExecutionError(
            f"the URL must begin with http:// or https://, got {url.scheme or 'no scheme'!r}"
        )
    if url.raw_user is not None or url.raw_password is not None:
        raise ToolExecutionError(
            "the URL must not hold a user name or password; send an Authorization header"
        )
    host = url.raw_host
    if not host:
        raise ToolExecutionError("the URL has no host")
    if not port:
        raise ToolExecutionError("the URL has the port 0, which cannot be dialled")
    _check_host(host)


@lru_cache(maxsize=4096)
def _check_host(host: str) -> None:
    if ":" in host:
        if _is_ip(host, IPv6Address):
            return
        raise ToolExecutionError(f"the URL's host [{host}] is not an IPv6 address without zone")
    if ends_in_number(host):
        if _is_ip(host, IPv4Address):
            return
        raise ToolExecutionError(
            f"the URL's host {host!r} is an odd spelling of an IP address; write four decimal "
            "numbers, such as 93.184.215.14"
        )
    if len(host) > 254 or not _HOST_NAME.fullmatch(host):
        raise ToolExecutionError(f"the URL's host {host!r} is not a host name")


def _is_ip(host: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        address = kind(host)
    except ValueError:
        return False
    return getattr(address, "scope_id", None) is None
