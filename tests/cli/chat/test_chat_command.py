"""`chat` in a pipe: answers on stdout, the rest on stderr, each mistake with its cure."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.models.servers import Turn, failing, play
from tests.cli.chat.test_turns import SLEEPS, WRITES, calls, folder, kept, script
from tests.cli.talking import WAIT, Said, environment, in_pipe
from tests.warm import Program
from tool_engine.cli.app import run
from tool_engine.model.call import ToolCall

__all__ = ["folder"]

CALCULATES = calls(("calculator", {"expression": "6*7"}), text="I calculate. ")
GROUP = """
kind: group
name: writing
description: Notes.
tools: [write_note]
rules: Write little.
enabled: false
"""


def lines_of(said: Said) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.out.splitlines()]


def test_answers_and_the_way_to_them(folder: Path) -> None:
    """stdout has what the model says; calls and results are beside it; nothing steers."""
    words = script(folder, CALCULATES, {"text": "It is \x1b[31m42\x9b.\r"})
    said = in_pipe(folder, "chat", *words, "What", "is it?")
    assert said.code == 0, said.err
    assert said.out == "I calculate. \nIt is \\x1b[31m42\\x9b.\\x0d\n"
    assert '→ calculator({"expression": "6*7"})\n← calculator: 42 (' in said.err


def test_json_lines(folder: Path) -> None:
    """Each step is one line of JSON, the last one of a turn is `finished` or `error`."""
    said = in_pipe(folder, "chat", *script(folder, CALCULATES, {"text": "42"}), "--json", "go")
    told = lines_of(said)
    assert (said.code, told[-1]["type"], told[-1]["answer"]["text"]) == (0, "finished", "42")
    assert [each["type"] for each in told].count("tool_result") == 1
    fails = in_pipe(folder, "chat", *script(folder), "--json", "go")
    assert fails.code == 1
    assert [each["type"] for each in lines_of(fails)].count("error") == 1


def test_each_line_is_a_turn(folder: Path) -> None:
    """Empty lines are none; bytes that are no text break nothing; a failure ends it."""
    words = script(folder, {"text": "One."}, {"text": "Two."})
    said = in_pipe(folder, "chat", *words, "--session", "s", stdin="a\r\n\n  \nb")
    assert (said.code, said.out) == (0, "One.\nTwo.\n")
    assert [each["content"] for each in kept(folder, "s")] == ["a", "One.", "b", "Two."]
    more = in_pipe(folder, "chat", *words, stdin="a\nb\nc\nd\n")
    assert (more.code, more.out) == (1, "One.\nTwo.\n")
    assert more.err.count("ends after 2 replies") == 1


def test_a_line_without_end(folder: Path) -> None:
    """It is refused before memory is full of it."""
    said = in_pipe(folder, "chat", *script(folder), stdin="x" * 1_200_000)
    assert said.code == 2
    assert "more than 1,000,000 bytes" in said.err


def test_nobody_is_asked_in_a_pipe(folder: Path) -> None:
    """Who cannot be asked has not consented, whatever stdin says."""
    said = in_pipe(folder, "chat", *script(folder, WRITES, {"text": "No."}), stdin="write\ny\n")
    assert "so there is no person to ask" in said.err
    assert not list((folder / "notes").iterdir())


def test_session_goes_on(folder: Path) -> None:
    """The second run has what was said in the first, and what this run says of its settings."""
    first = in_pipe(
        folder, "chat", *script(folder, {"text": "Hi Ada."}), "--session", "s", "I am Ada"
    )
    assert first.code == 0, first.err
    replies = {"text": "You are Ada.", "expect": {"contains": "who"}}
    words = script(folder, CALCULATES, replies)
    known = ("--session", "s", "--confirm", "--max-rounds", "3")
    second = in_pipe(folder, "chat", *words, *known, "who am I?")
    assert "there is no person to ask" in second.err
    assert len(kept(folder, "s")) == 6
    shown = json.loads(in_pipe(folder, "sessions", "show", "s", "--json").out)
    config = shown["data"]["config"]
    assert (config["require_confirmation"], config["max_iterations"]) == (True, 3)
    other = in_pipe(folder, "chat", *words, "--session", "s", "--protocol", "vcp", "hi")
    assert other.code == 2
    assert "was kept for the protocol 'openai'" in other.err
    assert "begin another one" in other.err


def test_deferred_call(folder: Path) -> None:
    """What was asked is kept, can be allowed by another process, and has its time."""
    words = script(folder, WRITES, {"text": "Later."})
    said = in_pipe(folder, "chat", *words, "--session", "s", "--defer", "write")
    assert (said.code, said.out) == (0, "Later.\n")
    (asked,) = json.loads(in_pipe(folder, "sessions", "pending", "--json").out)
    assert f"tool-engine sessions approve {asked['token']}" in said.err
    assert asked["expires_at"] - asked["asked_at"] == 86_400
    done = in_pipe(folder, "sessions", "approve", asked["token"])
    assert done.code == 0, done.err
    assert (folder / "notes" / "a.txt").read_text() == "hello"
    again = in_pipe(folder, "chat", *script(folder, {"text": "Good."}), "--session", "s", "done")
    assert (again.code, again.out) == (0, "Good.\n")


def test_groups(folder: Path) -> None:
    """A group is off until it is named; its rules are told then; a wrong name has its nearest."""
    (folder / "tools" / "writing.yaml").write_text(GROUP.lstrip())
    off = in_pipe(folder, "chat", *script(folder, WRITES, {"text": "Off."}), "go")
    assert "not enabled in this conversation" in off.err
    assert "to turn it on: --enable write_note, or --groups GROUP" in off.err
    told = {"text": "On.", "expect": {"tools": ["write_note"], "system": "Write little."}}
    on = in_pipe(folder, "chat", *script(folder, told), "--groups", " writing,", "go")
    assert (on.code, on.out) == (0, "On.\n"), on.err
    wrong = in_pipe(folder, "chat", *script(folder), "--groups", "riting", "go")
    assert wrong.code == 2
    assert "did you mean 'writing'?" in wrong.err


def test_text_protocol_and_system(folder: Path) -> None:
    """Tools are told of and called as text; `@FILE` is what the model is told first."""
    (folder / "system.txt").write_text("Be brief.")
    told = {**CALCULATES, "expect": {"system": ["Be brief.", "calculator"]}}
    words = script(folder, told, {"text": "42"})
    said = in_pipe(folder, "chat", *words, "-p", "vcp", "--system", "@system.txt", "go")
    assert (said.code, said.out.strip().splitlines()[-1]) == (0, "42"), said.err
    assert "← calculator: 42" in said.err


def test_sub_agents(folder: Path) -> None:
    """What a sub-agent does is shown below the call that it works for."""
    task = calls(("call_sub_agent", {"task": "6*7", "tools": ["calculator"]}))
    words = script(folder, task, CALCULATES, {"text": "42"}, {"text": "Done."})
    said = in_pipe(folder, "chat", *words, "--sub-agents", "1", "go")
    assert said.out == "Done.\n"
    assert "\n  ← calculator: 42" in said.err


def test_secrets_are_hidden(folder: Path) -> None:
    """What a tool calls secret is not shown, on or off, nor is what looks like a secret."""
    text = (folder / "tools" / "calculator.yaml").read_text()
    secret = "  - {name: pin, type: string, secret: true, description: Yours}\nentry"
    (folder / "tools" / "calculator.yaml").write_text(text.replace("entry", secret))
    asked = calls(("calculator", {"expression": "1", "pin": "4711x", "api_key": "k-4712x"}))
    off = folder / "tools" / "off.yaml"
    for words, group in (
        ((), ""),
        (("--no-stream",), "kind: group\nname: off\ntools: [calculator]"),
    ):
        off.write_text(group or "kind: group\nname: other\n")
        said = in_pipe(folder, "chat", *script(folder, asked, {"text": "Ok."}), *words, "go")
        assert ("rejected" in said.err) is bool(group)
        assert "4711x" not in said.err
        assert "4712x" not in said.err
        assert said.out == "Ok.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name one model"),
        (("-m", "openai:x", "--script", "s.json"), "name one model"),
        (("-m", "opnai:x"), "did you mean 'openai:x'?"),
        (("-m", "gpt"), "a model is named as provider:name"),
        (("-m", "openai:x"), "OPENAI_API_KEY"),
        (("--script", "none.json"), "none.json"),
        (("--script", "script.json", "--base-url", "http://x"), "--base-url goes with --model"),
        (("-m", "recorded:script.json", "--base-url", "http://x"), "--base-url goes with"),
        (("--script", "script.json", "-p", "vpc"), "vcp"),
        (("--script", "script.json", "--defer"), "--session ID"),
        (("--script", "script.json", "--session", " "), "--session takes a name"),
        (("--script", "script.json", "--groups", ","), "--groups takes names"),
        (("--script", "script.json", "--system", "@none"), "cannot read none: No such file"),
        (("--script", "script.json", "--tools", "none"), "does not exist"),
        (("--script", "script.json", "--records", "none", "--session", "s"), "place that stays"),
    ],
)
def test_mistakes(
    folder: Path,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is told with its cure, before anything is said to anybody."""
    script(folder, {"text": "Hi."})
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for more in ((), ("--json",)):
        assert run(("chat", *words, *more, "hello")) == 2
        out, err = capsys.readouterr()
        assert message in " ".join((out + err).split())
    assert json.loads(out)["error"]["message"]


