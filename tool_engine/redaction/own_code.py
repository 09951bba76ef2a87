"""Which line of an author's own code raised?

A worker process loads this file by its path: it imports nothing of the engine.
"""

from __future__ import annotations

import re
import traceback
from types import TracebackType
from typing import Any, Final

_ENGINE: Final = __file__.rpartition("/redaction/")[0]
_PYTHON: Final = traceback.__file__.rpartition("/")[0]
_FOREIGN: Final = ("<", f"{_ENGINE}/", f"{_PYTHON}/")
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_PARTED: Final = re.compile(r"[/\\]")
_READ_TRACE: Final[Any] = BaseException.__dict__["__traceback__"].__get__
_READ_NAME: Final[Any] = type.__dict__["__name__"].__get__


def read_trace(error: BaseException) -> TracebackType | None:
    """Return its traceback, whatever its class makes of that name: a property may raise."""
    trace: TracebackType | None = _READ_TRACE(error)
    return trace


def read_name(kind: type) -> str:
    """Return the name of a class, whatever its own class makes of names."""
    name: str = _READ_NAME(kind)
    return name


def find_place(error: BaseException) -> str:
    """Return folder, file and line of it; empty: it is of none.

    Lines of Python, of installed packages and of the engine are passed over.
    """
    for frame, line in reversed([*traceback.walk_tb(read_trace(error))]):
        file = frame.f_code.co_filename
        if not (file.startswith(_FOREIGN) or any(part in file for part in _INSTALLED)):
            return f"{'/'.join(_PARTED.split(file)[-2:])}:{line}"
    return ""
