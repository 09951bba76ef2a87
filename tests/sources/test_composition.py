"""Tools put together, renamed, left out and told differently: one name, one tool, always."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.session.catalogs import Catalog, definition, engine_over, group, write
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, ToolConflictError, ToolNotFoundError
from tool_engine.interfaces import ToolSource
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.group import ToolGroup
from tool_engine.model.outcome import ErrorType
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.prompts import prompt
from tool_engine.session.session import ToolSession
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.sources.combined_tools import CombinedTools
from tool_engine.sources.composition import (
    combine,
    keep,
    prefix,
    prepare,
    rename,
)
from tool_engine.sources.foreign import as_source

SAID = {"text": "hi"}
NO = Refusal(ErrorType.REJECTED.value, "no", {"why": 1})


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    folder = tmp_path / "web"
    write(
        folder,
        definition("search", tags=["reads"]),
        definition("post", effect="write"),
        group(
            "net", tags=["reads"], tools=["post"], off=["post"], rules="{{if search}} Use {{tools}}"
        ),
    )
    async with engine_over(folder) as engine:
        yield engine


@pytest.fixture
async def docs(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    folder = tmp_path / "docs"
    write(folder, definition("search", tags=["reads"]), definition("open", tags=["reads"]))
    async with engine_over(folder) as engine:
        yield engine


def names(source: ToolSource) -> list[str]:
    return [tool.name for tool in source.list_all()]


def tool_of(name: str, **keys: Any) -> Tool:
    return ToolConfigLoader().from_mapping(definition(name, **keys))


class Scope:
    """A conversation with one tool of its own."""

    def __init__(self, name: str) -> None:
        self.tool = tool_of(name)

    async def execute(self, tool: Tool, params: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"own": tool.name}

    def own(self, tool_name: str) -> Any:
        return (self.tool, self) if tool_name == self.tool.name else None

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> None:
        return None


async def test_a_prefix(web: ToolEngine) -> None:
    """Names begin with it; results bear the new names, records the engine's own."""
    view = prefix(web, "web_")
    assert names(view) == ["web_post", "web_search"]
    result = await view.execute("web_search", SAID, None)
    assert (result.is_success, result.tool_name, result.output) == (True, "web_search", SAID)
    assert [each.tool_name for each in await web.store.query_call_records()] == ["search"]
    assert view.get("search") is None
    with pytest.raises(
        ToolNotFoundError, match=r"no tool named 'search'; did you mean 'web_search'"
    ):
        view.get_or_raise("search")
    assert view.get_or_raise("web_post").effect == "write"
    assert len(view) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "1_", "a b", "-", None, "x" * 65])
async def test_no_prefix(web: ToolEngine, text: Any) -> None:
    """A prefix must be the beginning of a name."""
    with pytest.raises(ConfigurationError, match=r"no tool's name can begin with"):
        prefix(web, text)


async def test_new_names(web: ToolEngine) -> None:
    """Names may be swapped; the old ones are not there any more."""
    view = rename(web, {"search": "post", "post": "search", "gone": "x"})
    assert names(view) == ["post", "search"]
    assert [view.get(name).effect for name in names(view)] == ["read", "write"]  # type: ignore[union-attr]
    assert view.findings == ["rename: there is no tool 'gone' to be called 'x'"]
    await view.execute("search", SAID, None)
    assert [each.tool_name for each in await web.store.query_call_records()] == ["post"]
    with pytest.raises(ConfigurationError, match=r"'a' cannot be renamed 'b c'"):
        rename(web, {"a": "b c"})


async def test_a_name_that_is_taken(web: ToolEngine, tmp_path: Path) -> None:
    """Two tools of one name are an error with both, at once or after a reload; neither runs."""
    with pytest.raises(ToolConflictError, match=r"named 'post': 'post' of .*'search' of .*prefix"):
        rename(web, {"search": "post"})
    view = rename(web, {"search": "find"})
    write(tmp_path / "web", definition("find"))
    await web.reload()
    with pytest.raises(ToolConflictError, match=r"two tools would be named 'find'"):
        view.list_all()
    assert view.get("find") is None
    refused = await view.execute("find", SAID, None)
    assert refused.error_type == "rejected"
    assert refused.error is not None
    assert "two tools would be named 'find'" in refused.error
    assert [each.is_success for each in await web.store.query_call_records()] == [False]
    assert (await view.execute("post", SAID, None)).is_success, "the others go on"


