"""Which controls does a form show for a schema, filled in as its fields say?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.studio.forms.fields import name_extra
from tool_engine.studio.forms.kinds import (
    UNSET,
    Kind,
    Schema,
    find_kind,
    join_pointer,
)
from tool_engine.studio.forms.reading import Fault

_MOST_CONTROLS: Final = 3_000
"""Of one form; what is beyond is written as JSON."""
_OPENED: Final = 8
"""Levels that are open by themselves where they are needed."""
_DEEPEST: Final = 60
_LONGEST_NAME: Final = 60


class Control(msgspec.Struct):
    """What is filled in at one place."""

    kind: str
    """As in `Kind`; `raw` is JSON in the place of another kind."""
    pointer: str
    label: str
    description: str = ""
    is_needed: bool = False
    is_open: bool = True
    """Whether a list or an object is there."""
    value: str = ""
    is_empty: bool = False
    """Whether a text is empty on purpose."""
    hint: str = ""
    """An example or the default, shown where nothing is filled in."""
    fault: str = ""
    limits: dict[str, str] = {}
    """Attributes of HTML with what the value must keep to."""
    options: list[tuple[str, str]] = []
    """Values and words of a choice or a union."""
    inside: list[Control] = []
    name: str | None = None
    """The name of a further member, which is filled in, too."""
    can_drop: bool = False
    can_add: bool = False
    count: int = 0
    """Of the entries of a list, or of the further members of an object."""


def make_form(
    schema: Schema, fields: Mapping[str, str], faults: Iterable[Fault] = (), label: str = ""
) -> Control:
    """Return the controls of a form.

    Args:
        schema: The schema of all arguments.
        fields: What is filled in; see `fill_fields`.
        faults: What is wrong with it.
        label: What the whole is called.
    """
    builder = _Builder(schema, fields, {each.pointer: each.message for each in faults})
    return builder.build_place(schema, "", label, is_needed=True, depth=0)


class _Builder:
    def __init__(self, root: Schema, fields: Mapping[str, str], faults: Mapping[str, str]) -> None:
        self._root = root
        self._fields = fields
        self._faults = faults
        self._count = 0

    def build_place(
        self, schema: Any, pointer: str, label: str, *, is_needed: bool, depth: int
    ) -> Control:
        kind = find_kind(schema, self._root)
        self._count += 1
        raw = self._fields.get(f"j:{pointer}")
        is_raw = raw is not None or self._count > _MOST_CONTROLS or depth > _DEEPEST
        control = Control(
            "json" if kind.name == "json" else "raw" if is_raw else kind.name,
            pointer,
            _take_text(kind.schema, "title") or label,
            _take_text(kind.schema, "description"),
            is_needed,
            value=raw or "" if is_raw else self._fields.get(f"v:{pointer}", ""),
            is_empty=f"e:{pointer}" in self._fields,
            hint=_find_hint(kind.schema),
            fault=self._faults.get(pointer, ""),
        )
        if control.kind in ("json", "raw"):
            return control
        if kind.name in ("object", "list"):
            is_near = depth < _OPENED and is_needed
            control.is_open = f"o:{pointer}" in self._fields or is_near
            if control.is_open and kind.name == "object":
                self._build_object(control, kind.schema, depth)
            elif control.is_open:
                self._build_list(control, kind.schema, depth)
        elif kind.name == "union":
            self._build_union(control, kind, depth)
        elif kind.name == "choice":
            control.options = [
                (str(at), _shorten_value(each)) for at, each in enumerate(kind.options)
            ]
            if len(kind.options) == 1 and is_needed:
                control.value = "0"
        else:
            control.limits = _list_limits(kind)
        return control

    def _build_object(self, control: Control, schema: Schema, depth: int) -> None:
        pointer, needed = control.pointer, schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            place = join_pointer(pointer, name)
            control.inside.append(
                self.build_place(each, place, name, is_needed=name in needed, depth=depth + 1)
            )
        further = schema.get("additionalProperties", pointer != "")
        control.can_add = further is not False
        control.count = _read_count(self._fields.get(f"x:{pointer}", "0"))
        for number in range(control.count):
            place = name_extra(pointer, number)
            made = self.build_place(further, place, "", is_needed=True, depth=depth + 1)
            made.name = self._fields.get(f"k:{place}", "")
            made.can_drop = True
            control.inside.append(made)

    def _build_list(self, control: Control, schema: Schema, depth: int) -> None:
        pointer = control.pointer
        control.count = _read_count(self._fields.get(f"n:{pointer}", "0"))
        most = schema.get("maxItems")
        control.can_add = not isinstance(most, int) or control.count < most
        for number in range(control.count):
            place, entry = f"{pointer}/{number}", schema.get("items", {})
            made = self.build_place(entry, place, str(number + 1), is_needed=True, depth=depth + 1)
            made.can_drop = True
            control.inside.append(made)

    def _build_union(self, control: Control, kind: Kind, depth: int) -> None:
        control.options = [
            (str(at), _name_branch(each, self._root, at)) for at, each in enumerate(kind.options)
        ]
        chosen = self._fields.get(f"u:{control.pointer}", UNSET)
        control.value = chosen
        if chosen.isdecimal() and int(chosen) < len(kind.options):
            inside = self.build_place(
                kind.options[int(chosen)],
                control.pointer,
                control.label,
                is_needed=True,
                depth=depth + 1,
            )
            if inside.description == control.description:
                inside.description = ""
            control.inside = [inside]


def _find_hint(schema: Schema) -> str:
    if "default" in schema:
        return f"= {_shorten_value(schema['default'])}"
    examples = schema.get("examples")
    return _shorten_value(examples[0]) if isinstance(examples, list) and examples else ""


def _shorten_value(value: Any) -> str:
    """Return a value as a person reads it in a list."""
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def _name_branch(schema: Any, root: Schema, place: int) -> str:
    kind = find_kind(schema, root)
    said = _take_text(kind.schema, "title")
    if said:
        return said
    if kind.name == "choice" and len(kind.options) == 1:
        return _shorten_value(kind.options[0])
    if kind.name == "object":
        for name, each in kind.schema.get("properties", {}).items():
            if isinstance(each, Mapping) and "const" in each:
                return f"{name}: {_shorten_value(each['const'])}"
    return f"{place + 1} · {kind.schema.get('type', kind.name)}"


def _take_text(schema: Schema, name: str) -> str:
    said = schema.get(name)
    return said if isinstance(said, str) else ""


def _list_limits(kind: Kind) -> dict[str, str]:
    """Return what the browser itself checks; the engine checks all of it anyway."""
    schema, limits = kind.schema, {}
    if kind.name in ("text", "line"):
        for name, keyword in (("minlength", "minLength"), ("maxlength", "maxLength")):
            said = schema.get(keyword)
            # One character of theirs may be two of a browser's.
            if isinstance(said, int) and not isinstance(said, bool) and said > 0:
                limits[name] = str(said * 2 if name == "maxlength" else 1)
    return limits


def _read_count(text: str) -> int:
    return min(int(text), _MOST_CONTROLS) if text.isdecimal() and len(text) < 6 else 0
