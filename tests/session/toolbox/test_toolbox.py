"""Each conversation has its own tools and groups; a reload is seen at once. S10, S16-S23, S35."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.session.catalogs import Catalog, definition, engine_over, group, write
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, SessionError, ToolConflictError
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.session import ToolSession
from tool_engine.session.toolbox.toolbox import Toolbox


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(
        tmp_path,
        definition("note"),
        definition("draft", status="draft"),
        definition("fetch", tags=["web"]),
        definition("post", tags=["web"]),
        definition("query", category="database"),
        group("web", tags=["web"], off=["post"]),
        group("data", categories=["database"], enabled=True, permission="deny"),
    )
    async with engine_over(tmp_path) as engine:
        assert engine.load_errors == []
        yield engine


def names(toolbox: Toolbox) -> list[str]:
    return [tool.name for tool in toolbox.tools()]


def own(name: str) -> Tool:
    return ToolConfigLoader().from_mapping(definition(name))


async def test_what_is_on_by_itself(engine: ToolEngine) -> None:
    """Tools of no group are on; those of a group are as the group is, which is off. S21."""
    toolbox = Toolbox(engine)
    assert names(toolbox) == ["note", "query"]
    assert [(each.name, each.is_enabled, each.tools) for each in toolbox.groups()] == [
        ("data", True, ("query",)),
        ("web", False, ("fetch", "post")),
    ]
    assert repr(toolbox) == "Toolbox(2 tools on, groups data)"


async def test_groups_are_toggled(engine: ToolEngine) -> None:
    """A group turned on brings its tools, but for those that are off in it. S17, S22."""
    toolbox = Toolbox(engine)
    assert not toolbox.is_group_enabled("web")
    assert toolbox.toggle_group_enabled("web") is True
    assert names(toolbox) == ["fetch", "note", "query"]
    toolbox.set_tool_enabled("post", True)
    assert toolbox.is_tool_enabled("post")
    web = toolbox.groups()[1]
    assert web.enabled_tools == ("fetch", "post")
    assert toolbox.toggle_group_enabled("web") is False
    assert toolbox.toggle_group_enabled("web", False) is False
    assert names(toolbox) == ["note", "post", "query"], "a toggle of a tool goes before its groups"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ToolCallConfig(enabled=False), []),
        (ToolCallConfig(default_tool_enabled=False), []),
        (ToolCallConfig(default_tool_enabled=False, tool_toggles={"fetch": True}), ["fetch"]),
        (ToolCallConfig(tool_toggles={"note": False}), ["query"]),
        (ToolCallConfig(tool_toggles={"draft": True}), ["note", "query"]),
        (ToolCallConfig(default_group_enabled=False), ["note"]),
        (ToolCallConfig(default_group_enabled=True), ["fetch", "note", "query"]),
        (
            ToolCallConfig(default_group_enabled=True, group_toggles={"web": False}),
            ["note", "query"],
        ),
        (
            ToolCallConfig(group_toggles={"later": True}, tool_toggles={"x": True}),
            ["note", "query"],
        ),
    ],
)
async def test_the_settings_say_what_is_on(
    engine: ToolEngine, config: ToolCallConfig, expected: list[str]
) -> None:
    """The switch of all, toggles, then defaults; a draft is never told of. A5-A7, S21."""
    toolbox = Toolbox(engine, config)
    assert names(toolbox) == expected
    assert [each.tool.name for each in toolbox.all() if each.is_enabled] == expected
    for each in toolbox.all():
        found = toolbox.find(each.name)
        assert found == each
        assert found is not None
        assert found.is_enabled == (each.name in expected)


async def test_with_everything_off_no_group_is_on(engine: ToolEngine) -> None:
    """The master switch is one for groups, too. A5."""
    toolbox = Toolbox(engine, ToolCallConfig(enabled=False))
    assert toolbox.skilled_groups() == ()
    assert not any(each.is_enabled for each in toolbox.groups())
    assert repr(toolbox) == "Toolbox(0 tools on, groups none)"


async def test_a_tool_of_two_groups(engine: ToolEngine) -> None:
    """It is on while one of its groups is on and does not have it off."""
    toolbox = Toolbox(engine)
    toolbox.register_group({"name": "mine", "tools": ["post", "query"], "enabled": True})
    assert names(toolbox) == ["note", "post", "query"]
    found = toolbox.find("post")
    assert found is not None
    assert found.groups == ("mine",)
    toolbox.toggle_group_enabled("data", False)
    assert names(toolbox) == ["note", "post", "query"]
    assert toolbox.groups_of("query") == ["data", "mine"]
    assert toolbox.groups_of("nothing") == []


async def test_each_conversation_is_made_alike(engine: ToolEngine) -> None:
    """S32, S33: groups of files, then of code, then the defaults that were kept; no toggles."""
    kept = Toolbox(engine)
    kept.toggle_group_enabled("web", True)
    kept.set_tool_enabled("note", False)
    defaults = ToolCallConfig.from_dict(kept.config.to_dict())
    for _ in range(2):
        toolbox = Toolbox(engine, defaults)
        toolbox.register_group({"name": "mine", "tools": ["query"], "enabled": True})
        assert names(toolbox) == ["fetch", "query"]
        assert [each.name for each in toolbox.groups() if each.is_enabled] == [
            "data",
            "mine",
            "web",
        ]
        toolbox.toggle_group_enabled("web", False)
    assert names(kept) == ["fetch", "query"]


async def test_two_sessions_never_see_each_other(engine: ToolEngine) -> None:
    """Toggles, groups and own tools of one conversation are nobody else's. S35."""
    shared = ToolCallConfig()
    one, two = Toolbox(engine, shared, lambda: [own("mine")]), Toolbox(engine, shared)
    one.toggle_group_enabled("web", True)
    one.set_tool_enabled("note", False)
    one.register_group(ToolGroup(name="private", tools=("query",), is_enabled=True))
    assert names(one) == ["fetch", "query", "mine"]
    assert names(two) == ["note", "query"]
    assert [each.name for each in two.groups()] == ["data", "web"]
    assert two.find("mine") is None
    assert (shared.tool_toggles, shared.group_toggles) == ({}, {})


