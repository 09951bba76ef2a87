"""Which code runs when a handler's module is imported?

The bytes of its file at that moment, which are hashed and compiled: compiled code in `__pycache__`
may differ, and decides itself if it needs a check.

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Final


class OtherCodeError(ImportError):
    """The code of a module is not the code that was approved."""


_approved: Final[ContextVar[tuple[str, str | None]]] = ContextVar("approved", default=("", None))
"""The module that is being imported, and its approved hash."""


class _FromSource(SourceFileLoader):
    """A loader that compiles a module from the bytes that it hashes."""

    code_hash = ""

    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path)
        self.code_hash = hash_of(data)
        if _is_approved(fullname):
            _check_code(_approved.get(), self.code_hash)
        return self.source_to_code(data, self.path)


class _Finder(MetaPathFinder):
    """A finder like Python's that has some modules compiled from source."""

    def __init__(self) -> None:
        self._modules: set[str] = set()
        self._packages: set[str] = set()

    def take(self, module: str, *, with_package: bool) -> None:
        """Have a module, or all of its package, compiled from source."""
        self._modules.add(module)
        if with_package:
            self._packages.add(module.partition(".")[0])
        if sys.meta_path[:1] != [self]:
            sys.meta_path[:] = [self, *(each for each in sys.meta_path if each is not self)]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules and fullname.partition(".")[0] not in self._packages:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                _from_source(spec)
                return spec
        return None


FINDER: Final = _Finder()


def import_source(module: str, approved: str | None = None) -> ModuleType:
    """Import a module once in a process; raise `OtherCodeError` for unapproved code.

    With `approved`, the file must have this hash, now and when this process imported it.
    """
    FINDER.take(module, with_package=approved is not None)
    token = _approved.set((module, approved))
    try:
        found = importlib.import_module(module)
    finally:
        _approved.reset(token)
    check_running(module, approved)
    return found


def check_running(module: str, approved: str | None) -> None:
    running = running_hash(module)
    if running is not None:
        _check_code((module, approved), running)


def running_hash(module: str) -> str | None:
    """Return the hash of a module's file as compiled here; None if it was not."""
    loader = getattr(getattr(sys.modules.get(module), "__spec__", None), "loader", None)
    return getattr(loader, "code_hash", None) or None if type(loader) is _FromSource else None


def hash_of(data: bytes) -> str:
    """Return the hash of code, as lock files have it."""
    return f"sha256:{sha256(data).hexdigest()}"


def _from_source(spec: ModuleSpec) -> None:
    origin, is_approved = spec.origin, _is_approved(spec.name)
    is_source = spec.has_location and origin is not None and origin.endswith(".py")
    if origin is not None and is_source and (is_approved or type(spec.loader) is SourceFileLoader):
        spec.loader = _FromSource(spec.name, origin)
    elif is_approved:
        _check_code(_approved.get(), "")


def _is_approved(module: str) -> bool:
    return _approved.get()[0] == module and _approved.get()[1] is not None


def _check_code(expected: tuple[str, str | None], code: str) -> None:
    module, approved = expected
    if approved not in (None, code):
        raise OtherCodeError(
            f"the code of {module} is not the one that was approved: its file has changed, or this "
            "process had imported another one; await engine.reload(), and start the program anew "
            "if that does not help",
            name=module,
        )
