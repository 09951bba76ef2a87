"""What gives a whole set of tools to an engine, beside files and code?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from tool_engine.interfaces.executor import ToolExecutor
from tool_engine.model.tool import Tool

CODE_PLACE: Final = "<code>"
"""The place of what a program says."""


class ListedTool(msgspec.Struct, frozen=True):
    """A tool as a list in another format has it, with what its definition says beside that."""

    entry: Mapping[str, Any]
    """The tool as OpenAI, Anthropic, Gemini or MCP have it."""
    definition: Mapping[str, Any] = {}
    """Fields of a definition, such as `timeout`: they win over what is made of `entry`."""
    notes: tuple[str, ...] = ()
    """Sentences that become findings of the tool."""
    fault: str = ""
    """Why it is left out; empty: it is not."""

    place: str = CODE_PLACE
    """Where `definition` is written: what is wrong with the tool is said of it."""

    @property
    def name(self) -> str:
        """What it is called here."""
        name = self.definition.get("name") or self.entry.get("name")
        return name if isinstance(name, str) else ""


class CatalogSource(Protocol):
    """Gives a whole set of tools, and says when it changes; see `ToolEngine.add_source`.

    Derive from this class; what is not abstract may be left out. All of it is called on the
    engine's event loop. One that holds resources has `async def close(self)`: it is called once,
    when the source was removed, which waits for nothing, or by the engine when it closes. Calls of
    its tools may still run after it was removed, and it may wait for them.

    One that not every engine may add has `def check_free(self)`, which raises `ConfigurationError`.

    One with a text `prefix` has it put before those of its tools' names that are taken, as
    `PREFIX_name`; without one these tools are left out. Its executor then finds out by `entry`
    which tool is meant, and not by the name.
    """

    origin: str
    """Its kind and its name, as `mcp:github`: the `Tool.origin` of its tools. It stays the same."""

    executor: ToolExecutor | None = None
    """Runs its tools, whatever their `entry` says; None: what `entry` says, as with files. The
    engine closes it, when it closes itself."""

    @abstractmethod
    async def read_tools(self) -> Iterable[Tool | ListedTool | Mapping[str, Any]]:
        """Return all tools that it has now: as tools, as definitions, or as other lists have them.

        Whatever it raises is reported, and its tools stay as they were. A tool that did not change
        is best returned as the same object: then it costs nothing.
        """

    def follow(self, notify: Callable[[], None]) -> None:
        """Keep `notify`, and call it after each change: from any thread, as often as wanted.

        Called once, before the first reading. After the source was removed `notify` does nothing.
        """
