"""Is JSON that is read quickly read as what is looked at closely?"""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import event, given, settings

from tests.effort import share_of
from tool_engine.protocols.arguments import strict_json
from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json

TEXTS = st.sampled_from(["", "a", "b", "a b", " ", "é", '"', "\\", ":", ",", "👍", "\n", "\u2028"])
NUMBERS = st.sampled_from(
    (
        *("0", "-0", "1", "-1", "1.0", "-0.0", "1e5", "1E400", "1e-400", "0.1", "0.10", "1e16"),
        *("0.1000000000000000055", "9007199254740993.0", "123456789012345678901", "NaN", "5e-324"),
        *("18446744073709551615", "18446744073709551616", "-9223372036854775809", "1e15"),
        "1.7976931348623157e308",
    )
)
BLANKS = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r\n"])


@st.composite
def written(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON in any spelling, with keys that may stand twice."""
    kind = draw(st.integers(0, 5 if depth else 2))
    before, after = draw(BLANKS), draw(BLANKS)
    if kind == 0:
        text = draw(NUMBERS)
    elif kind == 1:
        text = draw(st.sampled_from(["true", "false", "null", "Infinity", ""]))
    elif kind == 2:
        text = json.dumps(draw(TEXTS), ensure_ascii=draw(st.booleans()))
    elif kind == 3:
        text = f"[{','.join(draw(st.lists(written(depth - 1), max_size=3)))}]"
    else:
        names = draw(st.lists(TEXTS, max_size=3))
        members = [
            f"{draw(BLANKS)}{json.dumps(name, ensure_ascii=draw(st.booleans()))}{draw(BLANKS)}:"
            + draw(written(depth - 1))
            for name in names
        ]
        text = f"{{{','.join(members)}}}"
    return f"{before}{text}{after}"


def read_or_refuse(read: Any, text: str) -> str:
    try:
        return repr(read(text))
    except RefusedJSONError:
        return "refused"
    except json.JSONDecodeError:
        return "no JSON"


@settings(max_examples=share_of(2000))
@given(text=written())
def test_read_quickly_or_closely(text: str) -> None:
    """Both ways read the same, and refuse the same."""
    quick = strict_json._read_quickly(text)
    event("quickly" if quick is not None else "closely")
    closely = read_or_refuse(strict_json._DECODERS[False].decode, text)
    if quick is not None:
        assert repr(quick) == closely
    if "too many digits" not in closely:
        assert read_or_refuse(read_json, text) == closely


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '{"a": 1, "a": 1}', '{"b":{"a":[],"a":[]}}', '[{"":0,"" :0}]']
)
def test_a_key_that_stands_twice(text: str) -> None:
    """A value would be lost, so it is refused on either way."""
    with pytest.raises(RefusedJSONError, match="stands twice"):
        read_json(text)


@pytest.mark.parametrize("text", ['{"a":"\ud800"}', '"\\ud800"', '"\ud800"'])
def test_half_of_a_character(text: str) -> None:
    """A lone surrogate is for the next reader to judge, as before."""
    assert read_json(text) == json.loads(text)
