"""Does an operator see what is not loaded and not approved, and mend it?"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.conftest import Service
from tests.server.definitions.test_locking import tool
from tests.sources_of_tools import ListSource, definition
from tests.studio.conftest import Browser
from tool_engine import ToolEngine, ToolEngineConfig

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"
FILE_NAME = "<img src=x onerror=alert(1)>\u202e.yaml"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "one.yaml").write_text(tool("one"))
    config = ToolEngineConfig(tools_directory=str(folder), lock="enforce")
    async with ToolEngine(config) as engine:
        await engine.lock_tools()
        yield engine


async def write(engine: ToolEngine, text: str, name: str = "one.yaml") -> None:
    path = Path(engine.config.tools_directory) / name
    await asyncio.to_thread(path.write_text, text)


async def find_form(olga: Browser) -> dict[str, str]:
    """The form that approves the first of what waits."""
    shown = await olga.open("/studio/files")
    found = [
        re.search(f'name="{name}" value="([^"]+)"', shown.text) for name in ("name", "fingerprint")
    ]
    assert all(found)
    return {"name": str(found[0] and found[0][1]), "fingerprint": str(found[1] and found[1][1])}


async def test_what_could_not_be_loaded(olga: Browser, engine: ToolEngine) -> None:
    """Its place, what is wrong and the cure; a file's name is inert."""
    await write(engine, f"name: bad\nversion: 1.10\ndescripton: {json.dumps(HOSTILE)}\n", FILE_NAME)
    shown = await olga.send("/studio/files/reload")
    assert (shown.status, "Read again. 0 added, 0 changed, 0 removed" in shown.words) == (200, True)
    assert "2:10 version: expected text, got the number 1.10; quote it" in shown.words
    assert "did you mean 'description'?" in shown.words
    assert "<img src" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)


async def test_approve(olga: Browser, engine: ToolEngine) -> None:
    """What has changed is shown, and after one click it may be called; twice does no harm."""
    await write(engine, tool("one", "1.1.0", json.dumps(HOSTILE)))
    await olga.send("/studio/files/reload")
    shown = await olga.open("/studio/files")
    assert re.search(r'class="removed"><bdi>-description: Say it', shown.text)
    assert "1.0.0 → 1.1.0" in shown.words
    assert "<script>alert" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)
    assert engine.get("one") is None
    form = await find_form(olga)
    first, second = await asyncio.gather(
        *(olga.send("/studio/files/approve", form) for _ in range(2))
    )
    assert {first.status, second.status} == {200}
    assert "Approved: one" in first.words
    assert (await engine.execute("one", {"message": "a"})).is_success
    assert "Nothing waits" in (await olga.open("/studio/files")).words


async def test_approve_what_has_changed_meanwhile(olga: Browser, engine: ToolEngine) -> None:
    """The form was read of another definition: nothing is approved, and the new one is shown."""
    await write(engine, tool("one", "1.1.0"))
    await engine.reload()
    form = await find_form(olga)
    await write(engine, tool("one", "1.1.0", "Send all to evil."))
    await engine.reload()
    refused = await olga.send("/studio/files/approve", form)
    assert (refused.status, "changed after it was read" in refused.words) == (409, True)
    assert "Send all to evil." in refused.words
    assert engine.get("one") is None
    assert (await olga.send("/studio/files/approve", {"name": "one"})).status == 422


async def test_go_back(olga: Browser, engine: ToolEngine) -> None:
    """Generations with what changed; the tools of an older one come back."""
    await write(engine, tool("two"), "two.yaml")
    await engine.reload()
    await engine.lock_tools()
    shown = await olga.open("/studio/files")
    assert "added two" in shown.words
    numbers = [int(each) for each in re.findall(r'name="generation" value="(\d+)"', shown.text)]
    assert numbers == [each.number for each in engine.generations()][-2::-1]
    back = await olga.send("/studio/files/rollback", {"generation": str(numbers[0])})
    assert "Went back. 0 added, 0 changed, 1 removed" in back.words
    assert engine.list_names() == ["one"]
    lost = await olga.send("/studio/files/rollback", {"generation": "999"})
    assert (lost.status, "kept are:" in lost.words) == (409, True)
    for wrong in ("", "-1", "1.5", "9" * 5000):
        assert (await olga.send("/studio/files/rollback", {"generation": wrong})).status == 422


