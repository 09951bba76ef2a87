"""What an error of a command says to do after a semicolon is done, and the command works.

`LINES` are mistakes on the command line, with the lines that heal them, in a folder that has what
they name. What needs a git, a conversation or a running call has a test of its own. Rows as in
`test_cures_of_errors`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.cli.recorded import record_calls
from tests.cli.talking import environment, in_pipe
from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tests.server.process import server_process
from tool_engine import ToolCallConfig, ToolEngine, ToolEngineConfig, ToolSession
from tool_engine.cli.app import run
from tool_engine.model.approval import ApprovalRequest

BOUND = 30.0
PARAMETERS = {
    "items": "array",
    "thing": "object",
    "ratio": "number",
    "loud": "boolean",
}
"""What the tool `echo` takes beside its message."""
ECHO = {
    **HEAD,
    "name": "echo",
    "effect": "read",
    "parameters": [
        {"name": "message", "type": "string", "description": "What", "required": True},
        *({"name": name, "type": kind, "description": "It"} for name, kind in PARAMETERS.items()),
        {"name": "code", "type": "string", "description": "A secret", "secret": True},
    ],
    "entry": {"type": "builtin", "handler": "echo"},
}
APP = """
from tool_engine import ToolEngine
engine = ToolEngine()
def make(): return ToolEngine()
async def make_later(): return ToolEngine()
text = "no engine"
"""
ARGUMENTS, QUANTITIES = "cli/calls/call_arguments.py: ", "cli/records/quantities.py: got …"
AN_ENGINE = (
    "cli/engines.py: name an engine, or a plain or async function without arguments that returns "
    "one"
)
APPROVE = (
    "cli/files/lock_command.py: mend what is wrong, or approve single tools with --approve NAME"
)
MODULE = (
    "cli/files/new_command.py: choose another name, or another folder with --tools DIR and --path "
    "DIR above it"
)
NO_RECORDS = (
    "cli/records/recording.py: name their database with --records URL or the variable "
    "TOOL_ENGINE_RECORDS"
)
REVISION = (
    "cli/files/diff_command.py: name a revision of the repository in this folder, or compare two "
    "folders"
)
UNRECORDED = "cli/records/recording.py: name another database with --records URL, or none"
DEMO = (
    "cli/demo/stage.py: run it without --tools and TOOL_ENGINE_TOOLS to use the definitions that "
    "come with the package"
)
GONE = "cli/app.py: go to one that is there: cd ~"
UNSET = "cli/options.py: did you mean …? Else unset it"
LINES = [
    (DEMO, "--tools tools demo", ["TOOL_ENGINE_TOOLS= demo"]),
    (DEMO, "TOOL_ENGINE_TOOLS=tools demo", ["TOOL_ENGINE_TOOLS= demo"]),
    ("cli/files/diff_command.py: rename or remove one", "diff twice tools",
     ["diff renamed tools", "diff removed tools"]),
    ("cli/engines.py: got …", "test --app engine", ["test --app app_of_cures:engine"]),
    (AN_ENGINE, "test --app app_of_cures:text",
     [f"test --app app_of_cures:{name}" for name in ("engine", "make", "make_later")]),
    ("cli/files/lock_command.py: leave out --file", "lock --app app_of_cures:make --file my.lock",
     ["lock --app app_of_cures:make"]),
    ("cli/files/lock_command.py: leave out --approve", "lock --check --approve echo",
     ["lock --check"]),
    ("cli/files/lock_command.py: add --check", "lock --format github",
     ["lock --format github --check"]),
    (APPROVE, "--tools broken lock", ["--tools broken lock --approve echo"]),
    ("cli/files/new_command.py: choose another name", "new echo2", ["new echo3"]),
    (MODULE, "new class --kind python", ["new classy --kind python"]),
    (MODULE, "--tools more-tools new mine --kind python",
     ["--tools more_tools --path . new mine --kind python",
      "--tools more-tools/inner --path more-tools new mine --kind python"]),
    ("cli/files/new_command.py: name another with --tools DIR",
     "--tools script.yaml new mine", ["--tools new_tools new mine"]),
    ("cli/records/recording.py: a call that is recorded there makes it",
     "--records sqlite:///new.db history", ["--records sqlite:///new.db call echo message=hi"]),
    (QUANTITIES, "prune --older-than month", [f"prune --older-than {each}" for each in
                                              ("90s", "30m", "12h", "7d", "2w")]),
    (QUANTITIES, "history --since morning", [f"history --since {each}" for each in
                                             ("1h", "2026-11-01", "2026-11-01T08:30")]),
    (QUANTITIES, "prune --max-size big", ["prune --max-size 500MB", "prune --max-size 2GB"]),
    (ARGUMENTS + "write …=…, …:=json or …=@file with a file that is there",
     "call echo message=hi code=@nowhere",
     [f"call echo message=hi {each}" for each in ("code=x", "code:=null", "code=@script.yaml")]),
    (ARGUMENTS + "write it as a word of its own, without --params",
     'call echo --params {"message":"hi"}', ['call echo {"message":"hi"}']),
    (ARGUMENTS + "for what is no JSON write …=...", "call echo message:=hi!",
     ["call echo message=hi!"]),
    (ARGUMENTS + "write one object, such as …", 'call echo {"message":',
     ['call echo {"message":"..."}']),
    (REVISION, "diff HEAD:tools tools", ["diff tools tools"]),
    (NO_RECORDS, "--records none history", ["--records sqlite:///calls.db history", "history"]),
]  # fmt: skip
TOLD = [
    (ARGUMENTS + "write …", "call echo message=hi items=1"),
    (ARGUMENTS + "write …", "call echo message=hi items={}"),
    (ARGUMENTS + "write …", "call echo message=hi thing=[]"),
    (ARGUMENTS + "write … (…)", "call echo message=hi items=one,two"),
    (ARGUMENTS + "write … (…)", "call echo message=hi thing={a:1}"),
    (ARGUMENTS + "write one, such as …=2.5", "call echo message=hi ratio=half"),
    (ARGUMENTS + "write …=true or …=false", "call echo message=hi loud=yes"),
]
NOTHING = "cli/chat/turns.py: write a MESSAGE, or one per line"
PENDING = "cli/chat/answering.py: `tool-engine sessions pending` lists those that wait"
SESSIONS = "cli/chat/sessions_command.py: `tool-engine sessions` lists those that are"
STORY = (
    "cli/records/history_command.py: write `tool-engine history show CALL_ID` for the story of one "
    "call"
)
BEGIN = "cli/chat/conversation.py: or begin another one with --session ID"
FOLDERS = "cli/files/diff_command.py: compare two folders"
INTERRUPTED = "cli/signals.py: the running calls were cancelled"
TRIED = {row[0] for row in (*LINES, *TOLD)} | {
    PENDING, SESSIONS, STORY, BEGIN, FOLDERS, INTERRUPTED, NOTHING, UNRECORDED, GONE, UNSET
}  # fmt: skip


def write(file: Path, value: object) -> None:
    """A definition, in the JSON that is YAML too."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the lines name, in the folder of the process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "app_of_cures", raising=False)
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", f"sqlite:///{tmp_path}/calls.db")
    for folder in ("tools", "twice", "renamed", "removed", "broken"):
        write(tmp_path / folder / "echo.yaml", ECHO)
    other = "name: echo2\ndescription: Says it.\nentry: {type: builtin, handler: echo}\n"
    (tmp_path / "tools" / "other.yaml").write_text(other, encoding="utf-8")
    write(tmp_path / "twice" / "again.yaml", ECHO)
    write(tmp_path / "renamed" / "again.yaml", {**ECHO, "name": "again"})
    write(tmp_path / "broken" / "bad.yaml", {"name": "bad"})
    write(tmp_path / "script.yaml", {"replies": [{"text": "Yes."}]})
    (tmp_path / "more-tools").mkdir()
    (tmp_path / "app_of_cures.py").write_text(APP, encoding="utf-8")
    assert run(["lock"]) == 0
    record_calls(tmp_path)
    return tmp_path


