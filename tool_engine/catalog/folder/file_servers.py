"""Which servers do files name, and which of them may run?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tool_engine.catalog.approval.approvals import Approvals
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.loader import duplicate_error

Error = tuple[str, str]


class FileServers:
    """The servers of tools that the files of a folder define.

    Args:
        approvals: A server starts a program, so it runs only as it is approved.
    """

    def __init__(self, approvals: Approvals) -> None:
        self.wanted: Mapping[str, ServerDefinition] = {}
        """By name, approved or not."""
        self.approved: tuple[ServerDefinition, ...] = ()
        self.refused: dict[str, str] = {}
        """Why the others may not run, by name."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when something may be different, and after each change of the tools."""
        self.errors: list[Error] = []
        """What is wrong with those that run, and with those that the configuration names."""
        self._approvals = approvals

    def __repr__(self) -> str:
        return f"FileServers({[*self.wanted]}, refused={[*self.refused]})"

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
            errors += [
                (place, str(duplicate_error(name, place, places, kind="server")))
                for place in places
            ]
        self.wanted = wanted
        return errors

    def choose(self) -> list[Error]:
        """Choose those that may run; return why the others may not."""
        self.refused = self._approvals.refuse_servers(self.wanted.values())
        self.approved = tuple(
            each for each in self.wanted.values() if each.name not in self.refused
        )
        return [(str(self.wanted[name].source), why) for name, why in self.refused.items()]
