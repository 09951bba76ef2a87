"""Where does a content come from, and may it get to a tool?

A label is a text that says where content came from, in one word or several: `user`, `model`,
`rule`, `tool:fetch_page effect:read host:example.com`. A content has one label for each origin; a
tool that `accepts` labels takes the content when each of them has a word that it accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ErrorType, Refusal, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.session.copies import copies
from tool_engine.session.references import Expanded
from tool_engine.session.variables import Variable, VariableStore

__all__ = ["labels_of_copies", "labels_of_result", "refusal_of_labels", "refused_labels"]

_OWN_WORDS: Final = frozenset({"model", "rule"})
"""What the model wrote itself, or was told to do: to repeat it gives nothing away."""
_ADDRESSES: Final = ("url", "final_url")
"""The keys of arguments and of outputs that hold an address."""
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s")


def refused_labels(labels: Iterable[str], accepts: Iterable[str] | None) -> list[str]:
    """The labels that a tool does not accept, sorted; none with `accepts` None.

    Args:
        labels: Where a content came from.
        accepts: Words; `*`, `?` and `[...]` stand for anything, as in file names.
    """
    if accepts is None:
        return []
    # Hosts are spelled small in labels.
    patterns = [each.lower() if each.startswith("host:") else each for each in accepts]
    return sorted(label for label in labels if not _is_accepted(label, patterns))


def labels_of_result(
    tool: Tool, params: Any, result: ToolExecutionResult, used: Iterable[str] = ()
) -> frozenset[str]:
    """Where the result of a call came from: its tool, and whatever was put into its arguments.

    The host is the one of the URL that the definition names, where it names one, else of the
    argument `url`; a result that tells an address under `url` or `final_url` came from there, too.

    Args:
        tool: The tool as the catalog has it.
        params: The arguments that it ran with.
        result: How the call ended.
        used: The labels of what was put into the arguments.
    """
    label = f"tool:{_word(result.tool_name)} effect:{_word(tool.effect)}"
    labels = {f"{label} host:{host}" for host in _asked(tool, params)} or {label}
    labels.update(f"{label} host:{host}" for host in _hosts(result.output))
    return frozenset(labels.union(used))


def labels_of_copies(value: Any, store: VariableStore) -> frozenset[str]:
    """Where the pieces came from that `value` repeats from variables, word for word.

    What the model wrote before it was in any result is its own, and has no label here.
    """
    found = copies(value, store.find())
    return frozenset[str]().union(*(each.variable.labels for each in found)) - _OWN_WORDS


def refusal_of_labels(
    tool: Tool, expanded: Expanded, params: dict[str, Any] | None = None
) -> Refusal | None:
    """Why content must not get to a tool that says what it accepts; None: it may.

    Args:
        tool: Its `accepts`; None there: it takes everything.
        expanded: What was put into the arguments of the call, or into those of the call that it is
            a part of.
        params: The arguments of this call, where they are others than those of `expanded`.
    """
    if tool.accepts is None:
        return None
    for variable in expanded.variables:
        refused = refused_labels(variable.labels, tool.accepts)
        if refused:
            return _refusal(tool, variable, refused, f"the variable {variable.name!r}")
    if expanded.store is None:
        return None
    sent = expanded.params if params is None else params
    for copy in copies(list(sent.values()), expanded.store.find()):
        variable = copy.variable
        # What the model wrote before a tool echoed it came from nowhere else.
        refused = refused_labels(variable.labels - _OWN_WORDS, tool.accepts)
        if refused:
            what = f"a text of {copy.size} letters and digits from the variable {variable.name!r}"
            return _refusal(tool, variable, refused, what)
    return None


def _refusal(tool: Tool, variable: Variable, refused: list[str], what: str) -> Refusal:
    accepted = f"only {', '.join(tool.accepts or ())}" if tool.accepts else "no kept content at all"
    return Refusal(
        ErrorType.EXECUTION_REJECTED.value,
        f"{what} must not be sent to the tool {tool.name!r}: it came from {'; '.join(refused)}, "
        f"and the tool accepts {accepted}. Leave it out, or tell the user why it cannot be sent",
        {
            "reason": f"the tool does not accept what came from {'; '.join(refused)}",
            "variable": variable.name,
            "labels": refused,
            "accepts": list(tool.accepts or ()),
        },
    )


def _is_accepted(label: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(word, pattern) for word in label.split() for pattern in patterns)


def _hosts(values: Any) -> Iterator[str]:
    """The hosts of the addresses that arguments or an output hold under the known keys."""
    if not isinstance(values, Mapping):
        return
    for key in _ADDRESSES:
        address = values.get(key)
        if isinstance(address, str) and (host := _host(address)):
            yield host


def _asked(tool: Tool, params: Any) -> set[str]:
    """The hosts that a call asks."""
    request = tool.implementation_config.get("request")
    if not isinstance(request, Mapping):
        return set(_hosts(params))
    # Whatever its arguments are called, they cannot change where its request goes.
    address = request.get("url")
    origin = _ORIGIN.match(address) if isinstance(address, str) else None
    host = None if origin is None else _host(origin[0])
    return {host} if host else set()


def _host(address: str) -> str | None:
    """The host that is dialled for an address, as the tools that dial read it."""
    if _ORIGIN.match(address) is None:
        return None
    # Loaded by name: whoever dials has loaded it, and nobody else needs it.
    try:
        url = import_module("tool_engine.executors.http.url").parse_url(address)
    except ToolExecutionError:
        return None
    return str(url.raw_host)


def _word(text: str) -> str:
    """A text as one word: a name must not say that it came from somewhere else, too."""
    return _SPACE.sub("_", text)
