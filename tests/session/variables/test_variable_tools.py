"""How does a model read and write variables?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext, ToolExecutionResult
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.protocols.definition_formats import definitions
from tool_engine.session.session import ToolSession
from tool_engine.session.variables.labels import ReadLabels
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore
from tool_engine.session.variables.variable_tools import VariableTools

LIMIT = 10.0
WEB = "tool:fetch effect:read host:evil.example"
TEXT = "A page about tides, moons and the many harbours of the northern coast of the island."


class Scope:
    """The part of a conversation that these tools need."""

    def __init__(self, store: VariableStore, *labels: str, read: str | None = None) -> None:
        known = ReadLabels()
        known.note([] if read is None else [read])
        self._tools = VariableTools(store, known)
        self.labels = set(labels)

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        return self._tools.own(tool_name)

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        return None


class Unlabelled(Scope):
    """A scope that knows nothing of labels."""

    def __init__(self, store: VariableStore) -> None:
        super().__init__(store)
        del self.labels


@pytest.fixture
def store() -> VariableStore:
    store = VariableStore()
    store.add(Variable(name="page", value=TEXT, desc="The page", labels=frozenset({WEB})))
    store.add(Variable(name="Rule/web/cite", value="Cite.", kind=VariableKind.RULE))
    kind = VariableKind.TOOL_CALL_RESULT
    store.add(Variable(name="fetch_1_result", value={"n": [1]}, kind=kind, tags=("t",)))
    store.add(Variable(name="mine", value="hello"))
    return store


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        yield engine


async def run(engine: ToolEngine, scope: Scope, tool: str, /, **params: Any) -> ToolExecutionResult:
    context = ToolExecutionContext(caller_id="model", scope=scope)
    async with asyncio.timeout(LIMIT):
        return await engine.execute(tool, params, context)


async def output(engine: ToolEngine, scope: Scope, tool: str, /, **params: Any) -> dict[str, Any]:
    result = await run(engine, scope, tool, **params)
    assert result.is_success, result.error
    return result.output


async def failure(engine: ToolEngine, scope: Scope, tool: str, /, **params: Any) -> str:
    result = await run(engine, scope, tool, **params)
    assert not result.is_success
    return f"{result.error_type}: {result.error}"


def test_the_four_tools(store: VariableStore) -> None:
    """U40, S23: their names, effects and arguments; each says when not to use it."""
    tools = VariableTools(store).tools()
    assert [(tool.name, tool.effect) for tool in tools] == [
        ("read_var", "read"),
        ("list_vars", "read"),
        ("write_var", "write"),
        ("remove_vars", "write"),
    ]
    assert [[each.name for each in tool.parameters] for tool in tools] == [
        ["name", "start", "length"],
        ["type", "search", "tag", "filter", "page", "pageSize"],
        ["name", "value", "desc", "tags"],
        ["names"],
    ]
    assert all("Do not use it" in tool.description for tool in tools)
    assert not any(tool.findings for tool in tools)
    for provider in ("openai", "openai_responses", "anthropic", "gemini", "mcp"):
        assert definitions(provider, tools)
    assert VariableTools(store).own("other") is None


async def test_reading(engine: ToolEngine, store: VariableStore) -> None:
    """U40: a part of the text, where it goes on, and where it came from."""
    scope = Scope(store)
    assert await output(engine, scope, "read_var", name="page", start=2, length=4) == {
        "name": "page",
        "type": "USER_ADD",
        "text": "page",
        "start": 2,
        "of": len(TEXT),
        "next_start": 6,
        "labels": [WEB],
    }
    last = await output(engine, scope, "read_var", name="page", start=6)
    assert last["text"] == TEXT[6:]
    assert last["next_start"] is None
    assert (await output(engine, scope, "read_var", name="page", start=len(TEXT)))["text"] == ""
    assert (await output(engine, scope, "read_var", name="fetch_1_result"))["text"] == '{"n": [1]}'
    assert (await output(engine, scope, "read_var", name="Rule/web/cite"))["text"] == "Cite."


async def test_reading_is_at_most_2000_characters_unless_said(
    engine: ToolEngine, store: VariableStore
) -> None:
    """U39, U40: pages follow one another without gap or overlap."""
    text = "".join(f"{number:05}" for number in range(1200))
    store.add(Variable(name="long", value=text))
    read, start = "", 0
    while start is not None:
        page = await output(engine, Scope(store), "read_var", name="long", start=start)
        assert len(page["text"]) == 2000
        read, start = read + page["text"], page["next_start"]
    assert read == text


async def test_what_cannot_be_read(engine: ToolEngine, store: VariableStore) -> None:
    """U40: the failure is a value, and its message has the cure."""
    scope = Scope(store)
    assert await failure(engine, scope, "read_var", name="pag") == (
        "execution_error: there is no variable 'pag'; near are page"
    )
    assert "start 99 is beyond the end: 'page' has 84" in await failure(
        engine, scope, "read_var", name="page", start=99
    )
    for wrong in ({"start": -1}, {"length": 0}, {"length": 4001}, {"name": "a b"}):
        error = await failure(engine, scope, "read_var", **{"name": "page", **wrong})
        assert error.startswith("validation_error")


async def test_listing(engine: ToolEngine, store: VariableStore) -> None:
    """U40: the last used first, rules at the end, by kind, tag and words, in pages."""
    scope = Scope(store)
    listed = await output(engine, scope, "list_vars")
    assert [each["name"] for each in listed["variables"]] == [
        "mine",
        "fetch_1_result",
        "page",
        "Rule/web/cite",
    ]
    assert listed["variables"][2] == {
        "name": "page",
        "type": "USER_ADD",
        "desc": "The page",
        "tags": [],
        "chars": len(TEXT),
        "labels": ["tool:fetch effect:read"],
    }
    assert (listed["page"], listed["pages"], listed["total"]) == (1, 1, 4)

    async def names(**params: Any) -> list[str]:
        found = await output(engine, scope, "list_vars", **params)
        return [each["name"] for each in found["variables"]]

    assert await names(type="ToolCallResult") == ["fetch_1_result"]
    assert await names(tag="t") == ["fetch_1_result"]
    assert await names(search="PAGE") == ["page"]
    assert await names(search="nothing") == []
    assert await names(page=2, pageSize=3) == ["Rule/web/cite"]
    assert "there is no page 3: the last one is 2" in await failure(
        engine, scope, "list_vars", page=3, pageSize=3
    )
    assert "validation_error" in await failure(engine, scope, "list_vars", type="Other")


async def test_long_descriptions_are_cut_in_lists(engine: ToolEngine, store: VariableStore) -> None:
    """U40: a list stays short whatever somebody wrote."""
    store.add(Variable(name="x", value=1, desc="d" * 2000))
    listed = await output(engine, Scope(store), "list_vars", pageSize=1)
    assert listed["variables"][0]["desc"] == "d" * 199 + "…"


async def test_writing(engine: ToolEngine, store: VariableStore) -> None:
    """U40: a new one of kind LLMAdd, of any JSON value; a second time only what is said changes."""
    scope = Scope(store)
    written = await output(
        engine, scope, "write_var", name="plan", value=["a", {"b": 1}], desc="Plan", tags=["x", "x"]
    )
    assert written == {
        "name": "plan",
        "type": "LLMAdd",
        "desc": "Plan",
        "tags": ["x"],
        "chars": 15,
        "labels": ["model"],
    }
    first = store.get("plan")
    assert first.value == ["a", {"b": 1}]
    assert (await output(engine, scope, "write_var", name="plan", value=7))["desc"] == "Plan"
    second = store.get("plan")
    assert (second.value, second.tags, second.created) == (7, ("x",), first.created)
    assert second.updated > first.updated
    await output(engine, scope, "write_var", name="plan", desc="", tags=[])
    third = store.get("plan")
    assert (third.value, third.desc, third.tags) == (7, "", ())


@pytest.mark.parametrize("value", ["text", "", 0, 1.5, True, None, [], {}, [None, {"a": []}]])
async def test_any_json_can_be_written(
    engine: ToolEngine, store: VariableStore, value: Any
) -> None:
    """S25: what a whole reference stands for arrives as it is."""
    await output(engine, Scope(store), "write_var", name="x", value=value)
    kept = store.get("x").value
    assert kept == value
    assert type(kept) is type(value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine", "'mine' is a USER_ADD, and write_var changes only what it wrote itself"),
        ("fetch_1_result", "'fetch_1_result' is a ToolCallResult"),
        ("Rule/web/cite", "'Rule/web/cite' is a RULE"),
        ("fetch_7_result", "'fetch_7_result' is a name for the results of calls"),
        ("x_12_args-3", "'x_12_args-3' is a name for the results of calls"),
        ("a b", "validation_error"),
        ("", "validation_error"),
        ("x" * 201, "validation_error"),
    ],
)
async def test_what_a_model_cannot_write(
    engine: ToolEngine, store: VariableStore, name: str, message: str
) -> None:
    """U40: rules, results and what the user keeps are not the model's to change."""
    before = list(store)
    assert message in await failure(engine, Scope(store), "write_var", name=name, value="!")
    assert sorted(each.name for each in store) == sorted(each.name for each in before)
    assert {each.name: each.value for each in store} == {each.name: each.value for each in before}


