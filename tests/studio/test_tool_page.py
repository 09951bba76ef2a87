"""Does a person see all of a tool that they may know, and can they try it?"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.studio.conftest import Browser
from tool_engine import ToolEngine
from tool_engine.studio.pages.tool_page import list_arguments

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"
WEATHER = """
name: weather
version: "{version}"
title: {hostile}
description: {hostile}
permission: {{execution: ask_once}}
effect: read
parameters:
  - {{name: city, type: string, required: true, description: {hostile}}}
  - {{name: pin, type: string, default: "pin-4711", secret: true, description: The pin}}
entry: {{type: builtin, handler: echo}}
examples:
  - {{description: {hostile}, params: {{city: {hostile}, pin: "pin-0815"}}}}
tests:
  - {{name: says it, params: {{city: Paris}}, expect_part: {{city: {hostile}}}}}
"""


async def write(engine: ToolEngine, version: str = "1.0.0") -> None:
    path = Path(engine.config.tools_directory) / "weather.yaml"
    text = WEATHER.format(version=version, hostile=json.dumps(HOSTILE))
    await asyncio.to_thread(path.write_text, text)
    await engine.reload()


async def test_all_of_it(olga: Browser, engine: ToolEngine) -> None:
    """Arguments, examples, tests, definition with its place, versions; nothing of it runs."""
    await write(engine)
    await write(engine, "1.1.0")
    shown = await olga.open("/studio/tools/weather")
    assert shown.status == 200
    for words in ("weather.yaml:2", "says it", "since generation", "before it runs: ask_once"):
        assert words in shown.words
    for heading in ("Arguments", "Examples", "Tests of the definition", "Definition", "Versions"):
        assert re.search(rf"<h2[^>]*>{heading}</h2>", shown.text)
    assert re.search(r'class="removed"><bdi>-version: 1.0.0', shown.text)
    assert "<script>alert" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)
    assert "pin-4711" not in shown.text
    assert "pin-0815" not in shown.text


async def test_its_calls(olga: Browser, engine: ToolEngine) -> None:
    """Their number leads to them, and that of the errors to those."""
    await engine.execute("add", {"a": 1, "b": 2})
    await engine.execute("add", {"a": "x", "b": 2})
    shown = await olga.open("/studio/tools/add")
    links = re.findall(r'href="(/studio/history[^"]*)">(\d+)<', shown.text)
    assert [count for _, count in links] == ["2", "1"]
    failed = await olga.open(links[1][0].replace("&amp;", "&"))
    assert failed.status == 200
    assert "validation_error" in failed.text


async def test_an_example_in_the_tester(ann: Browser, engine: ToolEngine) -> None:
    """Its link fills in the form with the very arguments."""
    await write(engine)
    shown = await ann.open("/studio/tools/weather")
    assert "Load into the tester" in shown.words
    link = re.search(r'href="(/studio/tester\?tool=weather&amp;arguments=[^"]*)"', shown.text)
    assert link
    query = parse_qs(urlsplit(link[1].replace("&amp;", "&")).query)
    assert json.loads(query["arguments"][0])["city"] == HOSTILE
    assert (await ann.open(link[1].replace("&amp;", "&"))).status == 200


async def test_those_that_do_not_operate(ann: Browser, engine: ToolEngine) -> None:
    """No definition, no file, no tests: neither shown nor done."""
    await write(engine)
    shown = await ann.open("/studio/tools/weather")
    assert "weather.yaml" not in shown.text
    assert "Run the tests" not in shown.words
    assert "builtin" not in shown.text
    assert (await ann.send("/studio/tools/weather/tests")).status == 403


@pytest.mark.parametrize("is_part", [True, False])
async def test_run_its_tests(olga: Browser, engine: ToolEngine, is_part: bool) -> None:
    """Each case with its outcome, place and difference; with and without JavaScript."""
    await write(engine)
    await olga.open("/studio/tools/weather")
    path = "/studio/tools/weather/tests"
    shown = await (olga.send(path, HX_Request="true") if is_part else olga.send(path))
    assert shown.status == 200
    assert ("<html" not in shown.text) is is_part
    assert "failed" in shown.words
    assert "weather.yaml:15" in shown.words
    assert "<script>alert" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)


async def test_tests_that_cannot_be_run(olga: Browser) -> None:
    """Those of code: the page offers none, and a form that asks all the same says why not."""
    shown = await olga.open("/studio/tools/add")
    assert "only the program that has it can run its tests" in shown.words
    assert "Run the tests" not in shown.words
    refused = await olga.send("/studio/tools/add/tests")
    assert (refused.status, "is of no file" in refused.words) == (409, True)


async def test_one_that_is_not_there(olga: Browser) -> None:
    assert (await olga.open("/studio/tools/none")).status == 404


def test_arguments_of_any_schema() -> None:
    """What is needed comes first; a schema that says little, or is a mere true, is no fault."""
    schema = {
        "type": "object",
        "required": ["b"],
        "properties": {
            "a": True,
            "b": {"type": ["string", "null"], "default": None},
            "c": {"type": "array", "items": {"enum": ["x", 1]}},
            "d": {"type": "string", "writeOnly": True, "default": "s3cret"},
        },
    }
    found = list_arguments(schema)
    assert [(each["name"], each["type"], each["default"]) for each in found] == [
        ("b", "string | null", "null"),
        ("a", "", None),
        ("c", 'array of "x" | 1', None),
        ("d", "string", "[hidden]"),
    ]
    assert list_arguments({}) == list_arguments({"properties": []}) == []


async def test_drafts_in_the_list(olga: Browser, ann: Browser, engine: ToolEngine) -> None:
    """Marked, for those that operate; as many as the page of files counts."""
    definition = {
        "name": "sketch",
        "version": "1.0.0",
        "description": "Do what is not settled yet.",
        "status": "draft",
        "effect": "read",
    }
    engine.register_tool(definition, lambda: None)
    shown = await olga.open("/studio/tools")
    assert "sketch draft" in shown.words
    assert f"{len(engine.list_names())} tools" in shown.words
    assert "sketch draft" in (await olga.open("/studio/tools?query=not+settled")).words
    assert "sketch" not in (await ann.open("/studio/tools")).words
