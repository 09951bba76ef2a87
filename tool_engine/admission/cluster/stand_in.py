"""What keeps the leases of a process whose event loop stands still?

A tool that blocks the loop uses its units all the while, and the process cannot say so. A thread
sees that, and says it on a connection of its own; what no call uses, others get.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

from tool_engine.admission.cluster.cluster_database import LOST, ClusterConnection
from tool_engine.admission.cluster.holder import SURE, Holder
from tool_engine.admission.cluster.lease_messages import encode_message
from tool_engine.admission.cluster.life import Kept
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.clock import read_uptime
from tool_engine.logger import get_logger
from tool_engine.redaction import words_of

CHECKS: Final = 8
"""In each ttl. At two of them the loop must have stood still before anything is done: of a machine
that was suspended, it has woken by then."""
_log: Final = get_logger("tool_engine.admission.cluster")


def take_idle(holder: Holder, seen: float, now: float) -> Kept | None:
    """Take what is idle from a process that has stood still since it was `seen` last.

    Returns:
        What it goes on with; None: it is awake, or cannot be sure of any.
    """
    with holder.guard:
        if holder.last_seen != seen or now >= holder.valid_until:
            return None
        in_use, spent = {}, {}
        for resource, account in holder.accounts.items():
            if (idle := holder.idle_of(resource)) > 0:
                account.returned += idle
                holder.outbox.give_back(resource, is_urgent=True)
            in_use[resource], spent[resource] = account.out, account.spent
        return Kept(holder.life, holder.op, in_use, spent)


def note_renewed(holder: Holder, life: str, sent_at: float, now: float) -> None:
    """Note that a life was kept, by what was said at `sent_at` and answered now."""
    # An answer that is late says nothing: others may have been given all by then.
    if life == holder.life and now < holder.valid_until:
        holder.valid_until = max(holder.valid_until, sent_at + holder.ttl * SURE)


class StandIn:
    """Speaks for a process while its event loop does not; a thread that lives while units are held.

    Args:
        holder: What the process holds.
        make_connection: Makes one to its cluster that hears nothing.
    """

    def __init__(self, holder: Holder, make_connection: Callable[[], ClusterConnection]) -> None:
        self._holder, self._make_connection = holder, make_connection
        # One that has slept for less starts calls as it wakes, with what went to others meanwhile.
        self._period = max(holder.ttl / CHECKS, holder.grace * SURE)
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def begin(self) -> None:
        """Watch, as long as units are held; if it does already, nothing happens."""
        if self._thread is None or not self._thread.is_alive():
            name = "tool-engine cluster"
            self._thread = threading.Thread(target=self._watch_loop, name=name, daemon=True)
            self._is_over.clear()
            self._thread.start()

    def stop(self) -> None:
        """Watch no more, soon."""
        self._is_over.set()

    async def end(self) -> None:
        """Watch no more."""
        self.stop()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _watch_loop(self) -> None:
        holder, before = self._holder, None
        while not self._is_over.wait(self._period):
            seen = holder.last_seen
            if seen == before:
                asyncio.run(self._speak_for_it(seen))
            before = seen
            if not holder.has_units:
                return

    async def _speak_for_it(self, seen: float) -> None:
        connection = self._make_connection()
        try:
            await connection.connect()
            while not self._is_over.is_set():
                sent_at = read_uptime()
                found = take_idle(self._holder, seen, sent_at)
                if found is None or not await self._renew_life(connection, found):
                    return
                note_renewed(self._holder, found.life, sent_at, read_uptime())
                await asyncio.sleep(self._period)
        except LOST as error:
            _log.warning("cluster_not_renewed", error=words_of(error))
        finally:
            connection.abort()

    async def _renew_life(self, connection: ClusterConnection, kept: Kept) -> bool:
        found = await connection.read()
        while not found.has_crashed:
            state = load_state(found.state)
            state.doubt = connection.doubt
            notes = state.renew(kept, read_uptime() + connection.offset)
            if notes is None:
                return False
            texts = [(note.life, encode_message(note).decode()) for note in notes]
            written = save_state(state)
            other = await connection.swap(
                found.version, written, texts, is_durable=False, restarts=False
            )
            if other is None:
                return True
            found = other
        return False
