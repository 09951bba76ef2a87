"""How does a model read and write variables, and which variables does a call leave?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from tool_engine.errors import ToolExecutionError, VariableError
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.output.shaping import is_quick
from tool_engine.redaction import HIDDEN, NO_SECRETS, secrets_of
from tool_engine.redaction.secret_names import is_secret_key
from tool_engine.session.formatting import data_of
from tool_engine.session.variables.labels import list_shown_labels
from tool_engine.session.variables.read_labels import OWN_WORDS, ReadLabels
from tool_engine.session.variables.store import (
    Variable,
    VariableKind,
    VariableStore,
    copy_value,
)
from tool_engine.session.variables.variable_definitions import (
    FILTERS,
    VARIABLE_TOOLS,
    define_tool,
)

_SHOWN: Final = 200
"""Characters of a description in a list."""
_UNKNOWN: Final = "unknown"
_FROM_NOWHERE: Final = frozenset({_UNKNOWN})
_OF_MODEL: Final = frozenset({"model"})
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_INSTANT: Final = timedelta(microseconds=1)
_OTHER: Final = re.compile(r"[^A-Za-z0-9_./-]")
_DEEPEST: Final = 64
"""The most levels of arguments, the same as in validation."""
_LONGEST: Final = 160
"""The most characters of a tool's name in a variable's name, which has at most 200."""
_OF_CALL: Final = re.compile(r".*_[0-9]+_(?:result|args)(?:-[0-9]+)?")


@runtime_checkable
class CarriesLabels(Protocol):
    """The `scope` of a call that carries the labels of its content."""

    labels: set[str]
    """The labels of content in its arguments, or that was read meanwhile."""


class NamesOfCall(msgspec.Struct, frozen=True):
    """The names of a call's variables."""

    result: str
    args: str


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
        # How long yes, no or a number is says which it is.
        is_shown = isinstance(variable.value, str | list | dict) or variable.labels <= read
        is_shown = is_shown or variable.labels <= OWN_WORDS
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
    labels = {"model"} | (scope.labels if isinstance(scope, CarriesLabels) else {_UNKNOWN})
    if context.is_for_tool:
        # A tool wrote it, with content that it read elsewhere.
        labels.add(_UNKNOWN)
    return frozenset(labels)


def _read_filter(params: Mapping[str, Any]) -> dict[str, Any]:
    alone = {key: params[key] for key in FILTERS if params.get(key) is not None}
    wanted = {key: item for key, item in (params.get("filter") or {}).items() if item is not None}
    for key in alone.keys() & wanted.keys():
        if alone[key] != wanted[key]:
            raise VariableError(f"{key} and filter.{key} say something else: leave one of them out")
    return alone | wanted


def name_variables(tool_name: str, number: int, store: VariableStore | None = None) -> NamesOfCall:
    """Return the names of a call's variables: `{tool}_{number}_result` and `..._args`. S29.

    Args:
        tool_name: The tool; invalid characters become `_`.
        number: The number of the call in its conversation.
        store: Where they will be kept; names that are taken there get `-2`, `-3` and so on.
    """
    begin = f"{_make_name(tool_name)}_{number}"
    result, args = f"{begin}_result", f"{begin}_args"
    count = 1
    while store is not None and store.has_either(result, args):
        count += 1
        result, args = f"{begin}_result-{count}", f"{begin}_args-{count}"
    return NamesOfCall(result, args)


@lru_cache(maxsize=1024)
def _make_name(tool_name: str) -> str:
    return _OTHER.sub("_", tool_name)[:_LONGEST]


