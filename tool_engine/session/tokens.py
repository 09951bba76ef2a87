"""How many tokens does the reply of a model report, under its provider's names?"""

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


def read_tokens(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the tokens read and written, and the provider's total, if given."""
    read, wrote = _sum_counts(usage, _INPUT), _sum_counts(usage, _OUTPUT)
    return read, wrote, max(read + wrote, _sum_counts(usage, _TOTAL))


def _sum_counts(usage: Mapping[str, Any], ways: tuple[tuple[str, ...], ...]) -> int:
    for names in ways:
        counted = 0
        for name in names:
            found = usage.get(name)
            if type(found) is int and found > 0:
                counted += found
        if counted:
            return counted
    return 0
