"""Do the tools, used in any order, behave like a dictionary of texts?"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.effort import share_of
from tests.executors.files.conftest import Desk
from tool_engine.errors import ToolExecutionError

PATHS = st.sampled_from(["a.txt", "sub/b.txt", "sub/deep/c.txt", "./sub//b.txt"])
TEXTS = st.text(alphabet="ab\né", max_size=8) | st.sampled_from(["aaa\nb\n", "a\nb\na"])
PARTS = st.text(alphabet="ab\né", min_size=1, max_size=3)


def plain(path: str) -> str:
    return str(Path(path))


class FilesMachine(RuleBasedStateMachine):
    """Every call is made on the disk and on a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.desk = Desk(self.folder)
        self.texts: dict[str, str] = {}
        self.folders = {"."}
        self.versions: dict[str, str] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(
        path=PATHS,
        content=TEXTS,
        create_only=st.sampled_from([False, False, True]),
        create_folders=st.booleans(),
    )
    def write(self, path: str, content: str, create_only: bool, create_folders: bool) -> None:
        name = plain(path)
        parents = {str(each) for each in Path(name).parents}
        missing = not parents <= self.folders and not create_folders
        if missing or (create_only and name in self.texts):
            with pytest.raises(ToolExecutionError):
                self.desk.write(path, content, create_only=create_only)
            return
        written = self.desk.write(
            path, content, create_only=create_only, create_folders=create_folders
        )
        assert written["created"] == (name not in self.texts)
        self.folders |= parents
        self.texts[name] = content

    @precondition(lambda self: self.versions)
    @rule(data=st.data(), content=TEXTS)
    def write_what_was_read(self, data: st.DataObject, content: str) -> None:
        """A version that was read is that of the text now, or the write is refused."""
        path = name = data.draw(st.sampled_from(sorted(self.versions)))
        version = self.versions[name]
        if self.desk.read(path)["version"] != version:
            with pytest.raises(ToolExecutionError, match="has changed"):
                self.desk.write(path, content, expected_version=version)
            return
        written = self.desk.write(path, content, expected_version=version)
        self.texts[name], self.versions[name] = content, written["version"]

    @rule(data=st.data(), new=TEXTS, replace_all=st.booleans())
    def edit(self, data: st.DataObject, new: str, replace_all: bool) -> None:
        path = name = self.draw_name(data)
        text = self.texts.get(name, "")
        parts = [text[start : start + 2] for start in range(len(text))]
        old = data.draw(st.sampled_from([*parts, "aa", "b"]))
        places = sum(text.startswith(old, start) for start in range(len(text)))
        if old == new or not places or (places > 1 and not replace_all):
            with pytest.raises(ToolExecutionError):
                self.desk.edit(path, old, new, replace_all=replace_all)
            return
        changed = self.desk.edit(path, old, new, replace_all=replace_all)
        assert changed["replacements"] == text.count(old)
        self.texts[name] = text.replace(old, new)

    def draw_name(self, data: st.DataObject) -> str:
        """A file that is there, most of the time."""
        return data.draw(st.sampled_from([*sorted(self.texts), "missing.txt"]))

    @rule(data=st.data(), offset=st.integers(1, 4), limit=st.integers(1, 3))
    def read(self, data: st.DataObject, offset: int, limit: int) -> None:
        path = name = self.draw_name(data)
        lines = self.texts.get(name, "").splitlines(keepends=True)
        if name not in self.texts or offset > max(len(lines), 1):
            with pytest.raises(ToolExecutionError):
                self.desk.read(path, offset=offset, limit=limit)
            return
        found = self.desk.read(path, offset=offset, limit=limit)
        assert found["content"] == "".join(lines[offset - 1 : offset - 1 + limit])
        assert ("next" in found) == (offset - 1 + limit < len(lines))
        self.versions[name] = found["version"]

    @rule(pattern=PARTS.filter(lambda text: "\n" not in text))
    def search(self, pattern: str) -> None:
        found = [(match["path"], match["line"]) for match in self.desk.search(pattern)["matches"]]
        assert sorted(found) == sorted(
            (name, number)
            for name, text in self.texts.items()
            for number, line in enumerate(text.splitlines(), 1)
            if pattern in line
        )

    @invariant()
    def the_disk_is_the_dictionary(self) -> None:
        on_disk = {
            str(path.relative_to(self.desk.root)): path.read_text(encoding="utf-8")
            for path in self.desk.root.rglob("*")
            if path.is_file()
        }
        assert on_disk == self.texts
        assert {*self.desk.paths(depth=9)} == {*self.texts, *self.folders} - {"."}


TestFiles = FilesMachine.TestCase
TestFiles.settings = settings(max_examples=share_of(60), stateful_step_count=25)
