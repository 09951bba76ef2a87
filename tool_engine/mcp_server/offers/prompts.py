"""Which prompts does a client find, and what do they say?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import mcp_types as types
import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.mcp_server.listing import Listing, ShownGroup
from tool_engine.mcp_server.offers.offered import check_function, list_values
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.session.prompt.prompt import render_rules

_RULES: Final = "rules"


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, metaclass=KnownFields):
    """One argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False
    values: tuple[str, ...] = ()
    """What a client may offer while a person types."""

    def __post_init__(self) -> None:
        values = list_values(f"the argument {self.name!r}", self.values)
        msgspec.structs.force_setattr(self, "values", values)


class Prompt(NamedTuple):
    description: str
    arguments: tuple[PromptArgument, ...]
    write: Callable[..., Any]
    """Returns the text, or a list of messages as they stand on the wire."""


class Prompts:
    """The prompts of a server: the rules and skills of groups, and those that were added.

    Args:
        listing: What clients see.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._added: dict[str, Prompt] = {}

    def add(self, name: str, prompt: Prompt) -> None:
        """Add a prompt.

        Raises:
            ConfigurationError: Its name is none, or is there already, or its function takes others
                than its arguments.
        """
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"a prompt needs a name, got {name!r}")
        named = {each.name: each.is_required for each in prompt.arguments}
        if len(named) < len(prompt.arguments):
            raise ConfigurationError(f"two arguments of the prompt {name!r} have one name")
        always = [each for each, is_required in named.items() if is_required]
        check_function(f"the prompt {name!r}", prompt.write, always, named)
        if name in self._find_all():
            raise ConfigurationError(f"there is a prompt {name!r} already; give it another name")
        self._added[name] = prompt

    def describe(self) -> list[dict[str, Any]]:
        """Return all prompts as they stand on the wire, sorted by name."""
        return [_describe_prompt(name, prompt) for name, prompt in sorted(self._find_all().items())]

    def read_all(self) -> tuple[Any, ...]:
        """Return what differs whenever a prompt does, or what it says."""
        own, said = self._listing.list_own_names(), {}
        for name, shown in self._listing.list_groups().items():
            group = shown.group
            rules = render_rules(group.rules, shown.tools, own) if group.rules else ""
            said[name] = rules, [each.prompt for each in group.skills]
        return (self.describe(), said)

    def get(self, name: str) -> Prompt | None:
        return self._find_all().get(name)

    def list_names(self) -> list[str]:
        return sorted(self._find_all())

    def _find_all(self) -> dict[str, Prompt]:
        found: dict[str, Prompt] = {}
        for name, shown in self._listing.list_groups().items():
            group = shown.group
            if group.rules:
                text = f"The rules for the tools of {name}"
                write = partial(self._write_rules, shown)
                found[f"{name}.{_RULES}"] = Prompt(group.description or text, (), write)
            for skill in group.skills:
                found[f"{name}.{skill.name}"] = Prompt(skill.desc, (), _write_text(skill.prompt))
        return found | self._added

    def _write_rules(self, shown: ShownGroup) -> str:
        """Return the rules of a group as a session's model would read them."""
        return render_rules(shown.group.rules, shown.tools, self._listing.list_own_names())


def check_arguments(name: str, prompt: Prompt, arguments: Mapping[str, str]) -> None:
    """Check what a client fills in.

    Raises:
        ValueError: An argument is missing or unknown.
    """
    known = {each.name: each for each in prompt.arguments}
    for sent in arguments:
        if sent not in known:
            hint = suggest_near(sent[:80], known)
            raise ValueError(f"the prompt {name!r} has no argument {sent[:80]!r}{hint}")
    for argument in prompt.arguments:
        if argument.is_required and argument.name not in arguments:
            raise ValueError(f"the prompt {name!r} needs the argument {argument.name!r}")


async def write_prompt(
    name: str, prompt: Prompt, arguments: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the messages of a prompt as they stand on the wire.

    Raises:
        ConfigurationError: The prompt's function returned something else.
    """
    written = prompt.write(**arguments)
    if inspect.isawaitable(written):
        written = await written
    if isinstance(written, str):
        return [{"role": "user", "content": {"type": "text", "text": written}}]
    if isinstance(written, Sequence):
        return [_check_message(name, each) for each in written]
    raise ConfigurationError(
        f"the prompt {name!r} must return a text or a list of messages, got "
        f"{type(written).__name__}"
    )


def _check_message(name: str, message: Any) -> dict[str, Any]:
    try:
        types.PromptMessage.model_validate(message, by_name=False)
    except ValueError as error:
        # Without a word the SDK would send an answer without messages.
        raise ConfigurationError(
            f"the prompt {name!r} returned a message that is none: {message!r:.80}"
        ) from error
    return dict(message)


def _describe_prompt(name: str, prompt: Prompt) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name}
    if prompt.description:
        described["description"] = prompt.description
    if prompt.arguments:
        described["arguments"] = [
            {
                "name": each.name,
                **({"description": each.description} if each.description else {}),
                "required": each.is_required,
            }
            for each in prompt.arguments
        ]
    return described


def _write_text(text: str) -> Callable[[], str]:
    return lambda: text
