"""How does an engine start the driver of its fleet, and talk to it?"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, Protocol

import msgspec

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.executors.commands.strays import MARK, end_strays, marks_with, new_mark
from tool_engine.executors.fleet.frames import (
    BUNDLE,
    Frames,
    frame_message,
    read_bundle,
    split_messages,
    write_bundle,
)
from tool_engine.executors.python.worker import Answer, Fault
from tool_engine.logger import get_logger

_log: Final = get_logger(__name__)
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from tool_engine.executors.fleet.driver import serve_engine; serve_engine()"
)
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_timeout_ms_task_wait_for_death_info": "200",
    "RAY_core_worker_internal_heartbeat_ms": "100",
}
"""What Ray reads: no statistics to its makers, the interpreter that runs us on the nodes, and how
long a lost call waits for the cause of its worker's death to be known, and how often it looks
whether that time is over: a second otherwise, each of them."""
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without it Ray takes this machine's outer address for its node's, and listens on all of them."""
_AS_OTHERS: Final = {"RAY_worker_niceness": "0"}
"""As worker processes of `isolation: process` run; Ray gives its own what all others leave of the
processors, so that beside other work a call does not begin for a minute."""
_SECONDS_TO_JOIN: Final = 180.0
"""What does not listen is known in seconds. A server for clients starts a process for each, which
takes more than a minute where the machine of the head is busy; a call has a deadline of its own."""
_SECONDS_TO_CLEAN: Final = 0.3
"""What guardians have to end what a lost worker ran, before its calls end."""
_SECONDS_WITHOUT_DRIVER: Final = 1.0
"""The same where Ray has to notice that the driver is gone."""
_LONGEST_FOLDER: Final = 40
"""Characters of a folder below which Ray can make its sockets."""


class FleetLostError(ToolExecutionError):
    """The fleet cannot be reached; nothing of the call has run."""


class Said(msgspec.Struct):
    """What the driver says."""

    worker: int = 0
    ready: msgspec.Raw = msgspec.Raw()
    lost: str | None = None
    is_final: bool = False
    nodes: list[dict[str, Any]] | None = None
    free: dict[str, float] = {}
    python: str = ""
    ray: str = ""
    failed: str | None = None


class Unread(msgspec.Struct):
    """What is left of an answer that cannot be read."""

    id: int


