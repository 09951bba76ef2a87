"""What a call returns for the answer that it got."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tool_engine.errors import ToolExecutionError
from tool_engine.model.content.blocks import read_content
from tool_engine.model.content.pieces import MOST_BYTES, AudioContent, ImageContent


async def test_a_declared_tool_fails_on_an_error_status(run: Any, site: Any) -> None:
    """The message carries the status and the start of the body; the status is in the details."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=422, text="no\nsuch city " + "x" * 1000)

    site.answer = answer
    with pytest.raises(ToolExecutionError) as caught:
        await run.declared({"url": site.url})
    assert str(caught.value).startswith(
        f"{site.address} answered 422 Unprocessable Entity: no such city xxx"
    )
    assert len(str(caught.value)) < 400
    assert caught.value.details == {"status_code": 422}


@pytest.mark.parametrize(
    ("content_type", "body", "select", "value"),
    [
        ("application/json", b'{"a": {"b": [1, 2]}}', "a.b[1]", 2),
        ("application/json", b'{"a": 1}', None, {"a": 1}),
        ("application/json", b'{"a": 1}', "missing", None),
        ("text/plain", b"hello", None, "hello"),
        ("text/plain", b"", None, {"status_code": 200}),
    ],
)
async def test_declared_output(
    run: Any, site: Any, content_type: str, body: bytes, select: str | None, value: Any
) -> None:
    """The output is what `entry.response` selects, else the body, else the status."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type)

    site.answer = answer
    entry: dict[str, Any] = {} if select is None else {"response": select}
    assert await run.declared({"url": site.url}, **entry) == value


@pytest.mark.parametrize("size", [5, 300_000])
@pytest.mark.parametrize(
    ("content_type", "kind"),
    [("image/png", "image"), ("audio/mpeg; rate=8", "audio"), ("image/svg+xml", None)],
)
async def test_images_and_sounds(
    run: Any, site: Any, content_type: str, kind: str | None, size: int
) -> None:
    """A model is shown them; a drawing of letters is text, and other bytes are described."""
    body = b"<" * size if kind is None else b"\x89" * size

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": content_type})

    site.answer = answer
    output = await run.declared({"url": site.url})
    if kind is None:
        assert output == body.decode()
        return
    (content,) = read_content(output)
    assert isinstance(content, ImageContent | AudioContent)
    assert (content.type, content.data) == (kind, body)
    assert content.mime_type == content_type.partition(";")[0]
    assert (await run.request(url=site.url))["body"]["size"] == size


@pytest.mark.parametrize("content_type", ["image/", "audio", "image/p ng", "application/pdf"])
async def test_bytes_of_other_types(run: Any, site: Any, content_type: str) -> None:
    """They are described, whatever a server calls them."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"\x89\xff", headers={"Content-Type": content_type})

    site.answer = answer
    output = await run.declared({"url": site.url})
    assert (output["size"], output["base64"]) == (2, "if8=")


async def test_an_image_that_is_too_large_for_content(run: Any, site: Any) -> None:
    """It is described: no model could be shown it."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(MOST_BYTES + 1), content_type="image/png")

    site.answer = answer
    output = await run.declared({"url": site.url, "max_bytes": 2 * MOST_BYTES})
    assert output["size"] == MOST_BYTES + 1
    assert "left out" in output["note"]


async def test_a_large_declared_output(run: Any, site: Any) -> None:
    """What is too large to be read in the event loop is read beside it, and is the same."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"[" + b"0," * 100_000 + b"7]", content_type="application/json")

    site.answer = answer
    assert await run.declared({"url": site.url}, response="[-1]") == 7


@pytest.mark.parametrize(
    ("content_type", "body", "select", "reason"),
    [
        ("text/html", b'{"a": 1}', "a", "answered with text/html"),
        ("application/json", b"{broken", "a", "says that it answers with JSON, but"),
        ("application/json", b"{broken", None, "says that it answers with JSON, but"),
        ("application/json", b'{"a": 1}', "length(a)", "entry.response does not fit"),
    ],
)
async def test_declared_output_that_is_none(
    run: Any, site: Any, content_type: str, body: bytes, select: str | None, reason: str
) -> None:
    """An answer is never trusted as JSON unless it says so, and is so."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type)

    site.answer = answer
    entry: dict[str, Any] = {} if select is None else {"response": select}
    with pytest.raises(ToolExecutionError, match=reason):
        await run.declared({"url": site.url}, **entry)


async def test_http_request_with_a_selection(run: Any, site: Any) -> None:
    """`entry.response` works for a tool whose call names the URL as well."""
    tool = run.make({"handler": "http_request", "allow": run.allow, "response": "path"}, "url")
    assert await run.execute(tool, {"url": f"{site.url}/x"}) == "/x"


async def test_no_secret_comes_back(run: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that echoes the request hands no secret to the model, on success or failure."""
    monkeypatch.setenv("SAMPLE_KEY", "k-123/456")

    async def answer(request: web.Request) -> web.Response:
        status = int(request.query["status"])
        return web.json_response(
            {"headers": dict(request.headers), "path": request.raw_path}, status=status
        )

    site.answer = answer
    request = {"url": site.url + "/${env:SAMPLE_KEY}", "headers": {"X-Key": "${env:SAMPLE_KEY}"}}
    output = await run.declared({**request, "query": {"status": 200, "k": "${env:SAMPLE_KEY}"}})
    assert "k-123" in site.requests[0].raw_path
    assert "k-123" not in str(output)
    with pytest.raises(ToolExecutionError, match="answered 500") as caught:
        await run.declared({**request, "query": {"status": 500}})
    assert "k-123" not in str(caught.value)
    assert "[hidden]" in str(caught.value)


@pytest.mark.parametrize("filler", ["x" * 290, "x" * 4_085, " " * 4_085, " " * 4_093])
async def test_no_half_of_a_secret_comes_back(
    run: Any, site: Any, monkeypatch: pytest.MonkeyPatch, filler: str
) -> None:
    """A server that echoes a secret where the excerpt of its error ends shows no half of it."""
    monkeypatch.setenv("SAMPLE_KEY", "correct-horse-battery-staple")

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"{filler}{request.headers['X-Key']} was refused", status=500)

    site.answer = answer
    request = {"url": site.url, "headers": {"X-Key": "${env:SAMPLE_KEY}"}}
    with pytest.raises(ToolExecutionError, match="answered 500") as caught:
        await run.declared(request)
    assert "corr" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(400, True), (404, True), (304, False), (500, False)]
    + [(status, False) for status in (408, 409, 423, 425, 429)],
)
async def test_a_refusal_is_final(run: Any, site: Any, status: int, is_final: bool) -> None:
    """The same request would be refused again, unless the answer is a matter of time."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status)

    site.answer = answer
    entries: list[dict[str, Any]] = [{}, {"response": {"pages": {"next": "link"}}}]
    for entry in entries:
        with pytest.raises(ToolExecutionError) as caught:
            await run.declared({"url": site.url}, **entry)
        assert caught.value.is_final is is_final
