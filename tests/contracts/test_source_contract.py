"""Every set of tools keeps to the contract of `Source`; a new kind adds a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tool_engine import ToolEngine, ToolEngineConfig, ToolSubAgent
from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.interfaces import Source
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.protocols import CombinedTools, process_tool_calls
from tool_engine.session import Toolbox, combine, keep, prefix, prepare, rename
from tool_engine.session.session import ToolSession
from tool_engine.sources.foreign import as_source

NO = Refusal("rejected", "calls of it are not wanted", {"why": 1})
GROUP = {"name": "web", "tools": ["search", "hang"], "enabled": True}


class Least:
    """An object of others that has no more than a model's calls need."""

    def __init__(self, engine: ToolEngine) -> None:
        self.get = engine.get
        self._engine = engine

    async def execute(self, tool_name: str, params: Any, context: Any) -> ToolExecutionResult:
        return await self._engine.execute(tool_name, params, context)


class Listing(Least):
    """One that can list its tools, too, as a conversation needs."""

    def __init__(self, engine: ToolEngine) -> None:
        super().__init__(engine)
        self.list_all = engine.list_all


class Derived(Source):
    """A source that derives from the interface, and writes what is abstract alone."""

    def __init__(self, engine: ToolEngine) -> None:
        self._engine = engine

    def get(self, tool_name: str, /) -> Tool | None:
        return self._engine.get(tool_name)

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        /,
    ) -> ToolExecutionResult:
        return await self._engine.execute(tool_name, params, context)


class Kind(NamedTuple):
    make: Callable[[ToolEngine, ToolEngine], Any]
    """Made of the engine that has the tools, and another one that has their names."""
    name: str = "search"
    """What `search` is called there, as `hang` begins."""
    lists: bool = True
    records: bool = True


def twice(engine: ToolEngine, other: ToolEngine) -> Source:
    """Views inside of one another, which take the name from one tool to another one."""
    return prefix(rename(engine, {"search": "hang", "hang": "search"}), "a_")


KINDS = {
    "engine": Kind(lambda engine, _: engine),
    "session": Kind(lambda engine, _: ToolSession(engine, "chat"), records=False),
    "prefix": Kind(lambda engine, _: prefix(engine, "a_"), "a_search"),
    "rename": Kind(lambda engine, _: rename(engine, {"search": "find"}), "find"),
    "nested views": Kind(twice, "a_hang"),
    "keep": Kind(lambda engine, _: keep(engine, ["search", "hang", "later"])),
    "prepare": Kind(lambda engine, _: prepare(engine, lambda tool, _: tool)),
    "combine": Kind(lambda engine, other: combine(engine, prefix(other, "b_")), records=False),
    "combined tools": Kind(
        lambda engine, other: CombinedTools({"a": engine, "b": other}), "a_search", records=False
    ),
    "view of a session": Kind(
        lambda engine, _: prefix(ToolSession(engine, "chat"), "a_"), "a_search", records=False
    ),
    "an object of others": Kind(lambda engine, _: Listing(engine), records=False),
    "the least object": Kind(lambda engine, _: Least(engine), lists=False, records=False),
    "the least source": Kind(lambda engine, _: Derived(engine), lists=False, records=False),
    "view of an object": Kind(
        lambda engine, _: prefix(Listing(engine), "a_"), "a_search", records=False
    ),
}
"""One line per kind of source."""


class World(NamedTuple):
    kind: Kind
    engine: ToolEngine
    given: Any
    """What a user passes to a door."""
    source: Source
    """What stands behind the door."""
    hanging: asyncio.Event
    ended: asyncio.Event

    def add(self) -> None:
        """Add another tool."""

        def later() -> str:
            """Comes later."""
            return "later"

        self.engine.tool(effect="read")(later)


def open_engine() -> ToolEngine:
    return ToolEngine(ToolEngineConfig(tools_directory="none", auto_reload=False))


@pytest.fixture(params=list(KINDS))
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    kind, hanging, ended = KINDS[request.param], asyncio.Event(), asyncio.Event()
    async with open_engine() as engine, open_engine() as other:

        async def search(query: str) -> str:
            """Finds."""
            return f"found {query}"

        async def hang(seconds: float = 0) -> None:
            """Never ends by itself."""
            hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        engine.tool(effect="read")(search)
        engine.tool(effect="read")(hang)
        engine.register_group(GROUP)

        async def elsewhere(query: str) -> str:
            """Finds elsewhere."""
            return f"elsewhere {query}"

        for each in ("search", "hang"):
            other.tool(name=each, effect="read")(elsewhere)
        given = kind.make(engine, other)
        yield World(kind, engine, given, as_source(given), hanging, ended)


def hang_of(world: World) -> str:
    """What `hang` is called there."""
    return next(
        name
        for name in ("hang", "a_hang", "a_search")
        if name != world.kind.name and world.source.get(name) is not None
    )


async def test_looking_up(world: World) -> None:
    """A tool has the name that is asked for; what is listed is what is found."""
    source, name = world.source, world.kind.name
    tool = source.get(name)
    assert tool is not None
    assert tool.name == name
    assert source.get_or_raise(name) == tool
    assert source.get("nothing_like_it") is None
    listed = source.list_all()
    assert all(source.get(each.name) == each for each in listed)
    assert (tool in listed) is world.kind.lists
    assert source.list_unambiguous() == (listed, None)
    near = f"{name}x"
    with pytest.raises(ToolNotFoundError, match="there is no tool") as raised:
        source.get_or_raise(near)
    assert (name in str(raised.value).replace(near, "")) is world.kind.lists


