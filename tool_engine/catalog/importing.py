"""How does a list of tools, as providers and MCP have it, become tools of an engine?

Their schemas stay as they are, so that the same list comes back. What would not be enforced is
left out of them, which is a finding of the tool.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import isawaitable, isroutine
from typing import Any, Final, cast

from msgspec.structs import replace

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError, DefinitionError
from tool_engine.interfaces import CatalogSource, ListedTool, ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.unawaited import is_async
from tool_engine.model.json.plain import copy_json
from tool_engine.model.json.references import Steps, copy_schemas, split_pointer, write_pointer
from tool_engine.model.json.returned_value import safe_repr
from tool_engine.model.tool import HINTS, Tool

_Moves = dict[tuple[str, ...], tuple[str, ...]]
"""Where schemas stood -> where they stand."""
Call = Callable[[str, dict[str, Any]], Any]
"""Runs a tool: takes its name and its arguments, returns its output or what to await."""
_SCHEMAS: Final = (
    *("parameters", "input_schema", "inputSchema"),
    *("parametersJsonSchema", "parameters_json_schema"),
)
"""Where the formats have the schema of a tool's arguments."""
_LISTS: Final = ("functionDeclarations", "function_declarations")
_SILENT: Final = frozenset({"$schema", "title", "description", "additionalProperties"})
"""Keywords that do not say whether a schema is one of an object."""
_FORMS: Final = (
    "of OpenAI ({'type': 'function', ...}), Anthropic (with input_schema), Gemini (with "
    "functionDeclarations) or MCP (with inputSchema)"
)


def write_today(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in the words of draft 2020-12; what it does not say in others stays."""
    today = _write_words(schema)
    if today != schema:
        # It is of no older draft any more, by which readers would pass over the words of today.
        today.pop("$schema", None)
    return today


def _write_words(schema: dict[str, Any]) -> dict[str, Any]:
    nodes = copy_schemas(schema)
    moves: _Moves = {}
    for steps, node in nodes:
        _write_types(node)
        _write_bounds(node)
        _move_schemas(node, steps, moves)
    if not moves:
        return nodes[0][1]
    nodes = copy_schemas(nodes[0][1])
    for _, node in nodes:
        _follow_moves(node, moves)
    # Inside of what was moved nothing has been looked at yet.
    return _write_words(nodes[0][1])


def _write_types(node: dict[str, Any]) -> None:
    kinds = node.get("type")
    if isinstance(kinds, str) and kinds.isupper():
        node["type"] = kinds.lower()
    if node.pop("nullable", None) is True and isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
        if isinstance(node.get("enum"), list) and None not in node["enum"]:
            node["enum"] = [*node["enum"], None]


def _write_bounds(node: dict[str, Any]) -> None:
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        is_exclusive = node.get(exclusive)
        if isinstance(is_exclusive, bool):
            del node[exclusive]
            if is_exclusive and bound in node:
                node[exclusive] = node.pop(bound)


def _move_schemas(node: dict[str, Any], steps: Steps, moves: _Moves) -> None:
    """Give the schemas of tuples and of dependencies the keywords that they have today."""
    place = tuple(map(str, steps))

    def move(old: str, new: str) -> None:
        node[new] = node.pop(old)
        moves[(*place, old)] = (*place, new)

    if isinstance(node.get("items"), list):
        move("items", "prefixItems")
        if "additionalItems" in node:
            move("additionalItems", "items")
    needed = node.get("dependencies")
    if isinstance(needed, dict) and not {"dependentRequired", "dependentSchemas"} & node.keys():
        names = {key: each for key, each in needed.items() if isinstance(each, list)}
        node["dependencies"] = {key: each for key, each in needed.items() if key not in names}
        if names:
            node["dependentRequired"] = names
        if node["dependencies"]:
            move("dependencies", "dependentSchemas")
        else:
            del node["dependencies"]


def _follow_moves(node: dict[str, Any], moves: _Moves) -> None:
    pointer = node.get("$ref")
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        return
    steps = tuple(split_pointer(pointer))
    for length in range(len(steps), 0, -1):
        moved = moves.get(steps[:length])
        if moved is not None:
            node["$ref"] = write_pointer((*moved, *steps[length:]))
            return


class ImportedTools(CatalogSource):
    """The tools of a list in another format, for `ToolEngine.add_source`.

    Args:
        tools: Tools as OpenAI (Chat Completions or Responses), Anthropic, Gemini or MCP have them:
            mappings, or objects of their SDKs.
        call: Runs them: a plain or async function of a name and arguments, or an executor.
        origin: The `Tool.origin` of the tools.

    Raises:
        ConfigurationError: One of them has none of these formats, or two schemas that differ, or
            `call` cannot be called.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        call: Call | ToolExecutor | None,
        *,
        origin: str = "import:tools",
    ) -> None:
        self.origin = origin
        self._listed = [ListedTool(each) for item in tools for each in _functions_in(item)]
        is_executor = hasattr(call, "execute")
        if not self._listed and call is None:
            return
        if not (is_executor or callable(call)):
            raise ConfigurationError(
                "call, which runs the tools, must be a function of a name and arguments, or an "
                f"executor, got {safe_repr(call)[:80]}"
            )
        self.executor = (
            cast("ToolExecutor", call) if is_executor else _executor_for(cast("Call", call))
        )

    async def read_tools(self) -> Iterable[ListedTool]:
        """Return the tools."""
        return self._listed