async def test_some_are_kept(web: ToolEngine) -> None:
    """Those that a function says yes to, or that are named; a call of another one is refused."""
    view = keep(web, lambda tool: tool.effect == "read")
    assert names(view) == names(keep(web, ["search"])) == ["search"]
    refused = await view.execute("post", SAID, None)
    assert (refused.error_type, refused.tool_name) == ("rejected", "post")
    assert [each.error_type for each in await web.store.query_call_records()] == ["rejected"]
    assert keep(web, ["serch", "post"]).findings == [
        "keep: there is no tool 'serch'; did you mean 'search'?"
    ]
    assert view.findings == []
    for wrong in ("search", 3, [1]):
        with pytest.raises(ConfigurationError, match=r"keep takes a function of a tool, or names"):
            keep(web, wrong)  # type: ignore[arg-type]


async def _asynchronous(tool: Tool, turn: int = 0) -> Any:
    return tool


async def test_functions_that_do_not_work(web: ToolEngine) -> None:
    """One that is async would keep every tool, whatever it comes to; a failure is told, too."""
    with pytest.raises(ConfigurationError, match=r"keep gave coroutine for the tool 'post'"):
        keep(web, _asynchronous).list_all()  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"keep failed for the tool 'post': ZeroDivision"):
        keep(web, lambda _: bool(1 / 0)).list_all()
    with pytest.raises(ConfigurationError, match=r"prepare gave coroutine for the tool 'post'"):
        prepare(web, _asynchronous).list_all()  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"rename takes a mapping"):
        rename(web, ["post"])  # type: ignore[arg-type]


async def test_a_reload_shows_through(web: ToolEngine, tmp_path: Path) -> None:
    """What changes in the engine changes in every view of it, at the next question."""
    view = prefix(keep(web, lambda tool: tool.name != "post"), "w_")
    assert names(view) == ["w_search"]
    write(tmp_path / "web", definition("crawl"))
    await web.reload()
    assert names(view) == ["w_crawl", "w_search"]


async def test_sources_are_combined(web: ToolEngine, docs: ToolEngine) -> None:
    """Each tool runs where it is; two of one name are an error with both, and the cure."""
    with pytest.raises(
        ToolConflictError,
        match=r"tool named 'search': 'search' of .*web.* and 'search' of .*docs.*prefix\(\)",
    ):
        combine(web, docs)
    both = combine(prefix(web, "web_"), docs)
    assert names(both) == ["open", "search", "web_post", "web_search"]
    for name in ("web_search", "search"):
        result = await both.execute(name, SAID, None)
        assert (result.is_success, result.tool_name) == (True, name)
    assert [len(await each.store.query_call_records()) for each in (web, docs)] == [1, 1]
    assert (await both.execute("nothing", {}, None)).error_type == "tool_not_found"
    assert len(await web.store.query_call_records()) == 2, "what is refused is recorded, too"
    assert repr(both).startswith("combine(_Prefixed(<ToolEngine open")
    with pytest.raises(ConfigurationError, match=r"at least one source"):
        combine()
    with pytest.raises(ConfigurationError, match=r"must have"):
        combine(web, "docs")  # type: ignore[arg-type]


async def test_a_conflict_that_a_reload_brings(
    web: ToolEngine, docs: ToolEngine, tmp_path: Path
) -> None:
    """Nothing runs under a name that two tools have."""
    both = combine(prefix(web, "web_"), docs)
    write(tmp_path / "docs", definition("web_post"))
    await docs.reload()
    with pytest.raises(ToolConflictError, match=r"'web_post'"):
        both.list_all()
    refused = await both.execute("web_post", SAID, None)
    assert refused.error_type == "rejected"
    assert "two sources" in str(refused.error)
    assert both.get("web_post") is None


async def test_where_records_are(web: ToolEngine, docs: ToolEngine) -> None:
    """A view keeps them where its source does; of two places nobody knows the one."""
    assert prefix(web, "a_").store is web.store
    assert combine(prefix(web, "a_"), web).store is web.store
    assert combine(prefix(web, "a_"), docs).store is None


