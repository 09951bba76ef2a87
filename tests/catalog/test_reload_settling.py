"""Is a file that is being written waited for, and what can be told when its stamp tells nothing?"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from tests.catalog.scanning import Folder, changes
from tool_engine.catalog import definition_files as folder_module
from tool_engine.catalog.definition_files import Contents, FileStamp, read_once
from tool_engine.catalog.folder import folder_reading as reload_module
from tool_engine.catalog.folder.folder_reading import Catalog
from tool_engine.errors import DefinitionProblem
from tool_engine.model.tool import Tool

COMES_LAST = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "tools"
    path.mkdir()
    return Folder(path)


def test_a_file_in_the_making_is_waited_for(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: a writer that pauses between two writes is waited for."""
    folder.write("a.yaml", "a")
    folder.scan()
    rest = iter(["name: b\n", "name: b\ndescription: half", "name: b\ndescription: half done\n"])
    folder.put("b.yaml", "n")
    sleep = time.sleep

    def write_more(seconds: float) -> None:
        sleep(seconds / 2)
        if (text := next(rest, None)) is not None:
            folder.put("b.yaml", text)

    monkeypatch.setattr(time, "sleep", write_more)
    outcome = folder.scan()
    assert (outcome.added, outcome.errors) == (["b"], [])
    assert folder.index.get_or_raise("b").description == "half done"


def test_a_file_that_never_settles_does_not_block(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: waiting is bounded; then the file is an error, and the last good tool stays."""
    folder.write("b.yaml", "b", "good")
    folder.write("c.yaml", "c")
    folder.scan()
    sizes = iter(range(1, 9999))
    sleep = time.sleep

    def write_more(seconds: float) -> None:
        sleep(min(seconds, 0.005))
        folder.write("b.yaml", "b", "x" * next(sizes))

    write_more(0)
    folder.write("c.yaml", "c", "edited")
    monkeypatch.setattr(time, "sleep", write_more)
    outcome = folder.scan()
    assert outcome.modified == ["c"]
    ((file, message),) = outcome.errors
    assert (Path(file).name, "is being written" in message) == ("b.yaml", True)
    assert folder.index.get_or_raise("b").description == "good"
    monkeypatch.undo()
    folder.write("b.yaml", "b", "last")
    assert folder.scan().errors == []
    assert folder.index.get_or_raise("b").description == "last"


def test_without_patience_a_busy_file_is_unsettled(folder: Folder) -> None:
    """U12: who looks again soon is told of the file; nobody else need hear of it."""
    folder.scan()
    folder.write("a.yaml", "a")
    path = str(folder.path / "a.yaml")
    look = folder.catalog.look
    before = look(patience=0.0, settle=60.0)
    assert before.unsettled == {path}
    assert (before.errors, len(before.claims)) == ([], 0)
    assert look([], patience=0.0, settle=0.0).unsettled == frozenset()
    after = look([path], patience=0.0, settle=0.0)
    assert not after.unsettled
    assert after.claims.list_names() == ["a"]
    assert after.version != before.version
    assert look(patience=0.0).version == after.version
    folder.write("a.yaml", "a", "edited")
    look(patience=0.0, settle=60.0)
    (folder.path / "a.yaml").unlink()
    gone = look(patience=0.0, settle=60.0)
    assert (gone.unsettled == {path}, gone.claims.list_names()) == (True, ["a"])
    assert look([path], patience=0.0, settle=0.0).claims.list_names() == []
    folder.write("b.yaml", "b")
    look(patience=0.0, settle=60.0)
    (folder.path / "b.yaml").unlink()
    assert look(patience=0.0, settle=60.0).unsettled == frozenset()


def test_a_file_that_is_open_is_left_alone(folder: Folder) -> None:
    """U12: what somebody is known to have open for writing is not read."""
    folder.scan()
    folder.write("a.yaml", "a")
    path = str(folder.path / "a.yaml")
    folder.catalog.arrivals.is_open = lambda asked: asked == path
    assert folder.catalog.look(patience=0.0).unsettled == {path}
    folder.catalog.arrivals.is_open = lambda asked: False
    assert folder.scan().added == ["a"]


def test_patience_is_not_spent_on_other_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that rests by the time the others are read is read, however long they take."""
    monotonic, read = time.monotonic, []

    def take_long(tool: Tool) -> list[DefinitionProblem]:
        read.append(tool.name)
        return []

    catalog = Catalog(folder.path, check=take_long)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + (100 if "z" in read else 0))
    catalog.arrivals.is_open = lambda path: path.endswith("a.yaml") and "z" not in read
    folder.write("a.yaml", "a")
    folder.write("z.yaml", "z")
    outcome = catalog.look()
    assert (outcome.errors, outcome.claims.list_names()) == ([], ["a", "z"])


