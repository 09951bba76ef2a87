"""Are the tests of a tool run beside an engine that goes on serving?"""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.server.conftest import Client
from tests.server.definitions.test_definition import write
from tool_engine import ToolEngine

GREET = """
name: greet
description: Greets.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to say}
entry: {type: builtin, handler: echo}
tests:
  - {name: says it, params: {message: hi}, expect_part: {message: hi}}
  - {name: says more, params: {message: hi}, expect_part: {message: "<b>ho</b>"}}
"""


async def test_what_passes_and_what_does_not(olga: Client, engine: ToolEngine) -> None:
    """Each case with its place and what differs."""
    await write(engine, GREET, "greet.yaml")
    found = (await olga.send("POST", "/v1/tools/greet/tests", json={"cases": 5})).json
    assert (found["passed"], found["failed"], found["accepted"]) == (1, 1, 5)
    good, bad = found["cases"]
    assert (good["title"], good["status"], good["place"]) == ("says it", "passed", None)
    assert bad["path"] == ["tests", 1]
    assert bad["place"].endswith("greet.yaml:10")
    assert "<b>ho</b>" in bad["problems"][0]


async def test_the_engine_stays_as_it_is(
    olga: Client, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable of this process is taken away, and no executor replaced, meanwhile or after."""
    monkeypatch.setenv("GREETING", "real")
    env = 'env: {GREETING: "of the test"}, '
    await write(engine, GREET.replace("name: says it, ", f"name: says it, {env}"), "greet.yaml")
    running = asyncio.create_task(olga.send("POST", "/v1/tools/greet/tests"))
    seen = set()
    while not running.done():
        seen.add(os.environ.get("GREETING"))
        await asyncio.sleep(0)
    assert (await running).status == 200
    assert seen == {"real"}
    assert (await engine.execute("greet", {"message": "a"})).is_success


async def test_time(olga: Client, engine: ToolEngine) -> None:
    """What does not end in time is stopped, and said."""
    await write(engine, GREET, "greet.yaml")
    late = await olga.send("POST", "/v1/tools/greet/tests", json={"timeout": 0.01})
    assert (late.status, late.kind) == (409, "not-tested")
    assert "did not end within 0.01 s" in late.json["detail"]


async def test_those_that_cannot_be(ann: Client, olga: Client, engine: ToolEngine) -> None:
    """Of code; of a file that is gone; and by one that does not operate."""
    code = await olga.send("POST", "/v1/tools/add/tests")
    assert (code.status, code.kind) == (409, "no-file")
    assert (await ann.send("POST", "/v1/tools/add/tests")).kind == "not-allowed"
    assert (await olga.send("POST", "/v1/tools/none/tests")).kind == "unknown-tool"
