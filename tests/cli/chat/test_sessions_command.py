"""`sessions` lists conversations, shows and forgets one, and answers what one waits for."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.conftest import Command
from tests.cli.recorded import HOSTILE, lines_of
from tests.contracts.test_approval_storage_contract import request_for
from tool_engine.approval.answers import name_at_terminal
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.chat import answering
from tool_engine.cli.settings import Settings
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import SessionConflictError
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.kept_secrets import KeptSecrets
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.store import Variable

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


class Later:
    """Cannot answer now."""

    async def approve(self, request: ApprovalRequest) -> None:
        """Nobody is there."""


async def _keep(tools: Path, url: str, *, has_request: bool) -> str | None:
    config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, records=url)
    async with ToolEngine(config) as engine:
        settings = ToolCallConfig(require_confirmation=has_request)
        session = ToolSession(engine, "chat-1", settings, Later())
        result = await session.execute("echo", {"message": "to be approved"})
        await session.save({"said": "hello", "api_key": "made-up-secret"})
        other = ToolSession(engine, f"chat {HOSTILE}")
        await other.save()
        await other.execute("echo", {"message": "other"})
        return result.approval_token


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/calls.db"


@pytest.fixture
def token(tools: Path, url: str) -> str:
    """The token of a request that the session `chat-1` waits for."""
    found = asyncio.run(_keep(tools, url, has_request=True))
    assert found is not None
    return found


def listed(command: Command, url: str, *words: str) -> Any:
    done = command("--records", url, "sessions", *words, "--json")
    assert done.code == 0, done.err
    return done.json


def test_sessions_are_listed(command: Command, url: str, token: str) -> None:
    """The last saved first, with size and open requests; nothing of an id steers the terminal."""
    found = listed(command, url)
    assert [each["session_id"] for each in found] == [f"chat {HOSTILE}", "chat-1"]
    assert found[1]["pending_approvals"] == 1
    assert found[1]["size"] > 100
    assert found[1]["created_at"] == found[1]["updated_at"]
    assert len(listed(command, url, "--limit", "1")) == 1
    done = command("--records", url, "sessions")
    assert "chat-1" in done.out
    assert not ESCAPES.search(done.out)


def test_one_session(command: Command, url: str, token: str) -> None:
    """A person sees what is asked; a program gets all of it, secrets hidden."""
    done = command("--records", url, "sessions", "show", "chat-1")
    assert done.code == 0, done.err
    assert token in done.out
    assert '"to be approved"' in done.out
    found = listed(command, url, "show", "chat-1")
    assert found["data"]["session_id"] == "chat-1"
    assert found["data"]["more"]["said"] == "hello"
    assert "made-up-secret" not in str(found)
    (asked,) = found["requests"]
    assert (asked["token"], asked["params"]["message"]) == (token, "to be approved")
    assert asked["is_whole"]


def test_approved_call_runs(command: Command, url: str, token: str) -> None:
    """The call runs with what was shown, once, and the conversation is kept with its end."""
    done = command("--records", url, "sessions", "approve", token, "--json")
    assert done.code == 0, done.out
    assert (done.json["is_success"], done.json["tool_name"]) == (True, "echo")
    assert "to be approved" in done.json["text"]
    again = command("--records", url, "sessions", "approve", token, "--json")
    assert again.code == 2
    assert again.json["error"]["type"] == "request_not_found"
    assert listed(command, url, "pending") == []
    assert listed(command, url, "show", "chat-1")["data"]["more"]["said"] == "hello"
    calls = command("--records", url, "history", "--session", "chat-1", "--json")
    assert [each["outcome"] for each in lines_of(calls.out)] == ["rejected", "succeeded"]
    assert [each["decided_by"] for each in lines_of(calls.out)] == [None, name_at_terminal()]
    shown = command("--records", url, "history", "show", lines_of(calls.out)[1]["call_id"])
    assert f"decided by\t{name_at_terminal()}" in shown.out


async def test_conversation_that_goes_on_while_its_call_runs(tools: Path, url: str) -> None:
    """The end of the call is in what the others have saved meanwhile, and so is its result."""
    await _keep(tools, url, has_request=True)
    config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, records=url)
    async with ToolEngine(config) as engine:
        found = [await ToolSession.restore(engine, "chat-1") for _ in range(2)]
        session, other = (each for each in found if each is not None)
        (token,) = (each.token for each in session.pending_approvals)
        before = answering.Before.of(session)
        await session.resume(token, ApprovalDecision(is_approved=True))
        other.variables.add(Variable(name="note", value="kept"))
        other.variables.add(Variable(name="echo_2_args", value="theirs"))
        await other.save({"said": "more"})
        await answering.keep_answered(session, engine, token, before)
        latest = await ToolSession.restore(engine, "chat-1")
    assert latest is not None
    assert latest.more == {"said": "more"}
    assert latest.variables.get("note").value == "kept"
    assert latest.variables.get("echo_2_args").value == "theirs"
    assert latest.variables.get("echo_2_result").value["message"] == "to be approved"
    assert latest.pending_approvals == []
    assert latest.deferred == {}
    (news,) = latest.take_news()
    assert "to be approved" in news


async def test_names_that_are_taken_meanwhile(tools: Path, url: str) -> None:
    """S29: what the model is told to read on is the result of its call, and not another one that
    has got the same name in the meantime."""
    config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, records=url)
    async with ToolEngine(config) as engine:
        rules: Any = {"echo:message=mine*": "ask_always"}
        session: Any = ToolSession(engine, "s", ToolCallConfig(rules=rules, limit=500), Later())
        await session.execute("echo", {"message": "mine " * 200})
        await session.save()
        session, other = [cast("Any", await ToolSession.restore(engine, "s")) for _ in range(2)]
        (token,) = (each.token for each in session.pending_approvals)
        before = answering.Before.of(session)
        await session.resume(token, ApprovalDecision(is_approved=True))
        await other.execute("echo", {"message": "theirs " * 200})
        await other.save()
        await answering.keep_answered(session, engine, token, before)
        latest = await ToolSession.restore(engine, "s")
    assert latest is not None
    (news,) = latest.take_news()
    assert set(re.findall(r"echo_2_result[-\w]*", news)) == {"echo_2_result-2"}
    said = {each.name: str(each.value) for each in latest.variables}
    assert "mine" in said["echo_2_result-2"]
    assert "theirs" in said["echo_2_result"]


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_conversation_that_is_busy(
    tools: Path, url: str, monkeypatch: pytest.MonkeyPatch, *, is_deleted: bool
) -> None:
    """Where others save without end that is told; one that was deleted meanwhile is kept anew."""
    await _keep(tools, url, has_request=True)
    config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, records=url)
    async with ToolEngine(config) as engine:
        session = await ToolSession.restore(engine, "chat-1")
        assert session is not None
        save_if = engine.store.sessions.save_if  # type: ignore[attr-defined]

        async def refuse(session_id: str, data: dict[str, Any], revisions: Any) -> bool:
            if not is_deleted:
                return False
            if await engine.store.sessions.delete(session_id):
                return False
            return bool(await save_if(session_id, data, revisions))

        monkeypatch.setattr(engine.store.sessions, "save_if", refuse)
        before = answering.Before.of(session)
        token = session.pending_approvals[0].token
        if is_deleted:
            await answering.keep_answered(session, engine, token, before)
            assert await ToolSession.restore(engine, "chat-1") is not None
        else:
            with pytest.raises(SessionConflictError):
                await answering.keep_answered(session, engine, token, before)


def test_refused_call_does_not_run(command: Command, url: str, token: str) -> None:
    """The reason is told, and the request is closed."""
    done = command("--records", url, "sessions", "refuse", token, "--reason", "not today")
    assert done.code == 0, done.err
    assert "not today" in done.out
    assert listed(command, url, "pending") == []
    assert "nothing waits" in command("--records", url, "sessions", "pending").err
    calls = lines_of(command("--records", url, "history", "--session", "chat-1", "--json").out)
    assert [each["reached_executor"] for each in calls] == [False, False]


def test_pending_of_all_sessions(command: Command, url: str, token: str) -> None:
    """What waits is listed with its token."""
    assert [each["session_id"] for each in listed(command, url, "pending")] == ["chat-1"]
    assert "chat-1 asks until " in command("--records", url, "sessions", "pending").out


def test_pending_names_who_asks(command: Command, url: str) -> None:
    """Many callers of one engine ask in its name, so it says for whom it does."""

    async def ask() -> None:
        store = ToolKnowledgeStore(SQLRecordStorage(url))
        await store.approvals.put(request_for("engine", "t-1", principal="mcp-client:ann"))
        await store.approvals.put(request_for("engine", "t-2", conversation_id="mail 7"))
        await store.approvals.put(request_for("engine", "t-3", conversation_id="engine"))
        await store.close()

    asyncio.run(ask())
    out = command("--records", url, "sessions", "pending").out
    asked = [line.partition(" until ")[0] for line in out.splitlines() if " until " in line]
    assert asked == ["engine asks for mcp-client:ann", "engine asks for mail 7", "engine asks"]


def test_tool_has_changed_meanwhile(command: Command, url: str, token: str, tools: Path) -> None:
    """A consent is for the tool as it was: nothing runs."""
    path = tools / "echo.yaml"
    path.write_text(path.read_text().replace("Use it to test.", "Use it."))
    done = command("--records", url, "sessions", "approve", token, "--json")
    assert done.code == 1
    assert "has changed or another tool has the name" in done.json["error"]["message"]


def test_delete(command: Command, url: str, token: str) -> None:
    """A session goes with all that it waits for; its calls stay."""
    done = command("--records", url, "sessions", "delete", "chat-1")
    assert (done.code, done.out) == (0, "deleted chat-1\n")
    assert [each["session_id"] for each in listed(command, url)] == [f"chat {HOSTILE}"]
    assert listed(command, url, "pending") == []
    assert command("--records", url, "sessions", "delete", "chat-1").code == 2
    assert lines_of(command("--records", url, "history", "--session", "chat-1", "--json").out)
    assert listed(command, url, "delete", f"chat {HOSTILE}")["deleted"]


def test_old_sessions_are_pruned(command: Command, url: str, tools: Path) -> None:
    """By their own age; records stay unless they are named, too."""
    asyncio.run(_keep(tools, url, has_request=False))
    words = ("--records", url, "prune", "--sessions-older-than")
    assert command(*words, "1h").out == "removed 0 records and 0 sessions\n"
    assert command(*words, "0.001s", "--json").json == {"removed": 0, "sessions": 2}
    assert listed(command, url) == []


def test_request_of_a_session_that_is_not_kept(command: Command, url: str) -> None:
    """Only where it runs can it be answered, and that is said; nothing is claimed."""

    async def ask() -> None:
        store = ToolKnowledgeStore(SQLRecordStorage(url))
        await store.approvals.put(request_for("unsaved", "t-1"))
        await store.close()

    asyncio.run(ask())
    done = command("--records", url, "sessions", "approve", "t-1", "--json")
    assert done.json["error"]["type"] == "session_not_found"
    assert [each["token"] for each in listed(command, url, "pending")] == ["t-1"]


def test_nothing_of_this_name(command: Command, url: str, token: str) -> None:
    """Beside others, too, what there is not is told."""
    assert "no session 'none' is kept" in command("--records", url, "sessions", "show", "none").err
    assert command("--records", url, "sessions", "approve", "none").code == 2
    assert listed(command, url, "pending")


def test_what_always_holds(command: Command, tools: Path, url: str) -> None:
    """An answer may hold for whoever was behind the call; it is listed, and taken back."""

    async def ask() -> str:
        config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, records=url)
        async with ToolEngine(config) as engine:
            settings = ToolCallConfig.from_dict({"permission": "ask_once"})
            session = ToolSession(engine, "chat-1", settings, Later(), principal=f"ann{HOSTILE}")
            result = await session.execute("echo", {"message": "hello"})
            await session.save()
            return str(result.approval_token)

    token = asyncio.run(ask())
    assert command("--records", url, "sessions", "decisions").err == "no decision always holds\n"
    done = command("--records", url, "sessions", "approve", token, "--always", "tool")
    assert done.code == 0, done.err
    (found,) = listed(command, url, "decisions")
    assert (found["principal"], found["tool_name"], found["params"]) == (
        f"ann{HOSTILE}",
        "echo",
        None,
    )
    done = command("--records", url, "sessions", "decisions")
    assert found["decision_id"] in done.out
    assert "yes to echo 1.0.0 with all arguments" in done.out
    assert not ESCAPES.search(done.out)
    assert listed(command, url, "revoke", found["decision_id"]) == {"revoked": found["decision_id"]}
    again = command("--records", url, "sessions", "revoke", found["decision_id"], "--json")
    assert (again.code, again.json["error"]["type"]) == (2, "decision_not_found")
    assert listed(command, url, "decisions") == []


def test_no_sessions_yet(command: Command) -> None:
    """Where nothing is kept there is nothing to show, which is no mistake."""
    done = command("sessions")
    assert (done.code, done.out) == (0, "")
    assert "no sessions are kept" in done.err
    assert command("sessions", "list").err == done.err
    assert command("sessions", "--limit", "0").err == "--limit 0 shows none\n"
    assert command("sessions", "pending").code == 0
    assert command("prune", "--sessions-older-than", "1d").out.endswith("and 0 sessions\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "write `tool-engine sessions show ID`"),
        (("approve", "a", "b"), "write `tool-engine sessions approve TOKEN`"),
        (("aprove", "a"), "did you mean 'approve'?"),
        (("show", "none"), "no session 'none' is kept"),
        (("delete", "none"), "no session 'none' is kept"),
        (("approve", "none"), "no call waits for an answer under this token"),
        (("show", "x" * 600), "the id of a session must be a text of 1 to 512 characters"),
        (("approve", "t", "--reason", "r"), "--reason goes with"),
        (("pending", "more"), "sessions takes no 'pending more'"),
        (("revoke", "none"), "no decision with this id holds"),
        (("approve", "t", "--always", "ever"), "--always call`, or `--always tool`"),
        (("pending", "--always", "call"), "write `sessions approve TOKEN --always call`"),
    ],
)
def test_words_that_are_none(command: Command, words: tuple[str, ...], message: str) -> None:
    """Each mistake is told with its cure."""
    done = command("sessions", *words)
    assert done.code in (1, 2)
    assert message in " ".join(done.err.split())


SECRETIVE = """
name: unlock
description: Unlocks a door.
effect: read
parameters:
  - {name: pin, type: string, required: true, secret: true, description: The pin of the door.}
  - {name: note, type: string, description: A note for the log.}
