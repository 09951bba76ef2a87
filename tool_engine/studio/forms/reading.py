"""Which arguments does a form hold that was filled in?"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tool_engine.protocols.arguments.strict_json import RefusedJSONError, read_json
from tool_engine.studio.forms.fields import is_base64, name_extra
from tool_engine.studio.forms.kinds import UNSET, Kind, Schema, find_kind, join_pointer

_ABSENT: Final = object()
_DEEPEST: Final = 60
_MOST_ENTRIES: Final = 2_000


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with one field."""

    pointer: str
    message: str


class Arguments(msgspec.Struct):
    """What a form says."""

    value: Any
    faults: list[Fault]
    """What could not be read; if there is anything, nothing is to be called."""


def take_files(fields: Mapping[str, str], files: Mapping[str, bytes]) -> dict[str, str]:
    """Return fields in which the contents of files are filled in.

    Args:
        fields: The fields, by name.
        files: The bytes of files that were chosen: of a field `f`, to be written in base64, or of
            `t`, to be read as text.

    Raises:
        ValueError: A file that is to be read as text is none.
    """
    taken = dict(fields)
    for name, data in files.items():
        letter, _, pointer = name.partition(":")
        is_text = letter == "t"
        text = data.decode() if is_text else base64.b64encode(data).decode()
        taken[f"v:{pointer}"] = text
    return taken


def read_arguments(schema: Schema, fields: Mapping[str, str]) -> Arguments:
    """Return the arguments that fields say; see `fill_fields`.

    Args:
        schema: The schema of all arguments.
        fields: The fields, by name.
    """
    reader = _Reader(schema, fields)
    value = reader.read_place(schema, "", is_needed=True, depth=0)
    return Arguments({} if value is _ABSENT else value, reader.faults)


class _Reader:
    def __init__(self, root: Schema, fields: Mapping[str, str]) -> None:
        self._root = root
        self._fields = fields
        self.faults: list[Fault] = []

    def read_place(self, schema: Any, pointer: str, *, is_needed: bool, depth: int) -> Any:
        raw = self._fields.get(f"j:{pointer}")
        if raw is not None:
            return self._read_raw(raw, pointer, is_needed)
        kind = find_kind(schema, self._root)
        if depth > _DEEPEST:
            return self._note_fault(pointer, "it nests too deep for a form; write it as JSON")
        if kind.name == "object":
            return self._read_object(kind.schema, pointer, is_needed, depth)
        if kind.name == "list":
            return self._read_list(kind.schema, pointer, is_needed, depth)
        if kind.name == "union":
            return self._read_union(kind, pointer, is_needed, depth)
        return self._read_leaf(kind, pointer, is_needed)

    def _read_raw(self, raw: str, pointer: str, is_needed: bool) -> Any:
        if not raw.strip():
            return self._leave_out(pointer, is_needed)
        try:
            return read_json(raw)
        except RefusedJSONError as error:
            return self._note_fault(pointer, f"this can be read in two ways, or in none: {error}")
        except (ValueError, RecursionError) as error:
            return self._note_fault(pointer, f"this is no JSON: {error}")

    def _read_object(self, schema: Schema, pointer: str, is_needed: bool, depth: int) -> Any:
        if f"o:{pointer}" not in self._fields and not is_needed:
            return _ABSENT
        needed = schema.get("required", ())
        found = {}
        for name, each in schema.get("properties", {}).items():
            place = join_pointer(pointer, name)
            value = self.read_place(each, place, is_needed=name in needed, depth=depth + 1)
            if value is not _ABSENT:
                found[name] = value
        further = schema.get("additionalProperties", True)
        for number in range(self._count_entries(f"x:{pointer}")):
            place = name_extra(pointer, number)
            name = self._fields.get(f"k:{place}", "")
            if name in found or name in schema.get("properties", {}):
                self._note_fault(place, f"there is a {name!r} already")
                continue
            value = self.read_place(further, place, is_needed=True, depth=depth + 1)
            if value is not _ABSENT:
                found[name] = value
        return found

    def _read_list(self, schema: Schema, pointer: str, is_needed: bool, depth: int) -> Any:
        if f"o:{pointer}" not in self._fields and not is_needed:
            return _ABSENT
        found = []
        for place in range(self._count_entries(f"n:{pointer}")):
            entry = schema.get("items", {})
            value = self.read_place(entry, f"{pointer}/{place}", is_needed=True, depth=depth + 1)
            if value is not _ABSENT:
                found.append(value)
        return found

    def _read_union(self, kind: Kind, pointer: str, is_needed: bool, depth: int) -> Any:
        chosen = self._fields.get(f"u:{pointer}", UNSET)
        if not chosen.isdecimal() or int(chosen) >= len(kind.options):
            if is_needed:
                self._note_fault(pointer, "choose which it is")
            return _ABSENT
        branch = kind.options[int(chosen)]
        return self.read_place(branch, pointer, is_needed=True, depth=depth + 1)

    def _read_leaf(self, kind: Kind, pointer: str, is_needed: bool) -> Any:
        text = self._fields.get(f"v:{pointer}", "")
        if kind.name == "file":
            return self._read_file(text, pointer, is_needed)
        if kind.name in ("integer", "number"):
            return self._read_number(kind.name, text.strip(), pointer, is_needed)
        if kind.name in ("boolean", "choice", "null"):
            return self._read_choice(kind, text, pointer, is_needed)
        # A browser sends lines as mail does.
        text = text.replace("\r\n", "\n")
        if kind.name != "json" and (text or f"e:{pointer}" in self._fields):
            return text
        return self._leave_out(pointer, is_needed)

    def _read_file(self, kept: str, pointer: str, is_needed: bool) -> Any:
        if kept and not is_base64(kept):
            return self._note_fault(pointer, "this is no base64")
        return kept or self._leave_out(pointer, is_needed)

    def _read_choice(self, kind: Kind, text: str, pointer: str, is_needed: bool) -> Any:
        if kind.name == "null" and (is_needed or text == "null"):
            return None
        if kind.name == "boolean" and text in ("true", "false"):
            return text == "true"
        if kind.name == "choice" and text.isdecimal() and int(text) < len(kind.options):
            return kind.options[int(text)]
        return self._leave_out(pointer, is_needed)

    def _read_number(self, kind: str, text: str, pointer: str, is_needed: bool) -> Any:
        if not text:
            return self._leave_out(pointer, is_needed)
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._note_fault(pointer, "write a number, such as 12 or 0.5")
        if value in (float("inf"), float("-inf")):
            return self._note_fault(pointer, "this number is too large")
        if kind == "integer" and value != value // 1:
            return self._note_fault(pointer, "write a whole number, such as 12")
        return value

    def _leave_out(self, pointer: str, is_needed: bool) -> Any:
        if is_needed:
            self._note_fault(pointer, "this is needed; fill it in")
        return _ABSENT

    def _note_fault(self, pointer: str, message: str) -> Any:
        self.faults.append(Fault(pointer, message))
        return _ABSENT

    def _count_entries(self, name: str) -> int:
        text = self._fields.get(name, "0")
        return min(int(text), _MOST_ENTRIES) if text.isdecimal() and len(text) < 6 else 0


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
