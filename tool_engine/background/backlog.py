"""Of which tools may tasks wait in the storage, so that new ones have to wait, too?

An engine looks for such tasks again and again, since others may have left some. That alone holds up
no new task: only what is known to wait comes before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet


class Backlog:
    """What is known of the tasks that wait in the storage: at first, that there are none."""

    __slots__ = ("_is_any", "_is_old", "_late", "_tools", "is_due")

    def __init__(self) -> None:
        self._is_any = self._is_old = self.is_due = False
        self._tools: set[str] = set()
        self._late: set[str] = set()

    def __repr__(self) -> str:
        tools = "any tool" if self._is_any else ", ".join(sorted(self._tools)) or "no tool"
        return f"<Backlog of {tools}{', to be looked at' if self.is_due else ''}>"

    @property
    def has_any(self) -> bool:
        """True if there may be some that came before a new task."""
        return self._is_any or bool(self._tools)

    def may_hold(self, tool_name: str) -> bool:
        """Return True if there may be some that a new task of a tool has to wait for."""
        return self._is_any or tool_name in self._tools

    def expect_any(self) -> None:
        """Note that there may be some of each tool, and that they have to be looked for."""
        self._is_any = self.is_due = True

    def look_for_others(self) -> None:
        """Look again, since other engines may have left some of any tool."""
        self._is_old = self.is_due = True

    def note_waiting(self, tool_name: str) -> None:
        """Note that there is one of a tool."""
        self._tools.add(tool_name)
        self._late.add(tool_name)
        self.is_due = True

    def begin_look(self) -> None:
        """Note that they are looked for: what comes from here on may be seen or not."""
        self._late.clear()

    def end_look(
        self, left_out: AbstractSet[str], taken: Iterable[str] = (), *, is_whole: bool
    ) -> None:
        """Note what a look has shown.

        Args:
            left_out: The tools that it was not about.
            taken: The tools of the tasks that were taken.
            is_whole: Whether all others were taken.
        """
        if not is_whole:
            # Of which tools some wait is known from the last whole look, unless others came since.
            self._is_any = self._is_any or self._is_old
            self._tools.update(taken)
        else:
            self._is_any = self._is_old = False
            self._tools = {*left_out, *self._late}
            self.is_due = bool(self._late)

    def rest_while_full(self, full: AbstractSet[str]) -> None:
        """Look for no more while each tool of which some may wait has all its places.

        Else each place that comes free costs a look more, at all that wait, which finds nothing.
        """
        if not self._is_any and self._tools <= full:
            self.is_due = False
