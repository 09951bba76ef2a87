"""Where are a project's own modules found, beside Python's path?

A command that only reads definitions must run nothing of the project, and so must not put its
folder on the path: later imports of the command could come from there.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

PROJECT_FOLDER: Final[ContextVar[str | None]] = ContextVar("project_folder", default=None)
"""The folder that is searched first for the source of handlers; None: only the path."""
