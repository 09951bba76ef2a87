"""Does the code keep to the layout and the sizes of docs/architecture.md?"""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from collections import Counter

import yaml

from tests.meta.sources import PACKAGE, ROOT, functions, modules, project_files, tree

MOST_LINES = 400
MOST_LINES_OF_A_CLASS = 600
"""Where one class of over 150 lines is what the file is about."""
LARGE_CLASS = 150
LONGEST_FUNCTION = 60
MEDIAN_FUNCTION = 10
MOST_OF_A_NAME = 2
"""A third file of one name is not found by its name."""

TOP_LEVEL = {
    ".ci",
    ".github",
    ".gitignore",
    ".pre-commit-hooks.yaml",
    "LICENSE",
    "Makefile",
    "README.md",
    "action.yml",
    "docs",
    "pyproject.toml",
    "requirements.lock",
    "tests",
    "tool_engine",
    "tools",
}


def is_about_one_class(text: str) -> bool:
    """Whether exactly one class of the file is large."""
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    large = [node for node in classes if (node.end_lineno or 0) - node.lineno > LARGE_CLASS]
    return len(large) == 1


def test_no_long_file() -> None:
    """A file of one class has at most 600 lines, any other 400: it is split by question."""
    too_long = {}
    for path in modules():
        text = path.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        most = MOST_LINES
        if lines > MOST_LINES and is_about_one_class(text):
            most = MOST_LINES_OF_A_CLASS
        if lines > most:
            too_long[str(path.relative_to(ROOT))] = lines
    assert too_long == {}


def test_function_lengths() -> None:
    """No function has more than 60 lines, and half of them have at most 10."""
    lengths = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": (
            (function.end_lineno or function.lineno) - function.lineno + 1
        )
        for path in modules()
        for function in functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
    assert statistics.median(lengths.values()) <= MEDIAN_FUNCTION


def test_no_vague_module() -> None:
    """A module is named after its noun: never utils, helpers, common, misc or base."""
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
    assert [path for path in modules() if path.stem.strip("_") in vague] == []


def test_names_of_files() -> None:
    """At most two files have one name: by it a stranger finds what is looked for."""
    names = Counter(path.name for path in modules() if not path.name.startswith("__"))
    assert {name: count for name, count in names.items() if count > MOST_OF_A_NAME} == {}


def test_the_layers_are_those_of_the_document() -> None:
    """What stands above what is said once to people and once to the linter: both say the same."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = text.split("```")[1].strip().splitlines()
    shown = [sorted(re.split(r" {2,}", line)[0].split(" | ")) for line in block]
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = [
        sorted(name.strip("()") for name in layer.split(" | "))
        for layer in reversed(linter["contracts"][0]["layers"])
    ]
    there = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    held = [names for layer in layers if (names := sorted(there.intersection(layer)))]
    assert shown == [names for names in held if names != ["__main__"]]


def test_top_level() -> None:
    """Nothing but the fixed entries stands at the root."""
    found = {path.relative_to(ROOT).parts[0] for path in project_files()}
    assert found - TOP_LEVEL == set()


def test_links_of_the_forge() -> None:
    """What a forge shows of `.github` leads to files that are there, and its forms are YAML."""
    for page in (ROOT / ".github").glob("*.md"):
        links = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == []
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert {path.name for path in forms} == {"bug.yml", "config.yml", "feature.yml"}
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert path.name == "config.yml" or {"name", "description", "body"} <= form.keys()


def test_tools_are_yaml_only() -> None:
    """`tools/` holds definitions and nothing else."""
    tools = [path for path in project_files() if path.is_relative_to(ROOT / "tools")]
    assert [path.name for path in tools if path.suffix not in {".yaml", ".yml"}] == []


def test_typed() -> None:
    """The package carries `py.typed`, so that type checkers use its hints."""
    assert (PACKAGE / "py.typed").is_file()


def name_of(base: ast.expr) -> str:
    """The last name of a base class, such as `ABC` of `abc.ABC` and `Base` of `Base[T]`."""
    base = base.value if isinstance(base, ast.Subscript) else base
    return ast.unparse(base).rpartition(".")[2]


def test_no_object_over_several_files() -> None:
    """An abstract class that only one other file of its folder completes hides a circle: what it
    needs is given to it, or it stands with what completes it.
    """
    homes: dict[str, str] = {}
    heirs: dict[str, set[str]] = {}
    for path in modules():
        file = str(path.relative_to(PACKAGE))
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                bases = {name_of(base) for base in node.bases}
                if "ABC" in bases:
                    homes[node.name] = file
                for base in bases:
                    heirs.setdefault(base, set()).add(file)
    alone = {
        name: (home, *heirs[name])
        for name, home in homes.items()
        if len(heirs.get(name, ())) == 1
        and home not in heirs[name]
        and {home.partition("/")[0]} == {each.partition("/")[0] for each in heirs[name]}
    }
    # This one is left, in `protocols/`; no other may come.
    assert alone.keys() <= {"CodeRegions"}, alone
