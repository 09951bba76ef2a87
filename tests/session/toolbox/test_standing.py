"""How tools stand is found once for all conversations that are alike, and never for others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.session.catalogs import Catalog, definition, engine_over, group, write
from tool_engine import Permission, ToolEngine, ToolGroup, ToolSession
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.executors.handler import executor_for
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols.prompts import forget_prompts
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.sources.composition import combine, keep, prefix, prepare, rename


class CountingEngine(ToolEngine):
    """An engine that counts how often somebody asks for all of its tools."""

    walks = 0

    def list_all(self) -> list[Tool]:
        self.walks += 1
        return super().list_all()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[CountingEngine]:
    write(tmp_path, definition("note"), definition("fetch"), group("web", tools=["fetch"]))
    made = CountingEngine(engine_over(tmp_path).config)

    async with made as engine:

        @engine.tool(effect="read")
        async def half(number: float) -> float:
            """Half of a number."""
            return number / 2

        yield engine


async def test_a_call_looks_at_no_other_tools(engine: CountingEngine) -> None:
    """Calls, prompts and lists walk through the catalog once, and again after a change only."""
    session = ToolSession(engine, "s")
    asked = Permission(execution="auto")  # type: ignore[arg-type] # it takes texts
    session.toolbox.register_group(ToolGroup(name="mine", tools=("half",), permission=asked))
    session.toolbox.set_tool_enabled("half", True)
    await session.execute("half", {"number": 1})
    before = engine.walks
    for number in range(20):
        assert (await session.execute("half", {"number": number})).is_success
        session.tools()
        session.system_prompt("openai")
    assert engine.walks == before
    session.toolbox.set_tool_enabled("note", False)
    assert not (await session.execute("note", {"text": "x"})).is_success
    assert engine.walks == before + 1


async def test_a_prompt_looks_at_no_tools(
    engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S24: a prompt that is asked for again is the one that is there, until somebody forgets it."""
    session = ToolSession(engine, "s")
    asked: list[list[str]] = []

    def counted(tools: list[Tool]) -> str:
        asked.append([each.name for each in tools])
        return f"{len(asked)} prompts"

    monkeypatch.setattr(session.protocol("vcp"), "prompt", counted)
    assert session.system_prompt("vcp").endswith("1 prompts")
    assert session.system_prompt("vcp").endswith("1 prompts")
    session.toolbox.set_tool_enabled("note", False)
    assert session.system_prompt("vcp").endswith("2 prompts")
    assert ("note" in asked[0], "note" in asked[1]) == (True, False)
    forget_prompts()
    assert session.system_prompt("vcp").endswith("3 prompts")


async def test_many_conversations_look_once(engine: CountingEngine) -> None:
    """Conversations with the same switches share what was found; those with others do not."""
    one = ToolSession(engine, "1")
    await one.execute("half", {"number": 1})
    walks = engine.walks
    settings = ToolCallConfig(limit=10, language="zh")
    for number in range(20):
        other = ToolSession(engine, f"n{number}", settings)
        assert (await other.execute("half", {"number": 1})).final_text == "0.5"
        assert other.toolbox.standing is one.toolbox.standing
    assert engine.walks == walks
    fewer = ToolSession(engine, "f", ToolCallConfig(tool_toggles={"half": False}))
    assert (await fewer.execute("half", {"number": 1})).error_type == "rejected"
    assert (await one.execute("half", {"number": 1})).is_success
    # What stands as before takes no room twice.
    assert fewer.toolbox.find("note") is one.toolbox.find("note")
    assert fewer.toolbox.find("half") is not one.toolbox.find("half")


def made(fields: dict[str, Any]) -> tuple[Tool, Any]:
    tool = ToolConfigLoader().from_mapping(fields)
    return tool, executor_for(lambda text, count=0: text, tool)


async def test_what_one_has_alone_is_not_shared(engine: CountingEngine) -> None:
    """S35: own tools and own groups of a conversation are no other one's."""
    one, two = ToolSession(engine, "1"), ToolSession(engine, "2")
    assert (one.get("mine"), two.get("mine")) == (None, None)
    one.own_tools["mine"] = made(definition("mine"))
    assert one.get("mine") is not None, "a tool that was put there without a word is seen, too"
    one.toolbox.register_group(ToolGroup(name="own", tools=("note",)))
    assert one.get("note") is None
    assert two.get("mine") is None
    assert two.get("note") is not None


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1)])
async def test_own_tools_that_only_seem_to_be_the_same(
    engine: CountingEngine, first: Any, second: Any
) -> None:
    """S35: each conversation is told of its own tool, which its program may still change."""
    mine, yours = (
        Tool(
            id="mine",
            name="mine",
            version="1.0.0",
            description="Only here",
            category=ToolCategory.CUSTOM,
            tags=[],
            parameters=[ToolParameter(name="n", type="integer", default=each, has_default=True)],
            implementation_config={},
        )
        for each in (first, second)
    )
    assert mine == yours
    for name, tool in (("1", mine), ("2", yours)):
        for config in (ToolCallConfig(), ToolCallConfig(tool_toggles={"note": False})):
            session = ToolSession(engine, name, config)
            session.register_tool(tool, lambda n=1: n)
            assert session.get("mine") is tool
    loaded = [ToolSession(engine, name) for name in "34"]
    for session in loaded:
        session.register_tool(definition("mine"), lambda text, count=0: text)
    assert loaded[0].toolbox.standing is loaded[1].toolbox.standing, "a hash says that they are one"


