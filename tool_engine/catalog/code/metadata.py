"""Which rules are in `Annotated[...]`, in the words of any library?

msgspec reads its own `Meta` and ignores everything else, so that another library's bound would be
lost silently. Here the rules of annotated_types and pydantic become a `Meta`; they are known by
name, so that neither need be installed. Anything unknown is an error, because it may be a rule.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, Literal, Union

import msgspec

from tool_engine.model.settings.field_default import is_field, kinds_of

_HARMLESS: Final = frozenset({"Doc", "DocInfo", "Unit", "AllowInfNan", "FailFast"})
"""Classes of metadata that no value of JSON can break."""
_BOUNDS: Final = {
    "Gt": "gt",
    "Ge": "ge",
    "Lt": "lt",
    "Le": "le",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
}
"""The classes of annotated_types, and the field of each, which `Meta` calls the same."""
_META_FIELDS: Final = (
    *("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz"),
    *("title", "description", "examples", "extra_json_schema", "extra"),
)
_LENIENT: Final = frozenset({"allow_inf_nan", "fail_fast", "defer_build"})
"""General rules of pydantic that no value of JSON can break."""
_OF_MODELS_ONLY: Final = ("alias", "validation_alias")
_CURE: Final = "write msgspec.Meta(...) with the same rule, or check the value in the function"


class UnsupportedHintError(TypeError):
    """A type hint without a JSON Schema; the message has the cure."""


class NotForMsgspecError(UnsupportedHintError):
    """A type hint that msgspec cannot hold to; another library may."""


class NeedsPydanticError(NotForMsgspecError):
    """A class that pydantic checks."""


def readable_hint(hint: Any) -> Any:
    """Return `hint` with all rules as `msgspec.Meta`; refuse unknown rules."""
    return _make_readable(hint, set())


def resolve_alias(hint: Any) -> Any:
    """Return the hint that a type alias or NewType stands for."""
    while True:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def _make_readable(hint: Any, seen: set[Any]) -> Any:
    hint = resolve_alias(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _with_rules(_make_readable(hint.__origin__, seen), hint.__metadata__)
    _check_class(hint if origin is None else origin, seen)
    if origin is Literal or not arguments:
        return hint
    readable = tuple(
        argument
        if argument is ... or isinstance(argument, list)
        else _make_readable(argument, seen)
        for argument in arguments
    )
    if all(new is old for new, old in zip(readable, arguments, strict=True)):
        return hint
    if origin in (Union, types.UnionType):
        return Union[readable]  # noqa: UP007 - made of a tuple
    return origin[readable]


def _with_rules(hint: Any, metadata: Iterable[Any]) -> Any:
    rules: dict[str, Any] = {}
    for part in metadata:
        for name, value in rules_of(part):
            rules[name] = _combine_rules(name, rules[name], value) if name in rules else value
    words = {
        name: rules.pop(name) for name in ("title", "description", "examples") if name in rules
    }
    _check_pairs(rules)
    ruled = _add_rules(hint, rules) if rules else hint
    return Annotated[ruled, msgspec.Meta(**words)] if words else ruled


def _add_rules(hint: Any, rules: dict[str, Any]) -> Any:
    """Return `hint` with `rules`, in each union member but None."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        members = typing.get_args(hint)
        ruled = tuple(each if each is type(None) else _add_rules(each, rules) for each in members)
        return Union[ruled]  # noqa: UP007 - made of a tuple
    if hint is int:
        rules = {name: _whole_if_integral(value) for name, value in rules.items()}
    try:
        return Annotated[hint, msgspec.Meta(**rules)]
    except (TypeError, ValueError) as error:
        raise UnsupportedHintError(f"the rules of {hint!r} are none: {error}; {_CURE}") from error


