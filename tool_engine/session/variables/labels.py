"""Where does content come from, and may it reach a tool?

A label is a text that says where content came from, in one word or several: `user`, `model`,
`rule`, `tool:fetch_page effect:read host:example.com`. A content has one label for each origin; a
tool that `accepts` labels takes the content when each of them has a word that it accepts.

In a conversation with several sources, `tool:search` is the tool of the same source as the one that
accepts it, and `tool:source-2:search` that of the second source, in any tool's `accepts`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import Refusal, ToolExecutionResult
from tool_engine.model.outcome import ErrorType
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.session.variables.copies import copies
from tool_engine.session.variables.references import Expanded
from tool_engine.session.variables.store import Variable, VariableStore
from tool_engine.session.variables.traces import OWN_WORDS, Trace

_ADDRESSES: Final = ("url", "final_url")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_NONE: Final[Sequence[str]] = ()
_REMEMBERED: Final = 1024
"""The most tools whose hosts are remembered."""
_LITTLE: Final = 262_144
"""The most characters of variables that are searched on the event loop."""
_SPACE: Final = re.compile(r"\s")
_TOOL: Final = re.compile(r"tool:(?:source-(\d+):)?([^:]*)")


def refused_labels(
    labels: Iterable[str], accepts: Iterable[str] | None, source: str = ""
) -> list[str]:
    """Return the labels that a tool does not accept, sorted; none with `accepts` None.

    Args:
        labels: Where a content came from.
        accepts: Words; `*`, `?` and `[...]` stand for anything, as in file names.
        source: Which of several sources has the tool; see `source_of`.
    """
    if accepts is None:
        return []
    own = _number(source)
    # Hosts are in lower case in labels.
    patterns = [each.lower() if each.startswith("host:") else each for each in accepts]
    told = (" ".join(_seen_from(own, word) for word in label.split()) for label in labels)
    return sorted(label for label in told if not _is_accepted(label, patterns, own))


def labels_of_result(
    tool: Tool,
    params: Any,
    result: ToolExecutionResult,
    used: Iterable[str] = (),
    source: str = "",
) -> frozenset[str]:
    """Return the labels of a call's result: of its tool and of its arguments' contents.

    The host is the one of the URL that the definition names, where it names one, else of the
    argument `url`; a result with an address under `url` or `final_url` came from there, too.

    Args:
        tool: The tool as the catalog has it.
        params: The arguments that it ran with.
        result: How the call ended.
        used: The labels of what was put into the arguments.
        source: Which of several sources has the tool; see `source_of`.
    """
    asks = _asks_of(tool)
    alone = _label(result.tool_name, source, tool.effect, asks.host)
    asked = _NONE if asks.is_fixed else _hosts(params)
    told = _hosts(result.output)
    if not asked and not told:
        return alone.union(used) if used else alone
    (label,) = _label(result.tool_name, source, tool.effect, None)
    labels = frozenset[str]() if asked else alone
    return labels.union((f"{label} host:{host}" for host in (*asked, *told)), used)


def labels_of_copies(value: Any, store: VariableStore) -> frozenset[str]:
    """Return the labels of the pieces that `value` repeats from variables, word for word.

    What the model wrote before it was in any result is its own, and has no label here.
    """
    return _labels_of_copies(value, *_texts_of(store))


async def labels_of_copies_in_time(value: Any, store: VariableStore) -> frozenset[str]:
    """Do the same as `labels_of_copies`; search large values in a thread."""
    if _is_little(value, store):
        return labels_of_copies(value, store)
    return await asyncio.to_thread(_labels_of_copies, value, *_texts_of(store))


def _labels_of_copies(
    value: Any, variables: Iterable[Variable], traces: Iterable[Trace]
) -> frozenset[str]:
    found = copies(value, variables, traces)
    return frozenset[str]().union(*(each.variable.labels for each in found)) - OWN_WORDS


def refusal_of_labels(
    tool: Tool, expanded: Expanded, params: dict[str, Any] | None = None, source: str = ""
) -> Refusal | None:
    """Return why content must not reach a tool that limits what it accepts; None: it may.

    Args:
        tool: Its `accepts`; None there: it takes everything.
        expanded: What was put into the arguments of the call, or into those of the call that it is
            a part of.
        params: The arguments of this call, where they are others than those of `expanded`.
        source: Which of several sources has the tool; see `source_of`.
    """
    store = expanded.store
    refusal = _of_references(tool, expanded, source)
    if refusal is not None or tool.accepts is None or store is None:
        return refusal
    sent = expanded.params if params is None else params
    return _of_copies(tool, source, sent, *_texts_of(store))


async def refusal_in_time(
    tool: Tool, expanded: Expanded, params: dict[str, Any], source: str = ""
) -> Refusal | None:
    """Do the same as `refusal_of_labels`; search large values in a thread."""
    store = expanded.store
    if tool.accepts is None or store is None or _is_little(params, store):
        return refusal_of_labels(tool, expanded, params, source)
    refusal = _of_references(tool, expanded, source)
    if refusal is not None:
        return refusal
    # Other calls go on writing into the store meanwhile.
    return await asyncio.to_thread(_of_copies, tool, source, params, *_texts_of(store))


def _is_little(value: Any, store: VariableStore) -> bool:
    """Return True if the search for copies takes only milliseconds."""
    chars = sum(each.chars + each.traces.chars for each in _stores(store))
    return is_quick(value) and chars <= _LITTLE


def _stores(store: VariableStore) -> Iterator[VariableStore]:
    """Return the store of a conversation and those of the conversations above it."""
    each: VariableStore | None = store
    while each is not None:
        yield each
        each = each.outer


def _texts_of(store: VariableStore) -> tuple[list[Variable], list[Trace]]:
    """Return their variables, the last used first, and the traces of removed ones."""
    stores = list(_stores(store))
    if len(stores) == 1:
        return store.find(), list(store.traces)
    # In turns, so that many of one store do not crowd out those of another.
    turns = zip_longest(*(each.find() for each in stores))
    variables = [variable for turn in turns for variable in turn if variable is not None]
    return variables, [trace for each in stores for trace in each.traces]


def _of_references(tool: Tool, expanded: Expanded, source: str) -> Refusal | None:
    for variable in expanded.variables:
        refused = refused_labels(variable.labels, tool.accepts, source)
        if refused:
            return _refusal(tool, variable, refused, f"the variable {variable.name!r}")
    return None


def _of_copies(
    tool: Tool,
    source: str,
    sent: dict[str, Any],
    variables: Iterable[Variable],
    traces: Iterable[Trace],
) -> Refusal | None:
    for copy in copies(list(sent.values()), variables, traces):
        variable = copy.variable
        # What the model wrote before a tool echoed it has no other origin.
        refused = refused_labels(variable.labels - OWN_WORDS, tool.accepts, source)
        if refused:
            # What is no variable is described in words.
            name = variable.name if " " in variable.name else f"the variable {variable.name!r}"
            what = f"a text of {copy.size} letters and digits from {name}"
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


def _is_accepted(label: str, patterns: list[str], own: int) -> bool:
    words = [form for word in label.split() for form in _forms(word, own)]
    return any(fnmatchcase(word, pattern) for word in words for pattern in patterns)


def _number(source: str) -> int:
    """Return the place of a source among several, from 1; see `source_of`."""
    return int(source.rpartition(" ")[2]) if source else 1


def _seen_from(own: int, word: str) -> str:
    """Return a word as a source's tool reads it: it names other sources."""
    found = _TOOL.fullmatch(word)
    if found is None or int(found[1] or 1) == own:
        return word
    return f"tool:source-{found[1] or 1}:{found[2]}"


