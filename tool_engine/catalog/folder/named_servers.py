"""Which servers do the files and the configuration name, and which of them may run?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tool_engine.catalog.approval.approvals import Approvals
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.loader import duplicate_error

Error = tuple[str, str]
_ORIGIN: Final = "mcp:"
_PROGRAM: Final = "mcp_servers"
"""The place of servers that a program gives."""
_SETTINGS: Final = ".toml"
"""The end of the files that name servers for each command of a project."""


class NamedServers:
    """The servers of tools that are named, and those of them that are approved.

    Args:
        approvals: A server starts a program, so it runs only as it is approved.
    """

    def __init__(self, approvals: Approvals) -> None:
        self.wanted: Mapping[str, ServerDefinition] = {}
        """Those of files by name, approved or not."""
        self.configured: tuple[ServerDefinition, ...] = ()
        """Those of the configuration, approved or not."""
        self.approved: tuple[ServerDefinition, ...] = ()
        self.refused: dict[str, str] = {}
        """Why the others may not run, by name."""
        self.refusals: list[Error] = []
        """The same, by place."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when something may be different, and after each change of the tools."""
        self.errors: list[Error] = []
        """What is wrong with those that run, and with those that the configuration names."""
        self._approvals = approvals

    def __repr__(self) -> str:
        return f"NamedServers({[*self.lockable]}, refused={[*self.refused]})"

    @property
    def lockable(self) -> dict[str, ServerDefinition]:
        """All by name; the configuration comes before files."""
        return {**self.wanted, **{each.name: each for each in self.configured}}

    def options_of(self, origin: str) -> str | None:
        """Return the options with which `tool-engine lock` finds the tools of a source.

        None: it finds them only in the program, which adds the source or names the server itself.
        """
        name = origin.removeprefix(_ORIGIN)
        place = next((each.place for each in self.configured if each.name == name), "")
        if origin == name or place == _PROGRAM or not (place or name in self.wanted):
            return None
        if not place or place.endswith(_SETTINGS):
            return ""
        # Loaded on first use: few programs have a tool that waits.
        from shlex import quote

        return f" --mcp-config {quote(place)}"

    def take(self, found: Sequence[ServerDefinition]) -> list[Error]:
        """Take in what the files define; return what is wrong with it.

        A name that several files claim keeps its meaning.
        """
        rivals: dict[str, list[ServerDefinition]] = {}
        for server in found:
            rivals.setdefault(server.name, []).append(server)
        wanted: dict[str, ServerDefinition] = {}
        errors: list[Error] = []
        for name, same in sorted(rivals.items()):
            places = [str(server.source) for server in same]
            present = self.wanted.get(name)
            if len(same) == 1:
                wanted[name] = same[0]
                continue
            if present is not None and present.source in places:
                wanted[name] = present
            located = [server.locate() for server in same]
            errors += [
                (place, str(duplicate_error(name, where, located, kind="server")))
                for place, where in zip(places, located, strict=True)
            ]
        self.wanted = wanted
        return errors

    def choose(self) -> list[Error]:
        """Choose those that may run; return why the others may not."""
        named = self.lockable
        wanted = [each for each in named.values() if each.is_enabled]
        self.refused = self._approvals.refuse_servers(wanted)
        self.approved = tuple(
            each
            for each in (*self.configured, *self.wanted.values())
            if each.name not in self.refused
        )
        self.refusals = [(named[name].place, why) for name, why in self.refused.items()]
        return self.refusals
