"""Do the project's texts keep what no linter checks?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.meta.sources import ROOT, modules, project_files, tree

# One letter of each stands in brackets, so that this file does not find itself.
PLACES = re.compile(
    r"/[w]ork/|/[r]oot/[.]|/[o]pt/(pypi|wheels)|[p]ypi\.org|[p]ythonhosted"
    r"|(index-url|find-links)[ =]+(http|file|/)"
)
LATER = re.compile(r"#\s*(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b")
BARE_NOQA = re.compile(r"#\s*noqa(: *[A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*)?\s*$")

# A group, a repetition, and a sign that makes it possessive.
POSSESSIVE_GROUP = re.compile(r"[^(\\]\)(?:[*+?]|\{[0-9,]+\})\+")


def found(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """`file:line: text` of every line that matches."""
    places = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        places += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
            for number, line in enumerate(lines, 1)
            if pattern.search(line)
        ]
    return places


def test_no_machine_places() -> None:
    """No path of one machine and no address of a package registry is in any file."""
    assert found(PLACES, project_files()) == []


def test_nothing_left_for_later() -> None:
    """What is not done is no comment: it is done or it is an issue."""
    assert found(LATER, project_files()) == []


def test_no_file_stands_twice() -> None:
    """A copy drifts, or costs a test that it does not: one of each."""
    places: dict[bytes, list[str]] = {}
    for path in project_files():
        if content := path.read_bytes():
            places.setdefault(content, []).append(str(path.relative_to(ROOT)))
    assert [same for same in places.values() if len(same) > 1] == []


def test_lint_ignores_have_reasons() -> None:
    """Each lint ignore names its rule, and carries its reason on the line."""
    assert found(BARE_NOQA, [path for path in project_files() if path.suffix == ".py"]) == []


def test_no_possessive_groups() -> None:
    """Python 3.11 now and then matches what does not fit, where the repetition of a group is
    possessive (gh-101955); of a single character or class it is sound.
    """
    assert found(POSSESSIVE_GROUP, modules()) == []
    assert POSSESSIVE_GROUP.search(r"(?:a|b)*+")
    assert not POSSESSIVE_GROUP.search(r"[ab]*+ \)++ ()*+")


def test_module_docstring() -> None:
    """A module opens with a docstring that says which question the file answers."""
    assert [path for path in modules() if not ast.get_docstring(tree(path))] == []