class WorkerOwner(Protocol):
    """What hears of one worker."""

    def note_ready(self, said: bytes) -> None:
        """Take what `FleetHost.prepare` says."""

    def take(self, answers: list[Answer]) -> None:
        """Take answers and reports, in their order."""

    def note_gone(self) -> None:
        """Send it no more calls; `lose` follows, when what it ran has ended."""

    def lose(self, words: str, *, is_final: bool = False) -> None:
        """Hear that there is no such worker any more; another one would end alike if `is_final`."""


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a message raises that is no JSON, no text, or nested too deeply."""
_read_said: Final = msgspec.json.Decoder(Said).decode
_read_answers: Final = msgspec.json.Decoder(list[Answer]).decode
_read_raws: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_answer: Final = msgspec.json.Decoder(Answer).decode
_read_number: Final = msgspec.json.Decoder(Unread).decode


class FleetConnection:
    """The driver process of one fleet; it is started by `join`.

    Args:
        address: `auto`, `local` or `ray://...`.
        look: Is called whenever the nodes are known anew: every few seconds.
    """

    def __init__(self, address: str, look: Callable[[], object] = lambda: None) -> None:
        self.address = address
        self._look = look
        self.owners: dict[int, WorkerOwner] = {}
        self.nodes: list[dict[str, Any]] = []
        """What the fleet consisted of a moment ago."""
        self.free: dict[str, float] = {}
        """What of it no worker had."""
        self._lookers: dict[Callable[[], object], None] = {}
        self.versions: dict[str, str] = {}
        self._numbers = 0
        self._joined: asyncio.Future[None] | None = None
        self._frames: Frames | None = None
        self._process: DriverProcess | None = None
        self._starting: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._why = "its connection ended"
        self._is_closed = False

    @property
    def is_joined(self) -> bool:
        return self._joined is not None and self._joined.done() and self._frames is not None

    @property
    def pid(self) -> int | None:
        """The process id of the driver."""
        return None if self._process is None else self._process.pid

    async def join(self) -> None:
        """Join the fleet, once for all calls that want it; it takes seconds.

        Raises:
            MissingExtraError: Ray is not installed.
            FleetLostError: It cannot be joined.
        """
        if self._joined is None:
            self._joined = asyncio.get_running_loop().create_future()
            # No caller's: each may go, and the others still wait for it.
            self._starting = asyncio.create_task(self._start_driver(), name="tool-engine-fleet")
        await asyncio.shield(self._joined)

    def look_again(self, then: Callable[[], object]) -> None:
        """Ask which nodes there are now, and call `then` once that is known, or never will be."""
        is_asked = bool(self._lookers)
        self._lookers[then] = None
        if not is_asked:
            self._send_order(do="nodes")

    def _end_looking(self) -> None:
        lookers, self._lookers = self._lookers, {}
        for each in lookers:
            each()

    def start_worker(self, owner: WorkerOwner, options: dict[str, Any], settings: Any) -> int:
        """Have a worker started; `owner` hears of it by its number, which this returns."""
        self._numbers += 1
        self.owners[self._numbers] = owner
        self._send_order(do="start", worker=self._numbers, options=options, settings=settings)
        return self._numbers

    def send(self, worker: int, items: bytes, calls: int) -> None:
        """Send a list of requests and cancellations; `calls` of them are requests."""
        if self._frames is not None:
            self._frames.send(write_bundle(worker, calls, frame_message(items)))

    def end_worker(self, worker: int) -> None:
        """End a worker, whatever it does; its owner hears no more."""
        if self.owners.pop(worker, None) is not None:
            self._send_order(do="kill", worker=worker)

    async def close(self) -> None:
        """End the driver, and with it all that runs on the fleet for this engine."""
        self._why, self._is_closed = "the engine was closed", True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        process, frames = self._process, self._frames
        self._send_order(do="leave")
        if process is not None:
            await asyncio.to_thread(process.end_process)
        if frames is not None:
            frames.close()

    def _send_order(self, **words: Any) -> None:
        if self._frames is not None:
            self._frames.send(msgspec.json.encode(words))

    async def _start_driver(self) -> None:
        ours, theirs = socket.socketpair()
        self._why = "its connection ended"
        try:
            self._process = await asyncio.to_thread(DriverProcess, theirs, self.address)
            _, self._frames = await asyncio.get_running_loop().create_connection(
                lambda: Frames(self._hear_driver, self._note_end), sock=ours
            )
        except MissingExtraError as error:
            ours.close()
            self._end_joining(error)
            return
        except OSError as error:
            ours.close()
            self._give_up(f"its driver cannot be started: {error}")
            return
        finally:
            theirs.close()
        self._send_order(do="join", address=self.address)
        self._patience = asyncio.get_running_loop().call_later(
            _SECONDS_TO_JOIN, self._stop_joining, self._frames
        )

    def _hear_driver(self, message: bytes) -> None:
        if message.startswith(BUNDLE):
            self._hear_worker(*read_bundle(message))
            return
        said = _read_said(message)
        owner = self.owners.get(said.worker)
        if said.nodes is not None:
            self.nodes, self.free = said.nodes, said.free
            if said.ray:
                self.versions = {"python": said.python, "ray": said.ray}
                self._note_joined()
            self._end_looking()
            self._look()
        elif said.failed is not None:
            self._why = said.failed
        elif owner is None:
            return
        elif bytes(said.ready):
            owner.note_ready(bytes(said.ready))
        elif said.lost is not None:
            del self.owners[said.worker]
            self._lose_owners([owner], said.lost, said.is_final, _SECONDS_TO_CLEAN)

    def _hear_worker(self, worker: int, _: int, bundle: bytes) -> None:
        owner = self.owners.get(worker)
        if owner is None:
            return
        try:
            for each in split_messages(bundle):
                owner.take(_decode_answers(each))
        except _UNREADABLE as error:  # to which of its calls that belongs is not known either
            self.end_worker(worker)
            words = f"what it answered cannot be read: {error}"
            self._lose_owners([owner], words, False, _SECONDS_TO_CLEAN)

    def _lose_owners(
        self, owners: list[WorkerOwner], words: str, is_final: bool, seconds: float
    ) -> None:
        """Say that workers are lost, once the guardians on their nodes have ended what they ran.

        Until then nothing else may have the slots of their calls.
        """
        for owner in owners:
            owner.note_gone()

        def lose_now() -> None:
            for owner in owners:
                owner.lose(words, is_final=is_final)

        asyncio.get_running_loop().call_later(seconds, lose_now)

    def _stop_joining(self, frames: Frames | None) -> None:
        if not self.is_joined and frames is self._frames and frames is not None:
            self._why = f"it does not answer within {_SECONDS_TO_JOIN:g} s"
            frames.close()

    def _note_joined(self) -> None:
        self._stop_waiting()
        if self._joined is not None and not self._joined.done():
            self._joined.set_result(None)
            _log.info("fleet_joined", fleet=self.address, nodes=len(self.nodes), **self.versions)

    def _note_end(self) -> None:
        """The driver has ended: Ray may have ended it."""
        self._stop_waiting()
        self._frames = None
        self._end_looking()
        process, self._process = self._process, None
        if process is not None:
            # The loop's own threads may have ended: this is heard at its very end, too.
            threading.Thread(target=process.end_process, daemon=True).start()
        self._give_up(self._why)

    def _end_joining(self, error: Exception) -> None:
        """Have the next call join anew; those that wait get the error."""
        joined, self._joined = self._joined, None
        if joined is not None and not joined.done():
            joined.set_exception(error)
            joined.exception()  # it counts as seen: perhaps nothing waits any more

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self, why: str) -> None:
        self._end_joining(
            FleetLostError(
                f"the fleet {self.address!r} cannot be joined: {why}; see that it runs, that "
                "this machine reaches it, and that RAY_AUTH_TOKEN is the same here, if it has one"
            )
        )
        owners, self.owners = self.owners, {}
        words = f"the fleet was lost: {why}"
        self._lose_owners([*owners.values()], words, False, _SECONDS_WITHOUT_DRIVER)
        if owners and not self._is_closed:
            _log.warning("fleet_lost", fleet=self.address, reason=why)


def _decode_answers(message: bytes) -> list[Answer]:
    try:
        return _read_answers(message)
    except _UNREADABLE:
        return [_decode_answer(bytes(each)) for each in _read_raws(message)]


def _decode_answer(message: bytes) -> Answer:
    try:
        return _read_answer(message)
    except _UNREADABLE as error:
        fault = Fault("FleetError", f"its answer cannot be read: {error}", "execution")
        return Answer(_read_number(message).id, error=fault)


class DriverProcess:
    """The process that speaks to Ray, which is started at once.

    Args:
        theirs: Its end of the connection.
        address: The setting `fleet`.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, theirs: socket.socket, address: str) -> None:
        self._folder = self._mark = ""
        """Of the Ray that it starts itself, and of all processes that belong to that."""
        self._process = self._start_process(theirs, address)
        self.pid = self._process.pid

    def end_process(self) -> None:
        """Wait for its end, as its connection is closed; end it if it takes long. Blocks."""
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._folder:  # it removes that itself, unless it was killed
            # Some of Ray's own outlive such a driver.
            end_strays(self._mark)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start_process(self, theirs: socket.socket, address: str) -> subprocess.Popen[bytes]:
        if find_spec("ray") is None:
            raise MissingExtraError(
                "tools with isolation: ray need Ray: pip install 'tool-engine[ray]'"
            )
        environment = {**os.environ, **_QUIET}
        if address == "local":
            folder = tempfile.gettempdir()
            if len(folder) > _LONGEST_FOLDER:
                folder = "/tmp"  # noqa: S108 - mkdtemp makes a folder of its own there
            environment = {**_AS_OTHERS, **environment, **_LOOPBACK}
            environment["RAY_TMPDIR"] = self._folder = tempfile.mkdtemp(prefix="te-", dir=folder)
            self._mark = new_mark()
            environment[MARK] = marks_with(self._mark)
        return subprocess.Popen(  # noqa: S603 - this interpreter, our module
            [sys.executable, "-I", "-u", "-c", _START, str(theirs.fileno()), json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=environment,
            start_new_session=True,
        )