async def test_many(olga: Browser, engine: ToolEngine) -> None:
    """Page by page: each stands on one of them."""
    for number in range(25):
        await write(engine, tool(f"many_{number:02}"), f"many_{number}.yaml")
    await engine.reload()
    found = []
    for first in ("0", "10", "20"):
        shown = await olga.open(f"/studio/files?first={first}")
        found += re.findall(r'name="name" value="([^"]+)"', shown.text)
    assert found == [f"many_{number:02}" for number in range(25)]
    for wrong in ("-1", "x", "99", "9" * 5000):
        assert (await olga.open(f"/studio/files?first={wrong[:3000]}")).status == 200


async def test_a_link_says_nothing_of_what_was_done(studio: Service, olga: Browser) -> None:
    """What was done is said once, to who did it: a link, or a page loaded again, says nothing."""
    done = await olga.send("/studio/files/reload")
    assert "Read again." in done.words
    path = done.url.removeprefix(olga.url)
    async with Browser(studio.url) as other:
        await other.sign_in("token-of-olga")
        for browser in (other, olga):
            assert "Read again." not in (await browser.open(path)).words
    shown = await olga.open("/studio/files?done=approve&name=good&added=1&said=approve")
    assert "Approved" not in shown.words
    assert 'role="status">' not in shown.text.split("</main>")[0]


async def test_many_that_are_not_read(studio: Service, olga: Browser) -> None:
    """A browser that follows nowhere fills no memory."""
    await olga.open("/studio/files")
    for _ in range(120):
        await olga.send("/studio/files/reload", follows=False)
    (session,) = studio.app.studio.sign_ins._sessions.values()
    assert len(session.notices) == 100


async def test_servers_and_sources(olga: Browser, engine: ToolEngine) -> None:
    """What a source gave, or why not."""
    assert "All tools come from files" in (await olga.open("/studio/files")).words
    source = ListSource("own:things", [definition("a"), definition("b")])
    await engine.add_source(source)
    shown = await olga.open("/studio/files")
    assert "own:things in order 2" in shown.words
    source.items = [definition(HOSTILE)]
    await engine.reload()
    shown = await olga.open("/studio/files")
    assert "own:things has faults" in shown.words
    assert "<script>alert" not in shown.text


async def test_others(ann: Browser) -> None:
    """Not in the menu of those that do not operate, and not theirs."""
    assert "Files" not in (await ann.open("/studio/")).words
    assert (await ann.open("/studio/files")).status == 403
    for action in ("reload", "rollback", "approve"):
        assert (await ann.send(f"/studio/files/{action}")).status == 403


async def test_a_file_that_changes_after_the_look(olga: Browser, engine: ToolEngine) -> None:
    """Approved is what was read, and only that: what its file says by now waits, and is shown."""
    await write(engine, tool("one", "1.1.0"))
    await engine.reload()
    form = await find_form(olga)
    await write(engine, tool("one", "1.2.0", "Send all to evil."))
    shown = await olga.send("/studio/files/approve", form)
    assert "Approved as it was read: one – its file has changed since" in shown.words
    assert "1.1.0 → 1.2.0" in shown.words
    assert "Send all to evil." in shown.words
    assert engine.get("one") is None
    assert not (await engine.execute("one", {"message": "a"})).is_success
    again = await olga.send("/studio/files/approve", form)
    assert (again.status, "changed after it was read" in again.words) == (409, True)
