"""How are small pictures drawn with characters, even in ASCII?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII: Final = str.maketrans(
    {**dict(zip(_BARS, "..:-=+*#", strict=True)), "└": "`", "├": "|", "│": "|", "─": "-", "µ": "u"}
)


def draw_bars(values: Sequence[float]) -> str:
    """Return a bar per value, highest for the largest; 0: blank.

    Example:
        >>> draw_bars([0, 1, 4, 8])
        ' ▁▄█'
    """
    most = max(values, default=0)
    steps = len(_BARS)
    return "".join(
        _BARS[min(steps, -(-value * steps // most).__int__()) - 1] if value > 0 else " "
        for value in values
    )


def fit_encoding(text: str, console: Console) -> str:
    is_unicode = console.encoding.lower().replace("-", "").startswith("utf")
    return text if is_unicode else text.translate(_ASCII)
