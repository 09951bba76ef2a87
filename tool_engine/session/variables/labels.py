"""Where does content come from, and where has a session's model read from?

A label is a text that says where content came from, in one word or several: `user`, `model`,
`rule`, `tool:fetch_page effect:read host:example.com`. A content has one label for each origin.

A model can retell, translate, encode or split what it has read, so no look at what it types says
what that repeats. All that it types counts as having come from everywhere that it has read from.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.newest import keep_newest
from tool_engine.model.tool import Tool

OWN_WORDS: Final = frozenset({"model", "rule"})
"""Labels of the model's own words and of rules: a model that reads these
learns nothing new."""
UNKNOWN: Final = "unknown"
"""The label of content of which it is not known where it came from."""
_MOST_LABELS: Final = 100
"""The most labels that one session remembers one by one."""
_HOST: Final = re.compile(r"(?<=\S)\s+host:\S*")
_ADDRESSES: Final = ("url", "final_url")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_NONE: Final[Sequence[str]] = ()
_REMEMBERED: Final = 1024
"""The most tools whose hosts are remembered."""
_SPACE: Final = re.compile(r"\s")
_MOST_RESULTS: Final = 10_000
"""The most calls whose results' readability and origins are remembered."""
_MOST_SAVED: Final = 1_000
"""The most calls whose shown results are saved with the conversation."""


def find_result_labels(
    tool: Tool,
    params: Any,
    result: ToolExecutionResult,
    used: Iterable[str] = (),
    source: str = "",
    ran_as: str | None = None,
) -> frozenset[str]:
    """Return the labels of a result: its tool's and its arguments'.

    The host is the one of the URL that the definition names, where it names one, else of the
    argument `url`; a result with an address under `url` or `final_url` came from there, too.

    Args:
        tool: The tool as the catalog has it.
        params: The arguments that it ran with.
        result: How the call ended.
        used: The labels of what was put into the arguments.
        source: Which of several sources has the tool; see `source_of`.
        ran_as: The tool's name there; None: as the result says.
    """
    asks = _asks.get(id(tool)) or _find_asks(tool)
    name, output = ran_as or result.tool_name, result.output
    alone = _label_content(name, source, tool.effect, asks.host)
    asked, found = _NONE, _NONE
    if not (asks.is_fixed or (type(params) is dict and params.keys().isdisjoint(_ADDRESSES))):
        asked = _find_hosts(params)
    if not (type(output) is dict and output.keys().isdisjoint(_ADDRESSES)):
        found = _find_hosts(output)
    if not asked and not found:
        if isinstance(used, frozenset) and alone <= used:
            return used
        return alone.union(used) if used else alone
    (label,) = _label_content(name, source, tool.effect, None)
    labels = frozenset[str]() if asked else alone
    return labels.union((f"{label} host:{host}" for host in (*asked, *found)), used)


class ReadLabels:
    """The labels of what a session's model, and those above, have read.

    Args:
        above: Those of the session that it works for, now and later; None: it works for none.
    """

    def __init__(self, above: ReadLabels | None = None) -> None:
        self._above = above
        self._own: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<ReadLabels {', '.join(sorted(self.labels)) or 'none'}>"

    @property
    def labels(self) -> frozenset[str]:
        """The labels of all that may be in what the model types."""
        if self._above is None:
            return self._own
        above = self._above.labels
        return self._own | above if above else self._own

    def has_all(self, labels: frozenset[str]) -> bool:
        """Return True if nothing changes when content with these labels is read."""
        return labels <= self._own

    def note(self, labels: Iterable[str]) -> None:
        """Note that the model reads content with these labels.

        A program that shows its model content itself, such as a page in a message, calls it, too.

        Args:
            labels: Where the content came from, such as `{"crm"}`.
        """
        new = labels if isinstance(labels, frozenset) else frozenset(labels)
        if not new <= self._own:
            self._own = _limit_labels(self._own | (new - OWN_WORDS))


def without_host(label: str) -> str:
    """Return a label without its host, which may be made up."""
    return _HOST.sub("", label)


