"""Long answers that come in pages, from servers of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.pages import next_link
from tool_engine.model.parameter import ToolParameter

Answer = Callable[[web.Request, int], web.Response]
TOTAL = 25


def numbers(page: int, size: int = 10) -> list[int]:
    return list(range(TOTAL))[page * size : page * size + size]


@pytest.fixture
def pages(site: Any, run: Any) -> Callable[..., Any]:
    """Reads the pages that `answer` gives for a request and its number."""

    async def read(answer: Answer, url: str = "", **plan: Any) -> Any:
        async def handle(request: web.Request) -> web.Response:
            return answer(request, len(site.requests) - 1)

        site.answer = handle
        select, request = plan.pop("select", None), plan.pop("request", {})
        response: dict[str, Any] = {"pages": plan} | ({"select": select} if select else {})
        return await run.declared({"url": site.url + url, **request}, response=response)

    return read


def linked(request: web.Request, _number: int) -> web.Response:
    page = int(request.query.get("page", "0"))
    last = 10 * (page + 1) >= TOTAL
    link = f'</items?page={page + 1}&q=a%26b>; rel="next", </items?page=2>; rel="last"'
    headers = {} if last else {"Link": link}
    return web.json_response(numbers(page), headers=headers)


def with_url(request: web.Request, _number: int) -> web.Response:
    page = int(request.query.get("page", "0"))
    following = None if 10 * (page + 1) >= TOTAL else f"?page={page + 1}"
    return web.json_response({"data": numbers(page), "links": {"next": following}})


def with_cursor(request: web.Request, _number: int) -> web.Response:
    page = int(request.query.get("cursor", "c0/&")[1:-2])
    following = "" if 10 * (page + 1) >= TOTAL else f"c{page + 1}/&"
    return web.json_response({"data": numbers(page), "cursor": following})


def with_number(request: web.Request, _number: int) -> web.Response:
    page = int(request.query.get("page", "0"))
    has_more = 10 * (page + 1) < TOTAL
    return web.json_response({"data": numbers(page), "has_more": has_more, "page": page + 1})


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        (linked, {"next": "link"}),
        (with_url, {"next": "links.next", "items": "data"}),
        (with_cursor, {"next": "cursor", "cursor_param": "cursor", "items": "data"}),
        (with_number, {"next": "has_more && page", "cursor_param": "page", "items": "data"}),
    ],
)
async def test_all_pages(pages: Any, site: Any, answer: Answer, plan: dict[str, Any]) -> None:
    """The items of all pages in their order, however the server names the next one."""
    found = await pages(answer, **plan)
    assert found == {"items": list(range(TOTAL)), "pages": 3, "is_complete": True}
    assert len(site.requests) == 3


async def test_the_query_of_a_cursor(pages: Any, site: Any) -> None:
    """A cursor takes the place of one that the request has, and leaves the others alone."""
    plan = {"next": "cursor", "cursor_param": "cursor", "items": "data"}
    await pages(with_cursor, "/x?q=a%20b%26", request={"query": {"cursor": "c0/&", "n": 1}}, **plan)
    assert [request.raw_path for request in site.requests] == [
        "/x?q=a%20b%26&cursor=c0%2F%26&n=1",
        "/x?q=a%20b%26&n=1&cursor=c1/%26",
        "/x?q=a%20b%26&n=1&cursor=c2/%26",
    ]


async def test_selection(pages: Any) -> None:
    """`select` is applied once, to the list of the items of all pages."""
    found = await pages(linked, next="link", select="[?@ > `21`]")
    assert found == {"items": [22, 23, 24], "pages": 3, "is_complete": True}
    assert (await pages(linked, next="link", select="length(@)"))["items"] == TOTAL
    with pytest.raises(ToolExecutionError, match=r"entry\.response\.select does not fit"):
        await pages(linked, next="link", select="keys(@)")


async def test_the_limit_on_pages(pages: Any, site: Any) -> None:
    """What is not whole says so, and why."""
    found = await pages(linked, next="link", max_pages=2)
    assert found["items"] == list(range(20))
    assert (found["pages"], found["is_complete"]) == (2, False)
    assert found["note"] == "there are more pages than max_pages=2; ask for less"
    assert len(site.requests) == 2


async def test_five_pages_unless_said(pages: Any, site: Any) -> None:
    """A server that always has more is read five times."""

    def endless(_request: web.Request, number: int) -> web.Response:
        return web.json_response([number], headers={"Link": f"</{number + 1}>; rel=next"})

    assert (await pages(endless, next="link"))["is_complete"] is False
    assert len(site.requests) == 5


@pytest.mark.parametrize(
    ("link", "plan"),
    [
        ("<?page=0>; rel=next", {"next": "link"}),
        (None, {"next": "page", "cursor_param": "page", "items": "data"}),
    ],
)
async def test_a_loop(pages: Any, site: Any, link: str | None, plan: dict[str, Any]) -> None:
    """A page that was read already is not read again; the answer says that it is not whole."""

    def again(_request: web.Request, _number: int) -> web.Response:
        value: Any = [1] if link else {"data": [1], "page": 0}
        return web.json_response(value, headers={"Link": link} if link else {})

    found = await pages(again, "/?page=0", max_pages=50, **plan)
    assert found == {
        "items": [1],
        "pages": 1,
        "is_complete": False,
        "note": "page 1 names a next page that was read already",
    }
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("value", "plan", "reason"),
    [
        ({"a": 1}, {"next": "link"}, r"items finds a dict in the answer of .*, not a list"),
        ({}, {"next": "link", "items": "data"}, r"finds nothing .* write 'the\.path \|\| `\[\]`'"),
        ({"d": [], "n": []}, {"next": "n", "items": "d"}, "next finds a list .*not a URL"),
        ({"d": [], "n": 5}, {"next": "n", "items": "d"}, "next finds a int .*not a URL"),
        ({"d": [], "n": "ftp://h/"}, {"next": "n", "items": "d"}, "must begin with http"),
        ({"d": [], "n": "http://h:99999/"}, {"next": "n", "items": "d"}, "cannot be used"),
        ({"d": [], "n": "http://[::1"}, {"next": "n", "items": "d"}, "cannot be used"),
        ({"d": [], "n": "http://u:p@h/"}, {"next": "n", "items": "d"}, "user name"),
        ({"d": [], "n": "x" * 9000}, {"next": "n", "items": "d"}, "is 90.. characters long"),
        (
            {"d": [], "n": True},
            {"next": "n", "cursor_param": "c", "items": "d"},
            "next finds a bool .*not a cursor",
        ),
        (
            {"d": [], "n": "x" * 5000},
            {"next": "n", "cursor_param": "c", "items": "d"},
            "a cursor of 5000 characters; the most is 4096",
        ),
        ({"d": 1}, {"next": "length(d)", "items": "`[]`"}, "next does not fit the answer"),
    ],
)
async def test_a_page_that_is_none(
    pages: Any, value: Any, plan: dict[str, Any], reason: str
) -> None:
    """What does not fit the definition is an error that says where, never an empty answer."""
    with pytest.raises(ToolExecutionError, match=reason):
        await pages(lambda *_: web.json_response(value), **plan)


async def test_a_later_page_that_fails(pages: Any, site: Any) -> None:
    """Pages that were read are given up when one fails: a part is not the whole."""

    def broken(request: web.Request, number: int) -> web.Response:
        return linked(request, number) if number < 2 else web.Response(status=500, text="oops")

    with pytest.raises(ToolExecutionError, match=r"^page 3: .* answered 500 .*oops") as caught:
        await pages(broken, next="link")
    assert caught.value.details == {"status_code": 500}
    with pytest.raises(ToolExecutionError, match=r"^127.*answered 500"):
        await pages(lambda *_: web.Response(status=500), next="link")


async def test_the_size_of_all_pages(pages: Any, site: Any) -> None:
    """`max_bytes` holds for all pages together."""

    def large(_request: web.Request, number: int) -> web.Response:
        return web.json_response(["x" * 4000], headers={"Link": f"</{number + 1}>; rel=next"})

    with pytest.raises(ToolExecutionError, match=r"page 3: .*larger than 10000 bytes"):
        await pages(large, next="link", request={"max_bytes": 10_000})


@pytest.mark.parametrize("kind", ["link", "url"])
async def test_another_origin(pages: Any, site: Any, other_site: Any, kind: str) -> None:
    """A next page on another origin is refused, before anything is sent there."""

    def elsewhere(_request: web.Request, _number: int) -> web.Response:
        if kind == "url":
            return web.json_response({"items": [1], "next": other_site.url})
        return web.json_response([1], headers={"Link": f"<{other_site.url}/x>; rel=next"})

    plan = {"next": "link"} if kind == "link" else {"next": "next", "items": "items"}
    with pytest.raises(ToolExecutionError, match=r"next page on http://.*is another origin"):
        await pages(elsewhere, request={"headers": {"Authorization": "t-123"}}, **plan)
    assert other_site.requests == []


async def test_a_redirect_to_another_host(
    pages: Any, site: Any, other_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of a host that was redirected to are read without the credentials of the first."""
    monkeypatch.setenv("SAMPLE_KEY", "t-123456")

    async def second(request: web.Request) -> web.Response:
        return linked(request, 0)

    other_site.answer = second
    found = await pages(
        lambda *_: web.Response(status=302, headers={"Location": other_site.url + "/items"}),
        next="link",
        request={"headers": {"X-Mine": "${env:SAMPLE_KEY}"}},
    )
    assert found["is_complete"] is True
    assert "X-Mine" in site.requests[0].headers
    assert len(other_site.requests) == 3
    assert not any("X-Mine" in request.headers for request in other_site.requests)


