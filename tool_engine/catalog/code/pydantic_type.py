"""How does pydantic read a type hint, and make values of it from JSON?

Loaded by name for hints that only pydantic reads, so that no other tool waits for its import.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from pydantic import Secret, TypeAdapter
from pydantic import ValidationError as MisfitError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from tool_engine.catalog.code.made_defaults import describe_error, is_known
from tool_engine.catalog.code.metadata import UnsupportedHintError, resolve_alias, rules_of
from tool_engine.model.settings.field_default import is_field, kinds_of

_MOST_MISFITS: Final = 20
"""Misfits of one argument that are named; a list may have one for each of its items."""
_SAME_IN_JSON: Final = frozenset({"str", "int", "float", "bool", "none", "lax-or-strict"})
"""Kinds whose strict form takes what JSON gives."""
_NOT_VALIDATION: Final = frozenset({"metadata", "serialization", "cls", "default", "expected"})
_METADATA: Final = ("metadata",)
_NOT_JSON_SCHEMA: Final = frozenset(
    {"gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "strict"}
)
"""What pydantic writes into a schema for a rule that does not fit the type."""
_WORDS: Final = ("title", "description", "examples")
_CURE: Final = "write pydantic's Field(...) with the same rule, or check the value in the function"
_OF_PYTHON: Final = ("Value error, ", "Assertion failed, ")
_KINDS: Final = dict.fromkeys(
    ("model", "model-fields", "dataclass", "dataclass-args", "typed-dict", "dict"), "object"
) | dict.fromkeys(("list", "tuple", "set", "frozenset"), "array")
MOST_READINGS: Final = 20_000
_EACH: Final = 16
"""Readings that each object or list may take besides."""


class PydanticType:
    """A hint as pydantic reads it.

    Raises:
        UnsupportedHintError: It holds a rule that pydantic would ignore, or has no JSON Schema.
        PydanticUserError: It is no type that pydantic knows.
    """

    def __init__(self, hint: Any) -> None:
        _check_rules(hint, set())
        self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
        self.schema = _read_schema(self._adapter, hint)
        parts = list(_walk_core(self._adapter.core_schema))
        self.runs_code = any(map(_runs_code, parts)) or _has_predicate(hint)
        """Whether validation runs functions that are not pydantic's own."""
        is_strict = any(map(_is_strict, parts))
        validator = self._adapter.validator
        validate: Callable[[Any], Any] = (
            # What a strict type takes from JSON, such as a date's text, it takes as JSON only.
            (lambda value: validator.validate_json(msgspec.json.encode(value)))
            if is_strict
            else validator.validate_python
        )
        self.validate = bound_effort(validate, self._adapter.core_schema)
        """Makes a value of JSON data; raises what `split_misfits` splits."""

    def misfit(self, value: Any) -> tuple[str, str] | None:
        """Return where and why a Python value misfits; None: it fits."""
        try:
            self._adapter.validator.validate_python(value)
        except Exception as error:  # noqa: BLE001 - validators of a user may raise anything
            return next(self.split_misfits(error, value))
        return None

    @staticmethod
    def split_misfits(error: Exception, value: Any) -> Iterator[tuple[str, str]]:
        """Yield the places (`.items[0]`) and the reasons of what validation raised."""
        if not isinstance(error, MisfitError):
            is_ours = isinstance(error, TooManyReadingsError)
            yield "", str(error) if is_ours else describe_error(error, str(error))
            return
        for each in islice(error.errors(include_url=False, include_context=False), _MOST_MISFITS):
            reason = each["msg"]
            for words in _OF_PYTHON:
                reason = reason.removeprefix(words)
            yield _place_of(each["loc"], value), reason or each["type"]

    def json_default(self, value: Any) -> Any:
        """Return a default as JSON; `msgspec.UNSET`: JSON cannot say it, so the function gives it.

        Raises:
            ValueError: It does not fit the type.
        """
        if (found := self.misfit(value)) is not None:
            raise ValueError(f"it does not fit its type: {found[1]}")
        try:
            made = self._adapter.dump_python(
                value, mode="json", by_alias=True, exclude_unset=True, warnings=False
            )
            is_same = self.validate(made) == value
        except Exception:  # noqa: BLE001 - serializers of a user may raise anything
            return msgspec.UNSET
        return made if is_same else msgspec.UNSET


