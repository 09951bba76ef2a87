"""Are the public names complete, sorted and where the documents say?"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
from pathlib import Path
from types import FunctionType

import pytest

import tool_engine
from tests.meta.sources import PACKAGE, Function, module_name, modules, tree

FIXED = (
    "ConcurrencyConfig",
    "ConcurrencyMetrics",
    "Tool",
    "ToolCallRecord",
    "ToolCallSummary",
    "ToolCategory",
    "ToolConcurrencyController",
    "ToolConfigLoader",
    "ToolEngine",
    "ToolEngineConfig",
    "ToolEngineError",
    "ToolEngineEvent",
    "ToolEngineEventType",
    "ToolExecutionContext",
    "ToolExecutionResult",
    "ToolExecutor",
    "ToolKnowledgeStore",
    "ToolParameter",
    "ToolParameterValidator",
    "ToolSubAgent",
    "ValidationError",
    "ValidationResult",
)


def declared(path: Path) -> list[str] | None:
    """The module's `__all__`; None without one."""
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def defined(path: Path) -> set[str]:
    """The public classes and functions that the module itself defines."""
    return {
        node.name
        for node in tree(path).body
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")
    }


def order(name: str) -> tuple[int, str]:
    """Ruff's order (RUF022): constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def what_is_wrong(path: Path) -> str | None:
    """What a file's `__all__` lacks or has too much; None: it is as it should be."""
    names, public = declared(path), defined(path)
    if path.stem != "__init__":
        return None if names is None else "hands names on, which only a package does"
    if names is None:
        return "has no __all__" if public else None
    if names != sorted(set(names), key=order):
        return "is not sorted"
    if missing := public - set(names):
        return f"misses {missing}"
    module = importlib.import_module(module_name(path))
    absent = [name for name in names if not hasattr(module, name)]
    return f"names {absent}, which are not there" if absent else None


def test_all() -> None:
    """A package's `__all__` is sorted and names what exists; a name has one module to come from."""
    assert len(modules()) > 400
    assert {module_name(path): wrong for path in modules() if (wrong := what_is_wrong(path))} == {}


@pytest.mark.parametrize("name", FIXED)
def test_fixed_name(name: str) -> None:
    """K2: the documented names are importable from `tool_engine`."""
    assert name in tool_engine.__all__
    assert getattr(tool_engine, name).__name__ == name


def exported() -> list[str]:
    """What packages offer to users, as `package:Name`."""
    packages = [module_name(path) for path in PACKAGE.rglob("__init__.py")]
    return [
        f"{package}:{name}"
        for package in packages
        for name in getattr(importlib.import_module(package), "__all__", ())
    ]


def own_members(value: object) -> dict[str, object]:
    """The public methods and properties that a class of the project defines itself."""
    if not isinstance(value, type) or issubclass(value, enum.Enum):
        return {}
    return {
        name: member
        for name, member in vars(value).items()
        if not name.startswith("_")
        and isinstance(member, FunctionType | property | classmethod | staticmethod)
    }


def test_exported_docstrings() -> None:
    """What a package exports has a docstring, and so has each public method of it."""
    bare = []
    for place in exported():
        package, _, name = place.partition(":")
        value = getattr(importlib.import_module(package), name)
        if callable(value) and not str(getattr(value, "__module__", "")).startswith("tool_engine"):
            continue  # an alias of a type
        if callable(value) and not inspect.getdoc(value):
            bare.append(place)
        members = own_members(value)
        bare += [f"{place}.{each}" for each in members if not inspect.getdoc(getattr(value, each))]
    assert sorted(set(bare)) == []


def test_package_is_names_only() -> None:
    """`tool_engine/__init__.py` has imports, a sorted `__all__`, and what imports on first use."""
    path = PACKAGE / "__init__.py"
    docstring, *rest = tree(path).body
    assert isinstance(docstring, ast.Expr)
    others = [node for node in rest if not isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node).partition("\n")[0].partition(" =")[0] for node in others] == [
        "TYPE_CHECKING",
        "if TYPE_CHECKING:",
        "__all__",
        "_MODULES",
        "'Module -> its public names, loaded at their first use: `--help` needs none.'",
        "_find",
        "def _find_name(name: str) -> object:",
        "if not TYPE_CHECKING:",
        "def __dir__() -> list[str]:",
    ]
    names = declared(path)
    assert names is not None
    assert names == sorted(set(names), key=order)
    on_first_use = next(node for node in rest if isinstance(node, ast.If))
    imported = {
        alias.asname or alias.name
        for node in (*rest, *on_first_use.body)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tool_engine.")
        for alias in node.names
    }
    assert imported - {"find_later"} == set(names)
