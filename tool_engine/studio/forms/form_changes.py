"""What becomes of the fields of a form when a person adds, removes or opens a part of it?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_ACTION: Final = re.compile(r"(add|drop|open|close|extend):(.*)", re.DOTALL)
_NESTED: Final = "oenxkvujf"
"""The letters of fields that stand at a place or in it."""


def change_fields(fields: Mapping[str, str], action: str) -> dict[str, str]:
    """Return the fields after an action; one that is none changes nothing.

    Args:
        fields: The fields, by name.
        action: What a button says: `add:P` an entry to a list, `drop:P` an entry of one or a
            further member of an object, `open:P` and `close:P` what may be left out, `extend:P` an
            object by a further member.
    """
    found = _ACTION.fullmatch(action)
    if found is None:
        return dict(fields)
    word, pointer = found.groups()
    changed = dict(fields)
    if word == "add":
        changed[f"o:{pointer}"] = "1"
        changed[f"n:{pointer}"] = str(_count_at(fields, f"n:{pointer}") + 1)
    elif word == "extend":
        changed[f"x:{pointer}"] = str(_count_at(fields, f"x:{pointer}") + 1)
    elif word == "open":
        changed[f"o:{pointer}"] = "1"
    elif word == "close":
        changed = _take_out(changed, pointer)
    elif word == "drop":
        changed = _drop_entry(changed, pointer)
    return changed


def _drop_entry(fields: dict[str, str], pointer: str) -> dict[str, str]:
    """Take out an entry, and move those behind it up."""
    around, _, last = pointer.rpartition("/")
    is_extra = last.startswith("~2")
    mark, number = ("~2", last[2:]) if is_extra else ("", last)
    name = f"{'x' if is_extra else 'n'}:{around}"
    count = _count_at(fields, name)
    if not number.isdecimal() or int(number) >= count:
        return fields
    changed = _take_out(fields, pointer)
    for place in range(int(number) + 1, count):
        old, new = f"{around}/{mark}{place}", f"{around}/{mark}{place - 1}"
        changed = {_move_name(each, old, new): value for each, value in changed.items()}
    changed[name] = str(count - 1)
    return changed


def _take_out(fields: dict[str, str], pointer: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if not _is_inside(name, pointer)}


def _is_inside(name: str, pointer: str) -> bool:
    letter, _, place = name.partition(":")
    return letter in _NESTED and (place == pointer or place.startswith(pointer + "/"))


def _move_name(name: str, old: str, new: str) -> str:
    if not _is_inside(name, old):
        return name
    letter, _, place = name.partition(":")
    return f"{letter}:{new}{place[len(old) :]}"


def _count_at(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "0")
    return int(text) if text.isdecimal() and len(text) < 6 else 0
