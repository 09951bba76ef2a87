"""What is the whole of a result as text?"""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import IS_WHOLE
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.json import weighing
from tool_engine.model.json.returned_value import to_text
from tool_engine.protocols.result_content import text_of
from tool_engine.session import formatting
from tool_engine.session.formatting import data_of, default_text, short_text, text_in_pieces

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(
        ["x" * 99, 'a"\\\n好😀' * 9, "\ud800" * 9, PurePosixPath("/a"), b"b", 10**3000]
    )
)
KEYS = st.text(max_size=5) | st.integers(0, 9) | st.none() | st.booleans() | st.just((1, 2))
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=9)
        | st.dictionaries(KEYS, inner, max_size=9)
        | st.tuples(inner, inner)
    ),
    max_leaves=40,
)


@given(VALUES, st.integers(0, 40))
def test_pieces_come_to_the_same_text(value: Any, piece: int) -> None:
    """S3: how it is written changes nothing of what is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formatting, "PIECE", piece + 1)
        patch.setattr(weighing, "PIECE", piece + 1)
        assert text_in_pieces(value) == to_text(value)


def test_large_values() -> None:
    """The same with what is above the size of a piece."""
    rows = [
        {"id": number, "name": f"name {number}", "v": number / 7}
        for number in range(30_000 if IS_WHOLE else 8_000)
    ]
    text = "好é" * 100_000
    for value in (rows, {"a": rows, "b": text, 5: rows, "c": {}}, text, [text, text], tuple(rows)):
        assert text_in_pieces(value) == to_text(value)
    assert text_in_pieces(text) is text


def test_no_piece_is_large() -> None:
    """Other threads get their turn after each piece, wherever the large part stands."""
    rows = [{"id": number, "name": "好" * 50} for number in range(20_000)]
    for value in (rows, {"a": [{"b": rows}]}, {"t": "x" * 3_000_000}, "é" * 3_000_000):
        pieces = list(formatting._write_pieces(value))
        assert len(pieces) > 10
        assert max(map(len, pieces)) < 300_000


def test_a_value_that_holds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a text all the same, and it is not written again and again to find out."""
    pieces: list[str] = []

    def written(value: Any) -> str:
        pieces.append(to_text(value))
        return pieces[-1]

    monkeypatch.setattr(formatting, "PIECE", 10)
    monkeypatch.setattr(weighing, "PIECE", 10)
    monkeypatch.setattr(formatting, "write_part", written)
    value: list[Any] = [["x"] * 20]
    value.append(value)
    assert text_in_pieces(value) == to_text(value)
    assert len(pieces) < 20
    assert text_in_pieces([math.nan]) == to_text([math.nan])


IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}


@pytest.mark.parametrize(
    "result",
    [
        ToolExecutionResult(True, "t", {"result": "text"}),
        ToolExecutionResult(True, "t", {"result": {"a": 1}}),
        ToolExecutionResult(True, "t", {"a": 1, "b": 2}),
        ToolExecutionResult(True, "t", {"content": [{"type": "text", "text": "x"}, IMAGE]}),
    ],
)
def test_the_default_is_what_models_read_elsewhere(result: ToolExecutionResult) -> None:
    """S3, A37: a result reads the same in a session and without one."""
    assert default_text(result) == text_of(result)


def test_a_failure_is_its_error() -> None:
    """S27: what kind of failure it is, the model is told beside it."""
    failed = ToolExecutionResult(False, "t", {}, "no such file", "execution_error")
    assert default_text(failed) == "no such file"


def test_what_a_tool_returned() -> None:
    """A value that is no mapping is handed to formatters as it was."""
    assert data_of({"result": 5}) == 5
    assert data_of({"result": 5, "more": 1}) == {"result": 5, "more": 1}
    assert data_of({}) == {}


@given(
    st.dictionaries(
        st.sampled_from(["result", "content", "x"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        max_size=2,
    )
)
@example({"result": 2**64})
@example({"result": True})
def test_short_outputs_have_the_same_text(output: dict[str, Any]) -> None:
    """S15: what is a plain text or number is told at once, and told as anything else is."""
    text = short_text(output)
    assert text in (None, to_text(data_of(output)))
    assert default_text(ToolExecutionResult(True, "t", output)) == to_text(data_of(output))


@pytest.mark.parametrize("is_list", [True, False])
def test_a_chain_of_values_has_a_text(is_list: bool) -> None:
    """What is nested far deeper than Python calls is shown as far as it is elsewhere."""
    value: Any = []
    for _ in range(100_000 if IS_WHOLE else 8_000):
        value = [value] if is_list else {"a": value}
    assert text_in_pieces(value) == to_text(value)


def test_no_piece_of_a_chain_is_large() -> None:
    """What is large at each of its levels is written in pieces at each of them."""
    value: Any = []
    levels = 100 if IS_WHOLE else 20
    for _ in range(levels):
        value = [0] * 30_000 + [value]
    pieces = list(formatting._write_pieces(value))
    assert len(pieces) > levels
    assert max(map(len, pieces)) < 300_000
    assert "".join(pieces) == to_text(value)
