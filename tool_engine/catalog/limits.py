"""How large may a definition be, and how much is said about a wrong one?"""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_PROBLEMS", "MAX_VALUES"]

MAX_BYTES: Final = 1024 * 1024
"""Of one file."""
MAX_DEPTH: Final = 50
"""Levels of nesting."""
MAX_VALUES: Final = 100_000
"""Scalars, lists and mappings, all told."""
MAX_PROBLEMS: Final = 100
"""Reading stops after so many: nobody reads more, and each costs a search for its path."""
