"""Which tool of the engine does a call mean, and may the model call it?

A name is looked up as it is. Text protocols also write a tool and a command: `tool_name` `a` with
`command` `b`, or `a_b`. Where that can mean two tools, the call is refused, never guessed. A35, X2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.interfaces.source import Source
from tool_engine.model.call import ToolCall
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool

COMMAND: Final = "command"
_JOINTS: Final = ("_", ".", "-")


class Route(NamedTuple):
    name: str
    """The tool to call; an unknown one is left for the engine to refuse."""
    arguments: dict[str, Any]
    tool: Tool | None = None
    repairs: tuple[str, ...] = ()
    """How the call was reinterpreted, if it was."""
    error: str | None = None
    error_type: str = ErrorType.TOOL_NOT_FOUND.value


class Router:
    """The resolver of the tools that the calls of a reply mean."""

    def __init__(
        self,
        catalog: Source,
        *,
        tools: Collection[str] | None = None,
        aliases: Mapping[str, str] | None = None,
        has_commands: bool = False,
    ) -> None:
        self._catalog = catalog
        self._tools = None if tools is None else frozenset(tools)
        self._aliases = aliases or {}
        self._has_commands = has_commands

    def route(self, call: ToolCall) -> Route:
        found = self._find_readings(call)
        if len(found) > 1:
            names = " or ".join(_show_route(route) for route in found)
            return Route(
                call.tool_name,
                call.arguments,
                error=f"{_show_call(call)} can mean {names}: write the full name of the one tool",
            )
        route = found[0] if found else Route(call.tool_name, call.arguments)
        return self._check_allowed(route, call)

    def _find_readings(self, call: ToolCall) -> list[Route]:
        name, arguments = call.tool_name, call.arguments
        command = arguments.get(COMMAND)
        tool = self._catalog.get(name)
        is_command = isinstance(command, str) and bool(command)
        if tool is not None and not (self._has_commands and is_command):
            return [Route(name, arguments, tool)]
        joined = self._find_joined(name, str(command), arguments) if is_command else []
        if tool is None:
            aliased = self._find_alias(name)
            found = [] if aliased is None else [Route(aliased.name, arguments, aliased)]
            others = [
                _note_reading(route, call) for route in found + self._find_split(name, arguments)
            ]
            return _drop_repeated(joined + others)
        if COMMAND in _list_properties(tool):
            return [Route(name, arguments, tool), *joined]
        return joined or [self._drop_command(tool, call)]

    def _find_joined(self, name: str, command: str, arguments: Mapping[str, Any]) -> list[Route]:
        rest = {key: value for key, value in arguments.items() if key != COMMAND}
        names = [f"{name}{joint}{command}" for joint in _JOINTS]
        tools = [self._catalog.get(each) for each in names]
        tools.append(self._find_alias(command))
        repair = f"tool {name!r} with the command {command[:64]!r} was read as "
        return _drop_repeated(
            [
                Route(tool.name, rest, tool, (f"{repair}{tool.name!r}",))
                for tool in tools
                if tool is not None
            ]
        )

    def _find_split(self, name: str, arguments: dict[str, Any]) -> list[Route]:
        """Return the tools that a name split at `_` means. A35."""
        owner, joint, method = name.rpartition("_")
        if not joint or not owner or not method:
            return []
        found = [self._catalog.get(f"{owner}{each}{method}") for each in _JOINTS]
        routes = [Route(tool.name, arguments, tool) for tool in found if tool is not None]
        tool = self._catalog.get(owner)
        if tool is not None and COMMAND not in arguments and method in _list_commands(tool):
            routes.append(Route(owner, {COMMAND: method, **arguments}, tool))
        return routes

    def _find_alias(self, name: str) -> Tool | None:
        meant = self._aliases.get(name)
        return None if meant is None else self._catalog.get(meant)

    def _drop_command(self, tool: Tool, call: ToolCall) -> Route:
        command = call.arguments[COMMAND]
        if tool.name == command or tool.name.endswith(
            tuple(f"{each}{command}" for each in _JOINTS)
        ):
            rest = {key: value for key, value in call.arguments.items() if key != COMMAND}
            return Route(tool.name, rest, tool, ("the command is in the tool's name: left out",))
        message = (
            f"{tool.name!r} takes no parameter {COMMAND!r}, and there is no tool "
            f"{tool.name}_{command[:64]}: write the full name of the tool"
        )
        return Route(tool.name, call.arguments, tool, error=message)

    def _check_allowed(self, route: Route, call: ToolCall) -> Route:
        if route.error is not None or self._may_call(route):
            return route
        if route.tool is not None:
            message = f"the tool {route.name!r} is there, but may not be called here"
            kind = ErrorType.REJECTED
        else:
            message, kind = f"there is no tool {call.tool_name!r}", ErrorType.TOOL_NOT_FOUND
        near = suggest_near(call.tool_name, self._tools or (), 3)
        hint = near or "; call one that you were told of"
        return route._replace(error=message + hint, error_type=kind.value)

    def _may_call(self, route: Route) -> bool:
        if self._tools is not None:
            return route.name in self._tools
        return route.tool is None or route.tool.is_enabled


def _list_properties(tool: Tool) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters_schema.get("properties", {})
    return properties


def _list_commands(tool: Tool) -> list[Any]:
    """Return a tool's listed commands; empty if it takes any text."""
    command = _list_properties(tool).get(COMMAND)
    if not isinstance(command, Mapping):
        return []
    listed = command.get("enum", [command["const"]] if "const" in command else [])
    return list(listed)


def _drop_repeated(routes: list[Route]) -> list[Route]:
    return list({(route.name, COMMAND in route.arguments): route for route in routes}.values())


def _note_reading(route: Route, call: ToolCall) -> Route:
    repair = f"the tool name {call.tool_name[:64]!r} was read as {_show_route(route)}"
    return route._replace(repairs=(repair,))


def _show_route(route: Route) -> str:
    command = route.arguments.get(COMMAND)
    return f"{route.name!r} with {COMMAND}={command!r}" if command else repr(route.name)


def _show_call(call: ToolCall) -> str:
    command = call.arguments.get(COMMAND)
    added = f" with the command {command!r}" if isinstance(command, str) else ""
    return f"the tool name {call.tool_name!r}{added}"
