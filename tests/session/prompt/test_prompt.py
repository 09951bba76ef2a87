"""What a model is told once: norms, rules of groups, skills, tools. S11, S12, S21, S24, R14."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.session.catalogs import definition, engine_over, group, write
from tool_engine.engine import ToolEngine
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.reply import ParsedReply
from tool_engine.model.tool import Tool
from tool_engine.protocols.prompts import forget_prompts
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.prompt.prompt import SessionPrompt, render_rules
from tool_engine.session.session import ToolSession
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.store import VariableKind

SKILLS: list[dict[str, Any]] = [
    {
        "name": "digest",
        "desc": "How to sum\nup | well",
        "when": "a page is long",
        "prompt": "Short!",
    },
    {"name": "tone", "desc": "Manners", "prompt": "Be kind.", "always_load": True},
]
RULES = (
    "Use {{tools}}.\n{{if post}} Post little.\n{{if gone}} Never shown.\n{{if x}}{{if post}} No."
)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    write(
        tmp_path,
        definition("fetch"),
        definition("post"),
        group(
            "web",
            description="Pages.",
            tools=["fetch", "post"],
            enabled=True,
            rules=RULES,
            skills=SKILLS,
        ),
        group("off", rules="Not told.", skills=[{"name": "dark", "desc": "d", "prompt": "p"}]),
    )
    async with engine_over(tmp_path) as engine:
        assert engine.load_errors == []
        yield engine


def session_of(engine: ToolEngine, **config: Any) -> ToolSession:
    return ToolSession(engine, "s", ToolCallConfig(**config))


async def test_the_rules_of_a_conversation(engine: ToolEngine) -> None:
    """Norms, how variables work, then each group that is on, and the table of skills. S24."""
    text = session_of(engine).system_prompt("openai")
    assert "never write a result, a log or a record" in " ".join(text.split())
    assert "$VAR_REF{{name:start:length}}" in text
    assert "`read_var`, `list_vars`" in text
    assert (
        "## Group: web\n\nPages.\n\nUse `fetch`, `post`.\nPost little.\n\n### Skill: tone" in text
    )
    assert "Be kind." in text
    assert "Short!" not in text, "it is read on demand"
    assert text.endswith("| digest | How to sum up \\| well | a page is long |")
    for hidden in ("Not told", "Never shown", "dark", "{{if"):
        assert hidden not in text


async def test_a_text_protocol_tells_of_the_tools(engine: ToolEngine) -> None:
    """The tools follow the rules where the request does not tell of them."""
    session = session_of(engine)
    assert (
        session.system_prompt("openai") + "\n\n"
        == session.system_prompt().partition("You can call tools")[0]
    )
    assert "tool_name:「始」fetch「末」" in session.system_prompt("vcp")


async def test_the_same_text_every_time(engine: ToolEngine) -> None:
    """Nothing but tools, groups and settings makes a difference, not even a restart."""
    first = session_of(engine).system_prompt()
    forget_prompts()
    assert session_of(engine).system_prompt() == first
    await engine.reload()
    assert session_of(engine).system_prompt() == first


async def test_rules_are_made_again_after_a_change_only(engine: ToolEngine) -> None:
    """S24: while nothing changes they are the same text; what somebody's function says is not."""
    session = session_of(engine)
    first = session.system_prompt("openai")
    assert session.system_prompt("openai") is first
    session.toolbox.toggle_group_enabled("web", False)
    assert "## Group: web" not in session.system_prompt("openai")
    session.toolbox.toggle_group_enabled("web", True)
    assert session.system_prompt("openai") == first
    session.toolbox.set_tool_enabled("fetch", False)
    assert "`fetch`" not in session.system_prompt("openai")
    told = iter(["first", "second"])
    own = ToolGroup(name="own", is_enabled=True)
    session.toolbox.register_group(own, lambda names: next(told))
    assert "## Group: own\n\nfirst" in session.system_prompt("openai")
    assert "## Group: own\n\nsecond" in session.system_prompt("openai")


async def test_switched_off(engine: ToolEngine) -> None:
    """Without tools a model is told nothing. A5."""
    assert session_of(engine, enabled=False).system_prompt() == ""
    assert session_of(engine, enabled=False).tools() == []


