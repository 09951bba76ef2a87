"""Which skills may a model read, and how does it get them? S12, R14."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tool_engine.errors import ToolExecutionError, VariableError
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.group import Skill, ToolGroup
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.result import ResultLimits
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore
from tool_engine.session.variables.variable_definitions import VARIABLE_TOOLS

CALL_SKILL: Final = "call_skill"
READING: Final = frozenset({*VARIABLE_TOOLS, CALL_SKILL})
"""The tools with which a model reads kept content and writes notes of its own."""
_TAG: Final = "skill"
"""Marks the variables of skills, which go when their group does."""
_DESCRIPTIONS: Final = {
    "en": "Reads the instructions of a skill. Read them before you begin with work of its kind.",
    "zh": "读取一个技能的说明。在开始这类工作之前阅读。",
}
_PARAMETERS: Final = {
    "en": "The name of the skill, as the table of skills has it.",
    "zh": "技能表中的技能名称。",
}


class KnownSkill(NamedTuple):
    name: str
    """The name for the model: after `group/` where two groups have a skill of that name."""
    group: str
    skill: Skill

    @property
    def variable(self) -> str:
        """The name of the variable with its instructions. S21."""
        return f"Rule/{self.group}/{self.skill.name}"


class SkillReader:
    """Offer the skills of enabled groups as variables and through `call_skill`.

    Args:
        toolbox: Says which groups are on.
        variables: Where each skill is kept as `Rule/{group}/{name}`.
        language: Of what the tool says of itself: `en` or `zh`.
    """

    is_async = True

    def __init__(self, toolbox: Toolbox, variables: VariableStore, language: str) -> None:
        self._toolbox = toolbox
        self._variables = variables
        self._language = language
        self._groups: tuple[ToolGroup, ...] | None = None
        self._skills: list[KnownSkill] = []
        self._tool: tuple[Tool, ...] = ()
        self.findings: list[str] = []

    def skills(self) -> list[KnownSkill]:
        """Return the skills of the enabled groups, in their order."""
        groups = self._toolbox.skilled_groups()
        if groups is not self._groups and groups != self._groups:
            self._skills = _name_skills(groups)
            self._groups = groups
            self._keep_skills()
            names = [each.name for each in self._skills if not each.skill.always_load]
            self._tool = (_define_call_skill(names, self._language),) if names else ()
        return self._skills

    def tools(self) -> tuple[Tool, ...]:
        """Return `call_skill` while there is a skill to read on demand."""
        self.skills()
        return self._tool

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        tools = self.tools() if tool_name == CALL_SKILL else ()
        return (tools[0], self) if tools else None

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> str:
        """Return the instructions of one skill.

        Raises:
            ToolExecutionError: There is none of this name now.
        """
        del tool, context
        name = params["name"]
        skills = self.skills()
        for each in skills:
            if name in (each.name, f"{each.group}/{each.skill.name}", each.variable):
                return each.skill.prompt
        hint = suggest_near(name, [each.name for each in skills])
        raise ToolExecutionError(f"there is no skill {name[:80]!r}{hint}", is_final=True)

    def _keep_skills(self) -> None:
        """Keep skills as variables, and remove those of disabled groups."""
        wanted = {each.variable: each for each in self._skills}
        kept = self._variables.find(kind=VariableKind.RULE, tag=_TAG)
        self._variables.forget_rules(each.name for each in kept if each.name not in wanted)
        self.findings = []
        for each in wanted.values():
            try:
                self._variables.add(_make_variable(each))
            except VariableError as error:
                self.findings.append(f"skill {each.name!r} of group {each.group!r}: {error}")


def _name_skills(groups: tuple[ToolGroup, ...]) -> list[KnownSkill]:
    names = Counter(skill.name for group in groups for skill in group.skills)
    return [
        KnownSkill(
            skill.name if names[skill.name] == 1 else f"{group.name}/{skill.name}",
            group.name,
            skill,
        )
        for group in groups
        for skill in group.skills
    ]


def _make_variable(known: KnownSkill) -> Variable:
    return Variable(
        name=known.variable,
        value=known.skill.prompt,
        kind=VariableKind.RULE,
        desc=known.skill.desc,
        tags=(_TAG,),
    )


def _define_call_skill(names: list[str], language: str) -> Tool:
    validation: Mapping[str, Any] = {"enum": names}
    return Tool(
        id=CALL_SKILL,
        name=CALL_SKILL,
        version="1.0.0",
        description=_DESCRIPTIONS[language],
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=[
            ToolParameter(
                name="name",
                type="string",
                required=True,
                description=_PARAMETERS[language],
                validation=dict(validation),
            )
        ],
        implementation_config={"type": "builtin", "handler": CALL_SKILL},
        effect="read",
        idempotent=True,
        result=ResultLimits(limit=0),
    )
