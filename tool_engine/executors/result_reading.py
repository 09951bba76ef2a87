"""How does a model read the rest of a result that was cut?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.interfaces import FindCall
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.json.result_path import ResultPath, read_path, write_path
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.result import CUT_KEY
from tool_engine.model.tool import Tool

FindTool = Callable[[str], Tool | None]
FindBelow = Callable[[str], Awaitable[frozenset[str]]]
_PAGE: Final = 8_000
"""The most characters of JSON text in one page, without the keys around it."""
_NAMES: Final = ("caller_id", "caller_type", "conversation_id", "workflow_id")
_TRUNCATED: Final = "_truncated"


class ResultReadExecutor:
    """The executor of `read_result`: `{"call_id": "call-…", "path": "items", "offset": 20}`.

    A caller reads the results of its own calls: caller, its type, conversation and workflow must
    be the same. A call without any of these reads nothing, because ownership cannot be shown.
    Secrets are hidden, as in records.

    Args:
        find_call: Finds the record of a call; None: there is none, and every call fails.
        find_tool: Finds the tool of a call, which may require consent to show its results.
        find_below: Finds the tools that a call has called, whose results it may contain.
    """

    def __init__(
        self,
        find_call: FindCall | None = None,
        find_tool: FindTool | None = None,
        find_below: FindBelow | None = None,
    ) -> None:
        self._find_call = find_call
        self._find_tool = find_tool
        self._find_below = find_below

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        if self._find_call is None:
            raise ToolExecutionError("there are no records to read here; run it by a ToolEngine")
        if all(getattr(context, name) is None for name in _NAMES if name != "caller_type"):
            raise ToolExecutionError(
                "read_result cannot know whose results these are: the call names no caller, "
                "conversation or workflow; pass a ToolExecutionContext with a caller_id or a "
                "conversation_id to each call"
            )
        call_id = str(params.get("call_id", ""))
        record = await self._find_call(call_id)
        if record is None or any(
            getattr(record, name) != getattr(context, name) for name in _NAMES
        ):
            raise ToolExecutionError(_not_yours(call_id))
        await self._check_shown(record, context)
        # The thread is the last holder of the record: freeing a million objects takes long.
        handed_over = [record]
        del record
        return await asyncio.to_thread(_make_page, handed_over, params)

    async def _check_shown(self, record: ToolCallRecord, context: ToolExecutionContext) -> None:
        """Raise `ToolExecutionError` if a result was, or may be, withheld from the model."""
        judge = getattr(context.scope, "refusal_of_result", None)
        if judge is not None:
            refusal = judge(record)
            if refusal is not None:
                raise ToolExecutionError(refusal.error, is_final=True)
            return
        if record.session_id != context.session_id:
            raise ToolExecutionError(_not_yours(record.call_id or ""))
        below: frozenset[str] = frozenset()
        if self._find_below is not None and record.call_id is not None:
            below = await self._find_below(record.call_id)
        if any(map(self._withholds_result, {record.tool_name, *below})):
            raise ToolExecutionError(
                f"a person must be asked before the result of the call {record.call_id} is read, "
                f"and there is no approver to ask here: call {record.tool_name!r} again",
                is_final=True,
            )

    def _withholds_result(self, tool_name: str) -> bool:
        if self._find_tool is None:
            return False
        tool = self._find_tool(tool_name)
        said = None if tool is None else tool.permission
        return tool is None or (said is not None and said.result is ResultPolicy.ALWAYS)


def _not_yours(call_id: str) -> str:
    # The same words for both, so that an error does not reveal whether another caller's call
    # exists.
    return (
        f"no result of yours is kept for call_id {call_id[:80]!r}; use the call_id that "
        "a shortened result names, or call the tool again"
    )


def _make_page(handed_over: list[ToolCallRecord], params: dict[str, Any]) -> dict[str, Any]:
    record = handed_over.pop()
    if not record.is_success:
        raise ToolExecutionError(
            f"the call {record.call_id} has no result to read: it failed with {record.error_type}"
        )
    try:
        path = read_path(params.get("path") or "")
    except ValueError as error:
        raise ToolExecutionError(str(error)) from error
    output = record.result
    if isinstance(output.get("content"), list):
        # Beside content it is the caller's, and no model has read it before.
        output = {key: each for key, each in output.items() if key != "_meta"}
    value = _value_at(output, path)
    offset, limit = int(params.get("offset") or 0), params.get("limit")
    most = None if limit is None else int(limit)
    if isinstance(value, str):
        page = _page_of_text(value, offset, most)
    elif isinstance(value, dict | list):
        page = _page_of_entries(value, path, offset, most)
    else:
        page = {"kind": "value", "value": value}
    if _TRUNCATED in output:
        page["is_whole"] = False
    return {"call_id": record.call_id, "path": write_path(path), **page}


def _value_at(output: Any, path: ResultPath) -> Any:
    value = output
    for number, step in enumerate(path):
        place = write_path(path[:number]) or "the result"
        if isinstance(step, int) and isinstance(value, list):
            if step >= len(value):
                raise ToolExecutionError(
                    f"{place} has no entry {step}: it has {len(value):,}, counted from 0"
                )
            value = value[step]
        elif isinstance(step, str) and isinstance(value, dict):
            if step not in value:
                raise ToolExecutionError(
                    f"{place} has no key {step[:80]!r}{_suggest_key(step, value)}"
                )
            value = value[step]
        else:
            kind = "position" if isinstance(step, int) else "key"
            raise ToolExecutionError(
                f"{place} is {_name_kind(value)} and has no {kind} {str(step)[:80]!r}"
            )
    return value


def _name_kind(value: Any) -> str:
    if isinstance(value, str):
        return "a text"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else "a value"


def _suggest_key(step: str, mapping: dict[str, Any]) -> str:
    known = [key[:80] for _, key in zip(range(1_000), mapping, strict=False)]
    if hint := suggest_near(step, known):
        return hint
    return f"; its keys are {', '.join(known[:20])}" if known else "; it is empty"


def _page_of_text(text: str, offset: int, limit: int | None) -> dict[str, Any]:
    _check_offset(offset, len(text), "characters")
    piece = text[offset : offset + min(limit or _PAGE, _PAGE)]
    while (excess := len(json.dumps(piece, ensure_ascii=False)) - _PAGE) > 0:
        # An escape takes at most six characters, so that this ends soon.
        piece = piece[: len(piece) - max(1, excess // 6)]
    end = offset + len(piece)
    return {
        "kind": "text",
        "text": piece,
        "offset": offset,
        "of": len(text),
        "next_offset": end if end < len(text) else None,
    }


def _page_of_entries(
    value: dict[str, Any] | list[Any], path: ResultPath, offset: int, limit: int | None
) -> dict[str, Any]:
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    kind = "mapping" if isinstance(value, dict) else "list"
    _check_offset(offset, len(keys), "keys" if kind == "mapping" else "entries")
    left = _PAGE
    shown: dict[Any, Any] = {}
    for key in keys[offset : None if limit is None else offset + limit]:
        item = value[key]
        if (size := _size_of(item)) > _PAGE:
            item = _make_pointer(item, (*path, key))
            size = _size_of(item)
        name = key if _size_of(key) < _PAGE else f"{key[:80]}… [{len(key):,} characters]"
        size += 2 if kind == "list" else _size_of(name) + 4
        if size > left and shown:
            break
        shown[name] = item
        left -= size
    end = offset + len(shown)
    return {
        "kind": kind,
        "entries": shown if kind == "mapping" else list(shown.values()),
        "offset": offset,
        "of": len(keys),
        "next_offset": end if end < len(keys) else None,
    }


def _make_pointer(item: Any, path: ResultPath) -> dict[str, str]:
    place = json.dumps(write_path(path), ensure_ascii=False)
    size = f"{len(item):,} {'characters' if isinstance(item, str) else 'entries'}"
    return {CUT_KEY: f"{_name_kind(item)} of {size}; read it with path={place}"}


def _check_offset(offset: int, count: int, unit: str) -> None:
    if offset > count:
        raise ToolExecutionError(f"offset {offset} is beyond the end: there are {count:,} {unit}")


def _size_of(value: Any) -> int:
    """Return the length of its JSON text; inexact above one page."""
    size = 0
    for piece in _pieces(value):
        size += len(piece)
        if size > _PAGE + 2:
            break
    return size


_pieces: Final = json.JSONEncoder(ensure_ascii=False).iterencode
