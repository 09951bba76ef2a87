"""A conversation at a terminal goes on whatever breaks one of its turns off."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.talking import ASKS, CTRL_C, CTRL_D, PROMPT, WAIT, at_terminal, in_pipe
from tool_engine.cli.chat_turns import ChatTurns
from tool_engine.cli.chat_view import PlainView

TOOLS = {
    "calculator": """
name: calculator
description: Calculates.
effect: read
parameters:
  - {name: expression, type: string, required: true, description: Such as 1+2}
entry: {type: builtin, handler: calculator}
""",
    "write_note": """
name: write_note
description: Writes a note.
category: file
effect: write
parameters:
  - {name: path, type: string, required: true, description: The file}
  - {name: content, type: string, required: true, description: All of the note}
permission: ask_always
entry: {type: builtin, handler: write_file, root: ../notes}
""",
    "nap": """
name: nap
description: Waits.
effect: read
parameters:
  - {name: seconds, type: string, required: true, description: How long}
entry: {type: builtin, handler: run_command, argv: [sleep, "{seconds}"]}
""",
}


def calls(*asked: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """A reply that asks for calls."""
    return {"text": text, "calls": [{"name": name, "arguments": sent} for name, sent in asked]}


SLEEPS = calls(("nap", {"seconds": "60"}))
WRITES = calls(("write_note", {"path": "a.txt", "content": "hello"}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three tools and a place for notes."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "notes").mkdir()
    for name, text in TOOLS.items():
        (tmp_path / "tools" / f"{name}.yaml").write_text(text.lstrip())
    return tmp_path


def script(folder: Path, *replies: dict[str, Any]) -> tuple[str, str]:
    """Words that play these replies."""
    (folder / "script.json").write_text(json.dumps({"replies": replies}))
    return "--script", "script.json"


def kept(folder: Path, session_id: str) -> list[dict[str, Any]]:
    """The messages of a conversation that is kept."""
    done = in_pipe(folder, "sessions", "show", session_id, "--json")
    assert done.code == 0, done.err
    messages: list[dict[str, Any]] = json.loads(done.out)["data"]["more"]["loop"]["messages"]
    return messages


def test_ctrl_c_ends_the_turn_only(folder: Path) -> None:
    """The call is gone, the history valid, the session kept, and the next turn answers; Ctrl-D
    ends the conversation with 0."""
    words = script(folder, SLEEPS, {"text": "Still here."})
    with at_terminal(folder, *words, "--session", "s") as screen:
        screen.shows(PROMPT)
        screen.type("sleep\n")
        screen.shows("nap(")
        screen.type(CTRL_C)
        screen.shows("the turn was cancelled\r\n> ")
        asked = kept(folder, "s")
        assert [each["role"] for each in asked[:3]] == ["user", "assistant", "tool"]
        assert "cancelled" in asked[2]["content"]
        screen.type("still there?\n")
        screen.shows("Still here.\r\n> ")
        screen.type(CTRL_D)
        assert screen.ends() == 0
    assert "Traceback" not in screen.whole
    assert kept(folder, "s")[-1]["content"] == "Still here."


def test_each_turn_can_be_ended(folder: Path) -> None:
    """A Ctrl-C is over with its turn: the next one is a new one, and not the second."""
    words = script(folder, SLEEPS, SLEEPS, {"text": "Well."})
    with at_terminal(folder, *words) as screen:
        for _ in range(2):
            screen.shows(PROMPT)
            screen.type("sleep\n")
            screen.shows("nap(")
            screen.type(CTRL_C)
            screen.shows("the turn was cancelled")
        screen.shows(PROMPT)
        screen.type("and now?\n")
        screen.shows("Well.")


def test_ctrl_c_at_the_prompt_ends_the_conversation(folder: Path) -> None:
    """With 130, as everywhere, and the shell's prompt on a line of its own."""
    with at_terminal(folder, *script(folder, {"text": "Hi."})) as screen:
        screen.shows(PROMPT)
        screen.type(CTRL_C)
        assert screen.ends() == 130, screen.whole
    assert screen.whole.endswith("\r\n")
    assert "Traceback" not in screen.whole


def test_ctrl_c_at_a_question_ends_the_turn(folder: Path) -> None:
    """What was not allowed does not happen, and nobody is asked any more."""
    words = script(folder, WRITES, {"text": "Next."})
    with at_terminal(folder, *words) as screen:
        screen.shows(PROMPT)
        screen.type("write\n")
        screen.shows(ASKS)
        screen.type(CTRL_C)
        screen.shows("the turn was cancelled")
        screen.shows(PROMPT)
        screen.type("go on\n")
        screen.shows("Next.")
    assert not list((folder / "notes").iterdir())


@pytest.mark.parametrize(("typed", "written"), [("y", ["a.txt"]), ("n", []), ("not now", [])])
def test_question(folder: Path, typed: str, written: list[str]) -> None:
    """The call runs if somebody says yes; a reason is told to the model."""
    words = script(folder, WRITES, {"text": "Over."})
    with at_terminal(folder, *words, "--session", "s", "write a note") as screen:
        shown = screen.shows(ASKS)
        assert 'content: "hello"' in shown
        screen.type(f"{typed}\n")
        screen.shows("Over.")
        assert screen.ends() == 0
    assert [each.name for each in (folder / "notes").iterdir()] == written
    assert ("not now" in kept(folder, "s")[2]["content"]) == (typed == "not now")


def test_panel_leaves_the_question_alone(folder: Path) -> None:
    """While somebody is asked nothing is painted, and what ends meanwhile is told afterwards."""
    both = calls(("write_note", {"path": "a.txt", "content": "hello"}), ("nap", {"seconds": "0.2"}))
    with at_terminal(folder, *script(folder, both, {"text": "Over."}), "go") as screen:
        screen.shows(ASKS)
        place = len(screen.whole)
        screen.type("y\n")
        screen.shows("← nap")
        screen.shows("Over.")
        assert screen.ends() == 0
    assert screen.whole[place:].startswith("y\r\n")


def test_a_turn_that_fails_is_not_the_end(folder: Path) -> None:
    """At a terminal the next turn may be said; the failed one is kept as what it was."""
    fails = {"error": {"message": "the model is \x1b[31mdown"}}
    with at_terminal(folder, *script(folder, fails, {"text": "Up."}), "--session", "s") as screen:
        screen.shows(PROMPT)
        screen.type("one\n")
        assert "error: the model is \\x1b[31mdown" in screen.shows(PROMPT)
        screen.type("two\n")
        screen.shows("Up.")
        screen.shows(PROMPT)
        screen.type(CTRL_D)
        assert screen.ends() == 0
    assert [each["content"] for each in kept(folder, "s")] == ["two", "Up."]


class Impatient:
    """Presses Ctrl-C once more while a turn winds down. Stands for the user and for the loop."""

    is_terminal = True
    turns = 0

    async def next(self) -> str:
        """Always has something to say."""
        return "go on"

    async def run(self, text: str) -> None:
        """Is interrupted at once, and slow to end."""
        self.turns += 1
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(WAIT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(WAIT)


def test_second_ctrl_c_waits_for_nothing() -> None:
    """Whoever presses it again while the turn is still ending wants out, and gets there."""
    both: Any = Impatient()
    turns = ChatTurns(PlainView(lambda _: None), both, is_kept=False)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(turns.lead(both))
    assert both.turns == 1
