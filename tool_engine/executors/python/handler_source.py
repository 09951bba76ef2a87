"""What does a module's source say about a handler, without running any of it?

A definition can be checked where its code must not run: by `tool-engine validate`, in an editor, in
a pipeline with definitions from strangers. What the source does not show, such as a decorator's
result, is found when the module is imported.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tool_engine.errors import ConfigurationError
from tool_engine.executors.handler import check_signature
from tool_engine.executors.python.importing import FINDER
from tool_engine.executors.python.project import PROJECT_FOLDER
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import Tool
from tool_engine.trusted import Kind, TrustedPath, is_below

_TRIES: Final = 3
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_FOLDERS: Final = 50
"""Folders of a project that are searched for a module."""
_NO_MODULE: Final = "; install the package, or add the folder that it is in to PYTHONPATH"
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_PLAIN: Final[dict[Any, str]] = {
    (ast.List, ast.ListComp): "a list",
    (ast.Dict, ast.DictComp): "a mapping",
    (ast.Set, ast.SetComp): "a set",
    ast.Tuple: "a tuple",
    ast.JoinedStr: "a text",
}


class SourceError(ValueError):
    """The handler cannot be what the definition says; the message names the cure."""


class ModuleSource:
    """The source of one module; `tree` is None for a module in C."""

    def __init__(self, module: str, tree: ast.Module | None) -> None:
        self._module = module
        self._tree = tree

    def check(self, name: str, tool: Tool) -> None:
        first = name.partition(".")[0]
        bound = {} if self._tree is None else dict(_bound_names(self._tree.body))
        if self._tree is not None and first not in bound:
            if not bound.keys() & {"*", "__getattr__"}:
                hint = suggest_near(first, bound) or "; define it there, or correct entry.handler"
                raise SourceError(f"the module {self._module} has no function {first!r}{hint}")
            return
        if first != name:
            return
        node = bound.get(first)
        what = _describe_plain(node) if node is not None else self._describe_loaded(first)
        if what:
            functions = [each for each, held in bound.items() if isinstance(held, _Function)]
            raise SourceError(
                f"{self._module}:{name} is {what}, and no function"
                f"{suggest_near(first, functions) or '; name a function of the module'}"
            )
        if isinstance(node, ast.ClassDef):
            raise SourceError(
                f"{self._module}:{name} is a class; name a function, or a method of an object: "
                f"{self._module}:object.method"
            )
        if isinstance(node, _Function) and not node.decorator_list:
            if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _walk_own(node)):
                raise SourceError(
                    f"the handler {name} is a generator; return the whole value instead"
                )
            try:
                check_signature(_read_signature(node), name, tool)
            except ConfigurationError as error:
                raise SourceError(str(error)) from None

    def list_functions(self) -> list[str]:
        """Return the names of its functions, without those that are its own business."""
        body = [] if self._tree is None else self._tree.body
        names = [each.name for each in body if isinstance(each, _Function)]
        return [name for name in names if not name.startswith("_")]

    def _describe_loaded(self, name: str) -> str:
        """Return what a name of a module that is loaded already is; empty if it may be called."""
        loaded = vars(sys.modules.get(self._module, builtins)).get(name)
        return "" if loaded is None or callable(loaded) else f"a {type(loaded).__name__}"


def source_of(module: str) -> ModuleSource:
    text = source_text(module)
    if text is None or len(text) > _MOST_BYTES:
        return ModuleSource(module, None)
    try:
        return ModuleSource(module, _parse_source(text))
    except SyntaxError as error:
        raise SourceError(
            f"line {error.lineno} of the module {module!r} is no valid Python: {error.msg}; "
            "correct it there"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"the module {module!r} is no valid Python: {error}") from None


def _parse_source(text: bytes) -> ast.Module:
    for _ in range(_TRIES):
        try:
            return ast.parse(text)
        except SystemError:
            # CPython 3.11 counts how deep it is for all threads together, and then it does not fit.
            continue
    return ast.parse(text)


def source_text(module: str) -> bytes | None:
    """Return the bytes of a module's file; None where it has no source."""
    spec = _find_spec(module)
    if spec is None:
        # Without this, finders do not see a file that was just written.
        importlib.invalidate_caches()
        spec = _find_spec(module)
    if spec is None:
        raise SourceError(
            f"there is no module {module!r} on Python's path{_suggest_module(module) or _NO_MODULE}"
        )
    if not spec.has_location or not (spec.origin or "").endswith(".py"):
        return None
    try:
        return Path(str(spec.origin)).read_bytes()
    except OSError as error:
        raise SourceError(f"the module {module!r} cannot be read: {error.strerror}") from None


def module_files(module: str) -> Iterator[TrustedPath]:
    """Yield where a module's code is, or would be found first. Blocks."""
    what = f"the code of the handlers in {module}"
    folders: list[str] = [folder or "." for folder in sys.path]
    done = ""
    for part in module.split("."):
        done = f"{done}.{part}" if done else part
        spec = _find_spec(done)
        for folder in _first_folders(folders, spec):
            for place in (Path(folder), Path(folder, "__pycache__")):
                yield TrustedPath(str(place / part), Kind.MODULE, what)
            for place in (Path(folder, part), Path(folder, part, "__pycache__")):
                yield TrustedPath(str(place / "__init__"), Kind.MODULE, what)
        if spec is not None and spec.has_location:
            # The file itself may be a link to one in another folder, under another name.
            yield TrustedPath(str(spec.origin), Kind.FILE, what)
        if spec is None or spec.submodule_search_locations is None:
            if (alias := _loaded_spec(module)) is not None and alias.has_location:
                yield TrustedPath(str(alias.origin), Kind.FILE, what)
            return
        folders = list(spec.submodule_search_locations)


