"""How do the tools of added sources become the engine's, again and again?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.sources_of_tools import ListSource, definition, tool
from tests.test_reloading import Heard, write
from tool_engine import (
    ConfigurationError,
    DuplicateToolError,
    EngineClosedError,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
)
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

BOUND = 20.0


@pytest.fixture
def config(tmp_path: Path) -> ToolEngineConfig:
    return ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)


@pytest.fixture
async def engine(config: ToolEngineConfig) -> AsyncIterator[ToolEngine]:
    async with asyncio.timeout(BOUND), ToolEngine(config) as made:
        yield made


async def outcome(engine: ToolEngine, name: str) -> Any:
    result = await engine.execute(name, {})
    return result.output or result.error_type


async def until_completed(engine: ToolEngine) -> asyncio.Event:
    heard = asyncio.Event()

    def listen(event: ToolEngineEvent) -> None:
        if event.event_type.value == "reload_completed":
            heard.set()

    engine.subscribe(listen)
    return heard


async def test_a_set_comes_and_goes_as_one_change(engine: ToolEngine) -> None:
    """One swap, one generation and one pair of events for all of its tools, replaced ones too."""
    source = ListSource("mcp:github", [definition("a"), tool("b")])
    heard, start = Heard(engine), engine.generation
    assert (await engine.add_source(source))["added"] == ["a", "b"]
    assert engine.generation == start + 1
    assert heard.take() == [
        ("reload_started", None),
        ("tool_added", "a"),
        ("tool_added", "b"),
        ("reload_completed", None),
    ]
    assert await outcome(engine, "a") == {"result": "mcp:github a 1.0.0"}
    source.items = [definition("a", version="1.1.0"), definition("c")]
    assert await engine.reload() == {"added": ["c"], "modified": ["a"], "removed": ["b"]}
    assert engine.generation == start + 2
    assert await outcome(engine, "a") == {"result": "mcp:github a 1.1.0"}
    assert (await engine.remove_source("mcp:github"))["removed"] == ["a", "c"]
    assert engine.generation == start + 3
    assert await outcome(engine, "a") == "tool_not_found"


async def test_origins(engine: ToolEngine, tmp_path: Path) -> None:
    path = write(tmp_path, "filed")
    engine.register_tool(definition("coded"), lambda: 1)
    await engine.reload()
    await engine.add_source(ListSource("openapi:petstore", [tool("given")]))
    origins = {each.name: each.origin for each in engine.list_all()}
    assert origins == {
        "filed": f"file:{path}",
        "coded": "code",
        "given": "openapi:petstore",
    }


async def test_a_notice_swaps_in_what_changed(engine: ToolEngine) -> None:
    source = ListSource("own:x", [tool("a")])
    await engine.add_source(source)
    heard = await until_completed(engine)
    source.items = [tool("a", version="2.0.0")]
    await asyncio.to_thread(source.notify)
    await heard.wait()
    assert await outcome(engine, "a") == {"result": "own:x a 2.0.0"}


async def test_a_thousand_notices_are_few_readings(engine: ToolEngine) -> None:
    """They are put together, and the last state is taken in."""
    source = ListSource("own:x", [tool("a")])
    await engine.add_source(source)
    heard = await until_completed(engine)
    for number in range(1000):
        source.items = [tool("a", version=f"1.0.{number}")]
        source.notify()
        if number % 100 == 0:
            await asyncio.sleep(0)
    while engine.get_or_raise("a").version != "1.0.999":
        await heard.wait()
        heard.clear()
    assert source.readings < 10


class Fails(ListSource):
    error: BaseException | None = None

    async def read_tools(self) -> Any:
        if self.error is not None:
            raise self.error
        return await super().read_tools()


@pytest.mark.parametrize("error", [OSError("gone"), SystemExit(3), asyncio.CancelledError()])
async def test_one_that_fails_keeps_its_tools_and_says_so(
    engine: ToolEngine, error: BaseException
) -> None:
    source = Fails("mcp:x", [tool("a")])
    await engine.add_source(source)
    source.error = error
    heard = Heard(engine)
    await engine.reload()
    assert ("load_error", None) in heard.take()
    ((place, message),) = engine.load_errors
    assert place == "<mcp:x>"
    assert "stay as they were" in message
    assert type(error).__name__ in message
    assert await outcome(engine, "a") == {"result": "mcp:x a 1.0.0"}
    source.error = None
    await engine.reload()
    assert engine.load_errors == []


async def test_one_that_fails_at_first_is_added_without_tools(engine: ToolEngine) -> None:
    source = Fails("mcp:x", [tool("a")])
    source.error = OSError("not yet there")
    assert (await engine.add_source(source))["added"] == []
    assert len(engine.load_errors) == 1
    source.error = None
    source.notify()
    heard = await until_completed(engine)
    await heard.wait()
    assert engine.list_names() == ["a"]
    assert engine.load_errors == []


class Hangs(ListSource):
    is_stubborn = False
    is_hanging = True

    async def read_tools(self) -> Any:
        while self.is_hanging:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                if not self.is_stubborn:
                    raise
        return await super().read_tools()


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_one_that_hangs_is_given_up(engine: ToolEngine, is_stubborn: bool) -> None:
    source = Hangs("mcp:x", [tool("a")])
    source.is_stubborn = is_stubborn
    await engine.add_source(source, timeout=0.01)
    assert "more than 0.01 s" in engine.load_errors[0][1]
    source.is_hanging = False
    await engine.reload()
    assert engine.list_names() == ["a"]


async def test_one_that_hangs_does_not_keep_the_engine_open(engine: ToolEngine) -> None:
    source = Hangs("mcp:x")
    adding = asyncio.create_task(engine.add_source(source))
    await asyncio.sleep(0)
    await engine.close()
    source.is_hanging = False
    with pytest.raises(EngineClosedError):
        await adding


async def test_an_adding_that_is_cancelled_has_added_nothing(engine: ToolEngine) -> None:
    source = Hangs("mcp:x", [tool("a")])
    adding = asyncio.create_task(engine.add_source(source))
    await asyncio.sleep(0.01)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    source.is_hanging = False
    assert (await engine.add_source(source))["added"] == ["a"]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([definition("a"), definition("a")], "gives the tool 'a' twice"),
        ([definition("a", timeout="x")], "timeout"),
        ([{"name": "a"}], "description"),
        ([tool("b"), 5], "a tool is a Tool or a mapping, got int"),
        ("text", "must return an iterable of tools, got str"),
        (None, "must return an iterable of tools, got NoneType"),
        (definition("a"), "must return an iterable of tools, got dict"),
    ],
)
async def test_a_bad_tool_is_said_and_keeps_its_meaning(
    engine: ToolEngine, items: Any, said: str
) -> None:
    source = ListSource("mcp:x", [definition("a"), tool("z")])
    await engine.add_source(source)
    before = engine.get_or_raise("a")
    source.items = [*items, definition("good")] if isinstance(items, list) else items
    await engine.reload()
    (place, message), *_ = engine.load_errors
    assert place == "<mcp:x>"
    assert said in message
    if isinstance(items, list):
        assert "good" in engine.list_names()
    if said.startswith("a tool is"):
        assert "a" not in engine.list_names()
    else:
        assert engine.get_or_raise("a") is before


async def test_many_bad_tools_are_a_few_lines_of_the_log(engine: ToolEngine) -> None:
    """All are load errors and events; the log has twenty of them, and how many more there are."""
    heard = Heard(engine)
    with capture_logs() as logs:
        await engine.add_source(
            ListSource("mcp:x", [{"name": f"t{each}"} for each in range(1_050)])
        )
    lines = [log["error"] for log in logs if log["event"] == "load_error"]
    assert len(engine.load_errors) == 1_050
    assert heard.take().count(("load_error", None)) == 1_050
    assert len(lines) == 21
    assert lines[-1] == "and 1,030 more; all are in `load_errors`"


async def test_a_list_that_never_ends_is_refused(engine: ToolEngine) -> None:
    source = ListSource("mcp:x", [tool("a")])
    await engine.add_source(source)
    same = source.items[0]
    source.items = iter(lambda: same, None)
    await engine.reload()
    assert "more than 100,000 tools" in engine.load_errors[0][1]
    assert engine.list_names() == ["a"]


async def test_a_file_and_code_come_before_a_source(engine: ToolEngine, tmp_path: Path) -> None:
    """A source never takes a name over; what is left out is an error, and comes when it can."""
    await engine.add_source(ListSource("mcp:x", [tool("filed"), tool("coded"), tool("own")]))
    assert await outcome(engine, "filed") == {"result": "mcp:x filed 1.0.0"}
    path = write(tmp_path, "filed")
    await engine.reload()
    assert engine.get_or_raise("filed").origin == f"file:{path}"
    ((place, message),) = engine.load_errors
    assert place == "<mcp:x>"
    assert str(path) in message
    with pytest.raises(DuplicateToolError, match="already defined in <mcp:x>"):
        engine.register_tool(definition("coded"), lambda: 1)
    path.unlink()
    await engine.reload()
    assert engine.get_or_raise("filed").origin == "mcp:x"
    assert engine.load_errors == []
    with pytest.raises(ConfigurationError, match="remove the source instead"):
        engine.unregister_tool("own")


async def test_a_name_that_code_leaves_is_the_sources(engine: ToolEngine) -> None:
    engine.register_tool(definition("a"), lambda: "code")
    await engine.add_source(ListSource("mcp:x", [tool("a")]))
    assert "<code>" in engine.load_errors[0][1]
    assert await outcome(engine, "a") == {"result": "code"}
    engine.unregister_tool("a")
    assert await outcome(engine, "a") == {"result": "mcp:x a 1.0.0"}
    assert engine.load_errors == []


async def test_of_two_sources_the_holder_of_a_name_keeps_it(engine: ToolEngine) -> None:
    first, second = ListSource("mcp:one"), ListSource("mcp:two", [tool("a")])
    await engine.add_source(first)
    await engine.add_source(second)
    first.items = [tool("a"), tool("b")]
    await engine.reload()
    assert await outcome(engine, "a") == {"result": "mcp:two a 1.0.0"}
    assert await outcome(engine, "b") == {"result": "mcp:one b 1.0.0"}
    ((place, message),) = engine.load_errors
    assert place == "<mcp:one>"
    assert "<mcp:two>" in message
    await engine.remove_source(second)
    assert await outcome(engine, "a") == {"result": "mcp:one a 1.0.0"}
    assert engine.load_errors == []


async def test_a_taken_name_gets_the_prefix_of_its_source(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """It is kept under another name, says so, and has its own one back when that is free."""
    first, second = ListSource("mcp:one", [tool("a")]), ListSource("mcp:two", [tool("a")])
    second.prefix = "two"  # type: ignore[attr-defined] # a source may have one
    await engine.add_source(first)
    await engine.add_source(second)
    assert engine.list_names() == ["a", "two_a"]
    assert engine.load_errors == []
    assert await outcome(engine, "two_a") == {"result": "mcp:two two_a 1.0.0"}
    renamed = engine.get_or_raise("two_a")
    assert "the name 'a' is of <mcp:one>, so this tool is 'two_a' here" in renamed.findings[0]
    assert renamed.definition_hash != engine.get_or_raise("a").definition_hash
    await engine.reload()
    assert engine.get_or_raise("two_a") is renamed
    await engine.remove_source(first)
    assert engine.list_names() == ["a"]
    text = "name: a\ndescription: Of a file.\nentry: {type: builtin, handler: echo}\n"
    file = tmp_path / "a.yaml"
    file.write_text(text)
    await engine.reload()
    assert engine.list_names() == ["a", "two_a"]
    assert str(file) in engine.get_or_raise("two_a").findings[0]
    second.items.append(tool("two_a"))
    await engine.reload()
    assert len(engine.load_errors) == 1, "what has no free name is left out"
    assert await outcome(engine, "two_a") == {"result": "mcp:two two_a 1.0.0"}


async def test_a_name_with_a_prefix_is_one_that_models_take(engine: ToolEngine) -> None:
    """At most 64 characters, by which a provider would refuse the whole request."""
    names = [f"{'a' * 50}_{number}" for number in range(2)]
    for origin in ("mcp:one", "mcp:two"):
        source = ListSource(origin, [tool(name) for name in names])
        source.prefix = f"{'p' * 28}{origin[4:]}"  # type: ignore[attr-defined]
        await engine.add_source(source)
    found = engine.list_names()
    assert len(set(found)) == 4
    assert [each for each in found if len(each) > 64] == []
    assert engine.load_errors == []


async def test_of_two_sources_that_come_at_once_the_first_named_has_the_name(
    engine: ToolEngine,
) -> None:
    """Whichever answers first."""
    slow, quick = ListSource("mcp:slow", [tool("a")]), ListSource("mcp:quick", [tool("a")])
    may_answer = asyncio.Event()
    read = slow.read_tools

    async def wait_and_read() -> Any:
        await may_answer.wait()
        return await read()

    slow.read_tools = wait_and_read  # type: ignore[method-assign]
    adding = asyncio.create_task(engine.add_source(slow))
    await asyncio.sleep(0)
    await engine.add_source(quick)
    assert await outcome(engine, "a") == {"result": "mcp:quick a 1.0.0"}
    may_answer.set()
    await adding
    assert await outcome(engine, "a") == {"result": "mcp:slow a 1.0.0"}


@pytest.mark.parametrize("prefix", ["1a", "a b", "x" * 33, 5])
async def test_a_prefix_is_checked(engine: ToolEngine, prefix: Any) -> None:
    source = ListSource("mcp:one", [tool("a")])
    source.prefix = prefix  # type: ignore[attr-defined] # a source may have one
    with pytest.raises(ConfigurationError, match="the prefix of the source 'mcp:one' must be"):
        await engine.add_source(source)
    source.prefix = "one"  # type: ignore[attr-defined]
    await engine.add_source(source)


@pytest.mark.parametrize(
    "origin", ["", "github", "file:x", "code:x", "MCP:x", "mcp:", "mcp:a>b", "mcp:a\nb", 5, None]
)
async def test_an_origin_is_checked(engine: ToolEngine, origin: Any) -> None:
    with pytest.raises(ConfigurationError, match="origin"):
        await engine.add_source(ListSource(origin))


async def test_misuse_is_said(engine: ToolEngine) -> None:
    source = ListSource("mcp:x")
    with pytest.raises(ConfigurationError, match="CatalogSource"):
        await engine.add_source(object())  # type: ignore[arg-type]
    await engine.add_source(source)
    with pytest.raises(ConfigurationError, match="already"):
        await engine.add_source(ListSource("mcp:x"))
    with pytest.raises(ConfigurationError, match="no such source"):
        await engine.remove_source("mcp:y")
    with pytest.raises(ConfigurationError, match="no such source"):
        await engine.remove_source(ListSource("mcp:x"))


class Slow(ListSource):
    def __init__(self, origin: str, items: Any) -> None:
        super().__init__(origin, items)
        self.started, self.go = asyncio.Event(), asyncio.Event()

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        self.started.set()
        await self.go.wait()
        return tool.version


async def test_calls_go_on_while_their_source_goes(engine: ToolEngine) -> None:
    source = Slow("mcp:x", [tool("a")])
    await engine.add_source(source)
    call = asyncio.create_task(engine.execute("a", {}))
    await source.started.wait()
    await engine.remove_source(source)
    source.go.set()
    assert (await call).output == {"result": "1.0.0"}
    (record,) = await engine.query_call_records(tool_name="a")
    assert record.definition_hash


async def test_only_its_executor_runs_its_tools(engine: ToolEngine) -> None:
    """Neither its entry nor a registered executor's name takes a tool away from its source."""
    engine.register_executor("a", ListSource("own:other"))
    entry = {"type": "python", "handler": "os:system"}
    await engine.add_source(ListSource("mcp:x", [tool("a"), tool("b", entry=entry)]))
    assert await outcome(engine, "a") == {"result": "mcp:x a 1.0.0"}
    assert await outcome(engine, "b") == {"result": "mcp:x b 1.0.0"}


