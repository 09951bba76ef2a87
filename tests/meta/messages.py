"""Which messages offer a cure? `python -m tests.meta.messages` writes reference/messages.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.meta.sources import PACKAGE, ROOT, tree

__all__ = ["PAGE", "page", "read_messages"]

PAGE = ROOT / "docs" / "reference" / "messages.md"
HOLE: Final = "…"
_HEAD = """# Messages

What the engine says when something is wrong, and what to do: each message that ends with a cure,
with … for what is put in. Search this page for the words that you see. The kinds of errors, and who
acts on which, stand in [Errors](errors.md); what has no words, in
[Troubleshooting](../how-to/troubleshooting.md).

The page is made from the code, and a test compares them: `python -m tests.meta.messages` writes it
anew.
"""
_PARTS: Final = {
    "Definitions and tool files": ("catalog", "model", "validation", "sources", "openapi"),
    "What tools run": ("executors", "mcp_servers", "backends"),
    "Calls, limits and tasks": ("admission", "calls", "background", "interfaces", "output"),
    "Consent, conversations and models": (
        *("approval", "session", "agent", "protocols", "integrations", "subagent.py"),
    ),
    "Records and events": ("knowledge", "events", "observability"),
    "Servers, tokens and MCP": ("server", "mcp_server", "access", "studio"),
    "The command line and tests of tools": ("cli", "testing"),
}
_REST: Final = "The engine and its settings"


def page() -> str:
    """The page as it has to be."""
    found: dict[str, set[tuple[str, str]]] = {part: set() for part in (*_PARTS, _REST)}
    for room, message, cure in read_messages():
        part = next((part for part, rooms in _PARTS.items() if room in rooms), _REST)
        found[part].add((message, cure))
    return "\n".join(
        [_HEAD, *(line for part, rows in found.items() for line in _table(part, rows))]
    )


def read_messages() -> Iterator[tuple[str, str, str]]:
    """The room, the message and the cure of each error and fault that is made with one."""
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0]
        for node in ast.walk(tree(file)):
            if not isinstance(node, ast.Call):
                continue
            texts = [text for text in map(_text, node.args) if len(text.replace(HOLE, "")) > 3]
            cure = next((_text(each.value) for each in node.keywords if each.arg == "cure"), "")
            if cure and texts:
                yield room, max(texts, key=len).removesuffix(f"; {cure}"), cure
            elif _makes_error(node.func):
                parts = (text.rpartition("; ") for text in texts)
                yield from (
                    (room, message, cure)
                    for message, _, cure in parts
                    if message and len(cure.replace(HOLE, "")) > 3
                )


def _table(title: str, rows: set[tuple[str, str]]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| message | what to do |"
    yield "|---|---|"
    yield from (f"| {_cell(message)} | {_cell(cure)} |" for message, cure in _in_order(rows))
    yield ""


def _in_order(rows: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """By the first words that are always the same."""
    return sorted(rows, key=lambda row: (row[0].lstrip(f"{HOLE} '\"`").lower(), row))


def _cell(text: str) -> str:
    """The text as code: its signs are no markup. A table's bar needs its backslash there, too."""
    shown = " ".join(text.split()).replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    return f"{fence} {shown} {fence}" if fence == "``" else f"{fence}{shown}{fence}"


def _makes_error(function: ast.expr) -> bool:
    name = getattr(function, "id", getattr(function, "attr", ""))
    return name.endswith(("Error", "Failure", "Refusal"))


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.JoinedStr):
        return "".join(
            _text(part) if isinstance(part, ast.Constant) else HOLE for part in value.values
        )
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
