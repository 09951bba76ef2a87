"""Which tools may an engine call, and how does it approve others?

The lock file as one engine holds it: read when the folder is looked at, asked for each tool, and
written when the program that embeds the engine approves something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tool_engine.catalog.lock import LockedTool, ToolLock, content_hash, is_hash
from tool_engine.catalog.quarantine import QuarantinedTool
from tool_engine.errors import LockFileError, ToolNotFoundError
from tool_engine.model.tool import Tool

__all__ = ["Approvals"]


class Approvals:
    """What a lock file approves.

    Args:
        file: The lock file.
        code_hash: The hash of the code that runs a tool; None when nothing runs it yet.
        is_enforced: False: every tool may be called, and the file is not looked at.
    """

    def __init__(
        self, file: str, code_hash: Callable[[Tool], str | None], *, is_enforced: bool
    ) -> None:
        self.file = file
        self.is_enforced = is_enforced
        self._code_hash = code_hash
        self._lock = ToolLock(file=file, problem=f"{file} was not read yet")
        self._hashes: dict[str, tuple[Tool, str]] = {}

    def __repr__(self) -> str:
        return f"Approvals({self._lock!r}, is_enforced={self.is_enforced})"

    @property
    def problem(self) -> str | None:
        """Why nothing is approved, when the file cannot be used."""
        return self._lock.problem if self.is_enforced else None

    @property
    def state(self) -> tuple[object, ...]:
        """Another value than before when the file says something else."""
        return (self._lock.data, self.problem)

    def read(self) -> None:
        """Reads the file if approvals are enforced; blocks."""
        if not self.is_enforced:
            return
        try:
            self._lock = ToolLock.read(self.file, self._lock)
        except LockFileError as error:
            self._lock = ToolLock(file=self.file, problem=str(error))

    def covers_code(self, tool: Tool) -> bool:
        """Whether the code that runs `tool` was approved with it."""
        approved = self._lock.tools.get(tool.name)
        return self.is_enforced and approved is not None and approved.handler is not None

    def refusal(self, tool: Tool) -> QuarantinedTool | None:
        """Why `tool` may not be called; None when it may."""
        if not self.is_enforced:
            return None
        code = self._code_hash(tool) if self.covers_code(tool) else None
        return self._lock.refusal(tool, self._content_hash(tool), code)

    def known(self) -> ToolLock:
        """What the file holds now, no approvals if there is none; blocks.

        Raises:
            LockFileError: It cannot be read, or is no lock file.
        """
        return ToolLock.read_or_start(self.file)

    def with_approved(
        self, known: ToolLock | None, tools: Mapping[str, Tool], names: Iterable[str]
    ) -> ToolLock:
        """A lock in which `names` are approved as they stand in `tools`.

        Args:
            known: What else stays approved; None: nothing.
            tools: The tools that files define.
            names: Whom to approve; a name that no file defines loses its approval.

        Raises:
            ToolNotFoundError: A name stands neither in `tools` nor in `known`.
        """
        approved = {} if known is None else dict(known.tools)
        for name in names:
            before = approved.pop(name, None)
            if name in tools:
                approved[name] = self._approved(tools[name])
            elif before is None:
                raise ToolNotFoundError(
                    f"no file defines the tool {name!r}, and {self.file} does not have it"
                )
        return ToolLock(approved.values(), file=self.file)

    def _approved(self, tool: Tool) -> LockedTool:
        code = self._code_hash(tool)
        handler = code if code is not None and is_hash(code) else None
        return LockedTool(tool.name, tool.version, self._content_hash(tool), handler)

    def _content_hash(self, tool: Tool) -> str:
        known = self._hashes.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._hashes[tool.name] = (tool, content_hash(tool))
        return known[1]
