"""How does what one process says become the next state of its cluster?"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from typing import Any, Final

from tool_engine.admission.cluster.cluster_database import (
    LONGEST_NOTE,
    RESTART_STEP,
    STEP,
    ClusterConnection,
    Found,
)
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.lease_messages import (
    Message,
    Note,
    Reply,
    Sync,
    encode_message,
)
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.clock import read_uptime

_LOOKING: Final = 16
"""So many of those that are idle look after the others each time; all would be a burden."""
_ROW: Final = "\n"
"""What parts a note from the row that it brings."""
_FEW: Final = 4
"""Notes of one message that bring the row: many of them would be a burden."""


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
    if has_forgotten or state.absent or state.has_ended(now) or state.is_set_back(now):
        return None
    if sessions is not None:
        if not sessions.issuperset(state.lives):
            return None
        if any(now >= each.expires and not state.is_idle(each) for each in state.lives.values()):
            return None
    return state.make_reply(life, message, [], now)


def write_notes(notes: Sequence[Note], version: int, state: bytes) -> list[tuple[str, str]]:
    """Return who hears what, as its text.

    Who hears a note is likely to write next. So it gets the row as well where that is short, for
    else it would write in the place of one that it knows no more, and have to write again.
    """
    texts = [(note.life, encode_message(note).decode()) for note in notes]
    if not 1 <= len(texts) <= _FEW or len(state) > LONGEST_NOTE:
        return texts
    row = f"{_ROW}{version} {b2a_base64(state, newline=False).decode()}"
    return [
        (life, text + row if len(text.encode()) + len(row) <= LONGEST_NOTE else text)
        for life, text in texts
    ]


def is_to_look(beats: int, processes: int) -> bool:
    """Return whether one that is idle looks after so many others, as it says this for so often."""
    return beats % max(1, processes // _LOOKING) == 0


class SharedRow:
    """The row of a cluster as one process reads and writes it; it keeps what it knows of it."""

    def __init__(self) -> None:
        self._known: tuple[int, Coordinator] | None = None
        self._noted: tuple[int, str] | None = None
        self._beats = 0
        """How often it said that it goes on, and had nothing."""
        self.statements = 0
        """How many were sent."""

    def forget(self) -> None:
        """Read the row again before it is written: another connection may have lost a write."""
        self._known = self._noted = None

    def take_note(self, text: str) -> str:
        """Return the message of a notification; keep the row that it brings."""
        message, _, row = text.partition(_ROW)
        if row:
            version, _, state = row.partition(" ")
            self._noted = int(version), state
        return message

    def _find_known(self) -> tuple[int, Coordinator] | None:
        """Return the newest row that is known, be it from a note of the process that wrote it."""
        known, noted = self._known, self._noted
        self._noted = None
        if known is not None and noted is not None and noted[0] > known[0]:
            known = self._known = noted[0], load_state(a2b_base64(noted[1]))
        return known

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
            known = self._find_known()
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
            following, written = version + (RESTART_STEP if is_new else STEP), save_state(state)
            found = await connection.swap(
                version,
                written,
                write_notes(outcome.notes, following, written),
                is_durable=outcome.is_durable or is_new,
                restarts=is_new,
            )
            if found is None:
                self._known = following, state
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
        sessions, state.doubt = None, found.doubt
        self._beats += 1
        if message.looks and is_to_look(self._beats, len(state.lives)):
            self.statements += 1
            sessions = await connection.list_sessions(state.lives)
        return answer_idle(state, message, read_uptime() + found.offset, sessions)

    def _take_found(self, found: Found) -> tuple[tuple[int, Coordinator], bool]:
        return (found.version, load_state(found.state)), found.has_crashed
