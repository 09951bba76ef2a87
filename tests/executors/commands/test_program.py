"""Which program a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.program import find_program


def program(folder: Path, name: str = "tool", mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(mode)
    return folder / name


def test_the_first_folder_wins(tmp_path: Path) -> None:
    """Folders are looked into in their order; what cannot be executed does not count."""
    program(tmp_path / "a", mode=0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    third = program(tmp_path / "c")
    program(tmp_path / "d")
    path = [str(tmp_path / name) for name in "abcd"]
    assert find_program("tool", path) == str(third)
    assert find_program(str(third), ()) == str(third)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tool", "'tool' is not installed: it is in none of /nowhere, /else; install it, or write"),
        ("/nowhere/tool", "'/nowhere/tool' does not exist or cannot be executed"),
        ("/etc", "does not exist or cannot be executed"),
    ],
)
def test_what_is_not_there(name: str, told: str) -> None:
    """The message says where it was looked for."""
    with pytest.raises(ToolExecutionError, match=told):
        find_program(name, ["/nowhere", "/else"])


def test_a_link_is_followed_for_the_check(tmp_path: Path) -> None:
    """A link into a folder that everybody may write is refused, too; it is run by its own name."""
    real = program(tmp_path / "open")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to(real)
    assert find_program("tool", [str(tmp_path / "bin")]) == str(tmp_path / "bin" / "tool")
    real.parent.chmod(0o777)
    with pytest.raises(ToolExecutionError, match="has the mode 0777"):
        find_program("tool", [str(tmp_path / "bin")])


def test_a_sticky_folder_is_fine(tmp_path: Path) -> None:
    """In a folder such as /tmp nobody can replace the file of another."""
    real = program(tmp_path / "sticky")
    real.parent.chmod(0o1777)
    assert find_program(str(real)) == str(real)
    real.chmod(0o1757)
    with pytest.raises(ToolExecutionError, match="can be replaced"):
        find_program(str(real))
