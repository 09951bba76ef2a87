"""What does a docstring say about a function and its parameters?"""

from __future__ import annotations

import docstring_parser


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the descriptions of a function and its parameters, by name."""
    parsed = docstring_parser.parse(text)
    parts = [part for part in (parsed.short_description, parsed.long_description) if part]
    about = {
        entry.arg_name: " ".join(entry.description.split())
        for entry in parsed.params
        if entry.description
    }
    return "\n\n".join(parts), about
