"""What holds for a call of a conversation, whoever makes it and whatever the model is told of?"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.approval.people import TOOL
from tests.session.catalogs import Catalog
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.approval.callback import CallbackApprover
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.session import ToolSession
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.sources.composition import combine, keep, prefix, prepare

DENY = Permission(execution="deny")  # type: ignore[arg-type] # it takes texts
SILENT = {"put::SilentReject": Permission(execution="ask_always")}  # type: ignore[arg-type]
REVIEW = Permission(result="always")  # type: ignore[arg-type]
GROUP = ToolGroup(name="net", tools=("put",), permission=DENY, is_enabled=True)


@pytest.fixture(autouse=True)
def detour(engine: ToolEngine) -> None:
    """A tool that calls `put` for whoever calls it."""

    @engine.tool(effect="write")
    async def detour(text: str, context: ToolExecutionContext) -> str:
        """Puts a text by another tool."""
        return str((await context.call("put", {"text": text})).error_type)


VIEWS: dict[str, Callable[[ToolEngine], Any]] = {
    "engine": lambda engine: engine,
    "keep": lambda engine: keep(engine, ["detour"]),
    "prepare": lambda engine: prepare(engine, lambda tool, _: None if tool.name == "put" else tool),
    "prefix": lambda engine: prefix(keep(engine, ["detour"]), "a_"),
    "combine": lambda engine: combine(keep(engine, ["detour"])),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("is_own", [False, True])
async def test_a_group_holds_for_tools_that_are_not_shown(
    engine: ToolEngine, view: str, is_own: bool
) -> None:
    """X3: to leave a tool out of a conversation does not free it from its groups."""
    session = ToolSession(VIEWS[view](engine), "s")
    if is_own:
        session.toolbox.register_group(GROUP)
    else:
        engine.register_group(GROUP)
    (name,) = [tool.name for tool in session.tools() if tool.name.endswith("detour")]
    result = await session.execute(name, {"text": "x"})
    assert result.final_text == "execution_rejected"
    assert engine.puts == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("view", VIEWS)
async def test_a_group_that_changes_holds_for_tools_that_are_not_shown(
    engine: ToolEngine, view: str
) -> None:
    """X3: also what a group says since the last call, however little of it is shown."""
    engine.register_group(ToolGroup(name="net", tools=("half",), permission=DENY))
    session = ToolSession(VIEWS[view](engine), "s")
    (name,) = [tool.name for tool in session.tools() if tool.name.endswith("detour")]
    assert (await session.execute(name, {"text": "x"})).final_text == "None"
    engine.unregister_group("net")
    engine.register_group(ToolGroup(name="net", tools=("half", "put"), permission=DENY))
    result = await session.execute(name, {"text": "y"})
    assert result.final_text == "execution_rejected"
    assert engine.puts == ["x"]  # type: ignore[attr-defined]


async def test_a_group_that_gave_way_still_says_who_is_asked(engine: ToolEngine) -> None:
    """X3: the session's group of its name takes its place, but not its word on consent."""
    session = ToolSession(engine, "s")
    session.toolbox.register_group(ToolGroup(name="net", tools=("put",), is_enabled=True))
    assert (await session.execute("put", {"text": "x"})).is_success
    engine.register_group(GROUP)
    result = await session.execute("put", {"text": "y"})
    assert result.error_type == "execution_rejected"
    assert engine.puts == ["x"]  # type: ignore[attr-defined]


async def test_settings_for_a_group_hold_for_tools_that_are_not_shown(engine: ToolEngine) -> None:
    """X3: also what the conversation's settings say of the group, by its name here."""
    engine.register_group(ToolGroup(name="net", tools=("put",), is_enabled=True))
    config = ToolCallConfig(group_permissions={"a_net": DENY})
    session = ToolSession(prefix(keep(engine, ["detour"]), "a_"), "s", config)
    assert (await session.execute("a_detour", {"text": "x"})).final_text == "execution_rejected"


@pytest.mark.parametrize("is_own", [False, True])
async def test_a_helper_with_fewer_tools_has_no_more_rights(
    engine: ToolEngine, is_own: bool
) -> None:
    """R13: a helper that is not told of a tool cannot have it called for it, either."""
    session = ToolSession(engine, "s")
    if is_own:
        session.toolbox.register_group(GROUP)
    else:
        engine.register_group(GROUP)
    child = session.derive(tools=["detour"])
    assert (await child.execute("detour", {"text": "x"})).final_text == "execution_rejected"
    assert engine.puts == []  # type: ignore[attr-defined]


async def test_what_a_parent_keeps_back_is_kept_back(engine: ToolEngine) -> None:
    """R13: a session that works for another one is under the rules of both."""
    approver = CallbackApprover(lambda request: "hush")
    parent = ToolSession(engine, "s", ToolCallConfig(rules=SILENT), approver)
    child = ToolSession(engine, "t", ToolCallConfig(), approver, parent=parent)
    result = await child.execute("put", {"text": "x"})
    assert result.error_type == "execution_rejected"
    assert "hush" not in f"{result}"


