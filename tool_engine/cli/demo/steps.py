"""Which steps does the demo have, and what does each promise?"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from tool_engine.cli.calls.progress_line import describe_progress
from tool_engine.cli.console import as_text, json_text
from tool_engine.cli.demo.stage import NEEDED, Stage, add_to_entry, set_version
from tool_engine.cli.records.record_line import fit_encoding
from tool_engine.cli.records.stats_command import make_group_table
from tool_engine.cli.tables import OUTCOME_STYLES, first_sentence, result_text
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.progress import ToolProgress

_CALLS: Final = 8
_SECONDS: Final = 1.0
_PAGES: Final = 5
_PAGE: Final = 0.15
"""Seconds; at most ten reports a second are heard."""
_BUCKET: Final = "http"
_LISTED: Final = ("calculator", "echo", "get_weather", "list_issues", "split_bill")
_NAME: Final = 14
"""Columns of a tool's name."""


async def _list_tools(stage: Stage) -> None:
    tools = {tool.name: tool for tool in stage.engine.list_all()}
    first = [name for name in _LISTED if name in tools]
    for name in first:
        stage.say_line(f"{name:<{_NAME}} {first_sentence(tools[name].description)}")
    if len(tools) > len(first):
        stage.say(f"and {len(tools) - len(first)} more")
    stage.expect(set(tools).issuperset(NEEDED), f"{len(tools)} tools are loaded from YAML files")


async def _run_batch(stage: Stage) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo", {"message": "hello"}),
        ("calculator", {"expression": "(1 + 2) * 14"}),
        ("get_weather", {"city": "Oslo"}),
        ("http_request", {"url": f"{stage.url}/status"}),
    ]
    results = await stage.agent.execute_batch(calls, parallel=True)
    for (_, params), result in zip(calls, results, strict=True):
        _show_call(stage, params, result)
    succeeded = [result.is_success for result in results]
    stage.expect(succeeded[:3] == [True] * 3, "echo, calculator and get_weather answered, in order")
    stage.expect(
        not succeeded[3], f"http_request was refused: {stage.address} is a private address"
    )


async def _refuse_arguments(stage: Stage) -> None:
    params = {"url": "ftp://files", "method": "FETCH", "timeout": 999, "heders": {}}
    stage.say(f"http_request {json_text(params, indent=None)}")
    result = await stage.agent.execute("http_request", params)
    for finding in result.validation_errors:
        style = "yellow" if finding.get("level") == "warning" else "red"
        stage.say(f"  {finding['message']}", style)
    paths = {finding["path"] for finding in result.validation_errors}
    stage.expect(
        result.error_type == "validation_error" and paths >= {"url", "method", "timeout"},
        "the call was refused before it ran, with all findings at once",
    )


async def _allow_address(stage: Stage) -> None:
    line = f'allow: ["{stage.address}"]'
    stage.say("http_request.yaml, while the engine runs:")
    for text, style in (
        ('- version: "1.0.0"', "red"),
        ('+ version: "1.1.0"', "green"),
        ("  entry:", ""),
        (f"+   {line}", "green"),
    ):
        stage.say(f"  {text}", style)
    text = set_version(add_to_entry(stage.read("http_request"), line), "1.1.0")
    started = time.monotonic()
    event = await stage.edit("http_request", text, ToolEngineEventType.TOOL_UPDATED)
    seconds = time.monotonic() - started
    stage.expect(event is not None, f"the new version was live {seconds * 1000:.0f} ms later")
    params = {"url": f"{stage.url}/status"}
    result = await stage.agent.execute("http_request", params)
    _show_call(stage, params, result)
    stage.expect(_has_answered(result, "1.1.0"), "http_request 1.1.0 answers what 1.0.0 refused")


async def _fill_bucket(stage: Stage) -> None:
    limits = stage.engine.controller.config
    slots = limits.bucket_limits[_BUCKET]
    stage.say(
        f"{_CALLS} calls of {_SECONDS:g} s at once; bucket {_BUCKET!r} has {slots} slots, the "
        f"queue {limits.queue_size} places"
    )
    call = ("http_request", {"url": f"{stage.url}/work?seconds={_SECONDS}"})
    async with asyncio.TaskGroup() as group:
        batch = group.create_task(
            stage.agent.execute_batch([call] * _CALLS, parallel=True, max_parallel=_CALLS)
        )
        most_waiting, reasons = await _show_progress(stage, batch)
    results = batch.result()
    stage.say("what the engine said of those that waited, after the first two:")
    for reason in reasons:
        stage.say(f"  {reason}")
    stage.say("who held which slot, from the left to the right:")
    for line in draw_slots(results, slots, stage.console.width - 20):
        stage.say(f"  {fit_encoding(line, stage.console)}")
    refused = [result for result in results if result.error_type == "queue_full"]
    stage.expect(most_waiting > 0, f"{most_waiting} calls waited for a slot")
    stage.expect(len(refused) == 1, f"{len(refused)} call found the queue full and was refused")
    stage.expect(
        sum(result.is_success for result in results) == _CALLS - 1, "all the others were answered"
    )


