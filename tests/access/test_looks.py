"""How are the tokens of very many who listen looked at?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tool_engine.access import streams
from tool_engine.access.guard import Guard
from tool_engine.access.principal import Principal
from tool_engine.access.streams import leave_when_unknown

BOUND = 20.0
READERS = 200


class Tokens:
    """Knows tokens until they are taken back; of those in `hanging` no answer comes."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)
        self.hanging: set[str] = set()
        self.asked: list[str] = []
        self.fails = False

    async def find_principal(self, token: str) -> Principal | None:
        self.asked.append(token)
        if token in self.hanging:
            await asyncio.Event().wait()
        if self.fails:
            raise RuntimeError("no database")
        return Principal(token, frozenset()) if token in self.known else None


async def listen(guard: Guard, token: str) -> Any:
    """What ends the stream of a reader that sends nothing."""
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}

    async def wait_for_ever() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        del message

    await guard(scope, wait_for_ever, send)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(streams, "_LOOK", 0.01)
    return []


def make_guard(tokens: Tokens, ends: list[Any]) -> Guard:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        del send
        message = await leave_when_unknown(receive, scope["is_known"])()
        ends.append((scope["principal"].name, message["type"]))

    return Guard(app, auth=tokens)


async def wait_until_asked(tokens: Tokens, token: str, times: int) -> None:
    async with asyncio.timeout(BOUND):
        while tokens.asked.count(token) < times:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)


async def test_one_look_for_all_of_one_token(ends: list[Any]) -> None:
    """However many listen, a token is looked at once for all; they end when it is gone."""
    tokens = Tokens("ann", "bob")
    guard = make_guard(tokens, ends)
    readers = [asyncio.create_task(listen(guard, "ann")) for _ in range(READERS)]
    other = asyncio.create_task(listen(guard, "bob"))
    await wait_until_asked(tokens, "ann", READERS)
    tokens.asked.clear()
    await wait_until_asked(tokens, "ann", 3)
    assert tokens.asked.count("ann") <= tokens.asked.count("bob") + 1
    tokens.known.remove("ann")
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*readers)
    assert ends == [("ann", "http.disconnect")] * READERS
    assert not other.done()
    other.cancel()
    await asyncio.wait([other])
    tokens.asked.clear()
    await asyncio.sleep(0.05)  # nothing listens, so nothing is looked at
    assert len(tokens.asked) <= 1


async def test_a_look_that_hangs_holds_up_no_other(ends: list[Any]) -> None:
    """Its own reader alone is not ended."""
    tokens = Tokens("ann", "bob")
    guard = make_guard(tokens, ends)
    readers = [asyncio.create_task(listen(guard, each)) for each in ("ann", "bob")]
    await wait_until_asked(tokens, "bob", 2)
    tokens.hanging.add("ann")
    await wait_until_asked(tokens, "bob", 4)
    tokens.known.remove("bob")
    async with asyncio.timeout(BOUND):
        await readers[1]
    assert ends == [("bob", "http.disconnect")]
    readers[0].cancel()
    await asyncio.wait([readers[0]])


async def test_a_look_that_fails(ends: list[Any]) -> None:
    """Who cannot be known reads no more."""
    tokens = Tokens("ann")
    reader = asyncio.create_task(listen(make_guard(tokens, ends), "ann"))
    await wait_until_asked(tokens, "ann", 2)
    tokens.fails = True
    async with asyncio.timeout(BOUND):
        await reader
    assert ends == [("ann", "http.disconnect")]

    async def fail() -> bool:
        raise RuntimeError("no database")

    async with asyncio.timeout(BOUND):
        message = await leave_when_unknown(asyncio.Event().wait, fail)()
    assert message == {"type": "http.disconnect"}


@pytest.mark.parametrize("steps", range(10))
async def test_a_reader_that_leaves_as_a_look_begins(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Those who come behind it are looked after as before, whatever the moment."""
    monkeypatch.setattr(streams, "_LOOK", 600.0)
    is_known, has_sent = True, asyncio.Event()

    async def ask() -> bool:
        return is_known

    async def send() -> dict[str, str]:
        await has_sent.wait()
        return {"type": "http.request"}

    first = asyncio.create_task(leave_when_unknown(send, ask)())
    await asyncio.sleep(0)
    looks = streams._looks[asyncio.get_running_loop()]
    has_sent.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    looks._look_at_all()
    assert await first == {"type": "http.request"}
    second = asyncio.create_task(leave_when_unknown(asyncio.Event().wait, ask)())
    await asyncio.sleep(0)
    is_known = False
    looks._look_at_all()
    async with asyncio.timeout(1):
        assert await second == {"type": "http.disconnect"}