entry: {type: builtin, handler: echo}
"""
PIN = "zebra-4711"


def asks(pin: str, **more: str) -> dict[str, Any]:
    return {"calls": [{"name": "unlock", "arguments": {"pin": pin, **more}}]}


@pytest.fixture
def chat(command: Command, tools: Path, url: str, tmp_path: Path) -> None:
    """A conversation that is kept, with a secret that everybody in it repeats."""
    (tools / "unlock.yaml").write_text(SECRETIVE)
    replies = [asks(PIN, note=f"with {PIN}"), asks("abc"), {"text": f"Opened with {PIN}."}]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": replies}))
    words = ("chat", f"Take {PIN}", "--script", str(script), "--session", "door")
    assert command("--records", url, *words).code == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_secret_parameters_of_a_conversation(
    command: Command, url: str, chat: None, form: tuple[str, ...]
) -> None:
    """What a tool declares secret is hidden wherever the conversation has it, short ones as well.

    Looked at: messages, transcript, requests and variables of `sessions show`; `sessions pending`,
    `history`, `show`, `export` and the screen of `chat`, which hide by the definitions already.
    """
    done = command("--records", url, "sessions", "show", "door", *form)
    assert done.code == 0, done.err
    assert "warning" not in done.err
    assert PIN not in done.out
    assert "Opened with [hidden]." in done.out
    # Values of three characters are hidden where they were sent: they stand in every second word.
    short = json.dumps({"pin": "[hidden]"})
    assert (json.dumps(short) if form else f"unlock({short})") in done.out


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_arguments_of_a_tool_that_is_not_there(
    command: Command, url: str, chat: None, tools: Path, form: tuple[str, ...]
) -> None:
    """Without its definition any argument may be secret: none is shown, and it is said so."""
    (tools / "unlock.yaml").unlink()
    done = command("--records", url, "sessions", "show", "door", *form)
    assert done.code == 0, done.err
    said = "does not have the definition that unlock ran with: all of its arguments are hidden"
    assert said in done.err
    arguments = json.dumps({"pin": "[hidden]", "note": "[hidden]"})
    assert (json.dumps(arguments) if form else f"unlock({arguments})") in done.out
    assert f'"pin": "{PIN}", "note": "with {PIN}"}})' not in done.out


def test_half_a_call_in_a_conversation() -> None:
    """Arguments that a limit cut are no object, and may end in half of a secret."""
    tool = ToolConfigLoader().load_text(SECRETIVE)
    half = {"name": "unlock", "arguments": '{"pin": "zeb'}
    raw = {"toolName": "unlock", "args": {}, "rawBlock": "pin: zeb"}
    ran = {"toolName": "unlock", "args": {}, "definitionHash": tool.definition_hash}
    known: list[list[Tool]] = [[tool], []]
    for tools in known:
        found = KeptSecrets({"more": [half, raw, ran]}, tools)
        assert found.hide([half, raw]) == [
            {"name": "unlock", "arguments": "[hidden]"},
            {"toolName": "unlock", "args": {}, "rawBlock": "[hidden]"},
        ]


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("word", ["approve", "refuse"])
def test_secret_parameters_of_an_answered_call(
    command: Command, url: str, tools: Path, tmp_path: Path, word: str, form: tuple[str, ...]
) -> None:
    """The result of a call that was asked about is shown as on the screen of `chat`.

    Looked at: `sessions approve` and `refuse`, with and without `--json`, the text and the error.
    """
    (tools / "unlock.yaml").write_text(SECRETIVE)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [asks(PIN, note=f"with {PIN}"), {"text": "Asked."}]}))
    words = ("chat", "Open", "--script", str(script), "--session", "s", "--confirm", "--defer")
    assert command("--records", url, *words).code == 0
    (asked,) = listed(command, url, "pending")
    assert PIN not in str(asked)
    more = ("--reason", f"not {PIN}") if word == "refuse" else ()
    done = command("--records", url, "sessions", word, asked["token"], *more, *form)
    assert done.code == 0, done.err
    assert PIN not in done.out
    assert "[hidden]" in done.out


BREAKING = """
name: unlock
description: Unlocks a door.
effect: read
parameters:
  - {name: expression, type: string, required: true, secret: true, description: The pin.}
