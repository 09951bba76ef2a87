"""How is a result written in VCP?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tool_engine.model.call import ToolExecutionResult
from tool_engine.protocols.result_content import text_of
from tool_engine.protocols.text.neutral_text import closing_fence, label, neutralize
from tool_engine.protocols.vcp.vcp_markers import RESULT

PAYLOAD: Final = "<!-- VCP_TOOL_PAYLOAD -->"
"""The mark of a user message with results. U31."""
Answers = Sequence[tuple[str, ToolExecutionResult]]
"""Pairs of a call's id, as the model awaits it, and the result."""


def _write_blocks(answers: Answers) -> str:
    return "\n\n".join(_write_block(call_id, result) for call_id, result in answers)


def _write_block(call_id: str, result: ToolExecutionResult) -> str:
    fields = {
        "request_id": label(call_id),
        "tool_name": label(result.tool_name),
        "status": "success" if result.is_success else "error",
        "duration_ms": str(round(result.execution_time * 1000)),
    }
    head = "\n".join([RESULT[0], *(f"{key}:「始」{value}「末」" for key, value in fields.items())])
    value = _close_fence(head + "\nresult:「始」" + neutralize(text_of(result)))
    if closing_fence(f"{value}「末」") is not None:
        # A fence is closed only by a line that holds nothing else.
        value += "\n"
    return f"{value}「末」\n{RESULT[1]}"


def _write_summary(answers: Answers) -> str:
    if not answers:
        return ""
    parts = [_summarize_result(number, result) for number, (_, result) in enumerate(answers, 1)]
    return "\n".join(["[[AIO工具调用结果信息汇总:", "\n\n".join(parts), "AIO工具调用结果结束]]"])


def _summarize_result(number: int, result: ToolExecutionResult) -> str:
    status = "✅ SUCCESS" if result.is_success else "❌ ERROR"
    return _close_fence(
        f"### 结果 {number}\n- 工具名称: {label(result.tool_name)}\n- 执行状态: {status}\n"
        f"- 返回内容: {neutralize(text_of(result))}"
    )


def _close_fence(text: str) -> str:
    """Close an open code fence, which would quote the model's next text."""
    fence = closing_fence(text)
    return text if fence is None else f"{text}\n{fence}\n"


RESULT_STYLES: Final[Mapping[str, Callable[[Answers], str]]] = {
    "seed": _write_blocks,
    "aio": _write_summary,
}
"""Every form of results: A17, and that of later versions. X8."""
