"""What is the story of one call and its tree?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tool_engine.cli.console import as_text, json_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.records.quantities import seconds_text
from tool_engine.cli.records.record_line import fit_encoding, record_text
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import OUTCOME_STYLES, fact_table
from tool_engine.knowledge.export import exported_row
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.record import RecordQuery, ToolCallRecord

_MOST_CALLS: Final = 200
"""Calls of a tree."""
_LONGEST: Final = 2_000
"""Characters of arguments or of a result, unless all of it is wanted."""
_MOST_NAMED: Final = 5


class _Node(msgspec.Struct):
    """A call and the calls it made, in order of their ends."""

    record: ToolCallRecord
    children: list[_Node] = []


def print_story(settings: Settings, call_id: str, *, full: bool, as_json: bool) -> int:
    """Print all that is recorded of one call.

    `call_id` is its id, or the beginning of it if no other id begins so. `full` prints arguments
    and result whole, as far as they were kept.
    """
    return run_async(_print_story(settings, call_id, full=full, as_json=as_json))


async def _print_story(settings: Settings, call_id: str, *, full: bool, as_json: bool) -> int:
    async with open_records(settings) as store:
        record = await _find_record(store, call_id)
        if full and record.call_id is not None:
            record = await store.get_whole(record.call_id) or record
        root, is_whole = await _build_tree(store, record)
    if as_json:
        story = {**exported_row(record), "tree": _tree_facts(root), "is_tree_whole": is_whole}
        print_json(story)
        return EXIT_OK
    _print_record(record, full=full)
    if root.children:
        console = make_console()
        console.print(as_text("calls", "bold"))
        for prefix, node in _tree_lines(root):
            console.print(
                as_text(
                    fit_encoding(f"  {prefix}{_node_text(node)}", console),
                    _node_style(node, record),
                ),
                soft_wrap=True,
            )
        if not is_whole:
            console.print(as_text(f"  ... only {_MOST_CALLS} calls are shown"), soft_wrap=True)
    return EXIT_OK


async def _find_record(store: ToolKnowledgeStore, call_id: str) -> ToolCallRecord:
    """Return the call with this id or unique beginning of it."""
    found = await store.storage.query(RecordQuery(call_id=call_id, limit=1))
    if not found:
        found = await _beginning_with(store, call_id)
    ids = sorted({record.call_id or "" for record in found})
    if len(ids) == 1:
        return found[0]
    if not ids:
        raise CommandError(
            f"no call {call_id!r} is recorded; `tool-engine history` lists the newest",
            error_type="call_not_found",
        )
    more = " ..." if len(ids) > _MOST_NAMED else ""
    raise CommandError(
        f"{call_id!r} is the beginning of several ids: {', '.join(ids[:_MOST_NAMED])}{more}",
        error_type="call_not_found",
    )


async def _beginning_with(store: ToolKnowledgeStore, prefix: str) -> list[ToolCallRecord]:
    if not prefix:
        return []
    query = RecordQuery(call_id_prefix=prefix, limit=_MOST_NAMED + 1)
    return list(await store.storage.query(query))


async def _build_tree(store: ToolKnowledgeStore, record: ToolCallRecord) -> tuple[_Node, bool]:
    """Return the outermost parent's tree; True if it is complete."""
    root, seen = record, {record.call_id}
    while root.parent_call_id is not None and root.parent_call_id not in seen:
        seen.add(root.parent_call_id)
        found = await store.storage.query(RecordQuery(call_id=root.parent_call_id, limit=1))
        if not found:
            break
        root = found[0]
    tree = _Node(root)
    left, seen = [tree], {root.call_id}
    while left:
        node = left.pop(0)
        if node.record.call_id is None:
            continue
        room = _MOST_CALLS - len(seen)
        query = RecordQuery(parent_call_id=node.record.call_id, limit=room + 1)
        children = await store.storage.query(replace(query, oldest_first=True))
        node.children = [_Node(each) for each in children[:room] if each.call_id not in seen]
        seen.update(each.record.call_id for each in node.children)
        if len(children) > room:
            return tree, False
        left += node.children
    return tree, True


def _tree_lines(node: _Node, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, _Node]]:
    """Yield each call of a tree with the branches before it."""
    if depth == 0:
        yield "", node
    for number, child in enumerate(node.children, 1):
        is_last = number == len(node.children)
        yield f"{prefix}{'└─ ' if is_last else '├─ '}", child
        yield from _tree_lines(child, f"{prefix}{'   ' if is_last else '│  '}", depth + 1)


def _node_text(node: _Node) -> str:
    record = node.record
    times = f"waited {seconds_text(record.queue_wait)}, ran {seconds_text(record.execution_time)}"
    text = "" if record.is_success else f"  {record_text(record)}"
    return f"{record.tool_name}  {record.outcome.value}  {times}  {record.call_id}{text}"


def _node_style(node: _Node, record: ToolCallRecord) -> str:
    colour = OUTCOME_STYLES.get(node.record.outcome.value, "red")
    return f"bold {colour}" if node.record.call_id == record.call_id else colour


def _tree_facts(node: _Node) -> dict[str, Any]:
    record = node.record
    return {
        "call_id": record.call_id,
        "tool_name": record.tool_name,
        "outcome": record.outcome.value,
        "error_type": record.error_type,
        "queue_wait": record.queue_wait,
        "execution_time": record.execution_time,
        "calls": [_tree_facts(child) for child in node.children],
    }


def _print_record(record: ToolCallRecord, *, full: bool) -> None:
    console = make_console()
    facts = {name: fit_encoding(value, console) for name, value in _list_facts(record).items()}
    console.print(fact_table(record.call_id or record.record_id, facts))
    for title, value in (("arguments", record.params), ("result", record.result)):
        if value or title == "arguments":
            console.print(as_text(title, "bold"))
            console.print(as_text(_shorten_text(json_text(value), full=full)), soft_wrap=True)
    if record.error is not None:
        console.print(as_text(f"{record.error_type}: {record.error}", "red"), soft_wrap=True)


def _list_facts(record: ToolCallRecord) -> dict[str, str]:
    version = "" if record.tool_version is None else f" {record.tool_version}"
    facts = {
        "tool": f"{record.tool_name}{version}",
        "outcome": record.outcome.value,
        "asked": _show_moment(record.enqueued_at),
        "started": _show_moment(record.started_at) if record.reached_executor else "never",
        "ended": _show_moment(record.created_at),
        "waited": seconds_text(record.queue_wait),
        "ran": seconds_text(record.execution_time),
        "attempts": str(record.attempts),
        "caller": f"{record.caller_id or '-'} ({record.caller_type})",
    }
    # Of a call that failed, the empty result has a size that says nothing.
    size = record.result_size if record.is_success else None
    others = {
        "conversation": record.conversation_id,
        "workflow": record.workflow_id,
        "made by": record.parent_call_id,
        "task": record.task_id,
        "process": record.process,
        "decided by": record.decided_by,
        "bucket": record.bucket,
        "key": record.key,
        "priority": record.priority,
        "weight": record.weight,
        "result size": None if size is None else f"{size} bytes",
        "definition": record.definition_hash,
        "origin": record.origin,
        "generation": record.generation,
    }
    return facts | {name: str(value) for name, value in others.items() if value is not None}


def _show_moment(time: Any) -> str:
    text: str = time.astimezone().isoformat(sep=" ", timespec="milliseconds")
    return text


def _shorten_text(text: str, *, full: bool) -> str:
    if full or len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n... {len(text)} characters in all; --full prints them"
