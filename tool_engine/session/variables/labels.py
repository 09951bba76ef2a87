"""Where does content come from, and may it reach a tool?

A label is a text that says where content came from, in one word or several: `user`, `model`,
`rule`, `tool:fetch_page effect:read host:example.com`. A content has one label for each origin; a
tool that `accepts` labels takes the content when each of them has a word that it accepts.

In a conversation with several sources, `tool:search` is the tool of the same source as the one that
accepts it, and `tool:source-2:search` that of the second source, in any tool's `accepts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import Refusal, ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.session.variables.read_labels import without_host
from tool_engine.session.variables.references import Expanded

_ADDRESSES: Final = ("url", "final_url")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_NONE: Final[Sequence[str]] = ()
_REMEMBERED: Final = 1024
"""The most tools whose hosts are remembered."""
_TOLD: Final = 10
"""The most labels that a refusal names."""
_LEAVE: Final = "Leave it out"
_REFER: Final = "Make an argument nothing but the reference to a variable that it accepts"
_SPACE: Final = re.compile(r"\s")
_TOOL: Final = re.compile(r"tool:(?:source-(\d+):)?([^:]*)")


def list_refused_labels(
    labels: Iterable[str], accepts: Iterable[str] | None, source: str = ""
) -> list[str]:
    """Return the labels that a tool does not accept, sorted.

    Args:
        labels: Where a content came from.
        accepts: Words; `*`, `?` and `[...]` stand for anything, as in file names.
        source: Which of several sources has the tool; see `source_of`.
    """
    return sorted(shown for shown, _ in _find_refused(labels, accepts, source))


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
    alone = _make_label(name, source, tool.effect, asks.host)
    asked, found = _NONE, _NONE
    if not (asks.is_fixed or (type(params) is dict and params.keys().isdisjoint(_ADDRESSES))):
        asked = _find_hosts(params)
    if not (type(output) is dict and output.keys().isdisjoint(_ADDRESSES)):
        found = _find_hosts(output)
    if not asked and not found:
        if isinstance(used, frozenset) and alone <= used:
            return used
        return alone.union(used) if used else alone
    (label,) = _make_label(name, source, tool.effect, None)
    labels = frozenset[str]() if asked else alone
    return labels.union((f"{label} host:{host}" for host in (*asked, *found)), used)


def _find_refused(
    labels: Iterable[str], accepts: Iterable[str] | None, source: str
) -> list[tuple[str, str]]:
    """Return refused labels, as the tool reads them and as they are."""
    if accepts is None:
        return []
    own = _number_of(source)
    # Hosts are in lower case in labels.
    patterns = [each.lower() if each.startswith("host:") else each for each in accepts]
    shown = ((" ".join(_seen_from(own, word) for word in each.split()), each) for each in labels)
    return [pair for pair in shown if not _is_accepted(pair[0], patterns, own)]


def refuse_content(
    tool: Tool, expanded: Expanded, inside: Iterable[str] = (), source: str = ""
) -> Refusal | None:
    """Return why a tool may not get kept content, or None.

    Args:
        tool: Its `accepts`; None there: it takes everything.
        expanded: What was put into the arguments of the call, or into those of the call that it is
            a part of.
        inside: The labels of kept content that the tool which makes the call has read.
        source: Which of several sources has the tool; see `source_of`.
    """
    read = expanded.read
    for variable in expanded.variables:
        refused = _find_refused(variable.labels, tool.accepts, source)
        if refused:
            what = f"the variable {variable.name!r}"
            return _make_refusal(tool, refused, what, _LEAVE, read, {"variable": variable.name})
    refused = _find_refused(inside, tool.accepts, source)
    what = "what was read for this call"
    return _make_refusal(tool, refused, what, _LEAVE, read, {}) if refused else None


def refuse_typing(tool: Tool, expanded: Expanded, source: str = "") -> Refusal | None:
    """Return why a tool may not get typed words, or None.

    Args:
        tool: Its `accepts`; None there: it takes everything.
        expanded: The arguments of the call, or of the call that it is a part of.
        source: Which of several sources has the tool; see `source_of`.
    """
    refused = _find_refused(expanded.typed, tool.accepts, source)
    what = "what you have read, and so what you type,"
    return _make_refusal(tool, refused, what, _REFER, expanded.read, {}) if refused else None


def list_shown_labels(labels: Iterable[str], read: frozenset[str]) -> list[str]:
    """Return labels for a model, sorted, without hosts of unread content.

    A page may name any host as its address, so that a host is a part of its content.
    """
    return sorted({each if each in read else without_host(each) for each in labels})


def _make_refusal(
    tool: Tool,
    refused: list[tuple[str, str]],
    what: str,
    cure: str,
    read: frozenset[str],
    details: dict[str, Any],
) -> Refusal:
    accepted = f"only {', '.join(tool.accepts or ())}" if tool.accepts else "no kept content at all"
    shown = sorted({each if own in read else without_host(each) for each, own in refused})
    labels = sorted(each for each, _ in refused)
    return Refusal(
        ErrorType.EXECUTION_REJECTED.value,
        f"{what} must not be sent to the tool {tool.name!r}: it came from "
        f"{_join_labels(shown)}, and the tool accepts {accepted}. {cure}, "
        "or tell the user why it cannot be sent",
        {
            "reason": f"the tool does not accept what came from {_join_labels(labels)}",
            **details,
            "labels": labels,
            "accepts": list(tool.accepts or ()),
        },
    )


def _join_labels(labels: list[str]) -> str:
    """Return the first labels as text, and how many follow."""
    more = f"; and {len(labels) - _TOLD} more" if len(labels) > _TOLD else ""
    return "; ".join(labels[:_TOLD]) + more


def _is_accepted(label: str, patterns: list[str], own: int) -> bool:
    words = [form for word in label.split() for form in _list_forms(word, own)]
    return any(fnmatchcase(word, pattern) for word in words for pattern in patterns)


def _number_of(source: str) -> int:
    """Return the place of a source among several, from 1; see `source_of`."""
    return int(source.rpartition(" ")[2]) if source else 1


def _seen_from(own: int, word: str) -> str:
    """Return a word as a tool reads it: other sources are named."""
    found = _TOOL.fullmatch(word)
    if found is None or int(found[1] or 1) == own:
        return word
    return f"tool:source-{found[1] or 1}:{found[2]}"


def _list_forms(word: str, own: int) -> tuple[str, ...]:
    found = _TOOL.fullmatch(word)
    if found is None or int(found[1] or 1) != own:
        return (word,)
    return f"tool:{found[2]}", f"tool:source-{own}:{found[2]}"


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
def _make_label(name: str, source: str, effect: str, host: str | None) -> frozenset[str]:
    """Return the one label of content from a tool."""
    place = f"source-{_number_of(source)}:" if source else ""
    place_of_host = "" if host is None else f" host:{host}"
    return frozenset({f"tool:{place}{_join_word(name)} effect:{_join_word(effect)}{place_of_host}"})


def _join_word(text: str) -> str:
    """Return a text as one word, which forges no other origin."""
    return _SPACE.sub("_", text)