def _first_folders(folders: list[str], spec: ModuleSpec | None) -> Iterator[str]:
    """Yield the folders that are searched, up to the one with the module."""
    origin = None if spec is None or not spec.has_location else str(spec.origin)
    for folder in folders:
        yield folder
        if origin is not None and is_below(os.path.realpath(origin), os.path.realpath(folder)):
            return


def _find_spec(module: str) -> ModuleSpec | None:
    """Find a module as `import` does, but import no package on the way."""
    # A module may have put another in its own place, as `os` does with `os.path`.
    if (loaded := _loaded_spec(module)) is not None:
        return loaded
    path: Any = None
    spec: ModuleSpec | None = None
    done = ""
    for part in module.split("."):
        done = f"{done}.{part}" if done else part
        spec = _known_spec(done, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and done != module:
            return None
    return spec


def _loaded_spec(name: str) -> ModuleSpec | None:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec if isinstance(spec, ModuleSpec) else None


def _known_spec(name: str, path: Any) -> ModuleSpec | None:
    if (loaded := _loaded_spec(name)) is not None:
        return loaded
    project = PROJECT_FOLDER.get()
    for finder in sys.meta_path:
        # The engine's own finder asks those after it, and ignores the project folder.
        find = None if finder is FINDER else getattr(finder, "find_spec", None)
        if finder is PathFinder and path is None and project is not None:
            path = [project, *sys.path]
        spec = None if find is None else find(name, path)
        if isinstance(spec, ModuleSpec):
            return spec
    return None


def _suggest_module(module: str) -> str:
    """Return the module that was meant, of the project before all others."""
    package, _, name = module.rpartition(".")
    if package and name == "py":
        return f"; write a module without the end of its file: {package!r}"
    holder = _find_spec(package) if package else None
    if package and holder is None:
        near = _suggest_module(package)
        return near.replace("'?", f".{name}'?")
    project = PROJECT_FOLDER.get() or str(Path.cwd())
    if not package and (there := _suggest_folder(project, name)):
        return there
    own = [project] if holder is None else [*(holder.submodule_search_locations or ())]
    # Of all that is installed, something is always somewhat alike.
    for folders, least in ((own, 0.6), (sys.path if holder is None else (), 0.8)):
        # By name: only who misspells a module needs it.
        found = importlib.import_module("pkgutil").iter_modules([*folders])
        if near := suggest_near(name, [each.name for each in found], like_enough=least):
            return near.replace("'", f"'{package}.", 1) if package else near
    return ""


def _suggest_folder(project: str, name: str) -> str:
    """Return the folder of the project that has the module, such as `src`."""
    for folder in islice(sorted(Path(project).glob("[!._]*/")), _MOST_FOLDERS):
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
            place = os.path.relpath(folder)
            return (
                f"; {place} has it: write `tool-engine --path {place} ...`, or add that folder to "
                "PYTHONPATH"
            )
    return ""


def _describe_plain(node: ast.AST) -> str:
    """Return what a literal is; empty for what may be a function."""
    if isinstance(node, ast.Constant):
        return f"the value {node.value!r}"[:80]
    return next((word for kind, word in _PLAIN.items() if isinstance(node, kind)), "")


def _bound_names(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST | None]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef | _Function):
            yield statement.name, statement
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.alias):
                yield (node.asname or node.name.partition(".")[0]), None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, None
            elif isinstance(node, ast.ClassDef | _Function):
                yield node.name, None
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            one = [statement.target] if isinstance(statement, ast.AnnAssign) else []
            for target in one or getattr(statement, "targets", []):
                if isinstance(target, ast.Name):
                    yield target.id, statement.value


def _walk_own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a function, without the functions and classes in it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, _Function | ast.Lambda | ast.ClassDef):
            yield each
            yield from _walk_own(each)


def _read_signature(node: _Function) -> inspect.Signature:
    found, parts = [], node.args
    plain = [*parts.posonlyargs, *parts.args]
    kinds = inspect.Parameter
    for number, each in enumerate(plain):
        is_only = number < len(parts.posonlyargs)
        kind = kinds.POSITIONAL_ONLY if is_only else kinds.POSITIONAL_OR_KEYWORD
        has_default = number >= len(plain) - len(parts.defaults)
        found.append(_make_parameter(each.arg, kind, has_default=has_default))
    if parts.vararg:
        found.append(_make_parameter(parts.vararg.arg, kinds.VAR_POSITIONAL))
    for each, default in zip(parts.kwonlyargs, parts.kw_defaults, strict=True):
        found.append(_make_parameter(each.arg, kinds.KEYWORD_ONLY, has_default=default is not None))
    if parts.kwarg:
        found.append(_make_parameter(parts.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(found)


def _make_parameter(name: str, kind: Any, *, has_default: bool = False) -> inspect.Parameter:
    return inspect.Parameter(name, kind, default=None if has_default else inspect.Parameter.empty)
