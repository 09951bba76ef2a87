"""The engine as its users see it: opening, registering, asking, calling, listening."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal, Optional

import pytest
from structlog.testing import capture_logs

import tool_engine.catalog.definition.raw_schema  # noqa: F401 - its first import reads files
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    DefinitionError,
    DuplicateToolError,
    MemoryStorage,
    Tool,
    ToolCategory,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolKnowledgeStore,
    ToolNotFoundError,
)
from tool_engine.model.call import Refusal
from tool_engine.protocols.definition_formats import FORMATS
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, prefix

NO = Refusal("rejected", "no")
HELLO = """
name: {name}
version: "1.0.0"
description: Says hello to {name}
category: {category}
tags: [greeting, {tag}]
status: {status}
parameters:
  - name: message
    type: string
    required: true
    description: The text
entry:
  type: builtin
  handler: echo
"""


def write(folder: Path, name: str, **keys: str) -> Path:
    values = {"name": name, "category": "custom", "tag": name, "status": "published", **keys}
    path = folder / f"{name}.yaml"
    path.write_text(HELLO.format(**values), encoding="utf-8")
    return path


def definition(name: str = "made", **keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1.0.0",
        "description": "Made in code",
        "category": "custom",
        "entry": {"type": "custom", "handler": name},
        **keys,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def config(folder: Path) -> ToolEngineConfig:
    return ToolEngineConfig(tools_directory=str(folder), auto_reload=False)


@pytest.fixture
async def engine(config: ToolEngineConfig) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(config) as made:
        yield made


# Opening.


async def test_opens_loads_and_closes(folder: Path, config: ToolEngineConfig) -> None:
    """K3, K53: `async with` loads the folder, the tools answer, and the end closes everything."""
    write(folder, "hello")
    engine = ToolEngine(config)
    assert "not loaded" in repr(engine)
    assert engine.generation == 0
    async with engine as opened:
        assert opened is engine
        assert engine.list_names() == ["hello"]
        result = await engine.execute("hello", {"message": "hi"})
        assert result.output == {"message": "hi"}
        assert repr(engine).startswith("<ToolEngine open, 1 tools from ")
    assert "closed" in repr(engine)


async def test_load_and_close_explicitly(folder: Path, config: ToolEngineConfig) -> None:
    """K3: `load` and `close` may be called by hand; a second load looks again."""
    write(folder, "one")
    engine = ToolEngine(config)
    await engine.load()
    write(folder, "two")
    await engine.load()
    assert engine.list_names() == ["one", "two"]
    await engine.close()


@pytest.mark.parametrize("wrong", ["tools", {"tools_directory": "tools"}, 3])
def test_config_of_another_type(wrong: Any) -> None:
    """K48: a folder instead of a config is refused with the cure."""
    with pytest.raises(ConfigurationError, match=r"write ToolEngineConfig\(tools_directory=\.\.\."):
        ToolEngine(wrong)


def test_defaults() -> None:
    """K33, K48: an engine without arguments has the documented settings."""
    engine = ToolEngine()
    assert engine.config == ToolEngineConfig()
    assert engine.controller.config == ConcurrencyConfig()
    assert engine.list_all() == []


def test_limits_from_either_place() -> None:
    """K33: `concurrency` wins over the config's own."""
    limits = ConcurrencyConfig(max_concurrent=3)
    assert ToolEngine(ToolEngineConfig(concurrency=limits)).controller.config is limits
    other = ConcurrencyConfig(max_concurrent=4)
    engine = ToolEngine(ToolEngineConfig(concurrency=limits), concurrency=other)
    assert engine.controller.config is other


async def test_store_of_ones_own(config: ToolEngineConfig) -> None:
    """K28: calls are recorded in the store that was passed in."""
    store = ToolKnowledgeStore(MemoryStorage(10))
    async with ToolEngine(config, store=store) as engine:
        assert engine.store is store
        await engine.execute("nothing")
        assert len(await store.query_call_records()) == 1


async def test_records_are_bounded(folder: Path) -> None:
    """K28: the memory keeps the newest `max_records`."""
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False, max_records=3)
    async with ToolEngine(config) as engine:
        for number in range(5):
            await engine.execute(f"nothing{number}")
        names = [record.tool_name for record in await engine.query_call_records()]
        assert names == ["nothing4", "nothing3", "nothing2"]


