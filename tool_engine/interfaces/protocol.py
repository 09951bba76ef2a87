"""How is a model told of tools, and how does it ask for calls?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    # What only models' replies need is loaded with the first protocol.
    from tool_engine.model.reply import ParsedReply, StreamEvent

__all__ = ["ReplyDecoder", "ToolCallingProtocol"]


class ReplyDecoder(Protocol):
    """Reads one reply while the model writes it. Made by `ToolCallingProtocol.decoder`.

    Neither method raises for anything that a model or a server can send: what is wrong becomes a
    finding. However a reply is cut into chunks, the calls and the text are the same in the end.
    """

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Takes the next part of the reply, and tells what it comes to."""

    def close(self) -> ParsedReply:
        """The whole reply; a call that the model did not finish is in it with `complete=False`.

        May be called again, with the same answer; `feed` may not be called after it.
        """


@runtime_checkable
class ToolCallingProtocol(Protocol):
    """How one kind of model is told of tools, asks for calls, and gets their results. A13."""

    @property
    def name(self) -> str:
        """The name under which `get_protocol` knows it."""

    def definitions(self, tools: Iterable[Tool]) -> Any:
        """What tells the model of `tools`: a request's `tools`, or text for the system prompt.

        These are fresh values, which the caller may change.
        """

    def parse(self, reply: Any) -> ParsedReply:
        """Reads a whole reply. Never raises for anything that a model or a server can send."""

    def decoder(self) -> ReplyDecoder:
        """Begins to read a reply that comes in parts."""

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> Any:
        """What tells the model how its calls ended: the next messages as a list, or a text.

        A result belongs to the call whose id is in `metadata["request_id"]`, where the cycle puts
        it; else to the call in the same place of `calls`.

        Raises:
            ConfigurationError: It cannot be told to which call a result belongs.
        """
