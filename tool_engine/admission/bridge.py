"""How do other event loops and plain threads take slots of a controller that lives on one loop?

A controller needs no lock, because all of it happens on its home loop. So does all that the bridge
does: a caller elsewhere sends an errand there, and what follows (the grant, the caller's giving up)
happens on the home loop in the order in which it was sent. No state is shared, so nothing can come
between a grant and a cancellation.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import (
    AdmissionError,
    ConfigurationError,
    ControllerClosedError,
    QueueTimeoutError,
    ToolEngineError,
)
from tool_engine.model.call import ToolExecutionContext, check_timeout
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.json.copying import refuse_copying

LOOK_INTERVAL: Final = 0.5
"""The most seconds between two looks of a waiting caller at whether the home loop is alive."""


class BridgedController(Protocol):
    """What the bridge uses of a controller."""

    @property
    def config(self) -> ConcurrencyConfig:
        """The limits; the bridge reads `queue_timeout`."""

    def acquire(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, ConcurrencySlot]:
        """Waits for a slot."""

    def release(self, slot: ConcurrencySlot) -> object:
        """Gives it back; a second time changes nothing."""


@refuse_copying("pass it on as it is, or make another one with controller.bridge()")
class ControllerBridge(KnownArguments):
    """Slots of one controller, for coroutines of any event loop and for plain threads.

    The controller stays on its home loop, which must be running while callers elsewhere wait. The
    bridge holds nothing that has to be closed.

    No wait outlives the home loop. A caller that waits gets `ControllerClosedError` at once when
    the loop's tasks are cancelled, as `asyncio.run` does at its end; within half a second when
    the loop was closed without that; and after `patience` seconds when it does not run. When it
    runs but is blocked, the caller gets `QueueTimeoutError` `patience` seconds after its timeout.

    Args:
        controller: Whose slots are given.
        home_loop: The loop that the controller lives on.
        patience: Seconds.

    Example:
        >>> def work(bridge):  # in a thread
        ...     with bridge.slot("http") as slot:
        ...         return slot.queue_wait
    """

    __slots__ = ("controller", "home_loop", "patience")

    def __init__(
        self,
        controller: BridgedController,
        home_loop: asyncio.AbstractEventLoop,
        *,
        patience: float = 5.0,
    ) -> None:
        check_timeout("patience", patience)
        if not hasattr(controller, "acquire") or isinstance(controller, type):
            raise ConfigurationError(
                f"controller must be a ToolConcurrencyController, got {controller!r:.80}; write "
                "controller.bridge() of the one whose slots are wanted"
            )
        if not hasattr(home_loop, "is_closed"):
            raise ConfigurationError(
                f"home_loop must be an event loop, got {home_loop!r:.80}; write "
                "asyncio.get_running_loop() where the controller lives"
            )
        self.controller = controller
        self.home_loop = home_loop
        self.patience = patience

    def slot(
        self,
        bucket: str | None = None,
        *,
        context: ToolExecutionContext | None = None,
        priority: int | None = None,
        key: str | None = None,
        weight: int = 1,
        timeout: float | None = None,
    ) -> SlotClaim:
        """Acquires on entry and releases on exit: `async with` on a loop, `with` in a thread.

        The arguments and the errors are those of `ToolConcurrencyController.acquire`. What runs on
        the home loop on behalf of the caller sees the caller's context variables.

        The exit does not wait: the slot is given back as soon as the home loop comes to it, and
        before anything that the same thread asks of the bridge or the loop afterwards.

        Args:
            bucket: The limit to count against; None: only the global one.
            context: Who calls; its `caller_type` may bypass the limits.
            priority: Smaller is more urgent; None: the context's, else 5.
            key: What the call has in common with those that share its key limit.
            weight: How many units of the limits the call takes.
            timeout: Seconds to wait at most; None: the configured `queue_timeout`.

        Raises:
            AdmissionError: On entry: the call was refused, at once or after waiting.
            ToolEngineError: On entry: `with` where an event loop runs, which it would block.
        """
        if timeout is not None:
            check_timeout("timeout", timeout)
        terms: dict[str, Any] = {
            "context": context,
            "priority": priority,
            "weight": weight,
            "timeout": timeout,
        }
        if key is not None:
            terms["key"] = key
        return SlotClaim(self, bucket, terms)

    def release(self, slot: ConcurrencySlot) -> None:
        """Gives a slot back before its block ends, from any loop or thread; does not wait.

        A second time changes nothing, and neither does giving back what a closed loop gave.
        """
        if _running_loop() is self.home_loop:
            self.controller.release(slot)
        else:
            _post_to_loop(self.home_loop, partial(self.controller.release, slot))

    def __repr__(self) -> str:
        return f"<ControllerBridge to {self.controller!r} on {self.home_loop!r}>"


class SlotClaim:
    """One use of `ControllerBridge.slot`: `async with` on a loop, `with` in a thread.

    A claim that was interrupted where no block protects it, such as by KeyboardInterrupt on the
    first line of its exit, gives its slot back when it is collected.
    """

    __slots__ = ("_bridge", "_bucket", "_errand", "_is_used", "_slot_at_home", "_terms")

    def __init__(self, bridge: ControllerBridge, bucket: str | None, terms: dict[str, Any]) -> None:
        self._bridge = bridge
        self._bucket = bucket
        self._terms = terms
        self._is_used = False
        self._errand: _Errand | None = None
        self._slot_at_home: ConcurrencySlot | None = None

    def __enter__(self) -> ConcurrencySlot:
        self._take_slot()
        self._refuse_to_block()
        # A lock that the answer unlocks: unlocking never blocks the home loop, and waiting for a
        # lock can be interrupted.
        answered = threading.Lock()
        answered.acquire()
        errand = self._errand = _Errand(self._bridge, self._bucket, self._terms, answered.release)
        try:
            errand.send()
            while not answered.acquire(timeout=errand.interval):
                errand.check_home()
            return errand.result()
        except BaseException:
            self._give_back()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self._give_back()

    async def __aenter__(self) -> ConcurrencySlot:
        self._take_slot()
        loop = asyncio.get_running_loop()
        if loop is self._bridge.home_loop:
            slot = await self._bridge.controller.acquire(self._bucket, **self._terms)
            self._slot_at_home = slot
            return slot
        answered = loop.create_future()
        answer = partial(loop.call_soon_threadsafe, answered.set_result, None)
        errand = self._errand = _Errand(self._bridge, self._bucket, self._terms, answer)
        try:
            errand.send()
            while not answered.done():
                await asyncio.wait([answered], timeout=errand.interval)
                if not answered.done():
                    errand.check_home()
            return errand.result()
        except BaseException:
            self._give_back()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        self._give_back()

    def __del__(self) -> None:
        # None, too, for a claim that was interrupted while it was made.
        errand: _Errand | None = getattr(self, "_errand", None)
        if errand is not None:
            errand.finish()

    def _take_slot(self) -> None:
        if self._is_used:
            raise ToolEngineError("a claim is used once; call bridge.slot() again for another slot")
        self._is_used = True

    def _refuse_to_block(self) -> None:
        loop = _running_loop()
        if loop is None:
            return
        if loop is self._bridge.home_loop:
            harm = "the controller lives on this loop and could never answer: a deadlock"
        else:
            harm = "an event loop runs in this thread and would stand still meanwhile"
        raise ToolEngineError(f"cannot wait for a slot with `with`: {harm}; use `async with`")

    def _give_back(self) -> None:
        if self._slot_at_home is not None:
            self._bridge.controller.release(self._slot_at_home)
        if self._errand is not None:
            self._errand.finish()
            # Last, so that an interruption before it leaves the errand to `__del__`.
            self._errand = None


class _Errand:
    """Waits for a slot on the home loop, and keeps it there, for a caller elsewhere.

    `send`, `check_home`, `result` and `finish` are the caller's; the rest happens at home.
    """

    __slots__ = (
        "_answer",
        "_bridge",
        "_bucket",
        "_error",
        "_seen_running",
        "_sent_at",
        "_slot",
        "_task",
        "_terms",
        "interval",
    )

    def __init__(
        self,
        bridge: ControllerBridge,
        bucket: str | None,
        terms: dict[str, Any],
        answer: Callable[[], object],
    ) -> None:
        self._bridge = bridge
        self._bucket = bucket
        self._terms = terms
        self._answer = answer
        self._slot: ConcurrencySlot | None = None
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent_at = self._seen_running = time.monotonic()
        self.interval = min(LOOK_INTERVAL, bridge.patience)

    def send(self) -> None:
        if not _post_to_loop(self._bridge.home_loop, self._start_task):
            raise _closed_error("is closed")

    def check_home(self) -> None:
        """Raises when no answer can be expected any more."""
        home, patience = self._bridge.home_loop, self._bridge.patience
        now = time.monotonic()
        if home.is_closed():
            raise _closed_error("was closed while the call waited")
        if home.is_running():
            self._seen_running = now
        elif now - self._seen_running >= patience:
            raise _closed_error(f"has not run for {patience:g} s")
        timeout = self._seconds_left()
        if timeout is not None and now - self._sent_at >= timeout + patience:
            raise QueueTimeoutError(
                f"waited {timeout:g} s for a slot, and {patience:g} s more for the controller's "
                "loop to say so; find out what blocks that loop"
            )

    def result(self) -> ConcurrencySlot:
        """What the home loop answered."""
        if self._slot is not None:
            return self._slot
        # A wait that was cancelled at home ends with neither slot nor error.
        raise self._error or _closed_error("cancelled the wait: it is shutting down")

    def finish(self) -> None:
        """Gives the slot back, or ends the wait for it; more than once changes nothing."""
        _post_to_loop(self._bridge.home_loop, self._withdraw_request)

    def _seconds_left(self) -> float | None:
        timeout: float | None = self._terms["timeout"]
        return self._bridge.controller.config.queue_timeout if timeout is None else timeout

    def _start_task(self) -> None:
        # The task copies the context that it is made in: the one of the caller, see `_post`.
        self._task = self._bridge.home_loop.create_task(self._acquire_slot())

    async def _acquire_slot(self) -> None:
        try:
            self._slot = await self._bridge.controller.acquire(self._bucket, **self._terms)
        except Exception as error:  # noqa: BLE001 - raised again where the caller is
            self._error = error
        finally:
            try:
                self._answer()
            except RuntimeError:
                # The caller's loop was closed: no task is left to use the slot.
                if self._slot is not None:
                    self._bridge.controller.release(self._slot)

    def _withdraw_request(self) -> None:
        if self._slot is not None:
            self._bridge.controller.release(self._slot)
        elif self._task is not None:
            self._task.cancel()


def _post_to_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> bool:
    """Has a loop do something; False when it is closed and never will.

    It does what one thread posts in the order of posting, each in a copy of the context variables
    of the one who posts.
    """
    try:
        loop.call_soon_threadsafe(action)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _closed_error(reason: str) -> AdmissionError:
    return ControllerClosedError(
        f"the event loop of the controller {reason}; take slots of a controller whose loop runs"
    )
