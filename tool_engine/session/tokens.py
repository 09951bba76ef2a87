"""How many tokens did a reply cost, whatever its provider calls them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_INPUT: Final = (
    ("prompt_tokens",),
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("prompt_token_count", "tool_use_prompt_token_count"),
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
)
"""Names for the tokens that a model read. Anthropic counts cached tokens apart; the others
include them. Servers in between report the same under several names: the first one counts.
"""
_OUTPUT: Final = (
    ("completion_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("candidates_token_count", "thoughts_token_count"),
    ("output_tokens",),
)
"""Names for the tokens that a model wrote. Gemini counts its thoughts apart; the others include
them.
"""
_TOTAL: Final = (("total_tokens",), ("totalTokenCount",), ("total_token_count",))


def tokens_of(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the tokens read, the tokens written, and the total (the provider's, if given)."""
    read, wrote = _sum(usage, _INPUT), _sum(usage, _OUTPUT)
    return read, wrote, max(read + wrote, _sum(usage, _TOTAL))


def _sum(usage: Mapping[str, Any], ways: tuple[tuple[str, ...], ...]) -> int:
    for names in ways:
        found = (usage.get(name) for name in names)
        counted = sum(each for each in found if type(each) is int and each > 0)
        if counted:
            return counted
    return 0
