"""Do the rules of a parameter make sense: together, with its type, and with its default?

A schema cannot say these: bounds that cross, patterns that the engine cannot run, a default that
the tool's own rules would refuse. The engine that validates calls also judges here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import jsonschema_rs
import msgspec

from tool_engine.catalog.document import Path
from tool_engine.catalog.structure import Fault
from tool_engine.model.schema import SHORT_KEYS, value_schema

__all__ = ["FLAT_RULES", "check_value", "compile_check", "pattern_error"]

FLAT_RULES: Final = (*SHORT_KEYS, "items", "properties")
"""The rules that may stand beside `type` as well as in its `validation` block."""

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_BOUNDS: Final = (("min", "max"), ("min_length", "max_length"), ("min_items", "max_items"))
_NOT_LINEAR: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=|\\k<|\(\?>|[*+?}]\+")


def check_value(spec: Any, path: Path, faults: list[Fault], *, is_sound: bool) -> None:
    """Adds what is wrong with the rules of one value to `faults`.

    Args:
        spec: A parameter, or what `items`, `properties` and `output` hold.
        path: Where `spec` stands in the definition.
        faults: Takes what is found.
        is_sound: Whether the definition's structure is right; a default is judged only then.
    """
    if not isinstance(spec, dict):
        return
    before = len(faults)
    rules = _rules_of(spec, path, faults)
    if rules:
        _check_bounds(rules, faults)
        _check_enum(spec.get("type"), rules, faults)
        _check_pattern(rules, faults)
        _check_nested(rules, spec, faults, is_sound=is_sound)
    if "schema" in spec:
        _check_raw(spec, rules, path, faults)
    if "default" in spec and is_sound and len(faults) == before:
        _check_default(spec, (*path, "default"), has_rules=bool(rules), faults=faults)


def pattern_error(pattern: str) -> str | None:
    """Why the engine cannot match `pattern`, or None when it can."""
    if _compiles(pattern):
        return None
    if _NOT_LINEAR.search(pattern):
        return (
            f"the pattern {pattern[:80]!r} uses lookaround, a back-reference or a possessive "
            "part, which cannot be matched in linear time; write it without"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern {pattern[:80]!r} is not a regular expression: {error}"
    return f"the pattern {pattern[:80]!r} is too large, or not in the supported syntax; simplify it"


def compile_check(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """A validator for `schema` as the engine uses it, shared between equal schemas.

    Raises:
        jsonschema_rs.ValidationError: The schema is not valid JSON Schema 2020-12.
    """
    return _compile(msgspec.json.encode(schema))


@lru_cache(maxsize=4096)
def _compile(schema: bytes) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(
        msgspec.json.decode(schema),
        pattern_options=jsonschema_rs.RegexOptions(),
        validate_formats=True,
        offline=True,
    )


@lru_cache(maxsize=4096)
def _compiles(pattern: str) -> bool:
    try:
        compile_check({"type": "string", "pattern": pattern})
    except ValueError:
        return False
    return True


_Rules = dict[str, tuple[Any, Path]]


def _rules_of(spec: Mapping[str, Any], path: Path, faults: list[Fault]) -> _Rules:
    """Each rule with its place, from beside `type` and from the `validation` block."""
    rules: _Rules = {key: (spec[key], (*path, key)) for key in FLAT_RULES if key in spec}
    if isinstance(spec.get("required"), list):
        rules["required"] = (spec["required"], (*path, "required"))
    block = spec.get("validation")
    if isinstance(block, dict):
        for key, value in block.items():
            place = (*path, "validation", key)
            if key in rules:
                faults.append(
                    Fault(place, f"{key} is also given beside type; remove one", at_key=True)
                )
            rules[key] = (value, place)
    return rules


def _check_bounds(rules: _Rules, faults: list[Fault]) -> None:
    for low, high in _BOUNDS:
        if low in rules and high in rules:
            least, place = rules[low]
            most = rules[high][0]
            if _is_number(least) and _is_number(most) and least > most:
                faults.append(
                    Fault(place, f"{low} {least} is above {high} {most}: no value would pass")
                )


def _check_enum(kind: Any, rules: _Rules, faults: list[Fault]) -> None:
    options, place = rules.get("enum", (None, ()))
    if not isinstance(options, list):
        return
    for number, option in enumerate(options):
        if isinstance(kind, str) and kind in _KINDS and not _is_kind(option, kind):
            cure = "; quote it" if kind == "string" else ""
            faults.append(Fault((*place, number), f"{option!r} is no {kind}{cure}"))
        elif any(option == other and type(option) is type(other) for other in options[:number]):
            faults.append(Fault((*place, number), f"{option!r} is listed twice; remove one"))


def _check_pattern(rules: _Rules, faults: list[Fault]) -> None:
    pattern, place = rules.get("pattern", (None, ()))
    if isinstance(pattern, str) and (message := pattern_error(pattern)):
        faults.append(Fault(place, message))


def _check_nested(
    rules: _Rules, spec: Mapping[str, Any], faults: list[Fault], *, is_sound: bool
) -> None:
    if "items" in rules:
        check_value(*rules["items"], faults, is_sound=is_sound)
    properties, place = rules.get("properties", (None, ()))
    if not isinstance(properties, dict):
        return
    for name, item in properties.items():
        check_value(item, (*place, name), faults, is_sound=is_sound)
    required, place = rules.get("required", (None, ()))
    if properties and isinstance(required, list):
        for number, name in enumerate(required):
            if name not in properties:
                faults.append(
                    Fault(
                        (*place, number),
                        f"required names {name!r}, which is not in properties "
                        f"({', '.join(map(str, properties))})",
                    )
                )


def _check_raw(spec: Mapping[str, Any], rules: _Rules, path: Path, faults: list[Fault]) -> None:
    raw = spec["schema"]
    if not isinstance(raw, dict):
        return
    # Loaded by name on first use: jsonschema takes longer to import than the rest of the loader.
    checker = import_module("tool_engine.catalog.raw_schema")
    place = (*path, "schema")
    faults.extend(checker.raw_schema_faults(raw, place))
    given = {SHORT_KEYS.get(key, key) for key in rules}
    given |= {"description", "default"}
    faults.extend(
        Fault((*place, keyword), f"{keyword} has its own key beside schema; move it", at_key=True)
        for keyword in raw
        if keyword in given
    )
    kind, types = spec.get("type"), raw.get("type")
    if kind in _KINDS and types is not None and kind not in (types, *_listed(types)):
        faults.append(
            Fault((*place, "type"), f"{types!r} contradicts the type {kind}; include it or remove")
        )


def _check_default(
    spec: Mapping[str, Any], place: Path, *, has_rules: bool, faults: list[Fault]
) -> None:
    value = spec["default"]
    kind = spec.get("type", "any")
    if not has_rules and "schema" not in spec:
        if kind in _KINDS and not _is_kind(value, kind):
            cure = "; quote it" if kind == "string" and _is_number(value) else ""
            shown = "null" if value is None else repr(value)
            cure = "; remove the key for no default" if value is None else cure
            faults.append(Fault(place, f"the default {shown} is no {kind}{cure}"))
        return
    schema = value_schema({key: item for key, item in spec.items() if key != "default"})
    faults.extend(
        Fault(
            (*place, *error.instance_path),
            f"the default breaks the parameter's own rules: {error.message[:300]}; "
            "change the default or the rule",
        )
        for error in compile_check(schema).iter_errors(value)
    )


def _is_kind(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else ()
