"""Is a call that had to wait looked at once more before it starts, whoever made it?

Looked at: each place that starts, or ends with a result, a call that had to wait: for a slot, for
the consent of a person, for the call whose run it shares. A further attempt of a call that has run
is none of them, which docs/concepts/approval.md says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.session.catalogs import write
from tests.session.till import BOUND, Till, payment
from tool_engine import (
    Approver,
    CallbackApprover,
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
)

TO = {"name": "to", "type": "string", "description": "Who", "required": True}
REFUSED = {
    "deny": "execution_rejected",
    "gone": "tool_not_found",
    "withdrawn": "tool_quarantined",
    "unregistered": "tool_not_found",
}
"""What becomes of a tool, and how its waiting calls end."""


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not is_so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


class House:
    """An engine with one slot, and a tool that waits until it may end."""

    def __init__(self, folder: Path, approver: Approver | None = None, **keys: Any) -> None:
        self.folder, self.keys, self.till = folder, keys, Till()
        self.till.may_end.clear()
        write(folder, payment([TO], **keys))
        self.engine = ToolEngine(
            ToolEngineConfig(tools_directory=str(folder), auto_reload=False, lock="enforce"),
            concurrency=ConcurrencyConfig(max_concurrent=1),
            approver=approver,
        )
        self.engine.register_executor("till", self.till)

    async def open(self) -> None:
        await self.engine.load()
        await self.engine.lock_tools()

        @self.engine.tool()
        async def wait_in_code(to: str) -> str:
            """Wait."""
            self.till.ran.append((to,))
            await self.till.may_end.wait()
            return to

    async def call(self, caller: str, to: str, name: str = "pay") -> ToolExecutionResult:
        context = None if caller == "plain" else ToolExecutionContext(caller_id="ada")
        return await self.engine.execute(name, {"to": to}, context)

    async def change(self, what: str) -> None:
        if what == "unregistered":
            self.engine.unregister_tool("wait_in_code")
        elif what == "withdrawn":
            await asyncio.to_thread((self.folder.parent / "tools.lock").write_text, "format = 1\n")
        elif what == "gone":
            await asyncio.to_thread((self.folder / "tool-pay.yaml").unlink)
        else:
            changed = payment([TO], **self.keys | {"permission": what})
            await asyncio.to_thread(write, self.folder, changed)
        await self.engine.reload()
        if what != "withdrawn":
            await self.engine.lock_tools()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tools"
    made.mkdir()
    return made


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("caller", ["plain", "with a context"])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_forbidden_meanwhile_does_not_start(
    folder: Path, what: str, asks: bool, caller: str, shared: bool
) -> None:
    """Calls of no session, with and without a context, an approver, and a leader."""
    keys: dict[str, Any] = {"concurrency": {"collision": "single_flight"}} if shared else {}
    house = House(folder, CallbackApprover(lambda _: True) if asks else None, **keys)
    await house.open()
    name = "wait_in_code" if what == "unregistered" else "pay"
    first = asyncio.create_task(house.call(caller, "ada" if shared else "bob", name))
    await until(lambda: house.till.ran)
    waits = asyncio.create_task(house.call(caller, "ada", name))
    is_following = shared and what != "unregistered"
    flights = house.engine._pipeline._flights._followed
    view = house.engine.controller.snapshot
    await until(lambda: flights if is_following else view().waiting)
    await house.change(what)
    house.till.may_end.set()
    async with asyncio.timeout(BOUND):
        assert (await first).is_success
        result = await waits
        assert result.error_type == REFUSED[what]
        assert len(house.till.ran) == 1
        records = await house.engine.query_call_records()
        assert sorted(str(each.error_type) for each in records) == ["None", REFUSED[what]]
        assert not view().held
        await house.engine.close()


@pytest.mark.parametrize("what", ["ask_always", "auto"])
async def test_what_would_only_be_asked_about_runs(folder: Path, what: str) -> None:
    """As approval.md says: with the definition that was let through."""
    house = House(folder)
    await house.open()
    first = asyncio.create_task(house.call("plain", "bob"))
    await until(lambda: house.till.ran)
    waits = asyncio.create_task(house.call("plain", "ada"))
    await until(lambda: house.engine.controller.snapshot().waiting)
    await house.change(what)
    house.till.may_end.set()
    async with asyncio.timeout(BOUND):
        assert (await first).is_success
        assert (await waits).is_success
        await house.engine.close()


async def test_a_look_that_is_broken_off_loses_no_slot(folder: Path) -> None:
    """Whatever the last look raises, the slot that the call had got is given back."""

    class Breaks:
        async def consent(self, *of_call: object) -> None:
            return None

        def refusal_since(self, *of_call: object) -> None:
            raise asyncio.CancelledError

        def own(self, name: str) -> None:
            return None

    house = House(folder)
    await house.open()
    first = asyncio.create_task(house.call("plain", "bob"))
    await until(lambda: house.till.ran)
    context = ToolExecutionContext(scope=Breaks())
    waits = asyncio.create_task(house.engine.execute("pay", {"to": "ada"}, context))
    await until(lambda: house.engine.controller.snapshot().waiting)
    house.till.may_end.set()
    async with asyncio.timeout(BOUND):
        assert (await first).is_success
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert not house.engine.controller.snapshot().held
        records = await house.engine.query_call_records()
        assert [each.error_type for each in records] == ["cancelled", None]
        await house.engine.close()


async def test_what_is_approved_again_before_its_turn_runs_and_is_recorded(folder: Path) -> None:
    """While it was not approved nothing of its call was kept, and nothing of it was lost."""
    house = House(folder)
    await house.open()
    lock = folder.parent / "tools.lock"
    approved = await asyncio.to_thread(lock.read_text)
    first = asyncio.create_task(house.call("plain", "bob"))
    await until(lambda: house.till.ran)
    waits = asyncio.create_task(house.call("plain", "ada"))
    await until(lambda: house.engine.controller.snapshot().waiting)
    await house.change("withdrawn")
    await asyncio.to_thread(lock.write_text, approved)
    await house.engine.reload()
    house.till.may_end.set()
    async with asyncio.timeout(BOUND):
        assert (await first).is_success
        assert (await waits).is_success
        records = await house.engine.query_call_records(oldest_first=True)
        assert [each.to_dict()["params"] for each in records] == [{"to": "bob"}, {"to": "ada"}]
        await house.engine.close()


@pytest.mark.parametrize("what", ["gone", "withdrawn"])
async def test_what_is_forbidden_meanwhile_is_not_tried_again(folder: Path, what: str) -> None:
    """Neither of one that runs, nor while it waits: it ends as its last attempt did."""
    house = House(folder, retry={"attempts": 2, "backoff": 0.01, "on": ["execution_error"]})
    await house.open()
    house.till.fails = 1
    call = asyncio.create_task(house.call("plain", "bob"))
    await until(lambda: house.till.ran)
    await house.change(what)
    house.till.may_end.set()
    async with asyncio.timeout(BOUND):
        assert (await call).error_type == "execution_error"
        assert len(house.till.ran) == 1
        await house.engine.close()