async def test_strict_validation(folder: Path) -> None:
    """K48: `strict_validation` refuses unknown parameters."""
    write(folder, "hello")
    config = ToolEngineConfig(
        tools_directory=str(folder), auto_reload=False, strict_validation=True
    )
    async with ToolEngine(config) as engine:
        result = await engine.execute("hello", {"message": "hi", "mesage": "x"})
        assert result.error_type == "validation_error"
        assert [each["type"] for each in result.validation_errors] == ["extra_parameter"]


async def call_with(way: Callable[..., Any], *given: Any) -> None:
    if inspect.isawaitable(made := way(*given)):
        await made


WAYS: dict[str, Callable[[Any, str, Any], Any]] = {
    "execute": lambda engine, name, context: engine.execute(name, {}, context),
    "refuse": lambda engine, name, context: engine.refuse(name, {}, context, NO),
    "view": lambda engine, name, context: prefix(engine, "w.").execute(f"w.{name}", {}, context),
    "refuse in a view": lambda engine, name, context: combine(engine).refuse(name, {}, context, NO),
    "session": lambda engine, name, context: ToolSession(engine, "s").execute(name, {}, context),
    "refuse in a session": lambda engine, name, context: ToolSession(engine, "s").refuse(
        name, {}, context, NO
    ),
    "acquire": lambda engine, name, context: engine.controller.acquire(name, context=context),
}


@pytest.mark.parametrize("context", [5, "user", {"caller_id": "ann"}])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["hello", "nobody"])
async def test_a_context_that_is_none(folder: Path, way: str, name: str, context: Any) -> None:
    """Misuse is an exception that says what to pass, and no call."""
    write(folder, "hello")
    async with ToolEngine(
        ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    ) as engine:
        kind = type(context).__name__
        with pytest.raises(ConfigurationError, match=rf"got {kind}: pass ToolExecutionContext\("):
            await call_with(WAYS[way], engine, name, context)
        assert await engine.query_call_records() == []
        assert engine.controller.get_metrics().active == 0


async def test_a_context_that_is_none_inside_a_tool(config: ToolEngineConfig) -> None:
    """The same of a call that a tool makes; what it holds is given back."""
    async with ToolEngine(config) as engine:

        @engine.tool
        async def outer() -> str:
            """Calls wrongly."""
            wrong: Any = 5
            await engine.execute("outer", {}, wrong)
            return "never"

        result = await engine.execute("outer")
        assert "got int: pass ToolExecutionContext(" in str(result.error)
        assert engine.controller.get_metrics().active == 0


# Asking.


async def test_questions_about_tools(folder: Path, config: ToolEngineConfig) -> None:
    """U19, K51: get, list, find by tags (AND, OR), by category, search."""
    write(folder, "alpha", category="http", tag="x")
    write(folder, "beta", tag="x")
    write(folder, "gamma", category="ai")
    async with ToolEngine(config) as engine:
        tool = engine.get("alpha")
        assert tool is not None
        assert (tool.id, tool.name, tool.version) == (tool.id, "alpha", "1.0.0")
        assert tool.category is ToolCategory.HTTP
        assert tool.implementation_config == {"type": "builtin", "handler": "echo"}
        assert engine.get("missing") is None
        assert engine.get_or_raise("beta").name == "beta"
        with pytest.raises(ToolNotFoundError, match="did you mean 'beta'"):
            engine.get_or_raise("betta")
        assert engine.list_names() == ["alpha", "beta", "gamma"]

        def names(tools: list[Tool]) -> list[str]:
            return [each.name for each in tools]

        assert names(engine.list_all()) == ["alpha", "beta", "gamma"]
        assert names(engine.find_by_tag("x")) == ["alpha", "beta"]
        assert names(engine.find_by_tags(["greeting", "x"])) == ["alpha", "beta"]
        assert names(engine.find_by_tags(["x", "gamma"])) == []
        assert names(engine.find_by_any_tag(["x", "gamma"])) == ["alpha", "beta", "gamma"]
        assert names(engine.find_by_category("http")) == ["alpha"]
        assert names(engine.find_by_category(ToolCategory.AI)) == ["gamma"]
        assert names(engine.search("HELLO TO be")) == ["beta"]


