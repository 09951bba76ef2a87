"""R9: a definition is checked against the source of its handler, and no line of it is run."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tool_engine.executors.python.handler_source import SourceError, source_of, source_text
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
Write = Callable[[str], str]

BOMB = "raise SystemExit('this line must not run')\n"


def test_a_module_that_stands_in_anothers_place(make: Make) -> None:
    """`os.path` is a module of another name, and `os` is no package."""
    source_of("os.path").check("join", make({}, "a"))
    with pytest.raises(SourceError, match=r"there is no module 'os\.paths'"):
        source_of("os.paths")


@pytest.mark.parametrize(
    "text",
    [
        "def f(text): ...",
        "async def f(text): ...",
        "def f(*, text, more=1): ...",
        "def f(**anything): ...",
        "def f(text, context): ...",
        "def f(*rest, text): ...",
        "def f(text=None): ...",
        "def f(text):\n  def g(): yield text\n  return list(g()), lambda: (yield)",
        "@decorate\ndef f(whatever): ...",
        "from elsewhere import f",
        "from elsewhere import *",
        "import a.b as f",
        "f = make()",
        "f: object = make()",
        "if x:\n    def f(a, b, c): ...",
        "try:\n    from a import f\nexcept ImportError:\n    f = None",
        "def __getattr__(name): ...",
    ],
)
def test_what_may_fit(text: str, make: Make, write: Write) -> None:
    """R9: what the source does not tell for certain is no mistake."""
    module = write(BOMB + text)
    source_of(module).check("f", make({}, "text"))
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def g(text): ...", "has no function 'f'"),
        ("def ff(text): ...", "did you mean 'ff'"),
        ("class f: ...", "is a class; name a function"),
        ("def f(txt): ...", r"does not take the declared parameter 'text'; it takes \(txt\)"),
        ("def f(): ...", "does not take the declared parameter 'text'"),
        ("def f(text, more): ...", "needs 'more', which the tool does not declare"),
        ("async def f(text, *, more): ...", "needs 'more'"),
        ("def f(text, /): ...", "by position only"),
        ("def f(a, b=1, /, *text): ...", "does not take the declared parameter 'text'"),
        ("def f(text): yield text", "f is a generator; return the whole value instead"),
        ("async def f(text):\n  for x in text:\n    yield x", "f is a generator"),
        ("def f(:", "is no valid Python"),
        ("x = '\0'", "is no valid Python"),
    ],
)
def test_what_does_not_fit(text: str, message: str, make: Make, write: Write) -> None:
    """R9: a mistake that the source shows is found without running it."""
    module = write(text)
    with pytest.raises(SourceError, match=message):
        source_of(module).check("f", make({}, "text"))
    assert module not in sys.modules


def test_optional_parameters(make: Make, write: Write) -> None:
    """R9: what a call may leave out needs a default in the tool or in the function."""
    tool = make({}, ToolParameter("text", "string"))
    source_of(write("def f(text='x'): ...")).check("f", tool)
    with pytest.raises(SourceError, match="which a call may leave out"):
        source_of(write("def f(text): ...")).check("f", tool)


def test_something_in_an_object(make: Make, write: Write) -> None:
    """R9: a method of an object of the module is a handler too; its object must be there."""
    module = write("class Kind:\n    def f(self): ...\nthing = Kind()\n")
    source_of(module).check("thing.f", make({}, "text"))
    with pytest.raises(SourceError, match="has no function 'thong'; did you mean 'thing'"):
        source_of(module).check("thong.f", make({}, "text"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f = 5", "is the value 5, and no function; name a function of the module"),
        ("f: list = [1]", "is a list, and no function"),
        ("f = {}\nef = f\ndef ff(text): ...", "is a mapping, and no function; did you mean 'ff'?"),
        ("def f(text): ...\nf = f'{f}'", "is a text, and no function"),
    ],
)
def test_what_is_no_function(text: str, words: str, make: Make, write: Write) -> None:
    """R9: a value in the handler's place is found before a call, and no line of it is run."""
    with pytest.raises(SourceError, match=re.escape(words)):
        source_of(write(BOMB + text)).check("f", make({}, "text"))


