"""X3: what was said of a call of one engine's tool is not said of another engine's, ever after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.approval.people import Person
from tests.session.catalogs import Catalog, definition, write
from tool_engine import DeferredApprover, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import ToolSource
from tool_engine.model.tool import Tool
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, prefix
from tool_engine.sources.foreign import as_source
from tool_engine.sources.identity import engine_of, engine_text


@dataclass
class _Plain(Catalog):
    """One that has no hash."""

    tools: dict[str, Tool] = field(default_factory=dict)


SAID = {"text": "hi"}
RULES = {"rules": {"*run": "ask_once"}}


class Engines:
    """Engines that keep their records in one database, as those of one program do."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder, self._stack = folder, stack

    async def open(self, folder: str = "tools", **settings: Any) -> ToolEngine:
        write(self._folder / folder, definition("run"))
        config = ToolEngineConfig(
            str(self._folder / folder),
            auto_reload=False,
            records=f"sqlite:///{self._folder / 'records.db'}",
            **settings,
        )
        return await self._stack.enter_async_context(ToolEngine(config))


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[Engines]:
    async with AsyncExitStack() as stack:
        yield Engines(tmp_path, stack)


TWO: list[Any] = [
    [{"folder": "test"}, {"folder": "live"}],
    [{"name": "test"}, {"name": "live"}],
    [{}, {}],
    [{"name": "one"}, {"name": "one"}],
    [{"sources": {"shop": "sqlite:///test.db"}}, {"sources": {"shop": "sqlite:///live.db"}}],
]


async def _said(tools: Any, name: str, answer: object = True) -> dict[str, Any]:
    session = ToolSession(tools, "s", RULES, approver=Person(answer))
    await session.execute(name, SAID)
    return session.to_dict()


@pytest.mark.parametrize("settings", TWO)
async def test_a_yes_stays_with_its_engine(engines: Engines, settings: Any) -> None:
    """A remembered yes is for the engine that it was given for, whatever its place is later on."""
    test, live = [await engines.open(**each) for each in settings]
    kept = await _said(combine(test, prefix(live, "l_")), "run")
    for tools, name in (
        (combine(live, prefix(test, "t_")), "run"),
        (combine(prefix(live, "l_"), test), "l_run"),
        (combine(prefix(live, "l_")), "l_run"),
    ):
        person = Person(False)
        session = ToolSession.from_dict(kept, tools, person)
        assert not (await session.execute(name, SAID)).is_success
        assert [each.called_name for each in person.asked] == [name]


@pytest.mark.parametrize("settings", TWO)
async def test_a_yes_is_good_in_its_engine(engines: Engines, settings: Any) -> None:
    """Another order of the engines asks no second time about a call of the one that was meant."""
    test, live = [await engines.open(**each) for each in settings]
    kept = await _said(combine(prefix(test, "t_"), prefix(live, "l_")), "t_run")
    tools = combine(prefix(live, "l_"), prefix(test, "t_"))
    session = ToolSession.from_dict(kept, tools, Person(False))
    assert (await session.execute("t_run", SAID)).is_success


@pytest.mark.parametrize("settings", [TWO[0], TWO[1], TWO[4]])
async def test_of_one_id_over_two_engines(engines: Engines, settings: Any) -> None:
    """Two conversations of one id, in one database, share no yes if their engines differ."""
    test, live = [await engines.open(**each) for each in settings]
    await _said(test, "run")
    assert not (await ToolSession(live, "s", RULES, Person(False)).execute("run", SAID)).is_success
    assert (await ToolSession(test, "s", RULES, Person(False)).execute("run", SAID)).is_success


async def test_another_name_is_another_question(engines: Engines) -> None:
    """What engines that nothing tells apart have is asked about under the name that is shown."""
    one, other = await engines.open(), await engines.open()
    await _said(prefix(one, "t_"), "t_run")
    session = ToolSession(prefix(other, "l_"), "s", RULES, Person(False))
    assert not (await session.execute("l_run", SAID)).is_success


