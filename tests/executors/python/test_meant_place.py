"""Which function does a handler mean that is no `module:function`?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.executors.python.meant_place import find_place, is_path, word_place, write_place
from tool_engine.executors.python.project import PROJECT_FOLDER


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with modules of one function, of several, and of one with the tool's name."""
    folder = tmp_path / "shop_parts"
    folder.mkdir()
    (folder / "one.py").write_text("def _own(): ...\ndef look(text): ...\n", "utf-8")
    (folder / "more.py").write_text("def sell(): ...\nasync def buy(): ...\n", "utf-8")
    (folder / "named.py").write_text("def sell(): ...\ndef find_shop(): ...\n", "utf-8")
    PROJECT_FOLDER.set(str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "written", ["{}.{}", "{}/{}.py", "./{}/{}.py", "/else/{}/{}.py", "{}\\{}.py"]
)
def test_a_path_of_a_module_means_its_function(written: str) -> None:
    """A handler is often written as the path of its file, or without the function."""
    assert find_place(written.format("shop_parts", "one"), "find_shop") == "shop_parts.one:look"
    assert find_place(written.format("shop_parts", "named"), "find_shop") == (
        "shop_parts.named:find_shop"
    )
    several = find_place(written.format("shop_parts", "more"), "find_shop")
    assert several == "shop_parts.more:FUNCTION, with a function of that module: sell, buy"
    assert word_place(several) == f"write {several}"


@pytest.mark.usefixtures("project")
def test_a_dotted_function_is_one() -> None:
    """The last part is a function where no module has that name."""
    assert find_place("shop_parts.one.look", "t") == "shop_parts.one:look"
    assert find_place("no_parts.one.look", "t") == "no_parts.one:look"
    assert find_place("no_parts/one.py", "t") == "no_parts.one:FUNCTION"
    assert write_place("no_parts/one.py:look") == "no_parts.one:look"


@pytest.mark.parametrize("word", ["answer", "two words", "", "a-b", "https://x.y/z", "a.b-c"])
def test_other_words_are_no_paths(word: str) -> None:
    """They may be the names of executors."""
    assert not is_path(word)
    assert write_place(word) == ""
