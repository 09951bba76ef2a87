"""Which extra brings a package that a command needs and does not find?"""

from __future__ import annotations

from typing import Final

_EXTRAS: Final = {
    "postgres": ("asyncpg",),
    "sql": ("aiosqlite", "sqlalchemy"),
    "mcp": ("mcp", "mcp_types"),
    "server": ("h11", "jinja2", "jwt", "multipart", "python_multipart", "starlette", "uvicorn"),
    "ray": ("ray",),
}
"""Extra -> its packages that modules of the engine import without a sentence of their own."""


def explain_missing_package(error: ModuleNotFoundError) -> str | None:
    """Return what to install; None: the package is of no extra."""
    name = (error.name or "").partition(".")[0]
    for extra, packages in _EXTRAS.items():
        if name in packages:
            return f"{name} is not installed: pip install 'tool-engine[{extra}]'"
    return None