async def test_nothing_to_write(engine: ToolEngine, store: VariableStore) -> None:
    """U40: a new variable needs a value."""
    error = await failure(engine, Scope(store), "write_var", name="new", desc="x")
    assert "there is no variable 'new' yet: pass its value" in error
    assert "new" not in store


async def test_removing(engine: ToolEngine, store: VariableStore) -> None:
    """U40: tells what was there; a rule is never removed, nor what was named beside it."""
    scope = Scope(store)
    assert await output(engine, scope, "remove_vars", names=["mine", "gone", "mine"]) == {
        "removed": ["mine"],
        "missing": ["gone"],
    }
    error = await failure(engine, scope, "remove_vars", names=["page", "Rule/web/cite"])
    assert "'Rule/web/cite' is a rule, which cannot be removed" in error
    assert "page" in store


async def test_labels_of_what_is_written(engine: ToolEngine, store: VariableStore) -> None:
    """Labels: what the model types is its own; what it put in keeps its labels."""
    await output(engine, Scope(store), "write_var", name="own", value="hello")
    assert store.get("own").labels == {"model"}
    await output(engine, Scope(store, WEB), "write_var", name="taken", value="hello")
    assert store.get("taken").labels == {"model", WEB}


async def test_a_detour_washes_nothing_off(engine: ToolEngine, store: VariableStore) -> None:
    """N33: to read a variable and to type something then leads to the same labels."""
    session = session_over(engine, store)
    read = await session.execute("read_var", {"name": "page", "length": 1})
    assert read.output["labels"] == [WEB]
    await session.execute("write_var", {"name": "notes", "value": "My own idea"})
    assert store.get("notes").labels == {"model", WEB}
    await session.execute("write_var", {"name": "notes", "desc": "Mine"})
    assert store.get("notes").labels == {"model", WEB}
    await session.execute("write_var", {"name": "same", "value": "$VAR_REF{{mine}}"})
    assert store.get("same").labels == {"model", "user"}


