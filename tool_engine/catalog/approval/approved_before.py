"""What did a tool say when it was approved?

The lock file has hashes only. What they stand for may still be known: from a generation that is
kept, or, of tools of servers, from what is written beside the lock, since what a server says stands
in no file of ours. People compare it; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tool_engine.catalog.approval.lock import ToolLock, content_hash
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import LockFileError, ToolEngineError
from tool_engine.model.tool import Tool
from tool_engine.named_file import why_unwritten, write_named

_ENDING: Final = ".definitions"
_HEAD: Final = """\
# What tools of servers said when they were approved, for `tool-engine mcp diff`.
# Written with the lock file; only what stands there is approved.
"""


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


def texts_file(lock_file: str) -> str:
    """Return the file beside a lock file."""
    return f"{lock_file}{_ENDING}"


def read_texts(lock: ToolLock) -> dict[str, Tool]:
    """Return the tools of sources as they were approved, as far as that is known. Blocks."""
    found: dict[str, Tool] = {}
    with suppress(OSError, ToolEngineError):
        data = Path(texts_file(lock.file)).read_bytes()
        for tool in ToolConfigLoader().load_tools(data, texts_file(lock.file)):
            known = lock.tools.get(tool.name)
            if known is not None and known.origin is not None:
                said = replace(tool, source=f"<{known.origin}>", findings=[])
                if content_hash(said) == known.definition:
                    found[tool.name] = said
    return found


def write_texts(lock: ToolLock, present: Mapping[str, Definition]) -> None:
    """Write what tools of sources say, as they are approved. Blocks.

    Raises:
        LockFileError: The file cannot be written.
    """
    wanted = {name: known for name, known in lock.tools.items() if known.origin is not None}
    file = texts_file(lock.file)
    if not wanted and not Path(file).exists():
        return
    before, loader = read_texts(lock), ToolConfigLoader()
    texts: list[str] = []
    for name in sorted(wanted):
        tool = present.get(name)
        if not isinstance(tool, Tool) or content_hash(tool) != wanted[name].definition:
            tool = before.get(name)
        if tool is not None:
            # What cannot be written as a file is compared by its hash alone.
            with suppress(ToolEngineError):
                texts.append(loader.export_to_yaml(tool))
    try:
        write_named(file, (_HEAD + "---\n".join(texts)).encode())
    except OSError as error:
        raise LockFileError(f"cannot write {file}: {why_unwritten(error)}") from error