async def test_settings_that_are_changed_behind_our_back(engine: CountingEngine) -> None:
    """A dictionary that was passed and is changed then does not speak for the next conversation."""
    toggles = {"note": True}
    one = Toolbox(engine, ToolCallConfig(tool_toggles=toggles))
    assert one.is_tool_enabled("note")
    toggles["note"] = False
    assert not Toolbox(engine, ToolCallConfig(tool_toggles=toggles)).is_tool_enabled("note")


async def test_a_change_reaches_all(engine: CountingEngine) -> None:
    """After a registration nobody is given what was found before."""
    boxes = [Toolbox(engine) for _ in range(3)]
    assert [box.find("more") for box in boxes] == [None] * 3
    engine.register_tool(definition("more"))
    assert all(box.find("more") is not None for box in boxes)
    assert Toolbox(engine).find("more") is boxes[0].find("more")


async def test_any_number_of_switches(engine: CountingEngine) -> None:
    """However many conversations differ, each has its own switches."""
    boxes = [Toolbox(engine, ToolCallConfig(tool_toggles={f"t{n}": True})) for n in range(30)]
    assert all(box.is_tool_enabled("note") for box in boxes)
    boxes[0].set_tool_enabled("note", False)
    assert [box.is_tool_enabled("note") for box in boxes] == [False, *[True] * 29]


def test_an_engine_can_go(tmp_path: Path) -> None:
    """What conversations found keeps no engine alive, even where rules refer to it."""

    def used() -> weakref.ref[ToolEngine]:
        # Nothing is loaded: a thread that has loaded something remembers whom it was for.
        engine = engine_over(tmp_path)
        engine.register_tool(definition("note"))
        session, plain = ToolSession(engine, "s"), ToolSession(engine, "p")
        own = ToolGroup(name="own", is_enabled=True)
        session.toolbox.register_group(own, lambda names: f"{engine.generation} {names}")
        assert session.tools() == plain.tools() != []
        return weakref.ref(engine)

    gone = used()
    gc.collect()
    assert gone() is None


class Unhashable(Catalog):
    """A source that tells of its changes, and can be the key of nothing."""

    __hash__ = None  # type: ignore[assignment]
    generation = 1

    def __eq__(self, other: object) -> bool:
        return self is other

    def refuse(self, *_: Any) -> Any:
        raise AssertionError("nothing was to be refused")


def test_a_source_that_can_be_no_key() -> None:
    """Each conversation looks for itself then."""
    source = Unhashable(ToolConfigLoader().from_mapping(definition("note")))
    one, two = Toolbox(source), Toolbox(source)
    assert one.find("note") is one.find("note") is not None
    assert two.find("note") == one.find("note")


@pytest.mark.parametrize(
    ("view", "is_shared"),
    [
        (lambda engine: prefix(engine, "a_"), True),
        (lambda engine: rename(engine, {"note": "memo"}), True),
        (lambda engine: keep(engine, ["note"]), True),
        (lambda engine: combine(prefix(engine, "a_"), keep(engine, ["note"])), True),
        (lambda engine: keep(engine, lambda tool: tool.name == "note"), False),
        (lambda engine: prefix(prepare(engine, lambda tool, turn: tool), "a_"), False),
        (lambda engine: combine(keep(engine, lambda _: True)), False),
    ],
)
async def test_views_are_shared_unless_they_may_differ(
    engine: CountingEngine, view: Callable[[ToolEngine], Any], is_shared: bool
) -> None:
    """A view in which nothing depends on the conversation is looked at once for all of them."""
    source = view(engine)
    one, two = Toolbox(source), Toolbox(source)
    assert one.tools() == two.tools() != []
    assert (one.standing is two.standing) is is_shared


async def test_near_names_among_thousands(engine: CountingEngine) -> None:
    """A name that nobody has is compared with the likely ones only, own tools among them."""
    index = engine.index
    load = ToolConfigLoader().from_mapping
    for number in range(600):
        index = index.with_tool(load(definition(f"zz{number}")))
    engine._swap_index(index)
    session = ToolSession(engine, "s", ToolCallConfig(tool_toggles={"note": False}))
    session.register_tool({"name": "remember", "description": "Only here."}, lambda: "x")
    assert session.missing("hal").endswith("did you mean 'half'?")
    assert session.missing("remembr").endswith("did you mean 'remember'?")
    assert session.missing("note").endswith("in this conversation"), "it is not on"
