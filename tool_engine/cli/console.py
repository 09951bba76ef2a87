"""How does text get onto the terminal without harming it, and JSON out without noise?

What a tool returns comes from anywhere: no control character of it reaches a terminal, and no
square bracket of it is taken for markup.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

__all__ = ["json_text", "make_console", "plain", "print_json", "print_json_line", "visible"]

_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_JSON_CONTROL: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MAX_DEPTH: Final = 100
_WIDTH: Final = 80
_CONTAINERS: Final = (Mapping, list, tuple, set, frozenset)


def make_console(*, stderr: bool = False) -> Console:
    """A console that prints tables and nothing clever: no markup, emoji or highlighting."""
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.width:
        # COLUMNS=0: it would print nothing at all.
        console.width = _WIDTH
    return console


def visible(text: str) -> str:
    r"""`text` with the characters that would steer a terminal written out, such as `\x1b`."""
    return _CONTROL.sub(lambda match: _escape(match.group()), text)


def plain(value: str, style: str = "") -> Text:
    """`value` as it is, safe for a terminal."""
    return Text(visible(value), style=style, overflow="fold")


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """`value` as strict JSON; what JSON cannot hold becomes null (NaN) or its `repr`."""
    text = json.dumps(
        _to_json(value, 0), indent=indent, ensure_ascii=not _speaks_unicode(), allow_nan=False
    )
    return _JSON_CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def print_json(value: Any) -> None:
    """Prints one JSON document."""
    sys.stdout.write(json_text(value) + "\n")


def print_json_line(value: Any) -> None:
    """Prints one JSON document on a line of its own, at once."""
    sys.stdout.write(json_text(value, indent=None) + "\n")
    sys.stdout.flush()


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _to_json(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, _CONTAINERS):
        return _container_to_json(value, depth + 1) if depth < _MAX_DEPTH else "[too deep]"
    return repr(value)


def _container_to_json(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_json(item, depth) for key, item in value.items()}
    return [_to_json(item, depth) for item in value]
