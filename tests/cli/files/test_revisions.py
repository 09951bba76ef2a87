"""What git cannot give is told in its words, and no word becomes an option of git's."""

import subprocess
from pathlib import Path

import pytest

from tool_engine.cli.failures import CommandError
from tool_engine.cli.files import diff_command as revisions
from tool_engine.cli.files.diff_command import files_in_revision, is_revision


@pytest.mark.parametrize(
    ("word", "is_one"),
    [
        ("HEAD:tools", True),
        ("origin/main:tools/a.yaml", True),
        ("v1.0:.", True),
        ("tools", False),
        ("HEAD:", False),
        (":tools", False),
        ("C:tools", False),
        ("--output=x:tools", False),
        ("-x:tools", False),
    ],
)
def test_what_a_revision_looks_like(word: str, is_one: bool) -> None:
    """A drive, a name and an option are no revisions."""
    assert is_revision(word) is is_one


def test_a_file_with_a_colon_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is meant, before anything is asked of git."""
    monkeypatch.chdir(tmp_path)
    assert is_revision("HEAD:tools")
    Path("HEAD:tools").touch()
    assert not is_revision("HEAD:tools")


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git's own reason is in the message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(CommandError, match=r"git cannot read that: .*not a git repository"):
        files_in_revision("HEAD:tools")


def test_an_unknown_revision_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip in the name of a branch is told."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    with pytest.raises(CommandError, match=r"git cannot read that: .*nope"):
        files_in_revision("nope:tools")


def test_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without git can still compare folders."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="git is not installed; compare two folders"):
        files_in_revision("HEAD:tools")


def test_a_git_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A prompt or a dead share ends by a deadline."""
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexec /bin/sleep 30\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(revisions, "_TIMEOUT", 0.1)
    with pytest.raises(CommandError, match=r"longer than 0\.1 s"):
        files_in_revision("HEAD:tools")