entry: {type: builtin, handler: calculator}
"""
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "by reference": (SECRETIVE, {"pin": "$VAR_REF{{pin}}"}),
    "by default": (SECRETIVE.replace("required: true", f"default: {PIN}"), {}),
    "to a tool that fails": (BREAKING, {"expression": f"1 + {PIN} ("}),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_secrets_of_an_approved_call(
    tools: Path, url: str, capsys: pytest.CaptureFixture[str], way: str, as_json: bool
) -> None:
    """However the secret came into the call, and whether it succeeds or fails, it is hidden."""
    definition, sent = WAYS[way]
    (tools / "unlock.yaml").write_text(definition)

    async def ask() -> str:
        config = ToolEngineConfig(tools_directory=str(tools), auto_reload=False, records=url)
        async with ToolEngine(config) as engine:
            session = ToolSession(engine, "s", ToolCallConfig(require_confirmation=True), Later())
            session.variables.add(Variable(name="pin", value=PIN))
            result = await session.execute("unlock", sent)
            await session.save()
            return result.approval_token or ""

    token = asyncio.run(ask())
    settings = Settings(str(tools), records=url)
    code = answering.answer_request(
        settings, token, ApprovalDecision(is_approved=True), as_json=as_json
    )
    shown = capsys.readouterr().out
    assert (code, PIN in shown) == (int(way == "to a tool that fails"), False)
    assert shown