def session_over(engine: ToolEngine, store: VariableStore) -> ToolSession:
    """A session that has these tools, since there is another one."""
    engine.register_tool({"name": "other", "description": "Does nothing."}, lambda: None)
    return ToolSession(engine, "s", variables=store)


async def test_references_that_would_be_shown(engine: ToolEngine, store: VariableStore) -> None:
    """N33: names, descriptions and tags are listed, so that nothing unread may stand in them."""
    session = session_over(engine, store)
    unread = "$VAR_REF{{page}}"
    for shown in ({"name": "x", "desc": unread}, {"name": "x", "tags": [unread]}, {"name": unread}):
        result = await session.execute("write_var", {**shown, "value": "hello"})
        assert "only the value of write_var takes references" in str(result.error)
    assert (await session.execute("write_var", {"name": "x", "value": unread})).is_success
    assert store.get("x").value == TEXT
    assert session.read_labels.labels == set()
    found = await session.execute("remove_vars", {"names": [unread]})
    assert found.output["missing"] == [TEXT]
    assert session.read_labels.labels == {WEB}


@pytest.mark.parametrize(("read", "label"), [(None, "tool:fetch effect:read"), (WEB, WEB)])
async def test_the_host_of_unread_content(
    engine: ToolEngine, store: VariableStore, read: str | None, label: str
) -> None:
    """N33: a page may call itself by any host, which is a part of what it says."""
    listed = await output(engine, Scope(store, read=read), "list_vars", search="page")
    assert [each["labels"] for each in listed["variables"]] == [[label]]


