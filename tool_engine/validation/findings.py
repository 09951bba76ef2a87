"""Which findings does a call get, and how many of them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from tool_engine.model.call import ValidationError
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.error_path import find_error
from tool_engine.model.json.references import DEFINITIONS
from tool_engine.redaction import HIDDEN, find_unlike
from tool_engine.validation.breaches import Breach, Broken, Missing, Undeclared
from tool_engine.validation.position import Position, build_validator
from tool_engine.validation.rules import read_rule
from tool_engine.validation.shape import MAX_NOTES, Path, Refusal, Shaper
from tool_engine.validation.wording import (
    cut_text,
    json_text,
    list_values,
    name_subject,
    path_text,
    show_value,
    type_of,
)

_Kind = jsonschema_rs.ValidationErrorKind
_JSON_VALUES: Final = ": send text, a number, true, false, null, a list or an object"
_MAX_COUNTED: Final = 1_000
"""Further findings that are only counted; a list may hold a million wrong items."""
_WORTH_NAMING: Final = ("string", "number", "integer", "array", "object")


class Findings:
    """Collects the findings about one call: at most a hundred, some further ones counted.

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
        self._is_cut = False

    @property
    def errors(self) -> list[ValidationError]:
        """Return the findings, with a last one that counts those left out."""
        if not self._more:
            return self._errors
        at_least = "more than " if self._is_cut else ""
        message = f"and {at_least}{self._more} more findings: correct these first"
        return [*self._errors, ValidationError("", "constraint_violation", message)]

    def add_refusals(self) -> None:
        """Add the values that JSON cannot hold."""
        for refusal in self._shaper.refusals:
            self._append_finding(_describe_refusal, refusal)
        self._more += self._shaper.more_refusals

    def add_unknown(self) -> None:
        for note in self._shaper.unknown:
            names = _position_at(self._root, note.path).properties
            self._append_finding(_describe_extra, (*note.path, note.key), names, "error")
        self._more += self._shaper.more_unknown

    def warnings(self) -> list[ValidationError]:
        """Return the unknown keys as warnings, each with the nearest declared key."""
        found = [
            _describe_extra(
                (*note.path, note.key), _position_at(self._root, note.path).properties, "warning"
            )
            for note in self._shaper.unknown
        ]
        if self._shaper.more_unknown:
            message = f"and {self._shaper.more_unknown} more unknown parameters were left out"
            found.append(ValidationError("", "extra_parameter", message, level="warning"))
        return found

    def add(self, found: Iterable[Breach]) -> None:
        """Add the faults in their order, up to a bound."""
        for breach in found:
            if self._more >= _MAX_COUNTED:
                self._is_cut = True
                return
            if isinstance(breach, Missing):
                self._append_finding(self._describe_missing, breach.name, breach.path)
            elif isinstance(breach, Undeclared):
                place = (*breach.path, breach.key)
                self._append_finding(_describe_extra, place, breach.known, "error")
            elif breach.path not in self._refused:
                self._append_finding(self._describe_breach, breach)

    def add_errors(self, errors: Iterable[jsonschema_rs.ValidationError], value: Any) -> None:
        """Add the compiled validator's errors about the arguments as a whole."""
        self.add(breach for error in errors for breach in self._breaches_of(error, value))

    def _breaches_of(self, error: jsonschema_rs.ValidationError, value: Any) -> Iterator[Breach]:
        kind = error.kind
        where, value = find_error(error, value)
        if where in self._refused:
            return
        position = _position_at(self._root, where)
        if isinstance(kind, _Kind.Required):
            yield Missing(where, kind.property)
        elif isinstance(kind, _Kind.UnevaluatedProperties) and isinstance(
            position.certain.get("unevaluatedProperties"), dict
        ):
            others = {key: value[key] for key in kind.unexpected}
            yield from self._breaches_of_others(where, others, position)
        elif isinstance(kind, _Kind.AdditionalProperties | _Kind.UnevaluatedProperties):
            for key in kind.unexpected:
                yield Undeclared(where, key, position.names)
        else:
            yield Broken(
                where, value, partial(read_rule, error, value, position.certain.get("type"))
            )

    def _breaches_of_others(
        self, where: Path, others: dict[str, Any], position: Position
    ) -> Iterator[Breach]:
        """Yield why keys break what `unevaluatedProperties` says of each."""
        whole = {name: each for name, each in self._root.certain.items() if name in DEFINITIONS}
        rules = build_validator(
            {**whole, "additionalProperties": position.certain["unevaluatedProperties"]}
        )
        for error in islice(rules.iter_errors(others), MAX_NOTES):
            path, part = find_error(error, others)
            yield Broken((*where, *path), part, partial(read_rule, error, part))

    def _is_marked(self, path: Path) -> bool:
        """Return True if the argument is a secret that no parameter declares."""
        schemas = _position_at(self._root, path[:1]).schemas
        return bool(path) and any(each.get("writeOnly") is True for each in schemas)

    def _is_unlike(self, path: Path, value: Any) -> bool:
        """Return True if secrets belong here, and the value has another form."""
        schemas = _position_at(self._root, path).schemas
        return any(any(find_unlike(value, each, self._root.certain)) for each in schemas)

    def _describe_breach(self, breach: Broken) -> ValidationError:
        path, value, reading = breach.path, breach.value, breach.read()
        actual = show_value(value, path, self._secrets)
        if self._secrets and (self._is_marked(path) or self._is_unlike(path, value)):
            actual = HIDDEN
        message = f"{name_subject(path)} must {reading.rule}"
        if actual == HIDDEN:
            message += f", got a hidden {type_of(value)}"
        else:
            message += f", got {reading.got or _name_value(actual, value, reading.error_type)}"
            message += reading.cure
        return ValidationError(
            path_text(path), reading.error_type, message, reading.expected, actual
        )

    def _describe_missing(self, name: str, path: Path) -> ValidationError:
        schema = _position_at(self._root, path).properties.get(name)
        wanted = schema.get("type") if isinstance(schema, dict) else None
        words = f" ({wanted})" if isinstance(wanted, str) else ""
        near = find_nearest(name, [note.key for note in self._shaper.unknown if note.path == path])
        hint = f": you sent '{path_text((near,))}', did you mean '{name}'?" if near else ""
        where = (*path, name)
        message = f"missing required parameter {name_subject(where)}{words}{hint}"
        return ValidationError(path_text(where), "missing_required", message, wanted)

    def _append_finding(self, make: Callable[..., ValidationError], *details: Any) -> None:
        # A finding that is only counted is not put into words.
        if len(self._errors) < MAX_NOTES:
            self._errors.append(make(*details))
        else:
            self._more += 1


