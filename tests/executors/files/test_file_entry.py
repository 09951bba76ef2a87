"""What is found wrong with the entry of a file tool, and when?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.files.file_entry import check_entry, compile_entry
from tool_engine.executors.files.file_errors import explain_failure

if TYPE_CHECKING:
    from tests.executors.files.conftest import Desk


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        ({"root": None}, "entry.root", "is missing"),
        ({"root": 7}, "entry.root", "must be the path of a folder"),
        ({"root": " "}, "entry.root", "must be the path of a folder"),
        ({"root": "a\0"}, "entry.root", "must be the path of a folder"),
        ({"root": "{path}"}, "entry.root", "must not hold a {parameter}"),
        ({"root": "${x}"}, "entry.root", "write ${env:NAME}"),
        ({"root": "${file:/x}"}, "entry.root", "is a folder's path, not a secret; write it here"),
        ({"rot": "x"}, "entry.rot", "did you mean 'root'?"),
        ({"url": "x"}, "entry.url", "known are type, handler, root, config"),
        ({"config": 3}, "entry.config", "must be a mapping"),
        ({"config": {"max_byte": 3}}, "entry.config.max_byte", "did you mean 'max_bytes'?"),
        ({"config": {"max_bytes": 0}}, "entry.config.max_bytes", "between 1 and 67108864"),
        ({"config": {"max_bytes": True}}, "entry.config.max_bytes", "whole number"),
        ({"config": {"ignore": "*.log"}}, "entry.config.ignore", "a list of globs"),
    ],
)
def test_mistakes(desk: Desk, entry: dict[str, Any], path: str, message: str) -> None:
    """A mistake of the tool's author is found before the first call, with its place and cure."""
    tool = desk.tool("read_file", **entry)
    (problem,) = ExecutorRegistry().check(tool)
    assert problem.path == path
    assert message in problem.message
    with pytest.raises(DefinitionError, match=path):
        desk.run(tool, path="a.txt")


def test_parameters(desk: Desk) -> None:
    """A parameter that is needed and missing, or never read, is a mistake."""
    tool = desk.tool("write_file")
    renamed = [
        msgspec.structs.replace(
            each, name={"path": "file", "create_only": "create_onyl"}[each.name]
        )
        if each.name in ("path", "create_only")
        else each
        for each in tool.parameters
    ]
    problems = check_entry(msgspec.structs.replace(tool, parameters=renamed))
    assert [(each.path, each.message.partition(";")[0]) for each in problems] == [
        ("parameters", "write_file needs the parameter 'path'"),
        ("parameters.create_onyl", "write_file never reads 'create_onyl'"),
        ("parameters.file", "write_file never reads 'file'"),
    ]


def test_other_handler(desk: Desk) -> None:
    """The parameters of an executor of one's own are its own affair."""
    tool = desk.tool("read_file")
    own = msgspec.structs.replace(tool, implementation_config={"handler": "own", "root": "x"})
    assert check_entry(own) == []


def test_entry_is_read_once_per_definition(desk: Desk) -> None:
    """A reload reads the entry anew; a call does not."""
    entries = CompiledEntries(compile_entry)
    tool = desk.tool("read_file")
    assert entries.of(tool) is entries.of(tool)
    assert entries.of(desk.tool("read_file", root="other")).root.parts == ("other",)


def test_root_counts_from_the_definition(desk: Desk, tmp_path: Path) -> None:
    """A relative root does not depend on where the process was started."""
    desk.put("a.txt", "text")
    tool = desk.tool("read_file", root="../root", source=tmp_path / "outside/read_file.yaml")
    assert desk.run(tool, path="a.txt")["content"] == "text"


def test_root_of_a_definition_in_code(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file it counts from the working directory."""
    desk.put("a.txt", "text")
    monkeypatch.chdir(desk.outside)
    assert desk.run(desk.tool("read_file", root="../root"), path="a.txt")["content"] == "text"


def test_root_in_the_home(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder."""
    desk.put("a.txt", "text")
    monkeypatch.setenv("HOME", str(desk.root.parent))
    assert desk.run(desk.tool("read_file", root="~/root"), path="a.txt")["content"] == "text"


def test_root_from_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root may name environment variables; one that is not set stops the call."""
    desk.put("sub/a.txt", "text")
    tool = desk.tool("read_file", root="${env:SOME_ROOT}/sub")
    monkeypatch.setenv("SOME_ROOT", str(desk.root))
    assert desk.run(tool, path="a.txt")["content"] == "text"
    monkeypatch.setenv("SOME_ROOT", "")
    with pytest.raises(ToolExecutionError, match="SOME_ROOT is empty"):
        desk.run(tool, path="a.txt")
    monkeypatch.delenv("SOME_ROOT")
    with pytest.raises(ToolExecutionError, match="SOME_ROOT is not set"):
        desk.run(tool, path="a.txt")


@pytest.fixture
def definitions(desk: Desk, tmp_path: Path) -> Path:
    """A folder of definitions beside the root."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for handler in ("read_file", "write_file", "edit_file", "read_folder", "search_files"):
        text = ToolConfigLoader().export_to_yaml(desk.tool(handler, root="../root"))
        (folder / f"{handler}.yaml").write_text(text)
    return folder


async def test_through_the_engine(definitions: Path) -> None:
    """R8-R10: a folder of definitions is all that is needed, and the root counts from it."""
    config = ToolEngineConfig(tools_directory=str(definitions), auto_reload=False)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        calls = [
            ("write_file", {"path": "a.txt", "content": "one\n"}),
            ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"}),
            ("read_file", {"path": "a.txt"}),
            ("read_folder", {}),
            ("search_files", {"pattern": "^two$"}),
        ]
        results = [await engine.execute(name, params) for name, params in calls]
    assert [result.error for result in results] == [None] * 5
    assert results[2].output["content"] == "two\n"
    assert results[3].output["entries"] == [{"path": "a.txt", "type": "file", "size": 4}]
    assert results[4].output["matches"] == [{"path": "a.txt", "line": 1, "text": "two"}]


def test_usual_failures_have_words() -> None:
    """A failure that nobody foresaw still names the file and no path of the system."""
    assert str(explain_failure(OSError(), "a.txt")) == "'a.txt' cannot be used: input/output"
