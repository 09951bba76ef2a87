"""What is a group of tools, once its definition is loaded?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data
from tool_engine.model.permission import Permission, check_no_client
from tool_engine.model.tool import Tool, ToolCategory

_SELECTORS = ("tools", "tags", "categories")
_NAME_LISTS = (*_SELECTORS, "disabled_tools")


class Skill(msgspec.Struct, Data, frozen=True, kw_only=True, gc=False, metaclass=KnownFields):
    """Instructions for a kind of work, which a model reads when it needs them. S12."""

    name: str
    desc: str
    """One line that says what the model would learn."""
    prompt: str
    """The instructions."""
    when: str = ""
    """When to read them, in words."""
    always_load: bool = False
    """True: they stand in the system prompt; False: only `desc` and `when` do."""

    def __post_init__(self) -> None:
        check_kinds(self)


class ToolGroup(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """Tools that are enabled together, with the rules and the skills that go with them. S10.

    A tool belongs to it when it is named in `tools`, has one of `tags`, or is of one of
    `categories`. A tool may belong to several groups.

    Raises:
        ConfigurationError: A list is a single text, a category is unknown, or two skills have the
            same name.
    """

    name: str
    description: str = ""
    tools: tuple[str, ...] = ()
    """Names of tools."""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    rules: str = ""
    """Instructions to the model on the use of the group: a text, in which `{{tools}}` stands for
    the names of the enabled tools of the group, and a line that begins with `{{if NAME}}` stays
    only while the tool NAME is enabled. S11."""
    skills: tuple[Skill, ...] = ()
    permission: Permission | None = None
    """The permission of its tools where no rule, session or override sets another."""
    is_enabled: bool = False
    """True if it is on in a session that does not mention it: the key `enabled`. S21."""
    disabled_tools: tuple[str, ...] = ()
    """Of its tools, those that are off until a session turns them on: the key `off`."""
    version: str = "1.0.0"
    definition_hash: str = ""
    """sha256 of the definition's content; empty for a group that no definition describes."""
    source: str | None = None
    """The file that the definition came from; None for a group made in code."""
    findings: tuple[str, ...] = ()
    """Warnings about the definition, each with its place and cure."""
    is_quarantined: bool = False
    """True if it is not approved as it is: then it adds nothing and cannot be turned on. Its first
    finding says why."""

    def __post_init__(self) -> None:
        place = f"the group {self.name!r}"
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigurationError(f"the name of a group must be a text, got {self.name!r}")
        for field in _NAME_LISTS:
            self._set_field(field, _check_names(f"{field} of {place}", getattr(self, field)))
        for category in self.categories:
            known = [each.value for each in ToolCategory]
            check_choice(f"a category of {place}", category, known)
        check_kinds(self)
        check_no_client(self.permission, place)
        names = [skill.name for skill in self.skills]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"two skills of {place} have the same name: {sorted(names)}")

    def _set_field(self, field: str, value: Any) -> None:
        msgspec.structs.force_setattr(self, field, value)

    def selects(self, tool: Tool) -> bool:
        """True if the tool belongs to the group."""
        return (
            tool.name in self.tools
            or tool.category.value in self.categories
            or not set(self.tags).isdisjoint(tool.tags)
        )

    def members(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return those of `tools` that belong to the group, in their order."""
        names, tags, categories = set(self.tools), set(self.tags), set(self.categories)
        return [
            tool
            for tool in tools
            if tool.name in names
            or (categories and tool.category.value in categories)
            or (tags and not tags.isdisjoint(tool.tags))
        ]


def members_of_all(groups: Iterable[ToolGroup], tools: Sequence[Tool]) -> list[list[Tool]]:
    """Return the `members` of each group, looking at each tool only once."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, tool in enumerate(tools):
        tags = (("tags", tag) for tag in tool.tags)
        for key in (("tools", tool.name), ("categories", tool.category.value), *tags):
            places.setdefault(key, []).append(place)
    found = []
    for group in groups:
        words = ((kind, word) for kind in _SELECTORS for word in getattr(group, kind))
        chosen = {place for key in words for place in places.get(key, ())}
        found.append([tools[place] for place in sorted(chosen)])
    return found


def runs_only_as_tasks(members: Iterable[Tool]) -> bool:
    """Return True if there are tools of a group for models, and none can be called plainly."""
    has_some = False
    for tool in members:
        if tool.is_offered:
            return False
        has_some = has_some or tool.is_for_models
    return has_some


def _check_names(what: str, values: Any) -> tuple[str, ...]:
    # A text is a sequence of texts, too, and would select what was never named.
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{what} must be a list of names, got {values!r}")
    names = tuple(values)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"{what} must hold names, got {name!r}")
    # A category is its value, whether it was given as a text or as a `ToolCategory`.
    return tuple(name.value if isinstance(name, ToolCategory) else name for name in names)
