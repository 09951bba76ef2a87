"""What is an approval good for?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, fingerprint_of, is_plain

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)

PAIRS: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (1, "1"),
    (0.0, -0.0),
    (None, "null"),
    (float("nan"), "NaN"),
    ([], {}),
    ({"a": 1}, ["a", 1]),
    ({"a": 1}, [["a", 1]]),
    (["list"], [["list"]]),
    ({1: 2}, {"1": 2}),
    ("\ud83d\ude00", "😀"),
    (10**5000, 10**5000 + 1),
    (object(), object()),
]


def shape(value: Any) -> Any:
    """The value with its types, so that `==` tells 1 from 1.0 and True, and NaN is itself."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__, repr(value)


def turned(value: Any) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(ARGUMENTS, ARGUMENTS)
def test_a_fingerprint_is_of_one_call(one: dict[str, Any], other: dict[str, Any]) -> None:
    """U34: two calls have one fingerprint only if their arguments are the same, types included."""
    same = shape(one) == shape(other)
    assert (fingerprint_of("t", "h", one) == fingerprint_of("t", "h", other)) is same
    assert fingerprint_of("t", "h", one) == fingerprint_of("t", "h", turned(one))


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=range(len(PAIRS)))
def test_values_that_are_not_the_same(one: Any, other: Any) -> None:
    """U34: what looks alike is not alike."""
    assert fingerprint_of("t", "h", {"v": one}) != fingerprint_of("t", "h", {"v": other})
    assert fingerprint_of("t", "h", {"v": one}) == fingerprint_of("t", "h", {"v": one})


def test_a_fingerprint_stays_what_it_is() -> None:
    """U34: decisions that a database has kept are found by it, also by a later version."""
    params = {"b": {'"': 1, "!": 2.5, "é": [True, None]}, "a": "x"}
    kept = "d2632050811e38791f631e9da4236291617823c4c87ae78967422de8cca5efd6"
    assert fingerprint_of("pay", "h", params) == kept
    assert fingerprint_of("pay", "h", turned(params)) == kept


def test_names_and_definitions_count() -> None:
    """Consent is for one tool in one version, however the texts are put together."""
    calls = {fingerprint_of(*each, {}) for each in (("a", "bc"), ("ab", "c"), ("", "abc"))}
    assert len(calls) == 3


@given(VALUES)
def test_what_json_says_is_plain(value: Any) -> None:
    """What a model can send is what it was after a restart."""
    assert is_plain(value)


@pytest.mark.parametrize("value", [b"", {1: 2}, {1}, object(), [object()], {"a": {"b": b""}}])
def test_what_json_cannot_say(value: Any) -> None:
    """A key that is no text, bytes and objects do not come back as what they were."""
    assert not is_plain(value)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"is_approved": "no"}, "is_approved"),
        ({"is_approved": False, "reason": 5}, "reason"),
        ({"is_approved": True, "is_remembered": "no"}, "is_remembered"),
    ],
)
def test_decisions_that_are_none(said: dict[str, Any], name: str) -> None:
    """A word that means no must not count as a yes, or as one that is remembered."""
    with pytest.raises(ConfigurationError, match=f"^{name} must be"):
        ApprovalDecision(**said)


def test_arguments_that_are_not_those() -> None:
    """A request knows when its arguments are not the ones that were asked about."""
    request = ApprovalRequest(
        token="t",
        session_id="s",
        tool_name="pay",
        tool_version="1",
        definition_hash="h",
        params={"pin": "0000"},
        asked_at=0.0,
        expires_at=1.0,
    )
    assert request.is_whole
    assert request.fingerprint == fingerprint_of("pay", "h", {"pin": "0000"})
    hidden = msgspec.structs.replace(request, params={"pin": "[hidden]"})
    assert hidden.fingerprint == request.fingerprint
    assert not hidden.is_whole
    again = msgspec.json.decode(msgspec.json.encode(request), type=ApprovalRequest)
    assert again == request
    assert again.is_whole
