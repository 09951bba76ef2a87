"""Does a script run where what the engine trusts has another name?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands import shell as hard_links
from tool_engine.executors.commands.shell import check_hard_links
from tool_engine.trusted import Kind, TrustedPath


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """One that is trusted, and one that scripts may write."""
    made = tmp_path / "trusted", tmp_path / "written"
    for folder in made:
        (folder / "deep/er").mkdir(parents=True)
    return made


def _put(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    return file


@pytest.mark.parametrize(
    ("kind", "path", "file"),
    [
        (Kind.FILE, "tools.lock", "tools.lock"),
        (Kind.FOLDER, "", "s.yaml"),
        (Kind.FOLDER, "", "deep/er/s.yaml"),
        (Kind.MODULE, "hands", "hands.py"),
        (Kind.MODULE, "deep/hands", "deep/hands.cpython-311.pyc"),
    ],
)
@pytest.mark.parametrize("link", ["hard.txt", "deep/er/hard.txt"])
def test_a_link_to_what_is_trusted(
    folders: tuple[Path, Path], kind: Kind, path: str, file: str, link: str
) -> None:
    """The error names both names, and its cures help."""
    trusted, written = folders
    known = [TrustedPath(str(trusted / path), kind, "a definition")]
    own, other = _put(trusted / file), written / link
    _put(written / "ordinary.txt")
    os.link(written / "ordinary.txt", written / "deep/ordinary.txt")
    os.link(own, trusted.parent / "elsewhere.txt")
    check_hard_links([str(written)], known)
    os.link(own, other)
    for each in (written, other):
        with pytest.raises(ToolExecutionError, match="which is a hard link of") as told:
            check_hard_links([str(each)], known)
        assert str(own) in str(told.value)
        assert str(other) in str(told.value)
    check_hard_links([], known)
    other.unlink()
    other.write_text("x")
    check_hard_links([str(written)], known)


def test_what_is_not_trusted(folders: tuple[Path, Path]) -> None:
    """Files beside a trusted module or file may have names wherever they like."""
    trusted, written = folders
    for name in ("hands.txt", "hands_too.py", "tools.lock.txt"):
        os.link(_put(trusted / name), written / name)
    (trusted / "gone.yaml").symlink_to("nowhere")
    known = [
        TrustedPath(str(trusted / "hands"), Kind.MODULE, "code"),
        TrustedPath(str(trusted / "tools.lock"), Kind.FILE, "the lock file"),
        TrustedPath(str(trusted / "gone.yaml"), Kind.FILE, "a definition"),
        TrustedPath(str(trusted / "gone"), Kind.FOLDER, "a folder"),
    ]
    check_hard_links([str(written), str(written / "gone")], known)
    # It does look there: a name of what is trusted is found among those.
    os.link(_put(trusted / "hands.py"), written / "hands.py")
    with pytest.raises(ToolExecutionError, match="which is a hard link of"):
        check_hard_links([str(written), str(written / "gone")], known)


def test_too_many_files(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be known in time, the script does not run; without links nothing is asked."""
    monkeypatch.setattr(hard_links, "MAX_ENTRIES", 3)
    trusted, written = folders
    known = [TrustedPath(str(trusted), Kind.FOLDER, "a definition")]
    own = _put(trusted / "s.yaml")
    for number in range(4):
        _put(written / f"{number}.txt")
    check_hard_links([str(written)], known)
    os.link(own, trusted.parent / "elsewhere.txt")
    with pytest.raises(ToolExecutionError, match="more than 3 files; name folders with less"):
        check_hard_links([str(written)], known)
    check_hard_links([str(written / "deep")], known)


@pytest.mark.parametrize(("is_own", "is_entered"), [(True, False), (False, True), (False, False)])
def test_a_folder_that_cannot_be_listed(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, is_own: bool, is_entered: bool
) -> None:
    """What a script cannot enter does not matter; what it could is not passed over."""
    trusted, written = folders
    known = [TrustedPath(str(trusted), Kind.FOLDER, "a definition")]
    os.link(_put(trusted / "s.yaml"), trusted.parent / "elsewhere.txt")
    listed = os.listdir

    def list_other(path: str) -> list[str]:
        if path.endswith("written/deep"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    owner = os.geteuid() + (0 if is_own else 1)
    monkeypatch.setattr(os, "listdir", list_other)
    monkeypatch.setattr(os, "access", lambda _path, _mode: is_entered)
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    if is_own or is_entered:
        with pytest.raises(ToolExecutionError, match=r"deep' cannot be listed \(Permission denied"):
            check_hard_links([str(written)], known)
    else:
        check_hard_links([str(written)], known)