def _place_of(steps: Iterable[Any], value: Any) -> str:
    """Return the place in the value: some steps name a branch of the type instead."""
    place, listed = "", tuple(steps)
    for number, step in enumerate(listed):
        if isinstance(value, Mapping):
            is_last = number == len(listed) - 1
            if step in value or (is_last and isinstance(step, str)):
                place, value = f"{place}.{step}", value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            place, value = f"{place}[{step}]", value[step]
    return place


class _OfArguments(GenerateJsonSchema):
    """What pydantic says of values that come in, and of a `Secret[int]` as of a `SecretStr`."""

    def dataclass_args_schema(self, schema: Any) -> dict[str, Any]:
        given: Any = {
            **schema,
            "fields": [each for each in schema["fields"] if each.get("init", True)],
        }
        return super().dataclass_args_schema(given)

    def json_or_python_schema(self, schema: Any) -> dict[str, Any]:
        made = super().json_or_python_schema(schema)
        validator = schema["python_schema"].get("function", {}).get("function")
        is_secret = str(getattr(validator, "__qualname__", "")).startswith(f"{Secret.__name__}.")
        return made | {"writeOnly": True} if is_secret else made


def _read_schema(adapter: TypeAdapter[Any], hint: Any) -> dict[str, Any]:
    try:
        schema = adapter.json_schema(schema_generator=_OfArguments)
    except PydanticUserError as error:
        reason = str(error).partition("\n")[0]
        raise UnsupportedHintError(
            f"the type {hint!r} has no JSON form: {reason}; give that part a type that has one, or "
            "make of it in the function what you need"
        ) from error
    for part in _walk_schemas(schema):
        wrong = _NOT_JSON_SCHEMA.intersection(part)
        if wrong:
            raise UnsupportedHintError(f"{min(wrong)!r} is no rule of its type; {_CURE}")
    return schema


def _walk_schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            yield part
            for key, value in part.items():
                if key in ("properties", "$defs", "patternProperties") and isinstance(value, dict):
                    pending += value.values()
                elif key not in ("default", "examples", "enum", "const", "mapping"):
                    pending.append(value)


