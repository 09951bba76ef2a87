"""How does a connection to a server stay open, come back, and hold up no other call?

One task owns the connection: it opens it, reads the list, hears of changes, closes it, and opens it
anew after a pause that grows. Calls only use what is open. One that finds nothing open has the
owner try at once, and waits for that one try.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tool_engine.errors import MissingExtraError, ToolExecutionError
from tool_engine.executors.lost_work import WorkerLostError
from tool_engine.executors.mcp.faults import (
    BadServerError,
    LostError,
    NotSentError,
    RefusedError,
    find_first,
    shorten_reason,
)
from tool_engine.executors.mcp.server_call import ServerCall
from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.executors.secrets import SecretScope
from tool_engine.forking import disown_in_child
from tool_engine.logger import get_logger
from tool_engine.redaction import shorten_words, words_of

if TYPE_CHECKING:
    from tool_engine.executors.mcp.peer import OnProgress, Peer

_log: Final = get_logger(__name__)
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
_SHORTEST_REST: Final = 0.25
"""Seconds from the end of a try that failed to one that a call has made."""
_PATIENCE: Final = 2.0
"""Seconds that a call waits for a try after one that failed."""
_LISTEN_LIMIT: Final = 2.0
"""Seconds that the list waits for the server to say that it announces changes."""
_REST: Final = 0.1
"""Seconds between two readings of the list, and at least twice what one takes; then more."""
_CLOSE_LIMIT: Final = 8.0
_MISSING: Final = "needs the SDK of MCP: pip install 'tool-engine[mcp]'"


class Connection:
    """The connection to one server; lives on the loop that it was started on.

    Args:
        settings: The server.
        on_change: Called after its list was read, and differs or may differ.
        options: See `open_peer`.
    """

    def __init__(
        self,
        settings: MCPServerSettings,
        on_change: Callable[[], None],
        options: Mapping[str, Any],
    ) -> None:
        self.settings = settings
        self.locate: Callable[[tuple[str | int, ...]], str] = lambda _: ""
        """Returns where a part of the settings is written; empty: in no file."""
        self.tools: list[dict[str, Any]] | None = None
        """Its tools as they stood on the wire last; None: it has never given a list."""
        self.faults: dict[str, str] = {}
        """What is wrong with tools that are not in the list, by name."""
        self.peer_version = ""
        """The name and the version that it gives itself."""
        self.is_reached = False
        """Whether its address has taken a connection since the last try to connect began."""
        self._on_change = on_change
        self._options = {**options, "on_reach": self._note_reached}
        self._peer: Peer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.Task[None] | None = None
        self._foreign = ""
        """Why it cannot be used in this process; empty: it can."""
        self._is_closing = False
        self._wanted = asyncio.Event()
        self._stale = asyncio.Event()
        self._tried = asyncio.Event()
        self._reason = ""
        self.fault_part: tuple[str | int, ...] = ()
        """The path of the part of its settings that is to be mended, where the last try failed."""
        self._down_since: float | None = None
        self._next_try = 0.0
        self._begun = 0
        """Tries to connect so far."""
        self._failed = 0
        """The number of the last one that failed."""
        self._is_trying = False
        self._has_failed = False
        self._opened = 0.0
        self._running = 0
        self._idle = asyncio.Event()
        self._secrets = SecretScope()

    def __repr__(self) -> str:
        return f"<Connection {self.settings.name}: {self.state}>"

    @property
    def state(self) -> str:
        """What it is doing, in words that follow the name of the server."""
        if self._foreign:
            return f"cannot be used here: {self._foreign}"
        if self._is_closing:
            return "is closed"
        if self._peer is not None:
            return "is connected"
        if self._owner is None and find_spec("mcp") is None:
            return _MISSING
        if self._down_since is None:
            return "is being connected"
        since = datetime.fromtimestamp(self._down_since).astimezone().strftime("%H:%M:%S")
        wait = max(0.0, self._next_try - time.monotonic())
        after = f", next try in {wait:.1f} s" if wait > 0 else ", being tried again"
        return f"is down since {since} ({self._reason}){after}"

    @property
    def is_connected(self) -> bool:
        return self._peer is not None and not self._foreign

    @property
    def is_foreign(self) -> bool:
        """Whether it is of the process that this one was forked from."""
        return bool(self._foreign)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, which it stays."""
        return self._is_closing

    @property
    def reason(self) -> str:
        """Why the last try failed; empty: it did not."""
        return self._reason

    @property
    def _reached_by(self) -> tuple[str | int, ...]:
        """The part of its settings by which it is reached."""
        return ("url",) if self.settings.url else ("command",)

    def _note_reached(self) -> None:
        self.is_reached = True

    def start(self) -> None:
        """Connect, in a task of its own.

        Raises:
            MissingExtraError: The SDK is not installed.
            ToolExecutionError: It belongs to the process that this one was forked from.
        """
        self._require_own()
        if self._owner is None and not self._is_closing:
            if find_spec("mcp") is None:
                raise MissingExtraError(f"the server {self.settings.name!r} {_MISSING}")
            self._loop = asyncio.get_running_loop()
            disown_in_child(self)
            name = f"tool-engine-mcp {self.settings.name}"
            self._owner = self._loop.create_task(self._keep_open(), name=name)

    def disown(self, reason: str) -> None:
        """Leave the connection to the process that has opened it: this is a child of it."""
        # Its owner, of which the child has a copy, must not connect there when it is cancelled.
        self._foreign, self._is_closing = reason, True

    async def wait_for_try(self) -> None:
        """Wait until the first try has succeeded or failed."""
        while self._peer is None and not self._failed and not self._is_closing:
            await self._tried.wait()

    def refresh(self) -> None:
        """Have the list read again."""
        self._stale.set()

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        on_progress: OnProgress | None = None,
        *,
        is_repeatable: bool = False,
        deadline: float | None = None,
    ) -> Awaitable[dict[str, Any]]:
        """Call a tool; its result comes as it stands on the wire, secrets hidden.

        Args:
            name: The server's own name of the tool.
            arguments: What it is called with.
            on_progress: Hears of progress.
            is_repeatable: Whether it may run twice where the server was lost.
            deadline: When its caller gives up, by the clock of the caller's event loop.

        Raises:
            ToolExecutionError: The server is down, or it did not answer as it should.
            TimeoutError: It gave no sign of progress for `idle_timeout` seconds.
        """
        self._require_own()
        ends = None
        if deadline is not None and (self.settings.command or self.settings.url):
            ends = time.monotonic() + deadline - asyncio.get_running_loop().time()
        call = ServerCall(name, arguments, ends)
        work = self._run_call(call, on_progress, is_repeatable)
        if self._loop is None or self._loop is asyncio.get_running_loop():
            # Not awaited here: each function in between costs at each step of the call.
            return work
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def close(self) -> None:
        """End the connection, after the calls that run; at once where that is cancelled."""
        if self._foreign:
            return
        self._is_closing = True
        try:
            while self._running:
                self._idle.clear()
                await self._idle.wait()
        finally:
            await self.cut()

    async def cut(self) -> None:
        """End the connection now; calls that run end with it."""
        if self._foreign:
            return
        self._is_closing = True
        self._wanted.set()
        self._tried.set()
        owner = self._owner
        if owner is None or owner.done():
            return
        owner.cancel()
        await asyncio.wait({owner}, timeout=_CLOSE_LIMIT)

    def _require_own(self) -> None:
        if self._foreign:
            raise self._make_failure(self.state)

    async def _run_call(
        self, call: ServerCall, on_progress: OnProgress | None, is_repeatable: bool
    ) -> dict[str, Any]:
        self._running += 1
        is_again = False
        try:
            while True:
                peer = self._peer or await self._wait_for_peer()
                try:
                    if self.settings.idle_timeout is None:
                        result = await peer.call(call, on_progress)
                    else:
                        result = await self._call_while_heard(peer, call, on_progress)
                    hidden: dict[str, Any] = self._secrets.hide(result)
                    return hidden
                except (LostError, NotSentError, BadServerError, RefusedError) as error:
                    # What has not run is tried once more, with what a new connection can do.
                    may_run = isinstance(error, NotSentError)
                    may_run |= isinstance(error, LostError) and is_repeatable
                    failure = self._read_failure(peer, error)
                    if is_again or not may_run:
                        raise failure from None
                    is_again = True
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _call_while_heard(
        self, peer: Peer, call: ServerCall, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Call a tool, as long as it is not silent for too long."""
        idle = self.settings.idle_timeout or 0.0
        loop = asyncio.get_running_loop()

        async def take_progress(progress: float, total: float | None, message: str | None) -> None:
            if not bound.expired():
                bound.reschedule(loop.time() + idle)
            if on_progress is not None:
                await on_progress(progress, total, message)

        try:
            async with asyncio.timeout(idle) as bound:
                return await peer.call(call, take_progress)
        except TimeoutError:
            raise TimeoutError(
                f"the server {self.settings.name!r} gave no sign of progress for {idle:g} s "
                "(idle_timeout)"
            ) from None

    def _read_failure(self, peer: Peer, error: Exception) -> Exception:
        """Return how a call ends that failed so, and see to the connection."""
        if isinstance(error, NotSentError) or peer.link.is_lost:
            self._drop_peer(peer)
        if isinstance(error, NotSentError):
            return self._make_failure(f"cannot be called: {error}")
        if isinstance(error, LostError):
            fault = self._hide_secrets(str(error))
            return WorkerLostError(
                f"the server {self.settings.name!r} was lost during the call ({fault}), and "
                "whether the tool ran is unknown; look before you call it again"
            )
        if isinstance(error, BadServerError):
            return self._make_failure(f"did not answer as it should: {error}")
        if isinstance(error, RefusedError) and error.is_unknown_tool:
            self.refresh()
        return self._make_failure(f"answered with an error: {error}")

    def _make_failure(self, words: str) -> ToolExecutionError:
        # What is closed stays so: another attempt would fail alike.
        text = self._hide_secrets(f"the server {self.settings.name!r} {words}")
        return ToolExecutionError(text, is_final=self._is_closing)

    def _hide_secrets(self, text: str) -> str:
        return shorten_words(self._secrets.hide_text(text))

    def _drop_peer(self, peer: Peer) -> None:
        """Have the owner look at a connection that a call has found to be broken."""
        if self._peer is peer:
            self._peer = None
            self._wanted.set()
            peer.link.end()

    async def _wait_for_peer(self) -> Peer:
        """Return what is open, after one more try at most."""
        is_first = self._is_trying and not self._has_failed
        last = self._begun if is_first else self._begun + 1
        limit = _PATIENCE if self._has_failed else None
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._peer is None and self._failed < last and not self._is_closing:
                    await self._tried.wait()
        if self._peer is None:
            why = ": it was removed or changed, or its engine closed" if self._is_closing else ""
            raise self._make_failure(f"{self.state}{why}")
        return self._peer

    async def _keep_open(self) -> None:
        pause = _FIRST_PAUSE
        task = asyncio.current_task()
        while not self._is_closing:
            self._begun, self._is_trying, self.is_reached = self._begun + 1, True, False
            self._wanted.clear()
            reason = ""
            try:
                await self._run_once()
            except asyncio.CancelledError:
                if self._is_closing or (task is not None and task.cancelling()):
                    raise
                reason = "its connection was cancelled from inside"
            except Exception as error:  # noqa: BLE001 - what a server brings about is its own fault
                reason = _describe_fault(error)
                self.fault_part = getattr(find_first(error), "part", ()) or self._reached_by
            if self._is_trying:
                self._note_failure(reason)
                self._is_trying, self._has_failed, self._failed = False, True, self._begun
                self._end_try()
                await self._await_next_try(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                # It was open. The first try to come back is made at once, but none after another.
                self._note_failure(self._reason or reason or "the connection ended")
                pause = _FIRST_PAUSE
                await asyncio.sleep(0 if time.monotonic() - self._opened > 1.0 else _FIRST_PAUSE)

    async def _await_next_try(self, pause: float) -> None:
        """Wait for the next try: until it is due, or a call wants it."""
        self._next_try = time.monotonic() + pause
        await asyncio.sleep(min(pause, _SHORTEST_REST))
        left = self._next_try - time.monotonic()
        if left > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), left)
        self._next_try = 0.0

    async def _run_once(self) -> None:
        """Connect, and stay until the connection has ended."""
        peers = await asyncio.to_thread(import_module, "tool_engine.executors.mcp.peer")
        settings = await self._put_in_secrets()
        peer: Peer | None = None
        was_open = False
        try:
            async with asyncio.timeout(settings.connect_timeout) as bound:
                async with peers.open_peer(settings, self.refresh, self._options) as peer:
                    watching = asyncio.ensure_future(peer.watch(self.refresh))
                    try:
                        # First it listens, so that no change is missed between list and listening.
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_LISTEN_LIMIT):
                                await peer.listening.wait()
                        # What changes while it is read is heard afterwards.
                        self._stale.clear()
                        await self._read_list(peer)
                        self.peer_version = peer.version
                        bound.reschedule(None)
                        self._take_peer(peer)
                        was_open = True
                        await self._follow_changes(peer)
                    finally:
                        watching.cancel()
                        await asyncio.gather(watching, return_exceptions=True)
        except TimeoutError:
            if not was_open:
                raise BadServerError(
                    f"it did not answer within {settings.connect_timeout:g} s; raise its "
                    "connect_timeout if it takes longer to start"
                ) from None
            raise
        finally:
            self._peer = None
            if was_open and peer is not None:
                self._reason = shorten_reason(self._hide_secrets(peer.link.find_fault()))

    async def _follow_changes(self, peer: Peer) -> None:
        """Read the list again after changes, until the connection has ended."""
        rested, pause = 0.0, _REST
        while not peer.link.is_lost:
            await self._wait_for_change(peer.ttl)
            # A server that announces changes without end must not take all of our time.
            while (left := rested - time.monotonic()) > 0 and not peer.link.is_lost:
                await self._wait_for_change(left)
            if not peer.link.is_lost:
                begun = time.monotonic()
                if await self._read_list_again(peer):
                    pause = _REST
                    self._on_change()
                else:
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    self._stale.set()
                now = time.monotonic()
                rested = now + max(pause, 2 * (now - begun))

    async def _read_list_again(self, peer: Peer) -> bool:
        """Read the list; where it is none, the last good one stays, and False is returned."""
        try:
            async with asyncio.timeout(self.settings.connect_timeout):
                await self._read_list(peer)
        except (BadServerError, TimeoutError) as error:
            reason = shorten_reason(self._hide_secrets(_describe_fault(error)))
            _log.warning("mcp_list_not_read", server=self.settings.name, error=reason)
            return False
        return True

    async def _wait_for_change(self, most: float | None) -> None:
        """Wait until the list may differ, or the connection has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._stale.wait()
        self._stale.clear()

    async def _read_list(self, peer: Peer) -> None:
        tools = await peer.list_tools()
        self.faults = {name: self._hide_secrets(text) for name, text in peer.faults.items()}
        self.tools = tools

    def _take_peer(self, peer: Peer) -> None:
        self._peer = peer
        if self._down_since is not None:
            _log.warning("mcp_server_back", server=self.settings.name)
        self._down_since, self._reason = None, ""
        self._is_trying, self._has_failed, self._opened = False, False, time.monotonic()
        self._end_try()
        self._on_change()

    def _note_failure(self, reason: str) -> None:
        before, self._reason = self._reason, shorten_reason(self._hide_secrets(reason))
        if self._down_since is not None and before != self._reason:
            self._on_change()
        if self._down_since is None:
            self._down_since = time.time()
            place = self.locate(self.fault_part)
            _log.error(
                "mcp_server_down", server=self.settings.name, error=self._reason, place=place
            )
            self._on_change()

    def _end_try(self) -> None:
        """Wake those who wait for this try; later ones wait for the next."""
        self._tried.set()
        self._tried = asyncio.Event()

    async def _put_in_secrets(self) -> MCPServerSettings:
        read = import_module("tool_engine.executors.mcp.server_secrets").put_in_secrets
        settings: MCPServerSettings = await read(self.settings, self._secrets)
        return settings


def _describe_fault(error: BaseException) -> str:
    error = find_first(error)
    known = isinstance(error, BadServerError | NotSentError | LostError | ToolExecutionError)
    return str(error) if known else words_of(error)
