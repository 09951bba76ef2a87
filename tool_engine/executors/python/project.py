"""Where are a project's own modules looked for, beside Python's path?

A command that only reads definitions must run nothing of the project, and so must not put its
folder on the path: what the command imports later could come from there.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

__all__ = ["PROJECT_FOLDER"]

PROJECT_FOLDER: Final[ContextVar[str | None]] = ContextVar("project_folder", default=None)
"""The folder in which the source of handlers is looked for first; None: on the path only."""
