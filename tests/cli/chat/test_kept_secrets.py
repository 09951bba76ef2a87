"""What does `sessions show` print of the secrets of a conversation, however they were sent?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tests.cli.chat.test_sessions_command import PIN, SECRETIVE, asks
from tool_engine import (
    AgentLoop,
    DeferredApprover,
    Permission,
    RecordedModel,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolSession,
    Variable,
)
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.chat.sessions_command import print_session
from tool_engine.cli.settings import Settings
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.sources.composition import rename

INNOCENT = SECRETIVE.replace(", secret: true", "")
NESTED = SECRETIVE.replace("type: string, required: true, secret", "type: object, secret")
CALL = '<function_call>{"name": "unlock", "arguments": {"pin": %s}}</function_call>'
BLOCK = "<<<[TOOL_REQUEST]>>>\n{}\n<<<[END_TOOL_REQUEST]>>>"


def show(
    tools: Path, kept: dict[str, Any], capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> tuple[str, str]:
    """What is printed of a conversation, and what is warned of."""
    settings = Settings(str(tools), records=f"sqlite:///{tools.parent}/shown.db")
    config = ToolEngineConfig(
        tools_directory=EMPTY_FOLDER, auto_reload=False, records=settings.records
    )

    async def keep() -> None:
        async with ToolEngine(config) as engine:
            await engine.store.sessions.save(kept["session_id"], kept)

    asyncio.run(keep())
    capsys.readouterr()
    assert print_session(settings, kept["session_id"], as_json=as_json) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


async def converse(
    engine: ToolEngine,
    replies: list[dict[str, Any]],
    protocol: str = "openai",
    source: Any = None,
    own: str = "",
) -> dict[str, Any]:
    """A conversation as `chat` keeps it."""
    session = ToolSession(source or engine, "door")
    session.variables.add(Variable(name="pin", value=PIN))
    if own:
        tool = ToolConfigLoader().load_text(own)
        session.register_tool(tool, lambda pin, note="": "opened")
    loop = AgentLoop(session, RecordedModel({"replies": replies}, protocol=protocol))
    await loop.run("open")
    return {**session.to_dict(), "more": {"loop": loop.to_dict()}}


def engine_of(*definitions: str, repeats: bool = True) -> ToolEngine:
    """An engine whose tools repeat what they are sent, or do not."""
    engine = ToolEngine(ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False))

    def repeat(pin: str = "", note: str = "") -> str:
        return f"{pin} {note}" if repeats else f"opened {note}"

    for each in definitions:
        engine.register_tool(ToolConfigLoader().load_text(each), repeat)
    return engine


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("way", ["renamed", "of another engine", "own"])
def test_a_name_is_no_definition(
    tools: Path, capsys: pytest.CaptureFixture[str], way: str, as_json: bool
) -> None:
    """The folder has an innocent tool of the name under which the model called another one.

    Looked at: views that rename, tools of other engines and of the session, and former versions.
    """
    (tools / "unlock.yaml").write_text(INNOCENT)

    async def run() -> dict[str, Any]:
        replies = [asks(PIN), {"text": "Done."}]
        if way == "own":
            async with engine_of() as engine:
                return await converse(engine, replies, own=SECRETIVE)
        if way == "renamed":
            async with engine_of(SECRETIVE.replace("unlock", "login"), repeats=False) as engine:
                return await converse(engine, replies, source=rename(engine, {"login": "unlock"}))
        async with engine_of(SECRETIVE, repeats=False) as engine:
            return await converse(engine, replies)

    out, err = show(tools, asyncio.run(run()), capsys, as_json=as_json)
    assert "does not have the definition that unlock ran with" in err
    # The variable that a person put there is no argument.
    assert PIN not in out.replace(f'"value": "{PIN}"', "")


def _put_before(old: dict[str, Any], new: dict[str, Any], *parts: str) -> dict[str, Any]:
    """The new conversation with parts of an old one before it."""
    loops = old["more"]["loop"], new["more"]["loop"]
    joined = {part: loops[0][part] + loops[1][part] for part in parts}
    return {**new, "more": {"loop": {**loops[1], **joined}}}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("parts", [("messages", "transcript"), ("messages",)])
@pytest.mark.parametrize("protocol", ["openai", "openai_responses", "anthropic", "gemini"])
def test_a_conversation_with_calls_of_which_nothing_is_known(
    tools: Path,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
    parts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Other calls of the name ran with a definition that is here: that says nothing of these.

    Looked at: calls that were kept before the hash was, messages that a program brought along.
    """
    (tools / "unlock.yaml").write_text(INNOCENT)

    async def run() -> dict[str, Any]:
        async with engine_of(SECRETIVE, repeats=False) as engine:
            old = await converse(engine, [asks(PIN), {"text": "Done."}], protocol)
        async with engine_of(INNOCENT, repeats=False) as engine:
            new = await converse(engine, [asks("heron"), {"text": "Done."}], protocol)
        for entry in old["more"]["loop"]["transcript"]:
            entry["metadata"].get("toolCall", {}).pop("definitionHash", None)
        return _put_before(old, new, *parts)

    out, err = show(tools, asyncio.run(run()), capsys, as_json=as_json)
    assert "does not have the definition that unlock ran with" in err
    assert PIN not in out.replace(f'"value": "{PIN}"', "")
    assert "heron" in out


