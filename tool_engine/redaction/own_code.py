"""Which line of an author's own code raised?

A worker process loads this file by its path: it imports nothing of the engine.
"""

from __future__ import annotations

import re
import traceback
from typing import Final

_ENGINE: Final = __file__.rpartition("/redaction/")[0]
_PYTHON: Final = traceback.__file__.rpartition("/")[0]
_FOREIGN: Final = ("<", f"{_ENGINE}/", f"{_PYTHON}/")
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_PARTED: Final = re.compile(r"[/\\]")


def find_place(error: BaseException) -> str:
    """Return folder, file and line of it; empty: it is of none.

    Lines of Python, of installed packages and of the engine are passed over.
    """
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        file = frame.f_code.co_filename
        if not (file.startswith(_FOREIGN) or any(part in file for part in _INSTALLED)):
            return f"{'/'.join(_PARTED.split(file)[-2:])}:{line}"
    return ""