async def test_statistics(folder: Path, config: ToolEngineConfig) -> None:
    """U19: what an engine says about itself."""
    write(folder, "alpha", category="http")
    write(folder, "beta")
    (folder / "broken.yaml").write_text("name: [")
    engine = ToolEngine(config)
    before = engine.get_statistics()
    assert (before["total_tools"], before["is_loaded"], before["last_reload_at"]) == (
        0,
        False,
        None,
    )
    async with engine:
        statistics = engine.get_statistics()
        assert statistics["total_tools"] == 2
        assert statistics["by_category"] == {"http": 1, "custom": 1}
        assert [Path(file).name for file, _ in statistics["load_errors"]] == ["broken.yaml"]
        assert statistics["load_errors"] == engine.load_errors
        assert statistics["is_loaded"]
        assert statistics["last_reload_at"].tzinfo is not None
        assert statistics["generation"] == engine.generation == 1
        assert statistics["warnings"] == []


async def test_limit_for_an_unknown_bucket(folder: Path) -> None:
    """C13: a limit that no tool counts against is warned about, with the likely name."""
    write(folder, "alpha", category="http")
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    limits = ConcurrencyConfig(bucket_limits={"htpp": 2, "ai": 1, "zzz": 1})
    with capture_logs() as logs:
        async with ToolEngine(config, concurrency=limits) as engine:
            warnings = engine.get_statistics()["warnings"]
    assert warnings == [
        "bucket_limits names 'htpp', which no tool uses; did you mean 'http'?",
        "bucket_limits names 'zzz', which no tool uses",
    ]
    logged = [log["message"] for log in logs if log["event"] == "limit_for_unknown_bucket"]
    assert logged == warnings


async def test_an_unknown_bucket_is_warned_of_once(folder: Path) -> None:
    """C13: each tool that came or went, and each reload with news, warned of it again."""
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)

    def count(logs: list[Any]) -> int:
        return sum(log["event"] == "limit_for_unknown_bucket" for log in logs)

    async with ToolEngine(
        config, concurrency=ConcurrencyConfig(bucket_limits={"serch": 2})
    ) as engine:
        with capture_logs() as logs:
            for name in ("one", "two"):
                engine.register_tool({"name": name, "description": "d"}, lambda: None)
            write(folder, "alpha", category="http")
            await engine.reload()
            concurrency = {"bucket": "search"}  # from here on the likely name is another one
            definition = {"name": "three", "description": "d", "concurrency": concurrency}
            engine.register_tool(definition, lambda: None)
            engine.controller.configure(ConcurrencyConfig(bucket_limits={"serch": 2}))
            engine.unregister_tool("one")
        assert count(logs) == 1
        assert "did you mean 'search'?" in engine.get_statistics()["warnings"][0]
        with capture_logs() as logs:
            engine.controller.configure(ConcurrencyConfig(bucket_limits={"serch": 3}))
            for name in ("four", "five"):
                engine.register_tool({"name": name, "description": "d"}, lambda: None)
        assert count(logs) == 1


@pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini", "mcp"])
async def test_tool_definitions(folder: Path, config: ToolEngineConfig, format_name: str) -> None:
    """U20: models are told of the tools in testing and published, not of draft and deprecated."""
    for status in ("published", "testing", "draft", "deprecated"):
        write(folder, f"is_{status}", status=status)
    async with ToolEngine(config) as engine:
        text = str(engine.tool_definitions(format_name))
        assert "is_published" in text
        assert "is_testing" in text
        assert "is_draft" not in text
        assert "is_deprecated" not in text
        assert "is_draft" in str(engine.tool_definitions(format_name, ["is_draft"]))
        with pytest.raises(ToolNotFoundError):
            engine.tool_definitions(format_name, ["missing"])
        assert (await engine.execute("is_draft", {"message": "x"})).is_success


def test_unknown_definition_format() -> None:
    """An unknown format is refused."""
    with pytest.raises(ConfigurationError, match="did you mean 'openai'"):
        ToolEngine().tool_definitions("opennai")


# Registering.


async def test_register_tool_from_a_mapping(engine: ToolEngine) -> None:
    """R2: a definition as a mapping and an async handler make a tool; TOOL_ADDED tells of it."""
    heard: list[ToolEngineEvent] = []
    engine.subscribe(heard.append)
    parameters = [{"name": "a", "type": "integer", "default": 2, "description": "x"}]

    async def made(a: int) -> int:
        return a * 2

    generation = engine.generation
    tool = engine.register_tool(definition(parameters=parameters), made)
    assert engine.get("made") is tool
    assert tool.source is None
    assert engine.generation == generation + 1
    assert (await engine.execute("made")).output == {"result": 4}
    assert (heard[0].event_type.value, heard[0].tool_name, heard[0].tool) == (
        "tool_added",
        "made",
        tool,
    )