@pytest.mark.parametrize("value", [True, False, 7, 4711, None])
async def test_the_size_of_an_unread_value(
    engine: ToolEngine, store: VariableStore, value: Any
) -> None:
    """N33: how long yes, no or a number is would tell which; a text is listed with its size."""
    store.add(Variable(name="page", value=value, labels=frozenset({WEB})))
    for read, size in ((None, None), (WEB, len(json.dumps(value)))):
        listed = await output(engine, Scope(store, read=read), "list_vars", search="page")
        assert [each["chars"] for each in listed["variables"]] == [size]
    scope = Scope(store)
    assert "beyond the end" in await failure(engine, scope, "read_var", name="page", start=99)
    assert scope.labels == {WEB}


async def test_a_scope_without_labels(engine: ToolEngine, store: VariableStore) -> None:
    """Labels: where nobody says what was put in, it is unknown, and not the model's own."""
    await output(engine, Unlabelled(store), "write_var", name="x", value="hello")
    assert store.get("x").labels == {"model", "unknown"}
    assert (await output(engine, Unlabelled(store), "read_var", name="page"))["labels"] == [WEB]


async def test_tools_that_use_variables(engine: ToolEngine, store: VariableStore) -> None:
    """Labels: what a tool reads goes on its call; what it writes came from who knows where."""

    async def copy(context: ToolExecutionContext) -> str:
        read = await context.call("read_var", {"name": "page", "length": 5})
        written = await context.call("write_var", {"name": "copied", "value": "short"})
        assert written.is_success, written.error
        return str(read.output["text"])

    engine.register_tool({"name": "copy", "description": "Copies."}, copy)
    scope = Scope(store)
    assert await output(engine, scope, "copy") == {"result": TEXT[:5]}
    assert scope.labels == {WEB}
    assert store.get("copied").labels == {"model", "unknown", WEB}


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "LLMAdd", "search": "mine", "tag": "own"},
        {"filter": {"type": "LLMAdd", "search": "mine", "tag": "own"}},
        {"filter": {"type": "LLMAdd", "tag": "own"}, "search": "mine", "tag": "own"},
    ],
)
async def test_a_filter_as_one_object(
    engine: ToolEngine, store: VariableStore, wanted: dict[str, Any]
) -> None:
    """U40: `filter: {type, search, tag}`, or the three beside each other."""
    for name, tag in (("mine", "own"), ("mine_too", "other"), ("else", "own")):
        store.add(Variable(name=name, value=1, kind=VariableKind.LLM_ADD, tags=(tag,)))
    listed = await output(engine, Scope(store), "list_vars", **wanted)
    assert [each["name"] for each in listed["variables"]] == ["mine"]


async def test_two_filters_that_differ(engine: ToolEngine, store: VariableStore) -> None:
    """U40: nothing is guessed."""
    wanted = {"tag": "a", "filter": {"tag": "b"}}
    told = await failure(engine, Scope(store), "list_vars", **wanted)
    assert told.endswith("tag and filter.tag say something else: leave one of them out")
