"""How did a call of a conversation end, and what does its model read of it?"""

from __future__ import annotations

from tool_engine import ToolEngine
from tool_engine.approval.callback import CallbackApprover
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.result import as_tool_call_result
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