async def test_register_tool_value(engine: ToolEngine) -> None:
    """R2: a `Tool` may be registered as it is."""
    tool = ToolConfigLoader().from_mapping(definition())
    assert engine.register_tool(tool, lambda: 3) is tool
    assert (await engine.execute("made")).output == {"result": 3}


async def test_register_tool_that_was_read_from_a_file(engine: ToolEngine, tmp_path: Path) -> None:
    """It is no part of the folder, so that no reload takes it away."""
    text = "name: read\ndescription: Reads.\nentry: {type: builtin, handler: echo}\n"
    other = tmp_path / "elsewhere.yaml"
    other.write_text(text)
    for tool in (ToolConfigLoader().load_text(text), ToolConfigLoader().load_file(other)):
        engine.register_tool(tool, lambda: "here")
        await engine.reload()
        assert (await engine.execute("read")).output == {"result": "here"}
        engine.unregister_tool("read")


async def test_register_tool_without_a_handler(engine: ToolEngine) -> None:
    """K6: without a handler, the executor of the handler's name runs the tool."""
    engine.register_tool(definition(entry={"type": "builtin", "handler": "echo"}))
    assert (await engine.execute("made")).is_success


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (lambda b: b, "does not take the declared parameter 'a'"),
        (lambda a, b: b, "needs 'b', which the tool does not declare"),
        (3, "a handler must be a function"),
    ],
)
async def test_handler_that_does_not_fit(engine: ToolEngine, handler: Any, message: str) -> None:
    """A handler that does not take what the tool declares is refused, and nothing is registered."""
    parameters = [{"name": "a", "type": "integer", "required": True, "description": "x"}]
    with pytest.raises(ConfigurationError, match=message):
        engine.register_tool(definition(parameters=parameters), handler)
    assert engine.get("made") is None


async def test_duplicate_names(folder: Path, config: ToolEngineConfig) -> None:
    """U13: a name that is taken, by a file or in code, is refused; the first tool stays."""
    write(folder, "hello")
    async with ToolEngine(config) as engine:
        with pytest.raises(DuplicateToolError, match="hello"):
            engine.register_tool(definition("hello"), lambda: 1)
        engine.register_tool(definition("made"), lambda: 1)
        with pytest.raises(DuplicateToolError, match="made"):
            engine.register_tool(definition("made"), lambda: 2)
        assert (await engine.execute("made")).output == {"result": 1}
        assert (await engine.execute("hello", {"message": "x"})).output == {"message": "x"}


async def test_wrong_definition(engine: ToolEngine) -> None:
    """A definition that is not right is refused whole."""
    with pytest.raises(DefinitionError, match="categry"):
        engine.register_tool({**definition(), "categry": "http"}, lambda: 1)


async def test_unregister_tool(folder: Path, config: ToolEngineConfig) -> None:
    """A tool from code can be taken out; one from a file cannot."""
    path = write(folder, "hello")
    async with ToolEngine(config) as engine:
        heard: list[ToolEngineEvent] = []
        engine.subscribe(heard.append, event_types="tool_removed")
        engine.register_tool(definition(), lambda: 1)
        assert (await engine.execute("made")).is_success
        engine.unregister_tool("made")
        assert (await engine.execute("made")).error_type == "tool_not_found"
        assert [event.tool_name for event in heard] == ["made"]
        with pytest.raises(ToolNotFoundError):
            engine.unregister_tool("made")
        with pytest.raises(ConfigurationError, match="remove the file instead") as caught:
            engine.unregister_tool("hello")
        assert str(path) in str(caught.value)


async def test_register_executor(engine: ToolEngine) -> None:
    """K6, K25: an executor registered under a name runs every tool whose handler it is."""

    class Shout:
        async def execute(self, tool: Tool, params: dict[str, Any], context: Any) -> str:
            return f"{tool.name}!"

    engine.register_executor("shout", Shout())
    for name in ("one", "two"):
        engine.register_tool(definition(name, entry={"type": "custom", "handler": "shout"}))
        assert (await engine.execute(name)).output == {"result": f"{name}!"}
    wrong: Any = object()
    with pytest.raises(ConfigurationError):
        engine.register_executor("wrong", wrong)