def test_what_changes_between_reading_and_the_last_look(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: a file that is replaced, or written to, while it is read counts as it is afterwards."""
    folder.write("a.yaml", "a", "one")
    original, texts = read_once, iter(["two", "three"])

    def interrupted(path: str) -> object:
        contents = original(path)
        if (text := next(texts, None)) is not None:
            folder.write("new", "a", text)
            (folder.path / "new").replace(path)
        return contents

    monkeypatch.setattr(reload_module, "read_once", interrupted)
    assert folder.scan().added == ["a"]
    assert folder.index.get_or_raise("a").description == "three"


def test_a_file_that_goes_before_it_was_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K49: a file that comes and goes during one look leaves nothing."""
    folder.write("a.yaml", "a")

    def vanish(path: str) -> object:
        contents = read_once(path)
        Path(path).unlink()
        return contents

    monkeypatch.setattr(reload_module, "read_once", vanish)
    outcome = folder.scan()
    assert (changes(outcome), outcome.errors) == (([], [], []), [])


def test_a_folder_is_not_gone_while_another_takes_its_place(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U11: between two renames there is no folder, and its tools stay."""
    folder.write("a.yaml", "a")
    folder.scan()
    folder.path.rename(folder.path.with_name("aside"))
    sleep = time.sleep

    def come_back(seconds: float) -> None:
        sleep(seconds)
        folder.path.with_name("aside").rename(folder.path)

    monkeypatch.setattr(time, "sleep", come_back)
    outcome = folder.scan()
    assert (changes(outcome), outcome.errors) == (([], [], []), [])


def test_a_clock_that_counts_whole_seconds(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """U10: where a write may leave the stamp as it is, the file is read again until it is old."""
    hides = True
    monkeypatch.setattr(FileStamp, "may_hide_a_change", lambda stamp: hides)
    stamp = FileStamp(1, 1, 1, 1)
    monkeypatch.setattr(folder_module, "_make_stamp", lambda state: stamp)
    monkeypatch.setattr(
        folder_module, "_read_contents", lambda path: Contents(read_bytes(path), stamp)
    )

    def read_bytes(path: str) -> bytes:
        return Path(path).read_bytes()

    folder.write("a.yaml", "a", "one")
    folder.scan()
    version = folder.catalog.look().version
    assert folder.catalog.look().version == version
    folder.write("a.yaml", "a", "two")
    assert folder.scan().modified == ["a"]
    hides = False
    folder.scan()
    folder.write("a.yaml", "a", "not told from two")
    assert folder.scan().modified == []
    assert folder.catalog.look([str(folder.path / "a.yaml")]).version != version
    assert folder.scan().modified == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_permission_lost_and_regained_as_root() -> None:
    """U12: a file, and a folder, that must not be read keeps its tools until it may be again."""
    place = Path(tempfile.mkdtemp())
    os.chown(place, COMES_LAST, COMES_LAST)
    try:
        os.seteuid(COMES_LAST)
        _lose_permission(Folder(place))
    finally:
        os.seteuid(0)
        shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_lost_and_regained(folder: Folder) -> None:
    """U12: a file, and a folder, that must not be read keeps its tools until it may be again."""
    _lose_permission(folder)


def _lose_permission(folder: Folder) -> None:
    folder.write("a.yaml", "a")
    folder.scan()
    for path, mode in [(folder.path / "a.yaml", 0o644), (folder.path, 0o755)]:
        for taken in (0o000, mode & 0o444):
            path.chmod(taken)
            outcome = folder.scan()
            assert changes(outcome) == ([], [], [])
            is_refused = taken == 0 or path == folder.path
            assert bool(outcome.errors) == is_refused
            path.chmod(mode)
            assert folder.scan().errors == []


def test_a_renamed_file_is_never_missed(folder: Folder) -> None:
    """U12: a look that waits for nothing finds the tools of a file under its new name at once."""
    folder.write("a.yaml", "a", "good")
    folder.scan()
    names = ["b.yaml", "c.yaml", "a.yaml", "b.yaml"]
    old = Path(folder.path / "a.yaml")
    for name in names:
        old = old.rename(folder.path / name)
        found = folder.catalog.look(settle=60.0, patience=0.0)
        assert [tool.name for file in found.files for tool in file.tools] == ["a"], name
        assert found.unsettled == frozenset()
    old.write_text(old.read_text().replace("good", "other"))
    old = old.rename(folder.path / "d.yaml")
    found = folder.catalog.look(settle=60.0, patience=0.0)
    assert found.unsettled == {str(folder.path / "b.yaml"), str(old)}, "it was written, too"
    assert [tool.name for file in found.files for tool in file.tools] == ["a"]
