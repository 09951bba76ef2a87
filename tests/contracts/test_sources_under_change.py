"""What holds of added sources while they change, fail, clash and go, in any order?

Looked at: calls, lists, load errors, generations, rollbacks, the lock, and what is kept in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.effort import share_of
from tests.growth import growth_of
from tests.sources_of_tools import ListSource, definition, tool
from tests.test_following import Slow, outcome
from tests.test_reloading import write
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
)
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool

BOUND = 60.0
Calls = list[asyncio.Task[ToolExecutionResult]]
SET = [f"tool_{number:02}" for number in range(50)]


def config_of(folder: Path, **settings: Any) -> ToolEngineConfig:
    folder.mkdir(exist_ok=True)
    return ToolEngineConfig(tools_directory=str(folder), auto_reload=False, **settings)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    config = config_of(tmp_path / "tools", keep_generations=3, max_records=10)
    async with asyncio.timeout(BOUND), ToolEngine(config) as made:
        yield made


# A source that changes all the time.


class Restless(ListSource):
    """Changes its whole set again and again, from a thread, and says so each time."""

    def __init__(self, origin: str, make: Callable[[str], Any]) -> None:
        super().__init__(origin)
        self._make = make
        self._go_on = True
        self._thread = threading.Thread(target=self._change, daemon=True)
        self.changes = 0
        self._give()

    def _give(self) -> None:
        self.items = [self._make(f"1.0.{self.changes}")(name) for name in SET]

    def _change(self) -> None:
        while self._go_on:
            self.changes += 1
            self._give()
            for _ in range(10):
                self.notify()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._go_on = False
        self._thread.join()

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return tool.version


@pytest.mark.parametrize("form", [tool, definition])
async def test_a_set_that_always_changes(engine: ToolEngine, form: Callable[..., Any]) -> None:
    """Its changes are put together, and each reader sees a whole set, of one version.

    Memory stays: what was swapped out is let go. The last change is taken in.
    """
    source = Restless("own:x", lambda version: lambda name: form(name, version=version))
    await engine.add_source(source)
    seen: list[int] = []
    swapped = asyncio.Event()

    def listen(event: ToolEngineEvent) -> None:
        if event.event_type.value == "reload_completed":
            assert len({each.version for each in engine.list_all()}) == 1
            gc.collect()
            seen.append(tracemalloc.get_traced_memory()[0])
            swapped.set()

    engine.subscribe(listen)
    tracemalloc.start()
    try:
        source.start()
        while len(seen) < 9:
            swapped.clear()
            index = engine.index
            versions = {(await engine.execute(name, {})).output["result"] for name in SET[:3]}
            if engine.index is index:
                assert versions == {index.get_or_raise(SET[0]).version}
            assert len({each.version for each in index}) == 1
            await swapped.wait()
    finally:
        source.stop()
        tracemalloc.stop()
    assert source.changes > source.readings
    # A reading that is under way holds a set more; what stays is the least.
    assert min(seen[-3:]) < 1.1 * max(seen[3:6])
    while engine.get_or_raise(SET[0]).version != f"1.0.{source.changes}":
        swapped.clear()
        await swapped.wait()


async def test_a_definition_that_is_written_in_while_it_is_read(engine: ToolEngine) -> None:
    """What is taken in is a state that it had: the source's own mapping may change meanwhile."""
    tags = [f"tag-{number}" for number in range(2_000)]
    one = definition("a", version="1.0.0", tags=tags, author="1.0.0")
    other = {"version": "2.0.0", "author": "2.0.0"}
    source = ListSource("own:x", [one])
    await engine.add_source(source)
    go_on = True

    def change() -> None:
        while go_on:
            for version in ("1.0.0", "2.0.0"):
                one.update(dict.fromkeys(other, version))

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        for _ in range(20):
            await engine.reload()
            found = engine.get_or_raise("a")
            assert found.version == found.author
    finally:
        go_on = False
        thread.join()


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), (0, False), (None, float("nan")), ("1", 1)]
)
async def test_each_change_of_a_mapping_is_seen(engine: ToolEngine, one: Any, other: Any) -> None:
    """Also one of a value for another that Python or JSON takes for the same."""

    def with_default(value: Any) -> dict[str, Any]:
        parameter = {"name": "x", "type": "any", "description": "One.", "default": value}
        return definition("a", parameters=[parameter])

    source = ListSource("own:x", [with_default(one)])
    await engine.add_source(source)
    assert repr(engine.get_or_raise("a").parameters[0].default) == repr(one)
    source.items = [with_default(other)]
    await engine.reload()
    if other != other:
        assert "not a number that JSON can carry" in engine.load_errors[0][1]
    else:
        assert repr(engine.get_or_raise("a").parameters[0].default) == repr(other)