def _whole_if_integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def rules_of(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield the rules of one metadata object in `Meta`'s words."""
    kinds = kinds_of(part)
    if part is None or isinstance(part, str) or not _HARMLESS.isdisjoint(kinds):
        return
    if isinstance(part, msgspec.Meta):
        for name in _META_FIELDS:
            if getattr(part, name) is not None:
                yield name, getattr(part, name)
    elif is_field(part):
        yield from _rules_of_field(part)
    elif getattr(part, "__is_annotated_types_grouped_metadata__", False):
        for each in part:
            yield from rules_of(each)
    elif bound := next((_BOUNDS[kind] for kind in kinds if kind in _BOUNDS), None):
        yield bound, _check_bound(part, getattr(part, bound))
    elif "PydanticGeneralMetadata" in kinds or "_PydanticGeneralMetadata" in kinds:
        yield from _general_rules(part)
    else:
        raise NotForMsgspecError(f"the annotation {part!r} is not understood; {_CURE}")


def _rules_of_field(field: Any) -> Iterator[tuple[str, Any]]:
    for name in _OF_MODELS_ONLY:
        if getattr(field, name, None) is not None:
            raise UnsupportedHintError(
                f"{name} of Field is not understood; name the parameter as models shall know it"
            )
    if getattr(field, "discriminator", None) is not None:
        raise NotForMsgspecError("discriminator of Field is not understood; tag msgspec.Structs")
    for part in field.metadata:
        yield from rules_of(part)
    for name in ("description", "examples"):
        if getattr(field, name, None):
            yield name, getattr(field, name)
    extra = getattr(field, "json_schema_extra", None)
    if callable(extra):
        raise NotForMsgspecError("json_schema_extra of Field is a function; write a mapping")
    if extra:
        yield "extra_json_schema", dict(extra)


def _general_rules(part: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(part).items():
        if name == "pattern" and value is not None:
            yield name, _pattern_text(value)
        elif name not in _LENIENT and value not in (None, False):
            raise NotForMsgspecError(f"{name}={value!r} is not understood; {_CURE}")


def _pattern_text(value: Any) -> str:
    if isinstance(value, re.Pattern):
        if value.flags & ~re.UNICODE:
            flags = re.RegexFlag(value.flags & ~re.UNICODE)
            raise UnsupportedHintError(
                f"the pattern {value.pattern!r} has flags ({flags!r}); write it without"
            )
        value = value.pattern
    return str(value)


def _check_bound(part: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotForMsgspecError(f"{part!r} bounds no number of JSON; {_CURE}")
    return value


_TIGHTER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("gt", "ge", "min_length"), max),
    **dict.fromkeys(("lt", "le", "max_length"), min),
}


def _combine_rules(name: str, one: Any, other: Any) -> Any:
    if name in _TIGHTER:
        return _TIGHTER[name](one, other)
    if name in ("extra_json_schema", "extra"):
        return {**one, **other}
    if one != other and name not in ("title", "description", "examples"):
        raise UnsupportedHintError(f"{name} is given twice, as {one!r} and {other!r}; keep one")
    return one


def _check_pairs(rules: dict[str, Any]) -> None:
    """Keep the tighter of two bounds, as `Meta` takes one."""
    for strict, loose, is_tighter in (("gt", "ge", max), ("lt", "le", min)):
        if strict in rules and loose in rules:
            tighter = is_tighter(rules[strict], rules[loose])
            del rules[loose if tighter == rules[strict] else strict]


def _check_class(kind: Any, seen: set[Any]) -> None:
    """Refuse foreign rules in a class's fields, which nothing would enforce."""
    if not isinstance(kind, type) or kind in seen:
        return
    seen.add(kind)
    if hasattr(kind, "__pydantic_validator__") or hasattr(kind, "__pydantic_core_schema__"):
        raise NeedsPydanticError(
            f"the type {kind.__name__} is checked by pydantic 2, which is not installed here: "
            "install it, or "
            f"take a dict and build {kind.__name__} of it in the function"
        )
    if kind.__module__ == "builtins" or not _fields_of(kind):
        return
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except (TypeError, NameError):
        return  # what makes the schema reports why it cannot be read
    for name, hint in hints.items():
        place = f"{kind.__name__}.{name}"
        try:
            readable = _make_readable(hint, seen)
        except UnsupportedHintError as error:
            needs = isinstance(error, NeedsPydanticError)
            kind_of_error = NeedsPydanticError if needs else NotForMsgspecError
            raise kind_of_error(f"{place}: {error}") from error
        if readable is not hint and _has_foreign(hint):
            raise NotForMsgspecError(
                f"{place} has rules that are not enforced inside a class: write them as "
                "Annotated[..., msgspec.Meta(...)]"
            )


def _fields_of(kind: type) -> bool:
    """Return True for a dataclass, struct, named tuple and so on."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            _check_given(kind, field)
            if is_field(field.default):
                raise NotForMsgspecError(
                    f"{kind.__name__}.{field.name} has a Field(...) as its default: write "
                    "Annotated[..., msgspec.Meta(...)] and the default itself"
                )
        return True
    for field in getattr(kind, "__attrs_attrs__", ()):
        _check_given(kind, field)
    marks = ("__struct_fields__", "_fields", "__total__", "__attrs_attrs__")
    return any(hasattr(kind, mark) for mark in marks)


def _check_given(kind: type, field: Any) -> None:
    """Refuse a field that its class makes itself: msgspec takes it from the caller."""
    if not field.init:
        raise NotForMsgspecError(
            f"{kind.__name__}.{field.name} has init=False, and no caller may give it: make it a "
            "property, or take a dict and build the class of it in the function"
        )


def _has_foreign(hint: Any) -> bool:
    """Return True if `hint` has rules in other words than `msgspec.Meta`."""
    hint = resolve_alias(hint)
    if typing.get_origin(hint) is Annotated:
        ruled = [part for part in hint.__metadata__ if not isinstance(part, msgspec.Meta)]
        if any(
            name not in ("title", "description") for part in ruled for name, _ in rules_of(part)
        ):
            return True
        return _has_foreign(hint.__origin__)
    return any(map(_has_foreign, typing.get_args(hint)))
