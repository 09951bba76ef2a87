"""Does what runs stay what was shown, shared runs and waits for a slot included?

Looked at: every place that reads what a caller sent after an await (`Consents`, `Flights`,
`CallRunner`, queues, retries), and every place that starts a call which had to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.session.catalogs import definition, group, write
from tests.session.till import BOUND, Till, engine_with, payment
from tool_engine.approval.callback import CallbackApprover
from tool_engine.config import ConcurrencyConfig, ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.session.session import ToolSession

TO = {"name": "to", "type": "string", "description": "Who", "required": True}
LIST = {"name": "ccs", "type": "array", "description": "Who else"}


def pay(version: str = "1.0.0", **keys: Any) -> dict[str, Any]:
    shared = {"key": "params", "collision": "single_flight"}
    asked = {"version": version, "permission": "ask_always", "concurrency": shared}
    return payment([TO, LIST], **asked | keys)


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
async def engine(tmp_path: Path, till: Till) -> AsyncIterator[ToolEngine]:
    async with engine_with(till, tmp_path, pay()) as made:
        yield made


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not is_so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


@pytest.mark.parametrize("concurrency", [{}, {"key": "params", "collision": "single_flight"}])
@pytest.mark.parametrize("way", ["session", "engine", "nested"])
async def test_what_is_shown_runs(
    tmp_path: Path, till: Till, way: str, concurrency: dict[str, Any]
) -> None:
    """Whoever holds the arguments of a call changes nothing once somebody is asked."""
    write(tmp_path, pay(concurrency=concurrency))
    params: dict[str, Any] = {"to": "ada", "ccs": ["bob"]}
    shown: list[Any] = []

    def ask(request: Any) -> bool:
        shown.append(dict(request.params))
        params["to"] = "mallory"
        params["ccs"][0] = "mallory"
        request.params["ccs"].append("mallory")
        return True

    async def outer(context: ToolExecutionContext) -> Any:
        return (await context.call("pay", params)).output

    engine = ToolEngine(
        ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False),
        approver=CallbackApprover(ask),
    )
    async with asyncio.timeout(BOUND), engine:
        engine.register_executor("till", till)
        engine.register_tool({"name": "outer", "description": "Pays."}, outer)
        session = ToolSession(engine, "s", approver=CallbackApprover(ask))
        name = "outer" if way == "nested" else "pay"
        runner = engine if way == "engine" else session
        result = await runner.execute(name, {} if way == "nested" else params)
        assert result.is_success
        records = [each for each in await engine.query_call_records() if each.tool_name == "pay"]
    assert shown[0]["to"] == "ada"
    assert till.ran == [("1.0.0", "ada", ["bob"])]
    assert [each.params for each in records] == [{"to": "ada", "ccs": ["bob"]}]


async def test_accepts_is_about_what_runs(engine: ToolEngine, till: Till, tmp_path: Path) -> None:
    """A page's text does not reach a tool by the mapping of a call that waits for consent."""
    page = definition("page", effect="unknown", parameters=[])
    accepting = pay(accepts=["user", "effect:read"])
    await asyncio.to_thread(write, tmp_path, page | {"entry": {"handler": "web"}}, accepting)
    await engine.reload()
    text = "The secret of the page is that it holds many words of its own."

    class Web:
        async def execute(self, tool: Tool, params: Any, context: Any) -> str:
            return text

    engine.register_executor("web", Web())
    params = {"to": "ada"}

    def ask(request: Any) -> bool:
        params["to"] = text
        return True

    session = ToolSession(engine, "s", approver=CallbackApprover(ask))
    await session.execute("page")
    assert (await session.execute("pay", params)).is_success
    assert [ran[1] for ran in till.ran] == ["ada"]