def typed(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a line that may begin with variables, as a shell takes them."""
    words = line.split()
    while re.match("[A-Z_]+=", words[0]):
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    return words


def said(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The exit code of a command, its words, and what it complains of on one line."""
    capsys.readouterr()
    code = run(words)
    out, err = capsys.readouterr()
    return code, out, " ".join(err.split())


@pytest.mark.parametrize(("row", "broken", "healed"), LINES, ids=[row[1] for row in LINES])
def test_the_line_that_is_asked_for(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    row: str,
    broken: str,
    healed: list[str],
) -> None:
    """Does what the first one did not; a difference that `diff` finds is no failure."""
    del place
    code, _, message = said(*typed(broken, monkeypatch), capsys=capsys)
    assert code != 0
    assert names_cure(row, message), message
    for line in healed:
        code, _, err = said(*typed(line, monkeypatch), capsys=capsys)
        assert code == (1 if line == "diff renamed tools" else 0), err
        assert "error" not in err.casefold(), err


@pytest.mark.parametrize("words", ["list", "-C / list", "call echo message=hi", "init", "config"])
def test_a_current_folder_that_was_removed(place: Path, words: str) -> None:
    """It is named as the cause, whatever is asked for; at home all is well."""
    (place / "gone").mkdir()
    program = f"{sys.executable} -m tool_engine.cli"
    mistake = f"cd gone; rmdir ../gone; {program} {words}; echo $?"
    ended = subprocess.run(
        ["bash", "-c", f"{mistake}; cd ~; {program} config >/dev/null"],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
        cwd=place,
        env=os.environ | {"HOME": str(place)},
    )
    assert ended.stdout == "2\n"
    assert names_cure(GONE, ended.stderr), ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_misspelled_variable(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name that was meant it is heard, and without it nothing is amiss."""
    del place
    code, _, message = said(*typed("TOOL_ENGINE_TOOL=broken list", monkeypatch), capsys=capsys)
    assert code == 2
    assert names_cure(UNSET, message), message
    monkeypatch.delenv("TOOL_ENGINE_TOOL")
    assert said("list", capsys=capsys)[0] == 0
    line = "TOOL_ENGINE_TOOLS=broken validate"
    assert "broken" in said(*typed(line, monkeypatch), capsys=capsys)[1]


def test_what_is_said(place: Path) -> None:
    """On the command line, or in lines on stdin; neither is nothing."""
    words = ("chat", "--script", "script.yaml")
    silent = in_pipe(place, *words)
    assert silent.code != 0
    assert names_cure(NOTHING, " ".join(silent.err.split())), silent
    assert in_pipe(place, *words, "hi").code == 0
    assert in_pipe(place, *words, stdin="hi\n").code == 0


@pytest.mark.parametrize(("row", "line"), TOLD, ids=[row[1] for row in TOLD])
def test_arguments_as_they_were_told(
    place: Path, capsys: pytest.CaptureFixture[str], row: str, line: str
) -> None:
    """Each of the words that the message writes out is taken in place of the wrong ones."""
    del place
    *kept, _ = line.split()
    code, _, message = said(*line.split(), capsys=capsys)
    assert code != 0
    assert names_cure(row, message), message
    words = message.partition("; write ")[2].partition(" (")[0].removeprefix("one, such as ")
    for cure in words.split(" or "):
        code, _, err = said(*kept, *shlex.split(cure), capsys=capsys)
        assert code == 0, err


async def ask(place: Path) -> str:
    """Keeps a conversation that waits for consent; gives the token of what it asks."""
    config = ToolEngineConfig(
        tools_directory=str(place / "tools"), auto_reload=False,
        records=f"sqlite:///{place}/calls.db",
    )  # fmt: skip
    async with ToolEngine(config) as engine:
        settings = ToolCallConfig(require_confirmation=True)
        session = ToolSession(engine, "asking", settings, Later())
        result = await session.execute("echo", {"message": "hi"})
        await session.save()
        assert result.approval_token is not None
        return result.approval_token


class Later:
    """Gives no answer yet."""

    async def approve(self, request: ApprovalRequest) -> None:
        """Waits for a person."""


@pytest.mark.parametrize("row", [PENDING, SESSIONS])
def test_what_is_listed_can_be_named(
    place: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    """The command that the message names lists what the first one takes."""
    token = asyncio.run(asyncio.wait_for(ask(place), BOUND))
    words, right = {
        PENDING: (["sessions", "approve"], token),
        SESSIONS: (["sessions", "show"], "asking"),
    }[row]
    code, _, message = said(*words, "other", capsys=capsys)
    assert code != 0
    assert names_cure(row, message), message
    listing = re.findall("; `tool-engine ([^`]+)`", message)[-1]
    code, out, err = said(*listing.split(), capsys=capsys)
    assert (code, right in out) == (0, True), (out, err)
    assert said(*words, right, capsys=capsys)[0] == 0


def test_story_of_a_call(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the id of a call that the list has."""
    del place
    code, out, _ = said("history", "--json", capsys=capsys)
    call_id = json.loads(out.splitlines()[0])["call_id"]
    code, _, message = said("history", call_id, capsys=capsys)
    assert code != 0
    assert names_cure(STORY, message), message
    line = re.findall("`tool-engine ([^`]+)`", message)[-1].replace("CALL_ID", call_id)
    code, out, err = said(*line.split(), capsys=capsys)
    assert (code, call_id in out) == (0, True), err


def test_another_conversation(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that was held in another protocol goes on with a model of the same, or begins anew."""
    write(place / "other.yaml", {"protocol": "anthropic", "replies": [{"text": "Yes."}]})
    words = ["chat", "--session", "s", "--script"]
    code, _, err = said(*words, "script.yaml", "hi", capsys=capsys)
    assert code == 0, err
    code, _, message = said(*words, "other.yaml", "hi", capsys=capsys)
    assert code != 0
    assert names_cure(BEGIN, message), message
    again = said("chat", "--session", "t", "--script", "other.yaml", "hi", capsys=capsys)
    assert again[0] == 0, again
    assert said(*words, "script.yaml", "hi", capsys=capsys)[0] == 0


@pytest.mark.parametrize("cure", ["sqlite:///another.db", "none"])
def test_a_server_that_cannot_record(
    place: Path, capsys: pytest.CaptureFixture[str], cure: str
) -> None:
    """It serves with another database, and without one."""
    words = ("--records", f"sqlite:///{place}/script.yaml", "serve", "--no-auth", "--port", "0")
    code, _, message = said(*words, capsys=capsys)
    assert code == 1
    assert names_cure(UNRECORDED, message), message

    async def serve() -> None:
        async with server_process(place, records=cure) as server:
            assert await server.end() == (128 + signal.SIGTERM, "")

    (place / "tools" / "echo.yaml").unlink()
    (place / "tools" / "other.yaml").unlink()
    asyncio.run(serve())


def test_folders_are_compared_without_git(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revision needs git, and two folders do not."""
    monkeypatch.setenv("PATH", str(place))
    code, _, message = said("diff", "HEAD:tools", "tools", capsys=capsys)
    assert code != 0
    assert names_cure(FOLDERS, message), message
    code, out, err = said("diff", "removed", "renamed", capsys=capsys)
    assert "again" in out, err


def test_interrupted_calls_are_cancelled(place: Path) -> None:
    """What the message says is so: the program that the call had started is gone."""
    os.mkfifo(place / "pipe")
    entry = {"type": "builtin", "handler": "run_command", "argv": ["cat", f"{place}/pipe"]}
    write(place / "tools" / "waits.yaml", {**HEAD, "name": "waits", "entry": entry})
    process = warm.Program(
        ["-m", "tool_engine.cli", "call", "waits"], cwd=place, env=environment(place)
    )
    # Opens when the program of the call reads it.
    with (place / "pipe").open("wb", buffering=0) as pipe:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)
        assert process.returncode == 130
        assert names_cure(INTERRUPTED, err.decode()), err
        with pytest.raises(BrokenPipeError):
            pipe.write(b"x")
