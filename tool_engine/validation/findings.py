"""Which findings does a call get, and how many of them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import jsonschema_rs

from tool_engine.model.call import ValidationError
from tool_engine.redaction import HIDDEN
from tool_engine.validation.position import Position
from tool_engine.validation.rules import read
from tool_engine.validation.shape import MAX_NOTES, Path, Refusal, Shaper
from tool_engine.validation.wording import (
    cut,
    json_text,
    listed,
    nearest,
    path_text,
    shown,
    subject,
    type_of,
)

__all__ = ["Findings"]

_Kind = jsonschema_rs.ValidationErrorKind
_JSON_VALUES: Final = ": send text, a number, true, false, null, a list or an object"
_WORTH_NAMING: Final = ("string", "number", "integer", "array", "object")


class Findings:
    """Collects the findings about one call, at most a hundred; the rest is counted.

    Args:
        root: The position of the arguments.
        secrets: The parameters whose values are never repeated.
        shaper: What was noted while the arguments were shaped.
    """

    def __init__(self, root: Position, secrets: frozenset[str], shaper: Shaper) -> None:
        self._root = root
        self._secrets = secrets
        self._shaper = shaper
        self._refused = {refusal.path for refusal in shaper.refusals if not refusal.is_key}
        self._errors: list[ValidationError] = []
        self._more = 0

    @property
    def errors(self) -> list[ValidationError]:
        """The findings, with a last one that counts those that are left out."""
        if not self._more:
            return self._errors
        message = f"and {self._more} more findings: correct these first"
        return [*self._errors, ValidationError("", "constraint_violation", message)]

    def add_refusals(self) -> None:
        """Adds the values that JSON cannot hold."""
        for refusal in self._shaper.refusals:
            self._append(_refusal, refusal)
        self._more += self._shaper.more_refusals

    def add_unknown(self) -> None:
        """Adds the unknown keys as errors."""
        for note in self._shaper.unknown:
            names = _at(self._root, note.path).properties
            self._append(_extra, (*note.path, note.key), names, "error")
        self._more += self._shaper.more_unknown

    def warnings(self) -> list[ValidationError]:
        """The unknown keys as warnings, each with the declared key that was probably meant."""
        found = [
            _extra((*note.path, note.key), _at(self._root, note.path).properties, "warning")
            for note in self._shaper.unknown
        ]
        if self._shaper.more_unknown:
            message = f"and {self._shaper.more_unknown} more unknown parameters were left out"
            found.append(ValidationError("", "extra_parameter", message, level="warning"))
        return found

    def visit(self, value: Any, position: Position, path: Path = ()) -> None:
        """Adds what is wrong with `value` and with everything inside it."""
        rules = position.own_rules
        if rules is not None and not rules.is_valid(value):
            # To list errors costs a hundred times what it costs to see that there are some.
            if len(self._errors) < MAX_NOTES:
                self.add(rules.iter_errors(value), value, path)
            else:
                self._more += 1
        if type(value) is dict:
            self._visit_object(value, position, path)
        elif type(value) is list and position.item.certain:
            for index, item in enumerate(value):
                self.visit(item, position.item, (*path, index))

    def _visit_object(self, value: dict[str, Any], position: Position, path: Path) -> None:
        for name in position.required:
            if name not in value:
                self._append(self._missing, name, path)
        for key, item in value.items():
            below = position.child(key)
            if below.certain:
                self.visit(item, below, (*path, key))

    def add(
        self, errors: Iterable[jsonschema_rs.ValidationError], value: Any, path: Path = ()
    ) -> None:
        """Adds what a validator says about `value`, which stands at `path`."""
        for error in errors:
            where = (*path, *error.instance_path)
            if where in self._refused:
                continue
            found = value
            for step in error.instance_path:
                found = found[step]
            kind = error.kind
            if isinstance(kind, _Kind.Required):
                self._append(self._missing, kind.property, where)
            elif isinstance(kind, _Kind.AdditionalProperties | _Kind.UnevaluatedProperties):
                names = _at(self._root, where).properties
                for key in kind.unexpected:
                    self._append(_extra, (*where, key), names, "error")
            else:
                self._append(self._broken, error, found, where)

    def _broken(
        self, error: jsonschema_rs.ValidationError, value: Any, path: Path
    ) -> ValidationError:
        reading = read(error, value, _at(self._root, path).certain.get("type"))
        actual = shown(value, path, self._secrets)
        message = f"{subject(path)} must {reading.rule}"
        if actual == HIDDEN:
            message += f", got a hidden {type_of(value)}"
        else:
            message += f", got {reading.got or _named(actual, value, reading.error_type)}"
            message += reading.cure
        return ValidationError(
            path_text(path), reading.error_type, message, reading.expected, actual
        )

    def _missing(self, name: str, path: Path) -> ValidationError:
        schema = _at(self._root, path).properties.get(name)
        wanted = schema.get("type") if isinstance(schema, dict) else None
        words = f" ({wanted})" if isinstance(wanted, str) else ""
        near = nearest(name, [note.key for note in self._shaper.unknown if note.path == path])
        hint = f": you sent '{path_text((near,))}', did you mean '{name}'?" if near else ""
        where = (*path, name)
        message = f"missing required parameter {subject(where)}{words}{hint}"
        return ValidationError(path_text(where), "missing_required", message, wanted)

    def _append(self, make: Callable[..., ValidationError], *details: Any) -> None:
        # A finding that is only counted is not put into words.
        if len(self._errors) < MAX_NOTES:
            self._errors.append(make(*details))
        else:
            self._more += 1


def _at(position: Position, path: Path) -> Position:
    for step in path:
        position = position.child(step) if isinstance(step, str) else position.item
    return position


def _named(actual: Any, value: Any, error_type: str) -> str:
    text = cut(actual) if isinstance(actual, str) and type_of(value) != "string" else ""
    text = text or json_text(actual)
    kind = type_of(value)
    is_named = error_type == "type_mismatch" and kind in _WORTH_NAMING
    return f"the {kind} {text}" if is_named else text


def _extra(path: Path, names: Iterable[str], level: str) -> ValidationError:
    known = list(names)
    near = nearest(str(path[-1]), known)
    if near:
        cure = f"did you mean '{near}'?"
    elif known:
        cure = f"known are {listed(known)}"
    else:
        cure = "there are none to send"
    place = path_text(path)
    ending = "" if level == "error" else " was left out"
    message = f"unknown parameter {subject(path)}{ending}: {cure}"
    return ValidationError(place, "extra_parameter", message, known, place, level)


def _refusal(refusal: Refusal) -> ValidationError:
    cure = _JSON_VALUES if refusal.rule == "be a JSON value" else ""
    message = f"{subject(refusal.path)} must {refusal.rule}, got {refusal.got}{cure}"
    expected = refusal.rule.partition(" ")[2]
    return ValidationError(
        path_text(refusal.path), refusal.error_type, message, expected, refusal.got
    )
