"""Is a secret hidden in later words also where a model never wrote it, or another process heard it?

A reference puts a variable's value into a secret argument, and a kept conversation is resumed by a
process that has seen none of its calls. Looked at: whoever tells what foreign code said after a
call: model clients, listeners, the callbacks of a cycle, the screen of `chat`, events.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from tests.calls.audit import EMPTY_FOLDER
from tool_engine import (
    AgentLoop,
    RecordedModel,
    ToolEngine,
    ToolEngineConfig,
    ToolSession,
    Variable,
)
from tool_engine.agent.events import AgentEvent
from tool_engine.cli.chat.chat_view import PlainView
from tool_engine.errors import ChatModelError

SENT = {"plainly": {"pin": "open-sesame-1"}, "by reference": {"pin": "$VAR_REF{{pin}}"}}
SECRET = "open-sesame-1"


class Quoting:
    """A client whose request number `at` fails with a message that quotes the conversation."""

    def __init__(self, replies: list[dict[str, Any]], at: int) -> None:
        self._model, self._at, self._requests = RecordedModel({"replies": replies}), at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def reply(self, request: Any) -> AsyncIterator[Any]:
        self._requests += 1
        if self._requests == self._at:
            raise RuntimeError(f"400: cannot read {request.messages}")
        return self._model.reply(request)


async def login(pin: str) -> str:
    # Not in a thread of the engine's: the loop's time does not wait for those.
    return f"got {pin}"


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False)
    async with ToolEngine(config) as made:
        pin = {"name": "pin", "type": "string", "required": True, "secret": True}
        made.register_tool(
            {
                "name": "login",
                "description": "Logs in.",
                "effect": "write",
                "parameters": [{**pin, "description": "The pin"}],
            },
            login,
        )
        yield made


@pytest.fixture
def logged() -> list[str]:
    """All lines that are written meanwhile."""
    lines: list[str] = []

    def take(_: Any, __: str, line: Any) -> Any:
        lines.append(repr(line))
        raise structlog.DropEvent

    structlog.configure(processors=[take])
    return lines


def session_of(engine: ToolEngine) -> ToolSession:
    session = ToolSession(engine, "chat")
    session.variables.add(Variable(name="pin", value=SECRET))
    return session


def replies_with(sent: str) -> list[dict[str, Any]]:
    return [{"calls": [{"name": "login", "arguments": SENT[sent]}]}, {"text": "ok"}]


@pytest.mark.parametrize("sent", SENT)
async def test_a_client_that_quotes_its_request(
    engine: ToolEngine, logged: list[str], sent: str
) -> None:
    """The request after the call holds the result, and so the secret."""
    heard: list[AgentEvent] = []
    model: Any = Quoting(replies_with(sent), at=2)
    loop = AgentLoop(session_of(engine), model, on_event=heard.append)
    with pytest.raises(ChatModelError) as failed:
        await loop.run("log me in")
    said = [str(failed.value), *logged, *(repr(each.error) for each in heard)]
    assert "cannot read" in said[0]
    assert [each for each in said if SECRET in each] == []


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("has_kept_variable", [True, False])
async def test_a_resumed_conversation(
    engine: ToolEngine, logged: list[str], sent: str, has_kept_variable: bool
) -> None:
    """The first request of another process repeats the earlier turns."""
    loop = AgentLoop(session_of(engine), RecordedModel({"replies": replies_with(sent)}))
    await loop.run("log me in")
    kept, data = loop.to_dict(), loop.session.to_dict()
    session = ToolSession.from_dict(data, engine)
    if not has_kept_variable and sent == "plainly":
        session.variables.remove(["pin"])
    heard: list[AgentEvent] = []
    model: Any = Quoting([{"text": "never"}], at=1)
    resumed = AgentLoop.from_dict(kept, session, model, on_event=heard.append)
    with pytest.raises(ChatModelError) as failed:
        await resumed.run("and again")
    said = [str(failed.value), *logged, *(repr(each.error) for each in heard)]
    assert "cannot read" in said[0]
    assert [each for each in said if SECRET in each] == []


@pytest.mark.parametrize("value", [SECRET, f'"{SECRET}" \\ "{SECRET}"'], ids=["plain", "quotes"])
@pytest.mark.parametrize(
    "sent",
    [
        {"pin": SECRET, "keys": ["$VAR_REF{{gone}}"]},
        {"pin": "$VAR_REF{{pin}}", "keys": ["$VAR_REF{{gone}}"]},
        {"keys": ["$VAR_REF{{pin}}"]},
        {"keys": ["first", SECRET]},
    ],
    ids=["sent", "referred", "listed", "sent in a list"],
)
async def test_each_kept_argument_is_looked_at_by_itself(
    engine: ToolEngine, sent: dict[str, Any], value: str
) -> None:
    """Another one that leads nowhere by now hides no less; quotes in a value break no list."""
    secret = {"description": "S.", "secret": True}
    pin, keys = {"name": "pin", "type": "string"}, {"name": "keys", "type": "array"}
    parameters = [{**pin, **secret}, {**keys, **secret}]
    tool = {"name": "open", "description": "Opens.", "effect": "write", "parameters": parameters}
    engine.register_tool(tool, lambda pin="", keys=(): f"got {pin} {' '.join(keys)}")
    session = session_of(engine)
    session.variables.add(Variable(name="pin", value=value))
    session.variables.add(Variable(name="gone", value="of no interest"))
    replies = [{"calls": [{"name": "open", "arguments": sent}]}, {"text": "ok"}]
    loop = AgentLoop(session, RecordedModel({"replies": replies}))
    await loop.run("open it")
    restored = ToolSession.from_dict(session.to_dict(), engine)
    restored.variables.remove(["gone"])
    resumed = AgentLoop.from_dict(loop.to_dict(), restored, Quoting([], at=1))
    with pytest.raises(ChatModelError) as failed:
        await resumed.run("and again")
    assert SECRET in str(loop.messages)
    assert "cannot read" in str(failed.value)
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("place", ["on_event", "on_result"])
async def test_code_that_quotes_what_it_hears(
    engine: ToolEngine, logged: list[str], sent: str, place: str
) -> None:
    """What a listener raises is logged, and what it was given holds the result."""
    session = session_of(engine)

    def quote(*heard: Any) -> None:
        found = [getattr(each, "result", None) or each for each in heard]
        outputs = [each.output for each in found if getattr(each, "output", None)]
        if outputs:
            raise RuntimeError(f"cannot store {outputs}")

    said: list[Any] = []
    if place == "on_event":
        model = RecordedModel({"replies": replies_with(sent)})
        await AgentLoop(session, model, on_event=quote).run("log me in")
    else:
        call = json.dumps({"name": "login", "arguments": SENT[sent]})
        text = f"<function_call>{call}</function_call>"
        cycle = await session.process(text, "function_call", on_result=quote)
        said = [cycle.findings]
    assert any("cannot store" in each for each in logged)
    assert [each for each in (*logged, *map(repr, said)) if SECRET in each] == []


@pytest.mark.parametrize("sent", SENT)
async def test_the_screen(
    engine: ToolEngine, capsys: pytest.CaptureFixture[str], sent: str
) -> None:
    """`chat` shows the result without what the tool repeats; events say the same."""
    session = session_of(engine)
    heard: list[AgentEvent] = []
    view = PlainView(session.get)
    loop = AgentLoop(session, RecordedModel({"replies": replies_with(sent)}))
    loop.listeners.add(view.hear)
    loop.listeners.add(heard.append)
    await loop.run("log me in")
    shown = "".join(capsys.readouterr())
    assert "login" in shown
    assert SECRET not in shown
    assert [each for each in heard if SECRET in json.dumps(each.to_dict())] == []
    # The model has read it.
    assert SECRET in str(loop.messages)
