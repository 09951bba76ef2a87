"""How is a model asked over Chat Completions, at OpenAI or a compatible server?

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Iterable
from typing import Any, ClassVar, Final

from tool_engine.agent.models.client import NO_KEY, Access, ModelClient
from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.model.chat import ChatRequest

try:
    from openai import AsyncOpenAI, BadRequestError, OpenAIError, UnprocessableEntityError
    from openai.resources.chat.completions import AsyncCompletions
except ImportError as error:
    raise MissingExtraError(
        f"the SDK of OpenAI is not installed ({error.name}): pip install 'tool-engine[openai]'"
    ) from error

_LIMITS: Final = {
    "max_completion_tokens": "max_tokens",
    "max_tokens": "max_completion_tokens",
}
"""Each name of the limit -> the other one, as servers refuse either."""
_UNKNOWN: Final = re.compile(
    r"un(?:known|supported|recognized|expected)|not (?:supported|permitted|allowed)|extra", re.I
)
_USAGE: Final = re.compile("stream_options|include_usage")


class OpenAIClient(ModelClient):
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    def _make_client(self, access: Access) -> AsyncOpenAI:
        given = access.list_given()
        try:
            return AsyncOpenAI(**given)
        except OpenAIError as error:
            if access.base_url is not None and access.api_key is None:
                return AsyncOpenAI(**given, api_key=NO_KEY)
            raise ConfigurationError(
                f"{type(self).__name__} has no key: pass api_key=..., set OPENAI_API_KEY, or name "
                "a server that needs none with base_url=..."
            ) from error

    def _base_url(self) -> str:
        return str(self._client.base_url)


class OpenAIChatModel(OpenAIClient):
    """A model behind Chat Completions; takes the arguments of `ModelClient`.

    Example:
        >>> model = OpenAIChatModel("qwen3", base_url="http://127.0.0.1:8000/v1", temperature=0)
    """

    provider: ClassVar[str] = "openai"
    native: ClassVar[str] = "openai"
    reserved: ClassVar[frozenset[str]] = frozenset(
        {"messages", "model", "stream", "tools", "tool_choice", *_LIMITS}
    )

    _refused: frozenset[str] = frozenset()

    async def chunks(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield the reply's chunks, or the whole completion."""
        answer = await self._send_request(request)
        if request.is_streamed:
            async with answer:
                async for chunk in answer:
                    yield chunk
            return
        if not getattr(answer, "choices", None):
            raise self.unreadable(_said_in(answer))
        yield answer

    @property
    def _limit_name(self) -> str:
        name = "max_completion_tokens" if self.address.endswith("openai.com") else "max_tokens"
        return _LIMITS[name] if name in self._refused else name

    def _known_options(self) -> Iterable[str]:
        return inspect.signature(AsyncCompletions.create).parameters

    async def _send_request(self, request: ChatRequest) -> Any:
        while True:
            body = self._make_body(request)
            try:
                return await self._client.chat.completions.create(**body)
            except (BadRequestError, UnprocessableEntityError) as error:
                if not self._gives_way(body, str(error)):
                    raise

    def _make_body(self, request: ChatRequest) -> dict[str, Any]:
        body = {**self._options, "model": self._name, "messages": list(request.messages)}
        if request.system:
            body["messages"].insert(0, {"role": "system", "content": request.system})
        if (tools := self._find_tools(request)) is not None:
            body["tools"] = tools
            if not request.may_call:
                body["tool_choice"] = "none"
        if (tokens := self._find_max_tokens(request)) is not None:
            body[self._limit_name] = tokens
        if request.is_streamed:
            body["stream"] = True
            if "stream_options" not in self._refused:
                body.setdefault("stream_options", {"include_usage": True})
        return body

    def _gives_way(self, body: dict[str, Any], message: str) -> bool:
        """Drop or rename a refused field; return False if none can be."""
        if _UNKNOWN.search(message) is None:
            return False
        may_go = body.keys() - self._options.keys() - self._refused
        if "stream_options" in may_go and _USAGE.search(message):
            self._refused |= {"stream_options"}
            return True
        if self._limit_name in may_go and self._limit_name in message:
            self._refused |= _LIMITS.keys()
            return True
        return False


def _said_in(answer: object) -> object:
    """Return what stands in place of a completion: servers put errors there."""
    return str(extra) if (extra := getattr(answer, "model_extra", None)) else answer
