"""How is a tool described to each model?

Each protocol writes its own definitions; this file selects the format by name, and writes MCP's,
which belongs to no model.
"""

from __future__ import annotations

import marshal
import pickle
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Final, cast

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.json.secret_schema import mark_secrets
from tool_engine.model.json.unpacking import making_old_values, without_collection
from tool_engine.model.newest import keep_newest
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import HINTS, Tool
from tool_engine.protocols.model_protocol import DefinitionWriter
from tool_engine.protocols.registry import get_protocol
from tool_engine.protocols.schemas.fitting import copy_plain
from tool_engine.protocols.tool_names import NameRule

Definitions = list[dict[str, Any]]
_MOST_KEPT: Final = 4
"""The lists of definitions that are kept; of 10,000 tools one takes three megabytes."""
_AT_ONCE: Final = 1000
"""The tools whose definitions are packed in one step, of a few milliseconds."""

_ANNOTATIONS: Final = (*HINTS, "title")
FORMATS: Final = ("openai", "openai_responses", "anthropic", "gemini", "mcp")
"""The names of all formats of definitions that a request carries."""


def definitions(format_name: str, tools: Iterable[Tool]) -> Definitions:
    """Describe `tools` in one format, as fresh values for the caller.

    A name that the provider would refuse is replaced, always by the same one; a protocol maps it
    back to the tool. `definition_findings` lists what the format cannot express.

    Args:
        format_name: `openai` (the `tools` of Chat Completions), `openai_responses` (of Responses),
            `anthropic` (of Messages), `gemini` (of generateContent: one entry with all functions)
            or `mcp` (the `tools` of a tools/list result).
        tools: In the order in which they are to be listed.

    Raises:
        ConfigurationError: The format is not known.
    """
    return cast("Definitions", _make_writer(format_name).definitions(tools))


class DefinitionCache:
    """The definitions of one snapshot of tools, as they were last asked for.

    A model is sent the same ones at each turn, and ten thousand take half a second to make. Any
    thread may ask.
    """

    def __init__(self) -> None:
        self._snapshot: object = None
        self._packed: OrderedDict[tuple[str, tuple[str, ...] | None], _Packed] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self,
        format_name: str,
        names: tuple[str, ...] | None,
        snapshot: object,
        list_tools: Callable[[], Iterable[Tool]],
    ) -> Definitions:
        """Return definitions as fresh values for the caller; see `definitions`.

        Args:
            format_name: The format.
            names: What is asked for; None: all.
            snapshot: The tools that there are now.
            list_tools: Returns those that are asked for.
        """
        with self._lock:
            if snapshot is not self._snapshot:
                self._packed.clear()
                self._snapshot = snapshot
            packed = self._packed.get((format_name, names))
        if packed is not None:
            return packed.unpack()
        tools = [*list_tools()]
        with making_old_values() if len(tools) > _AT_ONCE else nullcontext():
            made = definitions(format_name, tools)
            packed = _Packed(made)
        with self._lock:
            # Another thread may have asked for later tools meanwhile.
            if snapshot is self._snapshot:
                keep_newest(self._packed, (format_name, names), packed, _MOST_KEPT)
        return made


class _Packed:
    """Definitions in little memory, packed and unpacked in short steps.

    One step holds up all threads, and of ten thousand tools at once it would for 50 ms. While one
    unpacks, the garbage collector would take longer than the values themselves.
    """

    __slots__ = ("_load", "_parts", "_wrapping")

    def __init__(self, made: Definitions) -> None:
        self._wrapping: str | None = None
        listed: list[Any] = made
        if len(made) == 1 and len(made[0]) == 1:
            # One entry with all functions.
            ((key, held),) = made[0].items()
            if isinstance(held, list):
                self._wrapping, listed = key, held
        known: dict[str, str] = {}
        parts = [
            _share_texts(listed[at : at + _AT_ONCE], known.setdefault)
            for at in range(0, len(listed), _AT_ONCE)
        ]
        # A text that comes again is one value then: of all forms this one is read the fastest.
        self._load: Callable[[bytes], list[Any]] = marshal.loads
        try:
            self._parts = [*map(marshal.dumps, parts)]
        except ValueError:
            # Subclasses of the plain types have no such form.
            self._parts, self._load = [*map(pickle.dumps, parts)], pickle.loads

    def unpack(self) -> Definitions:
        listed: list[Any] = []
        is_long = len(self._parts) > 1
        with making_old_values() if is_long else without_collection():
            for part in self._parts:
                listed += self._load(part)
        return listed if self._wrapping is None else [{self._wrapping: listed}]