async def test_without_an_executor_the_entry_says_what_runs(engine: ToolEngine) -> None:
    source = ListSource("own:x")
    source.executor = None
    source.items = [
        definition("a", entry={"type": "builtin", "handler": "echo"}),
        definition("b", entry={"type": "http", "request": {"method": "GET"}}),
    ]
    await engine.add_source(source)
    assert engine.list_names() == ["a"]
    assert "entry.request.url" in engine.load_errors[0][1]


async def test_a_rollback_returns_to_former_tools(engine: ToolEngine) -> None:
    source = ListSource("mcp:x", [tool("a")])
    await engine.add_source(source)
    generation = engine.generation
    source.items = [tool("a", version="2.0.0"), tool("b")]
    await engine.reload()
    await engine.rollback(generation)
    assert engine.list_names() == ["a"]
    assert engine.get_or_raise("a").version == "1.0.0"
    assert [each.cause for each in engine.generations()][-3:] == ["source", "reload", "rollback"]


async def test_a_rollback_brings_back_no_tool_that_nothing_runs(engine: ToolEngine) -> None:
    """A source that was removed took along what runs its tools: no name leads to another code."""
    engine.register_executor("a", ListSource("own:other"))
    kept, gone = ListSource("own:kept", [tool("k")]), ListSource("mcp:x", [tool("a")])
    await engine.add_source(kept)
    await engine.add_source(gone)
    generation = engine.generation
    await engine.remove_source(gone)
    kept.items = [tool("k", version="2.0.0")]
    await engine.reload()
    changes = await engine.rollback(generation)
    assert (changes["added"], changes["modified"]) == ([], ["k"])
    assert engine.list_names() == ["k"]
    await engine.add_source(gone)
    assert await outcome(engine, "a") == {"result": "mcp:x a 1.0.0"}


