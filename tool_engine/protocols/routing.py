"""Which tool of the engine does a call mean, and may the model call it?

A name is looked up as it is, then as an alias. Text protocols also write a tool and a command:
`tool_name` `a` with `command` `b`, or `a_b`; `b` may be the `vcp_command` of a tool `a_...`. Where
that can mean two tools, the call is refused, never guessed. A35, X2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from tool_engine.errors import ToolEngineError
from tool_engine.interfaces.source import Source, find_for_model
from tool_engine.model.call import ToolCall
from tool_engine.model.checks.aliases import COMMAND, JOINTS, list_commands
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.protocols.tool_names import Commanded, list_commanded


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
        self._commanded: Commanded | None = None

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
        found = find_for_model(self._catalog, name)
        tool = None if found is not None and name in found.aliases else found
        is_command = isinstance(command, str) and bool(command)
        if tool is not None and not (self._has_commands and is_command):
            return [Route(name, arguments, tool)]
        joined = self._find_joined(name, str(command), arguments) if is_command else []
        if tool is None:
            aliased = [each for each in (found, self._find_alias(name)) if each is not None]
            others = [self._make_route(each, call) for each in aliased]
            others += self._find_split(name, arguments)
            return _drop_repeated(joined + [_note_reading(route, call) for route in others])
        if COMMAND in _list_properties(tool):
            return [Route(name, arguments, tool), *joined]
        own = self._drop_command(tool, call)
        is_both = bool(joined) and tool.vcp_command == command
        return _drop_repeated([*joined, own]) if is_both else joined or [own]

    def _find_joined(self, name: str, command: str, arguments: Mapping[str, Any]) -> list[Route]:
        rest = {key: value for key, value in arguments.items() if key != COMMAND}
        names = [f"{name}{joint}{command}" for joint in JOINTS]
        tools = [find_for_model(self._catalog, each) for each in names]
        tools.append(self._find_alias(command))
        tools += self._find_commanded(name, command) if self._has_commands else ()
        repair = f"tool {name!r} with the command {command[:64]!r} was read as "
        return _drop_repeated(
            [
                Route(tool.name, rest, tool, (f"{repair}{tool.name!r}",))
                for tool in tools
                if tool is not None
            ]
        )

    def _find_commanded(self, owner: str, command: str) -> list[Tool]:
        """Return the tools of an owner whose definitions have this command. X2."""
        if self._commanded is None:
            try:
                self._commanded = list_commanded(self._catalog.list_unambiguous()[0])
            except ToolEngineError:
                # Two tools have one name: each is still called by another one.
                self._commanded = {}
        return self._commanded.get((owner, command), [])

    def _find_split(self, name: str, arguments: dict[str, Any]) -> list[Route]:
        """Return the tools that a name split at `_` means. A35."""
        owner, joint, method = name.rpartition("_")
        if not joint or not owner or not method:
            return []
        found = [find_for_model(self._catalog, f"{owner}{each}{method}") for each in JOINTS]
        routes = [Route(tool.name, arguments, tool) for tool in found if tool is not None]
        tool = find_for_model(self._catalog, owner)
        if tool is not None and COMMAND not in arguments and method in list_commands(tool):
            routes.append(Route(tool.name, {COMMAND: method, **arguments}, tool))
        return routes

    def _make_route(self, tool: Tool, call: ToolCall) -> Route:
        """Return the route to a tool found by an alias, without a command that only names it."""
        command = call.arguments.get(COMMAND)
        is_command = isinstance(command, str) and bool(command)
        if not (self._has_commands and is_command) or COMMAND in _list_properties(tool):
            return Route(tool.name, call.arguments, tool)
        return self._drop_command(tool, call)

    def _find_alias(self, name: str) -> Tool | None:
        meant = self._aliases.get(name)
        return None if meant is None else find_for_model(self._catalog, meant)

    def _drop_command(self, tool: Tool, call: ToolCall) -> Route:
        command = call.arguments[COMMAND]
        is_named = command in (tool.name, tool.vcp_command)
        if is_named or tool.name.endswith(tuple(f"{each}{command}" for each in JOINTS)):
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
        shown = (each for each in self._tools or () if not self._catalog.is_hidden(each))
        near = suggest_near(route.name, shown, 3)
        hint = near or "; call one that you were told of"
        return route._replace(error=message + hint, error_type=kind.value)

    def _may_call(self, route: Route) -> bool:
        if self._tools is None:
            return route.tool is None or route.tool.is_enabled
        if route.name in self._tools or route.tool is None:
            return route.name in self._tools
        named = (find_for_model(self._catalog, each) for each in route.tool.aliases)
        aliases = zip(route.tool.aliases, named, strict=True)
        return any(
            alias in self._tools and tool is not None and tool.name == route.name
            for alias, tool in aliases
        )


def _list_properties(tool: Tool) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters_schema.get("properties", {})
    return properties


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