async def test_parameters(run: Any, site: Any) -> None:
    """The values of a call stay in the request of each page."""

    async def answer(request: web.Request) -> web.Response:
        return with_cursor(request, 0)

    site.answer = answer
    tool = run.make(
        {
            "request": {"url": site.url + "/{kind}", "query": {"q": "{q}"}},
            "response": {"pages": {"next": "cursor", "cursor_param": "cursor", "items": "data"}},
            "allow": run.allow,
        },
        "kind",
        ToolParameter("q", "string"),
    )
    await run.execute(tool, {"kind": "a/b", "q": "x y"})
    assert all(r.raw_path.startswith("/a%2Fb?q=x%20y") for r in site.requests)
    assert len(site.requests) == 3


@pytest.mark.parametrize(
    ("header", "target"),
    [
        ("", None),
        ('<https://h/?page=2>; rel="next"', "https://h/?page=2"),
        ("<a>;rel=prev,<b>;rel=next", "b"),
        ('<a,b>; title="x, <c>; rel=next"; rel="last next"', "a,b"),
        ("<a>; REL=NEXT", "a"),
        ('<a>; rel = "Next"', "a"),
        ('<a>; rel="prev"; rel="next"', None),
        ('<a>; rel="next"; anchor="#elsewhere"', None),
        ('<a>; rel="nextish"', None),
        ("<a>; rel", None),
        (" , ,<a>;rel=up , <b>; rel=next ,", "b"),
        ('<a>; title="\\"; rel=next; "', None),
    ],
)
def test_links(header: str, target: str | None) -> None:
    """RFC 8288: quoted commas, several relations, only the first `rel`, no link from elsewhere."""
    assert next_link(header) == target


@pytest.mark.parametrize("header", ["x", "<a", '<a>; title="', "<" * 10_000])
def test_links_that_cannot_be_read(header: str) -> None:
    """A header that cannot be read is an error: its pages would be lost without a word."""
    with pytest.raises(ToolExecutionError, match="a Link header that cannot be read"):
        next_link(header)


def test_a_link_header_that_is_too_long() -> None:
    """A megabyte of links is no answer, but an attack on the reader."""
    with pytest.raises(ToolExecutionError, match="of 100000 characters; the most is 16384"):
        next_link("<a>, " * 20_000)