def _walk_core(
    core: Any,
    named: Mapping[str, Any] = MappingProxyType({}),
    passed_over: Collection[str] = _NOT_VALIDATION,
) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of what pydantic validates by, also those in `named`, once each."""
    pending, seen = [core], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        if isinstance(part, list | tuple):
            pending += part
        elif isinstance(part, dict):
            seen.add(id(part))
            yield part
            pending += [value for key, value in part.items() if key not in passed_over]
            pending.append(named.get(str(part.get("schema_ref"))))


def _is_strict(part: Mapping[str, Any]) -> bool:
    return part.get("strict") is True and part.get("type") not in _SAME_IN_JSON


def _runs_code(part: Mapping[str, Any]) -> bool:
    kind = part.get("type")
    if part.get("custom_init") or part.get("post_init") or callable(part.get("discriminator")):
        return True
    if "default_factory" in part and not is_known(part["default_factory"]):
        return True
    if not isinstance(kind, str) or not kind.startswith(("function-", "call")):
        return False
    function = part.get("function")
    if isinstance(function, Mapping):
        function = function.get("function")
    return str(getattr(function, "__module__", "")).partition(".")[0] != "pydantic"


def _has_predicate(hint: Any) -> bool:
    """Return True if a rule of `hint` is a function; in a model pydantic wraps it."""
    return any("Predicate" in kinds_of(part) for part in _walk_rules(hint, set()))


def _check_rules(hint: Any, seen: set[int]) -> None:
    for part in _walk_rules(hint, seen):
        _check_rule(part)


def _check_rule(part: Any) -> None:
    kinds = kinds_of(part)
    home = type(part).__module__.partition(".")[0]
    if isinstance(part, msgspec.Meta):
        if any(name not in _WORDS for name, _ in rules_of(part)):
            raise UnsupportedHintError(f"{part!r} is not read by pydantic; {_CURE}")
    # annotated_types.Timezone is taken without a word, and not enforced.
    elif "Timezone" in kinds or not (
        part is None
        or isinstance(part, str)
        or home in ("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing")
        or hasattr(part, "__get_pydantic_core_schema__")
        or hasattr(part, "__get_pydantic_json_schema__")
    ):
        raise UnsupportedHintError(f"the annotation {part!r} is not understood; {_CURE}")
    pattern = getattr(part, "pattern", None)
    if isinstance(pattern, re.Pattern) and pattern.flags & ~re.UNICODE:
        raise UnsupportedHintError(
            f"the pattern {pattern.pattern!r} has flags ({re.RegexFlag(pattern.flags)!r}), which "
            "models cannot be shown; write it without"
        )


def _walk_rules(hint: Any, seen: set[int]) -> Iterator[Any]:
    """Yield all metadata in a hint and in the fields of its classes."""
    hint = resolve_alias(hint)
    if typing.get_origin(hint) is Annotated:
        yield from _listed_rules(hint.__metadata__)
        hint = resolve_alias(hint.__origin__)
    for argument in typing.get_args(hint):
        if not isinstance(argument, str | bytes | int | list):
            yield from _walk_rules(argument, seen)
    kind = typing.get_origin(hint) or hint
    if not isinstance(kind, type) or id(kind) in seen or kind.__module__ == "builtins":
        return
    seen.add(id(kind))
    fields = getattr(kind, "__pydantic_fields__", None)
    if fields is not None:
        for field in fields.values():
            yield from _listed_rules([field])
            yield from _walk_rules(field.annotation, seen)
        return
    if dataclasses.is_dataclass(kind):
        yield from _listed_rules(f.default for f in dataclasses.fields(kind) if is_field(f.default))
    if any(hasattr(kind, mark) for mark in ("__dataclass_fields__", "__total__", "_fields")):
        for inner in typing.get_type_hints(kind, include_extras=True).values():
            yield from _walk_rules(inner, seen)


def _listed_rules(parts: Iterable[Any]) -> Iterator[Any]:
    patterns = set[str]()
    for part in _spread_parts(parts):
        pattern = getattr(part, "pattern", None)
        if pattern is not None:
            patterns.add(getattr(pattern, "pattern", pattern))
        yield part
    if len(patterns) > 1:
        shown = " and ".join(map(repr, sorted(patterns)))
        raise UnsupportedHintError(f"pattern is given twice, as {shown}; keep one")


def _spread_parts(parts: Iterable[Any]) -> Iterator[Any]:
    for part in parts:
        if is_field(part):
            yield from _spread_parts(part.metadata)
        elif getattr(part, "__is_annotated_types_grouped_metadata__", False):
            yield part
            yield from _spread_parts(part)
        else:
            yield part


class TooManyReadingsError(ValueError):
    """A value would be read too often."""


def bound_effort(validate: Callable[[Any], Any], core: Any) -> Callable[[Any], Any]:
    """Return `validate`, such that it raises TooManyReadingsError for what takes too long.

    Of a union pydantic reads the value by each of its types, and what is inside of each once more:
    a value of thirty levels is read a thousand million times. A discriminator says which is meant.
    """
    forms = count_forms(core)
    if not forms:
        return validate

    def validate_bounded(value: Any) -> Any:
        if not _is_quick(value, forms):
            raise TooManyReadingsError(
                "it has too many levels for a type with several forms at each of them: send "
                "fewer levels, or give the union a discriminator in the tool's code"
            )
        return validate(value)

    return validate_bounded


def count_forms(core: Any) -> dict[str, int]:
    """Return how many times an object or list is read inside each reading of what holds it."""
    named = {part["ref"]: part for part in _walk_core(core, passed_over=_METADATA) if "ref" in part}
    found: dict[str, int] = {}
    for union in _walk_core(core, named, _METADATA):
        if union.get("type") == "union":
            choices = [each[0] if isinstance(each, tuple) else each for each in union["choices"]]
            inside = [
                each
                for each in choices
                if any(p is union for p in _walk_core(each, named, _METADATA))
            ]
            for kind, count in Counter(_kind_of(each, named) for each in inside).items():
                if kind is not None and count > 1:
                    found[kind] = max(count, found.get(kind, 1))
    return found


def _is_quick(value: Any, forms: Mapping[str, int]) -> bool:
    waiting, readings, parts = [(value, 1)], 0, 0
    while waiting:
        part, times = waiting.pop()
        if isinstance(part, Mapping):
            kind, inner = "object", list(part.values())
        elif isinstance(part, list | tuple):
            kind, inner = "array", list(part)
        else:
            continue
        if kind in forms:
            times *= forms[kind]
            readings, parts = readings + times, parts + 1
        waiting += ((each, times) for each in inner)
    return readings <= MOST_READINGS + _EACH * parts


def _kind_of(core: Any, named: Mapping[str, Any]) -> str | None:
    """Return whether a type is made of an object or of a list; None: of neither, or of several."""
    while isinstance(core, Mapping) and core.get("type") not in _KINDS:
        core = named.get(str(core.get("schema_ref")), core.get("schema"))
    return _KINDS[core["type"]] if isinstance(core, Mapping) else None
