"""What is written as it is holds nothing that redaction would change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.knowledge.snapshot import pack, restore_value
from tool_engine.knowledge.sql.schema.harmless import Harmless
from tool_engine.redaction import redact, remember_secret

WORDS = st.sampled_from(
    [
        *("a", "name", "value", "password", "token", "Authorization", "key", "--token", "-p"),
        *("Bearer abcdefghijklmnop1", "sk-" + "a1" * 12, "password=hunter2", "plain text", ""),
        *("harmless-canary-1", "https://ann:pw@host/x", "\0", "ghp_" + "a" * 36),
    ]
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), WORDS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_never_says_so_of_a_secret(value: Any) -> None:
    """Never silently wrong: what counts as harmless is what redaction leaves as it is."""
    remember_secret("harmless-canary-1")
    harmless = Harmless()
    harmless.refresh()
    if harmless.is_so(value):
        assert redact(restore_value(pack(value))) == value


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": [1.5, None, True, {"c": "some words"}]},
        {"result": "plain"},
        {},
    ],
)
def test_says_so_of_what_is_common(value: Any) -> None:
    """The quick way is taken for what most tools take and return."""
    assert Harmless().is_so(value)


@pytest.mark.parametrize(
    "value",
    [
        {"headers": [["Authorization", "hunter2"]]},
        [["password", 1]],
        {"a": [{"b": [["token", "x"]]}]},
    ],
)
def test_secret_in_a_pair(value: Any) -> None:
    """The value of a pair, such as a header, is not written in the name of nothing secret."""
    assert not Harmless().is_so(value)
    assert redact(value) != value


def test_packed_value_is_searched_once() -> None:
    """What was searched is known by its digest, until more secrets are known."""
    harmless = Harmless()
    data = pack({"a": "canary-packed-9"})
    assert harmless.is_packed(data, b"1")
    remember_secret("canary-packed-9")
    assert harmless.is_packed(data, b"1")
    assert not harmless.is_packed(data, b"2")
    harmless.refresh()
    assert not harmless.is_packed(data, b"1")


def test_secret_becomes_known() -> None:
    """What was harmless is looked at again once more secrets are known."""
    harmless = Harmless()
    harmless.refresh()
    assert harmless.is_so({"canary-key-77": 4_711_077})
    remember_secret("canary-key-77")
    remember_secret("4711077")
    harmless.refresh()
    assert not harmless.is_so({"canary-key-77": 1})
    assert not harmless.is_so({"a": 4_711_077})


def test_deep_values() -> None:
    """What is nested deeply is left to redaction."""
    value: Any = 1
    for _ in range(40):
        value = [value]
    assert not Harmless().is_so(value)
