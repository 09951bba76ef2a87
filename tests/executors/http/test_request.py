"""Which request goes out, and what becomes of it when it is redirected."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.request import _parse_planned
from tool_engine.model.parameter import ToolParameter


async def test_request(run: Any, site: Any) -> None:
    """K14: method, headers and body go out; status_code, headers and body come back."""
    output = await run.request(
        url=f"{site.url}/a?b=1#c", method="POST", headers={"X-A": "1", "X-N": 2}, body={"k": "é"}
    )
    assert output["status_code"] == 200
    assert output["headers"]["Content-Type"].startswith("application/json")
    assert output["body"] == {"path": "/a?b=1", "method": "POST"}
    sent = site.requests[0]
    assert (sent.headers["X-A"], sent.headers["X-N"]) == ("1", "2")
    assert sent.headers["Content-Type"] == "application/json"
    assert site.bodies == ['{"k":"é"}'.encode()]


async def test_request_defaults(run: Any, site: Any) -> None:
    """K14: GET without a body; what is null or empty is not sent."""
    output = await run.request(url=site.url, headers=None, body={})
    assert output["body"]["method"] == "GET"
    assert "Content-Type" not in site.requests[0].headers
    assert site.requests[0].headers["User-Agent"] == "tool-engine"
    await run.request(url=site.url, headers={"X-A": None, "user-agent": "own"}, body=None)
    assert "X-A" not in site.requests[1].headers
    assert site.requests[1].headers.getall("User-Agent") == ["own"]


async def test_request_text_body(run: Any, site: Any) -> None:
    """A text is sent as text, with the content type that the call names."""
    await run.request(url=site.url, method="PUT", body="plain")
    assert site.requests[0].headers["Content-Type"] == "text/plain; charset=utf-8"
    await run.request(url=site.url, method="PUT", body="<a/>", headers={"content-type": "text/xml"})
    assert site.requests[1].headers.getall("Content-Type") == ["text/xml"]
    assert site.bodies == [b"plain", b"<a/>"]


@pytest.mark.parametrize(
    "params",
    [
        {"method": "TRACE"},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"Host": "other"}},
        {"headers": {"X": ["a"]}},
        {"method": "POST", "body": {"a": float("nan")}},
        {"method": "POST", "body": {"a": "\ud800"}},
        {"method": "POST", "body": {"a": object()}},
        {"url": "http://user:pw@127.0.0.1/"},
    ],
)
async def test_a_request_that_is_not_sent(run: Any, site: Any, params: dict[str, Any]) -> None:
    """Injection and unsendable values are refused before anything is dialled."""
    with pytest.raises(ToolExecutionError):
        await run.request(**{"url": site.url, **params})
    assert site.requests == []


async def test_declared(run: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """K6: a tool that is only YAML: path, query, headers and body, each encoded for its place."""
    monkeypatch.setenv("SAMPLE_URL", site.url + "/")
    monkeypatch.setenv("SAMPLE_KEY", "k-123456")
    tool = run.make(
        {
            "request": {
                "method": "POST",
                "url": "${env:SAMPLE_URL}/v1/{id}",
                "query": {"q": "{q}", "ids": "{ids}", "gone": "{gone}", "none": "{none}", "n": 1},
                "headers": {"X-Key": "Bearer ${env:SAMPLE_KEY}", "X-Gone": "{gone}"},
                "json": {"id": "{id}", "count": "{count}", "gone": "{gone}"},
            },
            "response": {"select": "path"},
            "allow": run.allow,
        },
        "id",
        *(ToolParameter(n, "string") for n in ("q", "gone", "none")),
        ToolParameter("ids", "array"),
        ToolParameter("count", "integer"),
    )
    params = {"id": "a/ b", "q": "x&y=1", "ids": [1, 2], "none": None, "count": 3}
    assert await run.execute(tool, params) == "/v1/a%2F%20b?q=x%26y%3D1&ids=1&ids=2&n=1"
    sent = site.requests[0].headers
    assert sent["X-Key"] == "Bearer k-123456"
    assert "X-Gone" not in sent
    assert site.bodies == [b'{"id":"a/ b","count":3}']


async def test_declared_without_body_or_query(run: Any, site: Any) -> None:
    """A body whose only parameter is missing is not sent; an empty list adds nothing."""
    tool = run.make(
        {
            "request": {
                "url": site.url + "/?a=1",
                "method": "POST",
                "json": "{body}",
                "query": {"ids": "{ids}"},
            },
            "allow": run.allow,
        },
        ToolParameter("body", "object"),
        ToolParameter("ids", "array"),
    )
    assert (await run.execute(tool, {"ids": []}))["path"] == "/?a=1"
    assert (await run.execute(tool, {"ids": [5]}))["path"] == "/?a=1&ids=5"
    assert site.bodies == [b"", b""]


async def test_a_header_value_cannot_inject(run: Any, site: Any) -> None:
    """A parameter in a header is checked when it is filled in."""
    with pytest.raises(ToolExecutionError, match="control character"):
        await run.declared(
            {"url": site.url, "headers": {"X-A": "{a}"}}, {"a": "x\r\nX-B: injected"}
        )
    assert site.requests == []


async def test_a_variable_that_is_not_set(
    run: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable."""
    monkeypatch.delenv("SAMPLE_KEY", raising=False)
    with pytest.raises(ToolExecutionError, match="SAMPLE_KEY is not set"):
        await run.declared({"url": site.url, "headers": {"X-Key": "${env:SAMPLE_KEY}"}})


