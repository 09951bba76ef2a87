"""Which commands can a person type in a conversation with a model?

A turn that is one word with `/` before it is a command; everything else goes to the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tool_engine.model.checks.nearness import suggest_near
from tool_engine.session.session import ToolSession

QUIT: Final = "/quit"
"""Ends the conversation, as Ctrl-D does."""
_COMMAND: Final = re.compile(r"/[A-Za-z_-]*")


def is_command(text: str) -> bool:
    return _COMMAND.fullmatch(text) is not None


def answer_command(session: ToolSession, text: str) -> str:
    known = _COMMANDS.get(text)
    if known is None:
        hint = suggest_near(text, (*_COMMANDS, QUIT)) or "; /help lists those that are"
        return f"there is no command {text!r}{hint}"
    return known[1](session)


def _tell_help(session: ToolSession) -> str:
    del session
    lines = [f"{name:<8} {meaning}" for name, (meaning, _) in _COMMANDS.items()]
    return "\n".join([*lines, f"{QUIT:<8} ends the conversation, as Ctrl-D does"])


def _tell_tools(session: ToolSession) -> str:
    names = [tool.name for tool in session.toolbox.tools()]
    return ", ".join(names) or "no tool is on"


def _tell_groups(session: ToolSession) -> str:
    groups = session.toolbox.groups()
    lines = [
        f"{'on ' if each.is_enabled else 'off'}  {each.name}: {', '.join(each.tools) or 'no tools'}"
        for each in groups
    ]
    return "\n".join(lines) or "there are no groups"


def _tell_usage(session: ToolSession) -> str:
    usage = session.usage()
    tokens = f"{usage.input_tokens:,} tokens read, {usage.output_tokens:,} written"
    return f"{usage.turns} turns, {usage.calls} calls, {tokens}"


_COMMANDS: Final[Mapping[str, tuple[str, Callable[[ToolSession], str]]]] = {
    "/help": ("lists these commands", _tell_help),
    "/tools": ("lists the tools that are on", _tell_tools),
    "/groups": ("lists the groups, on and off, with their tools", _tell_groups),
    "/usage": ("says what was spent so far", _tell_usage),
}
"""Each command, what it does, and what answers it; a new one is a line here."""