def _position_at(position: Position, path: Path) -> Position:
    for step in path:
        position = position.child(step) if isinstance(step, str) else position.item
    return position


def _name_value(actual: Any, value: Any, error_type: str) -> str:
    text = cut_text(actual) if isinstance(actual, str) and type_of(value) != "string" else ""
    text = text or json_text(actual)
    kind = type_of(value)
    is_named = error_type == "type_mismatch" and kind in _WORTH_NAMING
    return f"the {kind} {text}" if is_named else text


def _describe_extra(path: Path, names: Iterable[str], level: str) -> ValidationError:
    known = list(names)
    near = find_nearest(str(path[-1]), known)
    if near:
        cure = f"did you mean '{near}'?"
    elif known:
        cure = f"known are {list_values(known)}"
    else:
        cure = "there are none to send"
    place = path_text(path)
    ending = "" if level == "error" else " was left out"
    message = f"unknown parameter {name_subject(path)}{ending}: {cure}"
    return ValidationError(place, "extra_parameter", message, known, place, level)


def _describe_refusal(refusal: Refusal) -> ValidationError:
    cure = _JSON_VALUES if refusal.rule == "be a JSON value" else ""
    message = f"{name_subject(refusal.path)} must {refusal.rule}, got {refusal.got}{cure}"
    expected = refusal.rule.partition(" ")[2]
    return ValidationError(
        path_text(refusal.path), refusal.error_type, message, expected, refusal.got
    )