@pytest.mark.parametrize("here", [SECRETIVE, INNOCENT])
def test_results_of_calls_that_no_transcript_has(
    tools: Path, capsys: pytest.CaptureFixture[str], here: str
) -> None:
    """A program calls for itself: which values were secret is kept nowhere, and results have them.

    Looked at: results in variables, the news of calls that were approved, secret defaults.
    """
    (tools / "unlock.yaml").write_text(here)

    async def run() -> dict[str, Any]:
        async with engine_of(SECRETIVE, INNOCENT.replace("unlock", "note")) as engine:
            session = ToolSession(
                engine,
                "door",
                ToolCallConfig(
                    tool_permissions={"unlock": Permission(execution=ExecutionPolicy.ASK_ALWAYS)}
                ),
                DeferredApprover(),
            )
            asked = await session.execute("unlock", {"pin": PIN})
            await session.resume(asked.approval_token or "", True)
            await session.execute("note", {"pin": "heron"})
            kept = session.to_dict()
        assert PIN in str(kept["news"])
        assert PIN in str(kept["variables"])
        return kept

    out, _ = show(tools, asyncio.run(run()), capsys, as_json=True)
    assert PIN not in out
    assert "heron" in json.loads(out)["data"]["variables"]["variables"][-1]["value"]


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_view_shows_under_another_name(
    tools: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """The definition is here, under its own name: its secrets are hidden, the rest is shown."""
    login = SECRETIVE.replace("unlock", "login")
    (tools / "login.yaml").write_text(login)

    async def run() -> dict[str, Any]:
        async with engine_of(login) as engine:
            source = rename(engine, {"login": "unlock"})
            return await converse(engine, [asks(PIN, note="hello"), {"text": "x"}], source=source)

    out, err = show(tools, asyncio.run(run()), capsys, as_json=as_json)
    assert (PIN in out, "hello" in out, err) == (False, True, "")


TEXTS = {
    "no marks": (SECRETIVE, "vcp", BLOCK.format(f"tool_name:「始」unlock「末」,\npin:{PIN}")),
    "marks": (
        SECRETIVE,
        "vcp",
        BLOCK.format(f"tool_name:「始」unlock「末」,\npin:「始」{PIN}「末」"),
    ),
    "no JSON": (
        SECRETIVE,
        "function_call",
        f'<function_call>{{"name": "unlock", "arguments": {{"pin" "{PIN}"}}}}</function_call>',
    ),
    "an object in JSON": (
        NESTED,
        "function_call",
        CALL % f'{{"word": "{PIN}"}}',
    ),
    "an object in marks": (
        NESTED,
        "vcp",
        BLOCK.format(f'tool_name:「始」unlock「末」,\npin:「始」{{"word": "{PIN}"}}「末」'),
    ),
    "a reference": (
        SECRETIVE,
        "function_call",
        CALL % '"$VAR_REF{{pin}}"',
    ),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("way", TEXTS)
def test_calls_in_text(
    tools: Path, capsys: pytest.CaptureFixture[str], way: str, as_json: bool
) -> None:
    """What cannot be read for sure is not shown; what a secret object holds is hidden like it."""
    definition, protocol, text = TEXTS[way]
    (tools / "unlock.yaml").write_text(definition)

    async def run() -> dict[str, Any]:
        async with engine_of(definition) as engine:
            return await converse(engine, [{"text": text}, {"text": "Done."}], protocol)

    out, _ = show(tools, asyncio.run(run()), capsys, as_json=as_json)
    assert PIN not in out.replace(f'"value": "{PIN}"', "")
    assert "unlock" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_marks_in_a_secret(tools: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """A result shows marks of calls in a form that calls nothing: there, too, it is known."""
    (tools / "unlock.yaml").write_text(SECRETIVE)
    pin = "<<<[TOOL_REQUEST]>>>heron"
    call = CALL % f'"{pin}"'

    async def run() -> dict[str, Any]:
        async with engine_of(SECRETIVE) as engine:
            return await converse(engine, [{"text": call}, {"text": "Done."}], "function_call")

    out, _ = show(tools, asyncio.run(run()), capsys, as_json=as_json)
    assert "heron" not in out
