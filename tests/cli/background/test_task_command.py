"""`task` starts calls for other programs, waits for them, and says what became of them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/calls.db"


def test_start_show_wait(command: Command, url: str) -> None:
    """A task is kept by one command, and run by another one, which prints its result."""
    started = command("task", "start", "echo", "message=later", "--records", url)
    assert started.code == 0
    task_id = started.out.strip()
    shown = command("task", "show", task_id, "--records", url, "--json").json
    assert (shown["status"], shown["tool_name"]) == ("queued", "echo")
    assert "number 1 of the tasks" in shown["message"]
    ended = command("task", "wait", task_id, "--records", url)
    assert (ended.code, "later" in ended.out) == (0, True)
    (listed,) = command("task", "list", "--records", url, "--json").json
    assert (listed["id"], listed["status"]) == (task_id, "succeeded")
    assert "succeeded" in command("task", "--records", url).out


def test_others_are_left_alone(command: Command, url: str) -> None:
    """What waits for one task begins no other one, which it would end as it ends."""
    first, second = (
        command("task", "start", "echo", f"message={word}", "--records", url).out.strip()
        for word in ("first", "second")
    )
    assert "second" in command("task", "wait", second, "--records", url).out
    assert (
        "third" in command("task", "start", "echo", "message=third", "--wait", "--records", url).out
    )
    shown = command("task", "show", first, "--records", url, "--json").json
    assert shown["status"] == "queued"
    assert "first" in command("task", "wait", first, "--records", url).out


def test_start_and_wait(command: Command, url: str) -> None:
    """`--wait` does both, and fails where the call fails."""
    assert "now" in command("task", "start", "echo", "message=now", "--wait", "--records", url).out
    wrong = command("task", "start", "echo", "message:=[1]", "--wait", "--records", url)
    assert (wrong.code, "message" in wrong.out) == (1, True)


def test_one_key(command: Command, url: str) -> None:
    """The same key is the same task, and another call with it is refused."""
    words = ("task", "start", "echo", "--key", "monday", "--records", url)
    first, again = command(*words, "message=a"), command(*words, "message=a")
    assert first.out == again.out
    other = command(*words, "message=b")
    assert other.code != 0
    assert "use one key for one call" in other.err


def test_cancel(command: Command, url: str) -> None:
    """A queued task is cancelled, once."""
    task_id = command("task", "start", "echo", "message=a", "--records", url).out.strip()
    words = ("task", "cancel", task_id, "--records", url)
    assert command(*words, "--reason", "no more").out.strip() == "cancelled"
    assert command(*words).out.strip() == "it had ended: cancelled"
    shown = command("task", "show", task_id, "--records", url, "--json").json
    assert shown["message"] == "the task was cancelled: no more"


def test_cancel_several(command: Command, url: str) -> None:
    """All that are named, if each is there; with `--all` whatever has not ended."""
    words = ("task", "start", "echo", "message=a", "--records", url)
    ids = [command(*words).out.strip() for _ in range(5)]
    assert command("task", "cancel", *ids[:2], "none", "--records", url).code == 2
    said = command("task", "cancel", *ids[:2], "--records", url).out.split("\n")
    assert said[:2] == [f"{each} cancelled" for each in ids[:2]]
    every = ("task", "cancel", "--all", "--records", url)
    assert command(*every, "--status", "running").out.strip() == "cancelled: 0"
    assert command(*every, "--reason", "no more", "--json").json == {"cancelled": 3}
    states = command("task", "list", "--records", url, "--json").json
    assert {each["status"] for each in states} == {"cancelled"}
    assert states[0]["message"] == "the task was cancelled: no more"
    wrong = command("task", "cancel", ids[0], "--all", "--records", url)
    assert (wrong.code, "task cancel --all" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "12"), "`tool-engine task` lists those that are"),
        (("show",), "write `tool-engine task show ID`"),
        (("strt", "x"), "did you mean 'start'"),
        (("start", "ecko"), "did you mean 'echo'"),
    ],
)
def test_wrong_words(command: Command, url: str, words: tuple[str, ...], said: str) -> None:
    """What is wrong comes with what to write instead."""
    ended = command("task", *words, "--records", url)
    assert (ended.code, said in ended.err) == (2, True)


def test_one_that_ends_as_it_is_started(command: Command, url: str) -> None:
    """A misspelt parameter is said at once: its id is printed, too, since its end is kept."""
    ended = command("task", "start", "echo", "mesage=a", "--records", url)
    assert ended.code == 1
    assert "it has ended: failed: " in ended.err
    assert "did you mean 'message'" in ended.err
    shown = command("task", "show", ended.out.strip(), "--records", url, "--json").json
    assert shown["status"] == "failed"
    as_json = command("task", "start", "echo", "mesage=a", "--json", "--records", url)
    assert (as_json.code, as_json.json["status"]) == (1, "failed")


def test_none_of_a_status(command: Command, url: str) -> None:
    """Others are kept, and that is not denied."""
    command("task", "start", "echo", "message=a", "--records", url)
    said = command("task", "list", "--status", "running", "--records", url).err
    assert said == "no tasks with the status 'running' are kept\n"


def test_ctrl_c_while_another_runs_it(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on, and that is what is said; the task is not this command's to cancel."""

    async def run_elsewhere(engine_tasks: object, task_id: str) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    task_id = command("task", "start", "echo", "message=a", "--records", url).out.strip()
    monkeypatch.setattr("tool_engine.background.tasks.EngineTasks.run_one", run_elsewhere)
    ended = command("task", "wait", task_id, "--records", url)
    words = f"interrupted; the task goes on: `tool-engine task wait {task_id}` waits again"
    assert (ended.code, words in ended.err) == (130, True)
    assert command("task", "show", task_id, "--records", url, "--json").json["status"] == "queued"


def test_no_database(command: Command) -> None:
    """Without a database a task would end with its command."""
    ended = command("task", "list", "--records", "none")
    assert (ended.code, "name one with --records URL" in ended.err) == (2, True)
