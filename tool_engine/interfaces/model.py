"""How is one language model asked for replies?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tool_engine.interfaces.protocol import ToolCallingProtocol

if TYPE_CHECKING:
    from tool_engine.model.chat import ChatRequest

__all__ = ["ChatModel"]


@runtime_checkable
class ChatModel(Protocol):
    """Asks one model for replies.

    A reply is in the model's own form: what `protocol` reads. A client that fails raises
    `ChatModelError`, with whatever it held given back; it is cancelled like any coroutine.
    """

    @property
    def name(self) -> str:
        """What the provider calls the model."""

    @property
    def protocol(self) -> ToolCallingProtocol:
        """How the model is told of tools and calls them. The same object in every turn."""

    def user_message(self, text: str) -> Any:
        """What a user says, as a message of the model's form."""

    def reply(self, request: ChatRequest) -> AsyncIterator[Any]:
        """One reply: its chunks, which `protocol.decoder()` takes one after the other.

        With `request.is_streamed` False it is one whole reply, which `protocol.parse` takes.
        """
