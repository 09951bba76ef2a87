"""In which provider's form does a reply hold calls, when nobody says?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.native_calls import find_form

FUNCTION = {"name": "add", "arguments": "{}"}
CALL = {"id": "c", "type": "function", "function": FUNCTION}
ITEM = {"type": "function_call", "call_id": "c", **FUNCTION}
BLOCK = {"type": "tool_use", "id": "c", "name": "add", "input": {}}
PART = {"functionCall": {"name": "add", "args": {}}}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*("choices", "message", "tool_calls", "output", "content", "parts", "type")]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


class _Object:
    """As the SDKs have them: no mapping, but one that can be made into one."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise AssertionError("a long reply is not copied to be looked at")


MESSAGE = _Object(content=None, tool_calls=[_Object(id="c", function=_Object(name="add"))])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"choices": [{"message": {"tool_calls": [CALL]}}]}, "openai"),
        ({"role": "assistant", "content": None, "tool_calls": [CALL]}, "openai"),
        ([{"choices": []}, {"choices": [{"delta": {"tool_calls": [CALL]}}]}], "openai"),
        (_Object(choices=[_Object(message=MESSAGE)]), "openai"),
        (ParsedReply(message={"role": "assistant", "tool_calls": [CALL]}), "openai"),
        ({"object": "response", "output": [{"type": "reasoning"}, ITEM]}, "openai_responses"),
        ([ITEM], "openai_responses"),
        ([{"type": "response.output_item.done", "item": ITEM}], "openai_responses"),
        ({"role": "assistant", "content": [{"type": "text"}, BLOCK]}, "anthropic"),
        ([{"type": "content_block_start", "content_block": BLOCK}], "anthropic"),
        ({"candidates": [{"content": {"parts": [{"text": "a"}, PART]}}]}, "gemini"),
        ({"role": "model", "parts": [{"function_call": {"name": "add"}}]}, "gemini"),
    ],
)
def test_calls_of_providers(reply: Any, expected: str) -> None:
    """A whole reply, a message, an SDK's object or the chunks of a stream."""
    assert find_form(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        None,
        7,
        "{'choices': [{'message': {'tool_calls': [{'function': {}}]}}]}",
        b"[]",
        {},
        [],
        {"choices": [{"message": {"content": "hi", "tool_calls": []}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "functionCall"}]},
        {"tool_calls": {"function": "x"}, "choices": 5} | {"tool_calls": [5, None]},
        _Object(),
        object(),
        ParsedReply(),
    ],
    ids=lambda reply: str(reply).partition(" at 0x")[0],
)
def test_no_calls(reply: Any) -> None:
    """Text is what a model wrote: whatever it looks like, it is no reply of a provider."""
    assert find_form(reply) is None


@settings(max_examples=share_of(60), deadline=None)
@given(reply=ANY_JSON)
def test_whatever_comes(reply: Any) -> None:
    """Nothing that can be received raises."""
    assert find_form(reply) in (None, "openai", "openai_responses", "anthropic", "gemini")


class _Slow(_Object):
    """As the SDKs have them: to say that a field is missing takes them long."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it has no {name!r}, and need not be asked")


def test_a_long_stream_is_looked_through_quickly() -> None:
    """Of each chunk only what is in it is asked for; text is not looked into."""
    chunk = _Slow(id="c", type="chunk", choices=[])
    assert find_form([chunk, "CALL", b"CALL", None] * 3) is None
