"""Does a model read of a tool by the name that it knows?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tool_engine import ToolEngine
from tool_engine.approval.callback import CallbackApprover, DeferredApprover
from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, prefix, rename
from tool_engine.sources.naming import name_result

VIEWS: Any = {
    "prefix": lambda engine: prefix(engine, "w."),
    "rename": lambda engine: rename(prefix(engine, "q."), {"q.put": "w.put"}),
    "combine": lambda engine: combine(prefix(engine, "w."), prefix(engine, "v.")),
}
TWICE = "calls of 'w.put' ('put' in its engine) are not allowed here"
ONCE = "calls of 'w.put' are not allowed here"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"rules": {"put": {"execution": "deny"}}}, TWICE),
        ({"rules": {"p*": {"execution": "deny"}}}, TWICE),
        ({"rules": {"w.put": {"execution": "deny"}}}, ONCE),
        ({"tool_permissions": {"put": {"execution": "deny"}}}, ONCE),
    ],
)
async def test_who_forbids_a_call(engine: ToolEngine, view: str, config: Any, told: str) -> None:
    """X3: the name that is shown, and the engine's beside it where a rule was about that one."""
    session = ToolSession(VIEWS[view](engine), "s", config)
    result = await session.execute("w.put", {"text": "x"})
    assert (result.error, result.reject_reason) == (told, told)


@pytest.mark.parametrize("policy", ["execution", "result"])
async def test_who_says_no(engine: ToolEngine, policy: str) -> None:
    """S31, X3: also where somebody was asked, and where nobody could be."""
    asked = {"tool_permissions": {"put": {policy: "ask_always"}}}
    if policy == "result":
        asked = {"tool_permissions": {"put": {policy: "always"}}}
    for approver in (None, CallbackApprover(lambda request: "no")):
        session = ToolSession(prefix(engine, "w."), "s", asked, approver)
        result = await session.execute("w.put", {"text": "x"})
        assert "'w.put'" in str(result.error)
        assert "'put'" not in str(result.error)
    later = ToolSession(prefix(engine, "w."), "s", asked, DeferredApprover())
    held = await later.execute("w.put", {"text": "x"})
    refused = await later.resume(str(held.approval_token), False)
    for each in (held, refused):
        assert "'w.put'" in str(each.error)
        assert "'put'" not in str(each.error)


async def test_where_content_must_not_go(engine: ToolEngine) -> None:
    """A26: what is said of labels names the tool that was called."""
    text = {"name": "text", "type": "string", "required": True, "description": "What is sent"}
    mail = {"name": "mail", "description": "Sends.", "accepts": ["user"], "parameters": [text]}
    engine.register_tool(mail, lambda text: text)
    session = ToolSession(prefix(engine, "w."), "s")
    await session.execute("w.half", {"number": 5})
    result = await session.execute("w.mail", {"text": "is $VAR_REF{{w.half_1_result}}"})
    assert "must not be sent to the tool 'w.mail'" in str(result.error)


@pytest.mark.parametrize(
    ("error_type", "error", "told"),
    [
        ("timeout", "tool 'put' did not finish", "tool 'w.put' did not finish"),
        ("queue_full", "queue for bucket 'put' is full", "queue for bucket 'put' is full"),
        ("execution_error", "KeyError: 'put'", "KeyError: 'put'"),
        ("validation_error", "'put' must be a number", "'put' must be a number"),
        (None, None, None),
    ],
)
def test_what_is_about_something_else(error_type: Any, error: Any, told: Any) -> None:
    """What a tool says, and the names of arguments and buckets, stay as they are."""
    result = name_result(ToolExecutionResult(False, "put", {}, error, error_type), "w.put")
    assert (result.tool_name, result.error) == ("w.put", told)


WORDS = "please run 'put' in the library: not 'put' here, and no bucket of 'put'"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("rule", [None, "put", "w.put"])
async def test_what_a_person_says_stays_as_it_is(engine: ToolEngine, view: str, rule: Any) -> None:
    """The reason of whoever refused is told as they wrote it, whatever it says of a name.

    Looked at: calls and results, at once and later, under every view, by a rule for either name.
    """
    for policy in ({"execution": "ask_always"}, {"result": "always"}):
        asked: Any = {"rules": {rule: policy}} if rule else {"tool_permissions": {"put": policy}}
        session = ToolSession(VIEWS[view](engine), "s", asked, CallbackApprover(lambda _: WORDS))
        at_once = await session.execute("w.put", {"text": "x"})
        later = ToolSession(VIEWS[view](engine), "s", asked, DeferredApprover())
        held = await later.execute("w.put", {"text": "x"})
        resumed = await later.resume(str(held.approval_token), WORDS)
        for each in (at_once, resumed):
            assert each.reject_reason == WORDS
            assert str(each.error).endswith(f": {WORDS}")
            assert "'w.put'" in str(each.error).removesuffix(WORDS)


class SlowError(TimeoutError):
    """Says something of its own about the name of its tool."""


class BusyError(ToolExecutionError):
    """The same with the word of a server."""

    error_type = "rate_limited"


class RefusedError(ToolExecutionError):
    """The same with the word of a person."""

    error_type = "execution_rejected"


@pytest.mark.parametrize("kind", [SlowError, BusyError, RefusedError, ToolExecutionError])
async def test_what_a_tool_says_stays_as_it_is(engine: ToolEngine, kind: type[Exception]) -> None:
    """The words of a handler, or of a server, are theirs, whatever their `error_type` is."""

    @engine.tool(name="ask", effect="read")
    async def ask() -> str:
        """Asks."""
        raise kind("run 'ask' at night")

    session = ToolSession(prefix(engine, "w."), "s")
    assert (await session.execute("w.ask")).error == "run 'ask' at night"


async def test_what_an_approver_dies_of_stays_as_it_is(engine: ToolEngine) -> None:
    """Only the engine's own words have the name that is shown."""

    def broken(request: Any) -> bool:
        raise ValueError("no table 'put'")

    asked: Any = {"tool_permissions": {"put": {"execution": "ask_always"}}}
    session = ToolSession(prefix(engine, "w."), "s", asked, CallbackApprover(broken))
    result = await session.execute("w.put", {"text": "x"})
    assert "whether 'w.put' may run: " in str(result.error)
    assert "no table 'put'" in str(result.error)


async def test_a_tool_that_is_too_slow_has_its_shown_name(engine: ToolEngine) -> None:
    """What the engine says of a call that ran has the name that the model called."""

    @engine.tool(name="wait", effect="read", timeout=0.05)
    async def wait() -> None:
        """Waits."""
        await asyncio.Event().wait()

    result = await ToolSession(prefix(engine, "w."), "s").execute("w.wait")
    assert str(result.error).startswith("tool 'w.wait' did not finish")
