"""How are tools, calls and results written in VCP?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.output import to_text
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.result_content import request_ids
from tool_engine.protocols.text.text_protocol import TextProtocol, check_choice, check_rendering
from tool_engine.protocols.vcp.vcp_decoder import ID, NAME, VCPDecoder
from tool_engine.protocols.vcp.vcp_definitions import (
    DEFINITION_STYLES,
    INSTRUCTIONS,
    list_losses,
    write_definition,
)
from tool_engine.protocols.vcp.vcp_markers import REQUEST, write_field
from tool_engine.protocols.vcp.vcp_results import PAYLOAD, RESULT_STYLES


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
        self.definition_style = check_choice(
            "definition_style", definition_style, DEFINITION_STYLES
        )
        self.result_style = check_choice("result_style", result_style, RESULT_STYLES)
        self.wrap_results = wrap_results

    def definitions(self, tools: Iterable[Tool]) -> str:
        """Return one `<<<[TOOL_DEFINITION]>>>` block for each tool."""
        style, language = self.definition_style, self.language
        return "\n\n".join(
            write_definition(tool, style, language) for tool in self.known.learn(tools)
        )

    def definition_findings(self, tools: Iterable[Tool]) -> list[ReplyFinding]:
        """Return what the definitions leave out, or VCP cannot carry."""
        listed = self.known.learn(tools)
        losses = (loss for tool in listed for loss in list_losses(tool, self.definition_style))
        return [*super().definition_findings(listed), *losses]

    def prompt(self, tools: Iterable[Tool]) -> str:
        """Return how to call, and the definitions; empty without tools."""
        told = self.definitions(tools)
        return f"{INSTRUCTIONS[self.language]}\n\n{told}" if told else ""

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
