"""Which models can be created by name?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, cast

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ChatModel
from tool_engine.model.checks.nearness import suggest_near

MODELS: Final[Mapping[str, str]] = {
    "openai": "tool_engine.agent.models.openai:OpenAIChatModel",
    "openai_responses": "tool_engine.agent.models.openai_responses:OpenAIResponsesModel",
    "anthropic": "tool_engine.agent.models.anthropic:AnthropicModel",
    "gemini": "tool_engine.agent.models.gemini:GeminiModel",
    "recorded": "tool_engine.agent.models.recorded:RecordedModel",
}
"""Provider (the part before the colon) -> class."""


def chat_model(model: str, **options: Any) -> ChatModel:
    """Create the client of a model.

    Args:
        model: `provider:name`, such as `openai:gpt-5`; `recorded:FILE` plays a recorded
            conversation.
        options: What the class takes: `base_url`, `api_key`, `timeout`, `max_retries`,
            `max_tokens`, `protocol`, and extra fields of each request, such as `temperature`.

    Raises:
        ConfigurationError: There is no such provider, an option is invalid, or there is no key.
        MissingExtraError: The SDK of the provider is not installed.

    Example:
        >>> model = chat_model("openai:qwen3", base_url="http://127.0.0.1:8000/v1")
    """
    provider, colon, name = model.partition(":") if isinstance(model, str) else ("", "", "")
    place = MODELS.get(provider)
    if not colon or place is None:
        hint = f"; write {provider}:NAME" if place else suggest_near(provider, MODELS)
        raise ConfigurationError(
            f"a model is named as provider:name, with one of {', '.join(MODELS)} for the provider; "
            f"got {model!r}{hint}"
        )
    module, _, attribute = place.partition(":")
    make = cast("Callable[..., ChatModel]", getattr(import_module(module), attribute))
    try:
        return make(name, **options)
    except TypeError as error:
        raise ConfigurationError(f"the model {model!r}: {error}") from error
