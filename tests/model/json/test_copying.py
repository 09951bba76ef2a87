"""How are arguments copied, so that nobody else can change them?"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from tool_engine.model.json.plain import copy_json


class Colour(str, Enum):
    RED = "red"


def test_nothing_is_shared() -> None:
    """D19: what somebody consents to is not changed by whoever has the original."""
    date = datetime(2026, 1, 2, tzinfo=UTC)
    value: dict[str, Any] = {
        "a": [1, 2.5, None, True, "x", [{"b": []}]],
        "c": OrderedDict(d=[Colour.RED], e=(date, {1: b"x"})),
    }
    assert copy_json("x") == "x"
    copy = copy_json(value)
    assert copy == value
    assert type(copy["c"]) is OrderedDict
    value["a"][5][0]["b"].append(1)
    value["c"]["d"].clear()
    value["c"]["e"][1][1] = b"y"
    assert copy["a"][5] == [{"b": []}]
    assert (copy["c"]["d"], copy["c"]["e"]) == ([Colour.RED], (date, {1: b"x"}))


def test_what_holds_itself() -> None:
    """It has no copy, and says so."""
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        copy_json(circle)
