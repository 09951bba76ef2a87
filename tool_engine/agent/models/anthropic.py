"""How is a model asked over Anthropic's Messages API?

https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterable
from typing import Any, ClassVar, Final

from tool_engine.agent.models.client import NO_KEY, Access, ModelClient
from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.model.chat import ChatRequest

try:
    from anthropic import AnthropicError, AsyncAnthropic
    from anthropic.resources.messages import AsyncMessages
except ImportError as error:
    raise MissingExtraError(
        f"the SDK of Anthropic is not installed ({error.name}): "
        "pip install 'tool-engine[anthropic]'"
    ) from error

MAX_TOKENS: Final = 8192
"""The default limit of tokens: this API requires one in each request."""


class AnthropicModel(ModelClient):
    """A model behind Messages; takes the arguments of `ModelClient`.

    `max_tokens` is 8,192 unless set.

    Example:
        >>> model = AnthropicModel("claude-sonnet-5", max_tokens=16_000)
    """

    provider: ClassVar[str] = "anthropic"
    native: ClassVar[str] = "anthropic"
    reserved: ClassVar[frozenset[str]] = frozenset(
        {"max_tokens", "messages", "model", "stream", "system", "tools", "tool_choice"}
    )
    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")

    async def chunks(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield the reply's events, or the whole message."""
        answer = await self._client.messages.create(**self._make_body(request))
        if request.is_streamed:
            async with answer:
                async for event in answer:
                    yield event
            return
        if not isinstance(getattr(answer, "content", None), list):
            raise self.unreadable(answer)
        yield answer

    def _make_client(self, access: Access) -> AsyncAnthropic:
        given = access.list_given()
        try:
            client = AsyncAnthropic(**given)
        except AnthropicError as error:
            raise ConfigurationError(f"{type(self).__name__}: {error}") from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            if access.base_url is None:
                raise ConfigurationError(
                    f"{type(self).__name__} has no key: pass api_key=..., set ANTHROPIC_API_KEY, "
                    "or name a server that needs none with base_url=..."
                )
            client.api_key = NO_KEY
        return client

    def _base_url(self) -> str:
        return str(self._client.base_url)

    def _known_options(self) -> Iterable[str]:
        return inspect.signature(AsyncMessages.create).parameters

    def _make_body(self, request: ChatRequest) -> dict[str, Any]:
        body = {
            **self._options,
            "model": self._name,
            "messages": list(request.messages),
            "max_tokens": self._find_max_tokens(request) or MAX_TOKENS,
        }
        if request.system:
            body["system"] = request.system
        if (tools := self._find_tools(request)) is not None:
            body["tools"] = tools
            if not request.may_call:
                body["tool_choice"] = {"type": "none"}
        if request.is_streamed:
            body["stream"] = True
        return body
