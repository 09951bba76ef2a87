"""Is the cure that an error outside of the catalog offers tried by a test?

The rows stand in the files beside this one, and in one of the command line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.cli.project.test_mistakes_in_a_project import TRIED as IN_PROJECTS
from tests.contracts.test_cures_of_clusters import TRIED as CLUSTERS
from tests.contracts.test_cures_of_code import TRIED as CODE
from tests.contracts.test_cures_of_commands import TRIED as COMMANDS
from tests.contracts.test_cures_of_connections import TRIED as CONNECTIONS
from tests.contracts.test_cures_of_entries import TRIED as ENTRIES
from tests.contracts.test_cures_of_errors import TRIED as ERRORS
from tests.contracts.test_cures_of_executors import TRIED as EXECUTORS
from tests.contracts.test_cures_of_file_tools import TRIED as FILE_TOOLS
from tests.contracts.test_cures_of_fleets import TRIED as FLEETS
from tests.contracts.test_cures_of_observing import TRIED as OBSERVING
from tests.contracts.test_cures_of_outside import TRIED as OUTSIDE
from tests.contracts.test_cures_of_programs import TRIED as PROGRAMS
from tests.contracts.test_cures_of_projects import TRIED as PROJECTS
from tests.contracts.test_cures_of_records import TRIED as RECORDS
from tests.contracts.test_cures_of_running import TRIED as RUNNING
from tests.contracts.test_cures_of_servers import TRIED as SERVERS
from tests.contracts.test_cures_of_serving import TRIED as SERVING
from tests.contracts.test_cures_of_sessions import TRIED as SESSIONS
from tests.contracts.test_cures_of_shells import TRIED as SHELLS
from tests.contracts.test_cures_of_tasks import TRIED as TASKS
from tests.contracts.test_cures_of_tests import TRIED as TESTS
from tests.meta.sources import tree

PACKAGE = Path(__file__).parents[2] / "tool_engine"
TRIED = set().union(
    CLUSTERS,
    CODE,
    COMMANDS,
    CONNECTIONS,
    ENTRIES,
    ERRORS,
    EXECUTORS,
    FILE_TOOLS,
    FLEETS,
    IN_PROJECTS,
    OBSERVING,
    OUTSIDE,
    PROGRAMS,
    PROJECTS,
    RUNNING,
    SERVERS,
    SERVING,
    SESSIONS,
    RECORDS,
    SHELLS,
    TASKS,
    TESTS,
)


def test_every_cure_is_tried() -> None:
    """A new cure has a row; one that went leaves its file."""
    said = set(cures())
    assert said - TRIED == set()
    assert {row for row in TRIED - said if not _is_written(str(row))} == set()


def cures() -> Iterator[str]:
    """What stands after the last semicolon of each error, with … for what is put in."""
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE)
        if place.parts[0] == "catalog":
            continue
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call) and _makes_error(node.func):
                for text in map(_text, node.args):
                    cure = text.rpartition("; ")[2] if "; " in text else ""
                    if len(cure.replace("…", "")) > 3:
                        yield f"{place.as_posix()}: {cure}"


def _is_written(row: str) -> bool:
    """Whether a cure stands in its file apart from an error that is made there."""
    place, _, cure = row.partition(": ")
    texts = (
        node.value for node in ast.walk(tree(PACKAGE / place)) if isinstance(node, ast.Constant)
    )
    return any(isinstance(text, str) and cure in text for text in texts)


def _makes_error(function: ast.expr) -> bool:
    name = getattr(function, "id", getattr(function, "attr", ""))
    return name.endswith(("Error", "Failure", "Refusal"))


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.JoinedStr):
        return "".join(
            _text(part) if isinstance(part, ast.Constant) else "…" for part in value.values
        )
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