async def test_only_rules(engine: ToolEngine) -> None:
    """Where no tool is on, a group's rules are told without norms for tools."""
    toolbox = Toolbox(engine, ToolCallConfig(default_tool_enabled=False))
    session = session_of(engine)
    text = SessionPrompt(toolbox, session.variables).rules()
    assert text.startswith("## Group: web\n\nPages.\n\nUse .\n\n### Skill: tone")


async def test_in_chinese(engine: ToolEngine) -> None:
    """The session's own words are those of its language. C6."""
    session = session_of(engine, language="zh")
    text = session.system_prompt("openai")
    assert "# 工具使用规范" in text
    assert "## 工具组：web" in text
    assert "| 名称 | 内容 | 何时阅读 |" in text
    assert "Using tools" not in text
    tool = session.get_or_raise("call_skill")
    assert tool.description.startswith("读取一个技能")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("{{tools}}{{tools}}", "`a`, `b``a`, `b`"),
        ("  {{if a}} x\ny", "x\ny"),
        ("{{if b }}{{if a}}x", "x"),
        ("{{if c}} x", ""),
        ("{{if other}} x", "x"),
        ("x {{if c}} y", "x {{if c}} y"),
        ("$VAR_REF{{name}} {{what}}", "$VAR_REF{{name}} {{what}}"),
        ("", ""),
    ],
)
def test_the_marks_of_rules(rules: str, expected: str) -> None:
    """`{{tools}}` and, where a line begins, `{{if NAME}}` are marks; nothing else is. S11."""
    assert render_rules(rules, ["a", "b"], ["a", "b", "other"]) == expected


async def test_rules_that_are_made(engine: ToolEngine) -> None:
    """A function is given the group's tools that are on, at every question. S11."""
    session = session_of(engine)
    mine = ToolGroup(name="mine", tools=("fetch", "post"), is_enabled=True)
    session.toolbox.register_group(mine, lambda names: f"Only {' and '.join(names)}!")
    assert "Only fetch and post!" in session.system_prompt("openai")
    session.toolbox.set_tool_enabled("post", False)
    assert "Only fetch!" in session.system_prompt("openai")


async def test_rules_that_fail(engine: ToolEngine) -> None:
    """One function that fails is a finding, without secrets, and silences no other group."""

    def fail(names: list[str]) -> str:
        raise ValueError("password=hunter2hunter2")

    async def asynchronous(names: list[str]) -> str:
        return "never"

    session = session_of(engine)
    session.toolbox.register_group(ToolGroup(name="bad", is_enabled=True), fail)
    session.toolbox.register_group(ToolGroup(name="late", is_enabled=True), asynchronous)  # type: ignore[arg-type]
    session.toolbox.register_group(ToolGroup(name="odd", is_enabled=True), len)  # type: ignore[arg-type]
    with capture_logs() as logs:
        assert "Use `fetch`, `post`." in session.system_prompt()
        session.system_prompt()
    groups = ["bad", "late", "odd"]
    assert [each["group"] for each in logs] == groups, "once, not in every round"
    bad, late, odd = session.findings
    assert bad.startswith("the rules of group 'bad' are left out: ValueError")
    assert "hunter2" not in bad
    assert odd == "the rules of group 'odd' are left out: they gave int, and no text"
    assert late == "the rules of group 'late' are left out: they gave coroutine, and no text"
    for name in groups:
        session.toolbox.toggle_group_enabled(name, False)
    session.system_prompt()
    assert session.findings == []


async def test_a_skill_is_read_on_demand(engine: ToolEngine) -> None:
    """`call_skill` is there while a group with such a skill is on, and gives all of it. R14."""
    session = session_of(engine)
    result = await session.execute("call_skill", {"name": "digest"})
    assert result.final_text == "Short!"
    assert (await session.execute("call_skill", {"name": "dark"})).error_type == "validation_error"
    session.toolbox.toggle_group_enabled("web", False)
    assert session.get("call_skill") is None
    refused = await session.execute("call_skill", {"name": "digest"})
    assert refused.error_type == "tool_not_found"
    kept = await engine.store.query_call_records(tool_name="call_skill")
    assert [each.is_success for each in kept] == [False, False, True]


