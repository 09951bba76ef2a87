"""Which tool-engine and which Python is this?"""

from __future__ import annotations

import platform
from importlib.metadata import version


def own_versions() -> dict[str, str]:
    """Return the versions that an engine and its workers must share."""
    return {"version": version("tool-engine"), "python": platform.python_version()}


def are_same(one: dict[str, str], other: dict[str, str]) -> bool:
    """Return whether workers of one can serve engines of the other: patches may differ."""
    minor, others = (each["python"].rpartition(".")[0] for each in (one, other))
    return one["version"] == other["version"] and minor == others
