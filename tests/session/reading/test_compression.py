"""What does a log show of a call's arguments and of its result?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.session.reading.compression import compressed_args, compressed_result
from tool_engine.session.reading.presentation import Presentation

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


def result_of(data: Any) -> ToolExecutionResult:
    output = data if isinstance(data, dict) else {"result": data}
    return ToolExecutionResult(True, "fetch", output)


def test_texts_are_cut_but_ids_and_paths_are_not() -> None:
    """U41: half a path says nothing."""
    long = "/srv/" + "x" * 95
    for name in ("path", "id", "file_path", "userId", "docIDs", "paths", "ITEM_ID"):
        assert json.loads(compressed_args({name: long})) == {name: long}
        assert json.loads(compressed_args({name: [long]})) == {name: [long]}
    for name in ("text", "paid", "pathology", "identity", "id_card", ""):
        assert json.loads(compressed_args({name: long})) == {name: long[:49] + "…"}
    assert len(json.loads(compressed_args({"id": "x" * 900}))["id"]) == 500
    assert compressed_args({"a": "x" * 50, "n": [1, None, {"b": True}]}) == (
        f'{{"a": "{"x" * 50}", "n": [1, null, {{"b": true}}]}}'
    )


def test_the_beginning_of_a_result() -> None:
    """U41: 200 characters."""
    assert compressed_result(result_of("short")) == "short"
    assert compressed_result(result_of({"a": [1]})) == '{"a": [1]}'
    assert compressed_result(result_of("x" * 201)) == "x" * 199 + "…"
    failed = ToolExecutionResult(False, "t", {}, "no such file", "execution_error")
    assert compressed_result(failed) == "Error (execution_error): no such file"


def test_secrets_are_hidden() -> None:
    """S8: by name, by shape, by the tool's word, and before anything is cut."""
    token = "ghp_" + "a1B2" * 9
    tool = Tool(
        id="t",
        name="t",
        version="1.0.0",
        description="",
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=[ToolParameter(name="pin", type="string", secret=True)],
        implementation_config={},
    )
    args = {"pin": "4711", "password": "hunter2", "text": "x" * 30 + " " + token}
    shown = compressed_args(args, None, tool)
    assert json.loads(shown)["pin"] == json.loads(shown)["password"] == "[hidden]"
    assert "ghp" not in shown
    assert "ghp" not in compressed_result(result_of("x" * 190 + " " + token))
    assert "ghp" not in compressed_result(result_of({"deep": {"api_key": "y"}, "t": token}))
    failed = ToolExecutionResult(False, "t", {}, f"401 for {token}", "execution_error")
    assert "ghp" not in compressed_result(failed)
    own = Presentation(compress_args=lambda _args: token, compress_result=lambda _result: token)
    assert "ghp" not in compressed_args(args, own) + compressed_result(result_of(1), own)


def test_own_forms() -> None:
    """S8: a tool says what is worth a line; where its code does not work, the default does."""
    own = Presentation(
        compress_args=lambda args: f"{len(args)} arguments",
        compress_result=lambda result: f"{result.tool_name}: {'x' * 5_000}",
    )
    assert compressed_args({"a": 1}, own) == "1 arguments"
    assert len(compressed_result(result_of(1), own)) == 1_000

    def broken(_value: Any) -> str:
        raise ValueError("no")

    for function in (broken, lambda _value: 5):
        own = Presentation(compress_args=function, compress_result=function)  # type: ignore[arg-type]
        assert compressed_args({"a": 1}, own) == '{"a": 1}'
        assert compressed_result(result_of(1), own) == "1"


@given(st.dictionaries(st.text(), VALUES, max_size=5), VALUES)
def test_a_line_stays_short(args: dict[str, Any], data: Any) -> None:
    """S8: whatever there is."""
    assert len(compressed_args(args)) <= 1_000
    assert len(compressed_result(result_of(data))) <= 200


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * 5_000_000},
        {f"k{number}": [number] * 50 for number in range(50_000)},
        {"a": [[[[["x" * 9_000] * 99] * 99] * 99] * 99] * 99},
    ],
)
def test_large_values_cost_little(value: dict[str, Any]) -> None:
    """S8: only the beginning is looked at."""
    assert len(compressed_args(value)) <= 1_000
    assert len(compressed_result(result_of(value))) <= 200


def test_strange_values() -> None:
    """Never an error: what nests too deep, holds itself or cannot be read has a line, too."""
    deep: list[Any] = []
    deep.append(deep)
    assert compressed_args({"a": deep}).startswith('{"a": [[')

    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    assert compressed_args(Hostile({"a": 1})) == "{'a': 1}"
    assert compressed_args({"a": Hostile({"b": 1})}) == "{'a': {'b': 1}}"
    assert "fetch" in compressed_result(result_of({"a": Hostile({"b": 1}), "c": 1}))
