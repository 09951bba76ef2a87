"""Does each log line of the engine that has words of others hide secrets, and is it tried?

`PLACES` of `tests/contracts/test_no_secret_in_words.py` tries each line that tells of what foreign
code raised. A line that nobody thought of is found here, in the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tool_engine
from tests.contracts.test_no_secret_in_words import PLACES
from tests.meta.sources import tree

PACKAGE = Path(str(tool_engine.__file__)).parent
LEVELS = ("debug", "info", "warning", "error", "write", "_report_fault")
WORDS = ("error", "exc_info", "findings", "message", "reason", "stack_info", "traceback")
"""Fields of a line in which there are words."""
HIDING = ("failure_of", "kind_of", "shorten_words", "trace_of", "words_of")
"""What alone puts an exception into words where something is logged."""
OWN_WORDS = {
    "arguments_not_captured": "the kind of the exception only",
    "cache_not_read": "the system's words about a file of the engine's",
    "cache_not_written": "the same",
    "calls_not_read": "names of protocols",
    "cluster_unavailable": "the words of the failure, had with `words_of` when it was noted",
    "cluster_failed": "had with `words_of`",
    "cluster_not_renewed": "the words of a database driver, where no call is at hand",
    "cluster_refused": "the engine's own words about a database",
    "events_not_written": "the words of a database driver, about rows without secrets",
    "group_quarantined": "about a definition",
    "fleet_handler_failed": "where the handler raised, without its words",
    "fleet_lost": "the words of Ray about its processes, or the engine's own",
    "leftover_failed": "what a run left behind raises nothing but what ends the loop",
    "key_refused": "the engine's own words about a public key",
    "keys_unread": "about the keys of an issuer, which are public",
    "limit_for_unknown_bucket": "about a setting",
    "mcp_client_not_told": "the kind of the exception only",
    "mcp_list_not_read": "the same as for mcp_server_down",
    "mcp_server_down": "the secrets of the server's settings are hidden, and texts like secrets",
    "load_error": "about a definition; load errors quote no secret",
    "records_not_pruned": "the words of a database driver, where no call is at hand",
    "records_unreachable": "the same",
    "task_not_run": "the words of a database driver, about rows without secrets",
    "task_not_written": "the same",
    "tasks_not_read": "the same",
    "questions_not_closed": "the same",
    "reload_failed": "the engine's own reader of a folder",
    "request_failed": "about a fault of the API, with texts like secrets hidden",
    "second_reader_lost": "a process of the engine's",
    "second_reader_not_started": "the same",
    "token_file_unread": "about a settings file, of which no entry is quoted",
    "tool_blocked_loop": "the engine's own words",
    "tool_edit": "about a definition",
    "watch_failed": "the system's words about a folder",
    "workflow_finding": "about a definition",
}
"""Log lines in which no foreign code speaks of a call, and why not."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules that log; how `testing` shows a failing loop is what asyncio does."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text(encoding="utf-8")
        if "get_logger" in text and not name.startswith(("testing/", "logger.py")):
            yield name, tree(path)


MODULES = dict(modules())


def name_of(call: ast.Call) -> str:
    """The last name of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def lines_of(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The names of the lines that are written, each with the call that does it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node) in LEVELS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, node


def has_words(call: ast.Call) -> bool:
    """Whether there is room for words in a line."""
    return name_of(call) == "_report_fault" or any(each.arg in WORDS for each in call.keywords)


def test_each_line_with_words_is_tried() -> None:
    """A new line is a row of `PLACES`, or has a reason; no row is about a line that is gone."""
    found = {
        name
        for tree in MODULES.values()
        for name, call in lines_of(tree)
        if has_words(call) and " " not in name
    }
    assert found == {*PLACES, *OWN_WORDS}
    assert not OWN_WORDS.keys() & PLACES.keys()


def raw_words(function: ast.AST) -> Iterator[int]:
    """Where a function that logs puts an exception into words by itself."""
    named = {
        node.name: node
        for node in ast.walk(function)
        if isinstance(node, ast.ExceptHandler) and node.name is not None
    }
    for node in ast.walk(function):
        parts: list[ast.expr] = []
        if isinstance(node, ast.FormattedValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and name_of(node) not in HIDING:
            # Other functions may take an exception: those of the engine look at its kind.
            is_plain = name_of(node) in ("str", "repr", "format_exception", "format", "shown")
            parts = list(node.args) if is_plain else [each.value for each in node.keywords]
        for part in parts:
            if isinstance(part, ast.Name) and part.id in named:
                yield part.lineno


@pytest.mark.parametrize("module", MODULES)
def test_exceptions_are_put_into_words_in_one_way(module: str) -> None:
    """Where a line tells of what foreign code raised, secrets are hidden before all else."""
    for node in ast.walk(MODULES[module]):
        if not isinstance(node, ast.ExceptHandler):
            continue
        logged = {name for name, call in lines_of(node) if has_words(call)}
        if logged & PLACES.keys():
            assert list(raw_words(ast.Module(body=[node], type_ignores=[]))) == []  # type: ignore[list-item]


def test_no_line_has_a_bare_traceback() -> None:
    """A logger that writes a traceback writes the words of the exception, too."""
    for module in MODULES.values():
        for name, call in lines_of(module):
            assert not any(each.arg in ("exc_info", "stack_info") for each in call.keywords), name
