"""What a request carries to say who sends it, and where that does not go."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tool_engine.errors import ToolExecutionError
from tool_engine.model.parameter import ToolParameter
from tool_engine.redaction import redact_text

AUTHS: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "bearer", "token": "${env:KEY}"}, "Authorization", "Bearer k-123456"),
    (
        {"type": "basic", "username": "me", "password": "${env:KEY}"},
        "Authorization",
        "Basic " + base64.b64encode(b"me:k-123456").decode(),
    ),
    (
        {"type": "basic", "username": "${env:KEY}", "password": ""},
        "Authorization",
        "Basic " + base64.b64encode(b"k-123456:").decode(),
    ),
    ({"type": "header", "name": "X-Who", "value": "id ${env:KEY}"}, "X-Who", "id k-123456"),
]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k-123456")


@pytest.mark.parametrize(("auth", "header", "value"), AUTHS)
async def test_header(run: Any, site: Any, auth: dict[str, Any], header: str, value: str) -> None:
    """Bearer, basic (RFC 7617) and a header of any name; what was sent is hidden afterwards."""

    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"you": request.headers[header]})

    site.answer = echo
    output = await run.declared({"url": site.url, "auth": auth})
    assert site.requests[0].headers[header] == value
    assert "[hidden]" in output["you"]
    assert value.rpartition(" ")[2] not in redact_text(value)


async def test_query_key(run: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the query is percent-encoded, beside what the query has already."""
    monkeypatch.setenv("KEY", "k&1=2 3")
    auth = {"type": "query", "name": "api key", "value": "${env:KEY}"}
    output = await run.declared({"url": f"{site.url}/?a=1", "auth": auth, "query": {"b": 2}})
    assert dict(site.requests[0].query) == {"a": "1", "b": "2", "api key": "k&1=2 3"}
    assert output["path"] == "/?a=1&b=2&api%20key=[hidden]"


def redirecting(*steps: str) -> Any:
    remaining = list(steps)

    async def answer(_request: web.Request) -> web.Response:
        if not remaining:
            return web.json_response({})
        return web.Response(status=307, headers={"Location": remaining.pop(0)})

    return answer


@pytest.mark.parametrize(("auth", "header", "value"), AUTHS)
async def test_header_stays_with_its_host(
    run: Any, site: Any, other_site: Any, auth: dict[str, Any], header: str, value: str
) -> None:
    """It follows a redirect on the same host, is dropped on the way to another, and does not come
    back when that one redirects to the first."""
    site.answer = redirecting("/same", f"{other_site.url}/other")
    other_site.answer = redirecting(f"{site.url}/back")
    await run.declared({"url": site.url, "auth": auth})
    assert [request.headers.get(header) for request in site.requests] == [value, value, None]
    assert [request.headers.get(header) for request in other_site.requests] == [None]


async def test_query_key_stays_with_its_host(run: Any, site: Any, other_site: Any) -> None:
    """So does a key in the query; where a redirect on the same host names it, it is not doubled."""
    auth = {"type": "query", "name": "key", "value": "${env:KEY}"}
    site.answer = redirecting("/same", "/named?key=k-123456", f"{other_site.url}/other")
    other_site.answer = redirecting("/again", f"{site.url}/back")
    await run.declared({"url": site.url, "auth": auth})
    sent = [request.raw_path for request in site.requests]
    assert sent == ["/?key=k-123456", "/same?key=k-123456", "/named?key=k-123456", "/back"]
    assert [request.raw_path for request in other_site.requests] == ["/other", "/again"]