async def test_a_reload_is_seen_at_once(engine: ToolEngine, tmp_path: Path) -> None:
    """Groups and tools change under a conversation; its toggles stay. S10."""
    toolbox = Toolbox(engine, ToolCallConfig(group_toggles={"files": True}))
    assert "read" not in names(toolbox)
    write(tmp_path, definition("read"), group("files", tools=["read", "note"], off=["note"]))
    await engine.reload()
    assert names(toolbox) == ["query", "read"]
    (tmp_path / "group-files.yaml").unlink()
    await engine.reload()
    assert names(toolbox) == ["note", "query", "read"]


async def test_nothing_is_worked_out_twice(engine: ToolEngine) -> None:
    """While nothing changes, the same answer is given; a registration in code is a change."""
    toolbox = Toolbox(engine)
    first = toolbox.find("note")
    assert toolbox.find("note") is first
    engine.register_tool(definition("more"))
    assert names(toolbox) == ["more", "note", "query"]


async def test_unknown_names(engine: ToolEngine) -> None:
    """A name that is not there is an error that names the nearest."""
    toolbox = Toolbox(engine)
    with pytest.raises(ConfigurationError, match=r"no group 'webb'; did you mean 'web'\?"):
        toolbox.toggle_group_enabled("webb", True)
    with pytest.raises(ConfigurationError, match=r"no group"):
        toolbox.is_group_enabled("x" * 1000)
    with pytest.raises(ConfigurationError, match=r"no tool 'not'; did you mean 'note'\?"):
        toolbox.set_tool_enabled("not", True)
    with pytest.raises(ConfigurationError, match=r"no tool"):
        toolbox.is_tool_enabled("")
    with pytest.raises(ConfigurationError, match=r"enabled must be true or false, got 1"):
        toolbox.set_tool_enabled("note", 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"enabled must be true or false, got 'no'"):
        toolbox.toggle_group_enabled("web", "no")  # type: ignore[arg-type]
    assert toolbox.find("nothing") is None


async def test_own_tools_stand_last(engine: ToolEngine) -> None:
    """A conversation's own tools come after the catalog's, and can be turned off. S23."""
    toolbox = Toolbox(engine, ToolCallConfig(default_tool_enabled=False), lambda: [own("a_first")])
    assert names(toolbox) == ["a_first"]
    found = toolbox.find("a_first")
    assert found is not None
    assert found.is_own
    assert toolbox.shown_names(found.tool) == ["a_first"]
    toolbox.set_tool_enabled("a_first", False)
    assert names(toolbox) == []