async def test_groups_of_another_engine_say_nothing_of_a_tool_of_that_name(
    engine: ToolEngine,
) -> None:
    """S35: a group is about the tools of its own source."""
    async with ToolEngine() as other:

        @other.tool(effect="read")
        async def put(text: str, times: int = 1) -> str:
            """Another tool of this name."""
            return text * times

        engine.register_group(GROUP)
        session = ToolSession(combine(prefix(engine, "a_"), prefix(other, "b_")), "s")
        assert not (await session.execute("a_put", {"text": "x"})).is_success
        assert (await session.execute("b_put", {"text": "x"})).is_success


@pytest.mark.parametrize(
    "settings",
    [
        {"permission": "deny"},
        {"rules": {"put:text=x*": "deny"}},
        {"tool_permissions": {"put": "ask_always"}},
        {"group_permissions": {"net": "deny"}},
    ],
)
async def test_settings_for_one_reply_may_be_stricter(
    engine: ToolEngine, settings: dict[str, Any]
) -> None:
    """A38: what the settings of a reply forbid is not done, nor by a detour; later it is."""
    engine.register_group(ToolGroup(name="net", tools=("put",), is_enabled=True))
    session = ToolSession(engine, "s")
    for name in ("put", "detour"):
        reply: Any = _reply(name, {"text": "xy"})
        cycle = await session.process_cycle(reply, {"protocol": "openai", **settings})
        (result,) = cycle.execution_results
        assert "execution_rejected" in f"{result.error_type} {result.output}"
    assert engine.puts == []  # type: ignore[attr-defined]
    assert (await session.execute("put", {"text": "xy"})).is_success


async def test_settings_for_one_reply_cannot_be_looser(engine: ToolEngine) -> None:
    """A38: they allow nothing that the conversation forbids."""
    session = ToolSession(engine, "s", ToolCallConfig(rules={"put": DENY}))
    settings = {"protocol": "openai", "rules": {"put": "auto"}, "permission": "auto"}
    reply: Any = _reply("put", {"text": "x"})
    (result,) = (await session.process_cycle(reply, settings)).execution_results
    assert result.error_type == "execution_rejected"


def _reply(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    called = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": called}],
    }


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("a_half", ToolCallConfig(rules={"half": REVIEW})),
        ("a_half", ToolCallConfig(tool_permissions={"half": REVIEW})),
        ("a_half", ToolCallConfig(rules={"a_half": REVIEW})),
        ("a_lots", ToolCallConfig(rules={"a_lots:count=3": REVIEW})),
    ],
)
async def test_results_are_reviewed_by_every_name_and_all_arguments(
    engine: ToolEngine, name: str, config: ToolCallConfig
) -> None:
    """S31: what holds for a call holds for its result: under its own name, with its defaults."""

    @engine.tool(effect="read")
    async def lots(number: float, count: int = 3) -> float:
        """Multiplies."""
        return number * count

    session = ToolSession(prefix(engine, "a_"), "s", config)
    result = await session.execute(name, {"number": 3})
    assert (result.error_type, result.final_text) == ("result_rejected", None)


async def test_uses_of_a_definition_hold_for_helpers(engine: ToolEngine) -> None:
    """U41: a helper cannot be given more uses of a tool than its definition allows."""
    tool = msgspec.structs.replace(
        engine.get_or_raise("half"), name="once", max_uses=1, definition_hash="o"
    )
    engine.register_tool(tool)
    session = ToolSession(engine, "s")
    child = session.derive(max_uses={"once": 5})
    ends = [(await child.execute("once", {"number": 1})).error_type for _ in range(2)]
    assert ends == [None, "limit_reached"]


WORDS: list[Any] = [None, *ExecutionPolicy]
RESULTS: list[Any] = [None, *ResultPolicy]
SAID = [
    *((*words, None, None) for words in itertools.product(WORDS, WORDS, WORDS)),
    *((None, None, None, *words) for words in itertools.product(RESULTS, RESULTS)),
]
"""What the session says, what it says of the group, what the group says, and of results."""


def strictness(settings: ToolCallConfig, tool: Tool, *groups: ToolGroup) -> tuple[int, int]:
    toolbox = Toolbox(Catalog(tool), settings)
    for group in groups:
        toolbox.register_group(group)
    found = SessionPolicy(toolbox).decide(tool, {})
    executions, results = list(ExecutionPolicy), list(ResultPolicy)
    return executions.index(found.execution), results.index(found.result)


@pytest.mark.parametrize("mode", [{}, {"mode": "manual"}, {"require_confirmation": True}])
@pytest.mark.parametrize("declared", WORDS)
def test_an_unapproved_group_only_tightens(mode: dict[str, Any], declared: Any) -> None:
    """Whatever a group says that nobody approved, each decision is at least as strict with it.

    Looked at: all that is found by the members or the name of a group: its words, what the session
    says of it, whether it is on, which of its tools are off.
    """
    tool = replace(TOOL, permission=Permission(execution=declared))
    for said, by_name, says, result, reads in SAID:
        settings = ToolCallConfig(
            **mode,
            permission=Permission(execution=said, result=result),
            group_permissions={"g": Permission(execution=by_name)},
        )
        group = ToolGroup(
            name="g",
            tools=(tool.name,),
            permission=Permission(execution=says, result=reads),
            is_quarantined=True,
        )
        before, after = strictness(settings, tool), strictness(settings, tool, group)
        assert after[0] >= before[0]
        assert after[1] >= before[1]