async def test_a_name_holds_where_the_folder_is_another(engines: Engines) -> None:
    """Who names an engine may move its folder, and is not asked again."""
    await _said(await engines.open("old", name="shop"), "run")
    moved = await engines.open("new", name="shop")
    assert (await ToolSession(moved, "s", RULES, Person(False)).execute("run", SAID)).is_success


async def test_a_no_stays(engines: Engines) -> None:
    """Where nobody can tell that a no was about this engine, the call is asked about at least."""
    test, live = await engines.open("test"), await engines.open("live")
    kept = await _said(combine(test, prefix(live, "l_")), "run", False)
    for tools in (combine(test, prefix(live, "l_")), combine(live, prefix(test, "t_")), live):
        session = ToolSession.from_dict(kept, tools)
        refused = await session.execute("run", SAID)
        assert refused.error_type == "execution_rejected"


@pytest.mark.parametrize("settings", TWO)
async def test_a_deferred_call_stays_with_its_engine(engines: Engines, settings: Any) -> None:
    """Where its tool's name is another engine's now, the answer is refused, and can be given."""
    test, live = [await engines.open(**each) for each in settings]
    tools = combine(test, prefix(live, "l_"))
    session = ToolSession(tools, "s", RULES, DeferredApprover())
    token = (await session.execute("run", SAID)).approval_token
    assert token is not None
    kept = session.to_dict()
    swapped = ToolSession.from_dict(kept, combine(live, prefix(test, "t_")))
    with pytest.raises(ApprovalError, match=r"another engine.*name=.*stays open"):
        await swapped.resume(token, True)
    again = ToolSession.from_dict(kept, combine(prefix(live, "l_"), test))
    assert (await again.resume(token, True)).is_success


async def test_a_refusal_of_a_deferred_call_is_taken_anywhere(engines: Engines) -> None:
    """A no closes the request, whichever engine has the name."""
    test, live = await engines.open("test"), await engines.open("live")
    session = ToolSession(test, "s", RULES, DeferredApprover())
    token = (await session.execute("run", SAID)).approval_token
    await session.save()
    other = await ToolSession.restore(live, "s")
    assert other is not None
    assert token is not None
    assert (await other.resume(token, False)).error_type == "execution_rejected"
    assert other.pending_approvals == []


@pytest.mark.parametrize("is_renamed", [False, True])
async def test_a_call_from_inside_stays_with_its_engine(engines: Engines, is_renamed: bool) -> None:
    """What a tool calls in its own engine is asked about for that engine."""
    test, live = await engines.open("test"), await engines.open("live")
    for engine in (test, live):

        async def deploy(text: str, context: ToolExecutionContext) -> Any:
            """Runs."""
            return (await context.call("run", {"text": text})).output

        engine.tool(effect="write")(deploy)
    tools = combine(prefix(test, "t_"), prefix(live, "l_")) if is_renamed else test
    name = "t_deploy" if is_renamed else "deploy"
    kept = await _said(tools, name)
    swapped = combine(prefix(live, "t_"), prefix(test, "l_")) if is_renamed else live
    for other, called, times in ((swapped, name, 1), (test, "deploy", 0), (test, "run", 0)):
        person = Person(False)
        await ToolSession.from_dict(kept, other, person).execute(called, SAID)
        assert len(person.asked) == times


async def test_what_tells_engines_apart(engines: Engines) -> None:
    """A name, else the folder and the databases; in one conversation nothing is taken for alike."""
    one, other = await engines.open(), await engines.open()
    named, far = await engines.open(name="far"), await engines.open("elsewhere")
    alone = {engine_of(each, "run") for each in (one, other)}
    assert len(alone) == 1
    assert len({*alone, engine_of(named, "run"), engine_of(far, "run")}) == 3
    tools = combine(one, prefix(other, "o_"), prefix(named, "n_"))
    both = {engine_of(tools, "run"), engine_of(tools, "o_run")}
    assert len(both) == 2
    assert not both & alone
    assert engine_of(tools, "n_run") == engine_of(named, "run")
    strangers: list[ToolSource] = [Catalog(), _Plain(), Catalog(), _Plain()]
    assert len({engine_of(as_source(each), "run") for each in strangers}) == 2
    tools = combine(*strangers)
    assert len({engine_text(tools, each) for each in tools.list_origins()}) == 4
