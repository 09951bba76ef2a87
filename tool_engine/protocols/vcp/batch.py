"""Which calls does one block of VCP ask for?

A block is one call, unless it numbers its commands: `command1`, `path1`, `command2`, `path2`. A
number at the end of a name is no such number where it belongs to the name: `base64`, `sha256`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from tool_engine.model.tool import Tool

__all__ = ["COMMAND", "Request", "find_tool", "is_numbered", "requests_in", "split_number"]

COMMAND: Final = "command"
_DIGITS: Final = "0123456789"
_MOST_DIGITS: Final = 4


class Request(NamedTuple):
    """One call that a block asks for."""

    number: int | None
    """Its number in the block; None where the block is one call."""
    arguments: dict[str, str]
    tool: Tool | None


def split_number(key: str) -> tuple[str, int] | None:
    """The stem and the number of a numbered name; None: it has no number, or nothing else."""
    stem = key.rstrip(_DIGITS)
    digits = key[len(stem) :]
    if not stem or not digits or len(digits) > _MOST_DIGITS or digits != str(int(digits)):
        return None
    return stem, int(digits)


def find_tool(get: Callable[[str], Tool | None], name: str, command: str | None) -> Tool | None:
    """The tool that a name, or a name and a command, stands for."""
    joined = [f"{name}{joint}{command}" for joint in "_.-"] if command else []
    return next((tool for each in (name, *joined) if (tool := get(each)) is not None), None)


def is_numbered(key: str, tools: Collection[Tool | None]) -> bool:
    """Whether the number at the end of a name tells for which call of a batch it is. U28.

    Only after `command` or a declared parameter, and only if no parameter has the whole name.
    """
    found = split_number(key)
    declared = {parameter.name for tool in tools if tool for parameter in tool.parameters}
    if found is None or key in declared:
        return False
    return found[0] == COMMAND or found[0] in declared


def requests_in(
    get: Callable[[str], Tool | None], name: str, arguments: Mapping[str, str]
) -> tuple[list[Request], list[str], str | None]:
    """The calls of one block, what is odd about their numbers, and why they cannot be run.

    Args:
        get: Gives a tool by its name.
        name: The `tool_name` of the block.
        arguments: All other parameters, in their order.
    """
    commands = [arguments[key].strip() for key in arguments if _stem(key) == COMMAND]
    tools = [find_tool(get, name, command) for command in commands or [""]]
    numbered = [key for key in arguments if is_numbered(key, tools)]
    if not numbered:
        return [Request(None, dict(arguments), tools[0])], [], None
    shared = {key: value for key, value in arguments.items() if key not in numbered}
    groups: dict[int, dict[str, str]] = {}
    for key in numbered:
        stem, number = split_number(key) or (key, 0)
        groups.setdefault(number, {})[stem] = arguments[key]
    merged = {number: {**shared, **groups[number]} for number in sorted(groups)}
    requests = [
        Request(number, each, find_tool(get, name, each.get(COMMAND, "").strip()))
        for number, each in merged.items()
    ]
    return requests, [*_gaps(list(merged)), *_uneven(groups)], _clash(shared, numbered)


def _stem(key: str) -> str:
    found = split_number(key)
    return found[0] if found else key


def _clash(shared: Mapping[str, str], numbered: Iterable[str]) -> str | None:
    """Whether a value for every call and one for a single call would be the same parameter."""
    key = next((key for key in numbered if _stem(key) in shared), None)
    if key is None:
        return None
    return (
        f"the block has both {_stem(key)!r} and {key!r}, so which value is meant is not sure; "
        "number both, or write a block for each call"
    )


def _gaps(numbers: list[int]) -> Iterable[str]:
    if numbers != list(range(1, len(numbers) + 1)):
        listed = ", ".join(map(str, numbers[:20]))
        yield f"the commands of the block are numbered {listed}, not from 1 on without a gap"


def _uneven(groups: Mapping[int, Mapping[str, str]]) -> Iterable[str]:
    for stem in dict.fromkeys(stem for group in groups.values() for stem in group):
        missing = [number for number in sorted(groups) if stem not in groups[number]]
        if missing:
            listed = ", ".join(map(str, missing[:20]))
            yield f"of the calls of the block, {listed} have no {stem!r} of their own"
