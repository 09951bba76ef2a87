"""Whose tokens are taken, for what, and until when?"""

from __future__ import annotations

import asyncio
import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ConfigurationError
from tool_engine.access.principal import Principal
from tool_engine.access.tokens import TokenFile


def entry(name: str, token: str, more: str = "") -> str:
    hashed = hashlib.sha256(token.encode()).hexdigest()
    return f'- {{name: {name}, sha256: "{hashed}"{more}}}\n'


def read(path: Path, text: str) -> TokenFile:
    path.write_text(text)
    return TokenFile(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.yaml"


def test_what_an_entry_says(path: Path) -> None:
    """Scopes and tools are those of the entry, else call, read and all tools."""
    more = ", scopes: [approve], tools: ['notes_*', add]"
    tokens = read(path, entry("ann", "a") + entry("bob", "b", more))
    ann = asyncio.run(tokens.find_principal("a"))
    bob = asyncio.run(tokens.find_principal("b"))
    assert ann == Principal("ann", frozenset({"call", "read"}), ("*",))
    assert bob is not None
    assert [bob.may(each) for each in ("approve", "call")] == [True, False]
    assert [bob.may_ask_for(each) for each in (4, 5)] == [False, True]
    assert [bob.may_use(each) for each in ("notes_new", "add", "adds")] == [True, True, False]
    for unknown in ("", "c", "a" * 5000, "\ud800", "ä"):
        assert asyncio.run(tokens.find_principal(unknown)) is None


@pytest.mark.parametrize(("days", "is_taken"), [(1, True), (-1, False)])
def test_a_token_that_ends(path: Path, days: int, is_taken: bool) -> None:
    """A token is taken until its time."""
    when = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    for shown in (f"'{when}'", when):
        tokens = read(path, entry("ann", "a", f", expires: {shown}"))
        assert (asyncio.run(tokens.find_principal("a")) is not None) is is_taken


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (", scope: [call]", "'scope' is no field of an entry; did you mean 'scopes'?"),
        (", scopes: [write]", "scopes must be a list of call, read, approve, operate"),
        (", scopes: call", "scopes must be a list of call"),
        (", tools: add", "tools must be a list of names or patterns"),
        (", tools: [1]", "tools: 1 matches no name of a tool; write names, with *"),
        (", tools: ['']", "tools: '' matches no name"),
        (", tools: [notes *]", "tools: 'notes *' matches no name"),
        (", tools: ['/notes_.*/']", "tools: '/notes_.*/' matches no name"),
        (", tools: ['[abc']", "tools: '[abc' matches no name"),
        (", tools: ['!pay']", "tools: '!pay' matches no name"),
        (", tools: ['-pay']", "tools: '-pay' matches no name"),
        (", tools: ['notes_(a|b)']", "tools: 'notes_(a|b)' matches no name"),
        (", tools: ['n\xf6tes']", "tools: 'n\xf6tes' matches no name"),
        (", priority: urgent", "priority must be a whole number from 0, the most urgent one, to 9"),
        (", priority: -1", "priority must be a whole number"),
        (", priority: true", "priority must be a whole number"),
        (", expires: tomorrow", "expires must be a time with its zone"),
        (", expires: 2030-01-01", "expires must be a time with its zone"),
        (", expires: 2030-01-01T00:00:00", "expires must be a time with its zone"),
    ],
)
def test_an_entry_that_says_too_much(path: Path, more: str, says: str) -> None:
    """What is not understood is refused: a right must not be wider than it was meant."""
    with pytest.raises(ConfigurationError) as caught:
        read(path, entry("ann", "a") + entry("bob", "b", more))
    assert says in str(caught.value)
    assert "entry 2" in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{"tools": "notes_*"}, {"tools": ["*"]}, {"scopes": "call"}, {"scopes": ["call"]}],
    ids=str,
)
def test_rights_that_are_one_text(given: dict[str, Any]) -> None:
    """Its letters are not taken for patterns, of which `*` is all tools, nor for scopes."""
    with pytest.raises(ConfigurationError, match="must be a frozenset and a tuple"):
        Principal(**{"name": "ann", "scopes": frozenset({"call"}), **given})


async def test_all_tokens_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list counts at once; a file that cannot be read keeps them for a minute only."""
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    now = [1000.0]
    monkeypatch.setattr("tool_engine.access.tokens.monotonic", lambda: now[0])
    good = entry("ann", "a")
    tokens = await asyncio.to_thread(read, path, good)

    async def is_taken() -> bool:
        now[0] += 1
        return await tokens.find_principal("a") is not None

    def write(text: str) -> None:
        path.unlink(missing_ok=True)
        path.write_text(text)

    assert await is_taken()
    await asyncio.to_thread(write, "[]")
    assert not await is_taken()
    for spoil in (path.unlink, lambda: write(""), lambda: write("- {name: [")):
        await asyncio.to_thread(write, good)
        assert await is_taken()
        await asyncio.to_thread(spoil)
        assert await is_taken()
        now[0] += 60
        assert not await is_taken()
    await asyncio.to_thread(write, good)
    assert await is_taken()


async def test_a_file_written_anew_in_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts, also where its size and its times are those of before, as `rsync -t` leaves it."""
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    tokens = await asyncio.to_thread(read, path, entry("ann", "old"))

    def write(text: str) -> None:
        times = path.stat()
        path.write_text(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    await asyncio.to_thread(write, entry("ann", "new"))
    assert await tokens.find_principal("old") is None
    assert await tokens.find_principal("new") == Principal("ann", frozenset(("call", "read")))


async def test_a_pipe_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tokens stay: what a shell gives with `<(...)` cannot be read again."""
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    now = [1000.0]
    monkeypatch.setattr("tool_engine.access.tokens.monotonic", lambda: now[0])
    os.mkfifo(path)
    writing = asyncio.create_task(asyncio.to_thread(path.write_text, entry("ann", "a")))
    tokens = await asyncio.to_thread(TokenFile, str(path))
    await writing
    for _ in range(3):
        assert await tokens.find_principal("a") is not None
        now[0] += 61


def test_each_token_is_compared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work says nothing about which token was near."""
    tokens = read(path, "".join(entry(f"n{number}", str(number)) for number in range(5)))
    compared: list[str] = []

    def compare(known: str, sent: str) -> bool:
        compared.append(known)
        return known == sent

    monkeypatch.setattr("tool_engine.access.tokens.hmac.compare_digest", compare)
    for sent in ("0", "4", "nobody"):
        compared.clear()
        asyncio.run(tokens.find_principal(sent))
        assert len(compared) == 5
