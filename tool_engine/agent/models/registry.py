"""Which models can be created by name?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, cast

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ChatModel
from tool_engine.model.checks.nearness import find_nearest, suggest_near

MODELS: Final[Mapping[str, str]] = {
    "openai": "tool_engine.agent.models.openai:OpenAIChatModel",
    "openai_responses": "tool_engine.agent.models.openai_responses:OpenAIResponsesModel",
    "anthropic": "tool_engine.agent.models.anthropic:AnthropicModel",
    "gemini": "tool_engine.agent.models.gemini:GeminiModel",
    "recorded": "tool_engine.agent.models.recorded:RecordedModel",
}
"""Provider (the part before the colon) -> class."""

_FAMILIES: Final = (
    (re.compile(r"(chat)?gpt|o\d|codex|davinci|openai", re.IGNORECASE), "openai"),
    (re.compile("claude|opus|sonnet|haiku|anthropic", re.IGNORECASE), "anthropic"),
    (re.compile("gemini|gemma|google|vertex", re.IGNORECASE), "gemini"),
)
"""How names of models begin, or what others call a provider -> the provider."""


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
        hint = f"; write {provider}:NAME" if place else _suggest_model(model)
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


def _suggest_model(model: object) -> str:
    """Return the model that was meant by a name without a provider, or with another word for it."""
    found = re.match(r"([^:/]*)([:/]?)(.*)", str(model), re.DOTALL)
    provider, mark, name = found.groups() if found is not None else ("", "", "")
    if mark and (near := find_nearest(provider, MODELS)):
        return f"; did you mean '{near}:{name}'?"
    for begin, meant in _FAMILIES:
        if begin.match(provider):
            return f"; did you mean '{meant}:{name if mark else provider}'?"
    # A name of a model that is like a provider is not one of that provider.
    near = suggest_near(provider, MODELS) if provider.isalpha() and not mark else ""
    shown = model if isinstance(model, str) and model.isprintable() and model else "NAME"
    return near or (
        f"; write openai:{shown} with base_url for a server that speaks OpenAI's protocol"
    )
