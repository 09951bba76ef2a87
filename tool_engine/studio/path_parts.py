"""How does any name stand in one part of a path?

Browsers resolve `..` before they ask, and much that stands between refuses `%2F`: a name that would
be more than a part, or none, stands there in letters that all leave alone.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from urllib.parse import quote

_MARK: Final = "~"
"""What the part of an odd name begins with."""
_ODD: Final = re.compile(r"~.*|\.{1,2}|.*[/\\].*", re.DOTALL)


def quote_part(name: str) -> str:
    """Return the part of an address that stands for a name."""
    return quote(write_part(name), safe="")


def write_part(name: str) -> str:
    """Return the part of a path that stands for a name, not quoted yet."""
    if _ODD.fullmatch(name) is None:
        return name
    return _MARK + urlsafe_b64encode(name.encode()).decode().rstrip("=")


def read_part(part: str) -> str:
    """Return the name that a part of a path stands for; one that is not of `write_part` itself."""
    if not part.startswith(_MARK):
        return part
    try:
        letters = part.removeprefix(_MARK).encode("ascii")
        return urlsafe_b64decode(letters + b"=" * (-len(letters) % 4)).decode()
    except ValueError:
        return part