def keep_call(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    result: ToolExecutionResult,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
) -> None:
    """Keep a call's arguments and any output as variables. S29.

    Secrets are hidden in the arguments. An output of `{"result": value}` is kept as the value.

    Args:
        store: The variables of the conversation.
        tool: The tool, which says what is secret.
        names: What `name_variables` says with this store.
        params: The arguments, without references.
        result: How the call ended.
        labels: Where the result came from: see `find_result_labels`.
        used: Where the content came from that was put into the arguments; None: as the result.

    Raises:
        VariableError: A name belongs to a rule.
    """
    output = result.output if result.is_success else None
    for variable in make_variables(tool, names, params, output, labels, used):
        store.take(variable)


async def keep_call_in_time(
    store: VariableStore,
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    result: ToolExecutionResult,
    *labels: frozenset[str],
    is_short: bool | None = None,
) -> None:
    """Do the same as `keep_call`; copy large values in a thread.

    `is_short` is what `is_quick` says of the output; None: it is asked.
    """
    if (is_quick(result.output) if is_short is None else is_short) and is_quick(params):
        keep_call(store, tool, names, params, result, *labels)
        return
    output = result.output if result.is_success else None
    make = partial(make_variables, tool, names, params, output, *labels, in_pieces=True)
    for variable in await asyncio.to_thread(make):
        store.take(variable)


def make_variables(
    tool: Tool,
    names: NamesOfCall,
    params: dict[str, Any],
    returned: dict[str, Any] | None,
    labels: frozenset[str],
    used: frozenset[str] | None = None,
    *,
    in_pieces: bool = False,
    now: datetime | None = None,
) -> list[Variable]:
    """Return a call's variables, the arguments first, as they existed first.

    `returned` is its output; None: it failed.
    """
    now = datetime.now(UTC) if now is None else now
    secrets = secrets_of(tool, params)
    sent = _without_secrets(params, secrets.parts, secrets.names)
    if secrets is not NO_SECRETS:
        sent = secrets.hide(sent)
    value, chars = copy_value(sent, in_pieces=in_pieces)
    args = Variable(
        name=names.args,
        value=value,
        kind=VariableKind.TOOL_CALL_ARGS,
        desc=f"Arguments of a call of {tool.name}",
        labels=_OF_MODEL | (labels if used is None else used),
        created=now,
        updated=now,
        chars=chars,
    )
    if returned is None:
        return [args]
    # Whatever the clock says, the arguments are older than the result.
    later = now + _INSTANT
    value, chars = copy_value(data_of(returned), in_pieces=in_pieces)
    output = Variable(
        name=names.result,
        value=value,
        kind=VariableKind.TOOL_CALL_RESULT,
        desc=f"Result of a call of {tool.name}",
        labels=labels or _FROM_NOWHERE,
        created=later,
        updated=later,
        chars=chars,
    )
    return [args, output]


def _without_secrets(
    value: Any, parts: frozenset[str], names: frozenset[str] = frozenset(), depth: int = 0
) -> Any:
    """Return arguments without values of secret names; texts stay."""
    if depth > _DEEPEST:
        return value
    if _has_no_secrets(value, parts, names) or (depth == 1 and _has_no_mapping(value)):
        return value
    if isinstance(value, list):
        return [_without_secrets(item, parts, depth=depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: HIDDEN
        if key in parts or key in names or (isinstance(item, str) and is_secret_key(str(key)))
        else _without_secrets(item, parts, depth=depth + 1)
        for key, item in value.items()
    }


def _has_no_secrets(value: Any, parts: frozenset[str], names: frozenset[str]) -> bool:
    """Return True if flat arguments plainly hold no secrets."""
    if type(value) is not dict or parts or names:
        return False
    for key, item in value.items():
        if type(item) is str:
            if is_secret_key(str(key)):
                return False
        elif type(item) not in _NUMBERS:
            return False
    return True


def _has_no_mapping(value: Any) -> bool:
    """Return True if an argument plainly holds no names: thousands of lists are soon written."""
    try:
        return type(value) is list and b"{" not in msgspec.json.encode(value)
    except Exception:  # noqa: BLE001 - what JSON cannot hold is looked at value by value
        return False
