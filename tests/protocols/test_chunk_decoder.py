"""What the decoders of all providers do the same way: losses, depth, the end."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.protocols.chunk_decoder import read_usage, sort_by_index
from tool_engine.protocols.registry import get_protocol


def deep() -> Any:
    """A value that is nested deeper than Python can follow."""
    value: Any = []
    for _ in range(20_000):
        value = {"a": value}
    return value


PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
DEEP = [
    ("openai", {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": deep()}}]}}]}),
    ("openai_responses", {"type": "response.completed", "response": {"usage": deep()}}),
    ("anthropic", {"type": "content_block_start", "content_block": {"type": "x", "a": deep()}}),
    # It is held until the end, as some servers send nothing else.
    ("anthropic", {"type": "message_start", "message": {"content": [{"type": "x", "a": deep()}]}}),
    ("gemini", {"candidates": [{"content": {"parts": [{"text": deep()}]}}]}),
]


@pytest.mark.parametrize(("name", "chunk"), DEEP)
def test_what_nests_too_deep_is_reported(name: str, chunk: dict[str, Any]) -> None:
    """What nests deeper than can be read is a finding, wherever it stands, and breaks nothing."""
    decoder = get_protocol(name).decoder()
    decoder.feed(chunk)
    reply = decoder.close()
    assert [each for each in reply.calls if each.is_runnable] == []
    assert ("malformed_reply", "error") in {(f.error_type, f.level) for f in reply.findings}
    assert decoder.close() is reply


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_is_lost_is_reported_in_its_place(name: str) -> None:
    """Each unreadable event is reported once, by the chunk that brought it or by the end."""
    decoder = get_protocol(name).decoder()
    events = [event for each in (b"data: {1}\n\n", b"data: {2}") for event in decoder.feed(each)]
    assert ["{1}" in str(event.error) for event in events] == [True]
    messages = [finding.message for finding in decoder.close().findings]
    assert [sum(part in each for each in messages) for part in ("'{1}'", "'{2}'")] == [1, 1]


def test_usage_is_read_from_mappings_only() -> None:
    """What a provider counts is a mapping; anything else counts nothing."""
    assert read_usage({"input_tokens": 1}) == {"input_tokens": 1}
    assert read_usage(None) == read_usage([1]) == read_usage("1") == {}


def test_parts_are_sorted_where_each_has_a_number() -> None:
    """A number that is missing, or that two parts have, leaves the order as it came."""

    class Part:
        def __init__(self, index: Any) -> None:
            self.index = index

    def order(*indexes: Any) -> list[Any]:
        return [part.index for part in sort_by_index([Part(index) for index in indexes])]

    assert order(2, 0, 1) == [0, 1, 2]
    assert order(2, None, 1) == [2, None, 1]
    assert order(2, 1, 2) == [2, 1, 2]
    assert order(2, "1", 0) == [2, "1", 0]
