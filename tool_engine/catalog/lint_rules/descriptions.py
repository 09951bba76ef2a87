"""Does a description say what a tool does, when and when not?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tool_engine.catalog.lint_rules.prose import (
    repeats_name,
    says_when,
    says_when_not,
    word_count,
)
from tool_engine.catalog.lint_rules.rule import ERROR, WARNING, Flaw, LintRule
from tool_engine.model.tool import Tool

_FEWEST_WORDS: Final = 4
_MOST_CHARACTERS: Final = 1024
_REPLACED: Final = re.compile(
    r"\b(?:instead|replaced|replacement|successor|superseded|moved)\b|\buse\s+\W?[a-z0-9]+_"
    r"|改用|请用|请使用|替代|取代|代替|迁移|移除",
    re.IGNORECASE,
)
_SNAKE_CASE: Final = re.compile(r"_?[a-z][a-z0-9]*(_[a-z0-9]+)*")
_NAME_LIMITS: Final = {
    "OpenAI and Anthropic": (
        re.compile(r"[A-Za-z0-9_-]{1,64}"),
        "1 to 64 of the characters a-z, A-Z, 0-9, _ and -",
    ),
    "Gemini": (
        re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"),
        "a letter or _ first, then up to 63 of the characters a-z, A-Z, 0-9, _ . : and -",
    ),
}


def _too_short(tool: Tool) -> Iterator[Flaw]:
    if repeats_name(tool.description, tool.name):
        message = "only repeats the name; say in a sentence what the tool does and returns"
        yield ("description",), message
    elif word_count(tool.description) < _FEWEST_WORDS:
        message = (
            f"has fewer than {_FEWEST_WORDS} words; say in a sentence what the tool does and "
            "returns"
        )
        yield ("description",), message


def _not_when(tool: Tool) -> Iterator[Flaw]:
    if not says_when(tool.description):
        message = 'does not say when to use the tool; add a sentence such as "Use it when ..."'
        yield ("description",), message


def _not_when_not(tool: Tool) -> Iterator[Flaw]:
    if not says_when_not(tool.description):
        message = (
            "does not say what the tool is not for; add what it cannot do, or when another tool "
            'is right: "It does not ..."'
        )
        yield ("description",), message


def _too_long(tool: Tool) -> Iterator[Flaw]:
    length = len(tool.description)
    if length > _MOST_CHARACTERS:
        message = (
            f"has {length} characters; keep it to {_MOST_CHARACTERS}, and say in the parameters "
            "what is about them"
        )
        yield ("description",), message


def _refused_name(tool: Tool) -> Iterator[Flaw]:
    for provider, (pattern, rule) in _NAME_LIMITS.items():
        if not pattern.fullmatch(tool.name):
            message = f"{provider} refuses the name {tool.name!r}: a name has {rule}; rename it"
            yield ("name",), message


def _no_snake_case(tool: Tool) -> Iterator[Flaw]:
    if not _SNAKE_CASE.fullmatch(tool.name):
        better = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", tool.name).strip("_").lower()
        yield ("name",), f"the name {tool.name!r} is not in snake_case; write {better!r}"


def _deprecated_without_hint(tool: Tool) -> Iterator[Flaw]:
    if tool.status == "deprecated" and not _REPLACED.search(tool.description):
        message = (
            'the tool is deprecated and its description names nothing to use instead; add "Use '
            '... instead"'
        )
        yield ("status",), message


DESCRIPTION_RULES: Final = (
    LintRule(
        "L101",
        WARNING,
        "The description does not say what the tool does",
        "The description is all that a model knows of a tool. Two words leave it guessing.",
        _too_short,
    ),
    LintRule(
        "L102",
        WARNING,
        "The description does not say when to use the tool",
        "A model that is not told when picks a tool by its name, or does the work by itself.",
        _not_when,
    ),
    LintRule(
        "L103",
        WARNING,
        "The description does not say when not to use the tool",
        "Without a line around it, a tool is called for things that it cannot do.",
        _not_when_not,
    ),
    LintRule(
        "L104",
        WARNING,
        f"The description has more than {_MOST_CHARACTERS} characters",
        "Several services that speak OpenAI's format refuse a longer one, and every request pays "
        "for it.",
        _too_long,
    ),
    LintRule(
        "L105",
        ERROR,
        "A provider refuses the name of the tool",
        "Its models are told of the tool under another name, which ends in a hash and says less.",
        _refused_name,
    ),
    LintRule(
        "L106",
        WARNING,
        "The name is not in snake_case",
        "Models were trained on names such as `get_weather`; mixed styles are misspelled.",
        _no_snake_case,
    ),
    LintRule(
        "L107",
        WARNING,
        "A deprecated tool does not name what to use instead",
        "Who still calls it needs to know where to go.",
        _deprecated_without_hint,
    ),
)
