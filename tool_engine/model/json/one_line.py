"""How does a value that may be large read on one line?"""

from __future__ import annotations

import reprlib
from itertools import islice
from typing import Any, Final

_LONGEST: Final = 160


class _Short(reprlib.Repr):
    """A `reprlib.Repr` that keeps some of each mapping and list, and the ends of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, 120, 60, 40

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Show the first keys in their own order, unlike `reprlib`, which sorts."""
        if level <= 0:
            return "{…}"
        parts = [
            f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}"
            for key, value in islice(x.items(), self.maxdict)
        ]
        return f"{{{', '.join(parts)}{', …' if len(x) > self.maxdict else ''}}}"


_SHORT: Final = _Short()


def shorten_repr(value: Any) -> str:
    """Return the `repr` of a value on one line, short whatever its size."""
    text = " ".join(_SHORT.repr(value).splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def describe_result(result: Any) -> str:
    """Describe on one line how a call ended, from its `ToolExecutionResult`."""
    what = result.output if result.is_success else f"{result.error_type}: {result.error}"
    how = f"{result.outcome.value} in {result.execution_time * 1000:.3g} ms"
    return f"ToolExecutionResult({result.tool_name!r} {how}: {shorten_repr(what)})"
