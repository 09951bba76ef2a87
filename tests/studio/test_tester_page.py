"""Does the tester call a tool with what was filled in, and show what came of it?"""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any

import aiohttp
import pytest

from tests.server.conftest import Service
from tests.studio.conftest import Browser, Shown
from tool_engine import ToolEngine, ToolExecutionContext

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "<b>Name</b>"},
        "size": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date"},
        "kind": {"enum": ["a", 1, None]},
        "data": {"type": "string"},
        "shape": {
            "anyOf": [
                {
                    "type": "object",
                    "title": "Circle",
                    "properties": {"radius": {"type": "number"}},
                    "required": ["radius"],
                },
                {"type": "null"},
            ]
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
TEXTS = re.compile(r'<textarea[^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>', re.DOTALL)
CHOICES = re.compile(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', re.DOTALL)


@pytest.fixture
def tools(engine: ToolEngine) -> list[Any]:
    """A tool with controls of all kinds, and what it was called with."""
    called: list[Any] = []

    async def show_all(**arguments: Any) -> Any:
        called.append(arguments)
        return {"got": arguments}

    engine.register_tool(
        {
            "name": "show_all",
            "version": "1.0.0",
            "description": "Show all.",
            "effect": "read",
            "parameters": [
                {
                    "name": name,
                    "type": _type_of(each),
                    "required": name == "name",
                    "description": str(each.get("title", name)),
                    "schema": {key: value for key, value in each.items() if key != "title"},
                }
                for name, each in SCHEMA["properties"].items()  # type: ignore[attr-defined]
            ],
        },
        show_all,
    )

    @engine.tool(effect="read")
    async def steps(count: int, context: ToolExecutionContext) -> str:
        """Take steps.

        Args:
            count: How many.
            context: Hears of each.
        """
        for step in range(count):
            await context.report_progress(step + 1, count, f"step {step + 1} <i>")
        return "done"

    return called


def _type_of(schema: Any) -> str:
    return str(schema.get("type", "any"))


def form_of(shown: Shown) -> dict[str, str]:
    """What a browser would send of the form, as it is shown."""
    whole = shown.text[shown.text.index('id="form"') :]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", whole):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and "checkbox" not in tag and "file" not in tag:
            found[name[1]] = "" if value is None else value[1]
    found.update(TEXTS.findall(whole))
    for name_, inside in CHOICES.findall(whole):
        chosen = re.search(r'value="([^"]*)" selected', inside)
        found[name_] = chosen[1] if chosen else "-"
    found.pop("csrf", None)
    return found


async def test_a_form_that_is_filled_in(ann: Browser, tools: list[Any]) -> None:
    shown = await ann.open("/studio/tester?tool=show_all")
    assert shown.status == 200
    fields = form_of(shown)
    filled = {
        **fields,
        "a:v:/name": "x\r\ny",
        "a:v:/size": "1180591620717411303424",
        "a:v:/kind": "1",
    }
    done = await ann.send("/studio/tester/run", filled)
    assert tools == [{"name": "x\ny", "size": 1180591620717411303424, "kind": 1}]
    assert "succeeded" in done.words
    assert form_of(done)["a:v:/size"] == "1180591620717411303424"  # it stands there still


async def test_what_is_missing_is_said_at_its_place(ann: Browser, tools: list[Any]) -> None:
    fields = form_of(await ann.open("/studio/tester?tool=show_all"))
    refused = await ann.send("/studio/tester/run", {**fields, "a:v:/size": "1.5"})
    assert tools == []
    assert refused.words.count("this is needed; fill it in") == 1
    assert "write a whole number, such as 12" in refused.words
    assert refused.text.count('aria-invalid="true"') == 2
    assert form_of(refused)["a:v:/size"] == "1.5"


async def test_parts_that_are_added_and_removed(ann: Browser, tools: list[Any]) -> None:
    """All without a script: each button shows the form again, with what was typed."""
    path = "/studio/tester/form"
    fields = form_of(await ann.open("/studio/tester?tool=show_all")) | {"a:v:/name": "n"}
    for text in ("one", "two", "three"):
        fields = form_of(await ann.send(path, {**fields, "change": "add:/tags"}))
        last = max(name for name in fields if name.startswith("a:v:/tags/"))
        fields[last] = text
    fields = form_of(await ann.send(path, {**fields, "change": "drop:/tags/1"}))
    fields = form_of(await ann.send(path, {**fields, "a:u:/shape": "0"}))
    fields["a:v:/shape/radius"] = "0.5"
    await ann.send("/studio/tester/run", fields)
    assert tools == [{"name": "n", "tags": ["one", "three"], "shape": {"radius": 0.5}}]
    closed = form_of(await ann.send(path, {**fields, "change": "close:/tags"}))
    await ann.send("/studio/tester/run", {**closed, "a:u:/shape": "1"})
    assert tools[1:] == [{"name": "n", "shape": None}]


async def test_the_same_as_json(ann: Browser, tools: list[Any]) -> None:
    """From a form to JSON and back nothing is lost, and what is no JSON stays as it was typed."""
    fields = form_of(await ann.open("/studio/tester?tool=show_all"))
    fields |= {"a:v:/name": "n", "mode_wanted": "json"}
    shown = await ann.send("/studio/tester/form", fields)
    as_json = form_of(shown)
    assert as_json["arguments"].replace("&#34;", '"') == '{\n  "name": "n"\n}'
    wrong = await ann.send("/studio/tester/run", {**as_json, "arguments": '{"name": '})
    assert "this is no JSON" in wrong.words
    assert form_of(wrong)["arguments"] == "{&#34;name&#34;: "
    text = '{"name": "m", "tags": ["a"]}'
    back = form_of(
        await ann.send("/studio/tester/form", {**as_json, "arguments": text, "mode_wanted": "form"})
    )
    assert (back["a:v:/name"], back["a:v:/tags/0"]) == ("m", "a")
    await ann.send("/studio/tester/run", {**as_json, "arguments": text})
    assert tools == [{"name": "m", "tags": ["a"]}]


async def test_a_file(ann: Browser, studio: Service, tools: list[Any]) -> None:
    """It is sent once: a form that is shown again has kept it."""
    fields = form_of(await ann.open("/studio/tester?tool=show_all"))
    form = aiohttp.FormData({"csrf": ann.csrf, **fields})
    form.add_field("a:f:/data", b"\x00\xff", filename="x.bin")
    again = await ann._ask("POST", "/studio/tester/run", {}, data=form)
    kept = form_of(again)
    assert kept["a:v:/data"] == base64.b64encode(b"\x00\xff").decode()
    await ann.send("/studio/tester/run", {**kept, "a:v:/name": "n"})
    assert tools == [{"name": "n", "data": "AP8="}]
    # As text it is none: nothing is made of it that was not there.
    form = aiohttp.FormData({"csrf": ann.csrf, **fields, "a:v:/name": "n"})
    form.add_field("a:t:/name", b"caf\xe9", filename="x.txt")
    refused = await ann._ask("POST", "/studio/tester/run", {}, data=form)
    assert (refused.status, "no text in UTF-8" in refused.words) == (422, True)
    assert len(tools) == 1


async def test_what_happens_as_it_happens(ann: Browser, tools: list[Any]) -> None:
    """With scripts the answer is a stream of parts of the page; the last one has the result."""
    fields = form_of(await ann.open("/studio/tester?tool=steps"))
    answer = await ann.send("/studio/tester/run", {**fields, "a:v:/count": "2"}, hx_request="true")
    assert answer.headers["content-type"] == "text/event-stream"
    parts = answer.text.strip().split("\n\n")
    assert "step" in answer.text
    assert "<i>" not in answer.text
    assert "succeeded" in parts[-1]
    assert "done" in parts[-1]


async def wait_for_tasks(engine: ToolEngine) -> None:
    for each in await engine.tasks.list():
        await (await engine.tasks.get(each.id)).wait()


@pytest.mark.parametrize("kind", [{}, {"as": "task"}])
async def test_two_clicks_are_one_call(
    ann: Browser, engine: ToolEngine, tools: list[Any], kind: dict[str, str]
) -> None:
    """Without a script, too: both show the same result; a form that was changed is another call."""
    fields = form_of(await ann.open("/studio/tester?tool=show_all")) | {"a:v:/name": "n"} | kind
    first, second = await asyncio.gather(
        *(ann.send("/studio/tester/run", fields) for _ in range(2))
    )
    assert (first.status, second.status) == (200, 200)
    await asyncio.gather(
        *[(await engine.tasks.get(each.id)).wait() for each in await engine.tasks.list()]
    )
    assert tools == [{"name": "n"}]
    await ann.send("/studio/tester/run", {**fields, "a:v:/name": "m"})
    again = form_of(await ann.open("/studio/tester?tool=show_all")) | {"a:v:/name": "n"} | kind
    await ann.send("/studio/tester/run", again)
    await asyncio.gather(
        *[(await engine.tasks.get(each.id)).wait() for each in await engine.tasks.list()]
    )
    assert sorted(each["name"] for each in tools) == ["m", "n", "n"]


async def test_the_first_of_two_clicks_is_gone(ann: Browser, engine: ToolEngine) -> None:
    """A browser gives up the first request for the second: the call goes on for that one."""
    begun, end = asyncio.Event(), asyncio.Event()
    count = 0

    @engine.tool(effect="write")
    async def slow() -> str:
        """Be slow."""
        nonlocal count
        count += 1
        begun.set()
        await end.wait()
        return "all of it"

    fields = form_of(await ann.open("/studio/tester?tool=slow"))
    first = asyncio.create_task(ann.send("/studio/tester/run", fields))
    async with asyncio.timeout(20):
        await begun.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(ann.send("/studio/tester/run", fields))
        end.set()
        assert "all of it" in (await second).words
    assert count == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"a": 1, "b": 1, "b": 2}', "the key 'b' stands twice"),
        ('{"a": 1, "b": NaN}', "NaN is no JSON number"),
        ('{"a": 1, "b": 1e999}', "too large"),
        ('{"a": 1', "this is no JSON"),
    ],
)
async def test_json_that_is_read_in_two_ways_is_not_run(
    ann: Browser, engine: ToolEngine, arguments: str, says: str
) -> None:
    await ann.open("/studio/tester?tool=add")
    fields = {"tool": "add", "mode": "json", "arguments": arguments}
    shown = await ann.send("/studio/tester/run", fields, hx_request="true")
    assert "Nothing was run" in shown.words
    assert says in shown.words
    assert await engine.query_call_records() == []