async def test_the_lock_holds_a_sources_tools(tmp_path: Path) -> None:
    """What changes behind an approval may not be called, nor what a file says in its place."""
    folder = tmp_path / "tools"
    folder.mkdir()
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False, lock="enforce")
    source = ListSource("mcp:x", [tool("a")])
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        await engine.add_source(source)
        assert await outcome(engine, "a") == "tool_quarantined"
        await engine.lock_tools()
        assert await outcome(engine, "a") == {"result": "mcp:x a 1.0.0"}
        source.items = [tool("a", description="Sends all your files away")]
        await engine.reload()
        assert await outcome(engine, "a") == "tool_quarantined"
        source.items = [tool("a")]
        await engine.reload()
        assert await outcome(engine, "a") == {"result": "mcp:x a 1.0.0"}
        await engine.remove_source(source)
        await engine.add_source(ListSource("mcp:y", [tool("a")]))
        assert await outcome(engine, "a") == "tool_quarantined"


async def test_sources_may_be_added_before_the_folder_is_loaded(
    tmp_path: Path, config: ToolEngineConfig
) -> None:
    write(tmp_path, "filed")
    engine = ToolEngine(config)
    await engine.add_source(ListSource("mcp:x", [tool("a")]))
    async with asyncio.timeout(BOUND), engine:
        assert engine.list_names() == ["a", "filed"]


