"""The row of a cluster as one process reads and writes it, and what it hears of it from others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import pytest

from tool_engine.admission.cluster.cluster_database import LONGEST_NOTE, ClusterConnection, Found
from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.coordinator import Coordinator
from tool_engine.admission.cluster.effects import Effect, Send
from tool_engine.admission.cluster.lease_messages import (
    Hello,
    Note,
    Sync,
    Ticket,
    decode_message,
)
from tool_engine.admission.cluster.process_holder import ProcessHolder, Turn
from tool_engine.admission.cluster.saved_state import load_state, save_state
from tool_engine.admission.cluster.shared_row import SharedRow, write_notes

LIMITS = ClusterLimits(1, buckets={"ai": 1})
ONE = {"bucket:ai": 1}


class Table(ClusterConnection):
    """The one row, and the notes of what is written."""

    def __init__(self) -> None:
        super().__init__("", "", lambda _: None, lambda: None)
        self.version, self.state = 7, save_state(Coordinator(LIMITS))
        self.notes: dict[str, str] = {}
        self.lost = 0

    async def read(self, known: int = -1) -> Found:
        return Found(self.version, self.state, False, 0.0)

    async def list_sessions(self, lives: Iterable[str]) -> frozenset[str]:
        return frozenset(lives)

    async def swap(
        self,
        known: int,
        state: bytes,
        notes: Iterable[tuple[str, str]],
        *,
        is_durable: bool,
        restarts: bool,
    ) -> Found | None:
        if known != self.version:
            self.lost += 1
            return await self.read()
        self.version, self.state = known + 1, state
        self.notes.update(notes)
        return None


def hello_of(life: str) -> Hello:
    return Hello(life, f"process {life}", 1, True, LIMITS)


async def two_that_want_one_unit(table: Table) -> tuple[SharedRow, SharedRow]:
    rows = SharedRow(), SharedRow()
    for row, life in zip(rows, "ab", strict=True):
        await row.write(hello_of(life), table)
        sync = Sync(life, 2, tickets=(Ticket(1, ONE),), revision=1)
        await row.write(sync, table)
    table.lost = 0
    return rows


@pytest.mark.parametrize("hears", [True, False])
async def test_who_hears_a_note_knows_the_row(hears: bool) -> None:
    """It writes in the place of that one at once; without it, it has to write twice."""
    table = Table()
    first, _ = await two_that_want_one_unit(table)
    note = first.take_note(table.notes["a"]) if hears else table.notes["a"].partition("\n")[0]
    heard = decode_message(note)
    assert isinstance(heard, Note)
    assert heard.state.wanted == {"bucket:ai"}
    answer = await first.write(Sync("a", 3, returned=ONE, gone=(1,), revision=1), table)
    assert answer.state.units == {}
    assert table.lost == (0 if hears else 1)
    assert load_state(table.state).books.holders == {"bucket:ai": {"b": 1}}


async def test_a_note_that_is_late_is_not_gone_by() -> None:
    """The row that it brings is older than the one that is known."""
    table = Table()
    first, second = await two_that_want_one_unit(table)
    late = table.notes["a"]
    await first.write(Sync("a", 3, returned=ONE, gone=(1,), revision=1), table)
    first.take_note(late)
    table.lost = 0
    await first.write(Sync("a", 4, tickets=(Ticket(2, ONE),), revision=1), table)
    assert table.lost == 0
    second.take_note(table.notes["b"])
    second.forget()  # its connection has ended, and what it heard on it may have been lost
    await second.write(Sync("b", 3, returned=ONE, gone=(1,), revision=1), table)
    assert table.lost == 0


def test_a_long_row_and_one_for_many_are_left_out() -> None:
    """A notification has 8,000 bytes, and each one costs all that listen."""
    coordinator = Coordinator(LIMITS)
    notes = []
    for life in "abcdefgh":
        outcome = coordinator.hear(hello_of(life), 1.0)
        notes.append(Note(life, outcome.answer.state))  # type: ignore[union-attr]
    for count, size, brings in ((1, 4000, True), (4, 4000, True), (5, 4000, False)):
        texts = write_notes(notes[:count], 8, b"s" * size)
        assert [("\n" in text) for _, text in texts] == [brings] * count
    for size in (LONGEST_NOTE * 3 // 4, LONGEST_NOTE + 1):
        ((_, text),) = write_notes(notes[:1], 8, b"s" * size)
        assert isinstance(decode_message(text), Note)
        assert len(text) < LONGEST_NOTE


async def test_what_happens_in_one_turn_is_one_message() -> None:
    """A call that ends and one that comes in its place; what fails between them stops neither."""
    holder = ProcessHolder("p", LIMITS, lambda _: 0, list)
    sent, unheard = deque(holder.on_connected(0.0)), []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: unheard.append(about))
    coordinator = Coordinator(LIMITS)
    greeting = sent.popleft()
    assert isinstance(greeting, Send)
    outcome = coordinator.hear(greeting.message, 0.0)
    holder.on_reply(outcome.answer, 0.0)
    turn = Turn(holder, sent.extend)
    turn.do_later(lambda now: holder.ask(1, ONE, now))
    turn.do_later(fail)
    turn.do_later(lambda now: holder.ask(2, ONE, now))
    turn.do_later(lambda now: holder.pause("bucket:web", 1.0, now))
    for _ in range(4):
        await asyncio.sleep(0)
    (message,) = [effect.message for effect in sent if isinstance(effect, Send)]
    assert [ticket.number for ticket in message.tickets] == [1, 2]
    assert message.pauses
    assert len(unheard) == 1


def fail(now: float) -> list[Effect]:
    raise ValueError(f"at {now}")
