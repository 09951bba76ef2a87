"""What do errors say of files with hostile names, and of links to files that are no definitions?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig
from tool_engine.catalog.lint import lint_text
from tool_engine.cli.files.checking import check_files, print_checked

NAMES = ["a\nINFO forged.yaml", "a\r\x1b[2K.yaml", "a\u2028INFO.yaml", "a\u202elmay.yaml"]
GOOD = "name: y\ndescription: Does it.\n"
PRIVATE = "root:x:0:0:root:/root:/bin/bash\n"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["a: [", GOOD, GOOD + "handler: none_such\n", "name: y\nzz: 1\n"])
def test_a_name_forges_no_line(
    tmp_path: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file name with a line break or an escape is written out in errors and warnings.

    Looked at: load errors, also of two files of one name, findings, lint, what `validate` prints.
    """
    (tmp_path / name).write_text(text)
    (tmp_path / f"b{name}").write_text(text)
    loader = ToolConfigLoader()
    loader.load_directory(tmp_path)
    checked = check_files([str(tmp_path)], is_recursive=False)
    print_checked(checked, verbose=True)
    printed = capsys.readouterr().out
    told = [*(message for _, message in loader.load_errors), *printed.splitlines()]
    if text == GOOD:
        told += map(str, lint_text(text, str(tmp_path / name)))
    assert any("\\x0a" in each or "\\u20" in each or "\\x0d" in each for each in told)
    assert not any(line.startswith("INFO") for each in told for line in each.splitlines())
    assert not any("\x1b" in each or "\u202e" in each for each in told)


async def test_a_link_to_any_file_tells_nothing_of_it(tmp_path: Path) -> None:
    """A link in `tools/` to a file that is no definition does not show what the file says."""
    folder = tmp_path / "tools"
    folder.mkdir()
    texts = [
        PRIVATE,
        "root:x:0\nbash:x:1\n" * 45,
        "bash: x\nname: secretive\n",
        "a: [secretive",
        "\tsecretive",
    ]
    for number, text in enumerate(texts):
        elsewhere = tmp_path / f"passwd{number}"
        elsewhere.write_text(text)
        (folder / f"evil{number}.yaml").symlink_to(elsewhere)
    async with ToolEngine(ToolEngineConfig(tools_directory=str(folder))) as engine:
        told = [message for _, message in engine.load_errors]
    assert len(told) == len(texts)
    assert all(each.count("link out of") == len(each.splitlines()) == 1 for each in told)
    assert all("is a link out of its folder" in each for each in told)
    assert not any("bash" in each or "secretive" in each for each in told)


def test_a_link_in_the_folder_tells_what_is_wrong(tmp_path: Path) -> None:
    """Mounted configurations are links inside their folder: their errors say all."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "a.yaml").write_text("name: y\nzz: 1\n")
    (tmp_path / "a.yaml").symlink_to(tmp_path / "..data" / "a.yaml")
    loader = ToolConfigLoader()
    loader.load_directory(tmp_path)
    [(_, message)] = loader.load_errors
    assert "zz" in message


def test_a_link_to_a_definition_loads(tmp_path: Path) -> None:
    """A link to a right definition elsewhere is one."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "y.yaml").write_text(GOOD)
    (tmp_path / "tools" / "y.yaml").symlink_to(tmp_path / "y.yaml")
    assert [tool.name for tool in ToolConfigLoader().load_directory(tmp_path / "tools")] == ["y"]