async def test_executor_replaced(engine: ToolEngine) -> None:
    """K25: an executor that is registered anew runs the next call, planned ones included."""

    class Give:
        def __init__(self, value: int) -> None:
            self.value = value

        async def execute(self, tool: Tool, params: dict[str, Any], context: Any) -> int:
            return self.value

    engine.register_tool(definition())
    for value in (1, 2):
        engine.register_executor("made", Give(value))
        assert (await engine.execute("made")).output == {"result": value}


@dataclasses.dataclass
class Place:
    city: str
    zip_code: int = 0


async def test_tool_decorator(engine: ToolEngine) -> None:
    """R2: `@engine.tool` derives the parameters from signature, hints and docstring."""

    @engine.tool(category="http", tags=["geo"], effect="read", timeout=5)
    async def travel(
        to: Place,
        mode: Literal["train", "bus"] = "train",
        note: Optional[str] = None,  # noqa: UP045 - the form that many people write
        context: ToolExecutionContext | None = None,
    ) -> dict[str, Any]:
        """Plans a journey.

        Args:
            to: Where to.
            mode: By what.
        """
        assert isinstance(to, Place)
        who = None if context is None else context.caller_id
        return {"to": to.city, "zip": to.zip_code, "mode": mode, "note": note, "who": who}

    tool = engine.get_or_raise("travel")
    assert (tool.description, tool.category, tool.tags) == ("Plans a journey.", "http", ["geo"])
    assert (tool.effect, tool.timeout) == ("read", 5)
    about = {parameter.name: parameter for parameter in tool.parameters}
    assert list(about) == ["to", "mode", "note"]
    assert about["to"].required
    assert about["to"].description == "Where to."
    assert about["mode"].default == "train"

    context = ToolExecutionContext(caller_id="me")
    result = await engine.execute("travel", {"to": {"city": "Oslo", "zip_code": 1}}, context)
    assert result.is_success, result.error
    assert result.output["to"] == "Oslo"
    assert result.output["who"] == "me"
    wrong = await engine.execute("travel", {"to": {"city": 1}, "mode": "car"})
    assert sorted(each["path"] for each in wrong.validation_errors) == ["mode", "to.city"]
    direct = await travel(Place("Rome"))
    assert direct["to"] == "Rome"


async def test_decorator_without_parentheses(engine: ToolEngine) -> None:
    """R2: `@engine.tool` alone registers the function too."""

    @engine.tool
    async def double(number: int) -> int:
        """Doubles a number.

        Args:
            number: Any.
        """
        return 2 * number

    assert await double(4) == 8
    result = await engine.execute("double", {"number": 21})
    assert result.output == {"result": 42}


async def test_tool_decorator_with_a_name(engine: ToolEngine) -> None:
    """R2: name and description may be said; a plain function runs in a thread."""

    @engine.tool("sum", description="Adds up")
    def add(values: list[int]) -> int:
        return sum(values)

    assert engine.get_or_raise("sum").description == "Adds up"
    assert (await engine.execute("sum", {"values": [1, 2]})).output == {"result": 3}
    assert add([3]) == 3


async def test_tool_decorator_that_knows_too_little(engine: ToolEngine) -> None:
    """R2: a function that does not say enough is refused, naming the parameter."""

    def vague(value: asyncio.Task[int]) -> None:
        del value

    with pytest.raises(DefinitionError, match="value"):
        engine.tool(description="x")(vague)
    assert engine.list_names() == []


# Listening, remembering.


async def test_subscribe_and_unsubscribe(engine: ToolEngine) -> None:
    """K47: a subscriber hears the types and tools that it asked for, until it ends that."""
    engine.register_tool(definition("one"), lambda: 1)
    engine.register_tool(definition("two"), lambda: 1)
    heard: list[tuple[str, str | None]] = []
    unsubscribe = engine.subscribe(
        lambda event: heard.append((event.event_type.value, event.tool_name)),
        event_types=["execution_completed", "execution_failed"],
        tool_name=["one", "missing"],
    )
    for name in ("one", "two", "missing"):
        await engine.execute(name)
    unsubscribe()
    await engine.execute("one")
    assert heard == [("execution_completed", "one"), ("execution_failed", "missing")]
    with pytest.raises(ConfigurationError, match="did you mean"):
        engine.subscribe(print, event_types="execution_complete")


