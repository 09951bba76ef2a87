"""How does `write_file` make and replace files?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tool_engine.errors import ToolExecutionError

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk


def test_new_file(desk: Desk) -> None:
    """R9: the content is written as UTF-8, and the answer says that the file is new."""
    written = desk.write("a.txt", "é\n")
    assert (desk.root / "a.txt").read_bytes() == "é\n".encode()
    assert written == {
        "path": "a.txt",
        "bytes": 3,
        "created": True,
        "version": desk.read("a.txt")["version"],
    }


def test_replaced_file(desk: Desk) -> None:
    """R9: a file that is there is replaced whole; its permissions stay, whatever the umask."""
    file = desk.put("a.sh", "old, and much longer")
    file.chmod(0o751)
    assert desk.write("a.sh", "new")["created"] is False
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o7777 == 0o751


def test_new_file_keeps_the_umask(desk: Desk) -> None:
    """A new file has the permissions that any program would give it."""
    before = os.umask(0o027)
    try:
        desk.write("a.txt")
    finally:
        os.umask(before)
    assert (desk.root / "a.txt").stat().st_mode & 0o777 == 0o640


def test_set_user_id_is_lost(desk: Desk) -> None:
    """New content never runs with the rights of a file's owner."""
    file = desk.put("a", "old")
    file.chmod(0o4755)
    desk.write("a", "new")
    assert file.stat().st_mode & 0o7777 == 0o755


def test_create_only(desk: Desk) -> None:
    """With create_only a file that is there is left as it is."""
    file = desk.put("a.txt", "old")
    with pytest.raises(ToolExecutionError, match="exists already and create_only is set"):
        desk.write("a.txt", "new", create_only=True)
    assert file.read_text() == "old"
    assert desk.write("b.txt", "new", create_only=True)["created"]


def test_expected_version(desk: Desk) -> None:
    """A file that has changed since it was read is not overwritten."""
    file = desk.put("a.txt", "old")
    version = desk.read("a.txt")["version"]
    file.write_text("somebody else's")
    with pytest.raises(ToolExecutionError, match="has changed since it was read"):
        desk.write("a.txt", "mine", expected_version=version)
    assert file.read_text() == "somebody else's"
    desk.write("a.txt", "mine", expected_version=desk.read("a.txt")["version"])
    assert file.read_text() == "mine"
    with pytest.raises(ToolExecutionError, match="does not exist"):
        desk.write("b.txt", expected_version=version)


def test_read_only_file(desk: Desk) -> None:
    """A file that nobody may write is not replaced behind its owner's back."""
    file = desk.put("a.txt", "old")
    file.chmod(0o444)
    with pytest.raises(ToolExecutionError, match="is read-only"):
        desk.write("a.txt")
    with pytest.raises(ToolExecutionError, match="is read-only"):
        desk.edit("a.txt", "old", "new")
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\0b", "zero character"),
        ("a\ud800b", "half of a surrogate pair at character 1"),
        ("é" * 6, "would have 12 bytes; this tool writes files of at most 10"),
        (7, "content must be a text, got int"),
    ],
)
def test_content_that_is_refused(desk: Desk, content: str, message: str) -> None:
    """What read_file could not read back is not written."""
    tool = desk.tool("write_file", config={"max_bytes": 10})
    with pytest.raises(ToolExecutionError, match=message):
        desk.run(tool, path="a.txt", content=content)
    assert desk.names() == set()


def test_folder_in_the_way(desk: Desk) -> None:
    """A folder is not replaced by a file."""
    desk.put("a/b")
    with pytest.raises(ToolExecutionError, match="'a' is a folder"):
        desk.write("a")
    assert desk.names() == {"a", "a/b"}


def test_other_names_of_a_file_keep_the_old_content(desk: Desk) -> None:
    """A write replaces a name, so a hard link outside of the root keeps what it had."""
    (desk.root / "a.txt").hardlink_to(desk.outside / "secret.txt")
    desk.write("a.txt", "new")
    assert (desk.outside / "secret.txt").read_text() == "SECRET\n"
    assert (desk.root / "a.txt").read_text() == "new"


def test_too_many_folders_are_not_begun(desk: Desk) -> None:
    """A path that is refused for its depth leaves none of its folders."""
    with pytest.raises(ToolExecutionError, match="more than 128 folders"):
        desk.write("x/" * 200 + "y", create_folders=True)
    assert list(desk.root.iterdir()) == []
