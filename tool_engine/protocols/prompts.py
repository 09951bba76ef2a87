"""How is the prompt about tools kept for as long as the tools stay the same? A25, A26.

Its key holds the protocol, and the name and content of each tool: only a reload that changes a tool
makes another prompt, so that a provider's own prompt cache stays good, too.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.interfaces import Source, ToolCallingProtocol
from tool_engine.model.tool import Tool
from tool_engine.protocols.registry import get_protocol
from tool_engine.sources.foreign import as_source

_MAX_PROMPTS: Final = 32
"""The most prompts of one protocol object; the least recently used one goes."""
_MAX_PROTOCOLS: Final = 32
_KEY: Final = "told_content"


class _Prompts:
    def __init__(self) -> None:
        self.texts: OrderedDict[tuple[tuple[str, str], ...], str] = OrderedDict()
        self.newest: tuple[weakref.ref[Any], str] | None = None
        """A catalog's snapshot, and the prompt of all its tools, if nothing is newer."""

    def text(self, protocol: ToolCallingProtocol, tools: list[Tool]) -> str:
        tools = [tool for tool in tools if tool.is_offered]
        key = tuple((tool.name, _hash_content(tool)) for tool in tools)
        if key not in self.texts:
            self.texts[key] = _make_prompt(protocol, tools)
        self.texts.move_to_end(key)
        while len(self.texts) > _MAX_PROMPTS:
            self.texts.popitem(last=False)
        return self.texts[key]


# By the object, as only it knows the names that it sent.
_kept: Final[weakref.WeakKeyDictionary[ToolCallingProtocol, _Prompts]] = weakref.WeakKeyDictionary()
_named: Final[OrderedDict[tuple[str, str], ToolCallingProtocol]] = OrderedDict()


def prompt(
    tools: Source | Iterable[Tool],
    protocol: ToolCallingProtocol | str,
    /,
    names: Iterable[str] | None = None,
    **options: Any,
) -> str:
    """Return the system prompt's part about tools; empty where requests declare them.

    Args:
        tools: A catalog, such as a `ToolEngine`, or tools.
        protocol: The object that reads the replies, too; or its name.
        names: The tools to include, in this order; None: all that are enabled.
        options: With a name, what `get_protocol` takes, such as `language="zh"`.

    Raises:
        ToolNotFoundError: There is no tool of a name.
        ConfigurationError: There is no such protocol, or options come with an object.
    """
    speaks = _choose_protocol(protocol, options)
    try:
        prompts = _kept.setdefault(speaks, _Prompts())
    except TypeError:
        # An object without weak references or a hash keeps nothing.
        prompts = _Prompts()
    source = as_source(tools) if hasattr(tools, "list_all") else None
    if names is not None:
        return prompts.text(speaks, _find_named(source, tools, list(names)))
    snapshot = None if source is None else source.index
    if prompts.newest is not None and prompts.newest[0]() is snapshot is not None:
        return prompts.newest[1]
    listed: Iterable[Tool] = tools if source is None else source.list_all()  # type: ignore[assignment]
    text = prompts.text(speaks, [each for each in listed if each.is_enabled])
    if snapshot is not None:
        prompts.newest = (weakref.ref(snapshot), text)
    return text


def forget_prompts() -> None:
    """Forget every kept prompt. A26."""
    _kept.clear()
    _named.clear()


def _choose_protocol(
    protocol: ToolCallingProtocol | str, options: dict[str, Any]
) -> ToolCallingProtocol:
    if not isinstance(protocol, str):
        if options:
            raise ConfigurationError(
                f"options ({', '.join(options)}) go with the name of a protocol; pass them where "
                "the object is made"
            )
        return protocol
    key = (protocol, repr(sorted(options.items())))
    if key not in _named:
        _named[key] = get_protocol(protocol, **options)
    _named.move_to_end(key)
    while len(_named) > _MAX_PROTOCOLS:
        _named.popitem(last=False)
    return _named[key]


def _find_named(source: Source | None, tools: Any, names: list[str]) -> list[Tool]:
    if source is not None:
        return [source.get_or_raise(name) for name in names]
    by_name = {tool.name: tool for tool in tools}
    for name in names:
        if name not in by_name:
            raise ToolNotFoundError(f"there is no tool {name!r} among {len(by_name)} tools")
    return [by_name[name] for name in names]


def _make_prompt(protocol: ToolCallingProtocol, tools: list[Tool]) -> str:
    """Return the protocol's prompt; a foreign protocol may have its definitions only."""
    make = getattr(protocol, "prompt", None)
    text = make(tools) if callable(make) else protocol.definitions(tools)
    return text if isinstance(text, str) else ""


_CONTENT_FIELDS: Final = (
    *("description", "examples", "effect", "output", "implementation_config", "vcp_command"),
)


def _hash_content(tool: Tool) -> str:
    """Return a text that identifies a tool's content, computed once for each.

    Not the hash of its definition: a conversation may show less of a tool, or something else.
    """
    kept: dict[str, Any] = tool.__dict__
    if _KEY not in kept:
        said = [tool.parameters_schema, *(getattr(tool, field) for field in _CONTENT_FIELDS)]
        text = json.dumps(said, default=str, sort_keys=True)
        kept[_KEY] = hashlib.sha256(text.encode()).hexdigest()
    return str(kept[_KEY])