async def test_what_did_not_change_is_not_made_again(engine: ToolEngine) -> None:
    """The same definition, written anew, is the same tool; so is the same `Tool`, beside bad ones.

    So nothing is published for it, and next to nothing done.
    """
    same = tool("b")
    source = ListSource("own:x", [definition("a"), same, {"name": "bad"}])
    await engine.add_source(source)
    before = engine.list_all()
    source.items = [{"name": "bad"}, same, definition("a"), definition("c")]
    assert (await engine.reload())["modified"] == []
    assert [engine.get_or_raise(each.name) is each for each in before] == [True, True]


# Names.


async def test_a_second_list_of_tools(engine: ToolEngine) -> None:
    """The message names both ways out, and each of them works."""

    def listed(name: str) -> list[dict[str, Any]]:
        return [{"name": name, "description": "It.", "input_schema": {"type": "object"}}]

    def call(name: str, arguments: dict[str, Any]) -> str:
        return f"{name} {arguments}"

    await engine.import_tools(listed("first"), call)
    with pytest.raises(ConfigurationError, match="is a source 'import:tools' already") as raised:
        await engine.import_tools(listed("second"), call)
    said = str(raised.value)
    assert "take it out with remove_source('import:tools')" in said
    assert "as origin='import:NAME'" in said
    await engine.import_tools(listed("second"), call, origin="import:NAME")
    await engine.remove_source("import:tools")
    await engine.import_tools(listed("third"), call)
    assert engine.list_names() == ["second", "third"]


async def test_two_of_one_origin_at_once(engine: ToolEngine) -> None:
    """One is added and the other refused, whichever asks first."""
    sources = [ListSource("mcp:x", [tool("a")]) for _ in range(2)]
    adding = (engine.add_source(each) for each in sources)
    ended = await asyncio.gather(*adding, return_exceptions=True)
    refused = [each for each in ended if isinstance(each, ConfigurationError)]
    assert len(refused) == 1
    assert "there is a source 'mcp:x' already" in str(refused[0])
    assert engine.list_names() == ["a"]
    added = sources[0] if ended[1] is refused[0] else sources[1]
    await engine.remove_source(added)
    assert engine.list_names() == []


async def test_each_clash_names_both_origins(engine: ToolEngine, tmp_path: Path) -> None:
    path = write(tmp_path / "tools", "filed")
    engine.register_tool(definition("coded"), lambda: 1)
    await engine.reload()
    await engine.add_source(ListSource("mcp:one", [tool("a")]))
    items = [tool("a"), tool("filed"), tool("coded"), tool("twice"), tool("twice"), tool("own")]
    await engine.add_source(ListSource("mcp:two", items))
    assert {place for place, _ in engine.load_errors} == {"<mcp:two>"}
    said = " | ".join(message for _, message in engine.load_errors)
    for name, other in {"a": "<mcp:one>", "filed": str(path), "coded": "<code>"}.items():
        assert f"'{name}' is also defined in {other}; rename or remove one" in said
    assert "gives the tool 'twice' twice" in said
    assert engine.list_names() == ["a", "coded", "filed", "own"]


# Sources that fail at the edges.


class Unfollowed(ListSource):
    def follow(self, notify: Callable[[], None]) -> None:
        notify()
        raise SystemExit("no notices here")


class Unclosable(ListSource):
    def __init__(self, origin: str, *, hangs: bool) -> None:
        super().__init__(origin, [tool("a")])
        self.hangs = hangs
        self.closings = 0

    async def close(self) -> None:
        self.closings += 1
        if self.hangs:
            await asyncio.Event().wait()
        raise SystemExit("cannot be closed")


async def test_one_that_cannot_be_followed_is_read_all_the_same(engine: ToolEngine) -> None:
    with capture_logs() as lines:
        await engine.add_source(Unfollowed("own:x", [tool("a")]))
    assert engine.list_names() == ["a"]
    (line,) = [each for each in lines if each["event"] == "source_not_followed"]
    assert "no notices here" in line["error"]


@pytest.mark.parametrize("hangs", [False, True])
async def test_one_that_cannot_be_closed(tmp_path: Path, hangs: bool) -> None:
    """The engine closes all the same, and what it closes after the source, too."""
    source = Unclosable("own:x", hangs=hangs)
    async with asyncio.timeout(BOUND):
        engine = ToolEngine(config_of(tmp_path / "tools", close_timeout=0.1))
        await engine.load()
        await engine.add_source(source)
        with capture_logs() as lines:
            await engine.close()
    assert source.closings == 1
    (line,) = [each for each in lines if each["event"] == "executor_close_failed"]
    assert ("more than 1 s" if hangs else "cannot be closed") in line["error"]


# Calls of a source that goes.


