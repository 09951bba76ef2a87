"""Which arguments are hidden where the definition that calls them secret is not there, or not now?

A call may come for a tool that was renamed, removed or edited since its caller read of it, that
never was, or whose engine closes. Each test looks for the secret in the bytes of all that is kept,
published and written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.security.test_secrets import LIMIT, STORAGES, Witness, check
from tool_engine import (
    ApprovalRequest,
    CallbackApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
    ToolSubAgent,
)

HEAD = "name: {name}\ndescription: Logs in.\npermission: {permission}\nparameters:\n"
USER = "  - {name: user, type: string, required: true, description: Who.}\n"
ENTRY = "entry: {type: builtin, handler: echo}\n"
PIN = "  - {name: pin, type: string, required: true, description: The pin., secret: true}\n"
PART = (
    "  - {name: pin, type: object, description: The pin., schema: {type: object, properties: "
    "{code: {type: string, writeOnly: true}}}}\n"
)
EDITS: dict[str, str | None] = {
    "secret": PIN,
    "renamed": PIN.replace("name: pin", "name: passcode_of_the_user"),
    "declared open": PIN.replace(", secret: true", ""),
    "of another kind": PIN.replace(", secret: true", "").replace("string", "integer"),
    "dropped": "",
    "in a part": PART,
    "gone": None,
}
"""What becomes of the parameter `pin`; None: of the tool."""


class Folder:
    """The definitions of an engine, and who calls its tools."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.engine = witness.engine
        self.file = witness.tools / "login.yaml"

    async def edit(self, pin: str | None, name: str = "login", permission: str = "auto") -> None:
        await asyncio.to_thread(self._write, pin, name, permission)
        await self.engine.reload()

    def _write(self, pin: str | None, name: str, permission: str) -> None:
        if pin is None:
            self.file.unlink(missing_ok=True)
        else:
            head = HEAD.format(name=name, permission=permission)
            self.file.write_text(head + USER + pin + ENTRY)

    async def call(self, how: str, name: str = "login", **more: Any) -> ToolExecutionResult:
        params = {"user": "ada", "pin": self.witness.secret} | more
        result: ToolExecutionResult
        if how == "engine":
            return await self.witness.call(name, params)
        if how == "session":
            approver = CallbackApprover(lambda request: True)
            session = ToolSession(self.engine, "s", approver=approver)
            result = await asyncio.wait_for(session.execute(name, params), LIMIT)
            kept = [each.text for each in session.variables if each.name.endswith("_args")]
            assert self.witness.secret not in repr(kept)
        else:
            agent = ToolSubAgent("a", self.engine)
            result = await asyncio.wait_for(agent.execute(name, params), LIMIT)
            assert self.witness.secret not in repr(agent.get_execution_summary())
        self.witness.results.append(result)
        return result


@pytest.fixture(params=STORAGES)
async def folder(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Folder]:
    made = Folder(Witness(tmp_path, STORAGES[request.param](tmp_path)))
    await made.engine.load()
    await made.edit(PIN)
    yield made
    await made.engine.close()


WAYS = pytest.mark.parametrize("how", ["engine", "session", "sub-agent"])


@pytest.mark.thinned(2)
@WAYS
@pytest.mark.parametrize("what", ["misspelt", "invented", "renamed", "removed", "unregistered"])
async def test_a_call_of_no_tool(folder: Folder, what: str, how: str) -> None:
    """Where no definition says what is secret, no value of an argument is shown."""
    name = {"misspelt": "logn", "invented": "xyz"}.get(what, "login")
    if what == "renamed":
        await folder.edit(PIN, "log_in_as")
    elif what in ("removed", "unregistered"):
        await folder.edit(None)
    if what == "unregistered":
        folder.witness.define(lambda: None)
        folder.engine.unregister_tool("t")
        name = "t"
    result = await folder.call(how, name)
    assert result.error_type == "tool_not_found"
    record = (await folder.engine.query_call_records())[0]
    assert record.params == {"user": "[hidden]", "pin": "[hidden]"}
    assert record.error == result.error
    await check(folder.witness)


@pytest.mark.parametrize("params", [{"x": ["{}"] * 2}, "{}", ["{}"], {"x": "{}" + "y" * 99_999}])
async def test_arguments_of_any_form(folder: Folder, params: Any) -> None:
    """Also a text, a list, and arguments that are cut because they are long."""
    sent = json.loads(json.dumps(params).replace("{}", folder.witness.secret))
    assert (await folder.witness.call("xyz", sent)).error_type == "tool_not_found"
    await check(folder.witness)


