"""What do conversations that share a run learn of each other's settings? Nothing.

Looked at: a leader that its own conversation refuses, a follower that its own refuses meanwhile,
and calls inside of the shared run that go by the rules or the labels of one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
)

DENIED: Final[Any] = {"rules": {"salaries": "deny"}}
SHARED: Final[Any] = {"collision": "single_flight"}
TEXT: Final = "the text of a page that no colleague has written " * 3


class Runs:
    """How often the shared tool ran, how many at once, and what holds its calls up."""

    def __init__(self) -> None:
        self.count = self.running = self.peak = 0
        self.go = asyncio.Event()


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
async def engine(runs: Runs) -> AsyncIterator[ToolEngine]:
    made = ToolEngine(ToolEngineConfig(concurrency=ConcurrencyConfig(max_concurrent=10)))

    @made.tool(effect="read")
    async def salaries(text: str = "") -> str:
        """Tells what people earn."""
        await runs.go.wait()
        return "4711"

    made.register_tool(
        {
            "name": "mail",
            "description": "Sends.",
            "parameters": [
                {"name": "text", "type": "string", "description": "What.", "required": True}
            ],
            "accepts": ["user", "model"],
            "entry": {"type": "custom", "handler": "mail"},
        },
        salaries,
    )

    @made.tool(effect="read", concurrency=SHARED)
    async def report(of: str, text: str, context: ToolExecutionContext) -> str:
        """Reports what another tool says."""
        runs.count += 1
        runs.running += 1
        runs.peak = max(runs.peak, runs.running)
        await asyncio.sleep(0)
        result = await context.call(of, {"text": text})
        # Those that are to share it have come by then, whatever became of that call.
        await runs.go.wait()
        runs.running -= 1
        return str(result.error_type or result.output)

    @made.tool(effect="read", concurrency=SHARED)
    async def plain() -> str:
        """Tells something."""
        runs.count += 1
        await runs.go.wait()
        return "data"

    @made.tool(effect="read")
    async def page() -> str:
        """Reads a page."""
        return TEXT

    async with asyncio.timeout(20.0):
        yield made
        await made.close()


async def turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def together(runs: Runs, *calls: Any) -> list[Any]:
    """The ends of calls that all wait before any of them may end."""
    tasks = [asyncio.ensure_future(each) for each in calls]
    await turns()
    runs.go.set()
    return [await each for each in tasks]


def report(session: ToolSession | ToolEngine, of: str = "salaries", text: str = "") -> Any:
    return session.execute("report", {"of": of, "text": text})


@pytest.mark.parametrize("is_denied_first", [True, False])
@pytest.mark.parametrize("other", ["session", "engine"])
async def test_calls_inside_go_by_the_rules_of_each(
    engine: ToolEngine, runs: Runs, is_denied_first: bool, other: str
) -> None:
    """Neither the result that one may not have gets to it, nor its refusal to another."""
    ann = ToolSession(engine, "ann") if other == "session" else engine
    bob = ToolSession(engine, "bob", DENIED)
    sessions = [bob, ann] if is_denied_first else [ann, bob]
    said = {
        id(each): result
        for each, result in zip(sessions, await together(runs, *map(report, sessions)), strict=True)
    }
    assert said[id(bob)].output == {"result": "execution_rejected"}
    assert "4711" in str(said[id(ann)].output)


async def test_within_a_conversation_one_run_is_for_all(engine: ToolEngine, runs: Runs) -> None:
    """It has one set of rules."""
    bob = ToolSession(engine, "bob", DENIED)
    results = await together(runs, *[report(bob) for _ in range(4)])
    assert [each.output for each in results] == [{"result": "execution_rejected"}] * 4
    assert runs.count == 1


async def test_many_conversations_do_not_wait_in_turn(engine: ToolEngine, runs: Runs) -> None:
    """Those that could not share the first run have their own ones at the same time."""
    sessions = [ToolSession(engine, f"s{number}") for number in range(5)]
    for _ in range(2):
        results = await together(runs, *map(report, sessions))
        assert all("4711" in str(each.output) for each in results)
    assert runs.peak >= 4


@pytest.mark.parametrize("is_tainted_first", [True, False])
async def test_calls_inside_go_by_the_labels_of_each(
    engine: ToolEngine, runs: Runs, is_tainted_first: bool
) -> None:
    """The same text from the user and from a page are two things for what takes only the one."""
    ann, bob = ToolSession(engine, "ann"), ToolSession(engine, "bob")
    await bob.execute("page")
    calls = [report(bob, "mail", "$VAR_REF{{page_1_result}}"), report(ann, "mail", TEXT)]
    ends = await together(runs, *(calls if is_tainted_first else reversed(calls)))
    tainted, clean = ends if is_tainted_first else reversed(ends)
    assert tainted.output == {"result": "execution_rejected"}
    assert "4711" in str(clean.output)


@pytest.mark.parametrize("turned_off", ["leader", "follower"])
async def test_what_is_turned_off_is_each_ones_own(
    engine: ToolEngine, runs: Runs, turned_off: str
) -> None:
    """A call that waits in line leads another one: what one turns off, only that one misses."""
    ann, bob = ToolSession(engine, "ann"), ToolSession(engine, "bob")
    engine.controller.configure(ConcurrencyConfig(max_concurrent=1))
    held = asyncio.ensure_future(engine.execute("salaries"))
    await turns()
    calls = [asyncio.ensure_future(each.execute("plain")) for each in (ann, bob)]
    await turns()
    (ann if turned_off == "leader" else bob).toolbox.set_tool_enabled("plain", False)
    runs.go.set()
    await held
    kinds = [(await each).error_type for each in calls]
    assert kinds == (["rejected", None] if turned_off == "leader" else [None, "rejected"])
    assert runs.count == 1


async def test_what_makes_no_calls_is_shared_by_conversations(
    engine: ToolEngine, runs: Runs
) -> None:
    """Nothing in its result is due to whose it is."""
    calls = [ToolSession(engine, f"s{number}").execute("plain") for number in range(3)]
    results = await together(runs, *calls, engine.execute("plain"))
    assert {each.output["result"] for each in results} == {"data"}
    assert runs.count == 1