def _forms(word: str, own: int) -> tuple[str, ...]:
    found = _TOOL.fullmatch(word)
    if found is None or int(found[1] or 1) != own:
        return (word,)
    return f"tool:{found[2]}", f"tool:source-{own}:{found[2]}"


def _hosts(values: Any) -> Sequence[str]:
    """Return the hosts of the addresses under the known keys."""
    if type(values) is not dict and not isinstance(values, Mapping):
        return _NONE
    if "url" not in values and "final_url" not in values:
        return _NONE
    addresses = [values[key] for key in _ADDRESSES if key in values]
    hosts = [_host(each) for each in addresses if isinstance(each, str)]
    return [host for host in hosts if host]


class _Asks(NamedTuple):
    """How a definition determines the hosts that its calls reach."""

    tool: Tool
    """Held so that no other tool gets its identity."""
    is_fixed: bool
    """Whether no argument can change where its request goes."""
    host: str | None


_asks: Final[dict[int, _Asks]] = {}


def _asks_of(tool: Tool) -> _Asks:
    known = _asks.get(id(tool))
    if known is None:
        if len(_asks) >= _REMEMBERED:
            _asks.clear()
        known = _asks[id(tool)] = _read(tool)
    return known


def _read(tool: Tool) -> _Asks:
    # Read once: a loaded tool makes the mapping anew at each access.
    request = tool.implementation_config.get("request")
    if not isinstance(request, Mapping):
        return _Asks(tool, False, None)
    address = request.get("url")
    origin = _ORIGIN.match(address) if isinstance(address, str) else None
    return _Asks(tool, True, None if origin is None else _host(origin[0]) or None)


def _host(address: str) -> str | None:
    """Return the host that the tools would dial for an address, or None."""
    if _ORIGIN.match(address) is None:
        return None
    # Loaded late: only tools that dial need it.
    try:
        url = import_module("tool_engine.executors.http.url").parse_url(address)
    except ToolExecutionError:
        return None
    return str(url.raw_host)


@lru_cache(maxsize=1024)
def _label(name: str, source: str, effect: str, host: str | None) -> frozenset[str]:
    """Return the one label of content from a tool."""
    place = f"source-{_number(source)}:" if source else ""
    told = "" if host is None else f" host:{host}"
    return frozenset({f"tool:{place}{_word(name)} effect:{_word(effect)}{told}"})


def _word(text: str) -> str:
    """Return a text as one word, so that a name cannot forge another origin."""
    return _SPACE.sub("_", text)
