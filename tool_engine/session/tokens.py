"""How many tokens did a reply cost, whatever its provider calls them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["tokens_of"]

_INPUT: Final = (
    ("prompt_tokens",),
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("prompt_token_count", "tool_use_prompt_token_count"),
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
)
"""What a model read. Anthropic counts apart what a cache holds; the others count it in. Servers in
between tell the same under several names: the first that is told counts."""
_OUTPUT: Final = (
    ("completion_tokens",),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("candidates_token_count", "thoughts_token_count"),
    ("output_tokens",),
)
"""What a model wrote. Gemini counts its thoughts apart; the others count them in."""
_TOTAL: Final = (("total_tokens",), ("totalTokenCount",), ("total_token_count",))


def tokens_of(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """What a model read, what it wrote, and what both come to, or what its provider says so."""
    read, wrote = _sum(usage, _INPUT), _sum(usage, _OUTPUT)
    return read, wrote, max(read + wrote, _sum(usage, _TOTAL))


def _sum(usage: Mapping[str, Any], ways: tuple[tuple[str, ...], ...]) -> int:
    for names in ways:
        found = (usage.get(name) for name in names)
        counted = sum(each for each in found if type(each) is int and each > 0)
        if counted:
            return counted
    return 0