async def test_an_own_tool_hides_none(engine: ToolEngine) -> None:
    """Two tools of one name are an error with both names and the cure, also where one is off."""
    toolbox = Toolbox(engine, None, lambda: [tool for tool, _ in toolbox.registered.values()])
    runs: Any = None
    toolbox.registered["mine"] = own("mine"), runs
    assert names(toolbox) == ["note", "query", "mine"]
    toolbox.registered["draft"] = own("draft"), runs
    with pytest.raises(
        ToolConflictError, match=r"own tool 'draft' and the catalog's 'draft'.*pref"
    ):
        toolbox.tools()
    assert toolbox.find("draft") is None, "it stands for neither of them"
    assert toolbox.find("note") is not None, "the others go on"
    assert [each for each in toolbox.findings if "'draft'" in each]
    assert repr(toolbox) == "Toolbox(3 tools on, groups data)"
    del toolbox.registered["draft"]
    toolbox.registered["another"] = own("mine"), runs
    with pytest.raises(ToolConflictError, match=r"two tools named 'mine' of its own"):
        toolbox.tools()
    assert toolbox.find("mine") is None


async def test_a_group_of_the_session(engine: ToolEngine) -> None:
    """It replaces the session's last one of its name, never the catalog's. S33."""
    toolbox = Toolbox(engine)
    assert toolbox.register_group({"name": "mine", "tools": ["note"]}).tools == ("note",)
    assert names(toolbox) == ["query"]
    toolbox.register_group(ToolGroup(name="mine", tools=("note",), is_enabled=True), len)  # type: ignore[arg-type]
    assert names(toolbox) == ["note", "query"]
    state = toolbox.groups()[1]
    assert (state.name, state.is_own) == ("mine", True)
    assert state.rules is len  # type: ignore[comparison-overlap]
    with pytest.raises(ToolConflictError, match=r"the catalog has a group 'web' already"):
        toolbox.register_group(ToolGroup(name="web"))
    with pytest.raises(ConfigurationError, match=r"rules must be a function"):
        toolbox.register_group(ToolGroup(name="x"), "use it well")  # type: ignore[arg-type]


async def test_own_tools_in_a_group_of_the_session(engine: ToolEngine) -> None:
    """S10, S21: a group of the session may name its own tools: off until the group is on."""
    toolbox = Toolbox(engine, own=lambda: [own("mine"), own("other")])
    toolbox.register_group({"name": "ours", "tools": ["mine", "other", "note"], "off": ["other"]})
    assert names(toolbox) == ["query"]
    toolbox.toggle_group_enabled("ours", True)
    assert names(toolbox) == ["note", "query", "mine"]
    assert toolbox.groups_of("mine") == ["ours"]
    state = next(each for each in toolbox.groups() if each.name == "ours")
    assert (state.tools, state.enabled_tools) == (("note", "mine", "other"), ("note", "mine"))
    toolbox.set_tool_enabled("mine", False)
    toolbox.set_tool_enabled("other", True)
    assert names(toolbox) == ["note", "query", "other"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "name"),
        ({"name": "x"}, "holds nothing"),
        ({"name": "x", "toolz": []}, "toolz"),
    ],
)
async def test_a_mapping_that_is_no_group(
    engine: ToolEngine, fields: dict[str, Any], word: str
) -> None:
    """A group made in code is checked like one in a file."""
    with pytest.raises(ConfigurationError, match=rf"this is no group: .*{word}"):
        Toolbox(engine).register_group(fields)
    with pytest.raises(ConfigurationError, match=r"group must be a ToolGroup.* got 5"):
        Toolbox(engine).register_group(5)  # type: ignore[arg-type]


