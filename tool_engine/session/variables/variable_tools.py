"""How does a model read and write variables?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from msgspec.structs import replace

from tool_engine.errors import ToolExecutionError, VariableError
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.session.variables.accepts import list_shown_labels
from tool_engine.session.variables.labels import OWN_WORDS, UNKNOWN, ReadLabels
from tool_engine.session.variables.store import Variable, VariableKind, VariableStore
from tool_engine.session.variables.variable_definitions import (
    FILTERS,
    VARIABLE_TOOLS,
    define_tool,
)

_SHOWN: Final = 200
"""Characters of a description in a list."""
_OF_CALL: Final = re.compile(r".*_[0-9]+_(?:result|args)(?:-[0-9]+)?")


@runtime_checkable
class CarriesLabels(Protocol):
    """The `scope` of a call that carries the labels of its content."""

    labels: set[str]
    """The labels of content in its arguments, or that was read meanwhile."""


class VariableTools:
    """The tools of one conversation that read and write its variables. U40.

    Args:
        store: Its variables.
        read: Where all that its model has read came from; None: it has read nothing.
    """

    def __init__(self, store: VariableStore, read: ReadLabels | None = None) -> None:
        self._executor = _VariableExecutor(store, ReadLabels() if read is None else read)

    def tools(self) -> list[Tool]:
        return [define_tool(name) for name in VARIABLE_TOOLS]

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return the tool of this name and its executor, or None."""
        if tool_name not in VARIABLE_TOOLS:
            return None
        return define_tool(tool_name), self._executor


class _VariableExecutor:
    """Run the tools; a mistake fails the call with a remedy."""

    def __init__(self, store: VariableStore, read: ReadLabels) -> None:
        self._store = store
        self._read_labels = read
        self._runs: Mapping[str, Callable[[dict[str, Any], ToolExecutionContext], Any]] = {
            "read_var": self._read_var,
            "list_vars": self._list_vars,
            "remove_vars": self._remove_vars,
        }

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the tool's output; on the loop, as the store is."""
        try:
            if tool.name == "read_var":
                await self._store.texts.make(self._store.get(params["name"]))
            if tool.name == "write_var":
                return self._write_var(params, _find_labels(context))
            output: dict[str, Any] = self._runs[tool.name](params, context)
        except VariableError as error:
            raise ToolExecutionError(str(error), is_final=True) from error
        return output

    def _read_var(self, params: dict[str, Any], context: ToolExecutionContext) -> dict[str, Any]:
        variable = self._store.get(params["name"])
        text, start = self._store.texts.of(variable), params.get("start", 0)
        if isinstance(context.scope, CarriesLabels):
            # Also where it fails: the message says how long the text is.
            context.scope.labels.update(variable.labels)
        if start > len(text):
            raise VariableError(
                f"start {start} is beyond the end: {variable.name!r} has {len(text)} characters, "
                "counted from 0"
            )
        end = start + params.get("length", 2000)
        return {
            "name": variable.name,
            "type": variable.kind.value,
            "text": text[start:end],
            "start": start,
            "of": len(text),
            "next_start": end if end < len(text) else None,
            "labels": sorted(variable.labels),
        }

    def _list_vars(self, params: dict[str, Any], context: ToolExecutionContext) -> dict[str, Any]:
        wanted = _read_filter(params)
        kind = wanted.get("type")
        found = self._store.find(
            kind=None if kind is None else VariableKind(kind),
            search=wanted.get("search") or "",
            tag=wanted.get("tag"),
        )
        size, page = params.get("pageSize", 25), params.get("page", 1)
        pages = max(1, -(-len(found) // size))
        if page > pages:
            raise VariableError(f"there is no page {page}: the last one is {pages}")
        return {
            "variables": [
                self._describe_variable(each) for each in found[(page - 1) * size : page * size]
            ],
            "page": page,
            "pages": pages,
            "total": len(found),
        }

    def _write_var(self, params: dict[str, Any], labels: frozenset[str]) -> dict[str, Any]:
        name = params["name"]
        old = self._store.get(name) if name in self._store else None
        if old is not None and old.kind is not VariableKind.LLM_ADD:
            raise VariableError(
                f"{name!r} is a {old.kind.value}, and write_var changes only what it wrote itself: "
                "choose another name"
            )
        if _OF_CALL.fullmatch(name):
            raise VariableError(
                f"{name!r} is a name for the results of calls: choose one that does not end in "
                "_result or _args after a number"
            )
        if old is None:
            if "value" not in params:
                raise VariableError(f"there is no variable {name!r} yet: pass its value")
            old = Variable(name=name, value=None, kind=VariableKind.LLM_ADD)
        written: dict[str, Any] = {key: params[key] for key in ("value", "desc") if key in params}
        if "tags" in params:
            written["tags"] = tuple(dict.fromkeys(params["tags"]))
        if "value" in params:
            written["labels"] = labels
        new = replace(old, **written, updated=Variable(name=name, value=None).updated)
        return self._describe_variable(self._store.add(new))

    def _describe_variable(self, variable: Variable) -> dict[str, Any]:
        desc, read = variable.desc, self._read_labels.labels
        # How long yes, no or a number is says which it is; what a tool made of unread content says
        # by its length whatever the tool was asked about it.
        is_sized = isinstance(variable.value, str | list | dict)
        is_made = len(variable.labels - OWN_WORDS) > 1
        is_shown = (is_sized and not is_made) or variable.labels - OWN_WORDS <= read
        return {
            "name": variable.name,
            "type": variable.kind.value,
            "desc": desc if len(desc) <= _SHOWN else f"{desc[: _SHOWN - 1]}…",
            "tags": list(variable.tags),
            "chars": variable.chars if is_shown else None,
            "labels": list_shown_labels(variable.labels, read),
        }

    def _remove_vars(self, params: dict[str, Any], context: ToolExecutionContext) -> dict[str, Any]:
        removed = self._store.remove(params["names"])
        missing = [name for name in dict.fromkeys(params["names"]) if name not in removed]
        return {"removed": removed, "missing": missing}


def _find_labels(context: ToolExecutionContext) -> frozenset[str]:
    """Return the labels of a value that is written in a call."""
    scope = context.scope
    labels = {"model"} | (scope.labels if isinstance(scope, CarriesLabels) else {UNKNOWN})
    if context.is_for_tool:
        # A tool wrote it, with content that it read elsewhere.
        labels.add(UNKNOWN)
    return frozenset(labels)


def _read_filter(params: Mapping[str, Any]) -> dict[str, Any]:
    alone = {key: params[key] for key in FILTERS if params.get(key) is not None}
    wanted = {key: item for key, item in (params.get("filter") or {}).items() if item is not None}
    for key in alone.keys() & wanted.keys():
        if alone[key] != wanted[key]:
            raise VariableError(f"{key} and filter.{key} say something else: leave one of them out")
    return alone | wanted
