"""How is one language model asked for replies?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tool_engine.interfaces.protocol import ToolCallingProtocol

if TYPE_CHECKING:
    from tool_engine.model.chat import ChatRequest


@runtime_checkable
class ChatModel(Protocol):
    """Asks one model for replies.

    A reply is in the model's own form: what `protocol` reads. A client that fails raises
    `ChatModelError`, with whatever it held given back; it is cancelled like any coroutine.
    """

    @property
    def name(self) -> str:
        """The provider's name for the model."""

    @property
    def protocol(self) -> ToolCallingProtocol:
        """How the model gets tools and asks for calls; always the same."""

    def user_message(self, text: str) -> Any:
        """Return a user's text as a message in the model's form."""

    def reply(self, request: ChatRequest) -> AsyncIterator[Any]:
        """Yield the chunks of one reply, which `protocol.decoder()` takes in order.

        With `request.is_streamed` False it is one whole reply, which `protocol.parse` takes.
        """
