"""May content reach a tool, by where it came from (`accepts`)?

A tool that `accepts` labels takes the content when each of its labels has a word that it accepts;
`labels` says what a label is.

In a conversation with several sources, `tool:search` is the tool of the same source as the one that
accepts it, and `tool:source-2:search` that of the second source, in any tool's `accepts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

from tool_engine.model.call import Refusal
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.session.variables.labels import number_of_source, without_host
from tool_engine.session.variables.references import Expanded

_TOLD: Final = 10
"""The most labels that a refusal names."""
_LEAVE: Final = "Leave it out"
_REFER: Final = "Make an argument nothing but the reference to a variable that it accepts"
_TOOL: Final = re.compile(r"tool:(?:source-(\d+):)?([^:]*)")


def find_refused_labels(
    labels: Iterable[str], accepts: Iterable[str] | None, source: str
) -> list[tuple[str, str]]:
    """Return refused labels, as the tool reads them and as they are."""
    if accepts is None:
        return []
    own = number_of_source(source)
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
        refused = find_refused_labels(variable.labels, tool.accepts, source)
        if refused:
            what = f"the variable {variable.name!r}"
            return _make_refusal(tool, refused, what, _LEAVE, read, {"variable": variable.name})
    refused = find_refused_labels(inside, tool.accepts, source)
    what = "what was read for this call"
    return _make_refusal(tool, refused, what, _LEAVE, read, {}) if refused else None


def refuse_typing(tool: Tool, expanded: Expanded, source: str = "") -> Refusal | None:
    """Return why a tool may not get typed words, or None.

    Args:
        tool: Its `accepts`; None there: it takes everything.
        expanded: The arguments of the call, or of the call that it is a part of.
        source: Which of several sources has the tool; see `source_of`.
    """
    refused = find_refused_labels(expanded.typed, tool.accepts, source)
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