async def test_groups_come_along(web: ToolEngine, docs: ToolEngine) -> None:
    """A group has the tools of its own source only, under the names that are shown."""
    both = combine(prefix(keep(web, ["search", "post"]), "web_"), docs)
    net: ToolGroup = both.groups["web_net"]
    assert net.tools == ("web_post", "web_search")
    assert net.disabled_tools == ("web_post",)
    assert net.rules == "{{if web_search}} Use {{tools}}"
    assert net.members(both.list_all()) == [both.get("web_post"), both.get("web_search")]
    toolbox = Toolbox(both)
    toolbox.toggle_group_enabled("web_net")
    assert [tool.name for tool in toolbox.tools()] == ["open", "search", "web_search"]
    assert toolbox.shown_names(web.get_or_raise("post")) == ["web_post"]
    assert toolbox.shown_names(docs.get_or_raise("open")) == ["open"]


async def test_tools_that_look_alike_are_told_by_their_content(
    web: ToolEngine, docs: ToolEngine, tmp_path: Path
) -> None:
    """Which names a tool has here goes by what it is, not by what its engine calls it."""
    write(tmp_path / "docs", definition("search", description="Another one"))
    await docs.reload()
    both = combine(prefix(web, "web_"), prefix(docs, "docs_"))
    toolbox = Toolbox(both, prepare=lambda tool, _: replace(tool, description="told otherwise"))
    assert toolbox.shown_names(web.get_or_raise("search")) == ["web_search"]
    assert toolbox.shown_names(docs.get_or_raise("search")) == ["docs_search"]


async def test_groups_of_one_name(web: ToolEngine) -> None:
    """Two groups of one name are an error; so are two of a later moment."""
    with pytest.raises(ToolConflictError, match=r"group named 'net'.*prefix"):
        combine(web, rename(web, {"search": "s", "post": "p"}))


async def test_a_conflict_of_groups_allows_nothing(
    web: ToolEngine, docs: ToolEngine, tmp_path: Path
) -> None:
    """While two groups have one name, what each says of its tools still holds."""
    write(tmp_path / "web", group("strict", tools=["post"], permission="deny"))
    await web.reload()
    toolbox = Toolbox(combine(prefix(docs, "docs_"), web))
    assert [tool.name for tool in toolbox.tools()] == ["docs_open", "docs_search"]
    write(tmp_path / "docs", group("rict", tools=["open"]))
    toolbox = Toolbox(combine(prefix(docs, "st"), web))
    await docs.reload()
    with pytest.raises(ToolConflictError, match=r"two sources have a group named 'strict'"):
        toolbox.tools()
    post = toolbox.find("post")
    assert post is not None
    assert not post.is_enabled


async def test_what_a_model_is_told_otherwise(web: ToolEngine) -> None:
    """`prepare` changes what is told; the call is validated by the definition as it is."""

    def tell(tool: Tool, turn: int) -> Tool | None:
        if tool.name == "post":
            return None
        fewer = [each for each in tool.parameters if each.name == "text"]
        return replace(tool, description=f"turn {turn}", parameters=fewer, effect="write")

    view = prepare(web, tell)
    (told,) = view.list_all()
    assert (told.description, told.effect) == ("turn 0", "read"), "only what is told may change"
    assert list(told.parameters_schema["properties"]) == ["text"]
    assert told.definition_hash == web.get_or_raise("search").definition_hash
    assert (await view.execute("search", {**SAID, "count": 1}, None)).is_success
    assert (await view.execute("search", {}, None)).error_type == "validation_error"
    hidden = await view.execute("post", SAID, None)
    assert (hidden.error_type, hidden.is_success) == ("rejected", False)


async def test_a_prompt_follows_what_is_told(web: ToolEngine) -> None:
    """What keeps prompts by content sees that a model is told less of the same definition."""
    fewer = prepare(web, lambda tool, _: replace(tool, parameters=tool.parameters[:1]))
    assert "count" in prompt(keep(web, ["post"]).list_all(), "vcp")
    assert "count" not in prompt(keep(fewer, ["post"]).list_all(), "vcp")


def _more(tool: Tool, _: int) -> Any:
    more = ToolParameter(name="txet", type="string")
    return replace(tool, parameters=[*tool.parameters, more])


