"""Does a person see what they consent to, and does their answer hold for that alone?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import BOUND, Service
from tests.studio.conftest import Browser
from tool_engine import ToolEngine, ToolExecutionContext

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"


@pytest.fixture
async def asked(engine: ToolEngine, studio: Service) -> AsyncIterator[Any]:
    """A call that waits for consent, of a principal in a conversation."""

    @engine.tool(permission="ask_once")
    async def tell(text: str) -> str:
        """Tell it.

        Args:
            text: What.
        """
        return text

    context = ToolExecutionContext(caller_id="ann", conversation_id="c-1")
    call = asyncio.create_task(engine.execute("tell", {"text": HOSTILE}, context))
    async with asyncio.timeout(BOUND):
        while not await engine.approvals.pending():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    yield call
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def find_form(browser: Browser) -> tuple[str, str]:
    """Where an answer goes, and for which definition."""
    shown = await browser.open("/studio/approvals")
    action = re.search(r'action="(/studio/approvals/[^"]+)"', shown.text)
    hash_ = re.search(r'name="definition_hash" value="([^"]*)"', shown.text)
    assert action
    assert hash_
    return action[1], hash_[1]


async def test_what_is_asked_is_shown_inert(olga: Browser, asked: Any) -> None:
    shown = await olga.open("/studio/approvals")
    assert "tell" in shown.words
    assert "ann" in shown.words
    assert "<script>alert" not in shown.text
    assert "\\u001b" in shown.words  # as JSON has it
    assert not re.search("[\x1b\u202e\u200b]", shown.text)
    assert 'data-count="1"' in (await olga.open("/studio/approvals/count")).text
    assert not asked.done()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("allow", True),
        ("allow-this", True),
        ("always-tool", True),
        ("refuse", False),
        ("refuse-this", False),
    ],
)
async def test_answers(olga: Browser, asked: Any, answer: str, outcome: bool) -> None:
    action, hash_ = await find_form(olga)
    fields = {"answer": answer, "definition_hash": hash_, "reason": "not today"}
    shown = await olga.send(action, fields)
    assert (shown.status, shown.url.rpartition("/")[2]) == (200, "approvals")
    async with asyncio.timeout(BOUND):
        result = await asked
    assert result.is_success is outcome
    assert "Decided by olga" in (await olga.open(f"/studio/history/calls/{result.call_id}")).words
    if not outcome:
        assert "not today" in result.error


async def test_what_is_remembered(olga: Browser, asked: Any, engine: ToolEngine) -> None:
    """`Always allow this tool` holds for this principal, with other arguments too."""
    action, hash_ = await find_form(olga)
    await olga.send(action, {"answer": "always-tool", "definition_hash": hash_})
    async with asyncio.timeout(BOUND):
        await asked
        same = ToolExecutionContext(caller_id="ann", conversation_id="c-2")
        assert (await engine.execute("tell", {"text": "other"}, same)).is_success
    assert await engine.approvals.pending() == []


@pytest.mark.parametrize(("answer", "asked_again"), [("refuse", 0), ("refuse-this", 1)])
async def test_a_refusal_says_whether_it_is_remembered(
    olga: Browser, asked: Any, engine: ToolEngine, answer: str, asked_again: int
) -> None:
    action, hash_ = await find_form(olga)
    assert "Refuse, and remember" in (await olga.open("/studio/approvals")).words
    await olga.send(action, {"answer": answer, "definition_hash": hash_})
    async with asyncio.timeout(BOUND):
        await asked
        context = ToolExecutionContext(caller_id="ann", conversation_id="c-1")
        again = asyncio.create_task(engine.execute("tell", {"text": HOSTILE}, context))
        while not (again.done() or await engine.approvals.pending()):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    assert len(await engine.approvals.pending()) == asked_again
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_two_people_answer_at_once(studio: Service, olga: Browser, asked: Any) -> None:
    """The first answer decides; the second one learns that it was answered."""
    async with Browser(studio.url) as asker:
        await asker.sign_in("token-of-asker")
        action, hash_ = await find_form(olga)
        await asker.open("/studio/approvals")
        fields = {"answer": "allow", "definition_hash": hash_}
        first, second = await asyncio.gather(
            olga.send(action, fields), asker.send(action, {**fields, "answer": "refuse"})
        )
    late = second if first.status == 200 else first
    assert {first.status, second.status} in ({200, 404}, {200, 409})
    assert "answered" in late.words
    async with asyncio.timeout(BOUND):
        assert (await asked).is_success is (first.status == 200)


async def test_what_has_changed_meanwhile(
    olga: Browser, studio: Service, engine: ToolEngine, tmp_path: Path, asked: Any
) -> None:
    """What was read was another definition: nothing is answered."""
    action, _ = await find_form(olga)
    refused = await olga.send(action, {"answer": "allow", "definition_hash": "0" * 64})
    assert (refused.status, "has changed" in refused.words) == (409, True)
    assert len(await engine.approvals.pending()) == 1
    assert not asked.done()


@pytest.mark.parametrize("answer", ["", "maybe"])
async def test_no_answer(olga: Browser, asked: Any, answer: str) -> None:
    action, hash_ = await find_form(olga)
    refused = await olga.send(action, {"answer": answer, "definition_hash": hash_})
    assert refused.status == 422
    assert not asked.done()


async def test_one_that_may_not_approve(ann: Browser, asked: Any) -> None:
    page = await ann.open("/studio/")
    assert "Approvals" not in page.words
    assert (await ann.open("/studio/approvals")).status == 403
    assert not asked.done()


async def test_nothing_waits(olga: Browser) -> None:
    assert "Nothing waits for consent" in (await olga.open("/studio/approvals")).words
    assert "data-count" not in (await olga.open("/studio/approvals/count")).text
