"""One name per fact, wherever it is told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tool_engine
from tests.meta.sources import tree
from tool_engine.model.event import ToolEngineEventType
from tool_engine.observability.event_lines import LINES
from tool_engine.observability.names import FACTS

PACKAGE = Path(tool_engine.__file__).parent
PAGE = PACKAGE.parent / "docs/how-to/logging.md"
LEVELS = ("debug", "info", "warning", "error")


@cache
def log_lines() -> list[tuple[str, str]]:
    """Level and name of every line that the package writes, as its source says."""
    return [*_lines_of_files()]


def _lines_of_files() -> Iterator[tuple[str, str]]:
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "_log" not in text:
            continue
        module = tree(file)
        writers = dict(writers_of(module))
        for node in ast.walk(module):
            if not isinstance(node, ast.Call):
                continue
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            level = level_of(node)
            if level is not None and words:
                yield level, str(words[0])
            elif isinstance(node.func, ast.Name) and node.func.id in writers and words:
                yield writers[node.func.id], str(words[0])
            elif getattr(node.func, "attr", "") == "_log_state" and words and words[0] in LEVELS:
                yield str(words[0]), str(words[1])


def level_of(call: ast.Call) -> str | None:
    """The level of the line that a call writes; None: it writes none."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LEVELS:
        return None
    target = call.func.value
    return call.func.attr if isinstance(target, ast.Name) and target.id == "_log" else None


def writers_of(module: ast.Module) -> Iterator[tuple[str, str]]:
    """The functions that write a line whose name they are given first, and its level."""
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef) or not function.args.args:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and (level := level_of(node)) is not None:
                name = node.args[0]
                if isinstance(name, ast.Name) and name.id == function.args.args[0].arg:
                    yield function.name, level


def test_every_line_and_every_event_has_its_name_in_one_table() -> None:
    """A line or an event that nobody listed, or one listed that is nowhere, is found here."""
    lines = {name for _, name in log_lines()} | {kind.value for kind in LINES}
    events = {kind.value for kind in ToolEngineEventType}
    assert lines | events == set(FACTS)


def test_lines_are_written_in_one_way() -> None:
    """A broken log then breaks nothing, secrets are hidden, and none is on standard output."""
    setting_up = {"logger.py", "observability/logging.py", "cli/logs.py"}
    using = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if re.search(
            r"^\s*(import|from) structlog\b", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert using <= setting_up


def test_levels_are_those_of_the_source() -> None:
    """The level in the table is the level of the line."""
    wrong = {name for level, name in log_lines() if FACTS[name].level != level}
    assert wrong <= {"watch_failed"}, "one of its two lines may be another level"


def test_every_event_is_logged_under_its_own_name() -> None:
    """No event is without a log line: here, or where it arises."""
    elsewhere = {name for _, name in log_lines()}
    for kind in ToolEngineEventType:
        assert (kind in LINES) != (kind.value in elsewhere), kind


def test_the_page_lists_them_all() -> None:
    """Whoever reads a line finds its name, its level and its meaning in the documentation."""
    tables = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line[:3] == "| `"]
    rows = {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in tables}
    events = {kind.value for kind in ToolEngineEventType}
    expected = {
        name: [fact.level, "yes" if name in events else "", fact.meaning]
        for name, fact in FACTS.items()
    }
    assert rows == expected
