"""How are tools, calls and results written in VCP?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.result_content import request_ids, text_of
from tool_engine.protocols.text.neutral_text import find_closing_fence, neutralize_text, write_label
from tool_engine.protocols.text.text_protocol import TextProtocol, check_rendering
from tool_engine.protocols.vcp.vcp_decoder import ID, NAME, VCPDecoder
from tool_engine.protocols.vcp.vcp_definitions import (
    DEFINITION_STYLES,
    INSTRUCTIONS,
    find_losses,
    write_definition,
)
from tool_engine.protocols.vcp.vcp_markers import REQUEST, RESULT, write_field

PAYLOAD: Final = "<!-- VCP_TOOL_PAYLOAD -->"
"""The mark of a user message with results. U31."""
Answers = Sequence[tuple[str, ToolExecutionResult]]
"""Pairs of a call's id, as the model awaits it, and the result."""


def _write_blocks(answers: Answers) -> str:
    return "\n\n".join(_write_block(call_id, result) for call_id, result in answers)


def _write_block(call_id: str, result: ToolExecutionResult) -> str:
    fields = {
        "request_id": write_label(call_id),
        "tool_name": write_label(result.tool_name),
        "status": "success" if result.is_success else "error",
        "duration_ms": str(round(result.execution_time * 1000)),
    }
    head = "\n".join([RESULT[0], *(f"{key}:「始」{value}「末」" for key, value in fields.items())])
    value = _close_fence(head + "\nresult:「始」" + neutralize_text(text_of(result)))
    if find_closing_fence(f"{value}「末」") is not None:
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
        f"### 结果 {number}\n- 工具名称: {write_label(result.tool_name)}\n- 执行状态: {status}\n"
        f"- 返回内容: {neutralize_text(text_of(result))}"
    )


def _close_fence(text: str) -> str:
    """Close an open code fence, which would quote the model's next text."""
    fence = find_closing_fence(text)
    return text if fence is None else f"{text}\n{fence}\n"


RESULT_STYLES: Final[Mapping[str, Callable[[Answers], str]]] = {
    "seed": _write_blocks,
    "aio": _write_summary,
}
"""Every form of results: A17, and that of later versions. X8."""


class VCPProtocol(TextProtocol):
    """Calls as `<<<[TOOL_REQUEST]>>>` blocks of `key:「始」value「末」`. A14-A22.

    Every value is text on the wire. Where the tool is known, it is converted by the tool's schema,
    if that loses nothing; `repairs` of the call lists the conversions.

    Args:
        fuzzy: Whether nearly right marks count: `<<[tool_request]>>`, `{始}`, and names of
            parameters that differ in case, `_` or `-`. U27.
        definition_style: `json`, or `lines`: one line for each parameter.
        result_style: `seed`, or `aio`: one summary of all results. X8.
        wrap_results: Whether `format_results` begins with the mark of a message of results. U31.
        options: As of `TextProtocol`.

    Raises:
        ConfigurationError: An option has a value that is not known.
    """

    name: ClassVar[str] = "vcp"

    def __init__(
        self,
        *,
        fuzzy: bool = False,
        definition_style: str = "json",
        result_style: str = "seed",
        wrap_results: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_switch("fuzzy", fuzzy)
        check_switch("wrap_results", wrap_results)
        self.fuzzy = fuzzy
        check_choice("definition_style", definition_style, DEFINITION_STYLES)
        self.definition_style = definition_style
        check_choice("result_style", result_style, RESULT_STYLES)
        self.result_style = result_style
        self.wrap_results = wrap_results

    def definitions(self, tools: Iterable[Tool]) -> str:
        """Return one `<<<[TOOL_DEFINITION]>>>` block for each tool."""
        style, language = self.definition_style, self.language
        return "\n\n".join(
            write_definition(tool, style, language) for tool in self.known.learn(tools)
        )

    def _find_losses(self, tool: Tool) -> Iterable[ReplyFinding]:
        return find_losses(tool, self.definition_style)

    def prompt(self, tools: Iterable[Tool]) -> str:
        """Return how to call, and the definitions; empty without tools."""
        definitions = self.definitions(tools)
        return f"{INSTRUCTIONS[self.language]}\n\n{definitions}" if definitions else ""

    def decoder(self) -> VCPDecoder:
        return VCPDecoder(self, is_fuzzy=self.fuzzy)

    def render_call(self, call: ToolCall) -> str:
        """Return the block of `call`, for an example or a replayed conversation.

        Raises:
            ConfigurationError: It would not be read as the same call: VCP cannot carry the name of
                a parameter, or the tool is unknown that declares which text is a number.
        """
        fields = [(ID, call.call_id), (NAME, call.tool_name)]
        fields += [(key, _write_value(value)) for key, value in call.arguments.items()]
        lines = ",\n".join(write_field(key, value) for key, value in fields)
        return check_rendering(self, f"{REQUEST[0]}\n{lines}\n{REQUEST[1]}", call)

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> str:
        """Return the results as the text of the user's next message."""
        answers = list(zip(request_ids(results, calls), results, strict=True))
        text = RESULT_STYLES[self.result_style](answers)
        return f"{PAYLOAD}\n{text}" if text and self.wrap_results else text


def _write_value(value: Any) -> str:
    """Return a text unchanged, even with lone surrogates, others as JSON."""
    return value if isinstance(value, str) else to_text(value)
