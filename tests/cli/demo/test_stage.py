"""The demo edits a copy of the tool files, and a person without such files gets the package's."""

from pathlib import Path

import pytest

from tool_engine.cli.demo.stage import NEEDED, add_to_entry, copy_definitions, set_version
from tool_engine.cli.failures import CommandError
from tool_engine.cli.settings import Settings


def test_the_tools_folder_is_copied(tmp_path: Path) -> None:
    """A folder that has what the demo needs is used, with all its other tools."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for name in (*NEEDED, "another"):
        (source / f"{name}.yaml").write_text(f"name: {name}\n", encoding="utf-8")
    (source / "notes.txt").write_text("x", encoding="utf-8")
    assert copy_definitions(Settings(str(source)), target) == f"the folder {str(source)!r}"
    assert sorted(path.stem for path in target.iterdir()) == sorted((*NEEDED, "another"))


def test_without_a_tools_folder_the_packaged_ones_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip install`, then `tool-engine demo`, works in any folder."""
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "target"
    target.mkdir()
    assert "package" in copy_definitions(Settings(), target)
    assert sorted(path.stem for path in target.iterdir()) == sorted(NEEDED)


def test_a_named_folder_without_the_tools_is_an_error(tmp_path: Path) -> None:
    """A folder that somebody named is not silently replaced by another."""
    (tmp_path / "echo.yaml").write_text("name: echo\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"needs calculator\.yaml, get_weather\.yaml, http"):
        copy_definitions(Settings(str(tmp_path)), tmp_path)


def test_edits_are_exact_or_refused() -> None:
    """One version line and one entry block; a file of another shape is not half-edited."""
    text = 'name: x\nversion: "1.0.0"  # first\nentry: # how\n  type: builtin\n'
    assert set_version(text, "2.0.0") == text.replace('"1.0.0"  # first', '"2.0.0"')
    assert add_to_entry(text, "allow: [a]") == text.replace(
        "entry: # how\n", "entry: # how\n  allow: [a]\n"
    )
    with pytest.raises(CommandError, match="no `version:` line"):
        set_version("name: x\n", "2.0.0")
    with pytest.raises(CommandError, match="no `entry:` block"):
        add_to_entry("name: x\n", "allow: []")