async def test_a_file_that_takes_the_name_of_a_session_group(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """The conversation goes on with its own group, and a finding says so; what the file says of
    consent holds all the same."""
    toolbox = Toolbox(engine)
    toolbox.register_group(ToolGroup(name="late", tools=("note",), is_enabled=True))
    assert toolbox.findings == []
    write(tmp_path, group("late", tools=["note"], permission="deny"))
    await engine.reload()
    assert names(toolbox) == ["note", "query"]
    assert toolbox.groups_of("note") == ["late"]
    assert [each for each in toolbox.findings if "group 'late'" in each] == toolbox.findings != []


async def test_kept_and_taken_up_again(engine: ToolEngine) -> None:
    """Toggles and own groups survive as JSON; functions stay with whoever registers them."""
    toolbox = Toolbox(engine)
    toolbox.toggle_group_enabled("web")
    toolbox.set_tool_enabled("note", False)
    asks = Permission(execution=ExecutionPolicy.ASK_ONCE)
    toolbox.register_group(ToolGroup(name="x", tools=("query",), permission=asks), str)
    data = toolbox.to_dict()
    other = Toolbox(engine)
    other.restore(data)
    assert names(other) == names(toolbox) == ["fetch", "query"]
    assert other.to_dict() == data
    assert other.groups()[2].rules is None
    toolbox.restore(data)
    assert toolbox.groups()[2].rules is str


@pytest.mark.parametrize(
    "data",
    [{}, {"tool_toggles": {"a": "on"}}, {"tool_toggles": {}, "group_toggles": {}, "groups": [{}]}],
)
async def test_what_is_no_kept_toolbox(engine: ToolEngine, data: dict[str, Any]) -> None:
    """Anything else is a clean error, and changes nothing."""
    toolbox = Toolbox(engine)
    with pytest.raises(SessionError, match=r"this is no kept toolbox"):
        toolbox.restore(data)
    assert names(toolbox) == ["note", "query"]


async def test_it_can_always_be_looked_at(engine: ToolEngine) -> None:
    """`repr` says what is wrong, and hides no other error behind one of its own."""

    def fail(tool: Tool, turn: int) -> Tool:
        raise ValueError("no")

    assert "prepare failed for the tool" in repr(Toolbox(engine, prepare=fail))
    wrong: Any
    for wrong in ([], {}, None):
        with pytest.raises(ConfigurationError, match="there is no"):
            Toolbox(engine).is_tool_enabled(wrong)
        with pytest.raises(ConfigurationError, match="there is no"):
            Toolbox(engine).is_group_enabled(wrong)


async def test_other_settings_for_a_question(engine: ToolEngine) -> None:
    """The same tools under other settings leave the conversation's as they are."""
    toolbox = Toolbox(engine)
    other = toolbox.under(ToolCallConfig(tool_toggles={"note": False}))
    assert (names(other), names(toolbox)) == (["query"], ["note", "query"])
    assert toolbox.under(ToolCallConfig()) is toolbox


async def test_a_model_is_told_otherwise_in_each_turn(engine: ToolEngine) -> None:
    """`prepare` is asked once for each turn; what it leaves out is not there for the model."""
    asked: list[int] = []

    def tell(tool: Tool, turn: int) -> Tool | None:
        asked.append(turn)
        if tool.name == "query" and turn == 1:
            return None
        return replace(tool, description=f"{tool.name} in turn {turn}")

    toolbox, other = Toolbox(engine, prepare=tell), Toolbox(engine, prepare=tell)
    assert [tool.description for tool in toolbox.tools()][:1] == ["note in turn 0"]
    toolbox.turn = 1
    asked.clear()
    assert names(toolbox) == names(toolbox) == ["note"]
    assert set(asked) == {1}
    assert len(asked) == 5
    assert toolbox.find("query") is None
    assert names(other) == ["note", "query"], "another conversation is in another turn"


async def test_a_source_that_is_no_engine() -> None:
    """A few methods are enough; where nobody tells of changes, each question looks again."""
    catalog = Catalog(own("one"))
    toolbox = Toolbox(catalog)
    assert names(toolbox) == ["one"]
    catalog.tools["two"] = own("two")
    assert names(toolbox) == ["one", "two"]
    with pytest.raises(ConfigurationError, match=r"get, list_all and execute.*got dict"):
        Toolbox({})  # type: ignore[arg-type]


async def test_variable_tools_are_not_alone(engine: ToolEngine) -> None:
    """S23: they come with anything else that is on; what somebody says of one of them holds."""
    off = {"default_tool_enabled": False, "default_group_enabled": False}
    session = ToolSession(engine, "s", off)
    assert session.tools() == []
    assert (await session.execute("list_vars")).error_type == "rejected"
    session.toolbox.set_tool_enabled("read_var", True)
    assert [each.name for each in session.tools()] == ["read_var"]
    session.toolbox.set_tool_enabled("read_var", False)
    session.toolbox.toggle_group_enabled("data", True)
    assert "list_vars" in [each.name for each in session.tools()], "a group is on"
    session.toolbox.toggle_group_enabled("data", False)
    assert session.tools() == []
    session.toolbox.set_tool_enabled("note", True)
    told = ["note", "list_vars", "write_var", "remove_vars"]
    assert [each.name for each in session.tools()] == told
    other = ToolSession(engine, "o", off)
    other.register_tool({"name": "mine", "description": "Only here."}, lambda: "x")
    assert [each.name for each in other.tools()][:2] == ["mine", "read_var"]