def _share_texts(value: Any, know: Callable[[str, str], str]) -> Any:
    """Return a copy in which texts that are equal are the same; `know` returns the first one."""
    kind = type(value)
    if kind is dict:
        return {
            know(key, key) if type(key) is str else key: know(each, each)
            if type(each) is str
            else _share_texts(each, know)
            for key, each in value.items()
        }
    if kind is list:
        return [
            know(each, each) if type(each) is str else _share_texts(each, know) for each in value
        ]
    return value


def definition_findings(format_name: str, tools: Iterable[Tool]) -> list[ReplyFinding]:
    """Return what `definitions` changes or drops because the format cannot express it.

    Raises:
        ConfigurationError: The format is not known.
    """
    return _make_writer(format_name).definition_findings(tools)


class MCPDefinitions(DefinitionWriter):
    """The `tools` of a tools/list result.

    https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
    """

    name = "mcp"
    name_rule = NameRule(
        re.compile(r"[A-Za-z0-9_.-]{1,128}"),
        128,
        "1 to 128 of the characters a-z, A-Z, 0-9, _ . and -",
    )

    def definitions(self, tools: Iterable[Tool]) -> Definitions:
        """Return one entry per tool, with its output schema and declared effect."""
        return [self._describe_output(tool) for tool in self.known.learn(tools)]

    def _describe_output(self, tool: Tool) -> dict[str, Any]:
        described = self._describe_tool(tool, "inputSchema")
        described["inputSchema"] = mark_secrets(described["inputSchema"], tool.secret_names)
        output = copy_plain(tool.output) if lists_output(tool) else {}
        if output.get("type") == "object":
            described["outputSchema"] = output
        elif output:
            # Callers get {"result": value} for output that is no object, as MCP wants objects.
            wrapped = {"type": "object", "properties": {"result": output}, "required": ["result"]}
            if "$defs" in output:
                # What is referred to as `#/$defs/...` is looked for at the top.
                wrapped["$defs"] = output.pop("$defs")
            described["outputSchema"] = wrapped
        if tool.title is not None:
            described["title"] = tool.title
        annotations = _list_hints(tool)
        if annotations is not None:
            described["annotations"] = annotations
        return described

    def _find_changes(self, tool: Tool) -> Iterator[ReplyFinding]:
        yield from super()._find_changes(tool)
        if tool.output and _may_be_cut(tool):
            yield ReplyFinding(
                error_type="dropped",
                tool_name=tool.name,
                message="output: is not told, as what `result` cuts is no longer so; the whole is "
                "held against it where the tool runs",
            )
        elif (tool.output or {}).get("type", "object") != "object":
            yield ReplyFinding(
                error_type="rewritten",
                tool_name=tool.name,
                message="output: MCP before 2026-07-28 has objects alone: there it is `result` of "
                "an object",
            )
        for each in tool.parameters:
            if each.secret and each.has_default:
                yield ReplyFinding(
                    error_type="dropped",
                    tool_name=tool.name,
                    message=f"parameters.{each.name}.default: a secret is not told; it holds where "
                    "the tool runs",
                )
        for key in tool.annotations or ():
            if key not in _ANNOTATIONS:
                yield ReplyFinding(
                    error_type="dropped",
                    tool_name=tool.name,
                    message=f"annotations.{key}: is no key of MCP, and clients may leave it out"
                    f"{suggest_near(key, _ANNOTATIONS)}",
                )


def lists_output(tool: Tool) -> bool:
    """Return True if the lists of MCP have the output of a tool.

    What is cut would be held against it by clients, and refused.
    """
    return "type" in (tool.output or {}) and not _may_be_cut(tool)


def _may_be_cut(tool: Tool) -> bool:
    return tool.result is not None and tool.result.may_cut


def _list_hints(tool: Tool) -> dict[str, Any] | None:
    """Return the hints that the definition gives, and those that follow from it; None: none."""
    hints: dict[str, Any] = {}
    if tool.effect != "unknown":
        hints["readOnlyHint"] = tool.effect == "read"
    if tool.idempotent:
        hints["idempotentHint"] = True
    return (hints or None) if tool.annotations is None else {**hints, **tool.annotations}


def _make_writer(format_name: str) -> DefinitionWriter:
    if format_name == MCPDefinitions.name:
        return MCPDefinitions()
    if format_name in FORMATS:
        return cast("DefinitionWriter", get_protocol(format_name))
    hint = suggest_near(format_name, FORMATS)
    raise ConfigurationError(
        f"unknown definition format {format_name!r}; known are {', '.join(FORMATS)}{hint}"
    )
