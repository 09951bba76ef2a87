"""What did a tool say when it was approved?

The lock file has hashes only. What they stand for may still be known: from the texts that are
written for tools of sources, or from a generation that is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from tool_engine.catalog.approval.approved_texts import read_texts
from tool_engine.catalog.approval.lock import ToolLock, content_hash
from tool_engine.errors import LockFileError
from tool_engine.model.tool import Tool


def find_approved(lock_file: str, name: str, earlier: Iterable[Tool]) -> Tool | None:
    """Return a tool as its lock file approves it; None: that is not known any more. Blocks.

    Args:
        lock_file: The path of the lock file.
        name: The name of the tool.
        earlier: What the tool was in generations that are kept.
    """
    with suppress(LockFileError):
        lock = ToolLock.read(lock_file)
        known = lock.tools.get(name)
        if known is None:
            return None
        same = (each for each in earlier if content_hash(each) == known.definition)
        return next(same, None) or read_texts(lock).get(name)
    return None
