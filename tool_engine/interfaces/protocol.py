"""How is a model given its tools, and how does it ask for calls?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    # What only models' replies need is loaded with the first protocol.
    from tool_engine.model.reply import ParsedReply, StreamEvent


class ReplyDecoder(Protocol):
    """Reads one reply while the model writes it. Made by `ToolCallingProtocol.decoder`.

    Neither method raises for anything that a model or a server can send: what is wrong becomes a
    finding. However a reply is cut into chunks, the calls and the text are the same in the end.
    """

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """Take the next part of the reply, and return the events it results in."""

    def close(self) -> ParsedReply:
        """Return the whole reply; an unfinished call has `complete=False`.

        May be called again, with the same answer; `feed` may not be called after it.
        """


@runtime_checkable
class ToolCallingProtocol(Protocol):
    """How a kind of model gets tools, calls and gets results. A13.

    One whose `definitions` are a text is for calls in text: the definitions stand in the system
    prompt, and a chat model carries it in its provider's messages. With `writes_text = True` its
    arguments are texts, too, which are converted by the schema of their tool. With `prompt(self,
    tools)` another text stands in the prompt. With `definition_findings(self, tools)` and
    `result_findings(self, results)` it lists, as `ReplyFinding`, what it cannot express; with
    `render_call(self, call)` it writes a call, which recorded conversations need.
    """

    @property
    def name(self) -> str:
        """The name by which `get_protocol` finds the protocol."""

    def definitions(self, tools: Iterable[Tool]) -> Any:
        """Return `tools` for the model: a request's `tools`, or system prompt text.

        These are fresh values, which the caller may change.
        """

    def parse(self, reply: Any) -> ParsedReply:
        """Read a whole reply.

        Never raises for anything that a model or a server can send.
        """

    def decoder(self) -> ReplyDecoder:
        """Return a reader for a reply that arrives in parts."""

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> Any:
        """Return the results for the model: messages, or a text.

        A result belongs to the call whose id is in `metadata["request_id"]`, where the cycle puts
        it; else to the call in the same place of `calls`.

        Raises:
            ConfigurationError: It is unclear to which call a result belongs.
        """


def is_for_text(protocol: Any) -> bool:
    """Return True if a protocol is for calls in text, as its definitions are."""
    if getattr(protocol, "writes_text", False):
        return True
    with suppress(Exception):  # what it raises for no tools says nothing
        return isinstance(protocol.definitions([]), str)
    return False
