"""Which calls does one block of VCP ask for?

A block is one call, unless it numbers its commands: `command1`, `path1`, `command2`, `path2`. A
number at the end of a name is no such number where it belongs to the name: `base64`, `sha256`. Of
a parameter `sha256`, the first is `sha2561`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from tool_engine.model.checks.aliases import COMMAND, JOINTS
from tool_engine.model.tool import Tool
from tool_engine.protocols.tool_names import KnownTools

_DIGITS: Final = "0123456789"
_MOST_DIGITS: Final = 4


class Numbered(NamedTuple):
    """A name that may have a number at its end."""

    stem: str
    digits: str


class Request(NamedTuple):
    """One call that a block asks for."""

    number: int | None
    """Its number in the block; None where the block is one call."""
    arguments: dict[str, str]
    tool: Tool | None
    sent_names: Mapping[str, str] = {}
    """The keys of the block, by the arguments that they have become."""


def find_numbers(key: str, stems: Collection[str]) -> list[Numbered]:
    """Return the readings of a name as a stem and number. U28."""
    most = len(key) - len(key.rstrip(_DIGITS))
    ends = range(len(key) - most, len(key))
    return [Numbered(key[:end], key[end:]) for end in ends if key[:end] in stems]


def find_tool(known: KnownTools, name: str, command: str | None) -> Tool | None:
    """Return the tool that a name means, alone or with a command."""
    joined = [f"{name}{joint}{command}" for joint in JOINTS] if command else []
    found = (known.get(each) for each in (name, *joined))
    tool = next((each for each in found if each is not None), None)
    return known.get_commanded(name, command) if tool is None and command else tool


def find_requests(
    known: KnownTools, name: str, arguments: Mapping[str, str]
) -> tuple[list[Request], list[str], str | None]:
    """Return a block's calls, oddities of their numbers, and a fault.

    Args:
        known: The tools that the model knows.
        name: The `tool_name` of the block.
        arguments: All other parameters, in their order.
    """
    commands = [arguments[key].strip() for key in arguments if _is_command(key)]
    tools = [find_tool(known, name, command) for command in commands or [""]]
    declared = {parameter.name for tool in tools if tool for parameter in tool.parameters}
    stems = declared | {COMMAND}
    found = {key: find_numbers(key, stems) for key in arguments if key not in declared}
    numbered = {key: readings[0] for key, readings in found.items() if readings}
    if error := _find_doubt(found) or _find_overlap(
        numbered, sorted(declared & arguments.keys()), stems
    ):
        return [Request(None, dict(arguments), tools[0])], [], error
    if not numbered:
        return [Request(None, dict(arguments), tools[0])], [], None
    shared = {key: value for key, value in arguments.items() if key not in numbered}
    groups: dict[int, dict[str, str]] = {}
    sent: dict[int, dict[str, str]] = {}
    for key, (stem, digits) in numbered.items():
        groups.setdefault(int(digits), {})[stem] = arguments[key]
        sent.setdefault(int(digits), {})[stem] = key
    merged = {number: {**shared, **groups[number]} for number in sorted(groups)}
    requests = [
        Request(number, each, find_tool(known, name, each.get(COMMAND, "").strip()), sent[number])
        for number, each in merged.items()
    ]
    return (
        requests,
        [*_report_gaps(list(merged)), *_report_uneven(groups)],
        _find_clash(shared, numbered),
    )


def _is_command(key: str) -> bool:
    return key == COMMAND or bool(find_numbers(key, (COMMAND,)))


def _find_doubt(found: Mapping[str, list[Numbered]]) -> str | None:
    """Return a fault if a parameter's number is uncertain."""
    for key, readings in found.items():
        if len(readings) > 1:
            listed = " or ".join(f"number {digits} of {stem!r}" for stem, digits in readings)
            return f"{key!r} may be {listed}; write a block for each call"
        for stem, digits in readings:
            if len(digits) > _MOST_DIGITS or digits != str(int(digits)):
                return (
                    f"{key!r} has no number that counts calls: write {stem}1, {stem}2 and so on, "
                    "or a block for each call"
                )
    return None


def _find_overlap(
    numbered: Mapping[str, Numbered], own: Iterable[str], stems: Collection[str]
) -> str | None:
    """Return a fault if a parameter may be a numbered other one."""
    for key in own if numbered else ():
        for stem, digits in find_numbers(key, stems):
            return (
                f"{key!r} is a parameter of its own, and may be number {digits} of {stem!r}; "
                "write a block for each call"
            )
    return None


def _find_clash(shared: Mapping[str, str], numbered: Mapping[str, Numbered]) -> str | None:
    """Return a fault if a parameter is both shared and numbered."""
    key = next((key for key, found in numbered.items() if found.stem in shared), None)
    if key is None:
        return None
    return (
        f"the block has both {numbered[key].stem!r} and {key!r}, so which value is meant is not "
        "sure; number both, or write a block for each call"
    )


def _report_gaps(numbers: list[int]) -> Iterable[str]:
    if numbers != list(range(1, len(numbers) + 1)):
        listed = ", ".join(map(str, numbers[:20]))
        yield f"the commands of the block are numbered {listed}, not from 1 on without a gap"


def _report_uneven(groups: Mapping[int, Mapping[str, str]]) -> Iterable[str]:
    for stem in dict.fromkeys(stem for group in groups.values() for stem in group):
        missing = [number for number in sorted(groups) if stem not in groups[number]]
        if missing:
            listed = ", ".join(map(str, missing[:20]))
            yield f"of the calls of the block, {listed} have no {stem!r} of their own"
