"""Does a plain scalar read as its author sees it?"""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.samples import bare
from tool_engine import DefinitionError, ToolConfigLoader
from tool_engine.catalog.yaml.scalars import UnreadableScalarError, resolve_plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.10", 1.1),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-0.0", 0.0),
        ("0e5", 0.0),
    ],
)
def test_core_scalars(text: str, value: object) -> None:
    """K4: constants and numbers of YAML 1.2's core schema have their type."""
    found = resolve_plain(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("no", "No", "on", "off", "yes", "y", "012", "-012", "00", "007.5", "1_000", "1:30"),
        *("2024-01-01", "0b101", "1.2.3", "0x", "0o8", "-", "--", ".", "..", "+.e", "nul"),
        *("tRue", "10/s", "1e", "12a"),
    ],
)
def test_what_only_looks_like_a_value_stays_text(text: str) -> None:
    """K4: what YAML 1.1 or a quick reader would take for something else stays text."""
    assert resolve_plain(text) == text


@pytest.mark.parametrize(
    "text",
    [".inf", "-.Inf", ".nan", "1e999", "1e-999", "9" * 19, "9" * 5000, "0x" + "f" * 17],
)
def test_numbers_that_json_cannot_carry_are_refused(text: str) -> None:
    """K9: a number is never rounded away, turned into infinity, or a crash of int()."""
    with pytest.raises(UnreadableScalarError, match="quote"):
        resolve_plain(text)


@pytest.mark.parametrize("number", [2**64, -(2**64)])
def test_a_large_integer_in_a_mapping(number: int) -> None:
    """K10: of a definition that was never a text it is said, too, how large a number may be."""
    parameter = {"name": "v", "type": "integer", "description": "d", "max": number}
    with pytest.raises(DefinitionError, match=f"to {2**63 - 1}, or leave the key out"):
        ToolConfigLoader().from_mapping(bare("t", parameters=[parameter]))


def test_64_bits_fit() -> None:
    """K10: the whole range of 64 bits is read."""
    assert resolve_plain(str(2**63 - 1)) == 2**63 - 1
    assert resolve_plain(str(-(2**63))) == -(2**63)


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)))
def test_written_numbers_read_back(number: float) -> None:
    """U20: a number as PyYAML writes it reads as the same number."""
    text = yaml.safe_dump(number).split("\n")[0]
    if math.isinf(number):
        with pytest.raises(UnreadableScalarError):
            resolve_plain(text)
    else:
        assert resolve_plain(text) == number
