"""Do file tools, and HTTP tools that save files, stay in the folder of their test?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.checked import cases_of, problems
from tool_engine.executors.executor_registry import BUILTIN_EXECUTORS, ENTRY_CHECKS
from tool_engine.testing.scratch import FILE_EXECUTORS

HEAD = """
name: tool
description: A tool.
category: file
parameters:
PARAMETERS
entry: {type: builtin, handler: HANDLER, root: "${env:WORKSPACE_OF_TEST}"}
tests:
"""
NAMES = {
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "edit_file": ("path", "old_text", "new_text"),
    "read_folder": ("path",),
    "search_files": ("pattern",),
}
SAVE = """
name: save
description: Saves.
category: http
parameters:
  - {name: name, type: string, required: true, description: Name}
entry:
  type: http
  request: {url: "https://x.example/{name}"}
  response: {save_to: {root: ../real, path: "{name}.txt", create_folders: true}}
tests:
  - params: {name: a}
    http: [{request: {url: "https://x.example/a"}, response: {body: hello}}]
"""


def tool(handler: str, tests: str) -> str:
    """A tool of `handler` with these tests."""
    lines = "\n".join(
        f"  - {{name: {name}, type: string, required: true, description: P}}"
        for name in NAMES[handler]
    )
    return HEAD.replace("PARAMETERS", lines).replace("HANDLER", handler) + tests


CASES = [
    ("read_file", "params: {path: a/b.txt}, files: {a/b.txt: x}", "expect_part: {content: x}"),
    ("write_file", "params: {path: b, content: y}, files: {a: x}", "expect_files: {a: x, b: y}"),
    ("write_file", "params: {path: b, content: y}", "expect_files: {b: y}"),
    (
        "edit_file",
        "params: {path: a, old_text: x, new_text: y}, files: {a: xx-}",
        "expect_error: {error_type: execution_error, message: replace_all}",
    ),
    (
        "edit_file",
        "params: {path: a, old_text: x, new_text: y}, files: {a: x-}",
        "expect_part: {replacements: 1}, expect_files: {a: y-}",
    ),
    ("read_folder", "params: {path: .}, files: {}", "expect_part: {entries: []}"),
    (
        "search_files",
        "params: {pattern: x+}, files: {a: xx}",
        "expect_part: {matches: [{path: a}]}",
    ),
    (
        "write_file",
        "params: {path: ../b, content: y}, files: {}",
        "expect_error: {error_type: execution_error, message: has '..' in it}",
    ),
    (
        "write_file",
        "params: {path: .git/config, content: y}, files: {.git/config: x}",
        "expect_error: execution_error, expect_files: {.git/config: x}",
    ),
]


@pytest.mark.parametrize(("handler", "given", "expected"), CASES)
async def test_a_file_tool_meets_the_files_of_its_test(
    handler: str, given: str, expected: str, tmp_path: Path
) -> None:
    """The rules of file tools hold; the root, and the variable that names it, are not asked."""
    text = tool(handler, f"  - {{{given}, {expected}}}\n")
    assert problems(await cases_of(tmp_path, text)) == []


async def test_each_test_begins_anew(tmp_path: Path) -> None:
    """What one test writes, the next does not see."""
    one = "  - {params: {path: a, content: y}, files: {}, expect_part: {created: true}}\n"
    assert problems(await cases_of(tmp_path, tool("write_file", one + one))) == []


async def test_a_difference_fails(tmp_path: Path) -> None:
    """A file that is not as expected, in a test that says nothing else."""
    tests = "  - {params: {path: a, content: y}, expect_files: {a: z, b: x}}\n"
    assert problems(await cases_of(tmp_path, tool("write_file", tests))) == [
        'expect_files.a: expected "z", got "y"',
        'expect_files.b: expected "x", there is no such file',
    ]


async def test_expected_files_do_not_hide_an_error(tmp_path: Path) -> None:
    """A test that says only which files there are wants the call to succeed."""
    tests = "  - {params: {path: ../a, content: y}, expect_files: {a: null}}\n"
    (problem,) = problems(await cases_of(tmp_path, tool("write_file", tests)))
    assert "got the error execution_error: '../a' has '..' in it" in problem


@pytest.mark.parametrize("handler", ["write_file", "edit_file"])
async def test_without_files_nothing_is_written(
    handler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real folder stays as it is, also where the test names it itself, and the cure is told."""
    real = tmp_path / "real"
    real.mkdir()
    (real / "a").write_text("x")
    monkeypatch.setenv("WORKSPACE_OF_TEST", str(real))
    params = (
        "path: a, content: y" if handler == "write_file" else "path: a, old_text: x, new_text: y"
    )
    test = f"  - {{params: {{{params}}}, env: {{WORKSPACE_OF_TEST: {real}}}, expect_part: {{}}}}\n"
    (problem,) = problems(await cases_of(tmp_path / "tools", tool(handler, test)))
    assert "'a' would be written to the real folder of the tool" in problem
    assert "files: {}" in problem
    assert (real / "a").read_text() == "x"
    assert len(list(real.iterdir())) == 1


async def test_without_files_reading_is_as_ever(tmp_path: Path) -> None:
    """A test may read what lies beside its definition."""
    test = (
        "  - {params: {path: t0.yaml}, env: {WORKSPACE_OF_TEST: .}, expect_part: {first_line: 1}}\n"
    )
    assert problems(await cases_of(tmp_path, tool("read_file", test))) == []


async def test_a_download_goes_to_the_folder_of_its_test(tmp_path: Path) -> None:
    """`save_to` of an HTTP tool: the file is there, and the real folder is not even made."""
    text = (
        f"{SAVE}    files: {{}}\n    expect_part: {{size: 5}}\n    expect_files: {{a.txt: hello}}\n"
    )
    assert problems(await cases_of(tmp_path / "tools", text)) == []
    assert not (tmp_path / "real").exists()


async def test_a_download_without_a_folder_is_refused(tmp_path: Path) -> None:
    """Nothing is sent for, nothing written."""
    (tmp_path / "real").mkdir()
    told = problems(await cases_of(tmp_path / "tools", f"{SAVE}    expect_part: {{size: 5}}\n"))
    assert any("'a.txt' would be written to the real folder" in problem for problem in told)
    assert list((tmp_path / "real").iterdir()) == []


async def test_files_that_nothing_uses_fail(tmp_path: Path) -> None:
    """A test whose files no tool has seen shows nothing about files."""
    text = (
        "name: echo\ndescription: E.\nentry: {type: builtin, handler: echo}\ntests:\n"
        "  - {params: {}, files: {a: x}, expect: {}}\n"
        "  - {params: {}, expect_files: {a: x}}\n"
    )
    told = problems(await cases_of(tmp_path, text))
    assert told[0].startswith("files: the tool used no folder; remove it")
    assert told[1].startswith('expect_files.a: expected "x", there is no such file')
    assert told[2].startswith("expect_files: the tool used no folder")


def test_every_file_executor_has_a_stand_in() -> None:
    """A file tool that is new must not reach the real folder in a test."""
    files = {name for name, place in ENTRY_CHECKS.items() if ".files." in place}
    assert set(FILE_EXECUTORS) == files
    for name in files:
        kind = FILE_EXECUTORS[name][0]
        assert BUILTIN_EXECUTORS[name] == f"{kind.__module__}:{kind.__name__}"