@pytest.mark.parametrize("limit", ["nan", "inf", "1e400", "0", "-1", "x"])
async def test_time_limits_that_are_none(ann: Browser, engine: ToolEngine, limit: str) -> None:
    """One that would not hold is refused, and the tool does not run without."""
    await ann.open("/studio/tester?tool=add")
    fields = {"tool": "add", "mode": "json", "arguments": '{"a": 1, "b": 2}', "timeout": limit}
    shown = await ann.send("/studio/tester/run", fields)
    assert (shown.status, "a number of seconds" in shown.words) == (422, True)
    assert await engine.query_call_records() == []


@pytest.mark.parametrize("partial", [{"hx_request": "true"}, {}])
async def test_a_result_with_half_a_character(
    ann: Browser, engine: ToolEngine, partial: dict[str, Any]
) -> None:
    """What no strict reader of JSON takes: it is shown as the six letters that the API sends."""

    @engine.tool(effect="read")
    async def cut() -> dict[str, str]:
        """Cut."""
        return {"text": "half \ud83d", "\ud83d": "key"}

    fields = form_of(await ann.open("/studio/tester?tool=cut"))
    shown = await ann.send("/studio/tester/run", {**fields, "mode": "json"}, **partial)
    assert "succeeded" in shown.words
    for line in (r'"text": "half \\ud83d"', r'"\\ud83d": "key"'):
        assert line in shown.words


