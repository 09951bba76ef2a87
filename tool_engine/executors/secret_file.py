"""What does the file behind `${file:/path}` hold?

Such files are what containers mount: short texts that may change while the program runs.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from tool_engine.errors import ToolExecutionError

MAX_SECRET_BYTES: Final = 64 * 1024
# A pipe without a writer must not hold the call up; Windows has no such files.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def read_secret_file(path: str) -> str:
    """Return the file's text, without line breaks at its end. Blocks.

    Raises:
        ToolExecutionError: It is missing, empty, larger than 64 KiB, or no text.
    """
    try:
        data = _read_bytes(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _unusable_error(
            path, f"cannot be read ({reason})", "create it, or let the engine's user read it"
        ) from None
    if len(data) > MAX_SECRET_BYTES:
        raise _unusable_error(
            path, f"is larger than {MAX_SECRET_BYTES} bytes", "name the file of one secret"
        )
    try:
        text = data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise _unusable_error(path, "is not text in UTF-8", "write the secret into it as text")
    if not text:
        raise _unusable_error(path, "is empty", "write the secret into it")
    return text


def _read_bytes(path: str) -> bytes:
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(MAX_SECRET_BYTES + 1)


def _unusable_error(path: str, state: str, cure: str) -> ToolExecutionError:
    return ToolExecutionError(f"the secret file {path} {state}; the tool needs it: {cure}")
