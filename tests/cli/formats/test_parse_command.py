"""`parse` shows what a protocol reads in a reply, and runs nothing."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.protocols.line_protocol import LineDecoder

VCP = """On it.
<<<[TOOL_REQUEST]>>>
tool_name:「始」echo「末」,
message:「始」你好 \x1b[31m「末」,
times:「始」2「末」
<<<[END_TOOL_REQUEST]>>>"""
CUT = "<<<[TOOL_REQUEST]>>>\ntool_name:「始」echo「末」\nmessage:「始」half"


def openai(arguments: str, reason: str = "tool_calls") -> str:
    called = {"name": "echo", "arguments": arguments}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_9", "type": "function", "function": called}],
    }
    return json.dumps({"choices": [{"finish_reason": reason, "message": message}]})


@pytest.fixture
def reply(tmp_path: Path) -> Callable[[str], str]:
    """Writes a reply into a file."""

    def write(text: str) -> str:
        path = tmp_path / "reply.txt"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_calls_for_a_program(command: Callable[..., Any], reply: Callable[[str], str]) -> None:
    """`--json` has every call with its id, arguments, repairs and state, the text and findings."""
    ended = command("parse", "--protocol", "vcp", reply(VCP), "--json")
    assert (ended.code, ended.err) == (0, "")
    (call,) = ended.json["calls"]
    assert (call["tool_name"], call["is_runnable"], call["complete"]) == ("echo", True, True)
    assert call["arguments"] == {"message": "你好 \x1b[31m", "times": 2}
    assert "'times'" in call["repairs"][0]
    assert ended.json["text"].strip() == "On it."
    assert ended.json["protocol"] == "vcp"


def test_calls_for_people(command: Callable[..., Any], reply: Callable[[str], str]) -> None:
    """The same to be read; nothing of a reply steers the terminal."""
    ended = command("parse", "-p", "vcp", reply(VCP))
    assert ended.code == 0
    for word in ("1 call", "1. echo", "你好", "repairs", "On it."):
        assert word in ended.out
    assert "\x1b[31m" not in ended.out


def test_a_call_that_cannot_be_run(
    command: Callable[..., Any], reply: Callable[[str], str]
) -> None:
    """It ends with 1 and says why; so does one that a limit cut although it looks whole."""
    ended = command("parse", "-p", "vcp", reply(CUT))
    assert ended.code == 1
    for word in ("1 of them cannot be run", "cut off, never run", "truncated"):
        assert word in ended.out
    ended = command("parse", "-p", "openai", reply(openai('{"message": "x"}', "length")), "--json")
    assert ended.code == 1
    assert ended.json["calls"][0]["is_runnable"] is False
    assert command("parse", "-p", "openai", reply(openai("{'message': 'x',}"))).code == 0
    ended = command("parse", "-p", "openai", reply("this is no reply"))
    assert ended.code == 1
    assert "malformed_reply" in ended.out


@pytest.mark.parametrize("text", [VCP, CUT, "Hello, 你好.", f"```\n{VCP}\n```"])
def test_in_pieces_it_is_the_same(
    command: Callable[..., Any], reply: Callable[[str], str], text: str
) -> None:
    """`--stream` feeds bytes that are cut anywhere: the calls are those of the whole reply."""
    whole = command("parse", "-p", "vcp", reply(text), "--json")
    pieces = command("parse", "-p", "vcp", reply(text), "--json", "--stream")
    assert pieces.code == whole.code
    assert {**pieces.json, "events": None} == {**whole.json, "events": None}
    kinds = {event["type"] for event in pieces.json["events"]}
    assert kinds <= {
        "tool_call_start",
        "tool_call_chunk",
        "tool_call_end",
        "content_chunk",
        "error",
    }
    shown = command("parse", "-p", "vcp", reply(text), "--stream")
    assert "content_chunk" in shown.out or "tool_call_start" in shown.out


def test_nothing(command: Callable[..., Any], reply: Callable[[str], str]) -> None:
    """An empty reply has no calls, no text and no events."""
    for options in ((), ("--stream",)):
        assert command("parse", "-p", "vcp", reply(""), *options).out.startswith("0 calls")


def test_a_stream_of_a_server(command: Callable[..., Any], reply: Callable[[str], str]) -> None:
    """Raw server-sent events may be fed, too."""
    delta = {"content": "Hello"}
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
              {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]  # fmt: skip
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    for options in ((), ("--stream",)):
        ended = command("parse", "-p", "openai", reply(text), "--json", *options)
        assert (ended.code, ended.json["text"], ended.json["findings"]) == (0, "Hello", [])


def test_from_a_pipe(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file the reply comes from stdin, in whatever bytes."""
    for words in ((), ("-",)):
        stdin = SimpleNamespace(buffer=io.BytesIO(b"\xff plain \x00 text"))
        monkeypatch.setattr(sys, "stdin", stdin)
        ended = command("parse", "-p", "vcp", *words, "--json")
        assert ended.code == 0
        assert "plain" in ended.json["text"]
        assert "no UTF-8" in ended.json["findings"][0]["message"]


def test_without_tools(
    command: Callable[..., Any],
    reply: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The usual folder need not be there; one that was named must be."""
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    monkeypatch.chdir(tmp_path / "tools")
    ended = command("parse", "-p", "vcp", reply(VCP), "--json")
    assert ended.json["calls"][0]["arguments"]["times"] == "2"
    assert command("--tools", "nowhere", "parse", "-p", "vcp", reply(VCP)).code == 2


def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, protocol: str) -> None:
    """Another package offers a protocol `odd`."""
    info = tmp_path / "installed" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tool_engine.protocols]\nodd = {protocol}\n")
    monkeypatch.syspath_prepend(str(info.parent))


def test_a_protocol_of_another_package(
    command: Callable[..., Any],
    reply: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It is there under its name; what breaks in it is told without a traceback."""
    offer(monkeypatch, tmp_path, "tests.protocols.line_protocol:LineProtocol")
    ended = command("parse", "-p", "odd", reply('CALL 1 echo {"a": 1}'), "--json")
    assert ended.json["calls"][0]["arguments"] == {"a": 1}
    assert command("prompt", "-p", "odd", "echo").out.startswith("echo: Returns")
    monkeypatch.setattr(LineDecoder, "feed", None)
    broken = command("parse", "-p", "odd", reply("x"), "--stream")
    assert (broken.code, "the protocol 'lines' failed" in broken.err) == (1, True)
    assert command("parse", "-p", "odd", reply("x")).code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("parse",), "--protocol"),
        (("parse", "-p", "vpc", "reply.txt"), "did you mean 'vcp'"),
        (("parse", "-p", "vcp", "no-such-file"), "cannot read no-such-file"),
    ],
)
def test_a_wrong_command_line(command: Callable[..., Any], words: Any, said: str) -> None:
    """No protocol, one that nobody has, or a file that is not there: 2, and why."""
    ended = command(*words)
    assert ended.code == 2
    assert said in ended.err
