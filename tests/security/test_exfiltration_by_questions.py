"""Can a model spell what it has not read, by asking tools about it and reading how they end?

It passes unread content on by reference, with a question that it types: what the engine says of the
answer must hold none of it, or count as read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tool_engine import ToolCallConfig, ToolEngine, ToolEngineConfig, ToolSession

SECRET = "gate 47"
LETTERS = "abefgt 3467"
PAGE = "$VAR_REF{{fetch_1_result}}"

Ask = Callable[[ToolSession, str], Awaitable[bool]]


@pytest.fixture
async def world() -> AsyncIterator[tuple[ToolEngine, list[str]]]:
    """Tools that search and that insist, and one that sends what it accepts."""
    sent: list[str] = []
    async with ToolEngine(ToolEngineConfig(auto_reload=False)) as engine:

        @engine.tool(effect="read")
        async def fetch() -> str:
            """Fetch what must not get out."""
            return SECRET

        @engine.tool(effect="read")
        async def find(text: str, pattern: str) -> list[str]:
            """Find all places.

            Args:
                text: Where.
                pattern: What.
            """
            return re.findall(pattern, text)

        @engine.tool(effect="read")
        async def insist(text: str, pattern: str) -> None:
            """Fail if there is no such place.

            Args:
                text: Where.
                pattern: What.
            """
            if re.search(pattern, text) is None:
                raise ValueError("not there")

        async def differ(values: list[str]) -> str:
            return "they do"

        async def hold(text: str) -> str:
            await asyncio.sleep(0)
            return text

        async def mail(text: str) -> None:
            sent.append(text)

        text = {"name": "text", "type": "string", "required": True, "description": "A text"}
        head: dict[str, Any] = {
            "name": "mail",
            "description": "Mails.",
            "accepts": ["user", "model"],
        }
        engine.register_tool({**head, "parameters": [text]}, mail)
        values = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
        both: dict[str, Any] = {
            "type": "object",
            "properties": {"values": values},
            "required": ["values"],
        }
        engine.register_tool({"name": "differ", "description": "D.", "parameters": both}, differ)
        once = {"key": "params.text", "key_limit": 1, "collision": "reject"}
        head = {"name": "hold", "description": "H.", "concurrency": once}
        engine.register_tool({**head, "parameters": [text]}, hold)
        yield engine, sent


async def look_at_summary(session: ToolSession, pattern: str) -> bool:
    """By its kind and size."""
    found = await session.execute("find", {"text": PAGE, "pattern": pattern})
    return "1" in (found.final_text or "").partition("$VAR_REF")[0]


async def look_at_list(session: ToolSession, pattern: str) -> bool:
    """By what the list of variables says of it."""
    found = await session.execute("find", {"text": PAGE, "pattern": pattern})
    listed = await session.execute("list_vars", {"pageSize": 100})
    (row,) = (each for each in listed.output["variables"] if each["name"] == found.result_variable)
    return (row["chars"] or 0) > len("[]")


async def keep_and_look(session: ToolSession, pattern: str) -> bool:
    """By what is said when it is kept once more."""
    found = await session.execute("find", {"text": PAGE, "pattern": pattern})
    value = f"$VAR_REF{{{{{found.result_variable}}}}}"
    kept = await session.execute("write_var", {"name": "mine", "value": value})
    return (kept.output["chars"] or 0) > len("[]")


async def look_at_failure(session: ToolSession, pattern: str) -> bool:
    """By whether the call fails."""
    return (await session.execute("insist", {"text": PAGE, "pattern": pattern})).is_success


def read_pattern(pattern: str) -> tuple[str, str]:
    """What the page has at the place that is asked about, as a reference, and the guess."""
    place, guess = re.fullmatch(r"\^\.\{(\d+)\}(.)", pattern).groups()  # type: ignore[union-attr]
    return f"$VAR_REF{{{{fetch_1_result:{place}:1}}}}", guess


async def look_at_equality(session: ToolSession, pattern: str) -> bool:
    """By whether the values of a list, of which one is typed, are said to be the same."""
    return not (await session.execute("differ", {"values": [*read_pattern(pattern)]})).is_success


async def look_at_collision(session: ToolSession, pattern: str) -> bool:
    """By whether a call stands in the way of one that has what is typed as its key."""
    calls = (session.execute("hold", {"text": each}) for each in read_pattern(pattern))
    return not all(each.is_success for each in await asyncio.gather(*calls))


ASKS = (
    *(look_at_summary, look_at_list, keep_and_look, look_at_failure),
    *(look_at_equality, look_at_collision),
)


@pytest.mark.parametrize("show", ["summary", "none"])
@pytest.mark.parametrize(
    "ask",
    ASKS,
    ids=lambda ask: ask.__name__,
)
async def test_nothing_is_spelt(world: tuple[ToolEngine, list[str]], ask: Ask, show: str) -> None:
    """N33: letter by letter, as often as it likes: no mail has more of it than a guess."""
    engine, sent = world
    session = ToolSession(engine, "chat", ToolCallConfig(show=show))
    await session.execute("fetch")
    spelt = ""
    for place in range(len(SECRET)):
        for letter in LETTERS:
            if await ask(session, f"^.{{{place}}}{letter}"):
                spelt += letter
                break
    await session.execute("mail", {"text": spelt})
    assert sent in ([], [""])


async def test_what_is_said_of_other_content(world: tuple[ToolEngine, list[str]]) -> None:
    """The size of what one tool gave, and of what was made of things that were read, is said."""
    engine, sent = world
    session = ToolSession(engine, "chat", ToolCallConfig(show="summary"))
    kept = await session.execute("fetch")
    assert "a text of 7 characters" in str(kept.final_text)
    found = await session.execute("find", {"text": PAGE, "pattern": "a"})
    assert str(found.final_text).startswith("The result is kept unread. To pass it on: $VAR_REF")
    await session.execute("read_var", {"name": kept.result_variable})
    found = await session.execute("find", {"text": PAGE, "pattern": "a"})
    assert "a list of 1 entries" in str(found.final_text)
    assert sent == []


async def test_a_failure_without_references_is_not_read(
    world: tuple[ToolEngine, list[str]],
) -> None:
    """What a tool was not given it cannot answer about."""
    engine, _ = world
    session = ToolSession(engine, "chat", ToolCallConfig(show="none"))
    failed = await session.execute("insist", {"text": "a", "pattern": "b"})
    assert not failed.is_success
    assert session.read_labels.labels == frozenset()