async def _show_progress(
    stage: Stage, batch: asyncio.Task[list[ToolExecutionResult]]
) -> tuple[int, list[str]]:
    """Show how many run and wait; return the most that waited, and why some of them did."""
    controller = stage.engine.controller
    limits = controller.config
    slots = limits.bucket_limits[_BUCKET]
    before = stage.count_finished()
    most_waiting, reasons = 0, list[str]()
    with open_progress(
        stage.console, slots=slots, queue_size=limits.queue_size, calls=_CALLS
    ) as update:
        while True:
            is_done = bool((await asyncio.wait([batch], timeout=0.05))[0])
            bucket = controller.get_bucket_metrics()[_BUCKET]
            waiting = controller.get_metrics().queue_length
            most_waiting = max(most_waiting, waiting)
            finished = stage.count_finished() - before
            update(bucket["current"], waiting, finished)
            if finished > slots and not reasons:
                reasons = _explain_waits(stage)
            if is_done:
                return most_waiting, reasons


def _explain_waits(stage: Stage) -> list[str]:
    """Return why each call waits; the calls have numbers here, in place of their ids."""
    controller = stage.engine.controller
    lines = []
    waiting = [each.call_id or "" for each in controller.snapshot().waiting]
    for found in map(controller.explain, waiting):
        reason = found.reason
        for number, other in enumerate(waiting, 1):
            reason = reason.replace(other, f"number {number}")
        left = "" if found.wait_p50 is None else f"; about {found.wait_p50:.1f} s to go"
        lines.append(f"number {found.position} waits: {reason}{left}")
    return lines


async def _hear_progress(stage: Stage) -> None:
    async def count_words(pages: int, context: ToolExecutionContext) -> int:
        """Counts the words of some pages."""
        for page in range(1, pages + 1):
            await asyncio.sleep(_PAGE)
            await context.report_progress(page, pages, f"page {page}")
        return 400 * pages

    heard: list[ToolProgress] = []

    def show(progress: ToolProgress) -> None:
        heard.append(progress)
        stage.say(describe_progress(progress))

    stage.engine.tool(effect="read")(count_words)
    result = await stage.agent.execute("count_words", {"pages": _PAGES}, on_progress=show)
    stage.expect(
        result.is_success and 1 < len(heard) <= _PAGES and heard[-1].fraction == 1,
        "the caller heard how far the call had come, up to its end",
    )


async def _break_and_mend(stage: Stage) -> None:
    good = stage.read("echo")
    stage.say("echo.yaml is saved half-written:")
    event = await stage.edit("echo", f"{good}\ntags: [half", ToolEngineEventType.LOAD_ERROR)
    said = "nothing came" if event is None else (event.error or "")
    stage.say(f"  {said.rpartition('/')[2]}", "yellow")
    stage.expect(event is not None, "the engine published a load_error")
    result = await stage.agent.execute("echo", {"message": "still there?"})
    stage.expect(result.is_success, f"the last good echo answers: version {_version_of(result)}")
    updated = await stage.edit("echo", set_version(good, "2.0.0"), ToolEngineEventType.TOOL_UPDATED)
    stage.expect(updated is not None, "the mended file was loaded")
    result = await stage.agent.execute("echo", {"message": "and now?"})
    stage.expect(
        _has_answered(result, "2.0.0"), f"the new echo answers: version {_version_of(result)}"
    )


