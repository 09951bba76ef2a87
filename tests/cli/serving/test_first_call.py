"""At a terminal, `serve` says how a tool is called; in a pipe it says what programs wait for."""

from __future__ import annotations

import json
import shlex
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.approval.people import TOOL
from tests.cli.talking import CTRL_C, at_terminal
from tool_engine.cli.serving.first_call import announce_call
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

ECHO = """name: echo
description: Returns the message.
effect: read
parameters: [{name: message, type: string, required: true, description: What to return}]
entry: {type: builtin, handler: echo}
examples: [{params: {message: it's hi}}]
"""


def test_the_line_that_is_printed_calls_a_tool(tmp_path: Path) -> None:
    """Typed as it stands, in another terminal; and Ctrl-C ends the server."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "echo.yaml").write_text(ECHO)
    with at_terminal(tmp_path, "--no-auth", "--port", "0", command="serve") as screen:
        said = screen.shows("Ctrl-C ends it\r\n")
        line = said.partition("call one: ")[2].partition("\r\n")[0]
        program, _, url, _, header, _, data = shlex.split(line)
        assert program == "curl"
        name, _, value = header.partition(": ")
        request = urllib.request.Request(url, data.encode(), {name: value})  # noqa: S310 - ours
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
            assert json.load(answer)["output"] == {"message": "it's hi"}
        assert f"{url.partition('/v1/')[0]}/openapi.json has all paths" in said
        screen.type(CTRL_C)
        screen.ends()


def tool(name: str, **more: Any) -> Tool:
    return msgspec.structs.replace(TOOL, name=name, examples=[], **{"parameters": [], **more})


def test_a_call_with_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only reads is tried first; what nothing reads is not written."""
    announce_call([tool("say")], "http://h:1", has_tokens=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    wants = [ToolParameter(name="n", type="integer", required=True, description="How many")]
    kept = [*wants, ToolParameter(name="pin", type="string", description="It", secret=True)]
    tools = [
        tool("drop", effect="write"),
        tool("open", effect="read", parameters=kept),
        tool("say", effect="read", parameters=wants),
    ]
    announce_call(tools, "http://h:1", has_tokens=True)
    first, last = capsys.readouterr().err.splitlines()
    assert first == (
        'call one: curl -s http://h:1/v1/tools/say/calls -H "Authorization: Bearer $TOKEN" '
        "-H 'Content-Type: application/json' -d '{\"arguments\": {\"n\": 1}}'"
    )
    announce_call([], "http://h:1", has_tokens=False)
    assert capsys.readouterr().err.splitlines() == [last]