@contextlib.asynccontextmanager
async def one_runs_two_wait(tmp_path: Path) -> AsyncIterator[tuple[ToolEngine, Slow, Calls]]:
    """Three calls of a tool of a source, for which there is one slot."""
    source, limits = Slow("mcp:x", [tool("a")]), ConcurrencyConfig(max_concurrent=1)
    config = config_of(tmp_path / "tools")
    async with asyncio.timeout(BOUND), ToolEngine(config, concurrency=limits) as engine:
        await engine.add_source(source)
        calls = [asyncio.create_task(engine.execute("a", {})) for _ in range(3)]
        await source.started.wait()
        while len(engine.controller.snapshot().waiting) < 2:  # noqa: ASYNC110 - it has no such event
            await asyncio.sleep(0)
        yield engine, source, calls


async def test_a_call_that_runs_goes_on_when_its_source_goes(tmp_path: Path) -> None:
    """It keeps its definition and its executor; those that wait end, those to come have another."""
    async with one_runs_two_wait(tmp_path) as (engine, source, calls):
        await engine.remove_source(source)
        await engine.add_source(ListSource("mcp:x", [tool("a", version="2.0.0")]))
        source.go.set()
        first, *others = await asyncio.gather(*calls)
        assert first.output == {"result": "1.0.0"}
        assert [each.error_type for each in others] == ["tool_not_found"] * 2
        assert await outcome(engine, "a") == {"result": "mcp:x a 2.0.0"}


async def test_calls_that_wait_go_on_when_their_source_has_another_version(tmp_path: Path) -> None:
    """Each keeps the definition that it began with."""
    async with one_runs_two_wait(tmp_path) as (engine, source, calls):
        source.items = [tool("a", version="2.0.0")]
        await engine.reload()
        source.go.set()
        assert [(await each).output for each in calls] == [{"result": "1.0.0"}] * 3
        assert await outcome(engine, "a") == {"result": "2.0.0"}


IGNORED = {"type": "python", "handler": "os:getpid"}


@pytest.mark.parametrize("entry", [IGNORED, {"type": "builtin", "handler": "echo"}])
@pytest.mark.parametrize("has_executor", [True, False])
async def test_a_rollback_brings_back_no_removed_source(
    engine: ToolEngine, entry: dict[str, str], has_executor: bool
) -> None:
    """Nothing runs its tools any more, least of all what an entry names that was not looked at."""
    source = ListSource("mcp:x", [tool("a", entry=entry), tool("b")])
    if not has_executor:
        source.executor = None
    await engine.add_source(source)
    await engine.add_source(ListSource("mcp:y", [tool("c")]))
    then = engine.generation
    await engine.remove_source(source)
    await engine.rollback(then)
    assert engine.list_names() == ["c"]
    assert await outcome(engine, "a") == "tool_not_found"


async def test_a_name_of_a_removed_source_stays_with_its_file(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """A rollback to the time of the source leaves the file that has its name now."""
    source = ListSource("mcp:x", [tool("a"), tool("b")])
    await engine.add_source(source)
    then = engine.generation
    await engine.remove_source(source)
    path = write(tmp_path / "tools", "a")
    await engine.reload()
    await engine.rollback(then)
    assert [each.origin for each in engine.list_all()] == [f"file:{path}"]


async def test_what_a_rollback_held_goes_with_its_source(engine: ToolEngine) -> None:
    source = ListSource("mcp:x", [tool("a"), tool("b")])
    await engine.add_source(source)
    then = engine.generation
    source.items = [tool("a", version="2.0.0")]
    await engine.reload()
    await engine.rollback(then)
    assert engine.list_names() == ["a", "b"]
    await engine.remove_source(source)
    assert engine.list_names() == []
    assert engine.get_statistics()["held"] == []


async def test_a_source_that_is_removed_while_it_is_read(engine: ToolEngine) -> None:
    """Its tools never come, and another may have its origin at once."""
    begun, go = asyncio.Event(), asyncio.Event()

    class Late(ListSource):
        async def read_tools(self) -> Any:
            begun.set()
            await go.wait()
            return await super().read_tools()

    adding = asyncio.create_task(engine.add_source(Late("mcp:x", [tool("late")])))
    await begun.wait()
    await engine.remove_source("mcp:x")
    await engine.add_source(ListSource("mcp:x", [tool("now")]))
    go.set()
    await adding
    assert engine.list_names() == ["now"]
    assert await outcome(engine, "now") == {"result": "mcp:x now 1.0.0"}


# All at once.

Where = Literal["file", "code", "mcp:one", "mcp:two"]
NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("file", "code", "mcp:one", "mcp:two", "reload", "remove", "notify")),
        st.sets(st.sampled_from(NAMES)),
    ),
    max_size=12,
)


