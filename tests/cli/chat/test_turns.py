"""A conversation at a terminal goes on whatever breaks one of its turns off."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.talking import ASKS, CTRL_C, CTRL_D, PROMPT, STYLE, WAIT, at_terminal, in_pipe
from tool_engine.cli import signals
from tool_engine.cli.chat.chat_view import PlainView
from tool_engine.cli.chat.turns import ChatTurns
from tool_engine.errors import RecordsUnavailableError

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


def test_two_chats_in_one_session(folder: Path) -> None:
    """A turn goes on from what another process has kept; of two turns at once none is lost."""
    words = script(folder, {"text": "One."}, SLEEPS)
    with at_terminal(folder, *words, "--session", "s") as screen:
        screen.shows(PROMPT)
        screen.type("one\n")
        screen.shows("One.\r\n> ")
        others = script(folder, {"text": "Other."})
        assert in_pipe(folder, "chat", *others, "--session", "s", "two").code == 0
        screen.type("sleep\n")
        screen.shows("nap(")
        assert in_pipe(folder, "chat", *others, "--session", "s", "three").code == 0
        screen.type(CTRL_C)
        screen.shows("kept as 's-")
        screen.shows("go on under that name")
        assert screen.ends() == 1
    found = json.loads(in_pipe(folder, "sessions", "--json").out)
    (beside,) = {each["session_id"] for each in found} - {"s"}
    said = {
        name: [each["content"] for each in kept(folder, name) if each["role"] == "user"]
        for name in ("s", beside)
    }
    assert said == {"s": ["one", "two", "three"], beside: ["one", "two", "sleep"]}


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
        screen.shows(PROMPT)
        screen.type(CTRL_D)
        assert screen.ends() == 0


def test_ctrl_c_at_the_prompt_ends_the_conversation(folder: Path) -> None:
    """With 130, as everywhere, and the shell's prompt on a line of its own; silence is no turn."""
    with at_terminal(folder, *script(folder, {"text": "Hi."})) as screen:
        for _ in range(3):
            screen.shows(PROMPT)
            screen.type(" \n")
        screen.shows(PROMPT)
        screen.type(CTRL_C)
        assert screen.ends() == 130, screen.whole
    assert STYLE.sub("", screen.whole).endswith("\r\n")
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
        screen.shows("error: the model is \\x1b[31mdown\r\n> ")
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
    has_waited = False

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
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(WAIT)
            # As what runs in a thread, which cannot be cancelled.
            await asyncio.sleep(3)
            self.has_waited = True


def test_second_ctrl_c_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses it again while the turn is still ending wants out, and gets there."""
    monkeypatch.setattr(signals, "_PATIENCE", 0.01)
    both: Any = Impatient()
    turns = ChatTurns(PlainView(lambda _: None), both, is_kept=False)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(turns.lead(both))
    assert (both.turns, both.has_waited) == (1, False)


class Keeper:
    """Stands for the user, for the loop and for its session; Ctrl-C comes while it is saved."""

    is_complete = True

    def __init__(self, *, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.session = self
        self.saved: list[Any] = []
        self._lines = ["go on"]
        self._lead: asyncio.Task[Any] | None = None

    async def next(self) -> str | None:
        """One turn."""
        return self._lines.pop() if self._lines else None

    async def run(self, text: str) -> Keeper:
        """Answers at once."""
        self._lead = next(each for each in asyncio.all_tasks() if each.get_name() == "lead")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Anything."""
        return {}

    async def save(self, more: Any) -> None:
        """Takes its time, and is interrupted."""
        if self.is_terminal:
            os.kill(os.getpid(), signal.SIGINT)
        elif self._lead is not None:
            self._lead.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        self.saved.append(more)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_ctrl_c_while_a_turn_is_kept(*, is_terminal: bool) -> None:
    """What was said is not lost: it is saved whole, and at a terminal the conversation goes on."""
    both: Any = Keeper(is_terminal=is_terminal)
    turns = ChatTurns(PlainView(lambda _: None), both, is_kept=True)

    async def lead() -> int:
        return await asyncio.create_task(turns.lead(both), name="lead")

    if is_terminal:
        assert asyncio.run(lead()) == 0
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(lead())
    assert both.saved == [{"loop": {}}]


class Homeless(Keeper):
    """As above, and then it cannot be kept."""

    async def save(self, more: Any) -> None:
        """Takes its time, is interrupted, and fails."""
        await super().save(more)
        raise RecordsUnavailableError("the place does not answer")


def test_ended_while_a_turn_cannot_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever ends the process ends it, whatever the database says; and is told what is lost."""
    both: Any = Homeless(is_terminal=False)
    turns = ChatTurns(PlainView(lambda _: None), both, is_kept=True)

    async def lead() -> int:
        return await asyncio.create_task(turns.lead(both), name="lead")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(lead())
    assert capsys.readouterr().err == "error: the place does not answer\n"


class Unknown(Keeper):
    """As above, at a time when the place of the conversation does not answer."""

    async def is_behind(self) -> bool:
        """Nobody can tell."""
        raise RecordsUnavailableError("the place does not answer")

    async def save(self, more: Any) -> None:
        """Nor can it be kept."""
        raise RecordsUnavailableError("the place does not answer")


def test_nobody_knows_whether_others_went_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A turn is not lost to a database that is away: after it, it is told that it is not kept."""
    both: Any = Unknown(is_terminal=True)

    async def lead() -> int:
        turns = ChatTurns(PlainView(lambda _: None), both, is_kept=True)
        return await asyncio.create_task(turns.lead(both, both.next), name="lead")

    assert asyncio.run(lead()) == 0
    assert "the place does not answer" in capsys.readouterr().err
