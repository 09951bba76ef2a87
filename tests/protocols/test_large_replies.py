"""Is what is large seen as large, whatever it stands in, and read beside the event loop?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.large_replies import estimate_size, read_in_time
from tool_engine.session.reading.result import SessionResult

HOLDERS: dict[str, Callable[[str], Any]] = {
    "a text": lambda text: text,
    "a mapping": lambda text: {"a": [text]},
    "an SDK's object": lambda text: SimpleNamespace(choices=[SimpleNamespace(text=text)]),
    "a result": lambda text: [ToolExecutionResult(True, "t", {"result": text})],
    "content": lambda text: [ToolExecutionResult(True, "t", {"content": [{"data": text}]})],
    "a result of a session": lambda text: [SessionResult(True, "t", {}, final_text=text)],
    "an error": lambda text: [ToolExecutionResult(False, "t", {}, text, "execution_error")],
    "a read reply": lambda text: ParsedReply(text=text),
    "a call": lambda text: ToolCall(call_id="c", tool_name="t", arguments={"a": text}),
}


@pytest.mark.parametrize("name", HOLDERS)
async def test_where_it_is_read(name: str) -> None:
    """A small one in the loop's own thread, a large one in another."""
    make, here = HOLDERS[name], threading.current_thread()
    assert await read_in_time(lambda _: threading.current_thread(), make("x" * 100)) is here
    assert await read_in_time(lambda _: threading.current_thread(), make("x" * 50_000)) is not here
    assert estimate_size(make("x" * 50_000)) > 40_000 > estimate_size(make("x" * 100))
