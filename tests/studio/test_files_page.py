"""Does the page show what is wrong with files, and is only approved what was read?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Service
from tests.studio.conftest import Browser, Shown
from tool_engine import ToolEngine, ToolEngineConfig

TOOL = """name: {name}
version: "{version}"
description: {text}
effect: read
parameters: []
entry: {{type: builtin, handler: echo}}
"""
HOSTILE = "<script>alert(1)</script>"


def write_tool(folder: Path, name: str, version: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(TOOL.format(name=name, version=version, text=text))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    """One approved tool that was changed since, a new one, and a file that is none."""
    folder = tmp_path / "tools"
    folder.mkdir()
    write_tool(folder, "old", "1.0.0", "Says it.")
    config = ToolEngineConfig(
        tools_directory=str(folder), lock="enforce", lock_file=str(tmp_path / "tools.lock")
    )
    async with ToolEngine(config) as engine:
        await engine.lock_tools()
        write_tool(folder, "old", "1.1.0", f"Says it {HOSTILE}.")
        write_tool(folder, "new", "1.0.0", "Says more.")
        (folder / "bad.yaml").write_text("name: bad\nversion: 1.0\n")
        await engine.reload()
        yield engine


def find_hash(shown: Shown, name: str) -> str:
    found = re.search(
        rf'name="name" value="{name}"><input type="hidden" name="definition_hash" value="(\w+)"',
        shown.text,
    )
    assert found
    return found[1]


async def test_what_is_wrong_is_shown(olga: Browser, engine: ToolEngine) -> None:
    """The file with its place and cure, the tools with what has changed, and all of it inert."""
    shown = await olga.open("/studio/files")
    assert "bad.yaml" in shown.words
    assert "1.0.0 → 1.1.0" in shown.words
    assert f"Says it {HOSTILE}." in shown.words
    assert HOSTILE not in shown.text
    assert re.search(r'<span class="removed"><bdi>-.*Says it\.', shown.text)


async def test_a_tool_is_approved(olga: Browser, engine: ToolEngine) -> None:
    shown = await olga.open("/studio/files")
    fields = {"name": "old", "definition_hash": find_hash(shown, "old")}
    done = await olga.send("/studio/files/approve", fields)
    assert [each.name for each in engine.quarantined()] == ["new"]
    found = engine.get("old")
    assert found is not None
    assert found.version == "1.1.0"
    assert "1.0.0 → 1.1.0" not in done.words
    again = await olga.send("/studio/files/approve", fields)
    assert again.status == 404


async def test_what_has_changed_since_it_was_read(
    olga: Browser, engine: ToolEngine, tmp_path: Path
) -> None:
    shown = await olga.open("/studio/files")
    await asyncio.to_thread(write_tool, tmp_path / "tools", "old", "1.2.0", "Says another thing.")
    await engine.reload()
    fields = {"name": "old", "definition_hash": find_hash(shown, "old")}
    refused = await olga.send("/studio/files/approve", fields)
    assert (refused.status, "has changed" in refused.words) == (409, True)
    assert sorted(each.name for each in engine.quarantined()) == ["new", "old"]


async def test_generations(olga: Browser, engine: ToolEngine) -> None:
    """One goes back with a click; what is no generation is refused."""
    shown = await olga.open("/studio/files")
    fields = {"name": "new", "definition_hash": find_hash(shown, "new")}
    before = engine.generation
    await olga.send("/studio/files/approve", fields)
    assert engine.get("new") is not None
    await olga.send("/studio/files/rollback", {"generation": str(before)})
    assert engine.get("new") is None
    refused = await olga.send("/studio/files/rollback", {"generation": "999"})
    assert refused.status == 409
    assert (await olga.send("/studio/files/rollback", {"generation": "x"})).status == 422


async def test_all_is_read_again(olga: Browser, engine: ToolEngine, tmp_path: Path) -> None:
    await olga.open("/studio/files")
    await asyncio.to_thread((tmp_path / "tools" / "bad.yaml").unlink)
    shown = await olga.send("/studio/files/reload")
    assert "All definitions are loaded." in shown.words


async def test_one_that_does_not_operate(studio: Service, ann: Browser) -> None:
    assert "Files" not in (await ann.open("/studio/")).words
    for path in ("/studio/files", "/studio/nothing"):
        assert (await ann.open(path)).status in (403, 404)
    for path in ("reload", "rollback", "approve"):
        assert (await ann.send(f"/studio/files/{path}")).status == 403


@pytest.mark.parametrize("body", [{}, {"tools": {}}, {"tools": {"old": 1}}])
async def test_locks_that_are_none(
    studio: Service, engine: ToolEngine, body: dict[str, Any]
) -> None:
    client = studio.client("olga")
    answer = await client.send("POST", "/v1/lock", json=body)
    assert answer.status == 422
    assert len(engine.quarantined()) == 2