def _limit_labels(labels: frozenset[str]) -> frozenset[str]:
    """Return labels that are as strict, and not too many."""
    if len(labels) > _MOST_LABELS:
        labels = frozenset(map(without_host, labels))
    return labels if len(labels) <= _MOST_LABELS else frozenset({UNKNOWN})


class ShownResults:
    """The results of a conversation and its helpers: shown or withheld."""

    def __init__(self) -> None:
        self._labels: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._withheld: OrderedDict[str, None] = OrderedDict()

    def note(self, call_id: str | None, labels: frozenset[str]) -> None:
        """Note that the model has read a result with these labels."""
        if call_id is not None and call_id not in self._withheld:
            # No call ends twice: the newest is the last one.
            self._labels[call_id] = labels
            if len(self._labels) > _MOST_RESULTS:
                self._labels.popitem(last=False)

    def withhold(self, call_id: str | None) -> None:
        """Note that a result was refused to the model, until `allow`."""
        if call_id is not None:
            self._labels.pop(call_id, None)
            keep_newest(self._withheld, call_id, None, _MOST_RESULTS)

    def allow(self, call_id: str | None) -> None:
        """Note that a result was approved after all."""
        self._withheld.pop(call_id or "", None)

    def is_withheld(self, call_id: str) -> bool:
        return call_id in self._withheld

    def labels_of(self, call_id: str) -> frozenset[str] | None:
        """Return the labels of a shown result; None: it was not shown."""
        return self._labels.get(call_id)

    @property
    def shown(self) -> dict[str, list[str]]:
        """Return the labels of the newest shown results, by call."""
        newest = list(self._labels.items())[-_MOST_SAVED:]
        return {call_id: sorted(labels) for call_id, labels in newest}

    @property
    def withheld(self) -> list[str]:
        """Return the calls whose results were refused, the oldest first."""
        return list(self._withheld)


def number_of_source(source: str) -> int:
    """Return the place of a source among several, from 1; see `source_of`."""
    return int(source.rpartition(" ")[2]) if source else 1


def _find_hosts(values: Any) -> Sequence[str]:
    """Return the hosts of the addresses under the known keys."""
    if type(values) is not dict and not isinstance(values, Mapping):
        return _NONE
    if "url" not in values and "final_url" not in values:
        return _NONE
    addresses = [values[key] for key in _ADDRESSES if key in values]
    hosts = [_find_host(each) for each in addresses if isinstance(each, str)]
    return [host for host in hosts if host]


class _Asks(NamedTuple):
    """How a definition determines the hosts that its calls reach."""

    tool: Tool
    """Held so that no other tool gets its identity."""
    is_fixed: bool
    """Whether no argument can change where its request goes."""
    host: str | None


_asks: Final[dict[int, _Asks]] = {}


def _find_asks(tool: Tool) -> _Asks:
    known = _asks.get(id(tool))
    if known is None:
        if len(_asks) >= _REMEMBERED:
            _asks.clear()
        known = _asks[id(tool)] = _read_request(tool)
    return known


def _read_request(tool: Tool) -> _Asks:
    # Read once: a loaded tool makes the mapping anew at each access.
    request = tool.implementation_config.get("request")
    if not isinstance(request, Mapping):
        return _Asks(tool, False, None)
    address = request.get("url")
    origin = _ORIGIN.match(address) if isinstance(address, str) else None
    return _Asks(tool, True, None if origin is None else _find_host(origin[0]) or None)


def _find_host(address: str) -> str | None:
    """Return the host that tools would dial for an address, or None."""
    if _ORIGIN.match(address) is None:
        return None
    # Loaded late: only tools that dial need it.
    try:
        url = import_module("tool_engine.executors.http.url").parse_url(address)
    except ToolExecutionError:
        return None
    return str(url.raw_host)


@lru_cache(maxsize=1024)
def _label_content(name: str, source: str, effect: str, host: str | None) -> frozenset[str]:
    """Return the one label of content from a tool."""
    place = f"source-{number_of_source(source)}:" if source else ""
    place_of_host = "" if host is None else f" host:{host}"
    return frozenset({f"tool:{place}{_join_word(name)} effect:{_join_word(effect)}{place_of_host}"})


def _join_word(text: str) -> str:
    """Return a text as one word, which forges no other origin."""
    return _SPACE.sub("_", text)
