"""A file is written whole or not at all, and never over another one unasked."""

from pathlib import Path

import pytest

from tool_engine.cli.failures import CommandError
from tool_engine.cli.writing import write_file


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Only `may_replace` replaces; nothing else is left in the folder."""
    path = tmp_path / "a.yaml"
    write_file(path, "one\n", may_replace=False)
    assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]
    with pytest.raises(CommandError, match="replace it with --force"):
        write_file(path, "two\n", may_replace=False)
    assert path.read_bytes() == b"one\n"
    write_file(path, "two\n", may_replace=True)
    assert path.read_bytes() == b"two\n"
    assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]


def test_others_may_read_it(tmp_path: Path) -> None:
    """It has the rights of any new file, not those of a temporary one."""
    other = tmp_path / "other"
    other.touch()
    write_file(tmp_path / "a.yaml", "x", may_replace=False)
    assert (tmp_path / "a.yaml").stat().st_mode == other.stat().st_mode


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two names of one file are not allowed, it is still written, and still not replaced."""

    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "a.yaml"
    write_file(path, "one", may_replace=False)
    with pytest.raises(CommandError, match="is there already"):
        write_file(path, "two", may_replace=False)
    assert path.read_text(encoding="utf-8") == "one"


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder that is gone is a message that names the file."""
    with pytest.raises(CommandError, match=r"cannot write .*gone"):
        write_file(tmp_path / "gone" / "a.yaml", "x", may_replace=True)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CommandError, match="cannot write"):
        write_file(file / "a.yaml", "x", may_replace=False)