async def test_a_stream_that_fails_says_so(
    ann: Browser, engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ann.open("/studio/tester?tool=add")
    monkeypatch.setattr("tool_engine.studio.pages.tester_page._describe_result", lambda *_: 1 / 0)
    fields = {"tool": "add", "mode": "json", "arguments": '{"a": 1, "b": 2}'}
    shown = await ann.send("/studio/tester/run", fields, hx_request="true")
    assert "the page has failed; the log of the server says how" in shown.words


async def test_a_failure_and_its_copies(ann: Browser) -> None:
    """The result says what failed; the same call is there as curl, Python, YAML and a link."""
    fields = form_of(await ann.open("/studio/tester?tool=add"))
    done = await ann.send("/studio/tester/run", {**fields, "a:v:/a": "1", "a:v:/b": "2"})
    assert f"curl -X POST {ann.url}/v1/tools/add/calls" in done.words
    assert "await engine.execute('add', {'a': 1, 'b': 2})" in done.words
    link = re.search(r'href="(/studio/tester\?[^"]+)"[^>]*>A link to this', done.text)
    assert link
    again = await ann.open(link[1].replace("&amp;", "&"))
    assert form_of(again)["a:v:/b"] == "2"
    loaded = re.findall(r'href="(/studio/tester\?tool=add&amp;call=[^"]+)"', done.text)
    assert form_of(await ann.open(loaded[0].replace("&amp;", "&")))["a:v:/a"] == "1"


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("tool=ad", 404, "did you mean 'add'"),
        ("tool=a/b", 404, "no tool 'a/b'"),
        ("tool=add&arguments=%7B", 422, "no JSON"),
        ("tool=add&arguments=%7B%22a%22%3A1%2C%22a%22%3A2%7D", 422, "the key 'a' stands twice"),
        ("tool=add&call=no-such-call", 404, "no-such-call"),
        ("", 200, "Type the name of a tool"),
    ],
)
async def test_what_cannot_be_loaded(ann: Browser, query: str, status: int, says: str) -> None:
    shown = await ann.open(f"/studio/tester?{query}")
    assert shown.status == status
    assert says in shown.words


async def test_a_call_of_another_is_not_loaded(
    ann: Browser, studio: Service, engine: ToolEngine
) -> None:
    context = ToolExecutionContext(caller_id="bob")
    result = await engine.execute("add", {"a": 7, "b": 8}, context)
    call_id = result.metadata["call_id"]
    shown = await ann.open(f"/studio/tester?tool=add&call={call_id}")
    assert shown.status == 404
    assert form_of(shown)["a:v:/a"] == ""
    assert (await ann.open(f"/studio/history/calls/{call_id}/record")).status == 404


async def test_one_that_may_not_call(studio: Service) -> None:
    async with Browser(studio.url) as reader:
        await reader.sign_in("token-of-reader")
        assert "Tester" not in (await reader.open("/studio/tools")).words
        assert (await reader.open("/studio/tester?tool=add")).status == 403
