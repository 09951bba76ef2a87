"""Can a call that waits in one process be answered in another?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tool_engine import (
    ApprovalDecision,
    ApprovalError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEventType,
)

DEADLINE = 30.0
PAY = {
    "name": "pay",
    "description": "Pays.",
    "permission": "ask_once",
    "parameters": [
        {"name": "amount", "type": "integer", "required": True, "description": "How much"},
        {"name": "password", "type": "string", "secret": True, "description": "Of the account"},
    ],
    "entry": {"type": "custom"},
}


class Asked:
    """An engine whose calls wait for an answer, as a server's do, and one of another process."""

    def __init__(self, here: ToolEngine, there: ToolEngine, url: str) -> None:
        self.here, self.there, self.url = here, there, url
        self.asked = asyncio.Event()
        here.subscribe(lambda _: self.asked.set(), ToolEngineEventType.APPROVAL_REQUESTED)
        here.approvals.take_questions()

    async def find_request(self, engine: ToolEngine) -> Any:
        await self.asked.wait()
        return (await engine.approvals.pending())[0]


def make_engine(folder: Path, url: str) -> ToolEngine:
    return ToolEngine(ToolEngineConfig(tools_directory=str(folder), records=url))


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    (tmp_path / "tools").mkdir()
    url = f"sqlite:///{tmp_path / 'records.db'}"
    async with make_engine(tmp_path / "tools", url) as here:

        async def pay(amount: int, password: str = "") -> str:
            return f"paid {amount}"

        here.register_tool(PAY, pay)
        async with make_engine(tmp_path / "tools", url) as there, asyncio.timeout(DEADLINE):
            yield Asked(here, there, url)


async def call(engine: ToolEngine, **arguments: Any) -> Any:
    return await engine.execute("pay", arguments)


async def test_an_engine_on_the_same_database_answers(asked: Asked) -> None:
    """The call goes on where it waits, once, with secrets that the other one does not see."""
    calling = asyncio.create_task(call(asked.here, amount=3, password="hunter22"))
    request = await asked.find_request(asked.there)
    assert request.params == {"amount": 3, "password": "[hidden]"}
    await asked.there.approvals.answer(request.token, True, by="bob")
    with pytest.raises(ApprovalError):
        await asked.there.approvals.answer(request.token, False, by="eve")

    result = await calling
    assert result.output == {"result": "paid 3"}
    assert await asked.there.approvals.pending() == []
    # Under ask_once it holds for equal calls.
    assert (await call(asked.here, amount=3, password="hunter22")).is_success


async def test_an_answer_for_one_call_holds_for_one(asked: Asked) -> None:
    calling = asyncio.create_task(call(asked.here, amount=3))
    request = await asked.find_request(asked.there)
    once = ApprovalDecision(is_approved=True, is_remembered=False)
    await asked.there.approvals.answer(request.token, once)
    assert (await calling).is_success

    asked.asked.clear()
    calling = asyncio.create_task(call(asked.here, amount=3))
    request = await asked.find_request(asked.there)
    await asked.there.approvals.answer(request.token, "too dear")
    result = await calling
    assert (result.error_type, "too dear" in result.error) == ("execution_rejected", True)


async def test_who_is_first_decides(asked: Asked) -> None:
    """An answer here closes the question for others, and a call that ended takes none."""
    calling = asyncio.create_task(call(asked.here, amount=3))
    request = await asked.find_request(asked.there)
    await asked.here.approvals.answer(request.token, True)
    with pytest.raises(ApprovalError):
        await asked.there.approvals.answer(request.token, False)
    assert (await calling).is_success

    asked.asked.clear()
    calling = asyncio.create_task(call(asked.here, amount=4))
    request = await asked.find_request(asked.there)
    calling.cancel()
    await asyncio.wait([calling])
    with pytest.raises(ApprovalError):
        await asked.there.approvals.answer(request.token, True)


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_who_is_first_elsewhere_decides(asked: Asked, is_allowed: bool) -> None:
    """Until the call has read an answer, its own process takes no other one."""
    calling = asyncio.create_task(call(asked.here, amount=3))
    request = await asked.find_request(asked.there)
    await asked.there.approvals.answer(request.token, is_allowed)
    assert await asked.here.approvals.pending() == []
    with pytest.raises(ApprovalError):
        await asked.here.approvals.answer(request.token, not is_allowed)
    assert (await calling).is_success is is_allowed


async def test_not_listed_before_others_can_see_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer given while the question is on its way to the database would count for nobody."""
    approvals = asked.here.approvals
    storage = asked.here.store.approvals
    put, coming, goes_on = storage.put, asyncio.Event(), asyncio.Event()

    async def put_late(request: Any) -> None:
        coming.set()
        await goes_on.wait()
        await put(request)

    monkeypatch.setattr(storage, "put", put_late)
    calling = asyncio.create_task(call(asked.here, amount=3))
    await coming.wait()
    assert await approvals.pending() == []
    goes_on.set()
    await approvals.answer((await asked.find_request(asked.here)).token, True)
    assert (await calling).is_success


async def test_a_server_that_ends_closes_its_questions(asked: Asked) -> None:
    calling = asyncio.create_task(call(asked.here, amount=3))
    request = await asked.find_request(asked.there)
    await asked.here.close()
    assert (await calling).error_type == "engine_closed"
    with pytest.raises(ApprovalError):
        await asked.there.approvals.answer(request.token, True)


async def test_a_terminal_answers(asked: Asked, tmp_path: Path) -> None:
    """`tool-engine sessions approve` answers a call that waits in a server."""
    calling = asyncio.create_task(call(asked.here, amount=3))
    request = await asked.find_request(asked.here)
    tool_engine = ["-m", "tool_engine.cli", "--records", asked.url, "sessions"]
    listed = await asyncio.to_thread(warm.run, [*tool_engine, "pending"])
    assert request.token in listed.stdout
    assert "pay 1.0.0" in listed.stdout
    answered = await asyncio.to_thread(warm.run, [*tool_engine, "approve", request.token])
    again = await asyncio.to_thread(warm.run, [*tool_engine, "approve", request.token])

    assert answered.stdout == "answered: the call of pay goes on where it waits\n"
    assert again.returncode != 0
    assert "no call waits for an answer under this token" in again.stderr
    assert (await calling).output == {"result": "paid 3"}
