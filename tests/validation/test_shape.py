"""Arguments that are wrong in thousands of places are shaped no further than is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ToolConfigLoader, ToolParameterValidator


@pytest.mark.parametrize("wrong", [{"a": object()}, [object()], {"a": 1}])
def test_very_many_that_are_wrong_whatever_they_hold(wrong: Any) -> None:
    """Time: the first are described, the others are counted, and none is looked into."""
    numbers = {"name": "p", "type": "array", "description": "d", "items": "integer"}
    declared = ToolConfigLoader().from_mapping(
        {"name": "t", "description": "d", "parameters": [numbers]}
    )
    found = ToolParameterValidator().validate(declared, {"p": [wrong] * 5_000})
    paths = [error.path for error in found.errors]
    assert paths[0].startswith("p[0]")
    assert "more than" in found.errors[-1].message
    mixed = ToolParameterValidator().validate(declared, {"p": [*[wrong] * 3_000, "x"]})
    assert not mixed.is_valid
