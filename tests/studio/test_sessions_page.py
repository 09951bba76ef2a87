"""Does an operator see what conversations came to, whatever was said in them?"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest

from tests.server.test_sessions import PIN, keep_session
from tests.studio.conftest import Browser
from tool_engine import ToolEngine

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"


async def test_one_session(olga: Browser, engine: ToolEngine) -> None:
    """Messages, calls, variables, groups and bounds, inert and without secrets."""
    await keep_session(engine, f"chat {HOSTILE}".replace("/", ""), said=HOSTILE + PIN)
    listed = await olga.open("/studio/sessions")
    link = re.search(r'href="(/studio/sessions/chat[^"]*)"', listed.text)
    assert link
    shown = await olga.open(link[1])
    assert shown.status == 200
    for words in ("What was said and done", "calls unlock", "unlock has ended", "success"):
        assert words in shown.words
    for words in ("calls 1 5", "tokens 0 1,000", "notes", "mine on", "pay off"):
        assert words in shown.words
    history = re.search(r'href="(/studio/history[^"]*)"[^>]*>in the history', shown.text)
    assert history
    assert "unlock" in (await olga.open(history[1])).words
    for page in (listed, shown):
        assert "<script>alert" not in page.text
        assert not re.search("[\x1b\u202e\u200b]", page.words)
        assert PIN not in page.text
    chinese = await olga.send("/studio/choices", {"language": "zh", "back": unquote(link[1][7:])})
    assert (chinese.status, "对话与调用" in chinese.words) == (200, True)


async def test_many_messages(olga: Browser, engine: ToolEngine) -> None:
    """Page by page, the newest first; each message stands on one of them."""
    transcript = [{"role": "user", "text": f"said-{number:03}."} for number in range(250)]
    await engine.store.sessions.save("long", {"more": {"loop": {"transcript": transcript}}})
    shown = await olga.open("/studio/sessions/long")
    found = re.findall(r"said-\d+", shown.text)
    assert (found[0], found[-1], len(found)) == ("said-150", "said-249", 100)
    while link := re.search(r'href="([^"]*)">Earlier<', shown.text):
        shown = await olga.open(link[1].replace("&amp;", "&"))
        found = re.findall(r"said-\d+", shown.text) + found
    assert found == [each["text"].removesuffix(".") for each in transcript]
    assert "1 .. 50 / 250" in shown.words
    assert "no messages on this page" in (await olga.open("/studio/sessions/long?offset=999")).words


async def test_many_sessions(olga: Browser, engine: ToolEngine) -> None:
    for number in range(120):
        await engine.store.sessions.save(f"chat-{number:03}", {})
    first = await olga.open("/studio/sessions")
    assert len(re.findall(r"/sessions/chat-\d+", first.text)) == 100
    second = await olga.open("/studio/sessions?offset=100")
    assert len(re.findall(r"/sessions/chat-\d+", second.text)) == 20
    for wrong in ("-1", "x", "9" * 3000):
        assert (await olga.open(f"/studio/sessions?offset={wrong}")).status == 200


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"more": {"loop": {"transcript": [{"role": HOSTILE, "text": HOSTILE, "time": HOSTILE}]}}},
        {"variables": {"variables": [{"name": HOSTILE, "value": "x" * 10_000_000}]}},
        {"meter": {"by_tool": {HOSTILE: 1}}, "toolbox": {"group_toggles": {HOSTILE: True}}},
    ],
)
async def test_whatever_is_kept(olga: Browser, engine: ToolEngine, data: Any) -> None:
    """What another version or program has kept is shown as far as it goes, cut and inert."""
    await engine.store.sessions.save("odd", data)
    shown = await olga.open("/studio/sessions/odd")
    assert shown.status == 200
    assert "<script>alert" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)
    assert len(shown.text) < 100_000


async def test_none_and_others(olga: Browser, ann: Browser) -> None:
    assert "No conversation is kept here" in (await olga.open("/studio/sessions")).words
    assert (await olga.open("/studio/sessions/none")).status == 404
    assert "Sessions" not in (await ann.open("/studio/")).words
    assert (await ann.open("/studio/sessions")).status == 403
    assert (await ann.open("/studio/sessions/none")).status == 403