@pytest.mark.parametrize(
    ("stdin", "message"), [("", "stdin is empty"), (None, "no standard input")]
)
def test_nothing_to_say(folder: Path, stdin: str | None, message: str) -> None:
    """An empty or closed input is a mistake of whoever feeds it."""
    said = in_pipe(folder, "chat", *script(folder, {"text": "Hi."}), stdin=stdin)
    assert said.code == 2
    assert message in said.err
    assert "empty" in in_pipe(folder, "chat", *script(folder), " ").err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_nobody_reads(folder: Path, more: tuple[str, ...]) -> None:
    """The turn ends, nothing more is asked or run, the conversation is kept."""
    words = script(folder, {"text": "Begin. " * 20_000}, WRITES)
    command = ["-m", "tool_engine.cli", "chat", *words, "--session", "s", *more, "go"]
    with Program(command, cwd=folder, env=environment(folder)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        process.stdout.read(10)
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(WAIT) == 1
    assert err == b""
    assert kept(folder, "s")[0]["content"] == "go"


@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ("--json",)), (signal.SIGHUP, ())],
)
def test_ended_from_outside(folder: Path, number: signal.Signals, more: tuple[str, ...]) -> None:
    """Ctrl-C, `kill` and a window that is closed: the call is cancelled, with the program that it
    runs; what was said is kept, with a result for the open call."""
    words = script(folder, SLEEPS)
    command = [sys.executable, "-m", "tool_engine.cli", "chat", *words, "--session", "s", *more]
    # A program ignores what its parent ignores, as under `nohup`: a handler is not inherited.
    before = signal.signal(number, lambda *_: None)
    try:
        process = subprocess.Popen(
            [*command, "go"],
            cwd=folder,
            env=environment(folder, PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    finally:
        signal.signal(number, before)
    assert process.stdout is not None
    for line in process.stdout:
        if "nap" in line and ("tool_call_end" in line or not more):
            break
    process.send_signal(number)
    out, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 128 + number
    assert "Traceback" not in out
    if more:
        assert "interrupted" in json.loads(out.splitlines()[-1])["error"]
    assert "cancelled" in kept(folder, "s")[2]["content"]


async def test_against_a_server(folder: Path) -> None:
    """The real client, streamed and whole; a refusal of the provider is told without the key."""
    call = ToolCall(call_id="c1", tool_name="calculator", arguments={"expression": "6*7"})
    turns = [Turn(calls=[call]), Turn(text="It is 42.")]
    async with play(
        "openai", [*turns, *turns, failing(401, "Wrong key: sk-made-up-1234")]
    ) as server:
        words = ("chat", "--model", "openai:x", "--base-url", server.url, "go")
        for more in ((), ("--no-stream",)):
            said = await asyncio.to_thread(in_pipe, folder, *words, *more)
            assert (said.code, said.out) == (0, "It is 42.\n"), said.err
        key = "sk-made-up-1234"
        said = await asyncio.to_thread(in_pipe, folder, *words, OPENAI_API_KEY=key)
        assert said.code == 1
        assert "error: " in said.err
        assert "sk-made-up" not in said.out + said.err
        assert not server.problems
