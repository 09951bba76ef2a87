"""Does each change of a folder lead to exactly the snapshot that the rules promise?"""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from tests.catalog.scanning import Folder, changes
from tool_engine.catalog.definition_files import FolderError, read_once
from tool_engine.catalog.folder import folder_reading as reload_module
from tool_engine.catalog.folder.folder_reading import Catalog
from tool_engine.catalog.folder.merging import FolderOutcome, merge_folder
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionProblem
from tool_engine.model.tool import Tool


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "tools"
    path.mkdir()
    return Folder(path)


def code_tool(name: str) -> Tool:
    return ToolConfigLoader().from_mapping({"name": name, "description": "from code"})


def test_added_modified_removed(folder: Folder) -> None:
    """U10, U11: each kind of change is told by name; any change of content counts."""
    folder.write("a.yaml", "a")
    folder.write("b.yaml", "b")
    assert changes(folder.scan()) == (["a", "b"], [], [])
    folder.write("a.yaml", "a", "other")
    (folder.path / "b.yaml").unlink()
    folder.write("c.yaml", "c")
    assert changes(folder.scan()) == (["c"], ["a"], ["b"])
    assert folder.index.get_or_raise("a").description == "other"
    assert changes(folder.scan()) == ([], [], [])
    assert "3 files" not in repr(folder.catalog)
    assert "2 files" in repr(folder.catalog)


def test_what_does_not_change_stays_the_same_value(folder: Folder) -> None:
    """U10: an untouched tool, or one that means the same, keeps what was compiled for it."""
    folder.write("a.yaml", "a")
    folder.scan()
    tool = folder.index.get("a")
    folder.put("a.yaml", "# a comment\nname: a\ndescription: 'd'\n")
    assert changes(folder.scan()) == ([], [], [])
    assert folder.index.get("a") is tool


def test_only_changed_files_are_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """K49: a look costs work for what changed."""
    for name in "abc":
        folder.write(f"{name}.yaml", name)
        os.utime(folder.path / f"{name}.yaml", (1, 1))
    folder.scan()
    read: list[str] = []
    original = read_once

    def counted(path: str) -> object:
        read.append(Path(path).name)
        return original(path)

    monkeypatch.setattr(reload_module, "read_once", counted)
    folder.scan()
    folder.write("b.yaml", "b", "other")
    folder.scan()
    assert read == ["b.yaml"]


def test_a_change_within_one_tick_of_the_clock_is_seen(folder: Folder) -> None:
    """U10: a file that is read the moment it is written is read again."""
    folder.write("a.yaml", "a", "one")
    os.utime(folder.path / "a.yaml", ns=(time.time_ns(), time.time_ns()))
    folder.scan()
    stamp = (folder.path / "a.yaml").stat().st_mtime_ns
    folder.write("a.yaml", "a", "two")
    os.utime(folder.path / "a.yaml", ns=(stamp, stamp))
    assert folder.scan().modified == ["a"]


@pytest.mark.parametrize("text", ["", "name: a\ndescription: d\nrate: [", "name: a\n"])
def test_a_file_that_breaks_keeps_its_tool(folder: Folder, text: str) -> None:
    """U12, U13: an empty, cut or wrong file keeps the last good tool, and is an error each time."""
    folder.write("a.yaml", "a")
    folder.scan()
    folder.put("a.yaml", text)
    for _ in range(2):
        outcome = folder.scan()
        assert changes(outcome) == ([], [], [])
        assert [Path(file).name for file, _ in outcome.errors] == ["a.yaml"]
        assert "a" in outcome.index
    folder.write("a.yaml", "a", "mended")
    outcome = folder.scan()
    assert (outcome.modified, outcome.errors) == (["a"], [])


def test_a_broken_file_that_goes_takes_its_tool_along(folder: Folder) -> None:
    """U12: what is kept for a file ends with the file."""
    folder.write("a.yaml", "a")
    folder.scan()
    folder.put("a.yaml", "")
    folder.scan()
    (folder.path / "a.yaml").unlink()
    assert changes(folder.scan()) == ([], [], ["a"])


def test_a_bad_file_never_stops_the_others(folder: Folder) -> None:
    """U13: what loads is there, what does not is reported."""
    folder.write("a.yaml", "a")
    folder.put("b.yaml", "\0")
    (folder.path / "c.yaml").symlink_to("nowhere")
    outcome = folder.scan()
    assert outcome.added == ["a"]
    assert [Path(file).name for file, _ in outcome.errors] == ["b.yaml", "c.yaml"]


def test_duplicates_at_first_load(folder: Folder) -> None:
    """U13: two files of one name are both refused, each error naming the other file."""
    folder.write("a.yaml", "x")
    folder.write("b.yaml", "x")
    outcome = folder.scan()
    assert outcome.index.list_names() == []
    (a, in_a), (b, in_b) = outcome.errors
    assert b in in_a
    assert a in in_b
    (folder.path / "b.yaml").unlink()
    assert folder.scan().added == ["x"]


def test_a_duplicate_on_reload(folder: Folder) -> None:
    """U13: a second file of a name changes nothing until one of the two goes, edits included."""
    folder.write("a.yaml", "x", "first")
    folder.scan()
    folder.write("b.yaml", "x", "second")
    folder.write("a.yaml", "x", "edited")
    outcome = folder.scan()
    assert changes(outcome) == ([], [], [])
    assert len(outcome.errors) == 2
    assert folder.index.get_or_raise("x").description == "first"
    (folder.path / "a.yaml").unlink()
    outcome = folder.scan()
    assert (outcome.modified, outcome.errors) == (["x"], [])
    assert folder.index.get_or_raise("x").description == "second"


