"""Does an entry ask its handler for something that the handler never does?

A handler such as `echo` reads no key of the entry. One that stands there all the same shows that
its author expects something else to run: a request, a statement or a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.executors.entry_reader import WORK_KEYS, EntryReader, find_work_cure

_ENTRY_KEYS: Final = ("type", "handler", "config")


class _Reader(EntryReader[bool]):
    def read(self) -> bool:
        entry = self.tool.implementation_config
        handler = self.tool.handler
        for key in entry:
            if key not in _ENTRY_KEYS:
                self.problem(
                    f"entry.{key}", f"{handler} never uses {key!r}; {_find_cure(entry, key)}"
                )
        for key in self.any_config():
            self.problem(f"entry.config.{key}", f"{handler} has no settings; remove {key!r}")
        return True


def _find_cure(entry: Mapping[str, Any], key: str) -> str:
    if key in WORK_KEYS and entry.get("handler"):
        return find_work_cure(key)
    return "remove it, or name the handler that uses it"


check_entry = _Reader.check
