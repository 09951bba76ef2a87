"""Which models can be asked, and how is one asked offline?

Most names are imported when they are first used: the SDK of a provider is loaded with its client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tool_engine.late_names import find_later

if TYPE_CHECKING:
    from tool_engine.agent.models.anthropic import AnthropicModel
    from tool_engine.agent.models.gemini import GeminiModel
    from tool_engine.agent.models.openai import OpenAIChatModel
    from tool_engine.agent.models.openai_responses import OpenAIResponsesModel
    from tool_engine.agent.models.recorded import RecordedModel
    from tool_engine.agent.models.recording import RecordingModel, record
    from tool_engine.agent.models.registry import MODELS, chat_model

__all__ = [
    "MODELS",
    "AnthropicModel",
    "GeminiModel",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "RecordedModel",
    "RecordingModel",
    "chat_model",
    "record",
]

_MODULES = {
    "anthropic": "AnthropicModel",
    "gemini": "GeminiModel",
    "openai": "OpenAIChatModel",
    "openai_responses": "OpenAIResponsesModel",
    "recorded": "RecordedModel",
    "recording": "RecordingModel record",
    "registry": "MODELS chat_model",
}
"""Module -> the names that it defines."""


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __getattr__ = find_later(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