def test_what_is_loaded_is_known(make: Make) -> None:
    """R9: of a module without source that is loaded already, it is known what a name is."""
    with pytest.raises(SourceError, match="sys:path is a list, and no function"):
        source_of("sys").check("path", make({}, "text"))


def test_the_module_that_was_meant(write: Write, tmp_path: Path) -> None:
    """R9: of the project's modules and of all others, the nearest is named."""
    write("")
    inner = tmp_path / "package_near_test"
    inner.mkdir()
    (inner / "__init__.py").write_text(BOMB)
    (inner / "textual.py").write_text(BOMB)
    for wrong, near in (
        ("package_naer_test", "package_near_test"),
        ("package_near_test.textal", "package_near_test.textual"),
        ("package_naer_test.textual", "package_near_test.textual"),
        ("statistic", "statistics"),
    ):
        with pytest.raises(SourceError) as caught:
            source_of(wrong)
        assert str(caught.value).endswith(f"did you mean '{near}'?")
    assert "package_near_test" not in sys.modules


@pytest.mark.parametrize(
    "module", ["no_such_module_1", "json.no_such", "json.decoder.x", "no_such.deep.er"]
)
def test_no_module(module: str) -> None:
    """R9: a module that is not there is named, with the cure."""
    with pytest.raises(SourceError, match=f"there is no module '{module}'.*PYTHONPATH"):
        source_of(module)


def test_packages_are_not_imported(tmp_path: Path, make: Make, write: Write) -> None:
    """R9: the packages on the way to a module stay as they are: nothing of them runs."""
    inner = tmp_path / "package_of_test" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text(BOMB)
    (inner / "__init__.py").write_text(BOMB)
    (inner / "leaf.py").write_text(BOMB + "def f(text): ...")
    write("")
    source_of("package_of_test.inner.leaf").check("f", make({}, "text"))
    with pytest.raises(SourceError, match="has no function"):
        source_of("package_of_test.inner").check("f", make({}, "text"))
    assert "package_of_test" not in sys.modules


def test_modules_without_source(make: Make) -> None:
    """R9: what is written in C says nothing before it is imported."""
    for module in ("sys", "math", "time"):
        source_of(module).check("whatever", make({}, "text"))
        assert source_text(module) is None


def test_a_huge_file_is_not_read_as_python(make: Make, write: Write) -> None:
    """A source beyond all reason is left to the import."""
    long = "#" * (4 * 1024 * 1024)
    with pytest.raises(SourceError, match="has no function 'f'"):
        source_of(write(long)).check("f", make({}, "text"))
    source_of(write(f"{long}#")).check("f", make({}, "text"))


def test_a_file_that_is_gone(write: Write, tmp_path: Path) -> None:
    """R9: a module that was imported, and whose file is gone, is named."""
    module = write("")
    import_module(module)
    (tmp_path / f"{module}.py").unlink()
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        source_of(module)


def test_a_file_that_has_just_come(write: Write, tmp_path: Path) -> None:
    """K15: a module that is written after a look for it is found at the next look."""
    module = write("")
    source_of(module)
    (tmp_path / "come_lately_of_test.py").write_text("x = 1")
    assert source_text("come_lately_of_test") == b"x = 1"


def test_odd_finders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finder of an old kind on the path of imports is passed over."""
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    assert source_text("sys") is None
    assert b"def loads" in (source_text("json") or b"")


def test_depth_that_python_has_miscounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that parse at once make CPython 3.11 fail: it is done once more."""
    parse, failed = ast.parse, list[bool]()

    def fail_at_first(*words: Any, **options: Any) -> Any:
        if not failed:
            failed.append(True)
            raise SystemError("AST constructor recursion depth mismatch")
        return parse(*words, **options)

    monkeypatch.setattr(ast, "parse", fail_at_first)
    source_of("asyncio")
    assert failed