async def test_a_long_skill_is_read_whole(engine: ToolEngine) -> None:
    """Instructions are never cut: half of them may say the opposite."""
    session = session_of(engine, limit=100)
    long = Skill(name="long", desc="d", prompt="All of it. " * 100)
    session.toolbox.register_group(ToolGroup(name="g", skills=(long,), is_enabled=True))
    result = await session.execute("call_skill", {"name": "long"})
    assert (result.final_text, result.is_truncated) == (long.prompt, False)


async def test_two_skills_of_one_name(engine: ToolEngine) -> None:
    """Each is named with its group; neither hides the other."""
    session = session_of(engine)
    other = Skill(name="digest", desc="Another", prompt="Long!")
    session.toolbox.register_group(ToolGroup(name="mine", skills=(other,), is_enabled=True))
    text = session.system_prompt("openai")
    assert "| mine/digest | Another |  |" in text
    assert "| web/digest |" in text
    read = await session.execute("call_skill", {"name": "mine/digest"})
    assert read.final_text == "Long!"


async def test_a_skill_that_goes_while_it_is_called(engine: ToolEngine) -> None:
    """What is gone is an error that names the nearest, not another skill."""
    session = session_of(engine)
    tool, executor = session.own("call_skill") or pytest.fail("it is there")
    context: Any = None
    with pytest.raises(Exception, match=r"there is no skill 'digst'; did you mean 'digest'\?"):
        await executor.execute(tool, {"name": "digst"}, context)
    assert await executor.execute(tool, {"name": "Rule/web/digest"}, context) == "Short!"


async def test_skills_are_variables(engine: ToolEngine, tmp_path: Path) -> None:
    """Each skill of a group that is on is the rule `Rule/{group}/{name}`, and no other. S21."""
    session = session_of(engine)
    session.tools()
    rules = session.variables.find(kind=VariableKind.RULE)
    assert sorted(each.name for each in rules) == ["Rule/web/digest", "Rule/web/tone"]
    read = await session.execute("read_var", {"name": "Rule/web/digest"})
    assert "Short!" in str(read.final_text)
    write(tmp_path, group("web", enabled=True, skills=[{**SKILLS[0], "prompt": "Shorter!"}]))
    await engine.reload()
    session.tools()
    assert [each.value for each in session.variables.find(kind=VariableKind.RULE)] == ["Shorter!"]
    session.toolbox.toggle_group_enabled("web", False)
    session.tools()
    assert session.variables.find(kind=VariableKind.RULE) == []


async def test_a_skill_whose_name_is_no_variable(engine: ToolEngine) -> None:
    """It is told and read like any other; a finding says that it is no variable."""
    session = session_of(engine)
    prompt = SessionPrompt(session.toolbox, session.variables)
    odd = Skill(name="was ist das?", desc="d", prompt="Nothing.")
    session.toolbox.register_group(ToolGroup(name="g", skills=(odd,), is_enabled=True))
    assert "| was ist das? | d |" in prompt.rules()
    assert [each for each in prompt.findings if "'was ist das?' of group 'g'" in each]


async def test_skills_of_a_restored_conversation(engine: ToolEngine) -> None:
    """What was a rule when it was kept is one only while its group is on."""
    session = session_of(engine)
    session.tools()
    restored = ToolSession.from_dict(session.to_dict(), engine)
    restored.toolbox.toggle_group_enabled("web", False)
    restored.tools()
    assert restored.variables.find(kind=VariableKind.RULE) == []


class Native:
    """A protocol of others, without a prompt."""

    name = "native"

    def definitions(self, tools: Any) -> list[str]:
        return [tool.name for tool in tools]

    def parse(self, reply: Any) -> ParsedReply:
        return ParsedReply()

    def decoder(self) -> Any:
        return None

    def format_results(self, results: Any, calls: Any = None) -> Any:
        return None


async def test_a_protocol_of_others(engine: ToolEngine) -> None:
    """One whose request tells of the tools adds nothing to the rules."""
    session = session_of(engine)
    assert session.system_prompt(Native()) == session.system_prompt("openai")


async def test_no_tools_and_no_groups(tmp_path: Path) -> None:
    """A conversation without anything has nothing to be told."""
    async with engine_over(tmp_path) as engine:
        toolbox = Toolbox(engine)
        session = session_of(engine)
        assert SessionPrompt(toolbox, session.variables).rules() == ""
        own: tuple[Tool, ...] = SessionPrompt(toolbox, session.variables).tools()
        assert own == ()
