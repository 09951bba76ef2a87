"""How do the tools and executors that a program registers become the engine's?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import (
    DefinitionError,
    EngineClosedError,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolEngineEvent,
)

CONFIG = ToolEngineConfig(auto_reload=False, tools_directory="none")


def define(name: str, **keys: Any) -> dict[str, Any]:
    parameter = {"name": "a", "type": "integer", "default": 2, "description": "A number"}
    return {"name": name, "description": "Doubles.", "parameters": [parameter], **keys}


async def double(a: int) -> int:
    return a * 2


async def test_many_tools_are_one_change() -> None:
    """P6: one generation, and an event for each tool, as a registration alone has it."""
    async with ToolEngine(CONFIG) as engine:
        heard: list[ToolEngineEvent] = []
        engine.subscribe(heard.append)
        before = engine.generation
        read = ToolConfigLoader().load_text("name: read\ndescription: Reads.", "read.yaml")
        tools = engine.register_tools(
            [
                (define("b"), double),
                (define("a"), double),
                define("echoing", entry={"type": "builtin", "handler": "echo"}),
                (read, lambda: "read"),
            ]
        )
        assert [tool.name for tool in tools] == ["b", "a", "echoing", "read"]
        assert engine.generation == before + 1
        assert [(e.event_type, e.tool_name, e.tool) for e in heard] == [
            ("tool_added", tool.name, tool) for tool in tools
        ]
        assert all(engine.get(tool.name) is tool for tool in tools)
        await engine.reload()
        assert (await engine.execute("a", {"a": 4})).output == {"result": 8}
        assert (await engine.execute("read")).output == {"result": "read"}
        assert (await engine.execute("echoing", {"a": 4})).output == {"a": 4}
        assert engine.register_tools([]) == []
        assert engine.generation == before + 1


async def test_all_tools_or_none() -> None:
    """P6: what is wrong with each is said, with its place and name, and nothing has changed."""
    async with ToolEngine(CONFIG) as engine:
        engine.register_tool(define("taken", aliases=["held"]), double)
        heard: list[ToolEngineEvent] = []
        engine.subscribe(heard.append)
        before = engine.generation
        wrong: Any = 3
        with pytest.raises(DefinitionError) as caught:
            engine.register_tools(
                [
                    (define("right"), double),
                    (define("taken"), double),
                    (define("right"), double),
                    (define("misfit"), lambda b: b),
                    define("no_entry", entry={"type": "http", "request": {"url": 3}}),
                    (define("shadow", aliases=["held"]), double),
                    (define("typo", paramters=[]), double),
                    wrong,
                    (define("one", entry={"type": "custom", "handler": "same"}), double),
                    (define("two", entry={"type": "custom", "handler": "same"}), lambda a: a),
                ]
            )
        found = [(each.file, each.path, each.message) for each in caught.value.problems]
        for file, path, words in (
            ("tool 'taken'", "tools[1].name", "already defined in <code>"),
            ("tool 'right'", "tools[2].name", "given twice"),
            ("tool 'misfit'", "tools[3]", "does not take the declared parameter 'a'"),
            ("tool 'no_entry'", "tools[4].entry.request.url", "text"),
            ("tool 'shadow'", "tools[5].aliases[0]", "also means 'taken'"),
            ("tool 'typo'", "tools[6].paramters", "parameters"),
            ("<code>", "tools[7]", "a mapping"),
            ("tool 'two'", "tools[9].entry.handler", "another entry.handler"),
        ):
            assert any((file, path) == each[:2] and words in each[2] for each in found), path
        assert {path.partition(".")[0] for _, path, _ in found}.isdisjoint({"tools[0]", "tools[8]"})
        assert (engine.list_names(), engine.generation, heard) == (["taken"], before, [])
        engine.register_tool(define("alone", entry={"type": "custom", "handler": "same"}))
        assert (await engine.execute("alone")).error_type == "executor_not_found"
    with pytest.raises(EngineClosedError):
        engine.register_tools([(define("late"), double)])


async def test_a_message_about_thousands_stays_short() -> None:
    """Of a thousand wrong tools the first are described, and the rest counted."""
    engine = ToolEngine(CONFIG)
    with pytest.raises(DefinitionError, match="and 900 more problems") as caught:
        engine.register_tools({"name": f"t{number}"} for number in range(1000))
    assert len(caught.value.problems) == 101


KEYS: dict[str, list[Any]] = {
    "name": ["a", "b", "c", "wrong name"],
    "aliases": [["a"], ["x"], ["y", "x"]],
    "output": [{"type": "object"}, {"type": "objet"}, {"type": "object", "title": "T"}],
    "entry": [{"type": "custom", "handler": "h"}, {"type": "builtin", "handler": "echo"}, 3],
    "parameters": [[{"name": "b", "type": "string", "description": "B"}]],
}
DEFINITIONS = st.fixed_dictionaries(
    {"name": st.sampled_from(KEYS["name"])},
    optional={key: st.sampled_from(values) for key, values in KEYS.items() if key != "name"},
).map(lambda keys: {"description": "Does it.", **keys})
HANDLERS: st.SearchStrategy[Callable[..., Any] | None] = st.sampled_from(
    [None, lambda **others: 0, double]
)


@settings(max_examples=share_of(300), deadline=None)
@given(st.lists(st.tuples(DEFINITIONS, HANDLERS), max_size=4))
def test_at_once_as_one_after_the_other(tools: list[Any]) -> None:
    """P6: what one after the other are taken are taken at once, as the same; else none is."""

    async def compare() -> None:
        single, together = ToolEngine(CONFIG), ToolEngine(CONFIG)
        is_right = True
        try:
            for definition, handler in tools:
                single.register_tool(definition, handler)
        except ToolEngineError:
            is_right = False
        try:
            together.register_tools(tools)
        except DefinitionError:
            assert not is_right
            assert not together.list_names()
        else:
            assert is_right
            assert together.list_all() == single.list_all()
        await single.close()
        await together.close()

    asyncio.run(compare())


async def test_two_functions_under_one_handler() -> None:
    """One by one as together: neither tool may run what was written for the other."""
    entry = {"type": "custom", "handler": "same"}
    async with ToolEngine(CONFIG) as engine:
        engine.register_tool(define("one", entry=entry), double)
        with pytest.raises(DefinitionError, match="the tool 'one' has the handler 'same', too"):
            engine.register_tool(define("two", entry=entry), lambda a: a)
        with pytest.raises(DefinitionError, match="the tool 'one' has the handler 'same', too"):
            engine.register_tools([(define("two", entry=entry), lambda a: a)])
        engine.register_tool(define("two", entry=entry), double)
        engine.unregister_tool("one")
        engine.unregister_tool("two")
        engine.register_tool(define("two", entry=entry), lambda a: a)
        assert (await engine.execute("two", {"a": 4})).output == {"result": 4}
        engine.register_tool(define("one"), double)
        assert (await engine.execute("one", {"a": 4})).output == {"result": 8}


async def test_a_function_under_the_handler_of_another_tool() -> None:
    """What ran the other one before is not replaced by it."""
    entry = {"type": "builtin", "handler": "echo"}
    other = define("one", entry=entry, parameters=[])
    async with ToolEngine(CONFIG) as engine:
        with pytest.raises(DefinitionError, match="another of these tools has the handler 'echo'"):
            engine.register_tools([other, (define("two", entry=entry), double)])
        engine.register_tool(other)
        with pytest.raises(DefinitionError, match="the tool 'one' has the handler 'echo', too"):
            engine.register_tool(define("two", entry=entry), double)


async def test_a_method_runs_several_tools() -> None:
    """Each look at an object's method is another value, and the same function."""

    class Shop:
        def count(self, a: int) -> int:
            return a

    shop, entry = Shop(), {"type": "custom", "handler": "count"}
    async with ToolEngine(CONFIG) as engine:
        engine.register_tool(define("one", entry=entry), shop.count)
        engine.register_tool(define("two", entry=entry), shop.count)
        with pytest.raises(DefinitionError, match=r"another entry\.handler"):
            engine.register_tool(define("three", entry=entry), Shop().count)
