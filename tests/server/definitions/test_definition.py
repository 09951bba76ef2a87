"""Does an operator see what a tool says, where it stands, and what it was before?"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.server.conftest import Client, Service
from tool_engine import ToolEngine

FETCH = """
# Fetches.
name: other
description: Another tool.
entry: {{type: builtin, handler: echo}}
---
name: fetch
version: {version}
description: {description}
effect: read
parameters:
  - {{name: message, type: string, required: true, description: What to say}}
  - {{name: pin, type: string, default: "4711", secret: true, description: The pin}}
entry: {{type: builtin, handler: echo}}
examples:
  - {{description: hello, params: {{message: hello, pin: "0815"}}}}
"""
THIRD = """
name: third
description: A third.
entry: {type: builtin, handler: echo}
"""


async def write(engine: ToolEngine, text: str, name: str = "fetch.yaml") -> None:
    path = Path(engine.config.tools_directory) / name
    await asyncio.to_thread(path.write_text, text)
    await engine.reload()


async def test_what_it_says(olga: Client, engine: ToolEngine) -> None:
    """Its YAML, the line at which it begins, and no secret, whatever calls it so."""
    await write(engine, FETCH.format(version="1.0.0", description="Fetch."))
    answer = await olga.get("/v1/tools/fetch/definition")
    found = answer.json
    assert found["file"].endswith("fetch.yaml")
    assert found["line"] == 7
    assert found["yaml"].startswith("name: fetch\n")
    assert found["definition"]["parameters"][0]["name"] == "message"
    assert "4711" not in answer.text
    assert "0815" not in answer.text
    assert "hello" in answer.text
    assert found["lock"]["is_approved"] is None
    shown = (await olga.get("/v1/tools/fetch")).json["examples"]
    assert shown == [{"description": "hello", "params": {"message": "hello", "pin": "[hidden]"}}]


async def test_what_it_was_before(olga: Client, engine: ToolEngine) -> None:
    """Each version that a kept generation had, with what it changed; the newest first."""
    await write(engine, FETCH.format(version="1.0.0", description="Fetch."))
    await write(
        engine, "name: third\ndescription: A third.\nentry: {type: builtin, handler: echo}", "b.yml"
    )
    await write(engine, FETCH.format(version="1.1.0", description="Fetch it."))
    new, old = (await olga.get("/v1/tools/fetch/definition")).json["versions"]
    assert (new["version"], new["level"]) == ("1.1.0", "cosmetic")
    assert {"-version: 1.0.0", "+version: 1.1.0"} <= set(new["diff"].split("\n"))
    assert [each["path"] for each in new["changes"]] == ["version", "description"]
    assert (old["version"], old["diff"], old["changes"]) == ("1.0.0", None, [])
    assert new["generation"] > old["generation"]


async def test_a_file_that_is_gone(olga: Client, engine: ToolEngine) -> None:
    """What is loaded is shown; no line of a file is said that is not there."""
    await write(engine, FETCH.format(version="1.0.0", description="Fetch."))
    path = Path(engine.config.tools_directory) / "fetch.yaml"
    await asyncio.to_thread(path.unlink)
    assert (await olga.get("/v1/tools/fetch/definition")).json["line"] is None


async def test_code(olga: Client) -> None:
    """A tool of code has no file, and needs no approval."""
    found = (await olga.get("/v1/tools/add/definition")).json
    assert (found["origin"], found["file"], found["line"]) == ("code", None, None)
    assert found["lock"]["is_needed"] is False


async def test_others(service: Service, ann: Client, olga: Client) -> None:
    """It may hold addresses and SQL: for those that operate alone."""
    assert (await ann.get("/v1/tools/add/definition")).kind == "not-allowed"
    assert (await olga.get("/v1/tools/ad/definition")).kind == "unknown-tool"
