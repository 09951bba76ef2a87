"""How does what one process says become the next state of its cluster?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.admission.cluster.cluster_database import (
    RESTART_STEP,
    STEP,
    ClusterConnection,
    Found,
)
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import Message, Reply, Sync, encode_message
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.clock import read_uptime

_LOOKING: Final = 16
"""So many of those that are idle look after the others each time; all would be a burden."""


def answer_idle(
    state: Coordinator, message: Sync, now: float, sessions: frozenset[str] | None
) -> Reply | None:
    """Return the answer to a process that has nothing new to say, where it changes nothing.

    Its session shows that it is there, so nothing is written: else each of many idle processes
    would write the state of all anew, again and again.

    Args:
        state: The coordinator.
        message: What the process says.
        now: Seconds, on the database's clock.
        sessions: The lives that have a session; None: the process does not look after others.

    Returns:
        The answer; None: the message must be heard.
    """
    life = state.lives.get(message.life)
    if message.has_news or life is None or life.lost_at is not None or not state.is_idle(life):
        return None
    has_forgotten = message.answered > life.op or message.seen > (state.epoch, state.heard)
    if has_forgotten or state.absent or state.has_ended(now):
        return None
    if sessions is not None:
        for each in state.lives.values():
            is_over = now >= each.expires and not state.is_idle(each)
            if each.name not in sessions or is_over:
                return None
    return state.make_reply(life, message, [], now)


class SharedRow:
    """The row of a cluster as one process reads and writes it; it keeps what it knows of it."""

    def __init__(self) -> None:
        self._known: tuple[int, Coordinator] | None = None
        self._beats = 0
        """How often it said that it goes on, and had nothing."""
        self.statements = 0
        """How many were sent."""

    def forget(self) -> None:
        """Read the row again before it is written: another connection may have lost a write."""
        self._known = None

    async def write(self, message: Message, connection: ClusterConnection) -> Any:
        """Work out what a message leads to, and write it; again if another one was first.

        Returns:
            The answer to the message.

        Raises:
            OSError: The connection has ended, or another of `LOST`; it may be written or not.
        """
        if isinstance(message, Sync) and not message.has_news:
            answer = await self._answer_idle(message, connection)
            if answer is not None:
                return answer
        is_new = False
        while True:
            known = self._known
            if known is None:
                self.statements += 1
                known, is_new = self._take_found(await connection.read())
            version, state = known
            sessions = None
            if isinstance(message, Sync) and message.looks:
                self.statements += 1
                sessions = await connection.list_sessions(state.lives)
            now, state.doubt = read_uptime() + connection.offset, connection.doubt
            if is_new:
                state.restart(now)
            epoch = state.epoch
            outcome = state.hear(message, now, sessions)
            is_new |= state.epoch > epoch
            self._known = None  # unless it is written, it was not heard
            self.statements += 1
            found = await connection.swap(
                version,
                save_state(state),
                [(note.life, encode_message(note).decode()) for note in outcome.notes],
                is_durable=outcome.is_durable or is_new,
                restarts=is_new,
            )
            if found is None:
                self._known = version + (RESTART_STEP if is_new else STEP), state
                return outcome.answer
            self._known, is_new = self._take_found(found)

    async def _answer_idle(self, message: Sync, connection: ClusterConnection) -> Any:
        """Return the answer to a process that has nothing; None: its message must be written."""
        if self._known is None:
            return None
        version, state = self._known
        life = state.lives.get(message.life)
        if life is None or not state.is_idle(life):
            return None
        self.statements += 1
        found = await connection.read(version)
        if found.has_crashed:
            return None
        if found.version != version:
            self._known, _ = self._take_found(found)
            state = self._known[1]
        sessions = None
        self._beats += 1
        if message.looks and self._beats % max(1, len(state.lives) // _LOOKING) == 0:
            self.statements += 1
            sessions = await connection.list_sessions(state.lives)
        return answer_idle(state, message, read_uptime() + found.offset, sessions)

    def _take_found(self, found: Found) -> tuple[tuple[int, Coordinator], bool]:
        return (found.version, load_state(found.state)), found.has_crashed
