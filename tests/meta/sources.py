"""Which files does the project consist of? What the tests of its form read."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tool_engine"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    # Its thousands of nodes stay: to look for garbage among them takes longer than to make them.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.freeze()
        gc.enable()


def modules() -> list[Path]:
    """The package's files."""
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """`tool_engine.model.call` for its file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(path: Path) -> Iterator[Function]:
    """Every function of a file, nested ones and methods too."""
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def project_files() -> list[Path]:
    """What git keeps or would keep; skips the test where there is no git repository."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository: which files belong to the project is unknown")
    # A file that was deleted, but not from the index yet, is still listed.
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]
