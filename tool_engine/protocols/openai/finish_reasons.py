"""What does a reply's `finish_reason` mean for its calls?

OpenAI says `stop`, `length`, `tool_calls`, `content_filter` or `function_call`; other servers have
words of their own. https://platform.openai.com/docs/api-reference/chat/object
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tool_engine.protocols.reply_builder import Ending


class ReasonMeaning(NamedTuple):
    ending: Ending
    finding: str | None = None
    message: str = ""
    stops_calls: bool = False


_ASKS: Final = frozenset({"tool_calls", "function_call", "tool_call", "tool_use"})
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "finished": _ASKS
    | {"stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "completed"}
    | {"finished"},
    "cut": frozenset(
        {
            *("length", "max_tokens", "max_output_tokens", "model_length", "incomplete"),
            *("model_context_window_exceeded", "insufficient_system_resource", "network_error"),
            *("abort", "aborted", "cancelled", "timeout"),
        }
    ),
    "failed": frozenset({"error", "malformed_function_call", "unexpected_tool_call"}),
    "filtered": frozenset(
        {
            *("content_filter", "content-filter", "safety", "sensitive", "recitation"),
            *("blocklist", "prohibited_content", "spii", "refusal", "guardrail_intervened"),
        }
    ),
}


def asks_for_calls(reason: str | None) -> bool:
    return reason is not None and reason.lower() in _ASKS


def find_meaning(reason: str) -> ReasonMeaning:
    """Return a reason's meaning, ignoring case; an unknown one makes a finding."""
    word = reason.lower()
    kind = next((kind for kind, words in _WORDS.items() if word in words), None)
    if kind == "finished":
        return ReasonMeaning(Ending.FINISHED)
    if kind == "cut":
        return ReasonMeaning(Ending.CUT)
    if kind == "filtered":
        message = f"a content filter of the provider stopped the reply ({reason})"
        return ReasonMeaning(Ending.CUT, "refusal", message, stops_calls=True)
    if kind == "failed":
        message = f"the provider could not finish the reply ({reason})"
        return ReasonMeaning(Ending.CUT, "malformed_reply", message, stops_calls=True)
    message = f"the reply ended for a reason that is not known: {reason!r:.80}"
    return ReasonMeaning(Ending.UNKNOWN, "malformed_reply", message)
