"""A server's tools are what it lists, with what the operator says of them."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from msgspec.structs import replace

from tests.executors.mcp.conftest import until
from tool_engine import ConfigurationError, ToolEngine
from tool_engine.executors.mcp.mcp_source import MCPSource, shorten_name

ANY: dict[str, Any] = {"type": "object", "properties": {}}


class Shop:
    """A server in memory whose tools a test changes."""

    def __init__(self, *tools: types.Tool) -> None:
        self.tools = list(tools)
        self.bus = InMemorySubscriptionBus()
        self.called: list[str] = []
        self.server: Server[Any] = Server(
            "shop",
            version="1",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    async def list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def call_tool(self, ctx: Any, params: Any) -> types.CallToolResult:
        self.called.append(params.name)
        return types.CallToolResult(content=[])

    async def change(self, *tools: types.Tool) -> None:
        self.tools = list(tools)
        await self.bus.publish(ToolsListChanged())


def tool(name: str, **fields: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=fields.pop("schema", ANY), **fields)


async def add(engine: ToolEngine, shop: Shop, name: str = "shop", /, **settings: Any) -> MCPSource:
    source = MCPSource(name, in_memory=shop.server, **settings)
    await engine.add_source(source)
    return source


async def test_a_tool_that_runs_only_as_a_task_is_left_out(engine: ToolEngine) -> None:
    """No call of it could succeed; `expose` says that it is not wanted."""
    tasks = {each: types.ToolExecution(task_support=each) for each in ("required", "optional")}
    shop = Shop(*(tool(name, execution=each) for name, each in tasks.items()), tool("plain"))
    source = await add(engine, shop, revision="2025-11-25")
    assert {each.name for each in engine.list_all()} == {"optional", "plain"}
    [(_, error)] = engine.load_errors
    assert "'required'" in error
    assert error.endswith(
        "its server runs it only as a task of MCP, which is not supported; "
        "name the others in `expose`"
    )
    await engine.remove_source(source)
    await add(engine, shop, revision="2025-11-25", expose=["optional", "plain"])
    assert engine.load_errors == []


async def test_changes_are_heard(engine: ToolEngine) -> None:
    """Tools come, change and go when the server says so; what is the same stays the same."""
    shop = Shop(tool("buy"), tool("sell"))
    await add(engine, shop)
    kept = engine.get("buy")
    await shop.change(tool("buy"), tool("lend"))
    await until(lambda: engine.get("lend"))
    assert engine.get("sell") is None
    assert engine.get("buy") is kept


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_changes_are_heard_in_a_given_revision(
    engine: ToolEngine, source: MCPSource, revision: str
) -> None:
    """Also where the settings say it, and the server is not asked what it speaks."""
    await engine.add_source(MCPSource(replace(source.settings, revision=revision)))
    assert (await engine.execute("grow", {"text": "grown"})).is_success
    await until(lambda: engine.get("grown"))


async def test_what_the_operator_says_holds(engine: ToolEngine) -> None:
    """Its own words about effect do not, unless they are trusted."""
    read = types.ToolAnnotations(read_only_hint=True, title="Look")
    shop = Shop(tool("look", annotations=read), tool("buy"), tool("hide_me"))
    source = await add(
        engine,
        shop,
        expose=("look", "buy"),
        definition={"timeout": 7.0},
        tools={"b*": {"permission": {"execution": "ask_once"}, "timeout": 3.0}},
    )
    look, buy = engine.get_or_raise("look"), engine.get_or_raise("buy")
    assert (look.effect, look.timeout, look.title) == ("write", 7.0, "Look")
    assert buy.timeout == 3.0
    assert engine.get("hide_me") is None
    assert look.origin == buy.origin == "mcp:shop"
    await engine.remove_source(source)
    await add(engine, Shop(tool("look", annotations=read)), trust_annotations=True)
    assert engine.get_or_raise("look").effect == "read"


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
async def test_a_shared_name_means_none_of_them(engine: ToolEngine, names: tuple[str, str]) -> None:
    """Else it would mean another tool whenever one of the servers is not there."""
    shops = {name: Shop(tool("send"), tool(f"only_{name}")) for name in names}
    sources = [await add(engine, shops[name], name) for name in names]
    assert set(engine.list_names()) == {"one_send", "two_send", "only_one", "only_two"}
    missing = await engine.execute("send", {})
    assert missing.error_type == "tool_not_found"
    assert (await engine.execute("two_send", {})).is_success
    assert shops["two"].called == ["send"]
    assert shops["one"].called == []
    await engine.remove_source(sources[0])
    assert set(engine.list_names()) == {"send", f"only_{names[1]}"}


async def test_one_bad_tool_does_not_hide_the_others(engine: ToolEngine) -> None:
    """It is a load error that names it and its server."""
    bad = tool("bad", schema={"type": "object", "properties": {"a": {"type": "strange"}}})
    await add(engine, Shop(bad, tool("good")))
    assert engine.get("good") is not None
    ((place, error),) = engine.load_errors
    assert place == "<mcp:shop>"
    assert "'bad'" in error


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("read", "read"),
        ("files/read", "files_read_2b7331"),
        ("../../x", "_.._x_9cdf6a"),
        ("3d", "_3d_da0568"),
        ("名字", "___677331"),
        ("a" * 64, "a" * 64),
    ],
)
def test_names(name: str, shown: str) -> None:
    """Each name is one that files, models and people can have."""
    assert shorten_name(name) == shown


def test_long_names_stay_apart() -> None:
    """Two that begin alike are two."""
    names = {shorten_name("a" * 70 + each) for each in "bc"}
    assert len(names) == 2
    assert all(len(each) == 64 for each in names)


async def test_the_servers_own_name_is_called(engine: ToolEngine) -> None:
    """Whatever it is called here."""
    shop = Shop(tool("files/read"))
    await add(engine, shop)
    (name,) = engine.list_names()
    read = engine.get_or_raise(name)
    assert any("'files/read'" in str(each) for each in read.findings)
    assert (await engine.execute(name, {})).is_success
    assert shop.called == ["files/read"]


async def test_names_that_are_written_alike_here_stay_apart(engine: ToolEngine) -> None:
    """Each keeps its name, whichever of the others is there."""
    shop = Shop(tool("a b"), tool("a/b"), tool("a_b"))
    await add(engine, shop)
    own = {each.implementation_config["tool"]: each.name for each in engine.index}
    assert set(own) == {"a b", "a/b", "a_b"}
    assert own["a_b"] == "a_b"
    for each in own.values():
        assert (await engine.execute(each, {})).is_success
    assert shop.called == list(own)
    await shop.change(tool("a/b"))
    await until(lambda: len(engine.index) == 1)
    assert engine.list_names() == [own["a/b"]]


async def test_descriptions_are_plain_and_short(engine: ToolEngine) -> None:
    """Nothing unseen reaches a model, and no book."""
    text = "Buy\u202e\u200b now\x1b[2J\n" + "x" * 10_000
    await add(
        engine,
        Shop(tool("buy", description=text), tool("warn", description="\u26a0\ufe0f Ends it.")),
    )
    assert not engine.get_or_raise("warn").findings
    buy = engine.get_or_raise("buy")
    assert buy.description.startswith("Buy now[2J\nxxx")
    assert len(buy.description) == 4_000
    assert any("10,0" in str(each) for each in buy.findings)
    assert any("cannot be seen in its description was left out" in each for each in buy.findings)


async def test_no_words_of_a_schema_are_hidden(engine: ToolEngine) -> None:
    """At any depth, and in the title; values are sent back, and stay as they are."""
    text = "Buy\u202e\u200b now\x1b[2J\n\U000e0041"
    words = {"title": text, "description": text}
    inner = {"type": "object", "properties": {"description": {"type": "string", **words}}, **words}
    parts = {
        "a": {"anyOf": [{"type": "string", "enum": ["a", text], **words}, {"type": "null"}]},
        "b": {"type": "array", "items": inner, **words},
        "c": {"type": "object", "additionalProperties": {"$ref": "#/$defs/inner"}},
    }
    schema = {"type": "object", "properties": parts, "$defs": {"inner": inner}, **words}
    await add(engine, Shop(tool("buy", title=text, schema=schema, output_schema=schema)))
    (described,) = engine.tool_definitions("mcp", ["buy"])
    assert described["title"] == "Buy now[2J"
    said = repr(described)
    assert said.count(repr(text)) == 2  # the values
    assert not any(mark in said.replace(repr(text), "") for mark in ("u202e", "x1b", "U000e0041"))
    findings = engine.get_or_raise("buy").findings
    assert "cannot be seen in its title, parameters, output was left out" in str(findings)


@pytest.mark.parametrize("settings", [{}, {"command": ["x"], "url": "http://127.0.0.1:1/"}])
def test_a_server_is_reached_in_one_way(settings: dict[str, Any]) -> None:
    """Neither none nor two."""
    with pytest.raises(ConfigurationError, match="reached in one way: give a command, a url, or"):
        MCPSource("shop", **settings)


async def test_a_server_that_is_not_there(engine: ToolEngine) -> None:
    """It is said at once; its tools come when it does."""
    missing = MCPSource("gone", command=("/nowhere/program",))
    closed = MCPSource("shut", url="http://127.0.0.1:9/mcp")
    await asyncio.gather(engine.add_source(missing), engine.add_source(closed))
    errors = dict(engine.load_errors)
    assert "program '/nowhere/program' is not there; correct its command" in errors["<mcp:gone>"]
    assert "it cannot be reached" in errors["<mcp:shut>"]


async def test_changes_that_are_not_told(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of a server that cannot tell of changes is read again after a while."""
    monkeypatch.setattr("tool_engine.executors.mcp.peer.SHORTEST_TTL", 0.05)
    shop = Shop(tool("buy"))
    shop.server = Server("mute", on_list_tools=shop.list_tools, on_call_tool=shop.call_tool)
    await add(engine, shop)
    assert engine.index.get("sell") is None
    shop.tools.append(tool("sell"))
    await until(lambda: engine.index.get("sell"))
