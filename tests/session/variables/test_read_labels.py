"""Where did all that a model has read come from, however much it was?"""

from __future__ import annotations

import pytest

from tool_engine.session.variables.labels import list_refused_labels
from tool_engine.session.variables.read_labels import ReadLabels, without_host

WEB = "tool:fetch effect:read host:evil.example"


def test_what_is_noted() -> None:
    """N33: each origin once; the model's own words and rules are none."""
    read = ReadLabels()
    for labels in ([WEB], ["user", "model"], ["rule"], [WEB]):
        read.note(labels)
    assert read.labels == {WEB, "user"}
    assert repr(read) == f"<ReadLabels {WEB}, user>"
    assert repr(ReadLabels()) == "<ReadLabels none>"


def test_those_above() -> None:
    """N33: what the conversation reads, its helpers know, also later; not the other way round."""
    above = ReadLabels()
    below = ReadLabels(ReadLabels(above))
    above.note(["user"])
    below.note([WEB])
    assert below.labels == {"user", WEB}
    assert above.labels == {"user"}


@pytest.mark.parametrize("kinds", [1, 300])
def test_many_origins(kinds: int) -> None:
    """N33: thousands of hosts take no room, and no tool accepts more of them than before."""
    read = ReadLabels()
    for number in range(5_000):
        read.note([f"tool:t{number % kinds} effect:read host:h{number}.example"])
        assert len(read.labels) <= 100
    assert list_refused_labels(read.labels, ["host:h1.example", "user"])
    assert list_refused_labels(read.labels, ["*"]) == []
    assert bool(list_refused_labels(read.labels, ["tool:t*"])) is (kinds > 100)


@pytest.mark.parametrize(
    ("label", "without"),
    [
        (WEB, "tool:fetch effect:read"),
        ("host:x", "host:x"),
        ("user", "user"),
        ("a\thost:b c", "a c"),
    ],
)
def test_without_a_host(label: str, without: str) -> None:
    """N33: the other words stay; a label of one word has no other."""
    assert without_host(label) == without
