"""Is a large variable what a small one is, and does it keep nobody waiting?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import ToolEngine
from tool_engine.catalog.definition.building import tool_of_mapping
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json import weighing
from tool_engine.model.json.returned_value import to_text
from tool_engine.session import formatting
from tool_engine.session.session import ToolSession
from tool_engine.session.variables import store as variables
from tool_engine.session.variables import texts
from tool_engine.session.variables.call_variables import (
    _without_secrets,
    keep_call_in_time,
    name_variables,
)
from tool_engine.session.variables.store import Variable, VariableStore, copy_value
from tool_engine.session.variables.texts import LARGE, KeptTexts, keep_in_pieces

ROWS: Any = [{"id": place, "name": "x" * 20} for place in range(9_000)]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=share_of(25), deadline=None)
@given(value=st.lists(VALUES) | st.dictionaries(st.text(), VALUES), piece=st.integers(1, 40))
def test_in_pieces_it_is_the_same(value: Any, piece: int) -> None:
    """U40: the value that is kept, and the length of its text, are those of a copy at one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighing, "PIECE", piece)
        patch.setattr(texts, "PIECE", piece)
        made = keep_in_pieces(value)
    assert made == copy_value(value)


@pytest.mark.parametrize("value", [[float("nan")], {1: [0] * 9, (2,): 0}, "text", 5])
def test_what_cannot_be_taken_apart(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """U40: what JSON does not know is left to the copy of the whole."""
    monkeypatch.setattr(weighing, "PIECE", 3)
    monkeypatch.setattr(texts, "PIECE", 3)
    assert keep_in_pieces(value) is None


def test_what_holds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """U40: a list that holds itself comes to an end, however large it is."""
    monkeypatch.setattr(texts, "PIECE", 3)
    inner: list[Any] = [0, 1, 2, 3]
    inner.append(inner)
    assert keep_in_pieces(inner) is None


async def test_a_text_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """U40: of a large variable; of the others it is made when somebody asks."""
    made: list[Any] = []

    def write(value: Any) -> str:
        made.append(1)
        return formatting.text_in_pieces(value)

    monkeypatch.setattr(texts, "text_in_pieces", write)
    store = VariableStore()
    rows = store.add(Variable(name="rows", value=ROWS))
    few = store.add(Variable(name="few", value=[1, 2]))
    for _ in range(3):
        await store.texts.make(rows)
        await store.texts.make(few)
    assert (len(made), rows.chars > LARGE) == (1, True)
    assert store.texts.of(rows) is store.texts.of(rows)
    assert (store.texts.of(rows), store.texts.of(few)) == (to_text(ROWS), "[1, 2]")
    store.remove("rows")
    assert store.texts.of(rows) is not store.texts.of(rows), "it is let go of with its variable"


async def test_as_many_texts_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """U40: the oldest go, and the last one stays whatever it has."""
    monkeypatch.setattr(texts, "MOST_READY", 1)
    ready, store = KeptTexts(), VariableStore()
    one, two = (store.add(Variable(name=name, value=ROWS)) for name in ("one", "two"))
    for each in (one, two):
        await ready.make(each)
    assert ready.of(two) is ready.of(two)
    assert ready.of(one) is not ready.of(one)


async def test_the_loop_writes_no_large_text(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U36, U40: keeping, reading and referring to a large value is work for a thread."""

    @engine.tool(effect="read")
    async def rows() -> Any:
        """Gives rows."""
        return ROWS

    loop, seen = asyncio.get_running_loop(), []

    def write(value: Any) -> str:
        try:
            seen.append(asyncio.get_running_loop() is loop)
        except RuntimeError:
            seen.append(False)
        return to_text(value)

    session = ToolSession(engine, "s")
    kept = await session.execute("rows")
    monkeypatch.setattr(texts, "text_in_pieces", write)
    monkeypatch.setattr(Variable, "text", property(lambda self: write(self.value)))
    put = await session.execute("put", {"text": "$VAR_REF{{rows_1_result:2:4}}"})
    session.variables.texts.forget(session.variables.get("rows_1_result"))
    part = await session.execute("read_var", {"name": kept.result_variable, "start": 2})
    again = await session.execute("put", {"text": "$VAR_REF{{rows_1_result:2:4}} $VAR_REF{{no}}"})
    assert (part.output["text"][:4], put.output["result"]) == ('"id"', 'put "id"')
    assert seen == [False, False]
    assert "no variable 'no'" in str(again.error)


async def test_what_is_large_is_not_written_at_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """U40: in a thread it is copied in pieces, or no other call would go on meanwhile."""
    monkeypatch.setattr(variables, "to_text", None)
    store, names = VariableStore(), name_variables("rows", 1)
    tool = tool_of_mapping({"name": "rows", "description": "Rows."}, "<test>")
    result = ToolExecutionResult(True, "rows", {"result": ROWS})
    await keep_call_in_time(store, tool, names, {"rows": ROWS}, result, frozenset({"user"}))
    kept = store.get(names.result)
    assert (kept.value, kept.chars) == (ROWS, len(to_text(ROWS)))


@pytest.mark.parametrize(
    "make", [lambda: [1], lambda: [[1]], lambda: {"a": 1}], ids=["[1]", "[[1]]", "{a: 1}"]
)
def test_small_lists_are_not_looked_at_one_by_one(make: Callable[[], Any]) -> None:
    """To keep thousands of them takes as long as to write them: no step is for each of them."""
    value = {"x": [make() for _ in range(200_000)]}
    calls = 0

    def count(frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        copy_value(value, in_pieces=True)
        if not isinstance(value["x"][0], dict):
            _without_secrets(value, frozenset())
    finally:
        sys.setprofile(None)
    assert calls < 20_000