class _World:
    """What files, code and sources give, and which origin each name should have for it.

    Code comes before files, and files before sources; of sources the one that has a name keeps it.
    """

    def __init__(self, engine: ToolEngine, folder: Path) -> None:
        self.sources = {origin: ListSource(origin) for origin in ("mcp:one", "mcp:two")}
        self._engine, self._folder = engine, folder
        self._given: dict[str, set[str]] = {}
        self._filed: set[str] = set()
        self._coded: set[str] = set()
        self._holders: dict[str, str] = {}

    async def step(self, what: str, names: set[str]) -> None:
        if what in self.sources:
            await self._give(what, names)
        elif what == "file":
            await self._write_files(names - self._coded)
        elif what == "code":
            for name in names - set(self._engine.list_names()):
                self._engine.register_tool(definition(name), lambda: "code")
                self._coded.add(name)
        elif what == "remove":
            for origin in list(self._given)[:1]:
                await self._engine.remove_source(origin)
                del self._given[origin]
        else:
            await self._engine.reload()
        for name in NAMES:
            rivals = [each for each in self._given if name in self._given[each]]
            if self._holders.get(name) not in rivals:
                self._holders.pop(name, None)
                if rivals:
                    self._holders[name] = rivals[0]

    async def _give(self, origin: str, names: set[str]) -> None:
        self.sources[origin].items = [tool(name) for name in sorted(names)]
        if origin in self._given:
            await self._engine.reload()
        else:
            await self._engine.add_source(self.sources[origin])
        self._given[origin] = names

    async def _write_files(self, names: set[str]) -> None:
        for name in self._filed:
            (self._folder / f"{name}.yaml").unlink()
        for name in names:
            write(self._folder, name)
        self._filed = names
        await self._engine.reload()

    def origins(self) -> dict[str, str]:
        found = self._holders | dict.fromkeys(self._filed, "file")
        return found | dict.fromkeys(self._coded, "code")


@settings(max_examples=share_of(100), deadline=None)
@given(steps=STEPS)
async def test_files_code_and_sources_change_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, set[str]]]
) -> None:
    """What calls see is what all of them give, whatever came first, and calls agree with it."""
    folder = tmp_path_factory.mktemp("all")
    async with asyncio.timeout(BOUND), ToolEngine(config_of(folder / "tools")) as engine:
        world = _World(engine, folder / "tools")
        for what, names in steps:
            await world.step(what, names)
            expected = world.origins()
            seen = {each.name: each.origin for each in engine.list_all()}
            files = f"file:{folder}/"
            assert expected == {
                name: "file" if each.startswith(files) else each for name, each in seen.items()
            }
            for name, origin in expected.items():
                if origin in world.sources:
                    assert await outcome(engine, name) == {"result": f"{origin} {name} 1.0.0"}


# The lock.


async def test_a_reload_with_a_lock_and_files_at_once(tmp_path: Path) -> None:
    """What changes behind its approval waits, and all else goes on."""
    config = config_of(tmp_path / "tools", lock="enforce")
    write(tmp_path / "tools", "filed")
    source = ListSource("mcp:x", [tool("a"), tool("b")])
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        await engine.add_source(source)
        await engine.lock_tools()
        assert engine.list_names() == ["a", "b", "filed"]
        source.items = [tool("a", description="Another"), tool("b"), tool("c")]
        write(tmp_path / "tools", "filed", default="other")
        await engine.reload()
        assert engine.list_names() == ["b"]
        assert {each.name: each.reason for each in engine.quarantined()} == {
            "a": "changed",
            "c": "new",
            "filed": "changed",
        }
        await engine.lock_tools(["a", "c"])
        assert engine.list_names() == ["a", "b", "c"]
        await engine.remove_source(source)
        assert engine.list_names() == []
        await engine.add_source(source)
        assert engine.list_names() == ["a", "b", "c"]


async def test_names_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    """A source of a name that no other tool ever had, again and again, fills no memory."""
    config = config_of(tmp_path / "tools", lock="enforce", keep_generations=2)
    source = ListSource("mcp:x")
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        await engine.add_source(source)
        for number in range(12):
            source.items = [definition(f"t{number}_{at}") for at in range(200)]
            await engine.reload()
        assert len(engine.quarantined()) == 200
        assert len(engine._reloader._approvals._hashes) <= 1_600


# What many faults cost.


def test_many_faults_cost_what_they_are(tmp_path: Path) -> None:
    """To compare the errors of two looks takes no longer for each when there are more."""

    def make(count: int) -> Any:
        reloader = ToolEngine(config_of(tmp_path / "tools"))._reloader
        reloader.errors = [("<own:x>", f"the tool 'bad_{at}' is left out") for at in range(count)]
        with capture_logs():
            reloader._publish_errors()
        return reloader

    grown = growth_of(lambda reloader: reloader._publish_errors(), make, start=800, most=6_400)
    assert grown.exponent < 1.5, grown
