"""Does the page show what a protocol reads, and where it found what is wrong?"""

from __future__ import annotations

import re

import pytest

from tests.studio.conftest import Browser
from tool_engine import ToolEngine

REPLY = """Let me <b>add</b>.
<<<[TOOL_REQUEST]>>>
tool_name:「始」add「末」,
a:「始」1「末」,
b:「始」2「末」
<<<[END_TOOL_REQUEST]>>>
<<<[TOOL_REQUEST]>>>
tool_name:「始」note「末」,
text:「始」cut"""


async def test_a_reply_is_read_and_not_run(ann: Browser, engine: ToolEngine) -> None:
    await ann.open("/studio/parser")
    shown = await ann.send("/studio/parser", {"protocol": "vcp", "reply": REPLY})
    assert shown.status == 200
    assert "Calls found: 2" in shown.words
    assert "cut off: must not run" in shown.words
    assert "Let me <b>add</b>." in shown.words
    assert "<b>add" not in shown.text
    marked = re.sub(r"</?bdi>", "", shown.text)
    assert re.search(
        r"<mark>1</mark>&lt;&lt;&lt;\[TOOL_REQUEST\]&gt;&gt;&gt;\ntool_name:「始」note", marked
    )
    assert await engine.query_call_records() == []
    # What was pasted stands there still, as it was.
    assert "text:「始」cut</textarea>" in shown.text


async def test_an_object_of_a_provider(ann: Browser) -> None:
    call = '{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1'
    reply = f'{{"choices": [{{"message": {{"tool_calls": [{call}, \\"b\\": 2}}"}}}}]}}}}]}}'
    await ann.open("/studio/parser")
    shown = await ann.send(
        "/studio/parser", {"protocol": "openai", "reply": reply}, hx_request="true"
    )
    assert shown.status == 200
    assert "Calls found: 1" in shown.words
    assert "<html" not in shown.text


@pytest.mark.parametrize("reply", ["", "{", "[1,", "\x00\u202e", "x" * 100_000])
async def test_what_is_no_call(ann: Browser, reply: str) -> None:
    await ann.open("/studio/parser")
    shown = await ann.send("/studio/parser", {"protocol": "vcp", "reply": reply})
    assert shown.status == 200
    assert "No call is read" in shown.words


async def test_a_protocol_that_is_none(ann: Browser) -> None:
    await ann.open("/studio/parser")
    shown = await ann.send("/studio/parser", {"protocol": "smoke", "reply": "keep me"})
    assert shown.status == 404
    assert "smoke" in shown.words
    assert "keep me</textarea>" in shown.text


@pytest.mark.parametrize(
    ("reply", "status", "says"),
    [
        ('{"choices": [], "choices": [1]}', 422, "the key 'choices' stands twice"),
        ("[" * 200_000, 200, "[[[["),
    ],
)
async def test_json_that_is_none(ann: Browser, reply: str, status: int, says: str) -> None:
    """It is refused, or read as the text that it is; the page does not fail."""
    await ann.open("/studio/parser")
    shown = await ann.send("/studio/parser", {"protocol": "vcp", "reply": reply})
    assert shown.status == status
    assert says in shown.words