async def test_a_call_has_the_name_that_was_called(world: World) -> None:
    """So have its errors, and a name that is not there runs nothing."""
    source, name = world.source, world.kind.name
    result = await source.execute(name, {"query": "it"})
    assert (result.tool_name, result.error) == (name, None)
    assert result.output == {"result": "found it"}
    wrong = await source.execute(name, {}, ToolExecutionContext())
    assert (wrong.tool_name, wrong.error_type) == (name, "validation_error")
    missing = await source.execute("nothing_like_it", None, None)
    assert (missing.is_success, missing.tool_name) == (False, "nothing_like_it")
    assert missing.error_type == "tool_not_found"
    late = await source.execute(hang_of(world), {}, ToolExecutionContext(timeout=0.01))
    assert (late.tool_name, late.error_type) == (hang_of(world), "timeout")
    assert repr(hang_of(world)) in (late.error or "")
    assert await asyncio.wait_for(world.ended.wait(), 5)


async def test_a_cancelled_caller(world: World) -> None:
    """The caller sees its own cancellation, and what ran has ended."""
    call = asyncio.ensure_future(world.source.execute(hang_of(world), {}))
    await world.hanging.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert world.ended.is_set()


async def test_a_refused_call(world: World) -> None:
    """It has one result under the name that was called, and one record where there are records."""
    source, name = world.source, world.kind.name
    result = source.refuse(name, {"query": "it"}, None, NO)
    assert (result.is_success, result.tool_name, result.output) == (False, name, {})
    assert (result.error_type, result.error) == (NO.error_type, NO.error)
    assert result.metadata["error_details"] == NO.details
    assert source.refuse("nothing_like_it", {}, None, NO).tool_name == "nothing_like_it"
    assert (source.store is not None) is world.kind.records
    if source.store is not None:
        kept = await source.store.query_call_records()
        assert [each.is_success for each in kept] == [False, False]


async def test_where_a_tool_comes_from(world: World) -> None:
    """Its innermost source has it under its own name, and finds the way back."""
    source, name = world.source, world.kind.name
    origin, own = source.find_origin(name)
    assert sum(each is origin for each in source.list_origins()) == 1
    tool = origin.get_or_raise(own)
    assert source.find_shown_names(tool, origin) == [name]
    assert source.find_shown_names(tool) == [name]
    assert name in source.find_near_names(own)
    groups = source.find_groups(tool, origin)
    assert [each.members([tool]) for each in groups.values()] == [[tool]] * len(groups)
    assert (len(groups) == 1) is bool(source.groups)
    assert source.find_shown_names(tool, open_engine()) == []
    assert not source.find_groups(tool, open_engine())


async def test_a_conversation_of_its_own(world: World) -> None:
    """Bound to one, it has the same tools; a name that is free has room for one of its own."""
    source, name = world.source, world.kind.name
    bound = source.bind_turn(lambda: 1)
    assert bound.list_all() == source.list_all()
    assert (await bound.execute(name, {"query": "it"})).output == {"result": "found it"}
    assert not source.has_room(name)
    assert source.has_room("nothing_like_it")


async def test_a_change_is_seen(world: World) -> None:
    """What has a generation has another one then, and the new tool is there."""
    source = world.source
    before = source.generation
    assert source.generation == before
    world.add()
    assert before is None or source.generation != before
    assert sum(source.get(name) is not None for name in ("later", "a_later")) == 1


async def test_what_calls_tools_takes_it(world: World) -> None:
    """A model's call runs in it, whatever it is; a sub-agent and a session want it to list."""
    name = world.kind.name
    function = {"name": name, "arguments": '{"query": "it"}'}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    reply = {"role": "assistant", "content": None, "tool_calls": calls}
    cycle = await process_tool_calls(world.given, reply, "openai")
    assert [each.output for each in cycle.execution_results] == [{"result": "found it"}]
    if world.source is not world.given and not world.kind.lists:
        for door in (Toolbox, lambda given: ToolSubAgent("helper", given)):
            with pytest.raises(ConfigurationError, match="must have get, list_all and execute"):
                door(world.given)
        return
    agent = ToolSubAgent("helper", world.given, tools=[name])
    assert (await agent.execute(name, {"query": "it"})).output == {"result": "found it"}
    assert agent.enabled_tools == [name]
    if world.kind.lists:
        assert name in [each.name for each in Toolbox(world.given).tools()]


async def test_one_object_is_one_source(world: World) -> None:
    """It is adapted once, so that it is known again wherever it comes in."""
    assert as_source(world.given) is as_source(world.given)
    assert as_source(world.source) is world.source


async def test_a_refusal_of_a_kind_of_its_own() -> None:
    """A source may say in its own way why a tool is not there for models."""

    class Moved(Derived):
        def is_hidden(self, tool_name: str, /) -> bool:
            return True

        def explain_missing(self, tool_name: str, /) -> Refusal:
            return Refusal("moved_away", "it is elsewhere")

    function = {"name": "gone", "arguments": "{}"}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    reply = {"role": "assistant", "content": None, "tool_calls": calls}
    async with ToolEngine(ToolEngineConfig(auto_reload=False)) as engine:
        cycle = await process_tool_calls(Moved(engine), reply, "openai")
    (result,) = cycle.execution_results
    assert (result.error_type, result.error) == ("moved_away", "it is elsewhere")
