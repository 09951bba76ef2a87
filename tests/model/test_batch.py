"""The forms of one call of a batch."""

from typing import Any

import pytest

from tool_engine.model.batch import parts_of
from tool_engine.model.call import ToolCall


@pytest.mark.parametrize(
    "call",
    [
        ("echo", {"n": 1}),
        ["echo", {"n": 1}],
        {"tool_name": "echo", "params": {"n": 1}},
        {"tool_name": "echo", "arguments": {"n": 1}},
        {"name": "echo", "params": {"n": 1}},
        {"arguments": {"n": 1}, "name": "echo"},
        ToolCall(call_id="c", tool_name="echo", arguments={"n": 1}),
    ],
    ids=repr,
)
def test_forms(call: Any) -> None:
    """Each documented form has the name and the arguments."""
    assert parts_of(call) == ("echo", {"n": 1})


@pytest.mark.parametrize("call", [None, 3, "ab", ("echo",), {"tool_name": "echo"}, b"ab"], ids=repr)
def test_other_forms(call: Any) -> None:
    """What is no call has no name."""
    assert parts_of(call) == (None, {})


def test_no_arguments() -> None:
    """None as arguments means none."""
    assert parts_of(("echo", None)) == ("echo", {})
