"""What do models and people read of a server's tool, beside what it does and takes?

What a server writes for them may hold orders in letters that only a model sees. Values, such as
those of an enum, are left as they are: they are sent back.
"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.model.json.references import HOLD_LIST, HOLD_MANY, HOLD_ONE
from tool_engine.visible import escape_hidden, without_unseen

LONGEST_DESCRIPTION: Final = 4_000
"""Characters of a tool's description that are taken."""
_PROSE: Final = frozenset(("title", "description", "$comment"))
_DEEPEST: Final = 100
"""Levels of a schema that are looked at; one with more of them is no tool."""


def clean_texts(entry: dict[str, Any]) -> list[str]:
    """Leave out of a listed tool, in place, what of its words cannot be seen, and what is too long.

    Returns:
        What was left out.
    """
    notes: list[str] = []
    said = str(entry.get("description") or "")
    text = without_unseen(said)
    hidden = ["description"] if _is_hidden(said, text) else []
    if isinstance(title := entry.get("title"), str):
        # Where it is shown, it is one line.
        entry["title"] = " ".join(without_unseen(title).split())
        hidden += ["title"] if _is_hidden(title, without_unseen(title)) else []
    for key, what in (("inputSchema", "parameters"), ("outputSchema", "output")):
        schema = entry.get(key)
        cleaned = _clean_schema(schema, _DEEPEST)
        if cleaned is not schema:
            entry[key] = cleaned
            hidden.append(what)
    if hidden:
        notes.append(f"what cannot be seen in its {', '.join(hidden)} was left out")
    if len(text) > LONGEST_DESCRIPTION:
        notes.append(
            f"its description has {len(text):,} characters; what is behind the first "
            f"{LONGEST_DESCRIPTION:,} was left out"
        )
    entry["description"] = text[:LONGEST_DESCRIPTION]
    return notes


def _is_hidden(said: str, text: str) -> bool:
    # The selector of an emoji's form is no more than that.
    return text != said and escape_hidden(said, keeps_lines=True) != said


def _clean_schema(schema: Any, levels: int) -> Any:
    """Return a schema with words that can be seen; the very same where it has no others."""
    if type(schema) is list:
        cleaned = [_clean_schema(each, levels) for each in schema]
        return cleaned if any(map(_is_other, cleaned, schema)) else schema
    if type(schema) is not dict or not levels:
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _PROSE:
            new = without_unseen(value) if type(value) is str else value
            new = value if new == value else new
        elif key in HOLD_ONE or key in HOLD_LIST:
            new = _clean_schema(value, levels - 1)
        elif key in HOLD_MANY and type(value) is dict:
            named = {name: _clean_schema(each, levels - 1) for name, each in value.items()}
            new = named if any(map(_is_other, named.values(), value.values())) else value
        else:
            continue
        if new is not value:
            changed[key] = new
    return {**schema, **changed} if changed else schema


def _is_other(one: object, other: object) -> bool:
    return one is not other
