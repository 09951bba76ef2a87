"""A tool is itself under whatever name, and no other tool of its name: so its uses are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.approval.people import Person
from tests.session.catalogs import Catalog, definition, engine_over, write
from tool_engine import DeferredApprover, ToolEngine
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession
from tool_engine.sources.composition import combine, prefix, prepare, rename
from tool_engine.sources.identity import identity_of

SAID = {"text": "hi"}


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(tmp_path / "web", definition("search", max_uses=2), definition("post"))
    async with engine_over(tmp_path / "web") as engine:
        yield engine


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(tmp_path / "files", definition("search", max_uses=2))
    async with engine_over(tmp_path / "files") as engine:
        yield engine


async def reasons(session: ToolSession, *names: str) -> list[str | None]:
    return [(await session.execute(name, SAID)).reject_reason for name in names]


async def test_a_tool_under_two_names_has_one_budget(web: ToolEngine) -> None:
    """U47: `max_uses` is about the tool; the usage tells the names."""
    session = ToolSession(combine(web, prefix(web, "b_")), "s")
    assert await reasons(session, "search", "b_search") == [None, None]
    assert await reasons(session, "search", "b_search") == ["max_uses_reached"] * 2
    assert await reasons(session, "post", "b_post", "post") == [None, None, None]
    assert session.usage().by_tool == {"search": 1, "b_search": 1, "post": 2, "b_post": 1}


async def test_settings_name_it_by_any_of_its_names(web: ToolEngine) -> None:
    """U47: of what the settings say under several names the smallest holds, for all of them."""
    config = ToolCallConfig(max_uses={"b_post": 2, "post": 3, "search": 1, "nothing": 1})
    session = ToolSession(combine(web, prefix(web, "b_")), "s", config)
    assert await reasons(session, "post", "b_post", "post") == [None, None, "max_uses_reached"]
    assert await reasons(session, "b_search", "b_search") == [None, "max_uses_reached"]


async def test_two_tools_of_one_name_have_two_budgets(web: ToolEngine, files: ToolEngine) -> None:
    """U47: what one source's tool has used, another source's tool of its name has not."""
    session = ToolSession(combine(web, prefix(files, "files_")), "s")
    names = ["search", "search", "files_search", "files_search"]
    assert await reasons(session, *names) == [None] * 4
    assert await reasons(session, "search", "files_search") == ["max_uses_reached"] * 2


@pytest.mark.parametrize("order", [("send", "files_send"), ("files_send", "send")])
@pytest.mark.parametrize("answer", [True, False])
async def test_a_yes_is_for_one_source(
    web: ToolEngine, files: ToolEngine, order: tuple[str, str], answer: bool
) -> None:
    """What somebody remembers of a tool is nothing to the very same definition elsewhere.

    The same file may work on a copy in one engine, and on what matters in another.
    Looked at: remembered decisions, here and in another process, and requests that are deferred.
    """
    for engine in (web, files):
        engine.register_tool(definition("send", permission="ask_once"))
    tools = combine(web, prefix(files, "files_"))
    person = Person(answer)
    session = ToolSession(tools, "s", approver=person)
    for name in (order[0], order[0], order[1], order[1]):
        result = await session.execute(name, SAID)
        assert result.is_success is answer
    assert len(person.asked) == 2


async def test_a_deferred_request_runs_where_it_was_asked(
    web: ToolEngine, files: ToolEngine
) -> None:
    """A yes that is given later goes to the engine that asked, and to no other one."""
    for engine in (web, files):
        engine.register_tool(definition("pay", permission="ask_always"))
    session = ToolSession(combine(web, prefix(files, "files_")), "s", approver=DeferredApprover())
    waits = await session.execute("files_pay", SAID)
    assert waits.approval_token is not None
    result = await session.resume(waits.approval_token, True)
    assert (result.tool_name, result.is_success) == ("files_pay", True)
    ran = [
        [r.tool_name for r in await each.query_call_records(is_success=True)]
        for each in (web, files)
    ]
    assert ran == [[], ["pay"]]


async def test_a_new_name_is_no_new_budget(web: ToolEngine) -> None:
    """U47: not after a restart either, and helpers spend what their conversation may spend."""
    session = ToolSession(rename(web, {"search": "find"}), "s")
    assert await reasons(session, "find") == [None]
    later = ToolSession.from_dict(session.to_dict(), prefix(web, "x_"))
    child = later.derive(tools=["x_search"])
    assert await reasons(child, "x_search", "x_search") == [None, "max_uses_reached"]
    assert await reasons(later, "x_search") == ["max_uses_reached"]


async def test_what_was_kept_by_names_goes_on(web: ToolEngine) -> None:
    """U47: a session of before counts on."""
    session = ToolSession(web, "s")
    assert await reasons(session, "search") == [None]
    data = session.to_dict()
    del data["meter"]["uses"]
    later = ToolSession.from_dict(data, web)
    assert await reasons(later, "search", "search") == [None, "max_uses_reached"]


async def test_a_tool_of_the_session_is_another_one(web: ToolEngine, tmp_path: Path) -> None:
    """U47: it has its own budget, though a tool of the catalog had its name before."""

    async def search(text: str, count: int | None = None) -> str:
        return text * (count or 1)

    session = ToolSession(web, "s")
    assert await reasons(session, "search", "search") == [None, None]
    tool = ToolConfigLoader().from_mapping(definition("search", max_uses=1))
    write(tmp_path / "posts", definition("post"))
    async with engine_over(tmp_path / "posts") as posts:
        later = ToolSession.from_dict(session.to_dict(), posts)
        later.register_tool(tool, search)
        assert await reasons(later, "search", "search") == [None, "max_uses_reached"]


def test_the_innermost_source_says_which(web: ToolEngine, files: ToolEngine) -> None:
    """However sources are put together, and whether or not they are engines."""
    plain: Any = Catalog(ToolConfigLoader().from_mapping(definition("search")))
    told = prepare(combine(prefix(web, "w_"), rename(plain, {"search": "look"})), lambda t, _: t)
    both = combine(told, combine(prefix(web, "again_"), prefix(files, "f_")))
    names = ["w_search", "again_search", "look", "f_search", "w_post", "none"]
    assert [identity_of(both, name) for name in names] == [
        "search",
        "search",
        "search of source 2",
        "search of source 3",
        "post",
        "none",
    ]
    assert identity_of(told, "none") == "none"
