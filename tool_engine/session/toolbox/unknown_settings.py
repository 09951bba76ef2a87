"""Which settings name tools and groups that do not exist?

Such a name is no error, since its file may come later. But a misspelled one leaves a tool on that
was to be off, so each is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from tool_engine.model.checks.nearness import suggest_near
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.toolbox.placing import split_name

_WILD: Final = frozenset("*?[")
_BY_EITHER: Final = ("tool_permissions", "rules", "max_uses")
_MOST_HINTS: Final = 10
"""The most settings whose nearest name is looked up, which is slow among thousands."""


def find_unknown(
    config: ToolCallConfig,
    tools: Collection[str],
    groups: Collection[str],
    was_named: Callable[[str], bool],
    likely: Callable[[str], Iterable[str]],
) -> list[str]:
    """Return a sentence for each setting that names nothing known.

    Args:
        config: The settings.
        tools: The names of the tools that the conversation knows, on or off.
        groups: Those of its groups.
        was_named: Whether a tool has this name in its engine, which counts for rules and uses, too.
        likely: The tools that a name may be meant for.
    """
    owners = {split_name(each)[0] for each in tools} if config.toggles_by_tool_id else set()
    missing = [
        (setting, "tool", name)
        for setting, name in _list_tools_named(config)
        if name not in tools
        and not (setting == "tool_toggles" and name in owners)
        and not (setting in _BY_EITHER and was_named(name))
    ]
    for setting, names in (
        ("group_toggles", config.group_toggles),
        ("group_permissions", config.group_permissions),
    ):
        missing += [(setting, "group", name) for name in names if name not in groups]
    sentences = []
    for number, (setting, word, name) in enumerate(missing):
        hint = ""
        if number < _MOST_HINTS:
            hint = suggest_near(name, groups if word == "group" else likely(name))
        sentences.append(
            f"{setting}[{name!r}]: there is no {word} {name!r} in this conversation{hint}"
        )
    return sentences


def _list_tools_named(config: ToolCallConfig) -> Iterator[tuple[str, str]]:
    for setting in ("tool_toggles", "tool_permissions", "tool_limits", "tool_show", "max_uses"):
        yield from ((setting, name) for name in getattr(config, setting))
    for rule in config.permission_rules():
        if not _WILD & set(rule.tool):
            yield "rules", rule.tool
