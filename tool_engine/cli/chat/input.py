"""What does the user at the command line say, turn by turn?

Nothing is read ahead beyond one line of a terminal: the answer to a question is read elsewhere.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from tool_engine.approval.thread import in_own_thread
from tool_engine.cli.failures import CommandError

_AT_ONCE: Final = 65_536
_LONGEST: Final = 1_000_000
"""Bytes of one turn."""


class Said:
    """What the user says.

    Args:
        message: The whole input; None: each line of the standard input is a turn.

    Raises:
        CommandError: There is no message, and no standard input.
    """

    def __init__(self, message: str | None) -> None:
        self._message = message
        self._data = b""
        self._is_over = False
        self._stdin = -1 if message is not None else _stdin_descriptor()
        self.is_terminal = message is None and os.isatty(self._stdin)
        """Whether a person types it."""

    async def next(self) -> str | None:
        """Return the next turn; None: the end; empty: an empty line.

        Raises:
            CommandError: A line has more than 1,000,000 bytes.
        """
        if self._message is not None or self._stdin < 0:
            text, self._message = self._message, None
            return None if text is None else _decode_bytes(os.fsencode(text))
        while (line := await self._read_line()) is not None:
            text = self.take(line)
            if text or self.is_terminal:
                return text
        return None

    def take(self, line: bytes) -> str:
        """Return a line as a turn."""
        if len(line) > _LONGEST:
            raise CommandError(
                f"a line of stdin has more than {_LONGEST:,} bytes: say less in a turn"
            )
        return _decode_bytes(line)

    async def _read_line(self) -> bytes | None:
        while b"\n" not in self._data and not self._is_over:
            # Not the stream's own reading: a thread in it holds a lock when the program ends.
            part = await in_own_thread(_read_bytes, self._stdin)
            self._is_over = not part
            self._data += part
            if len(self._data) - len(part) > _LONGEST:
                self.take(self._data)
        line, end, self._data = self._data.partition(b"\n")
        return line if line or end else None


def _read_bytes(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _AT_ONCE)
    except OSError:
        # The terminal was closed.
        return b""


def _decode_bytes(data: bytes) -> str:
    """Decode as text that every model accepts."""
    return data.decode("utf-8", "backslashreplace").strip()


def _stdin_descriptor() -> int:
    try:
        if sys.stdin is not None:
            return sys.stdin.fileno()
    except (OSError, ValueError):
        pass  # it is closed: no standard input, as reported below
    raise CommandError("there is no standard input to read turns from: write a MESSAGE")
