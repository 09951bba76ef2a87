"""How do arguments become the fields of a form?

A field is named by a letter and the pointer of its value, such as `v:/city`:

- `v` what is filled in, `e` that a text is empty on purpose, `f` a file;
- `o` that a list or an object is there, `n` how many entries a list has;
- `x` how many further members an object has, and `k` their names;
- `u` which schema of a union is meant;
- `j` JSON, in the place of any of these.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.studio.forms.kinds import (
    Kind,
    Schema,
    find_kind,
    is_sendable,
    join_pointer,
)

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DEEPEST: Final = 60


def fill_fields(schema: Schema, arguments: Any) -> dict[str, str]:
    """Return the fields of a form that is filled in with arguments.

    Args:
        schema: The schema of all arguments.
        arguments: Any JSON value; what does not fit its schema is filled in as JSON.
    """
    return _Filler(schema).fill_place(schema, arguments, "", 0)


def name_extra(pointer: str, place: int) -> str:
    """Return the pointer of a member whose name is filled in, which no other one has."""
    return f"{pointer}/~2{place}"


def write_json(value: Any) -> str:
    """Return JSON that a browser sends back as it is."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if is_sendable(text) else json.dumps(value, indent=2)


class _Filler:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def fill_place(self, schema: Any, value: Any, pointer: str, depth: int) -> dict[str, str]:
        kind = find_kind(schema, self._root)
        found = None
        if kind.name != "json" and depth < _DEEPEST:
            found = self._fill_kind(kind, value, pointer, depth)
        return {f"j:{pointer}": write_json(value)} if found is None else found

    def _fill_kind(self, kind: Kind, value: Any, pointer: str, depth: int) -> dict[str, str] | None:
        """Return the fields of a value; None: its control cannot say it."""
        if kind.name == "list":
            return self._fill_list(kind.schema, value, pointer, depth)
        if kind.name == "object":
            return self._fill_object(kind.schema, value, pointer, depth)
        if kind.name == "union":
            return self._fill_union(kind, value, pointer, depth)
        if kind.name in ("text", "line", "date", "time", "moment"):
            return _fill_text(kind.name, value, pointer)
        text = _write_leaf(kind, value)
        return None if text is None else {f"v:{pointer}": text}

    def _fill_list(
        self, schema: Schema, value: Any, pointer: str, depth: int
    ) -> dict[str, str] | None:
        if not isinstance(value, list):
            return None
        fields = {f"o:{pointer}": "1", f"n:{pointer}": str(len(value))}
        for place, each in enumerate(value):
            entry = schema.get("items", {})
            fields |= self.fill_place(entry, each, f"{pointer}/{place}", depth + 1)
        return fields

    def _fill_object(
        self, schema: Schema, value: Any, pointer: str, depth: int
    ) -> dict[str, str] | None:
        if not isinstance(value, dict):
            return None
        known: Mapping[str, Any] = schema.get("properties", {})
        extra = [name for name in value if name not in known]
        if not all(map(is_sendable, extra)) or any("\n" in name for name in extra):
            return None
        if extra and schema.get("additionalProperties") is False:
            return None
        fields = {f"o:{pointer}": "1"}
        for name, each in value.items():
            if name in known:
                place = join_pointer(pointer, name)
                fields |= self.fill_place(known[name], each, place, depth + 1)
        if extra:
            fields[f"x:{pointer}"] = str(len(extra))
        for number, name in enumerate(extra):
            place = name_extra(pointer, number)
            fields[f"k:{place}"] = name
            further = schema.get("additionalProperties", True)
            fields |= self.fill_place(further, value[name], place, depth + 1)
        return fields

    def _fill_union(
        self, kind: Kind, value: Any, pointer: str, depth: int
    ) -> dict[str, str] | None:
        for number, branch in enumerate(kind.options):
            inside = find_kind(branch, self._root)
            if inside.name == "json" and number + 1 < len(kind.options):
                continue
            fields = self.fill_place(branch, value, pointer, depth + 1)
            is_raw = any(name.startswith("j:") for name in fields) and inside.name != "json"
            if not is_raw and _has_required(inside, value):
                return {f"u:{pointer}": str(number), **fields}
        return None


def _has_required(kind: Kind, value: Any) -> bool:
    return not isinstance(value, dict) or set(kind.schema.get("required", ())) <= value.keys()


def _fill_text(kind: str, value: Any, pointer: str) -> dict[str, str] | None:
    if not isinstance(value, str) or not is_sendable(value) or "\r" in value:
        return None
    if kind != "text" and "\n" in value:
        return None
    if kind == "date" and value and _DATE.fullmatch(value) is None:
        return None
    fields = {f"v:{pointer}": value}
    return fields if value else {**fields, f"e:{pointer}": "1"}


def _write_leaf(kind: Kind, value: Any) -> str | None:
    """Return the text of a value that is chosen or counted; None: it is no such value."""
    if kind.name == "null":
        return "null" if value is None else None
    if kind.name == "boolean":
        return json.dumps(value) if isinstance(value, bool) else None
    if kind.name == "choice":
        places = [at for at, each in enumerate(kind.options) if is_same_json(each, value)]
        return str(places[0]) if places else None
    if kind.name == "file":
        return value if isinstance(value, str) and value and is_base64(value) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (kind.name == "integer" and value != value // 1):
        return None
    return json.dumps(value)


def is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_same_json(one: Any, other: Any) -> bool:
    """Return True if two values are written the same: 1 is neither True nor 1.0."""
    return type(one) is type(other) and bool(one == other) and write_json(one) == write_json(other)
