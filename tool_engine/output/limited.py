"""What is an output under `result` limits, for each of its readers?"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from tool_engine.model.call import ToolExecutionContext


class Reader(msgspec.Struct, frozen=True):
    """A reader of an output."""

    call_id: str
    can_read: bool
    """True if it may call `read_result`."""


class Cut(Protocol):
    """An output that is only partly shown."""

    @property
    def has_levels_left_out(self) -> bool:
        """Whether something was left out because it is nested too deep."""

    def shown_to(self, reader: Reader, *, is_kept: bool) -> dict[str, Any]:
        """Return the output with the note."""

    def facts(self, reader: Reader, *, is_kept: bool) -> dict[str, Any]:
        """Return the cut for programs, as `metadata["cut"]`."""


class Kept(Protocol):
    """The part of an output that a record keeps."""

    @property
    def result(self) -> bytes:
        """Return a snapshot of what the tool returned, as every record has it."""

    @property
    def whole(self) -> bytes | None:
        """Return a snapshot of the uncut output, where `result` does not have all of it."""

    @property
    def is_whole(self) -> bool:
        """True if nothing of the output was lost."""


class LimitedOutput(msgspec.Struct, frozen=True):
    """The value of a tool with limits, after they were applied."""

    output: dict[str, Any]
    """The whole output before cutting: what the tool returned, or the selected part."""
    kept: Kept
    """What the record has."""
    cut: Cut | None
    """None where nothing was cut."""
    has_reader: bool
    """True if there is a tool to read the rest with."""

    def shown_to(
        self, call_id: str, context: ToolExecutionContext
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the output of a call and its `metadata["cut"]`; None: nothing was cut.

        A call that a tool makes for itself gets all: it is a program that reads its result.
        """
        if self.cut is None or context.is_for_tool:
            return self.output, None
        is_kept = self.kept.is_whole and not self.cut.has_levels_left_out
        reader = Reader(call_id, self.has_reader and is_known(context))
        return (
            self.cut.shown_to(reader, is_kept=is_kept),
            self.cut.facts(reader, is_kept=is_kept),
        )


def is_known(context: ToolExecutionContext) -> bool:
    """True if the caller is identifiable, so that it may read its results."""
    names = (context.caller_id, context.conversation_id, context.workflow_id)
    return any(name is not None for name in names)
