"""Which tools does a front end find, and what does the prompt say about them? A23-A26, A40."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypedDict, runtime_checkable

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.interfaces.source import ToolSource
from tool_engine.model.checks.unawaited import is_unawaited
from tool_engine.model.tool import Tool
from tool_engine.protocols.prompts import prompt
from tool_engine.session.config import ToolCallConfig, as_config
from tool_engine.session.toolbox.standing import split_name
from tool_engine.session.toolbox.toolbox import Toolbox

MethodFilter = Callable[[Tool], bool]
"""Returns True if a tool is discovered, in place of whether it is on. A24."""

_MAX_PROMPTS: Final = 32
"""The most prompts that one service keeps; the longest unused one goes."""


@runtime_checkable
class _HasToolbox(Protocol):
    """A `ToolSession`, which stands above this module."""

    toolbox: Toolbox

    def protocol(self, protocol: str) -> ToolCallingProtocol:
        """Return the protocol of a name."""


class DiscoveredTool(TypedDict):
    """The methods of one tool, in the form of the founding document."""

    toolId: str
    toolName: str
    methods: list[dict[str, Any]]
    """`name`, `toolName` (the name that a call has), `description`, `parameters`, `agentCallable`.
    """


class ToolDiscoveryService:
    """Find tools, and cache the prompt that shows them to a model.

    Args:
        toolbox: The tools, and which of them are on.
        protocol: Gives the protocol of a name; None: a shared one.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        protocol: Callable[[str], ToolCallingProtocol | str] | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._protocol = protocol or str
        self._prompts: OrderedDict[str, tuple[list[Tool], str]] = OrderedDict()

    def __repr__(self) -> str:
        return f"ToolDiscoveryService({self._toolbox!r}, {len(self._prompts)} prompts kept)"

    def get_discovered_methods(self, filter: MethodFilter | None = None) -> list[DiscoveredTool]:  # noqa: A002 - the founding document's word
        """Return the enabled tools, each with its methods. A24, A35.

        A name is split at its last `_`: `web_page_read` is the method `read` of `web_page`; a name
        without one is a tool whose only method has the same name.

        Args:
            filter: Says which tools are found, of all that are there; None: those that are on.

        Returns:
            By `toolId`; the methods of each by name.

        Raises:
            ToolConflictError: Two tools have one name.
            ConfigurationError: The filter is no plain function, or failed.
        """
        tools = self._toolbox.tools()
        enabled = {tool.name for tool in tools}
        if filter is not None:
            tools = [each.tool for each in self._toolbox.all() if _is_found(each.tool, filter)]
        found: dict[str, DiscoveredTool] = {}
        for tool in sorted(tools, key=lambda each: each.name):
            owner, method = split_name(tool.name)
            entry = found.setdefault(
                owner, DiscoveredTool(toolId=owner, toolName=owner, methods=[])
            )
            entry["methods"].append(_describe_method(tool, method, tool.name in enabled))
        return [found[owner] for owner in sorted(found)]

    def generate_prompt(
        self,
        config: ToolCallConfig | Mapping[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Return the part of the system prompt about the enabled tools. A25.

        Empty when tools are switched off, and for a protocol whose request contains the tools. It
        is made anew when a tool has changed, even without `invalidate_cache`.

        Args:
            config: Other settings than those of the conversation, for this prompt.
            agent_id: Whose prompt it is.

        Raises:
            ConfigurationError: The settings are none, or name no protocol.
            ToolConflictError: Two tools have one name.
        """
        chosen = self._toolbox.config if config is None else as_config(config)
        if not chosen.enabled:
            return ""
        tools = self._toolbox.under(chosen).tools()
        key = f"{chosen.protocol}|{agent_id or ''}|{_hash_of(chosen)}"
        kept = self._prompts.get(key)
        if kept is None or not _are_same(kept[0], tools):
            kept = (tools, prompt(tools, self._protocol(chosen.protocol)))
        self._prompts[key] = kept
        self._prompts.move_to_end(key)
        while len(self._prompts) > _MAX_PROMPTS:
            self._prompts.popitem(last=False)
        return kept[1]

    def invalidate_cache(self) -> None:
        """Forget every cached prompt. A26."""
        self._prompts.clear()


def create_tool_discovery_service(
    catalog: ToolSource, config: ToolCallConfig | None = None
) -> ToolDiscoveryService:
    """Make a service for the tools of an engine or a conversation. A23.

    Args:
        catalog: A `ToolEngine`, what `combine` and the like make of some, or a `ToolSession`.
        config: Which tools of an engine are on; a session has its own settings.

    Raises:
        ConfigurationError: It is no source of tools, or settings come with a session.
    """
    if isinstance(catalog, _HasToolbox):
        if config is not None:
            raise ConfigurationError("a session has settings of its own: leave out config")
        return ToolDiscoveryService(catalog.toolbox, catalog.protocol)
    return ToolDiscoveryService(Toolbox(catalog, config))


def _is_found(tool: Tool, asked: MethodFilter) -> bool:
    try:
        found: object = asked(tool)
    except Exception as error:
        raise ConfigurationError(
            f"filter failed for the tool {tool.name!r}: {type(error).__name__}: {error}"
        ) from error
    if is_unawaited(found):
        raise ConfigurationError("filter must be a plain function of a tool, and not async")
    return bool(found)


def _describe_method(tool: Tool, name: str, is_callable: bool) -> dict[str, Any]:
    schema = tool.parameters_schema
    required = schema.get("required", ())
    return {
        "name": name,
        "toolName": tool.name,
        "description": tool.description,
        "parameters": [
            {"name": key, "required": key in required, **spec}
            if isinstance(spec, Mapping)
            else {"name": key, "required": key in required}
            for key, spec in schema.get("properties", {}).items()
        ],
        "agentCallable": is_callable,
    }


def _hash_of(config: ToolCallConfig) -> str:
    content = msgspec.json.encode(config, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:16]


def _are_same(old: Sequence[Tool], new: Sequence[Tool]) -> bool:
    return len(old) == len(new) and all(a is b or a == b for a, b in zip(old, new, strict=True))