async def test_counts_go_on_through_changes(engine: ToolEngine) -> None:
    """A rate is one of the tool's name: a source that changes it does not start it anew."""
    rate = {"rate": "2/h"}
    source = ListSource("mcp:x", [tool("a", **rate)])
    await engine.add_source(source)
    await outcome(engine, "a")
    source.items = [tool("a", version="1.0.1", **rate)]
    await engine.reload()
    await outcome(engine, "a")
    source.items = [tool("a", version="1.0.2", **rate)]
    await engine.reload()
    third = asyncio.create_task(engine.execute("a", {}))
    while not engine.controller.snapshot().waiting:  # noqa: ASYNC110 - the controller has no such event
        await asyncio.sleep(0)
    third.cancel()
    with pytest.raises(asyncio.CancelledError):
        await third


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
async def test_a_forked_process_hears_no_notice(engine: ToolEngine) -> None:
    """Its wake-up would be the parent's."""
    source = ListSource("own:x", [tool("a")])
    await engine.add_source(source)
    readings = source.readings
    child = os.fork()
    if child == 0:
        try:
            source.notify()
        finally:
            os._exit(0)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert status == 0
    await asyncio.sleep(0)
    assert source.readings == readings


async def test_nothing_is_heard_after_the_end(engine: ToolEngine) -> None:
    source = ListSource("own:x", [tool("a")])
    await engine.add_source(source)
    await engine.remove_source(source)
    readings = source.readings
    source.notify()
    await asyncio.sleep(0)
    await engine.close()
    source.notify()
    assert source.readings == readings
    with pytest.raises(EngineClosedError):
        await engine.add_source(source)
