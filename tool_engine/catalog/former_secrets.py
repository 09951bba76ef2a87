"""Which arguments did earlier definitions of a tool call secret?

A call may come with arguments that were written for a definition that is gone: the model read it
before a reload, or a person was asked meanwhile. So what was once secret under a tool's name stays
hidden in its calls for as long as the engine is there.
"""

from __future__ import annotations

import msgspec

from tool_engine.catalog.index import ToolIndex
from tool_engine.model.tool import Tool, may_declare_secrets


class FormerSecrets:
    """Carry what was secret over to the definitions that follow."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    def keep(self, index: ToolIndex, present: ToolIndex) -> ToolIndex:
        """Return the snapshot that replaces `present`, with what its tools once called secret."""
        for old in present.new_since(index):
            if may_declare_secrets(old) and (secret := old.secret_names | old.secret_parts):
                self._known[old.name] = self._known.get(old.name, frozenset()) | secret
        changes: dict[str, Tool | None] = {}
        for name, known in self._known.items():
            tool = index.get(name)
            if tool is not None and (kept := _with_former(tool, known)) is not tool:
                before = present.get(name)
                # A tool that stays as it is stays the same value, so that a reload changes nothing.
                changes[name] = before if before == kept else kept
        return index.with_changes(changes) if changes else index


def _with_former(tool: Tool, known: frozenset[str]) -> Tool:
    own = msgspec.structs.replace(tool, once_secret=()) if tool.once_secret else tool
    once = tuple(sorted(known - own.secret_names - own.secret_parts))
    return tool if once == tool.once_secret else msgspec.structs.replace(own, once_secret=once)