class _AsyncCalls:
    def __init__(self, call: Call) -> None:
        self.handler = call

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        return await self.handler(tool.name, params)


class _PlainCalls:
    def __init__(self, call: Call) -> None:
        self.handler = call

    def execute(self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext) -> Any:
        return self.handler(tool.name, params)


def _executor_for(call: Call) -> ToolExecutor:
    # A plain `execute` runs in a thread: the Protocol shows the async form.
    return _AsyncCalls(call) if is_async(call) else cast("ToolExecutor", _PlainCalls(call))


def _functions_in(item: Any) -> Iterator[dict[str, Any]]:
    """Yield the functions that one entry of a list describes."""
    entry = _read_entry(item)
    inner = next((entry[key] for key in _LISTS if isinstance(entry.get(key), list)), None)
    if inner is not None:
        for each in inner:
            yield from _functions_in(each)
        return
    if isinstance(entry.get("function"), Mapping):
        entry = dict(entry["function"])
    is_function = isinstance(entry.get("name"), str) and entry.get("type", "function") in (
        "function",
        "custom",
    )
    if not is_function:
        raise ConfigurationError(f"{safe_repr(item)[:200]} is no tool {_FORMS}")
    _check_schemas(entry)
    # What its owner changes in it later is no change of the tool.
    yield _copy_entry(entry)


def _copy_entry(entry: dict[str, Any]) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", copy_json(entry))
    except RecursionError:
        # What holds itself can be copied as well, and is explained when it is read.
        return copy.deepcopy(entry)


def _check_schemas(entry: Mapping[str, Any]) -> None:
    """Refuse a tool of which nothing says what its arguments are."""
    first, *others = [key for key in _SCHEMAS if entry.get(key) is not None] or [""]
    for key in others:
        if entry[key] != entry[first]:
            raise ConfigurationError(
                f"the tool {entry['name']!r} has two schemas of its arguments, {first} and {key}, "
                "and they differ; leave one out"
            )


def _read_entry(item: Any) -> dict[str, Any]:
    if isroutine(item):
        name = item.__name__
        raise ConfigurationError(
            f"{name!r} is a plain function: make a tool of it with @engine.tool, or "
            f"engine.tool(effect=...)({name}), and leave it out of the list"
        )
    dump = getattr(item, "model_dump", None)
    value = dump(by_alias=True, exclude_none=True, mode="json") if callable(dump) else item
    if isawaitable(value) or not isinstance(value, Mapping):
        raise ConfigurationError(f"{safe_repr(item)[:200]} is no tool {_FORMS}")
    return dict(value)


def read_listed(listed: ListedTool) -> Tool:
    """Return the tool that a list describes.

    Raises:
        DefinitionError: It cannot be read.
    """
    if listed.fault:
        raise ConfigurationError(listed.fault)
    notes = list(listed.notes)
    definition = _write_definition(listed.entry, notes) | dict(listed.definition)
    tool = _read_definition(definition, notes, listed.place)
    return replace(tool, findings=[*tool.findings, *notes]) if notes else tool


def _read_definition(definition: dict[str, Any], notes: list[str], place: str) -> Tool:
    """Read a definition; what it says of the output is left out rather than the tool."""
    try:
        return ToolConfigLoader().from_mapping(definition, place)
    except DefinitionError as error:
        if not all((each.path or "").startswith("output") for each in error.problems):
            raise
        del definition["output"], definition["output_mode"]
        notes.append(f"the declared output is not held, and was left out: {error.problems[0]}")
        return ToolConfigLoader().from_mapping(definition, place)