@pytest.mark.parametrize("when", ["closing", "closed"])
async def test_a_call_of_an_engine_that_closes(folder: Folder, when: str) -> None:
    """A call that comes too late is judged by no definition."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        has_begun.set()
        await may_end.wait()

    folder.witness.define(wait)
    running = asyncio.create_task(folder.engine.execute("t"))
    await asyncio.wait_for(has_begun.wait(), LIMIT)
    closing = asyncio.create_task(folder.engine.close())
    await asyncio.sleep(0)
    if when == "closing":
        result = await folder.call("engine")
    may_end.set()
    await asyncio.wait_for(asyncio.gather(running, closing), LIMIT)
    if when == "closed":
        result = await folder.call("engine")
    assert result.error_type == "engine_closed"
    files = await asyncio.to_thread(folder.witness._files)
    kept = repr(await folder.engine.query_call_records()) if not files else ""
    assert folder.witness.secret not in kept
    assert not [name for name, data in files.items() if folder.witness.secret.encode() in data]
    assert folder.witness.secret not in folder.witness.log.getvalue()
    assert folder.witness.secret not in folder.witness.events.getvalue()


@pytest.mark.parametrize("edit", EDITS)
async def test_a_definition_that_changes_while_a_person_is_asked(folder: Folder, edit: str) -> None:
    """The definition for which the arguments were sent goes on hiding them."""
    await folder.edit(PIN, permission="ask_always")
    shown: list[str] = []
    number = folder.engine.generation

    async def ask(request: ApprovalRequest) -> bool:
        shown.append(repr(request) + repr(request.to_dict()))
        if len(shown) == 1:
            await folder.edit(EDITS[edit], permission="ask_always")
        return True

    session = ToolSession(folder.engine, "s", approver=CallbackApprover(ask))
    params = {"user": "ada", "pin": folder.witness.secret}
    result = await asyncio.wait_for(session.execute("login", params), LIMIT)
    folder.witness.results.append(result)
    assert result.error_type in (None, "validation_error", "tool_not_found"), result.error
    assert folder.engine.generation == number + (edit != "secret")
    assert not [each for each in shown if folder.witness.secret in each]
    kept = [each.text for each in session.variables if each.name.endswith("_args")]
    assert folder.witness.secret not in repr(kept)
    await check(folder.witness)


@WAYS
async def test_a_call_that_comes_after_any_edits(folder: Folder, how: str) -> None:
    """Whatever became of a tool, what it once called secret under its name is hidden."""
    for edits in product(("secret", "gone"), EDITS):
        await folder.edit(PIN)
        for edit in edits:
            await folder.edit(EDITS[edit])
        await folder.call(how)
        await folder.call(how, pin={"code": folder.witness.secret})
        record = (await folder.engine.query_call_records())[0]
        assert folder.witness.secret not in repr(record), edits
    await check(folder.witness)


async def test_a_tool_of_code_that_is_registered_anew(folder: Folder) -> None:
    """What holds for files holds for code."""
    pin = {"name": "pin", "type": "string", "description": "P.", "required": True}
    for secret in (True, False):
        folder.witness.define(lambda pin: pin, {**pin, "secret": secret})
        await folder.call("engine", "t", user="x")
        if secret:
            folder.engine.unregister_tool("t")
    await check(folder.witness)


async def test_what_was_never_secret_is_shown(folder: Folder) -> None:
    """Other arguments, and the tools of another name, are shown as before; nothing is replaced."""
    before = folder.engine.index
    await folder.edit(EDITS["declared open"])
    number = folder.engine.generation
    await folder.engine.reload()
    assert folder.engine.generation == number
    assert folder.engine.index is not before
    await folder.edit(None)
    await folder.edit(EDITS["declared open"], "other")
    await folder.call("engine", "other")
    record = (await folder.engine.query_call_records())[0]
    assert record.params == {"user": "ada", "pin": folder.witness.secret}
    other = ToolEngine(ToolEngineConfig(tools_directory=str(folder.witness.tools)))
    async with other:
        context = ToolExecutionContext(caller_id="x")
        await other.execute("other", {"user": "ada", "pin": "1234567"}, context)
        assert (await other.query_call_records())[0].params["pin"] == "1234567"
