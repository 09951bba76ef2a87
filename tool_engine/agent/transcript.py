"""What was said and done in a conversation, independent of the model's form? A42."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.model.outcome import success_rate
from tool_engine.model.reply import ParsedReply
from tool_engine.model.statistics import ToolCallSummary
from tool_engine.protocols.cycle import as_execution_result, as_tool_request
from tool_engine.protocols.object_arguments import make_readable

_MOST_CALLS: Final = 1_000
"""How many calls are looked through for secrets when a conversation is restored."""


class TranscriptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One message, or one call that ended."""

    role: str
    """`user`, `assistant`, `tool`, or `loop`: what the loop itself said to the model."""
    text: str = ""
    metadata: dict[str, Any] = {}
    """`toolCallsRequested`: the calls of a reply; `refusal`: why a reply was refused; `toolCall`:
    the call of a `tool` entry, and how it ended. Calls are in the form of the founding document.
    """
    time: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return the calls that a reply asked for."""
        return list(self.metadata.get("toolCallsRequested", ()))


class ChildHistory(msgspec.Struct, kw_only=True):
    """The work of a sub-agent for one call."""

    session_id: str
    task: str
    entries: list[TranscriptEntry] = []
    stop_reason: str | None = None
    """Why it ended; None: it broke off."""
    children: dict[str, ChildHistory] = {}


class Transcript:
    """The entries of one conversation, in order; they only grow."""

    def __init__(self, entries: Iterable[TranscriptEntry] = ()) -> None:
        self.entries = list(entries)
        self._tool_usage: dict[str, int] = {}
        self._successful = 0
        for each in self.entries:
            self._count_call(each.metadata.get("toolCall"))

    def __repr__(self) -> str:
        return f"Transcript({len(self.entries)} entries)"

    def add(self, role: str, text: str, **metadata: Any) -> None:
        entry = TranscriptEntry(
            role=role, text=make_readable(text), metadata=_make_readable(metadata)
        )
        self.entries.append(entry)

    def add_reply(self, reply: ParsedReply) -> None:
        """Add the model's reply with its calls."""
        asked = [as_tool_request(call) for call in reply.calls]
        said = {"toolCallsRequested": asked, "refusal": reply.refusal}
        self.add("assistant", reply.text, **{key: each for key, each in said.items() if each})

    def add_results(
        self, calls: Iterable[ToolCall], results: Iterable[ToolExecutionResult]
    ) -> None:
        for call, result in zip(calls, results, strict=True):
            ended = as_execution_result(result)
            ran = {
                "callId": result.call_id,
                "definitionHash": result.metadata.get("definition_hash"),
            }
            fields = {**as_tool_request(call), **ended, **ran}
            self.add("tool", ended["result"], toolCall=fields)
            self._count_call(fields)

    def newest_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Return names and arguments of the newest calls, the oldest first."""
        newest = itertools.islice(_list_calls(reversed(self.entries)), _MOST_CALLS)
        return [*newest][::-1]

    def summary(self, session_id: str) -> ToolCallSummary:
        """Return totals of the calls for a conversation of this id."""
        total = sum(self._tool_usage.values())
        return ToolCallSummary(
            conversation_id=session_id,
            total_calls=total,
            successful_calls=self._successful,
            failed_calls=total - self._successful,
            success_rate=success_rate(self._successful, total),
            tool_usage=dict(self._tool_usage),
        )

    def _count_call(self, call: Any) -> None:
        """Count a call that ended; skip foreign data in restored entries."""
        name = call.get("toolName") if isinstance(call, dict) else None
        if isinstance(name, str):
            self._tool_usage[name] = self._tool_usage.get(name, 0) + 1
            self._successful += call.get("status") == "success"

    def to_list(self) -> list[dict[str, Any]]:
        return list(msgspec.to_builtins(self.entries))


def _list_calls(entries: Iterable[TranscriptEntry]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in entries:
        call = entry.metadata.get("toolCall")
        if isinstance(call, dict):
            name, arguments = call.get("toolName"), call.get("args")
            if isinstance(name, str) and isinstance(arguments, dict):
                yield name, arguments


def _make_readable(value: Any) -> Any:
    """Copy JSON values with texts made encodable; long texts are not copied."""
    if isinstance(value, str):
        return make_readable(value)
    if isinstance(value, dict):
        return {make_readable(key): _make_readable(item) for key, item in value.items()}
    return [_make_readable(each) for each in value] if isinstance(value, list) else value