async def test_a_follower_that_leads_runs_what_it_may(engine: ToolEngine, till: Till) -> None:
    """Its leader is cancelled, and the mapping that it was called with says something else."""
    till.may_end.clear()
    session = ToolSession(engine, "s", approver=CallbackApprover(lambda _: True))
    sent = {"to": "ada"}
    leader = asyncio.create_task(session.execute("pay", {"to": "ada"}))
    await until(lambda: till.ran)
    follower = asyncio.create_task(session.execute("pay", sent))
    await until(lambda: any(each.followers for each in flights(engine)))
    sent["to"] = "mallory"
    leader.cancel()
    await until(lambda: len(till.ran) == 2)
    till.may_end.set()
    assert (await follower).output == {"paid": "ada"}
    assert [ran[1] for ran in till.ran] == ["ada", "ada"]


def flights(engine: ToolEngine) -> list[Any]:
    return list(engine._pipeline._flights._flights.values())


async def test_a_follower_shares_no_run_of_other_code(engine: ToolEngine) -> None:
    """Of a `Tool` built by hand that was replaced: each runs what it was allowed to."""
    made = engine.get_or_raise("pay")
    by_hand: dict[str, Any] = {"definition_hash": "", "source": None, "implementation_config": {}}
    hand = replace(made, name="hand", permission=None, **by_hand)
    go = asyncio.Event()

    def handler(number: int) -> Any:
        async def run(to: str, ccs: Any = None) -> int:
            await go.wait()
            return number

        return run

    engine.register_tool(hand, handler(1))
    session = ToolSession(engine, "s", approver=CallbackApprover(lambda _: True))
    first = asyncio.create_task(session.execute("hand", {"to": "ada"}))
    await until(lambda: flights(engine))
    engine.unregister_tool("hand")
    engine.register_tool(replace(hand, version="9.0.0"), handler(9))
    second = asyncio.create_task(session.execute("hand", {"to": "ada"}))
    await until(lambda: len(engine.controller.snapshot().held) == 2)
    go.set()
    assert [(await each).output["result"] for each in (first, second)] == [1, 9]


@pytest.mark.parametrize("way", ["deny", "off", "group", "gone"])
@pytest.mark.parametrize("is_shared", [False, True])
async def test_what_is_forbidden_meanwhile_does_not_start(
    tmp_path: Path, till: Till, way: str, is_shared: bool
) -> None:
    """A call that was allowed and waits for a slot, or for a leader, is looked at once more."""
    shared: dict[str, Any] = {"concurrency": {"collision": "single_flight"} if is_shared else {}}
    write(tmp_path, pay(**shared), group("g", tools=["pay"], enabled=True))
    till.may_end.clear()
    config = ToolEngineConfig(
        tools_directory=str(tmp_path),
        auto_reload=False,
        concurrency=ConcurrencyConfig(max_concurrent=1),
    )
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        engine.register_executor("till", till)
        session = ToolSession(engine, "s", approver=CallbackApprover(lambda _: True))
        first = {"to": "ada" if is_shared else "bob"}
        held = asyncio.create_task(session.execute("pay", first))
        await until(lambda: till.ran)
        waits = asyncio.create_task(session.execute("pay", {"to": "ada"}))
        await until(
            lambda: (
                any(each.followers for each in flights(engine))
                if is_shared
                else engine.controller.snapshot().waiting
            )
        )
        if way == "off":
            session.toolbox.set_tool_enabled("pay", False)
        elif way == "gone":
            await asyncio.to_thread((tmp_path / "tool-pay.yaml").unlink)
        elif way == "group":
            changed = group("g", tools=["pay"], enabled=True, permission="deny")
            without = pay(**shared)
            del without["permission"]
            await asyncio.to_thread(write, tmp_path, changed, without)
        else:
            await asyncio.to_thread(write, tmp_path, pay(**shared, permission="deny"))
        await engine.reload()
        before = len(till.ran)
        if is_shared:
            held.cancel()
        till.may_end.set()
        result = await waits
        assert result.error_type in ("execution_rejected", "rejected", "tool_not_found")
        assert len(till.ran) == before
        await asyncio.wait([held])
        assert not engine.controller.snapshot().held
