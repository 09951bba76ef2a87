"""Does a page stay as small as it is with little, when there is much?"""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

from tests.effort import IS_WHOLE
from tests.server.conftest import served, write_tokens
from tests.studio.conftest import Browser
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.server import create_app

LARGEST = 256_000
"""Bytes of a page, whatever there is."""
TOOLS = 10_000 if IS_WHOLE else 2_000
RECORDS = 100_000 if IS_WHOLE else 10_000
ROW = re.compile(r'<th scope="row"><a href="/studio/tools/([^"]*)"')
NEXT = re.compile(r'<a rel="next" href="([^"]*)"')


async def write_tools(engine: ToolEngine, count: int) -> None:
    """Has an engine read so many tools, and as many definitions again that it cannot read."""
    folder = Path(engine.config.tools_directory)
    entry = {"type": "http", "request": {"url": "http://127.0.0.1:1/"}}
    for first in range(0, count, 500):
        found = [
            {
                "name": f"tool_{number:05}",
                "description": f"Do {number}. {'x ' * 300}",
                "entry": entry,
            }
            for number in range(first, first + 500)
        ]
        bad = [{"name": f"<b>{number}", "entry": {"type": "nix" * 50}} for number in range(500)]
        for name, some in (("tools", found), ("bad", bad)):
            text = "\n---\n".join(map(json.dumps, some))
            await asyncio.to_thread((folder / f"{name}_{first}.yaml").write_text, text)
    await engine.reload()


async def test_many_tools(olga: Browser, engine: ToolEngine) -> None:
    """Each is on one page, in each order, and words find it."""
    await write_tools(engine, TOOLS)
    seen: set[str] = set()
    path = "/studio/tools"
    while path:
        shown = await olga.open(path)
        assert len(shown.text) < LARGEST
        rows = ROW.findall(shown.text)
        assert 0 < len(rows) <= 200
        assert not seen & set(rows)
        seen |= set(rows)
        following = NEXT.search(shown.text)
        path = html.unescape(following[1]) if following else ""
    assert seen == {each.name for each in engine.list_all()}
    assert len(seen) > TOOLS
    await engine.execute("tool_01999")
    assert ROW.findall((await olga.open("/studio/tools?sort=calls")).text)[0] == "tool_01999"
    assert "tool_00711" in ROW.findall((await olga.open("/studio/tools?query=tool_00711")).text)
    for pane in ("/", "/files", "/tester", "/tester?tool=tool_00001", "/tools/tool_00001"):
        shown = await olga.open(f"/studio{pane}")
        assert (shown.status, len(shown.text) < LARGEST) == (200, True), (pane, len(shown.text))


async def test_many_records_in_a_database(tmp_path: Path) -> None:
    """Pages of all, and of those that filters find, go on to the last record."""
    config = ToolEngineConfig(records=f"sqlite:///{tmp_path / 'calls.db'}")
    async with ToolEngine(config) as engine:

        @engine.tool(effect="read")
        async def note(text: str) -> str:
            """Note a text.

            Args:
                text: The text.
            """
            return text

        for number in range(RECORDS):
            caller = f"caller-{number % 500}"
            await engine.execute("note", {"text": "x"}, ToolExecutionContext(caller_id=caller))
        for number in range(120):
            await engine.execute("note", {"text": number})
        app = await asyncio.to_thread(
            create_app, engine, auth=str(write_tokens(tmp_path / "t")), studio=True
        )
        async with served(app) as service, Browser(service.url) as olga:
            await olga.sign_in("token-of-olga")
            for query, count in (("", 200), ("outcome=failed", 120), ("caller=caller-7", 20)):
                assert await _count_pages(olga, f"/studio/history?{query}", 4) >= count, query
            shown = await olga.open("/studio/history?outcome=failed&within=1h&tool=note")
            assert f">{120}<" in shown.text


async def _count_pages(olga: Browser, path: str, most: int) -> int:
    seen: set[str] = set()
    for _ in range(most):
        shown = await olga.open(path)
        assert (shown.status, len(shown.text) < LARGEST) == (200, True)
        rows = re.findall(r'id="record-([^"]+)"', shown.text)
        assert 0 < len(rows) <= 50
        assert not seen & set(rows)
        seen |= set(rows)
        following = NEXT.search(shown.text)
        if following is None:
            break
        path = html.unescape(following[1])
    return len(seen)


HUGE = {
    "text": "line <b>\n" * 1_200_000,
    "rows": [{"number": number, "text": "x" * 80} for number in range(100_000)],
    "one line": "\u202e" * 3_500_000,
}


@pytest.mark.parametrize("kind", HUGE)
async def test_a_result_of_ten_megabytes(olga: Browser, engine: ToolEngine, kind: str) -> None:
    """Each page has a part, and says so; of a task the whole comes as a file."""

    @engine.tool(effect="read")
    async def tell() -> object:
        """Tell."""
        return HUGE[kind]

    assert len(json.dumps(HUGE[kind])) > 10_000_000
    form = {"tool": "tell", "mode": "json", "arguments": "{}"}
    await olga.open("/studio/tester?tool=tell")
    pages = [await olga.send("/studio/tester/run", form)]
    record = re.search(r'<a href="([^"]*)/record" download>', pages[0].text)
    assert record
    pages.append(await olga.open(record[1]))
    assert "Of the result only the beginning is kept" in pages[-1].words
    pages.append(await olga.send("/studio/tester/run", {**form, "as": "task"}))
    while "Cancel" in pages[-1].words:
        pages[-1] = await olga.open(pages[-1].url.removeprefix(olga.url))
    link = re.search(r'<a href="([^"]*)" download>', pages[-1].text)
    assert link
    assert [(each.status, len(each.text) < LARGEST) for each in pages] == [(200, True)] * 3
    kept = await olga.open(link[1])
    assert json.loads(kept.text)["result"]["output"]["result"] == HUGE[kind]