async def _show_books(stage: Stage) -> None:
    statistics = stage.statistics = await stage.engine.get_call_statistics()
    outcomes = ", ".join(f"{count} {name}" for name, count in statistics["outcomes"].items())
    stage.say(f"{statistics['total_records']} calls: {outcomes}")
    stage.show(make_group_table("", "tool", statistics["by_tool"]))
    counts = Counter(event.event_type.value for event in stage.events)
    shown = ", ".join(f"{count} {name}" for name, count in counts.most_common(6))
    stage.say(f"{len(stage.events)} events: {shown}, ...")
    metrics = stage.engine.controller.get_metrics()
    total = stage.agent.get_execution_summary()["total_calls"]
    stage.expect(metrics.current_concurrent == 0, "no slot is held any more")
    stage.expect(
        stage.count_finished() == total == statistics["total_records"],
        f"{total} calls: one final event and one record each",
    )


def _show_call(stage: Stage, params: Mapping[str, Any], result: ToolExecutionResult) -> None:
    """Print a call, and what came of it."""
    stage.say_line(f"{result.tool_name:<{_NAME}} {json_text(params, indent=None)}")
    outcome = result.outcome.value
    text = result_text(result)
    if result.is_success and "body" in result.output:
        text = json_text(result.output["body"], indent=None)
    took = f"{result.execution_time * 1000:.1f} ms"
    style = OUTCOME_STYLES.get(outcome, "red")
    stage.say(f"{'':<{_NAME}} {outcome} in {took}: {text}", style)


def _has_answered(result: ToolExecutionResult, version: str) -> bool:
    return result.is_success and _version_of(result) == version


def _version_of(result: ToolExecutionResult) -> str:
    return str(result.metadata.get("tool_version"))


Steps = tuple[tuple[str, Callable[[Stage], Awaitable[None]]], ...]
"""The title of each step, and what it does."""
STEPS: Final[Steps] = (
    ("The tools, each a YAML file", _list_tools),
    ("A sub-agent runs a batch", _run_batch),
    ("Wrong arguments are refused, with findings that a model can act on", _refuse_arguments),
    ("The operator allows the service's address: an edit is live at once", _allow_address),
    ("A full bucket: calls wait, each knows why, and one is refused", _fill_bucket),
    ("A tool says how far it has come", _hear_progress),
    ("A broken file harms no other tool", _break_and_mend),
    ("The books", _show_books),
)
Update = Callable[[int, int, int], None]
"""Shows how many calls run, wait and have finished."""


@contextmanager
def open_progress(console: Console, *, slots: int, queue_size: int, calls: int) -> Iterator[Update]:
    """Yield what shows the numbers: bars on a terminal, else lines."""
    limits = {"running": slots, "waiting": queue_size, "finished": calls}
    if not console.is_interactive:
        yield _make_lines(console, limits)
        return
    progress = Progress(
        TextColumn("  {task.description:<9}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
        console=console,
    )
    bars = [progress.add_task(name, total=limit) for name, limit in limits.items()]

    def update(*numbers: int) -> None:
        for bar, number in zip(bars, numbers, strict=True):
            progress.update(bar, completed=number)

    with progress:
        yield update


def _make_lines(console: Console, limits: Mapping[str, int]) -> Update:
    last: tuple[int, ...] = ()

    def update(*numbers: int) -> None:
        nonlocal last
        if numbers != last:
            last = numbers
            parts = zip(limits.items(), numbers, strict=True)
            line = "   ".join(f"{name} {number} of {limit}" for (name, limit), number in parts)
            console.print(as_text(f"  {line}"))

    return update


def draw_slots(results: Sequence[ToolExecutionResult], slots: int, width: int) -> list[str]:
    """Return a line for each slot, in which calls stand as long as they held it.

    Args:
        results: Those of calls that came at the same time, in their order; their numbers are drawn.
        slots: How many there are.
        width: The columns of the whole time.
    """
    held: list[list[tuple[float, float, int]]] = [[] for _ in range(slots)]
    spans = [
        (wait := float(result.metadata.get("queue_wait") or 0.0), wait + result.execution_time, at)
        for at, result in enumerate(results, 1)
        if result.is_success
    ]
    for span in sorted(spans, key=lambda span: (span[0], span[2])):
        min(held, key=lambda line: line[-1][1] if line else 0.0).append(span)
    end = max((stop for _, stop, _ in spans), default=0.0) or 1.0
    lines = []
    for number, line in enumerate(held, 1):
        text = ""
        for start, stop, at in line:
            text = text.ljust(round(start / end * width))
            text += f"▕{at}".ljust(round(stop / end * width) - len(text), "█")
        lines.append(f"slot {number}  {text}")
    return [*lines, f"        0 s{f'{end:.1f} s':>{max(1, width - 3)}}"]
