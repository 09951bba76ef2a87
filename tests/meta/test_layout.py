"""Does the code keep to the layout and the sizes of docs/architecture.md?"""

from __future__ import annotations

import statistics

from tests.meta.sources import PACKAGE, ROOT, functions, modules, project_files

MOST_LINES = 400
LONGEST_FUNCTION = 60
MEDIAN_FUNCTION = 10

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "LICENSE",
    "Makefile",
    "README.md",
    "docs",
    "pyproject.toml",
    "requirements.lock",
    "tests",
    "tool_engine",
    "tools",
}


def test_no_long_file() -> None:
    """A file of more than 400 lines is split by noun."""
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules()
    }
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_function_lengths() -> None:
    """No function has more than 60 lines, and half of them have at most 10."""
    lengths = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": (
            (function.end_lineno or function.lineno) - function.lineno + 1
        )
        for path in modules()
        for function in functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
    assert statistics.median(lengths.values()) <= MEDIAN_FUNCTION


def test_no_vague_module() -> None:
    """A module is named after its noun: never utils, helpers, common, misc or base."""
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
    assert [path for path in modules() if path.stem.strip("_") in vague] == []


def test_top_level() -> None:
    """Nothing but the fixed entries stands at the root."""
    found = {path.relative_to(ROOT).parts[0] for path in project_files()}
    assert found - TOP_LEVEL == set()


def test_tools_are_yaml_only() -> None:
    """`tools/` holds definitions and nothing else."""
    tools = [path for path in project_files() if path.is_relative_to(ROOT / "tools")]
    assert [path.name for path in tools if path.suffix not in {".yaml", ".yml"}] == []


def test_typed() -> None:
    """The package carries `py.typed`, so that type checkers use its hints."""
    assert (PACKAGE / "py.typed").is_file()