async def test_a_parameter_cannot_move_the_host(
    run: Any, site: Any, other_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a parameter holds, the request goes to the definition's host."""
    for value in (f"@{other_site.address}", f"//{other_site.address}", "\\\\x", "?#@:"):
        await run.declared({"url": site.url + "/{x}"}, {"x": value})
    assert len(site.requests) == 4
    assert other_site.requests == []
    monkeypatch.setenv("SAMPLE_URL", "http:")
    with pytest.raises(ToolExecutionError):
        await run.declared({"url": "${env:SAMPLE_URL}//${env:SAMPLE_URL}/{x}"}, {"x": "y"})


async def test_what_is_sent_is_what_was_encoded(run: Any, site: Any) -> None:
    """No parser on the way decodes a part of a parameter: `%3B` is not `;`, `%2B` is not `+`."""
    request = {"url": site.url + "/{x}?y={x}", "query": {"z": "{x}"}}
    value = ";a=b+c@d:e&f,g~é"
    await run.declared(request, {"x": value})
    encoded = "%3Ba%3Db%2Bc%40d%3Ae%26f%2Cg~%C3%A9"
    assert site.requests[0].raw_path == f"/{encoded}?y={encoded}&z={encoded}"


async def test_an_address_with_a_path(run: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a variable holds goes on as it is: the slash at its end, and a query that has begun."""
    for base, url, sent in (
        ("/a/", "${env:SAMPLE_URL}?x={x}", "/a/?x=1&q=2"),
        ("/a/", "${env:SAMPLE_URL}/b/{x}", "/a/b/1?q=2"),
        ("/a", "${env:SAMPLE_URL}?x={x}", "/a?x=1&q=2"),
        ("", "${env:SAMPLE_URL}?x={x}", "/?x=1&q=2"),
    ):
        monkeypatch.setenv("SAMPLE_URL", site.url + base)
        await run.declared({"url": url, "query": {"q": 2}}, {"x": 1})
        assert site.requests[-1].raw_path == sent
    monkeypatch.setenv("SAMPLE_URL", site.url + "/a?k=1")
    await run.declared({"url": "${env:SAMPLE_URL}", "query": {"q": 2}})
    assert site.requests[-1].raw_path == "/a?k=1&q=2"


async def test_a_url_that_a_parameter_makes_too_long(run: Any, site: Any) -> None:
    """The message says how long it is."""
    with pytest.raises(
        ToolExecutionError, match=r"URL is 9\d{3} characters long; the most is 8192"
    ):
        await run.declared({"url": site.url + "/{x}"}, {"x": "a" * 9000})
    assert site.requests == []


def test_the_path_cannot_complete_the_host() -> None:
    """An address that ends inside its port is refused rather than completed by what follows."""
    with pytest.raises(ToolExecutionError, match="change the host"):
        _parse_planned("https://api.example:44", "3/x")


def redirecting(*steps: tuple[int, str]) -> Any:
    remaining = list(steps)

    async def answer(request: web.Request) -> web.Response:
        if not remaining:
            return web.json_response({"method": request.method, "path": request.path})
        status, location = remaining.pop(0)
        return web.Response(status=status, headers={"Location": location} if location else {})

    return answer


@pytest.mark.parametrize(
    ("status", "method", "body_after"), [(303, "GET", b""), (307, "POST", b'{"a":1}')]
)
async def test_redirect(run: Any, site: Any, status: int, method: str, body_after: bytes) -> None:
    """A redirect is followed by hand; 303 becomes a GET without body, 307 keeps both."""
    site.answer = redirecting((status, "/next"))
    output = await run.request(url=site.url, method="POST", body={"a": 1})
    assert output["body"] == {"method": method, "path": "/next"}
    assert site.bodies[1] == body_after
    assert ("Content-Type" in site.requests[1].headers) is bool(body_after)


async def test_too_many_redirects(run: Any, site: Any) -> None:
    """Five are followed, a sixth is not."""
    site.answer = redirecting(*[(302, "/next")] * 5)
    assert (await run.request(url=site.url))["status_code"] == 200
    site.answer = redirecting(*[(302, "/next")] * 6)
    with pytest.raises(ToolExecutionError, match="more than 5 times"):
        await run.request(url=site.url)


async def test_a_redirect_without_location(run: Any, site: Any) -> None:
    """There is nowhere to go, so it is the answer."""
    site.answer = redirecting((302, ""))
    assert (await run.request(url=site.url))["status_code"] == 302


@pytest.mark.parametrize(
    "location",
    ["http://10.0.0.1/", "http://169.254.169.254/latest/", "http://localhost:1/", "file:///etc/x",
     "http://0x7f.1/", "//user:pw@h/"],
)  # fmt: skip
async def test_a_redirect_is_checked(run: Any, site: Any, location: str) -> None:
    """Each hop is checked anew: a public site cannot send a tool into the private network."""
    site.answer = redirecting((302, location))
    with pytest.raises(ToolExecutionError):
        await run.request([site.address], url=site.url)
    assert len(site.requests) == 1


async def test_credentials_do_not_cross_origins(run: Any, site: Any, other_site: Any) -> None:
    """Authorization, cookies and keys stay with the host that they were meant for."""
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "y", "X-A": "z"}
    site.answer = redirecting((302, "/same"), (302, f"{other_site.url}/other"))
    await run.request(url=site.url, headers=headers)
    assert site.requests[1].headers["Authorization"] == "Bearer x"
    crossed = other_site.requests[0].headers
    assert crossed["X-A"] == "z"
    assert not {"Authorization", "Cookie", "X-Api-Key"} & set(crossed)


async def test_a_secret_body_does_not_cross_origins(
    run: Any, site: Any, other_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect that keeps the body is not followed to another host when a secret is in it."""
    monkeypatch.setenv("SAMPLE_KEY", "k-123456")
    request = {"url": site.url, "method": "POST", "json": {"key": "${env:SAMPLE_KEY}"}}
    site.answer = redirecting((307, other_site.url))
    with pytest.raises(ToolExecutionError, match="must not receive the secrets"):
        await run.declared(request)
    assert other_site.requests == []
    site.answer = redirecting((307, other_site.url))
    await run.declared({**request, "json": {"key": "public"}})
    assert other_site.bodies == [b'{"key":"public"}']


async def test_a_secret_in_the_url_does_not_cross_origins(
    run: Any, site: Any, other_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that repeats the query in its redirect does not carry the key to another host."""
    monkeypatch.setenv("SAMPLE_KEY", "k-123/456")
    auth = {"type": "query", "name": "key", "value": "${env:SAMPLE_KEY}"}
    request = {"url": f"{site.url}/a", "auth": auth}
    site.answer = redirecting((302, f"{other_site.url}/a?key=k-123%2F456"))
    with pytest.raises(ToolExecutionError, match="the secret that stands in the URL") as caught:
        await run.declared(request)
    assert other_site.requests == []
    assert "k-123" not in str(caught.value)
    site.answer = redirecting((302, f"{other_site.url}/a?key=public"))
    await run.declared(request)
    assert "key=public" in other_site.requests[0].raw_path
