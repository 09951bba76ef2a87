"""How did a call of a conversation end, and what does its model read of it?"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any, Final

import pytest
from msgspec.structs import replace

from tool_engine import ToolEngine
from tool_engine.approval.callback import CallbackApprover
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.session import keeping
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.presentation import Presented, present_result
from tool_engine.session.reading.result import SessionResult, as_tool_call_result
from tool_engine.session.session import ToolSession


async def test_a_result_for_front_ends(engine: ToolEngine) -> None:
    """S13, S14: the founding document's names; `data` is what the tool returned, or null."""
    session = ToolSession(engine, "s", approver=CallbackApprover(lambda _: False))
    done = await session.execute("half", {"number": 5})
    assert as_tool_call_result(done) == {
        "status": "SUCCESS",
        "data": 2.5,
        "error": None,
        "rejectReason": None,
        "formattedText": "2.5",
        "finalText": "2.5",
        "isTruncated": False,
        "cacheVarResult": "half_1_result",
        "cacheVarArgs": "half_1_args",
        "cacheFile": None,
    }
    session.toolbox.config = ToolCallConfig(permission=Permission(result=ResultPolicy.ALWAYS))
    withheld = as_tool_call_result(await session.execute("half", {"number": 5}))
    assert (withheld["status"], withheld["data"]) == ("RESULT_REJECTED", 2.5)
    assert (withheld["formattedText"], withheld["finalText"]) == ("2.5", None)
    session.toolbox.config = ToolCallConfig(permission=Permission(execution=ExecutionPolicy.DENY))
    for name, status in (("half", "EXECUTION_REJECTED"), ("halve", "NOT_FOUND")):
        refused = as_tool_call_result(await session.execute(name, {"number": 5}))
        assert (refused["status"], refused["data"]) == (status, None)
        assert refused["error"]


ROWS = [{"id": number, "name": f"name {number}", "is_on": True} for number in range(300)]
MADE: Final[dict[str, Callable[[SessionResult], SessionResult]]] = {
    "copied": copy,
    "copied deep": deepcopy,
    "pickled": lambda result: pickle.loads(pickle.dumps(result)),  # noqa: S301 - its own
    "replaced": lambda result: replace(result, tool_name="rows"),
}


@pytest.fixture
async def session(engine: ToolEngine) -> ToolSession:
    session = ToolSession(engine, "s")
    session.register_tool({"name": "rows", "description": "Lists."}, lambda: {"rows": [*ROWS]})
    return session


async def test_texts_are_made_when_one_of_them_is_first_read(
    session: ToolSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S15: a program that reads the output does not pay for texts of it."""
    made: list[str] = []

    def count(result: ToolExecutionResult, *args: Any, **options: Any) -> Presented:
        made.append(result.tool_name)
        return present_result(result, *args, **options)

    monkeypatch.setattr(keeping, "present_result", count)
    read = await session.execute("rows")
    assert read.output["rows"] == ROWS
    assert not made
    assert read.is_truncated
    assert read.final_text is not None
    assert (len(read.final_text) < len(read.formatted_text), made) == (True, ["rows"])


@pytest.mark.parametrize("way", MADE)
async def test_a_late_reader_sees_what_an_early_one_saw(session: ToolSession, way: str) -> None:
    """S15: whatever a program does with the output, settings or the result before it is read."""
    early, late = await session.execute("rows"), await session.execute("rows")
    assert early.final_text is not None
    seen = {name: getattr(early, name) for name in ("formatted_text", "final_text", "is_truncated")}
    seen["final_text"] = early.final_text.replace("rows_1_result", "rows_2_result")
    late.output["rows"].clear()
    session.toolbox.config = ToolCallConfig(limit=100, language="zh")
    made = MADE[way](late)
    for each in (made, late):
        assert {name: getattr(each, name) for name in seen} == seen
    assert made == late
    assert late != early
    assert {name: late.to_dict()[name] for name in seen} == seen


async def test_a_text_that_is_replaced_stays_so(session: ToolSession) -> None:
    """S15: the other texts are made as they are."""
    read = replace(await session.execute("rows"), final_text=None)
    assert read.formatted_text.startswith('{"rows": [{"id": 0')
    assert (read.final_text, read.is_truncated) == (None, True)
    read.final_text = "mine"
    assert read.final_text == "mine"


async def test_unread_texts_stay_within_the_process(session: ToolSession) -> None:
    """S15: what is kept or compared is the text, and nothing that makes it."""
    assert b"Unread" not in pickle.dumps(await session.execute("rows"))
    late = await session.execute("rows")
    early = replace(late)
    assert early.is_truncated
    assert early == late
    late = replace(await session.execute("rows"), metadata={})
    early = replace(late)
    assert early.is_truncated
    assert late == early
