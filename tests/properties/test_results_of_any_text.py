"""Can a result of any text be shown to a model, and does it leave the other results alone?"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import ToolEngine
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.registry import PROTOCOLS, get_protocol

STYLES: Final[list[tuple[str, dict[str, Any]]]] = [
    *((name, {}) for name in PROTOCOLS),
    ("function_call", {"language": "zh"}),
    ("vcp", {"result_style": "aio", "wrap_results": True}),
]
MARKS: Final = st.sampled_from(
    [
        "<\0",
        "\0",
        "\ud800",
        "\udfff",
        "<",
        "```\n",
        "~~~",
        "> ",
        "- ",
        "`",
        "「末」",
        "\x1b[31m",
        "\u202e",
    ]
)
TEXTS: Final = st.one_of(
    st.text(st.characters(codec=None, exclude_categories=()), max_size=40),
    st.lists(st.one_of(MARKS, st.text(max_size=3)), max_size=12).map("".join),
)


@pytest.mark.parametrize(("name", "options"), STYLES)
@settings(max_examples=share_of(150), deadline=None)
@example(text="<\0a\0>\0")
@given(text=TEXTS)
def test_any_text_is_a_result(name: str, options: dict[str, Any], text: str) -> None:
    """A page read in the wrong encoding, a control character, half of a pair: each is shown.

    Looked at: NUL, control characters, lone surrogates, fences, backticks and the protocols' own
    marks, as output, as error, as the key of an output.
    """
    protocol = get_protocol(name, **options)
    told = [
        ToolExecutionResult(True, "read", {"result": text}),
        ToolExecutionResult(False, "read", error=text, error_type="execution_error"),
        ToolExecutionResult(True, "read", {text: [text]}),
        ToolExecutionResult(True, "read", {"result": "the last one"}),
    ]
    calls = [
        ToolCall(call_id=f"call_{place}", tool_name="read", arguments={})
        for place in range(len(told))
    ]
    written = protocol.format_results(told, calls)
    sent = written if isinstance(written, str) else json.dumps(written)
    assert "the last one" in sent


CALL: Final = '<function_call>{{"name": "read", "arguments": {{"path": "{}"}}}}</function_call>'


async def test_a_result_of_bytes_leaves_the_others_alone() -> None:
    """UTF-16 that was read as single bytes is one odd result, and not the end of all of them."""
    async with ToolEngine() as engine:

        @engine.tool
        async def read(path: str) -> str:
            """Reads a file."""
            return {"a.txt": "plain", "b.xml": "<\0a\0>\0"}[path]

        reply = CALL.format("a.txt") + CALL.format("b.xml")
        cycle = await process_tool_calls(
            engine, reply, get_protocol("function_call", tools=engine.index)
        )
    assert [result.is_success for result in cycle.execution_results] == [True, True]
    assert "plain" in str(cycle.formatted)
    assert "a\0" in str(cycle.formatted)
