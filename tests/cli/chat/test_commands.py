"""Somebody at a terminal asks about the conversation itself, pastes, and turns tools on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.chat.test_chat_command import CALCULATES, GROUP
from tests.cli.chat.test_turns import WRITES, folder, kept, script
from tests.cli.talking import CTRL_C, CTRL_D, PROMPT, at_terminal, in_pipe

__all__ = ["folder"]

OFF = GROUP.replace("enabled: false", "enabled: true\n'off': [write_note]")


def test_commands_are_not_for_the_model(folder: Path) -> None:
    """`/help` and its like are answered here; only what is no command reaches the model."""
    (folder / "tools" / "writing.yaml").write_text(OFF.lstrip(), encoding="utf-8")
    words = script(folder, {"text": "Yes."})
    with at_terminal(folder, *words, "--session", "s") as screen:
        assert f"{words[1]}, 6 tools; /help lists what" in screen.shows(PROMPT)
        screen.type("/help\n")
        listed = screen.shows("ends the conversation, as Ctrl-D does\r\n> ")
        columns = [len(each) for each in re.findall(r"^/\w+(?: NAME)? {2,}", listed, re.MULTILINE)]
        assert columns == [12] * 6
        screen.type("/tools\n")
        tools = screen.shows("\r\n> ")
        screen.type("/groups\n")
        assert "on   writing: write_note" in screen.shows("write_note\r\n> ")
        screen.type("/hepl\n")
        screen.shows("there is no command '/hepl'; did you mean '/help'?\r\n> ")
        screen.type("/etc/hosts is a file?\n")
        screen.shows("Yes.\r\n> ")
        screen.type("/usage\n")
        screen.shows("1 turn, 0 calls, tokens: ")
        screen.shows("\r\n> ")
        screen.type("/quit\n")
        assert screen.ends() == 0
    assert "calculator" in tools
    assert "write_note" not in tools
    assert [each["content"] for each in kept(folder, "s")] == ["/etc/hosts is a file?", "Yes."]


def test_a_conversation_is_kept_under_a_name(folder: Path) -> None:
    """As it is now, and once; what is said afterwards is not in it."""
    words = script(folder, {"text": "One."}, {"text": "Two."})
    with at_terminal(folder, *words) as screen:
        screen.shows(PROMPT)
        screen.type("first\n")
        screen.shows("One.\r\n> ")
        screen.type("/save\n")
        screen.shows("such as: /save notes-1\r\n> ")
        screen.type("/save kept-1\n")
        again = f"tool-engine chat --session kept-1 {' '.join(words)}"
        said = screen.shows("\r\n> ").replace("\r\n", "")
        assert f"kept as 'kept-1', as it is now; to go on from here: {again}" in said
        screen.type("second\n")
        screen.shows("Two.\r\n> ")
        screen.type("/save kept-1\n")
        screen.shows("is kept already; choose another name\r\n> ")
        screen.type("/quit\n")
        assert screen.ends() == 0
    assert [each["content"] for each in kept(folder, "kept-1")] == ["first", "One."]
    with at_terminal(folder, *words, "--records", "none") as screen:
        screen.shows(PROMPT)
        screen.type("/save kept-2\n")
        screen.shows("begin with --records sqlite:///calls.db\r\n> ")


def test_a_paste_is_one_turn(folder: Path) -> None:
    """What the terminal marks as pasted is said at once, however many lines it has."""
    words = script(folder, {"text": "One."}, {"text": "Two."})
    with at_terminal(folder, *words, "--session", "s") as screen:
        screen.shows(PROMPT)
        screen.type("\x1b[200~first\nsecond\n\nthird\x1b[201~\n")
        screen.shows("One.\r\n> ")
        screen.type("see: \x1b[200~a\nb\n\x1b[201~ there\n")
        screen.shows("Two.\r\n> ")
        screen.type("/quit\n")
        assert screen.ends() == 0
        assert screen.whole.count("\x1b[?2004h") == screen.whole.count("\x1b[?2004l") == 3
    said = [each["content"] for each in kept(folder, "s") if each["role"] == "user"]
    assert said == ["first\nsecond\n\nthird", "see: a\nb\n there"]


UP, DOWN, LEFT, HOME = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[H"


def test_what_was_said_is_a_key_away(folder: Path) -> None:
    """Arrows go through what was said before, pastes and commands too, and it can be changed."""
    words = script(folder, *({"text": f"Answer {number}."} for number in range(4)))
    with at_terminal(folder, *words, "--session", "s") as screen:
        screen.shows(PROMPT)
        screen.type("first one\r")
        screen.shows("Answer 0.\r\n> ")
        screen.type("\x1b[200~a\nb\x1b[201~\r")
        screen.shows("Answer 1.\r\n> ")
        screen.type("/usage\r")
        screen.shows("written\r\n> ")
        screen.type(f"{UP}{UP}{DOWN}{UP}\r")
        screen.shows("Answer 2.\r\n> ")
        screen.type(f"nothing{UP * 6}{LEFT * 4}, not{HOME}the \r")  # a paste has two lines
        screen.shows("Answer 3.\r\n> ")
        screen.type(CTRL_D)
        assert screen.ends() == 0
    said = [each["content"] for each in kept(folder, "s") if each["role"] == "user"]
    assert said == ["first one", "a\nb", "a\nb", "the first, not one"]


def test_a_line_that_is_not_said_is_left_alone(folder: Path) -> None:
    """Ctrl-C at a half typed line ends the conversation with 130, and the terminal echoes again."""
    with at_terminal(folder, *script(folder, {"text": "Never."})) as screen:
        screen.shows(PROMPT)
        screen.type(f"half{CTRL_C}")
        assert screen.ends() == 130
        assert "Never" not in screen.whole
        assert screen.echoes()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_tool_that_its_group_has_off_is_turned_on(folder: Path, enabled: bool) -> None:
    """`--enable` names it; without, the model is told that it is not there now."""
    (folder / "tools" / "writing.yaml").write_text(OFF.lstrip(), encoding="utf-8")
    more = ("--enable", "write_note", "--no-confirm") if enabled else ("--no-confirm",)
    said = in_pipe(folder, "chat", *script(folder, WRITES, {"text": "Done."}), *more, "write")
    assert said.code == 0, said.err
    assert ("not enabled in this conversation" in said.err) != enabled, said.err


def test_a_tool_that_is_not_there_is_not_turned_on(folder: Path) -> None:
    """The message names the near one."""
    said = in_pipe(folder, "chat", *script(folder), "--enable", "WriteNote", "write")
    assert said.code == 2
    assert "there is no tool 'WriteNote'; did you mean 'write_note'?" in said.err
    far = in_pipe(folder, "chat", *script(folder), "--enable", "nix", "write")
    assert "there is no tool 'nix'; there are: " in far.err
    empty = in_pipe(folder, "chat", *script(folder), "--enable", " , ", "write")
    assert "--enable takes names of tools" in empty.err


def test_a_kept_conversation_is_shown(folder: Path) -> None:
    """`sessions show` tells what was said and called; control characters steer nothing."""
    words = script(folder, CALCULATES, {"text": "It is \x1b[31m42."})
    assert in_pipe(folder, "chat", *words, "--session", "s", "What is it?").code == 0
    shown = in_pipe(folder, "sessions", "show", "s")
    assert shown.code == 0
    told = shown.out[shown.out.index("user:") :]
    assert told == (
        "user: What is it?\n"
        "assistant: I calculate. \n"
        'tool: calculator({"expression": "6*7"}): 42\n'
        "assistant: It is \\x1b[31m42.\n"
    )


SAYS = """name: say
description: Says it.
effect: read
parameters:
  - {name: times, type: integer, description: How often}
  - {name: word, type: string, description: What}
  - {name: pin, type: integer, secret: true, description: A secret}
entry: {type: builtin, handler: echo}
"""


def test_a_kept_call_is_shown_as_it_was_sent(folder: Path) -> None:
    """A number as a number and digits as a text; a secret as neither."""
    (folder / "tools" / "say.yaml").write_text(SAYS, encoding="utf-8")
    sent = {"times": 2, "word": "2", "pin": 2716}
    words = script(folder, {"calls": [{"name": "say", "arguments": sent}]}, {"text": "Done."})
    assert in_pipe(folder, "chat", *words, "--session", "s", "hi").code == 0
    shown = in_pipe(folder, "sessions", "show", "s").out
    assert 'tool: say({"times": 2, "word": "2", "pin": "[hidden]"}): ' in shown
    assert "2716" not in shown
