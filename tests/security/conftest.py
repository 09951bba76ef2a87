"""What holds for every attack, and where those of scripts are tried.

The garbage of other tests holds nothing up.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.shell_cell import Cell
from tool_engine.executors.commands import sandbox_launcher


@pytest.fixture(autouse=True)
def _only_own_garbage() -> Iterator[None]:
    """A full collection looks at what this test made, not at what thousands left before it."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    found = Cell(tmp_path)
    yield found
    assert (tmp_path / "private" / "file").read_text() == "text of private"
    assert (tmp_path / "library" / "file").read_text() == "text of library"
    assert found.left() == []


@pytest.fixture(params=["mounts", "container"])
def cell_anywhere(
    request: pytest.FixtureRequest, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> Cell:
    """A cell, also where the kernel gives no mounts of its own, as in most containers."""
    if request.param == "container":
        text = Path(sandbox_launcher.__file__).read_text()
        text = text.replace("        _leave_mounts()\n", "        raise PermissionError\n")
        launcher = cell.folder / "launcher.py"
        launcher.write_text(text)
        monkeypatch.setattr(sandbox_launcher, "__file__", str(launcher))
    return cell