async def test_async_subscriber(engine: ToolEngine) -> None:
    """K47: an async subscriber hears every event, in order, and delays no call."""
    heard: list[str] = []
    done = asyncio.Event()

    async def listen(event: ToolEngineEvent) -> None:
        await asyncio.sleep(0)
        heard.append(event.event_type.value)
        if len(heard) == 2:
            done.set()

    engine.register_tool(definition("one"), lambda: 1)
    engine.subscribe(listen)
    await engine.execute("one")
    await asyncio.wait_for(done.wait(), 5)
    assert heard == ["execution_started", "execution_completed"]


async def test_event_stream(config: ToolEngineConfig) -> None:
    """K47: `events` iterates over what happens, until the engine closes."""
    engine = ToolEngine(config)
    await engine.load()
    engine.register_tool(definition("one"), lambda: 1)
    stream = engine.events(tool_name="one", buffer=1)
    await engine.execute("one")
    closing = asyncio.create_task(engine.close())
    kinds = [event.event_type.value async for event in stream]
    await closing
    assert kinds == ["execution_completed"]
    assert stream.dropped == 1


async def test_records_summary_and_statistics(engine: ToolEngine) -> None:
    """K42, K43, K44: what was called can be asked for, per conversation and in all."""
    engine.register_tool(definition("one"), lambda: 1)
    context = ToolExecutionContext.for_conversation("agent", "conv")
    await engine.execute("one", {}, context)
    await engine.execute("missing", {}, context)
    await engine.execute("one")
    records = await engine.query_call_records(conversation_id="conv")
    assert [record.tool_name for record in records] == ["missing", "one"]
    assert len(await engine.query_call_records(tool_name="one")) == 2
    summary = await engine.get_call_summary("conv")
    assert (summary.total_calls, summary.successful_calls, summary.failed_calls) == (2, 1, 1)
    assert summary.success_rate == 50.0
    statistics = await engine.get_call_statistics()
    assert (statistics["total_records"], statistics["success_count"]) == (3, 2)


async def test_metrics_of_the_controller(engine: ToolEngine) -> None:
    """K39, K40: the engine's controller counts its calls."""
    engine.register_tool(definition("one", category="ai"), lambda: 1)
    for _ in range(3):
        await engine.execute("one")
    metrics = engine.controller.get_metrics()
    assert (metrics.total_acquired, metrics.current_concurrent) == (3, 0)
    assert engine.controller.get_bucket_metrics()["ai"]["current"] == 0


def test_engine_made_outside_a_loop(folder: Path) -> None:
    """C27: an engine may be made before there is a loop, and its controller asked without one."""
    engine = ToolEngine(ToolEngineConfig(tools_directory=str(folder), auto_reload=False))
    slot = engine.controller.try_acquire()
    assert slot is not None
    engine.controller.release(slot)
    engine.register_tool(definition("one"), lambda: 1)

    async def main() -> bool:
        async with engine:
            return (await engine.execute("one")).is_success

    assert asyncio.run(main())


@pytest.mark.parametrize("format_name", FORMATS)
async def test_definitions_are_each_callers_own(tmp_path: Path, format_name: str) -> None:
    """They are kept from one turn of a model to the next, until a tool changes."""
    async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:

        @engine.tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        first = engine.tool_definitions(format_name)
        again = engine.tool_definitions(format_name, ["add"])
        assert first == engine.tool_definitions(format_name) == again
        kept = json.dumps(first)
        for each in (first[0], engine.tool_definitions(format_name)[0]):
            each.clear()
        assert json.dumps(engine.tool_definitions(format_name)) == kept

        @engine.tool
        def subtract(a: int, b: int) -> int:
            """Subtract two numbers."""
            return a - b

        assert "subtract" in json.dumps(engine.tool_definitions(format_name))
        engine.unregister_tool("add")
        assert "add" not in json.dumps(engine.tool_definitions(format_name)).split('"')
        with pytest.raises(ToolNotFoundError):
            engine.tool_definitions(format_name, ["add"])
        assert await engine.read_definitions(format_name) == engine.tool_definitions(format_name)
        assert not await engine.read_definitions(format_name, [])
        with pytest.raises(ToolNotFoundError):
            await engine.read_definitions(format_name, ["add"])
