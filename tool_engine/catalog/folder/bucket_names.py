"""Which limits name a bucket that no tool uses, and which of them is that news of?"""

from __future__ import annotations

from typing import Final

from tool_engine.catalog.index import ToolIndex
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import ToolCategory

_BY_BUCKET: Final = (
    *("bucket_limits", "bucket_queue_sizes", "bucket_rates", "breakers", "adaptive", "overload"),
)
_Slip = tuple[str, str]
"""A field of the configuration, and the name that no tool uses."""


class BucketNames:
    """Find what is most likely a typo, and remember what of it has been said.

    A tool that comes or goes changes nothing of a name that is wrong: without that, each of a
    thousand tools that a program registers would warn of it again.
    """

    __slots__ = ("_config", "_said")

    def __init__(self) -> None:
        self._config: ConcurrencyConfig | None = None
        self._said: set[_Slip] = set()

    def find_news(self, config: ConcurrencyConfig, index: ToolIndex) -> list[str]:
        """Return the warnings that it has not returned for this configuration."""
        if config is not self._config and config != self._config:
            self._config, self._said = config, set()
        slips = [slip for slip in _find_slips(config, index) if slip not in self._said]
        self._said.update(slips)
        return _word_slips(slips, index)


def limit_warnings(config: ConcurrencyConfig, index: ToolIndex) -> list[str]:
    """Warn of limits for buckets without tools: most likely a typo."""
    return _word_slips(_find_slips(config, index), index)


def _find_slips(config: ConcurrencyConfig, index: ToolIndex) -> list[_Slip]:
    named = {field: set(getattr(config, field)) for field in _BY_BUCKET}
    if not any(named.values()):
        return []
    known = _list_known(index)
    return [(field, name) for field, names in named.items() for name in sorted(names - known)]


def _word_slips(slips: list[_Slip], index: ToolIndex) -> list[str]:
    known = sorted(_list_known(index)) if slips else []
    return [
        f"{field} names {name!r}, which no tool uses{suggest_near(name, known)}"
        for field, name in slips
    ]


def _list_known(index: ToolIndex) -> set[str]:
    known = {name for name, count in index.buckets.items() if count}
    return known | {each.value for each in ToolCategory}
