"""What remains of a group that is not as it was approved?

A group adds to what a model sees, and it takes away: its tools are off without it, and it may ask
for consent. Of an unapproved group, all that takes away holds at once, what was approved of it
stays, and nothing of it adds anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy

PREFIX: Final = "group:"
"""The prefix of a group's name where tools and groups are named side by side."""
_EXECUTION: Final[list[ExecutionPolicy | None]] = list(ExecutionPolicy)
_RESULT: Final[list[ResultPolicy | None]] = list(ResultPolicy)


class LockedGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """The approval of a group, with all in it that takes away."""

    name: str
    version: str
    definition: str
    """`sha256:` and the hash of what the definition says."""
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    execution: str | None = None
    result: str | None = None

    @classmethod
    def of(cls, group: ToolGroup, content: str) -> Self:
        """Approve a group as it is; `content` is its `content_hash`."""
        said = group.permission or Permission()
        return cls(
            group.name,
            group.version,
            content,
            group.tools,
            group.tags,
            group.categories,
            group.disabled_tools,
            None if said.execution is None else said.execution.value,
            None if said.result is None else said.result.value,
        )

    @classmethod
    def read(cls, name: str, fields: Any) -> Self:
        """Read an approval from a line; raise ValueError for other lines."""
        known = set(cls.__struct_fields__) - {"name"}
        if not isinstance(fields, Mapping) or not {"version", "definition"} <= fields.keys():
            raise ValueError("it has no version and definition")
        if not fields.keys() <= known:
            raise ValueError(f"it has {', '.join(sorted(fields.keys() - known))}")
        try:
            made = convert_value({"name": name, **fields}, cls)
            made.as_group()
        except (msgspec.ValidationError, ConfigurationError) as error:
            raise ValueError(str(error)) from error
        return made

    def fields(self) -> dict[str, Any]:
        values: dict[str, Any] = msgspec.to_builtins(self)
        del values["name"]
        return values

    def as_group(self) -> ToolGroup:
        """Return a group that only takes away, as the approved one does."""
        return ToolGroup(
            name=self.name,
            tools=self.tools,
            tags=self.tags,
            categories=self.categories,
            disabled_tools=self.off,
            permission=Permission(execution=self.execution, result=self.result),  # type: ignore[arg-type] # it takes texts
            version=self.version,
        )


def held_back(
    group: ToolGroup | None, known: LockedGroup | None, message: str, source: str
) -> ToolGroup:
    """Return what calls see in place of an unapproved group.

    `group` is None when the file is gone, `known` when nothing was approved. `message` says why the
    group in the file `source` is not approved.
    """
    approved = None if known is None else known.as_group()
    named = [each for each in (group, approved) if each is not None]
    first = named[0]
    return ToolGroup(
        name=first.name,
        description=first.description,
        tools=_merge_names(each.tools for each in named),
        tags=_merge_names(each.tags for each in named),
        categories=_merge_names(each.categories for each in named),
        disabled_tools=_merge_names(each.disabled_tools for each in named),
        permission=_strictest_permission(
            [each.permission for each in named if each.permission is not None]
        ),
        is_quarantined=True,
        version=first.version,
        source=source,
        findings=(message,),
    )


def _merge_names(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


def _strictest_permission(said: list[Permission]) -> Permission:
    """Return the strictest policies, none where all of them never ask."""
    execution = [each.execution for each in said if each.execution not in (None, _EXECUTION[0])]
    result = [each.result for each in said if each.result not in (None, _RESULT[0])]
    return Permission(
        execution=max(execution, key=_EXECUTION.index, default=None),
        result=max(result, key=_RESULT.index, default=None),
    )