async def test_a_short_secret_stays_with_its_host(
    run: Any, site: Any, other_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header whose definition takes a secret is dropped, however short the secret is, and so is
    one that takes a secret parameter."""
    monkeypatch.setenv("KEY", "abc")
    site.answer = redirecting(other_site.url)
    request = {"url": site.url, "headers": {"X-A": "${env:KEY}", "X-B": "{pin}", "X-C": "c"}}
    tool = run.make(
        {"request": request, "allow": run.allow}, ToolParameter("pin", "string", secret=True)
    )
    await run.execute(tool, {"pin": "12"})
    assert {"X-A", "X-B", "X-C"} < set(site.requests[0].headers)
    assert {"X-A", "X-B", "X-C"} & set(other_site.requests[0].headers) == {"X-C"}


async def test_a_secret_parameter_in_the_body_stays_with_its_host(
    run: Any, site: Any, other_site: Any
) -> None:
    """A body that holds a secret parameter is not sent to another host."""
    site.answer = redirecting(other_site.url)
    request = {"url": site.url, "method": "POST", "json": {"pin": "{pin}"}}
    tool = run.make(
        {"request": request, "allow": run.allow}, ToolParameter("pin", "string", secret=True)
    )
    with pytest.raises(ToolExecutionError, match="must not receive the secrets"):
        await run.execute(tool, {"pin": "1234"})
    assert other_site.requests == []


async def test_another_name_is_another_host(run: Any, site: Any) -> None:
    """Whoever owns the name may point it elsewhere tomorrow."""
    auth = {"type": "bearer", "token": "${env:KEY}"}
    site.answer = redirecting(f"http://localhost:{site.port}/named")
    run.allow = ["127.0.0.1:*", "localhost:*"]
    await run.declared({"url": site.url, "auth": auth})
    assert [request.headers.get("Authorization") for request in site.requests] == [
        "Bearer k-123456",
        None,
    ]


@pytest.mark.parametrize("value", ["a\r\nX-B: c", "a\nb", "a\x00b"])
async def test_a_secret_that_would_inject(run: Any, site: Any, tmp_path: Path, value: str) -> None:
    """A file that was made wrong injects no header, and its text is not in the error."""
    (tmp_path / "key").write_text(value)
    auth = {"type": "bearer", "token": f"${{file:{tmp_path}/key}}"}
    with pytest.raises(ToolExecutionError) as caught:
        await run.declared({"url": site.url, "auth": auth})
    assert "X-B" not in str(caught.value)
    assert site.requests == []


async def test_a_user_name_with_a_colon(
    run: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 7617, 2: the server would take a part of it for the password."""
    monkeypatch.setenv("KEY", "a:b-12345")
    auth = {"type": "basic", "username": "${env:KEY}", "password": "${env:KEY}"}
    with pytest.raises(ToolExecutionError, match=r"user name of entry\.request\.auth has a ':'"):
        await run.declared({"url": site.url, "auth": auth})


async def test_a_file_is_read_for_each_call(run: Any, site: Any, tmp_path: Path) -> None:
    """A secret that is rotated in its file is used from the next call on, without a restart."""
    file = tmp_path / "token"
    auth = {"type": "bearer", "token": f"${{file:{file}}}"}
    for text in ("first-token\n", "second-token\r\n"):
        file.write_text(text, newline="")
        await run.declared({"url": site.url, "auth": auth})
    sent = [request.headers["Authorization"] for request in site.requests]
    assert sent == ["Bearer first-token", "Bearer second-token"]


async def test_a_file_that_is_not_there(run: Any, site: Any, tmp_path: Path) -> None:
    """The error names the file; nothing is sent without the credential."""
    auth = {"type": "header", "name": "X-Key", "value": f"${{file:{tmp_path}/none}}"}
    with pytest.raises(ToolExecutionError, match=r"secret file .*/none cannot be read \(No such"):
        await run.declared({"url": site.url, "auth": auth})
    assert site.requests == []


async def test_files_work_wherever_variables_do(run: Any, site: Any, tmp_path: Path) -> None:
    """URL, query, header and body."""
    for name in ("base", "q", "h", "b"):
        (tmp_path / name).write_text(f"value-{name}\n" if name != "base" else site.url + "\n")
    await run.declared(
        {
            "url": f"${{file:{tmp_path}/base}}/x",
            "method": "POST",
            "query": {"q": f"${{file:{tmp_path}/q}}"},
            "headers": {"X-H": f"${{file:{tmp_path}/h}}"},
            "json": [f"${{file:{tmp_path}/b}}"],
        }
    )
    (request,) = site.requests
    assert (request.raw_path, request.headers["X-H"]) == ("/x?q=value-q", "value-h")
    assert site.bodies == [b'["value-b"]']
