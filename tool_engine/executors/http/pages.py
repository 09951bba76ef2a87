"""How are the pages of a long answer joined, and when is it complete?

A server may name the next page in its `Link` header (RFC 8288), as a URL in the body, or by a
cursor that is sent with the next request. Servers may be hostile: a next page must be on the same
host, a repeated page ends the reading, and the number of pages is limited.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec
from jmespath.parser import ParsedResult
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.answer import (
    HTTPAnswer,
    check_success,
    json_of,
    run_apart,
    search_value,
)
from tool_engine.executors.http.request import HTTPRequest
from tool_engine.executors.http.response_entry import PagesPlan
from tool_engine.executors.http.template import query_text
from tool_engine.executors.http.url import is_same_party, parse_url

_NEXT: Final = "entry.response.pages.next"
_ITEMS: Final = "entry.response.pages.items"
_MAX_CURSOR: Final = 4096
_MAX_LINK: Final = 16 * 1024
# <target>, then parameters, up to a comma; no character can be read in two ways.
_LINK: Final = re.compile(
    r"[\s,]*+<(?P<target>[^<>]*+)>"
    r"(?P<parameters>[^\",]*+(?:\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"[^\",]*+)*)(?:,|\Z)"
)
_END: Final = re.compile(r"[\s,]*+\Z")
_PARAMETER: Final = re.compile(
    r";\s*+(?P<name>[^\s=;\"]++)\s*+"
    r"(?:=\s*+(?:\"(?P<quoted>[^\"\\]*+(?:\\.[^\"\\]*+)*)\"|(?P<token>[^\s;\"]*+)))?"
)

Make = Callable[[], Awaitable[HTTPRequest]]
Fetch = Callable[[HTTPRequest], Awaitable[HTTPAnswer]]


class _Page(msgspec.Struct, frozen=True):
    items: list[Any]
    next: str | None
    """A URL or a cursor; None: this was the last page."""


async def read_pages(
    make: Make, plan: PagesPlan, select: ParsedResult | None, fetch: Fetch
) -> dict[str, Any]:
    """Return the items of all pages, in order.

    Args:
        make: Makes the request for the first page.
        plan: How the pages are read.
        select: Applied once, to the list of all items.
        fetch: Sends a request and turns it into the one that was answered, after redirects.

    Returns:
        `items`, `pages` (how many were read) and `is_complete`, with a `note` where it is false.

    Raises:
        ToolExecutionError: A page fails, is not what the definition says, or names a next page on
            another host. Earlier pages are discarded.
    """
    request, items, size = await make(), [], 0
    seen = {str(request.url)}
    note = f"there are more pages than max_pages={plan.max_pages}; ask for less"
    for number in range(1, plan.max_pages + 1):
        try:
            answer = await fetch(request)
            check_success(answer)
            page = await run_apart(len(answer.body), _read_page, answer, plan)
        except ToolExecutionError as error:
            if number == 1:
                raise
            raise error.reworded(f"page {number}: {error}") from None
        items += page.items
        size += len(answer.body)
        if page.next is None:
            note = ""
            break
        request = await _next_request(make, request, page.next, plan)
        if str(request.url) in seen:
            note = f"page {number} names a next page that was read already"
            break
        seen.add(str(request.url))
    found = items
    if select is not None:
        found = await run_apart(
            size, search_value, select, items, "entry.response.select", answer.origin
        )
    output = {"items": found, "pages": number, "is_complete": not note}
    return output | {"note": note} if note else output


def next_link(header: str) -> str | None:
    """Return the target of the relation `next` in a `Link` header, or None."""
    if len(header) > _MAX_LINK:
        raise ToolExecutionError(
            f"the answer has a Link header of {len(header)} characters; the most is {_MAX_LINK}"
        )
    position = 0
    while not _END.match(header, position):
        match = _LINK.match(header, position)
        if match is None:
            raise ToolExecutionError(
                f"the answer has a Link header that cannot be read, at character {position}"
            )
        if _is_next(match["parameters"]):
            return match["target"]
        position = match.end()
    return None


def _is_next(parameters: str) -> bool:
    relations: list[str] | None = None
    for match in _PARAMETER.finditer(parameters):
        name = match["name"].lower()
        if name == "anchor":
            return False  # a link from another place
        if name == "rel" and relations is None:  # only the first one counts
            relations = (match["quoted"] or match["token"] or "").lower().split()
    return "next" in (relations or ())


def _read_page(answer: HTTPAnswer, plan: PagesPlan) -> _Page:
    value = json_of(answer)
    items = search_value(plan.items, value, _ITEMS, answer.origin)
    if not isinstance(items, list):
        what = "nothing" if items is None else f"a {type(items).__name__}"
        raise ToolExecutionError(
            f"{_ITEMS} finds {what} in the answer of {answer.origin}, not a list; where the server "
            "leaves out an empty list, write 'the.path || `[]`'"
        )
    if plan.next is None:
        headers = {name.lower(): text for name, text in answer.headers.items()}
        return _Page(items, next_link(headers.get("link", "")))
    found = search_value(plan.next, value, _NEXT, answer.origin)
    if found is None or found is False or found == "":
        return _Page(items, None)
    is_whole = isinstance(found, int) and not isinstance(found, bool)
    if isinstance(found, str) or (is_whole and plan.cursor_param is not None):
        return _Page(items, str(found))
    raise ToolExecutionError(
        f"{_NEXT} finds a {type(found).__name__} in the answer of {answer.origin}, not a "
        f"{'URL' if plan.cursor_param is None else 'cursor'}"
    )


async def _next_request(
    make: Make, current: HTTPRequest, found: str, plan: PagesPlan
) -> HTTPRequest:
    if plan.cursor_param is not None:
        if len(found) > _MAX_CURSOR:
            raise ToolExecutionError(
                f"{_NEXT} finds a cursor of {len(found)} characters; the most is {_MAX_CURSOR}"
            )
        request = await make()
        request.url = _with_entry(request.url, plan.cursor_param, found)
        return request
    try:
        target = parse_url(str(current.url.join(URL(found))))
    except (ValueError, IndexError, ToolExecutionError) as error:
        raise ToolExecutionError(f"the next page's URL cannot be used: {error}") from None
    if not is_same_party(current.url, target):
        raise ToolExecutionError(
            f"{current.url.host_port_subcomponent} names a next page on "
            f"{target.scheme}://{target.host_port_subcomponent}, which is another origin; it is "
            "not followed"
        )
    current.go_to(target)
    return current


def _with_entry(url: URL, name: str, value: str) -> URL:
    others = [
        entry
        for entry in url.raw_query_string.split("&")
        if entry and unquote_plus(entry.partition("=")[0]) != name
    ]
    query = "&".join([*others, query_text(name, value)])
    return parse_url(f"{url.with_query(None)}?{query}")
