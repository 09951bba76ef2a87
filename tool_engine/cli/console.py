"""How do text and JSON reach the terminal without harm?

What a tool returns comes from anywhere: no control character of it reaches a terminal, and no
square bracket of it counts as markup.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tool_engine.model.json.free_key import text_key
from tool_engine.visible import deceptive_characters
from tool_engine.visible import escape_hidden as written_out

_MAX_DEPTH: Final = 100
_WIDTH: Final = 80
_CONTAINERS: Final = (Mapping, list, tuple, set, frozenset)
_kept: Final[list[TextIO]] = []
"""Where documents go, while what tools print goes elsewhere."""


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        for table in objects:
            if not isinstance(table, Table) or self.is_terminal:
                super().print(*objects, **options)
                return
            for line in _table_lines(table):
                self.file.write(
                    line.encode(self.encoding, "backslashreplace").decode(self.encoding)
                )


def _table_lines(table: Table) -> Iterator[str]:
    """Yield the rows of a table as lines for another program."""
    if table.title:
        yield f"{_cell_text(table.title)}\n"
    if table.show_header:
        yield "\t".join(_cell_text(column.header) for column in table.columns) + "\n"
    for row in zip(*(column.cells for column in table.columns), strict=True):
        yield "\t".join(map(_cell_text, row)) + "\n"


def _cell_text(value: Any) -> str:
    return " ".join(str(value).split())


def make_console(*, stderr: bool = False, is_drawn: bool = False) -> Console:
    """Return a console without markup, emoji or highlighting.

    Where it is no terminal, such as a pipe, a row of a table is one line, with tabs between, unless
    tables are to be drawn all the same.
    """
    kind = Console if is_drawn else _Console
    console = kind(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.width:
        # COLUMNS=0: rich would print nothing at all.
        console.width = _WIDTH
    return console


def safe_text(text: str) -> str:
    r"""Write out control and hidden characters, as `\x1b` is."""
    return written_out(text, keeps_lines=True)


def as_text(value: str, style: str = "") -> Text:
    """Return `value` unchanged, but safe for a terminal."""
    return Text(safe_text(value), style=style, overflow="fold")


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return strict JSON: NaN becomes null, other foreign values their `repr`."""
    text = json.dumps(
        _to_json(value, 0), indent=indent, ensure_ascii=not _speaks_unicode(), allow_nan=False
    )
    # Line breaks are only between members: JSON texts have none.
    return deceptive_characters().sub(
        lambda match: match[0] if match[0] == "\n" else json.dumps(match[0])[1:-1], text
    )


@contextlib.contextmanager
def prints_aside() -> Iterator[None]:
    """Send what tools print to stderr, and documents to stdout as ever."""
    _kept.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def print_json(value: Any) -> None:
    _find_stdout().write(json_text(value) + "\n")


def print_json_line(value: Any) -> None:
    stdout = _find_stdout()
    stdout.write(json_text(value, indent=None) + "\n")
    stdout.flush()


def flush_stdout() -> None:
    """Have what was printed read before the command ends."""
    _find_stdout().flush()


def _find_stdout() -> TextIO:
    return _kept[-1] if _kept else sys.stdout


def _speaks_unicode() -> bool:
    return (_find_stdout().encoding or "").lower().replace("-", "").startswith("utf")


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
        return {text_key(key, value): _to_json(item, depth) for key, item in value.items()}
    return [_to_json(item, depth) for item in value]


def announce_tools(count: int, url: str) -> None:
    """Say on standard error that a server is ready."""
    sys.stderr.write(f"serving {count} {'tool' if count == 1 else 'tools'} at {url}\n")
