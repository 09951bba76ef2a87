"""Modules of handlers that stand on Python's path while a test runs."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

_numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module of a new name, and returns the name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def made(text: str) -> str:
        name = f"handlers_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        return name

    yield made
    for name in set(sys.modules) - before:
        del sys.modules[name]
