"""Do several definitions in one text load as exactly their tools, or not at all?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError

ONE = "name: one\ndescription: The first.\n"
TWO = "name: two\ndescription: The second.\n"
LATE = "name: three\ndescription: d\nparameters: [{name: p, type: string, description: d}]\n"


@pytest.fixture
def loader() -> ToolConfigLoader:
    return ToolConfigLoader()


def refusal(text: str) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        ToolConfigLoader().load_tools(text, "x.yaml")
    return caught.value


def places(error: DefinitionError) -> list[tuple[int | None, str]]:
    return [(problem.line, problem.path) for problem in error.problems]


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}---\n{TWO}",
        f"---\n{ONE}---\n{TWO}",
        f"{ONE}...\n---\n{TWO}...\n",
        f"# first\n{ONE}--- # second\n{TWO}# the end\n",
        f"{ONE}---\n{TWO}".replace("\n", "\r\n"),
    ],
)
def test_tools_in_their_order(loader: ToolConfigLoader, text: str) -> None:
    """U20: `---` stands between the tools of a text; each is the tool that it is on its own."""
    tools = loader.load_tools(text, "x.yaml")
    assert tools == [loader.load_text(ONE, "x.yaml"), loader.load_text(TWO, "x.yaml")]


def test_one_tool(loader: ToolConfigLoader) -> None:
    """A text of one definition is a list of one tool."""
    assert loader.load_tools(ONE, "x.yaml") == [loader.load_text(ONE, "x.yaml")]
    assert loader.load_tools(ONE.encode())[0].source == "<text>"


def test_a_file_of_tools(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """Each tool of a file names the file."""
    file = tmp_path / "all.yaml"
    file.write_text(f"{ONE}---\n{TWO}", encoding="utf-8")
    tools = loader.load_file_tools(file)
    assert [(tool.name, tool.source) for tool in tools] == [("one", str(file)), ("two", str(file))]


@pytest.mark.parametrize("read", ["load_text", "load_file"])
def test_one_was_asked_for(loader: ToolConfigLoader, tmp_path: Path, read: str) -> None:
    """What reads one tool refuses several, where the second begins, and says what reads them."""
    file = tmp_path / "all.yaml"
    file.write_text(f"{ONE}---\n{TWO}", encoding="utf-8")
    with pytest.raises(DefinitionError, match="load_tools or load_file_tools") as caught:
        loader.load_file(file) if read == "load_file" else loader.load_text(file.read_bytes())
    assert (caught.value.line, len(caught.value.problems)) == (4, 1)


def test_all_faults_of_all_tools_at_once() -> None:
    """X6: one fault refuses the text; all of them are told, each with its line."""
    error = refusal(f"{ONE}tag: [a]\n---\n{TWO}---\nname: three\ndescription: d\nversion: 1.10\n")
    assert places(error) == [(3, "tag"), (10, "version")]


def test_faults_beside_a_broken_text() -> None:
    """X6: what YAML itself refuses hides nothing that is wrong elsewhere."""
    error = refusal(f"{ONE}tag: [a]\n---\n{TWO}name: again\n---\nname: three\n")
    assert places(error) == [(3, "tag"), (7, "name"), (9, "")]


def test_nothing_between_two_lines() -> None:
    """X6: a tool that was cut away between two `---` does not go unnoticed."""
    for text in (f"{ONE}---\n---\n{TWO}", f"{ONE}---\n", f"---\n---\n{ONE}"):
        assert "nothing after this ---" in str(refusal(text))
    assert "nothing after" not in str(refusal("---\n"))


def test_a_name_twice_in_a_file() -> None:
    """K3: two tools of a text cannot have one name; the message has both lines."""
    error = refusal(f"{ONE}---\n{TWO}---\n{ONE}")
    assert places(error) == [(7, "name")]
    assert "'one' is already defined on line 1" in str(error)


def test_a_name_that_is_no_name() -> None:
    """Only texts are compared; what is no name has its own error."""
    error = refusal("name: [a]\ndescription: d\n---\nname: [a]\ndescription: d\n---\n3\n")
    assert [problem.line for problem in error.problems] == [1, 4, 7]


def test_errors_are_bounded() -> None:
    """X6: a file of nothing but mistakes is told of in a bounded list, however it is wrong."""
    assert len(refusal("---\n" * 2000).problems) == MAX_PROBLEMS
    assert len(refusal("&a {x: 1}\n---\n" + "y: 1\n---\n" * 200).problems) == MAX_PROBLEMS


def test_a_directory_of_tools(loader: ToolConfigLoader, tmp_path: Path) -> None:
    """K3: a folder's files may hold several tools; a name that two files use is loaded from none,
    and the file's other tools are."""
    (tmp_path / "all.yaml").write_text(f"{ONE}---\n{TWO}", encoding="utf-8")
    (tmp_path / "late.yaml").write_text(f"{LATE}---\n{TWO}", encoding="utf-8")
    (tmp_path / "bad.yaml").write_text(f"name: four\ndescription: d\n---\n{ONE}x: 1", "utf-8")
    tools = loader.load_directory(tmp_path)
    assert [tool.name for tool in tools] == ["one", "three"]
    errors = {Path(file).name: message for file, message in loader.load_errors}
    assert sorted(errors) == ["all.yaml", "bad.yaml", "late.yaml"]
    assert "late.yaml" in errors["all.yaml"]
    assert "unknown key 'x'" in errors["bad.yaml"]