def _fails(tool: Tool, _: int) -> Any:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("tell", "word"),
    [
        (_more, r"tells of a parameter 'txet' of 'post', which has none.*did you mean 'text'"),
        (
            lambda tool, _: replace(tool, parameters=[]),
            r"leaves out the parameter 'text' of 'post'",
        ),
        (lambda tool, _: replace(tool, name="x"), r"gave the tool 'post' the name 'x': use rename"),
        (lambda tool, _: "post", r"gave str for the tool 'post'"),
        (_fails, r"prepare failed for the tool 'post' in turn 0: KeyError: 'x'"),
    ],
)
async def test_what_cannot_be_told(web: ToolEngine, tell: Any, word: str) -> None:
    """A model is never told of what its calls would be refused for; the mistake is visible."""
    with pytest.raises(ConfigurationError, match=word):
        prepare(web, tell).list_all()


async def test_no_function_to_prepare(web: ToolEngine) -> None:
    """Anything but a function is refused at once."""
    with pytest.raises(ConfigurationError, match=r"prepare takes a function"):
        prepare(web, "fewer")  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["prefix", "combine", "combined tools", "keep"])
async def test_a_tool_of_the_conversation(web: ToolEngine, docs: ToolEngine, where: str) -> None:
    """What only a conversation has passes through every view, and takes no tool's place."""
    view = {
        "prefix": prefix(web, "w_"),
        "keep": keep(web, ["search"]),
        "combine": combine(prefix(web, "w_"), docs),
        "combined tools": CombinedTools({"w": web, "d": docs}),
    }[where]
    mine = ToolExecutionContext(scope=Scope("mine"))
    assert (await view.execute("mine", SAID, mine)).output == {"own": "mine"}
    taken = await view.execute("post", SAID, ToolExecutionContext(scope=Scope("post")))
    # The engine's own go first: it would run `post` in the place of the conversation's.
    if where in ("prefix", "keep"):
        assert taken.error_type in ("rejected", "tool_not_found")
    elif where == "combine":
        assert taken.output == {"own": "post"}, "docs has no tool of that name"
    else:
        assert taken.output == SAID, "the name is that of a tool of web, as everybody sees"


async def test_a_tool_of_the_conversation_has_no_place(web: ToolEngine) -> None:
    """Where every source has a hidden tool of its name, an own tool is refused, never confused."""
    both = combine(keep(web, ["search"]), prefix(keep(web, []), "x_"))
    refused = await both.execute("post", SAID, ToolExecutionContext(scope=Scope("post")))
    assert not refused.is_success
    assert [each.is_success for each in await web.store.query_call_records()] == [False]
    nested = combine(combine(prefix(web, "w_")), prefix(web, "x_"))
    assert not (
        await nested.execute("post", SAID, ToolExecutionContext(scope=Scope("post")))
    ).output


async def test_calls_are_refused_where_they_are_recorded(web: ToolEngine, docs: ToolEngine) -> None:
    """A refusal goes to the engine of the tool, and is one record under the engine's name."""
    both = combine(prefix(web, "web_"), docs)
    for name in ("web_post", "nothing"):
        result = both.refuse(name, SAID, None, NO)
        assert (result.tool_name, result.error_type) == (name, "rejected")
        assert result.metadata["error_details"] == {"why": 1}
    kept = [each.tool_name for each in await web.store.query_call_records(oldest_first=True)]
    assert kept == ["post", "nothing"]


async def test_a_source_that_records_nothing() -> None:
    """It gets refusals, too: a result says so, with the details."""
    source = as_source(Catalog(tool_of("one")))
    result = source.refuse("one", SAID, None, NO)
    assert (result.error, result.metadata) == ("no", {"error_details": {"why": 1}})
    assert prefix(source, "a_").refuse("a_one", {}, None, Refusal("rejected", "x")).metadata == {}
    shown = keep(source, lambda _: True)
    assert (await shown.execute("two", {}, None)).error_type == "tool_not_found"


