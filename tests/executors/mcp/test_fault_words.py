"""What is wrong with a server is said in plain words, whatever fails in which library."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from tests.executors.mcp.conftest import LIMIT
from tests.executors.mcp.test_hostile_sites import echo, make_answer, send, serving
from tool_engine import ToolEngine
from tool_engine.executors.mcp.mcp_source import MCPSource

BAD_URL = "its url is none of a server; write http://host:port/path or https://"
NO_MESSAGE = "its answer is no message of the protocol"
FOREIGN = ("Error", "pydantic", "codec", "\n", "-327", "_type", "JSONRPC")
"""What stands in words of others."""
KEY = "k3yk3yk3yk3yk3yk3y"


async def fault_of(engine: ToolEngine, **settings: Any) -> str:
    """Why a server cannot be used."""
    await engine.add_source(MCPSource("odd", connect_timeout=LIMIT, **settings))
    ((_, fault),) = engine.load_errors
    words = fault.partition("gives no list: ")[2]
    assert not [each for each in FOREIGN if each in words], words
    return words


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (make_answer(401), "HTTP 401 Something; give its token in `headers`, or `auth`"),
        (make_answer(404), "; correct the path of its url"),
        (make_answer(405), "HTTP 405 Something; correct its url, or its type"),
        (make_answer(500, b"<p>", kind="text/html"), "HTTP 500 Something"),
        (make_answer(400, b"{}"), "HTTP 400 Something"),
        (make_answer(400, b"["), "HTTP 400 Something"),
    ],
)
async def test_answers_of_http(
    engine: ToolEngine, answer: bytes, words: str, transport: str
) -> None:
    """Each status is said with what to do, whichever way the server is reached."""
    async with serving(send(echo)) as site:
        site.refuses = answer
        said = await fault_of(engine, url=site.url, transport=transport)
    assert said.startswith("it refused the connection: HTTP ")
    assert words in said


@pytest.mark.parametrize(
    ("answer", "transport", "words"),
    [
        (
            make_answer(200, b"<p>", kind="text/html"),
            "sse",
            "its answer is no stream of events; correct its url, or its type",
        ),
        (make_answer(200, b'{"jsonrpc": "2.0", "id": 1}'), "http", NO_MESSAGE),
        (make_answer(200, b"["), "http", NO_MESSAGE),
        (make_answer(200, b"data: {}\n\n", kind="text/event-stream"), "http", NO_MESSAGE),
    ],
)
async def test_answers_that_are_none(
    engine: ToolEngine, answer: bytes, transport: str, words: str
) -> None:
    """They are not quoted: what came may be anything."""
    async with serving(send(echo)) as site:
        site.refuses = answer
        assert await fault_of(engine, url=site.url, transport=transport) == words


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:99999/", "http://127.0.0.1:abc/", "http://[::1/", "http://\u2100/"),
        *("ftp://x/", "http://a..b/", f"http://{'a' * 70}.x/", "http://x y/", "http://h\0/"),
    ],
)
async def test_urls_that_are_none(engine: ToolEngine, url: str) -> None:
    """None is dialled, and nothing of it is shown."""
    assert await fault_of(engine, url=url + KEY) == BAD_URL


async def test_an_allow_that_is_none(engine: ToolEngine) -> None:
    """It is the key that is named, not the url."""
    said = await fault_of(engine, url="http://127.0.0.1:9/", allow=["x y"])
    assert said.startswith("its allow is wrong: 'x y' is not host:port; write '127.0.0.1:8080'")


@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"A": f"{KEY}\ud800"}},
        {"command": [sys.executable, "\ud800"]},
        {"cwd": "/a\0"},
    ],
)
async def test_programs_that_cannot_start(engine: ToolEngine, settings: dict[str, Any]) -> None:
    """What no program takes is said, not its value."""
    said = await fault_of(engine, **{"command": [sys.executable], **settings})
    assert said == (
        "its program cannot be started: a text of its command, env or cwd holds a zero byte or "
        "half of a character, or a name of env an equals sign; remove it"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", NO_MESSAGE),
        (', "result": 3', NO_MESSAGE),
        (', "error": {"code": "x"}', NO_MESSAGE),
        (', "result": "\\ud800"', "its answer cannot be read: it is no JSON (unexpected end"),
        (
            ', "error": {"code": -32000, "message": ""}',
            "it refused the connection: it does not say why",
        ),
    ],
)
async def test_lines_that_are_no_messages(engine: ToolEngine, answer: str, words: str) -> None:
    """The answer to a request is read no matter what it lacks."""
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if 'id' in asked:\n"
        f"        print('{{\"jsonrpc\": \"2.0\", \"id\": %d' % asked['id'] + {answer!r} + '}}')\n"
        "        sys.stdout.flush()\n"
    )
    assert (await fault_of(engine, command=[sys.executable, "-c", code])).startswith(words)


@pytest.mark.parametrize("count", [1, 8, 200])
async def test_a_trace_shows_its_last_line(engine: ToolEngine, count: int) -> None:
    """That says what was wrong; what does not fit is left out before it, by whole lines."""
    lines = "".join(f"frame {number} {'x' * 100}\\n" for number in range(count))
    code = f"import sys; sys.stderr.write('{lines}' + 'what was wrong'); sys.exit(3)"
    await engine.add_source(MCPSource("odd", command=[sys.executable, "-c", code]))
    ((_, fault),) = engine.load_errors
    words = fault.partition("its program ended with exit code 3; its last words: ")[2]
    first, *others = words.split(" | ")
    assert others[-1] == "what was wrong"
    assert re.fullmatch(r"(\.\.\. )?frame \d+ x{100}", first)
    assert len(words) < 650
