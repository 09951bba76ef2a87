"""How are tools, calls and results written for a model that answers in tags or JSON?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.function_call.function_call_decoder import FunctionCallDecoder
from tool_engine.protocols.function_call.function_call_definitions import (
    DEFINITION_STYLES,
    INSTRUCTIONS,
    WRAPPER,
    find_losses,
)
from tool_engine.protocols.function_call.json_tracker import END_TAG, START_TAG
from tool_engine.protocols.result_content import request_ids, text_of
from tool_engine.protocols.text.neutral_text import find_closing_fence, neutralize_text, write_label
from tool_engine.protocols.text.text_protocol import TextProtocol, check_rendering

_CALL_STYLES: Final = ("function_call", "json")
_RESULT: Final = {"en": "Function result", "zh": "函数结果"}


class FunctionCallProtocol(TextProtocol):
    """Calls as `<function_call>{"name": …, "arguments": {…}}</function_call>`. D9-D14.

    JSON calls without a tag are read, too: `{"tool_name": …, "parameters": …}` at the beginning or
    the end of a line, and any form of a call that is the whole reply. X10, U42.

    Args:
        call_style: What the prompt asks for: `function_call` tags, or `json`.
        definition_style: `function`, one signature for each tool; `xml`; or `json`.
        options: As of `TextProtocol`.

    Raises:
        ConfigurationError: An option has a value that is not known.
    """

    name: ClassVar[str] = "function_call"

    def __init__(
        self,
        *,
        call_style: str = "function_call",
        definition_style: str = "function",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_choice("call_style", call_style, _CALL_STYLES)
        self.call_style = call_style
        check_choice("definition_style", definition_style, DEFINITION_STYLES)
        self.definition_style = definition_style

    def definitions(self, tools: Iterable[Tool]) -> str:
        """Return the list of the tools as text."""
        return DEFINITION_STYLES[self.definition_style](self.known.learn(tools), self.language)

    def _find_losses(self, tool: Tool) -> Iterable[ReplyFinding]:
        return find_losses(tool, self.definition_style)

    def prompt(self, tools: Iterable[Tool]) -> str:
        """Return the definitions and how to call; empty without tools."""
        definitions = self.definitions(tools)
        form = INSTRUCTIONS[self.call_style, self.language]
        return form.replace("{tools}", definitions) if definitions else ""

    def wrap_prompt(self, prompt: str, tools: Iterable[Tool]) -> str:
        """Return the prompt and the user's text, without a system prompt. D9."""
        start = self.prompt(tools)
        return f"{start}\n\n{WRAPPER[self.language]}\n{prompt}" if start else prompt

    def decoder(self) -> FunctionCallDecoder:
        return FunctionCallDecoder(self)

    def render_call(self, call: ToolCall) -> str:
        """Return the text of `call`, for an example or a replayed conversation.

        Raises:
            ConfigurationError: It would not be read as the same call: it has arguments that JSON
                cannot express.
        """
        try:
            text = self._write_call(call)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{self.name} cannot carry the call {call.call_id!r} of {call.tool_name!r}: its "
                f"arguments are no JSON: {error}"
            ) from error
        return check_rendering(self, text, call)

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> str:
        """Return the results as the text of the user's next message. D14."""
        answers = zip(request_ids(results, calls), results, strict=True)
        return "\n\n".join(self._write_result(call_id, result) for call_id, result in answers)

    def _write_call(self, call: ToolCall) -> str:
        # Characters beyond ASCII are escaped, so that a lone surrogate can be sent, too.
        is_json = self.call_style == "json"
        name, arguments = ("tool_name", "parameters") if is_json else ("name", "arguments")
        ends = {name: call.tool_name}, {"id": call.call_id}
        head = {**ends[0], **ends[1]} if is_json else {**ends[1], **ends[0]}
        text = json.dumps({**head, arguments: call.arguments}, allow_nan=False)
        return text if is_json else f"{START_TAG}{text}{END_TAG}"

    def _write_result(self, call_id: str, result: ToolExecutionResult) -> str:
        head = f"# {write_label(result.tool_name)} ({write_label(call_id)})"
        text = f"{head}\n{_RESULT[self.language]}: {neutralize_text(text_of(result))}"
        fence = find_closing_fence(text)
        return text if fence is None else f"{text}\n{fence}"