async def test_names_that_are_told_apart_by_themselves(web: ToolEngine, docs: ToolEngine) -> None:
    """`CombinedTools` keeps its names in a conversation, and its groups come along."""
    tools = CombinedTools({"w": web, "d": docs})
    toolbox = Toolbox(tools)
    assert [each.name for each in toolbox.all()] == ["d_search", "open", "post", "w_search"]
    assert [each.name for each in toolbox.groups()] == ["net"]
    assert toolbox.groups()[0].tools == ("post", "w_search")
    assert len(toolbox.findings) == 2
    twice = Toolbox(CombinedTools({"a": web, "b": rename(web, {"post": "p"})}))
    assert [each.name for each in twice.groups()] == ["a_net", "b_net"]


async def test_a_view_in_a_cycle(web: ToolEngine) -> None:
    """A view stands wherever an engine does: here, where a model's calls are run."""
    view = prefix(web, "web_")
    reply = {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "web_search", "arguments": '{"text": "hi"}'},
                        }
                    ],
                }
            }
        ]
    }
    cycle = await process_tool_calls(view, reply, "openai")
    assert [each.is_success for each in cycle.execution_results] == [True]


class Counting(Catalog):
    """Tells which tool ran by its id, which no view changes."""

    generation = 0

    async def execute(self, tool_name: str, params: Any, context: Any, /) -> Any:
        return ToolExecutionResult(True, tool_name, {"id": self.tools[tool_name].id})


BASE = tool_of("base")
NAMES = st.sampled_from(["a", "b", "c", "x_a", "y_a"])


@st.composite
def catalogs(draw: st.DrawFn) -> ToolSource:
    number = draw(st.integers(0, 10**9))
    return Counting(
        *(replace(BASE, name=name, id=f"{number}/{name}") for name in draw(st.sets(NAMES)))
    )


def views(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.just("prefix"), inner, st.sampled_from(["x_", "y_"])),
        st.tuples(st.just("rename"), inner, st.dictionaries(NAMES, NAMES, max_size=3)),
        st.tuples(st.just("keep"), inner, st.sets(NAMES)),
        st.tuples(st.just("prepare"), inner, st.sampled_from(["a", "x_a"])),
        st.tuples(st.just("combine"), inner, inner),
    )


def built(plan: Any) -> ToolSource:
    if not isinstance(plan, tuple):
        source: ToolSource = plan
        return source
    kind, first, second = plan
    source = built(first)
    if kind == "prefix":
        return prefix(source, second)
    if kind == "rename":
        return rename(source, second)
    if kind == "keep":
        return keep(source, second)
    if kind == "prepare":
        return prepare(source, lambda tool, _: None if tool.name == second else tool)
    return combine(source, built(second))


@given(st.recursive(catalogs(), views, max_leaves=6))
def test_one_name_one_tool_however_views_are_nested(plan: Any) -> None:
    """Either a conflict is told, or every name runs exactly the tool that it shows, and no tool has
    two names in one place."""
    try:
        source = keep(built(plan), lambda _: True)
        tools = source.list_all()
    except ToolConflictError:
        return
    shown = [tool.name for tool in tools]
    assert len(set(shown)) == len(shown)
    assert len({tool.id for tool in tools}) == len(tools) or "combine" in repr(plan)
    for tool in tools:
        assert source.get(tool.name) == tool
        result = asyncio.run(source.execute(tool.name, {}, None))
        assert (result.tool_name, result.output) == (tool.name, {"id": tool.id})
    missing = asyncio.run(source.execute("nobody", {}, None))
    assert missing.error_type == "tool_not_found"


@pytest.mark.parametrize(
    "over", [combine, lambda e: keep(e, ["search"]), lambda e: prefix(e, "a_")]
)
async def test_a_name_that_is_no_text(web: ToolEngine, over: Any) -> None:
    """A tool in place of its name gets the same words as of the engine, by all ways to it."""
    view: Any = over(web)
    wrong: Any = web.get_or_raise("search")
    meant = 'pass its name, "search"'
    source: Any
    for source in (view, combine(view), ToolSession(view, "s"), web):
        result = await source.execute(wrong, SAID)
        assert (result.error_type, meant in (result.error or "")) == ("tool_not_found", True)
        for ask in (source.get, source.get_or_raise, source.is_hidden):
            with pytest.raises(ConfigurationError, match=meant):
                ask(wrong)
        for name in (wrong, None):
            assert "a tool is called by its name" in source.explain_missing(name).error
        with pytest.raises(ToolNotFoundError, match="a tool is called by its name"):
            source.get_or_raise(None)
        assert source.get(None) is None
