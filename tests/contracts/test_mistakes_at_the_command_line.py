"""What people get wrong at the command line has place, cause and a cure that works.

A row is the wrong line, what its message says in this order, and the line as the message asks for
it; None where only the user knows the right one. `test_cures_of_commands` and its neighbours try
the cures that stand in the code; here is what a stranger types.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.recorded import record_calls
from tests.cli.said import say

ECHO = """
name: echo
description: Says it.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What}
  - {name: times, type: integer, description: How often}
  - {name: loud, type: boolean, description: Whether}
entry: {type: builtin, handler: echo}
"""
GROUP = "kind: group\nname: texts\ntools: [echo]\n"
GONE = "is a link to 'nowhere', which does not exist"
MISTAKES: list[tuple[str, list[str], str | None]] = [
    ("lst", ["no command 'lst'", "did you mean 'list'"], "list"),
    ("ls", ["no command 'ls'", "did you mean 'list'"], "list"),
    ("help", ["no command 'help'", "did you mean '--help'"], "--help"),
    ("--verson", ["no option '--verson'", "did you mean '--version'"], "--version"),
    ("list --tgs", ["no option '--tgs'", "did you mean '--tag'"], "list --tag x"),
    ("list --tag", ["option '--tag' has no value", "write --tag TAG"], "list --tag TAG"),
    ("list --tag --json", ["option '--tag' has no value", "write --tag TAG"],
     "list --tag TAG --json"),
    ("list --help2", ["no option '--help2'", "did you mean '--help'"], "list --help"),
    ("list --json=1", ["'--json' takes no value", "write --json"], "list --json"),
    ("list all", ["takes options only", "leave out 'all'"], "list"),
    ("show", ["missing argument 'NAME'", "for example: tool-engine show "], "show echo"),
    ("show echo now", ["takes NAME and options", "leave out 'now'"], "show echo"),
    ("list --category htp", ["no category 'htp'", "did you mean 'http'"], "list --category http"),
    ("show ecko", ["no tool 'ecko' in tools", "did you mean 'echo'"], "show echo"),
    ("call", ["missing argument 'NAME'", "for example: tool-engine call "], "call echo message=hi"),
    ("call ecko message=hi", ["'ecko'", "did you mean 'echo'"], "call echo message=hi"),
    ("call echo", ["missing required parameter 'message' (string)"], "call echo message=hi"),
    ("call echo hello", ["'hello' is no argument", "such as message=hello"],
     "call echo message=hello"),
    ("call echo mesage=hi", ["you sent 'mesage'", "did you mean 'message'"],
     "call echo message=hi"),
    ("call echo --mesage hi", ["'--mesage'", "did you mean '--message'"], "call echo --message hi"),
    ("call echo --message", ["'--message' has no value", "write message=value"],
     "call echo message=value"),
    ("call echo message=hi times=two", ["'times' is an integer, 'two' is none", "such as times=5"],
     "call echo message=hi times=5"),
    ("call echo message=hi loud=yes", ["'loud' is a boolean", "write loud=true or loud=false"],
     "call echo message=hi loud=true"),
    ("call echo message=a message=b", ["'message' is given twice", "give it once"],
     "call echo message=a"),
    ("""call echo '{"message": '""", ["not JSON", 'line 1 column 13', "write one object, such as"],
     """call echo '{"message": "..."}'"""),
    ("call echo message:=hi!", ["message:=: not JSON", "write message=..."],
     "call echo message=hi!"),
    ("call echo --params nowhere.json", ["nowhere.json", "No such file", "check its name"],
     "call echo --params call.json"),
    ("call echo --params message=hi", ["--params needs the path of a file", "without --params"],
     "call echo message=hi"),
    ("""call echo --params '{"message": "hi"}'""", ["--params needs the path", "without --params"],
     """call echo '{"message": "hi"}'"""),
    ("call echo message=@nowhere", ["nowhere", "No such file", "check its name"],
     "call echo message=@call.json"),
    ("call echo message=hi --timeout soon", ["'--timeout' takes a number", "write --timeout 1"],
     "call echo message=hi --timeout 1"),
    ("call broken", ["'broken' could not be loaded", "broken/broken.yaml:3:10", "timeout"], None),
    ("--tools nowhere list", ["'nowhere' does not exist", "--tools DIR"], "--tools tools list"),
    ("--tools call.json list", ["'call.json' is not a folder", "--tools DIR"],
     "--tools tools list"),
    ("-C nowhere list", ["cannot enter 'nowhere'", "name a folder that is there"], "-C . list"),
    ("--path nowhere list", ["'nowhere' of Python modules", "--path DIR"], "--path . list"),
    ("--source shop list", ["--source takes NAME=URL, such as shop=sqlite:///shop.db"],
     "--source shop=sqlite:///shop.db list"),
    ("--records calls.db history", ["--records takes the URL", "such as sqlite:///calls.db"],
     "--records sqlite:///calls.db history"),
    ("validate tols", ["no file or folder 'tols'", "did you mean 'tools'"], "validate tools"),
    ("validate nothing.yaml", ["no file or folder 'nothing.yaml'", "check its name"],
     "validate tools/echo.yaml"),
    ("validate --format sarf", ["no format 'sarf'", "did you mean 'sarif'"],
     "validate --format sarif"),
    ("validate gone.yaml", [f"'gone.yaml' {GONE}", "make the link anew"], None),
    ("diff gone.yaml tools", [f"'gone.yaml' {GONE}", "make the link anew"], None),
    ("call echo --params gone.yaml", [f"gone.yaml: it {GONE}", "make the link anew"], None),
    ("--tools gone.yaml list", [f"'gone.yaml' {GONE}", "--tools DIR"], "--tools tools list"),
    ("--path gone.yaml list", [f"modules {GONE}", "--path DIR"], "--path . list"),
    ("-C gone.yaml list", [f"'gone.yaml': it {GONE}", "name a folder that is there"], "-C . list"),
    ("--tools linked validate", ["linked/gone.yaml", f"it {GONE}", "remove the link"], None),
    ("validate loop", ["'loop' is a link to 'loop', which leads back to it", "anew"], None),
    ("validate echo", ["no file or folder 'echo'", "did you mean 'tools/echo.yaml'"],
     "validate tools/echo.yaml"),
    ("lint tools/ecko.yaml", ["'tools/ecko.yaml'", "did you mean 'tools/echo.yaml'"],
     "lint tools/echo.yaml --select L105"),
    ("lint --select L999", ["no lint rule 'L999'", "the codes are L001"], "lint --select L001"),
    ("test ecko", ["no tool 'ecko'", "did you mean 'echo'"], "test echo"),
    ("test --app nowhere:engine", ["'nowhere' cannot be imported", "--directory DIR"], None),
    ("diff tools", ["missing argument 'NEW'", "for example: tool-engine diff"], "diff tools tools"),
    ("diff origin/main:tools tools", ["git cannot read that", "compare two folders"],
     "diff tools tools"),
    ("lock --approve ecko", ["the tool 'ecko'", "did you mean 'echo'"], "lock --approve echo"),
    ("new Get-Weather", ["'Get-Weather' is no good name", "write 'get_weather'"],
     "new get_weather"),
    ("new echo", ["is there already", "choose another name"], "new echo_again"),
    ("new shop --kind sql", ["no kind 'sql'", "did you mean 'sql_query'"],
     "new shop --kind sql_query"),
    ("batch half.json", ["half.json:1", "not JSON", "line 1 column", "write a call a line: {"],
     "batch batch.json"),
    ("history show call-x", ["no call 'call-x' is recorded", "`tool-engine history`"], "history"),
    ("history --since yesterday", ["--since takes", "such as 1h", "got 'yesterday'"],
     "history --since 1h"),
    ("history --limit x", ["'--limit' takes a whole number", "write --limit 20"],
     "history --limit 20"),
    ("events --type execution_start", ["'execution_start'", "did you mean 'execution_started'"],
     "events --type execution_started"),
    ("export --format xml", ["no format 'xml'", "there are: csv, jsonl"], "export --format csv"),
    ("prune", ["say what to remove", "--older-than 30d"], "prune --older-than 30d"),
    ("sessions show x", ["no session 'x'", "`tool-engine sessions`"], "sessions"),
    ("chat hi", ["name one model", "--script FILE"], "chat --script script.yaml hi"),
    ("chat --model gpt hi", ["provider:name", "recorded", "got 'gpt'"],
     "chat --model recorded:script.yaml hi"),
    ("chat --script script.yaml --groups text hi", ["no group 'text'", "did you mean 'texts'"],
     "chat --script script.yaml --groups texts hi"),
    ("serve --port 99999 --no-auth", ["'--port' takes no more than 65535", "write --port 8930"],
     None),
    ("mcp serve --http --port 8931", ["'--http' has no value", "write --http HOST:PORT"], None),
    ("test call.json", ["'call.json' is a file, and the name of a tool belongs here", "echo"],
     "test echo"),
    ("test ./echo.py", ["'./echo.py' is a file", "did you mean 'echo'"], "test echo"),
    ("serve", ["whose requests", "--token-file FILE", "--no-auth"], None),
    ("mcp serve --http 8931", ["HOST:PORT, not '8931'", "write 127.0.0.1:8931"], None),
    ("serve --no-auth --host 8931", ["--host takes an address", "write --port 8931"], None),
    ("mcp serv", ["no `mcp serv`", "did you mean 'serve'"], None),
    ("parse --protocol openia reply.txt", ["protocol 'openia'", "did you mean 'openai'"],
     "parse --protocol vcp reply.txt"),
    ("prompt --protocol vpc", ["protocol 'vpc'", "did you mean 'vcp'"], "prompt --protocol vcp"),
    ("convert echo --to opnai", ["no format 'opnai'", "did you mean 'openai'"],
     "convert echo --to openai"),
    ("schema --output no/where.json", ["no/where.json", "make its folder first"],
     "schema --output where.json"),
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS", raising=False)
    monkeypatch.setenv("TOOL_ENGINE_RECORDS", f"sqlite:///{tmp_path}/calls.db")
    monkeypatch.setattr("sys.path", list(sys.path))
    for folder in ("tools", "broken", "linked"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tools" / "echo.yaml").write_text(ECHO)
    (tmp_path / "tools" / "texts.yaml").write_text(GROUP)
    (tmp_path / "broken" / "broken.yaml").write_text(
        "name: broken\ndescription: It.\ntimeout: soon\n"
    )
    for link, target in (
        ("gone.yaml", "nowhere"),
        ("loop", "loop"),
        ("linked/gone.yaml", "nowhere"),
    ):
        (tmp_path / link).symlink_to(target)
    (tmp_path / "script.yaml").write_text("replies: [{text: 'Yes.'}]\n")
    (tmp_path / "call.json").write_text('{"message": "hi"}')
    (tmp_path / "half.json").write_text('{"tool": "echo"')
    (tmp_path / "batch.json").write_text('[["echo", {"message": "hi"}]]')
    (tmp_path / "echo.py").write_text("")
    (tmp_path / "reply.txt").write_text("No call.")
    record_calls(tmp_path)
    return tmp_path


def test_there_are_enough() -> None:
    """Each is another mistake."""
    assert len({row[0] for row in MISTAKES}) == len(MISTAKES) >= 40


@pytest.mark.parametrize(("line", "parts", "healed"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_has_place_cause_and_cure(
    place: Path, capsys: pytest.CaptureFixture[str], line: str, parts: list[str], healed: str | None
) -> None:
    """The message says it in one sentence, and the line that it asks for works."""
    del place
    if line == "call broken":
        line = "--tools broken call broken"
    code, message = say(line, capsys)
    assert code in (1, 2), message
    end = -1
    for part in parts:
        end = message.find(part, end + 1)
        assert end >= 0, (part, message)
    if healed is not None:
        code, message = say(healed, capsys)
        assert code == 0, message
