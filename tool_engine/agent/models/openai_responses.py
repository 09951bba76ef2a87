"""How is a model asked over OpenAI's Responses API?

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, ClassVar, Final

from tool_engine.agent.models.openai import OpenAIClient
from tool_engine.agent.models.provider_errors import REFUSAL_CODES
from tool_engine.errors import ChatModelError, ConfigurationError, MissingExtraError
from tool_engine.model.chat import ChatRequest
from tool_engine.protocols.chunks import read_field
from tool_engine.redaction import redact_text

try:
    from openai.resources.responses import AsyncResponses
except ImportError as error:
    raise MissingExtraError(
        f"the SDK of OpenAI is too old ({error.name}): pip install -U 'tool-engine[openai]'"
    ) from error

_ELSEWHERE: Final = ("conversation", "previous_response_id")
"""Options that make the server keep the conversation."""
_TRANSIENT: Final = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})


class OpenAIResponsesModel(OpenAIClient):
    """A model behind Responses; takes the arguments of `ModelClient`.

    Example:
        >>> model = OpenAIResponsesModel("gpt-5", reasoning={"effort": "low"})
    """

    provider: ClassVar[str] = "openai_responses"
    native: ClassVar[str] = "openai_responses"
    reserved: ClassVar[frozenset[str]] = frozenset(
        {"input", "instructions", "max_output_tokens", "model", "stream", "tools", "tool_choice"}
    )

    async def chunks(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield the reply's events, or the whole response."""
        answer = await self._client.responses.create(**self._make_body(request))
        if request.is_streamed:
            async with answer:
                async for event in answer:
                    yield self._check_event(event)
            return
        if not isinstance(getattr(answer, "output", None), list):
            raise self.unreadable(answer)
        yield self._check_event(answer)

    def _checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        extra = options.get("extra_body")
        for name in _ELSEWHERE:
            if options.get(name) is not None or (isinstance(extra, Mapping) and name in extra):
                raise ConfigurationError(
                    f"{name!r} cannot be an option of {type(self).__name__}: each request holds "
                    "the whole conversation, which the server would add to the one that it keeps; "
                    "leave it out, and keep the conversation with AgentLoop.to_dict()"
                )
        return super()._checked_options(options)

    def _known_options(self) -> Iterable[str]:
        return inspect.signature(AsyncResponses.create).parameters

    def _make_body(self, request: ChatRequest) -> dict[str, Any]:
        body = {**self._options, "model": self._name, "input": list(request.messages)}
        if request.system:
            body["instructions"] = request.system
        if (tools := self._find_tools(request)) is not None:
            body["tools"] = tools
            if not request.may_call:
                body["tool_choice"] = "none"
        if (tokens := self._find_max_tokens(request)) is not None:
            body["max_output_tokens"] = tokens
        if request.is_streamed:
            body["stream"] = True
        return body

    def _check_event(self, event: Any) -> Any:
        kind = read_field(event, "type")
        response = read_field(event, "response", event)
        if kind != "error" and read_field(response, "status") != "failed":
            return event
        error = event if kind == "error" else read_field(response, "error")
        code, words = (
            read_field(error, "code", "failed"),
            read_field(error, "message", "no reason was given"),
        )
        raise ChatModelError(
            redact_text(f"{self.name}: {self.address} gave up the reply ({code}): {words}"),
            is_transient=code in _TRANSIENT,
            is_refusal=code in REFUSAL_CODES,
        )
