"""How does an engine start the driver of its fleet, and talk to it?"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.executors.fleet.driver_process import DriverProcess
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
_SECONDS_TO_JOIN: Final = 180.0
"""What does not listen, or never answers, is known in seconds. A server for clients starts a
process for each, which takes more than a minute where the machine of the head is busy; a call has a
deadline of its own."""
_SECONDS_TO_DOUBT: Final = 60.0
"""A head does not notice for as long as its operator likes that such a process has died; for
another driver it starts another one. The next try has twice as long."""
_MOST_TRIES: Final = 3
_FOR_CLIENTS: Final = "ray://"
"""What the address of such a server begins with."""
_SECONDS_TO_CLEAN: Final = 0.3
"""What guardians have to end what a lost worker ran, before its calls end."""
_SECONDS_WITHOUT_DRIVER: Final = 1.0
"""The same where Ray has to notice that the driver is gone."""


class FleetLostError(ToolExecutionError):
    """The fleet cannot be reached; nothing of the call has run."""


class Said(msgspec.Struct):
    """What the driver says."""

    worker: int = 0
    is_placed: bool = False
    """Whether the worker is on a node, with all that it needs of it."""
    ready: msgspec.Raw = msgspec.Raw()
    lost: str | None = None
    is_final: bool = False
    nodes: list[dict[str, Any]] | None = None
    free: dict[str, float] = {}
    python: str = ""
    ray: str = ""
    failed: str | None = None
    is_passing: bool = False
    """Whether what has failed may succeed when it is tried again."""


class Unread(msgspec.Struct):
    """What is left of an answer that cannot be read."""

    id: int


class WorkerOwner(Protocol):
    """What hears of one worker."""

    def note_placed(self) -> None:
        """Know that it is on a node, where it starts."""

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
        self._loop: asyncio.AbstractEventLoop | None = None
        """The only one that it is watched on."""
        self._joined: asyncio.Future[None] | None = None
        self._frames: Frames | None = None
        self._process: DriverProcess | None = None
        self._starting: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._why = "its connection ended"
        self._is_closed = self._is_passing = False
        self._tries, self._until = 0, 0.0

    @property
    def is_joined(self) -> bool:
        is_joined = self._joined is not None and self._joined.done() and self._frames is not None
        return is_joined and self._loop is not None and not self._loop.is_closed()

    @property
    def pid(self) -> int | None:
        """The process id of the driver."""
        return None if self._process is None else self._process.pid

    async def join(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of one caller
        """Join the fleet, once for all calls that want it; it takes seconds.

        Args:
            timeout: Seconds after which this caller waits no more; others may go on.

        Raises:
            MissingExtraError: Ray is not installed.
            FleetLostError: It cannot be joined, or not within that time.
        """
        if self._is_closed:
            raise FleetLostError(self._why)
        if self._joined is None:
            self._loop = loop = asyncio.get_running_loop()
            self._joined = loop.create_future()
            self._tries, self._until = 0, loop.time() + _SECONDS_TO_JOIN
            self._begin_try()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._joined)
        except TimeoutError:
            why = f"it was not joined within {timeout:g} s, which it may take"
            raise self._make_error(why) from None

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

    def abandon(self, why: str) -> threading.Thread | None:
        """End the driver of a loop that has ended, or rests, and so may hear of nothing any more.

        Args:
            why: What calls that are still there are refused with.

        Returns:
            What waits for its end; None: there is none.
        """
        self._why, self._is_closed = why, True
        if self._frames is not None:
            self._frames.cut()
        if self._process is None:
            return None
        ending = threading.Thread(target=self._process.end_process, daemon=True)
        ending.start()
        return ending

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - then it is killed
        """End the driver, and with it all that runs on the fleet for this engine."""
        self._why, self._is_closed = "the engine was closed", True
        if self._loop is not asyncio.get_running_loop():
            if (ending := self.abandon(self._why)) is not None:
                await asyncio.to_thread(ending.join, timeout)
            return
        if self._starting is not None:
            await asyncio.wait([self._starting])
        process, frames = self._process, self._frames
        self._send_order(do="leave", seconds=timeout / 2)
        if process is not None:
            await asyncio.to_thread(process.end_process, timeout)
        if frames is not None:
            frames.close()

    def _send_order(self, **words: Any) -> None:
        if self._frames is not None:
            self._frames.send(msgspec.json.encode(words))

    def _begin_try(self) -> None:
        self._tries += 1
        self._why, self._is_passing = "its connection ended", False
        # No caller's: each may go, and the others still wait for it.
        self._starting = asyncio.create_task(self._start_driver(), name="tool-engine-fleet")

    async def _start_driver(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            await asyncio.to_thread(self._start_process, theirs)
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
        except asyncio.CancelledError:
            ours.close()  # its loop ends; the driver does, too
            raise
        finally:
            theirs.close()
        self._send_order(do="join", address=self.address)
        loop = asyncio.get_running_loop()
        until = self._until
        if self._tries < _MOST_TRIES and self.address.startswith(_FOR_CLIENTS):
            until = min(until, loop.time() + _SECONDS_TO_DOUBT * self._tries)
        self._patience = loop.call_at(until, self._stop_joining, self._frames)

    def _start_process(self, theirs: socket.socket) -> None:
        # Kept even if nothing waits for it any more.
        self._process = DriverProcess(theirs, self.address)

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
            self._why, self._is_passing = said.failed, said.is_passing
        elif owner is None:
            return
        elif said.is_placed:
            owner.note_placed()
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
            self._is_passing = True
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
        if self._can_try_again():
            self._begin_try()
        else:
            self._give_up(self._why)

    def _can_try_again(self) -> bool:
        is_joining = self._joined is not None and not self._joined.done()
        is_time = asyncio.get_running_loop().time() < self._until and self._tries < _MOST_TRIES
        is_useful = self._is_passing and self.address.startswith(_FOR_CLIENTS)
        return is_joining and is_time and is_useful and not self._is_closed

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
        self._end_joining(self._make_error(why))
        owners, self.owners = self.owners, {}
        words = f"the fleet was lost: {why}"
        self._lose_owners([*owners.values()], words, False, _SECONDS_WITHOUT_DRIVER)
        if owners and not self._is_closed:
            _log.warning("fleet_lost", fleet=self.address, reason=why)

    def _make_error(self, why: str) -> FleetLostError:
        return FleetLostError(
            f"the fleet {self.address!r} cannot be joined: {why}; see that it runs, that this "
            "machine reaches it, and that RAY_AUTH_MODE and RAY_AUTH_TOKEN are the same here, if "
            "it has a token"
        )


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
