"""How often does each folder use the words of the house's own idiom? The number may only fall."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

from tests.meta.sources import PACKAGE, modules, tree

IDIOM = re.compile(r"\b(?:somebody|nobody|whoever|anybody|told|tells|tell)\b", re.IGNORECASE)
MOST: dict[str, int] = {
    "sources": 4,  # the public parameter of `prepare`, once in an f-string: read from 3.12 on
}
"""By folder; one that is not here has none. Who brings a number down writes the new one here."""
MOST_BARE_NAMES = {
    "integrations": 2,  # `_run` and `_arun`, which tools of LangChain have
}
"""Private functions of one word, such as `_read`: a name has a verb and an object."""
MOST_ONE_WORDS: dict[str, int] = {
    "approval": 2,  # `decide` and `describe`, which pages of the docs use
    "cli": 1,
    "executors": 7,  # two `main`, `calculate`, and the operations of the calculator
    "logger.py": 1,
    "model": 1,
    "observability": 4,
}
"""The same of a module's own functions, but for those that a package exports."""


def folder_of(path: Path) -> str:
    """The folder or file directly in the package."""
    return path.relative_to(PACKAGE).parts[0]


def prose_of(path: Path) -> list[str]:
    """The docstrings and comments of a file, and the names in it."""
    text = path.read_text(encoding="utf-8")
    if IDIOM.search(text) is None:
        return []  # to take it apart takes long
    found = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.COMMENT, tokenize.NAME)
    ]
    found += [
        str(node.value.value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return found


def is_bare(name: str) -> bool:
    """Whether a function's name is private and one word."""
    return name.startswith("_") and not name.startswith("__") and "_" not in name[1:]


def count_idiom(paths: list[Path]) -> Counter[str]:
    """The words of the idiom in docstrings, comments and names, by folder."""
    counts: Counter[str] = Counter()
    for path in paths:
        if count := sum(len(IDIOM.findall(text)) for text in prose_of(path)):
            counts[folder_of(path)] += count
    return counts


def count_bare_names(paths: list[Path]) -> Counter[str]:
    """The private functions of one word, by folder."""
    return Counter(
        folder_of(path)
        for path in paths
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_bare(node.name)
    )


def count_one_words(paths: list[Path]) -> Counter[str]:
    """The functions of modules that are one word and that no package exports, by folder."""
    exported = {
        name
        for path in paths
        if path.name == "__init__.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    }
    return Counter(
        folder_of(path)
        for path in paths
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and "_" not in node.name
        and node.name not in exported
    )


def test_the_idiom_only_falls() -> None:
    """Docstrings, comments and names say it in plain English."""
    counts = count_idiom(modules())
    assert {name: count for name, count in counts.items() if count > MOST.get(name, 0)} == {}


def test_bare_names_only_fall() -> None:
    """A new function is called by what it does to what."""
    counts = count_bare_names(modules())
    most = MOST_BARE_NAMES
    assert {name: count for name, count in counts.items() if count > most.get(name, 0)} == {}


def test_one_words_only_fall() -> None:
    """What a module gives to others says in its name what it does to what, too."""
    counts = count_one_words(modules())
    most = MOST_ONE_WORDS
    assert {name: count for name, count in counts.items() if count > most.get(name, 0)} == {}


def test_what_counts(tmp_path: Path) -> None:
    """A message to a user may use the words; a docstring, a comment or a name may not."""
    assert IDIOM.findall("Nobody was told; foretells, teller") == ["Nobody", "told"]
    assert [name for name in ("_read", "_read_it", "read", "__init__") if is_bare(name)] == [
        "_read"
    ]
    file = tmp_path / "one.py"
    file.write_text('"""Tells."""\ntold = "nobody"  # whoever\n', encoding="utf-8")
    assert sorted(IDIOM.findall(" ".join(prose_of(file)))) == ["Tells", "told", "whoever"]