def _write_definition(entry: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    given = next((entry[key] for key in _SCHEMAS if entry.get(key) is not None), None)
    schema: Any = {} if given is None else given
    if isinstance(schema, dict) and schema.keys() <= _SILENT:
        schema = {"type": "object", "properties": {}, **schema}
    definition: dict[str, Any] = {
        "name": entry["name"],
        "description": entry.get("description") or entry.get("title") or entry["name"],
        "parameters": keep_held(schema, notes) if isinstance(schema, dict) else schema,
    }
    if isinstance(entry.get("title"), str) and entry["title"].strip():
        definition["title"] = entry["title"]
    hints = entry.get("annotations")
    if isinstance(hints, Mapping):
        definition["annotations"] = _keep_hints(hints, notes)
        if isinstance(hints.get("readOnlyHint"), bool):
            definition["effect"] = "read" if hints["readOnlyHint"] else "write"
        if hints.get("idempotentHint") is True:
            definition["idempotent"] = True
    output = entry.get("outputSchema")
    if isinstance(output, dict):
        # What a server declares of itself: a misfit warns, and the result is not lost.
        definition["output"] = _write_output(keep_held(output, notes))
        definition["output_mode"] = "warn"
    return definition


def _keep_hints(hints: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the annotations without those that are of another kind than MCP says."""
    kept = dict(hints)
    kinds = {**dict.fromkeys(HINTS, bool), "title": str}
    for hint, kind in kinds.items():
        if hint in kept and not isinstance(kept[hint], kind):
            value = safe_repr(kept.pop(hint))[:80]
            notes.append(f"annotations: {hint} {value} is not what MCP says, and was left out")
    return kept


def _write_output(schema: dict[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {
        key: schema.pop(key) for key in ("description", "default") if key in schema
    }
    schema.pop("$schema", None)
    return {**own, "schema": schema}


def keep_held(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return a schema without what would not be enforced, and note what that is.

    Args:
        schema: JSON Schema of any draft, or the part of OpenAPI that Gemini takes.
        notes: Takes a sentence for each change.
    """
    # By name: what explains a definition takes long to import.
    plain = import_module("tool_engine.catalog.definition.plain_data").plain_definition
    parts = import_module("tool_engine.catalog.definition.known_parts")
    faults: list[Any] = []
    as_given: dict[str, Any] = plain(schema, faults)
    if not faults and parts.is_known_right(as_given):
        return as_given
    held = import_module("tool_engine.catalog.definition.keywords")
    nodes = copy_schemas(write_today(schema))
    for steps, node in nodes:
        for keyword in [key for key, value in node.items() if _is_too_large(value)]:
            _drop_keyword(node, keyword, steps, notes)
        if isinstance(node.get("required"), bool):
            _drop_keyword(node, "required", steps, notes)
        for keyword in [key for key in node if key not in held.KEYWORDS]:
            if keyword != "$schema" or steps:
                _drop_keyword(node, keyword, steps, notes)
        if "format" in node and node["format"] not in tuple(held.FORMATS):
            _drop_keyword(node, "format", steps, notes)
        if "pattern" in node and not _can_match(node["pattern"]):
            _drop_keyword(node, "pattern", steps, notes)
        if not isinstance(node.get("patternProperties", {}), dict) or not all(
            map(_can_match, node.get("patternProperties", {}))
        ):
            _drop_keyword(node, "patternProperties", steps, notes)
    _drop_defaults(nodes, notes)
    return nodes[0][1]


def _drop_defaults(nodes: list[tuple[Steps, dict[str, Any]]], notes: list[str]) -> None:
    """Leave out the defaults that break the rules beside them, such as null for a text."""
    whole = {key: each for key, each in nodes[0][1].items() if key != "$schema"}
    checker = import_module("tool_engine.catalog.definition.raw_schema")
    unfit = set(checker.unfit_defaults(whole))
    for steps, node in nodes:
        if steps in unfit:
            value, place = safe_repr(node.pop("default"))[:80], write_pointer((*steps, "default"))
            notes.append(f"{place}: the default {value} does not fit, and was left out")


def _is_too_large(value: Any) -> bool:
    return type(value) is int and not -(2**63) <= value < 2**63


def _drop_keyword(node: dict[str, Any], keyword: str, steps: Steps, notes: list[str]) -> None:
    value, place = safe_repr(node.pop(keyword))[:80], write_pointer((*steps, keyword))
    what = str(keyword).encode(errors="backslashreplace").decode()
    notes.append(f"{place}: {what} {value} is not enforced here, and was left out")


def _can_match(pattern: Any) -> bool:
    workload = import_module("tool_engine.catalog.definition.workload").Workload()
    return isinstance(pattern, str) and workload.pattern_fault(pattern, ()) is None
