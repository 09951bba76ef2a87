"""How large may a definition be, and how many faults are reported?"""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 1024 * 1024
"""Of one file."""
MAX_DEPTH: Final = 50
"""Levels of nesting."""
MAX_VALUES: Final = 20_000
"""Keys, scalars, lists and mappings of one document, with each alias counted as its value."""
MAX_VALUES_OF_FILE: Final = 100_000
"""The same, of all documents of one file."""
MAX_PROBLEMS: Final = 100
"""Reading stops after so many faults: no author reads more."""
LONGEST_NAME: Final = 128
"""Characters of a parameter's name."""
MAX_SCHEMAS: Final = 1000
"""Schemas within the `schema` keys of one definition."""
MAX_PATTERNS: Final = 300
"""Regular expressions of one definition: a hostile one takes milliseconds to compile."""
MAX_LARGE_PATTERNS: Final = 6
"""Those of them that take more than 256 KiB when compiled, such as `\\p{L}{1,100}`."""
MAX_PATTERN_LENGTH: Final = 10_000
"""Characters of one regular expression."""
