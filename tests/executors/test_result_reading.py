"""How does a model read on where its result was cut?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.result_reading import ResultReadExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool, ToolCategory

ME = ToolExecutionContext(caller_id="me")
TOOL = Tool(
    id="read_result",
    name="read_result",
    version="1.0.0",
    description="Reads on",
    category=ToolCategory.CUSTOM,
    tags=[],
    parameters=[],
    implementation_config={},
)


async def page_of(output: dict[str, Any], **params: Any) -> dict[str, Any]:
    record = ToolCallRecord(
        record_id="r",
        tool_name="search",
        params={},
        result=output,
        execution_time=0.0,
        is_success=params.pop("is_success", True),
        error=None,
        caller_id="me",
        caller_type="unknown",
        conversation_id=None,
        workflow_id=None,
        created_at=datetime.now(UTC),
        call_id="call-1",
        error_type="timeout",
    )

    async def find_call(_call_id: str) -> ToolCallRecord:
        return record

    return await ResultReadExecutor(find_call).execute(TOOL, {"call_id": "call-1", **params}, ME)


async def test_a_page_of_a_list() -> None:
    """U39: the entries from `offset` on, how many there are, and where the next page begins."""
    page = await page_of({"items": list(range(100))}, path="items", offset=20, limit=3)
    assert page == {
        "call_id": "call-1",
        "path": "items",
        "kind": "list",
        "entries": [20, 21, 22],
        "offset": 20,
        "of": 100,
        "next_offset": 23,
    }
    last = await page_of({"items": list(range(100))}, path="items", offset=98)
    assert (last["entries"], last["next_offset"]) == ([98, 99], None)


async def test_a_page_of_a_text() -> None:
    """U39: characters count, whatever they are; a page is bounded as a model reads it."""
    page = await page_of({"t": "é😀" * 50}, path="t", offset=1, limit=2)
    assert (page["text"], page["of"], page["next_offset"]) == ("😀é", 100, 3)
    escaped = await page_of({"t": "\x00" * 50_000}, path="t")
    assert 1_000 < len(escaped["text"]) == escaped["next_offset"]
    assert len(json.dumps(escaped, ensure_ascii=False)) < 8_300


async def test_a_value_that_has_no_pages() -> None:
    """A number, a bool or null is given as it is."""
    assert (await page_of({"a": [None]}, path="a[0]"))["value"] is None


async def test_what_does_not_fit_into_a_page_says_how_to_read_it() -> None:
    """A long entry does not push others out, and is reached by its own path."""
    output = {"rows": ["x" * 9_000, {"k": "y" * 9_000}, [["z" * 9_000]], 1]}
    page = await page_of(output, path="rows")
    assert page["entries"] == [
        {"_cut": 'a text of 9,000 characters; read it with path="rows[0]"'},
        {"_cut": 'a mapping of 1 entries; read it with path="rows[1]"'},
        {"_cut": 'a list of 1 entries; read it with path="rows[2]"'},
        1,
    ]


async def test_a_key_that_is_longer_than_a_page() -> None:
    """A hostile key cannot flood a page."""
    page = await page_of({"k" * 50_000: 1, "a": 2})
    assert len(json.dumps(page)) < 8_300
    assert page["entries"]["a"] == 2


@given(
    st.lists(st.text(max_size=3_000) | st.integers() | st.lists(st.integers(), max_size=40)),
    st.none() | st.integers(1, 5),
)
async def test_no_page_is_too_long_and_all_make_up_the_whole(
    rows: list[Any], limit: int | None
) -> None:
    """U39: page after page gives every entry once, and no page is longer than a model can take."""
    read: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        params = {"path": "rows", "offset": offset} | ({} if limit is None else {"limit": limit})
        page = await page_of({"rows": rows}, **params)
        assert len(json.dumps(page, ensure_ascii=False)) < 8_300
        read += page["entries"]
        offset = page["next_offset"]
    expected = [
        {"_cut": f'a text of {len(row):,} characters; read it with path="rows[{place}]"'}
        if len(json.dumps(row, ensure_ascii=False)) > 8_000
        else row
        for place, row in enumerate(rows)
    ]
    assert read == expected


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"path": "itms"}, "the result has no key 'itms'; did you mean 'items'?"),
        ({"path": "zzz"}, "its keys are items, empty"),
        ({"path": "empty.a"}, "empty has no key 'a'; it is empty"),
        ({"path": "items[9]"}, "items has no entry 9: it has 2, counted from 0"),
        ({"path": "items.a"}, "items is a list and has no key 'a'"),
        ({"path": "[0]"}, "the result is a mapping and has no position '0'"),
        ({"path": "items[0].x"}, "items[0] is a text and has no key 'x'"),
        ({"path": "items[1].x"}, "items[1] is a value and has no key 'x'"),
        ({"path": "items[*]"}, "not a path"),
        ({"path": "items", "offset": 3}, "offset 3 is beyond the end: there are 2 entries"),
        ({"path": "empty", "offset": 1}, "there are 0 keys"),
        ({"path": "items[0]", "offset": 99}, "there are 4 characters"),
        ({"is_success": False}, "it failed with timeout"),
    ],
)
async def test_wrong_places_are_explained(params: dict[str, Any], message: str) -> None:
    """Each mistake of a model names the place and the cure."""
    with pytest.raises(ToolExecutionError) as caught:
        await page_of({"items": ["text", 1], "empty": {}}, **params)
    assert message in str(caught.value)


async def test_a_beginning_is_told_as_one() -> None:
    """Never silently wrong: where the record has the beginning only, every page says so."""
    page = await page_of({"items": [1], "_truncated": {"size": 9}}, path="items")
    assert page["is_whole"] is False


async def test_without_a_store_there_is_nothing_to_read() -> None:
    """Run by hand, outside of an engine, it says what is missing."""
    with pytest.raises(ToolExecutionError, match="run it by a ToolEngine"):
        await ResultReadExecutor().execute(TOOL, {"call_id": "x"}, ME)


async def test_a_call_without_a_name_reads_nothing() -> None:
    """Who cannot be told apart from others could read theirs."""

    async def find_call(_call_id: str) -> ToolCallRecord | None:
        raise AssertionError("looked it up")

    with pytest.raises(ToolExecutionError, match="names no caller"):
        await ResultReadExecutor(find_call).execute(
            TOOL, {"call_id": "x"}, ToolExecutionContext(caller_type="direct")
        )
