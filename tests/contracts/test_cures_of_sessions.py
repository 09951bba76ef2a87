"""What an error about a protocol, a deferred call or a variable says to do is done, and it goes.

Rows as in `test_cures_of_errors`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_cures_of_errors import HEAD, names_cure
from tests.protocols.line_protocol import LineProtocol
from tests.protocols.test_registry import Install, install
from tests.session.test_deferral import ASK, deferring
from tests.session.test_which_engine import RULES, SAID, Engines, engines
from tool_engine import (
    DeferredApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    get_protocol,
)
from tool_engine.errors import ApprovalError, ConfigurationError
from tool_engine.protocols import definitions, prompt
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, prefix

__all__ = ["engines", "install"]

FORMATS = "protocols/definition_formats.py: known are ……"
OBJECT = "protocols/prompts.py: pass them where the object is made"
UNINSTALL = "protocols/registry.py: uninstall all but one, or make the object yourself"
ITSELF = "session/deferral.py: call the one that is meant itself"
OPEN = "session/deferral.py: the request stays open"
TAKES = "session/variables/variable_definitions.py: … takes …"
TASK = "session/tools.py: let the program start it with engine.start"
TRIED = {FORMATS, OBJECT, UNINSTALL, ITSELF, OPEN, TAKES, TASK}


@pytest.fixture
def tools(tmp_path: Path) -> ToolEngine:
    """An engine with one tool."""
    (tmp_path / "tools").mkdir()
    engine = ToolEngine(ToolEngineConfig(str(tmp_path / "tools"), auto_reload=False))
    engine.register_tool({**HEAD, "effect": "read"}, lambda: 1)
    return engine


async def test_a_tool_that_runs_only_as_a_task(tools: ToolEngine) -> None:
    """The program starts it, and has its result."""
    tools.register_tool({**HEAD, "name": "later", "background": "required"}, lambda: 2)
    async with tools:
        refused = await ToolSession(tools, "s").execute("later", {})
        assert names_cure(TASK, refused.error or ""), refused.error
        task = await tools.start("later", {})
        assert (await task.wait(30)).output == {"result": 2}


def test_formats(tools: ToolEngine) -> None:
    """Each that is known describes the tools."""
    with pytest.raises(ConfigurationError) as raised:
        definitions("telepathy", tools.list_all())
    assert names_cure(FORMATS, str(raised.value)), raised.value
    for name in str(raised.value).partition("known are ")[2].split(", "):
        assert definitions(name, tools.list_all())


def test_options_of_an_object(tools: ToolEngine) -> None:
    """They have their effect where it is made."""
    with pytest.raises(ConfigurationError) as raised:
        prompt(tools, get_protocol("vcp"), language="zh")
    assert names_cure(OBJECT, str(raised.value)), raised.value
    assert prompt(tools, get_protocol("vcp", language="zh")) != prompt(tools, get_protocol("vcp"))


def test_protocol_of_two_packages(install: Install, tmp_path: Path, tools: ToolEngine) -> None:
    """An object needs no name, and of one package there is one protocol."""
    install("first", lines="tests.protocols.line_protocol:LineProtocol")
    install("second", lines="tests.protocols.line_protocol:TextLineProtocol")
    with pytest.raises(ConfigurationError) as raised:
        get_protocol("lines")
    assert names_cure(UNINSTALL, str(raised.value)), raised.value
    assert "t: " in prompt(tools, LineProtocol())
    shutil.rmtree(tmp_path / "second")
    assert type(get_protocol("lines")) is LineProtocol


async def test_the_tool_that_was_meant(tools: ToolEngine) -> None:
    """Called by the name that it has here, it runs; another call by the same way would not."""
    puts: list[str] = []
    async with tools as engine:

        @engine.tool(effect="write")
        async def put(text: str) -> str:
            """Puts a text."""
            puts.append(text)
            return text

        @engine.tool(effect="write")
        async def detour(text: str, context: ToolExecutionContext) -> str:
            """Puts a text by another tool."""
            return str((await context.call("put", {"text": text})).error_type)

        session = deferring(combine(prefix(engine, "a_"), prefix(engine, "b_")), put=ASK)
        await session.execute("a_detour", {"text": "x"})
        (request,) = session.pending_approvals
        with pytest.raises(ApprovalError) as raised:
            await session.resume(request.token, True)
        assert names_cure(ITSELF, str(raised.value)), raised.value
        for name in re.findall("'(._put)'", str(raised.value)):
            token = (await session.execute(name, {"text": name})).approval_token
            assert token is not None
            assert (await session.resume(token, True)).is_success
    assert puts == ["a_put", "b_put"]


async def deferred(session: ToolSession) -> str:
    token = (await session.execute("run", SAID)).approval_token
    assert token is not None
    return token


async def test_the_engine_that_was_meant(engines: Engines) -> None:
    """The request can be answered where it was asked, the call made again, and engines named."""
    test, live = await engines.open("test"), await engines.open("live")
    session = ToolSession(combine(test, prefix(live, "l_")), "s", RULES, DeferredApprover())
    token = await deferred(session)
    swapped = ToolSession.from_dict(
        session.to_dict(), combine(live, prefix(test, "t_")), DeferredApprover()
    )
    with pytest.raises(ApprovalError) as raised:
        await swapped.resume(token, True)
    assert names_cure(OPEN, str(raised.value)), raised.value
    assert [each.token for each in session.pending_approvals] == [token]
    assert (await swapped.resume(await deferred(swapped), True)).is_success
    assert (await session.resume(token, True)).is_success
    named = await engines.open("old", name="shop")
    moved = await engines.open("new", name="shop")
    asked = ToolSession(named, "t", RULES, DeferredApprover())
    token = await deferred(asked)
    assert (await ToolSession.from_dict(asked.to_dict(), moved).resume(token, True)).is_success


@pytest.mark.parametrize(
    ("params", "healed"),
    [
        ({"fliter": {}}, {"filter": {}}),
        ({"filter": {"nmae": "x"}}, {"filter": {"tag": "t"}}),
    ],
)
async def test_arguments_of_variable_tools(
    tools: ToolEngine, params: dict[str, Any], healed: dict[str, Any]
) -> None:
    """What the message lists is taken."""
    async with tools:
        session = ToolSession(tools, "s")
        failed = await session.execute("list_vars", params)
        assert names_cure(TAKES, failed.error or ""), failed
        listed = (failed.error or "").rpartition(" takes ")[2].split(", ")
        (right,) = healed["filter"] or healed
        assert right in listed
        assert (await session.execute("list_vars", healed)).is_success
