"""How is a model asked over Gemini's generateContent?

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from tool_engine.agent.models.client import NO_KEY, Access, ModelClient
from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.model.chat import ChatRequest

try:
    import httpx2
    from google import genai
    from google.genai import types
except ImportError as error:
    raise MissingExtraError(
        f"the SDK of Gemini is not installed ({error.name}): pip install 'tool-engine[gemini]'"
    ) from error

_answers: ContextVar[list[httpx2.Response] | None] = ContextVar("answers", default=None)
"""The HTTP responses to this task's request, so that they can be closed."""


class GeminiModel(ModelClient):
    """A model behind generateContent; takes the arguments of `ModelClient`.

    Example:
        >>> model = GeminiModel("gemini-3-flash", thinking_config={"include_thoughts": True})
    """

    provider: ClassVar[str] = "gemini"
    native: ClassVar[str] = "gemini"
    reserved: ClassVar[frozenset[str]] = frozenset(
        {
            *("automatic_function_calling", "max_output_tokens", "system_instruction"),
            *("tools", "tool_config", "http_options"),
        }
    )
    key_variables: ClassVar[tuple[str, ...]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")

    async def chunks(self, request: ChatRequest) -> AsyncGenerator[Any, None]:
        """Yield the reply's chunks, or the whole reply."""
        asked = {
            "model": self._name,
            "contents": list(request.messages),
            "config": self._make_config(request),
        }
        models = self._client.aio.models
        if not request.is_streamed:
            yield self._check_chunk(await models.generate_content(**asked))
            return
        got: list[httpx2.Response] = []
        chunks = await models.generate_content_stream(**asked)
        try:
            while (chunk := await _read_next(chunks, got)) is not None:
                yield self._check_chunk(chunk)
        finally:
            # The SDK leaves the connection of an abandoned reply to the garbage collector.
            for answer in got:
                await answer.aclose()

    def _make_client(self, access: Access) -> genai.Client:
        self._http = httpx2.AsyncClient(
            follow_redirects=True, event_hooks={"response": [_note_answer]}, timeout=None
        )
        timeout, retries = access.timeout, access.max_retries
        options = types.HttpOptions(
            base_url=access.base_url,
            timeout=None if timeout is None else max(round(timeout * 1000), 1),
            retry_options=None if retries is None else types.HttpRetryOptions(attempts=retries + 1),
            httpx_async_client=self._http,
        )
        try:
            return genai.Client(api_key=access.api_key, http_options=options)
        except ValueError as error:
            if access.base_url is not None and access.api_key is None:
                return genai.Client(api_key=NO_KEY, vertexai=False, http_options=options)
            raise ConfigurationError(
                f"{type(self).__name__} has no key: pass api_key=..., set GEMINI_API_KEY, or name "
                f"a server that needs none with base_url=... ({error})"
            ) from error

    def _check_chunk(self, chunk: types.GenerateContentResponse) -> types.GenerateContentResponse:
        """Return the chunk; raise if it is other JSON than a reply."""
        if not chunk.model_fields_set - {"sdk_http_response"}:
            raise self.unreadable("an empty object")
        return chunk

    async def _close_client(self) -> None:
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()

    def _base_url(self) -> str:
        # The SDK has no public name for it.
        inner = getattr(self._client, "_api_client", None)
        options = getattr(inner, "_http_options", None)
        return str(getattr(options, "base_url", None) or "")

    def _known_options(self) -> Iterable[str]:
        return types.GenerateContentConfig.model_fields

    def _checked_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        checked = super()._checked_options(options)
        try:
            types.GenerateContentConfig(**checked)
        except ValueError as error:
            raise ConfigurationError(f"{type(self).__name__}: {error}") from error
        return checked

    def _make_config(self, request: ChatRequest) -> types.GenerateContentConfig:
        config = {
            **self._options,
            "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
            "max_output_tokens": self._find_max_tokens(request),
            "system_instruction": request.system or None,
        }
        if (tools := self._find_tools(request)) is not None:
            config["tools"] = tools
            if not request.may_call:
                config["tool_config"] = {"function_calling_config": {"mode": "NONE"}}
        return types.GenerateContentConfig(**config)


async def _read_next(chunks: Any, got: list[httpx2.Response]) -> Any:
    """Return the next chunk or None; `got` collects its HTTP responses."""
    token = _answers.set(got)
    try:
        return await anext(chunks, None)
    finally:
        _answers.reset(token)


async def _note_answer(answer: httpx2.Response) -> None:
    got = _answers.get()
    if got is not None:
        got.append(answer)
