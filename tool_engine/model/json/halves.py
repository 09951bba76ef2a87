"""How is half of a surrogate pair written where only text can be?

Names of files that are not UTF-8 have such halves. No database takes them, and most readers of JSON
refuse a whole answer for one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tool_engine.model.json.free_key import free_key

_HALVES: Final = re.compile("[\ud800-\udfff]")


def has_half(text: str) -> bool:
    """Return True if half of a surrogate pair is in a text."""
    return not text.isascii() and _HALVES.search(text) is not None


def escape_halves(value: Any) -> Any:
    r"""Return JSON values with each half as its escape, which is six letters (`\ud800`).

    A key that becomes one that is there already gives way, with an apostrophe.
    """
    if isinstance(value, str):
        return value if value.isascii() else _HALVES.sub(_write_escape, value)
    if isinstance(value, dict):
        return _escape_mapping(value)
    if isinstance(value, list):
        return [escape_halves(each) for each in value]
    return value


def _escape_mapping(value: dict[Any, Any]) -> dict[Any, Any]:
    taken = {key for key in value if escape_halves(key) == key}
    copy = {}
    for key, each in value.items():
        name = escape_halves(key)
        if name != key:
            name = free_key(name, taken)
            taken.add(name)
        copy[name] = escape_halves(each)
    return copy


def _write_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
