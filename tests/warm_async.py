"""A program of `tests/warm.py` for async tests: has what they use of `asyncio.subprocess.Process`.

Its process id is that of the program itself: it can be killed, stopped and waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.warm import Program

__all__ = ["AsyncProgram", "start"]


class AsyncProgram:
    """A running program, with its streams; see `start`."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, program: Program) -> None:
        self._program = program
        self.pid = program.pid
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()

    @property
    def returncode(self) -> int | None:
        """Its exit code, if it has ended."""
        return self._program.poll()

    async def connect(self, limit: int) -> None:
        """Makes streams of its pipes, and waits for its end from then on."""
        given = self._program
        assert given.stdin is not None
        assert given.stdout is not None
        assert given.stderr is not None
        self.stdout = await self._read_from(given.stdout, limit)
        self.stderr = await self._read_from(given.stderr, limit)
        transport, protocol = await self._loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, given.stdin
        )
        self.stdin = asyncio.StreamWriter(transport, protocol, None, self._loop)
        # Not before: the end of a short program closes its input.
        self._loop.add_reader(given.status, self._note_end)

    async def _read_from(self, pipe: IO[bytes], limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit)
        await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return reader

    def _note_end(self) -> None:
        self._loop.remove_reader(self._program.status)
        code = self._program.wait()
        self.stdin.close()
        if not self._ended.done():
            self._ended.set_result(code)

    async def wait(self) -> int:
        """Waits for its end; gives its exit code."""
        return await asyncio.shield(self._ended)

    async def communicate(self, sent: bytes | None = None) -> tuple[bytes, bytes]:
        """Sends its input, and gives all that it wrote."""
        if sent:
            self.stdin.write(sent)
        self.stdin.close()
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        self._program.send_signal(number)

    def terminate(self) -> None:
        """Asks it to end."""
        self._program.terminate()

    def kill(self) -> None:
        """Ends it at once."""
        self._program.kill()

    async def end(self) -> None:
        """Ends it at once, unless it has ended, and waits for that."""
        if self.returncode is None:
            self.kill()
        await self.wait()


async def start(
    *words: str,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    imports: tuple[str, ...] = (),
    limit: int = 1 << 16,
) -> AsyncProgram:
    """Starts a program of this Python: `words` as behind `python`, `-m` or `-c` first.

    Args:
        words: What to run.
        cwd: Where; the folder of now.
        env: With which variables; those of now.
        imports: Modules that it needs beside those in `warm.WARM`.
        limit: Bytes of a line that is read.
    """
    given: dict[str, Any] = {"cwd": cwd, "env": env, "imports": imports}
    program = AsyncProgram(Program(words, **given))
    await program.connect(limit)
    return program
