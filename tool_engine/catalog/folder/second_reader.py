"""How does a second process help to read a large folder?

Checking a definition needs a processor, and Python gives a process one. So a second process reads
the same files from the last one on, and sends the tools of each text. Where it cannot be started,
dies or runs other code than this process, everything is read here.
"""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from tool_engine.catalog.definition_files import read_definition
from tool_engine.catalog.folder.cache_file import entry_of, rules_version
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError
from tool_engine.logger import get_logger
from tool_engine.model.tool import Tool

MIN_UNREAD: Final = 2_000
"""Fewer texts are read by one process before a second one has started."""

_BATCH: Final = 100
"""Texts in one message."""
_LENGTH: Final = 4
"""Bytes of the length before each batch."""
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.buffer.readline()); "
    "from tool_engine.catalog.folder.second_reader import serve_reader; serve_reader()"
)
_log = get_logger(__name__)
_decode_files: Final = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_batch: Final = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode


class SecondReader:
    """A process that reads `files` backwards until it is closed."""

    def __init__(self, files: Sequence[str]) -> None:
        self.entries: dict[bytes, bytes] = {}
        """The entry of each text that was read so far, by the SHA-256 of the text."""
        self._process: subprocess.Popen[bytes] | None = None
        if not _may_start():
            return
        try:
            self._process = _start_process()
        except OSError as error:
            _log.debug("second_reader_not_started", error=str(error))
            return
        self._thread = threading.Thread(
            target=self._exchange_files,
            args=(self._process, files),
            name="second-reader",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """End the process; the entries it sent stay."""
        if self._process is None:
            return
        self._process.kill()
        self._thread.join()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # Closing flushes what was not sent, to a process that is gone.
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process = None

    def _exchange_files(self, process: subprocess.Popen[bytes], files: Sequence[str]) -> None:
        if process.stdin is None or process.stdout is None:
            return
        try:
            process.stdin.write(msgspec.json.encode(sys.path) + b"\n")
            process.stdin.write(msgspec.msgpack.encode([os.fsencode(file) for file in files]))
            process.stdin.close()
            version = rules_version()
            if process.stdout.read(len(version)) == version:
                for batch in _read_batches(process.stdout):
                    self.entries.update(batch)
        except (OSError, ValueError, ImportError) as error:
            # It was killed, or was no reader at all.
            _log.debug("second_reader_lost", error=str(error))


def serve_reader() -> None:
    """Run the second process: read the given files, send their tools."""
    # It lives for seconds and keeps nothing that refers to itself.
    gc.disable()
    files = _decode_files(sys.stdin.buffer.read())
    out = sys.stdout.buffer
    out.write(rules_version())
    loader = ToolConfigLoader()
    # The first process may be gone: then nothing is left to do.
    with suppress(BrokenPipeError):
        for end in range(len(files), 0, -_BATCH):
            batch = {}
            for name in reversed(files[max(0, end - _BATCH) : end]):
                batch.update(_read_tools(loader, os.fsdecode(name)))
            data = msgspec.msgpack.encode(batch)
            out.write(len(data).to_bytes(_LENGTH, "big") + data)
            out.flush()


def _read_tools(loader: ToolConfigLoader, file: str) -> dict[bytes, bytes]:
    # What is wrong with a file is reported by the first process.
    with suppress(DefinitionError):
        text = read_definition(file).data
        read = loader.load_definitions(text, file)
        tools = [each for each in read if isinstance(each, Tool)]
        # An entry holds tools only, and would hide that there is a group.
        if len(tools) == len(read):
            return {hashlib.sha256(text).digest(): entry_of(tools, file)}
    return {}


def _read_batches(pipe: IO[bytes]) -> Iterator[dict[bytes, bytes]]:
    while len(head := pipe.read(_LENGTH)) == _LENGTH:
        data = pipe.read(int.from_bytes(head, "big"))
        yield _decode_batch(data)


def _may_start() -> bool:
    """Return True with a second processor and a known interpreter."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    is_python = Path(sys.executable or "").name.lower().startswith(("python", "pypy"))
    return processors > 1 and is_python and not getattr(sys, "frozen", False)


def _start_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - this interpreter, with our own code
        [sys.executable, "-I", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The terminal's interrupt is for the first process, which ends this one.
        start_new_session=True,
    )
