"""Does a person find the calls that have ended, all of them and none of others?"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.server.conftest import Service
from tests.studio.conftest import Browser, Shown
from tool_engine import ToolEngine, ToolExecutionContext

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"


async def call(engine: ToolEngine, name: str, arguments: Any, **fields: Any) -> None:
    await engine.execute(name, arguments, ToolExecutionContext(**{"caller_id": "ann", **fields}))


def rows_of(shown: Shown) -> list[str]:
    """The tools of the rows, in order."""
    return re.findall(r'<th scope="row"><a [^>]*><bdi>([^<]*)</bdi>', shown.text)


def counts_of(shown: Shown) -> dict[str, int]:
    """How many calls each tab of outcomes names."""
    (tabs,) = re.findall(r'<nav aria-label="Outcome".*?</nav>', shown.text, re.DOTALL)
    return {
        name.strip(): int(count)
        for name, count in re.findall(r'>([^<>]+) <span class="num">(\d+)</span>', tabs)
    }


async def test_nothing_has_ended(olga: Browser) -> None:
    shown = await olga.open("/studio/history")
    assert "No call has ended yet" in shown.words
    assert 'href="/studio/tester"' in shown.text


async def test_a_part_of_a_name(olga: Browser, engine: ToolEngine) -> None:
    """Filters are for whole names: it is said, and names that have the part in them are links."""
    await call(engine, "note", {"text": "a"})
    await call(engine, HOSTILE, {})
    shown = await olga.open("/studio/history?tool=OT&within=1d")
    assert "Names and ids are whole" in shown.words
    assert rows_of(shown) == []
    (link,) = re.findall(r'<a href="(/studio/history\?[^"]*)"><bdi>note</bdi>', shown.text)
    assert rows_of(await olga.open(link.replace("&amp;", "&"))) == ["note"]
    assert '<option value="add">' in shown.text  # that was never called, and not filtered away
    assert '<option value="validation_error">' in shown.text
    assert "<script>alert" not in (await olga.open("/studio/history?tool=alert")).text


async def test_calls_that_have_ended(olga: Browser, engine: ToolEngine) -> None:
    """Each is a row with its outcome, its caller and its error, the newest first."""
    await call(engine, "add", {"a": 1, "b": 2})
    await call(engine, "note", {}, caller_id="bob")
    await call(engine, "nix", {})
    shown = await olga.open("/studio/history")
    assert rows_of(shown) == ["nix", "note", "add"]
    assert counts_of(shown)["All"] == 3
    assert counts_of(shown)["failed"] == 2
    assert "validation_error" in shown.words
    assert "there is no tool 'nix'" in shown.words


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("outcome=failed", ["nix", "note"]),
        ("tool=add", ["add", "add"]),
        ("caller=bob", ["note"]),
        ("conversation=c-1", ["add"]),
        ("error=tool_not_found", ["nix"]),
        ("outcome=failed&caller=bob", ["note"]),
        ("tool=%20add%20&session=&outcome=", ["add", "add"]),
        ("within=1h", ["nix", "note", "add", "add"]),
        ("since=2001-01-01T00:00&until=2002-01-01T00:00:30", []),
        ("since=2001-01-01T00:00:00%2B02:00", ["nix", "note", "add", "add"]),
        ("parent=call-1", []),
        ("ran=1e6", []),
        ("ran=0.000000001&tool=add", ["add", "add"]),
        ("session=s", []),
        ("task=t", []),
    ],
)
async def test_filters(olga: Browser, engine: ToolEngine, query: str, found: list[str]) -> None:
    """They stand in the address, and are asked of the server, over all that is kept."""
    await call(engine, "add", {"a": 1, "b": 2}, conversation_id="c-1")
    await call(engine, "add", {"a": 1, "b": 2})
    await call(engine, "note", {}, caller_id="bob")
    await call(engine, "nix", {})
    shown = await olga.open(f"/studio/history?{query}")
    assert shown.status == 200
    assert rows_of(shown) == found
    assert "Clear the filters" in shown.words
    assert found or "No call matches." in shown.words


async def test_the_tabs_keep_the_other_filters(olga: Browser, engine: ToolEngine) -> None:
    """They count what each would show."""
    for arguments in ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {}):
        await call(engine, "add", arguments)
    await call(engine, "note", {"text": "x"})
    shown = await olga.open("/studio/history?tool=add&outcome=failed")
    assert counts_of(shown) == {
        "All": 3, "succeeded": 2, "failed": 1, "timeout": 0, "cancelled": 0, "rejected": 0
    }  # fmt: skip
    assert 'href="/studio/history?tool=add&amp;outcome=succeeded"' in shown.text
    assert re.search(r'outcome=failed" aria-current="true"', shown.text)
    assert 'value="failed"' in shown.text


async def test_pages(olga: Browser, engine: ToolEngine) -> None:
    """All calls are on some page, each once."""
    for number in range(130):
        await call(engine, "note", {"text": str(number)}, conversation_id=f"c{number}")
    seen, path = [], "/studio/history?tool=note"
    while path:
        shown = await olga.open(path)
        seen += re.findall(r'id="record-([^"]+)"', shown.text)
        following = re.search(r'<a rel="next" href="([^"]+)"', shown.text)
        path = following[1].replace("&amp;", "&") if following else ""
        assert counts_of(shown)["All"] == 130
    assert len(seen) == len(set(seen)) == 130
    assert "The newest" in shown.words


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("since=soon", 422, "write a time as"),
        ("within=ever", 422, "within is one of"),
        ("ran=long", 400, "min_execution_time"),
        ("cursor=nix", 404, "no answer gave the cursor"),
        ("outcome=nice", 400, "outcome"),
        ("since=2029-01-01T00:00&until=2028-01-01T00:00", 409, "start must not be after end"),
        ("tool=" + "x" * 5_000, 400, "tool_name"),
    ],
)
async def test_filters_that_cannot_be(olga: Browser, query: str, status: int, says: str) -> None:
    """The page says what is wrong, and keeps the form that it can be mended in."""
    shown = await olga.open(f"/studio/history?{query}")
    assert shown.status == status
    assert says in shown.words
    assert 'id="filters"' in shown.text


async def test_own_calls_only(ann: Browser, studio: Service, engine: ToolEngine) -> None:
    """Those of others are neither listed nor counted, whatever the address says."""
    await call(engine, "add", {"a": 1, "b": 2}, caller_id="bob")
    await call(engine, "note", {"text": "mine"})
    for path in ("/studio/history", "/studio/history?caller="):
        shown = await ann.open(path)
        assert rows_of(shown) == ["note"]
        assert counts_of(shown)["All"] == 1
        assert 'name="caller"' not in shown.text
    shown = await ann.open("/studio/history?caller=bob")
    assert (rows_of(shown), counts_of(shown)["All"]) == ([], 0)


async def test_hostile_values(olga: Browser, engine: ToolEngine) -> None:
    """Names, errors and callers are shown as text, with what is unseen in them."""
    await call(engine, HOSTILE, {}, caller_id=f'"><img src=x>{HOSTILE}', conversation_id=HOSTILE)
    for path in ("/studio/history", f'/studio/history?tool="><script>&error={HOSTILE[:20]}'):
        shown = await olga.open(path)
        assert "<script>alert" not in shown.text
        assert "<img" not in shown.text
        assert not re.search("[\x1b\u202e\u200b]", shown.text.replace("%E2%80", ""))
    assert "\\u202e" in (await olga.open("/studio/history")).words
