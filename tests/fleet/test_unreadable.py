"""What a worker answers that cannot be read: what becomes of its call, and of the others?"""

from __future__ import annotations

import asyncio

import pytest

from tool_engine.executors.fleet.connection import FleetConnection
from tool_engine.executors.fleet.frames import frame_message, write_bundle
from tool_engine.executors.python.worker import Answer

DEEP = b"[" * 100_000 + b"]" * 100_000


class Owner:
    """Notes what it hears of its worker."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.said: list[str] = []

    def note_placed(self) -> None:
        raise AssertionError

    def note_ready(self, said: bytes) -> None:
        raise AssertionError(said)

    def take(self, answers: list[Answer]) -> None:
        self.answers += answers

    def note_gone(self) -> None:
        self.said.append("gone")

    def lose(self, words: str, *, is_final: bool = False) -> None:
        self.said.append(words)


def hear(connection: FleetConnection, worker: int, items: bytes) -> None:
    connection._hear_driver(write_bundle(worker, 1, frame_message(items)))


@pytest.mark.parametrize(
    "answer", [b'{"id":2,"error":7}', b'{"id":2,"value":1e999}', b'{"id":2,"value":"\xff"}']
)
def test_an_unreadable_answer_ends_its_call(answer: bytes) -> None:
    """The others of its message have theirs."""
    connection, owner = FleetConnection("auto"), Owner()
    connection.owners[4] = owner
    hear(connection, 4, b'[{"id":1,"value":"a"},%s,{"id":3,"value":"c"}]' % answer)
    first, unread, last = owner.answers
    assert (first.value, last.value) == ("a", "c")
    assert unread.id == 2
    assert unread.error is not None
    assert "its answer cannot be read: " in unread.error.message
    assert owner.said == []


@pytest.mark.parametrize(
    "items",
    [
        b'[{"id":1,"value":%s}]' % DEEP,
        b'[{"id":"one"}]',
        b'[{"id":1',
        b"[7]",
    ],
    ids=["deep", "no number", "cut", "no answer"],
)
async def test_what_belongs_to_no_call_loses_its_worker_alone(items: bytes) -> None:
    """The connection goes on, and so do the calls of other workers."""
    connection, owner, other = FleetConnection("auto"), Owner(), Owner()
    connection.owners.update({4: owner, 5: other})
    hear(connection, 4, items)
    hear(connection, 5, b'[{"id":1,"value":"a"}]')
    assert [answer.value for answer in other.answers] == ["a"]
    assert list(connection.owners) == [5]
    async with asyncio.timeout(20):
        while len(owner.said) < 2:  # noqa: ASYNC110 - guardians have a moment to end what it ran
            await asyncio.sleep(0.01)
    gone, words = owner.said
    assert gone == "gone"
    assert words.startswith("what it answered cannot be read: ")