def test_duplicates_that_replace_a_third(folder: Folder) -> None:
    """U13: when the file that a name came from is gone, two new claims leave nothing."""
    folder.write("a.yaml", "x")
    folder.scan()
    (folder.path / "a.yaml").unlink()
    folder.write("b.yaml", "x")
    folder.write("c.yaml", "x")
    outcome = folder.scan()
    assert outcome.removed == ["x"]
    assert len(outcome.errors) == 2


def test_a_broken_file_defends_its_name(folder: Folder) -> None:
    """U12, U13: another file does not get the name of a tool that is kept."""
    folder.write("a.yaml", "x", "first")
    folder.scan()
    folder.put("a.yaml", "name: [")
    folder.write("b.yaml", "x", "second")
    outcome = folder.scan()
    assert changes(outcome) == ([], [], [])
    assert folder.index.get_or_raise("x").description == "first"
    assert {Path(file).name for file, _ in outcome.errors} == {"a.yaml", "b.yaml"}


def test_a_renamed_file(folder: Folder) -> None:
    """U10: the same content under another file name is no change of the tool."""
    folder.write("a.yaml", "x")
    folder.scan()
    (folder.path / "a.yaml").rename(folder.path / "b.yaml")
    assert changes(folder.scan()) == ([], [], [])
    assert folder.index.get_or_raise("x").source == str(folder.path / "b.yaml")


def test_code_tools_survive(folder: Folder) -> None:
    """U11: a tool registered in code is kept, and a file of its name is an error."""
    tool = code_tool("x")
    folder.index = folder.index.with_tool(tool)
    folder.write("a.yaml", "x")
    folder.write("b.yaml", "y")
    outcome = folder.scan()
    assert outcome.added == ["y"]
    assert outcome.index.get("x") is tool
    ((file, message),) = outcome.errors
    assert Path(file).name == "a.yaml"
    assert "<code>" in message
    shutil.rmtree(folder.path)
    assert folder.scan().removed == ["y"]
    assert folder.index.list_names() == ["x"]


def test_the_folder_goes_and_comes(folder: Folder) -> None:
    """U11: a missing folder holds no file tools and is reported; made again, it is read again."""
    folder.write("a.yaml", "a")
    folder.scan()
    shutil.rmtree(folder.path)
    outcome = folder.scan()
    assert outcome.removed == ["a"]
    assert "does not exist" in outcome.errors[0][1]
    folder.path.mkdir()
    folder.write("a.yaml", "a")
    assert folder.scan().added == ["a"]


def test_a_folder_that_cannot_be_listed_keeps_its_tools(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U12: a fault of the file system is no reason to drop tools."""
    folder.write("a.yaml", "a")
    folder.scan()

    def fail(directory: str, *, recursive: bool) -> object:
        raise FolderError(f"{directory} {recursive}")

    monkeypatch.setattr(reload_module, "list_definitions", fail)
    outcome = folder.scan()
    assert outcome.index.list_names() == ["a"]
    assert outcome.errors == [(str(folder.path), f"{folder.path} False")]


def test_looks_do_not_overlap(folder: Folder) -> None:
    """K49: two looks from two threads both see the whole folder."""
    for number in range(50):
        folder.write(f"f{number}.yaml", f"t{number}")
    found: list[FolderOutcome] = []
    threads = [
        threading.Thread(target=lambda: found.append(folder.catalog.look())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [len(merge_folder(ToolIndex(), outcome).added) for outcome in found] == [50] * 4


def test_a_check_beyond_the_definition(folder: Folder) -> None:
    """U12: what the executor's own check finds keeps the last good tool like any other fault."""

    def check(tool: Tool) -> list[DefinitionProblem]:
        is_bad = tool.description == "bad"
        return [DefinitionProblem("no good", str(tool.source))] if is_bad else []

    folder.catalog = Catalog(folder.path, check=check)
    folder.write("a.yaml", "a")
    folder.scan()
    folder.write("a.yaml", "a", "bad")
    outcome = folder.scan()
    assert outcome.index.get_or_raise("a").description == "d"
    assert outcome.errors[0][1].endswith("no good")


def test_a_file_of_several_tools(folder: Folder) -> None:
    """U20: an edit that takes a document out takes its tool out; a broken one keeps them all."""
    a, b = "name: a\ndescription: d\n", "name: b\ndescription: d\n"
    folder.put("f.yaml", f"{a}---\n{b}")
    assert changes(folder.scan()) == (["a", "b"], [], [])
    kept = folder.index.get("b")
    folder.put("f.yaml", f"{b}---\n{a}---\nname: [")
    outcome = folder.scan()
    assert (changes(outcome), len(outcome.errors)) == (([], [], []), 1)
    folder.put("f.yaml", b)
    assert changes(folder.scan()) == ([], [], ["a"])
    assert folder.index.get("b") is kept
    folder.put("g.yaml", f"{a}---\n{b}")
    outcome = folder.scan()
    assert outcome.added == ["a"]
    assert {Path(file).name for file, _ in outcome.errors} == {"f.yaml", "g.yaml"}


def test_nothing_new_is_the_same_snapshot(folder: Folder) -> None:
    """K49: a look that finds nothing makes no new snapshot, and no new value of any tool."""
    folder.write("a.yaml", "a")
    index = folder.scan().index
    assert folder.scan().index is index
    folder.put("a.yaml", "name: a\ndescription: 'd'\n")
    assert folder.scan().index is index
    assert merge_folder(index, Catalog(folder.path).look()).index is index
