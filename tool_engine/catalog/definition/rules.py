"""Do the rules of a parameter make sense: together, with its type, and with its default?

A schema cannot say these: bounds that cross, patterns that the engine cannot run, a default that
the tool's own rules would refuse. The engine that validates calls also judges here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import jsonschema_rs
import msgspec

from tool_engine.catalog.definition.fault import Fault, list_names
from tool_engine.catalog.definition.structure import RULES_BY_TYPE
from tool_engine.catalog.definition.type_cures import type_cure
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.error_path import find_error
from tool_engine.model.schema import SHORT_KEYS, value_schema
from tool_engine.redaction import describe_value

FLAT_RULES: Final = (*SHORT_KEYS, "items", "properties")
"""The rules that may stand beside `type` as well as in its `validation` block."""

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_BOUNDS: Final = (("min", "max"), ("min_length", "max_length"), ("min_items", "max_items"))
_LONGEST_KEPT: Final = 1000


def check_value(
    spec: Any, path: Path, faults: list[Fault], *, is_sound: bool, workload: Workload
) -> None:
    """Adds what is wrong with the rules of one value to `faults`.

    Args:
        spec: A parameter, or what `items`, `properties` and `output` hold.
        path: Where `spec` stands in the definition.
        faults: Takes what is found.
        is_sound: Whether the definition's structure is right; a default is judged only then.
        workload: Counts the patterns and raw schemas of the whole definition.
    """
    if not isinstance(spec, dict) or len(faults) >= MAX_PROBLEMS:
        return
    before = len(faults)
    rules = _rules_of(spec, path, faults)
    if rules:
        _check_applicable(spec.get("type"), rules, faults)
        _check_bounds(rules, faults)
        _check_enum(spec.get("type"), rules, faults)
        _check_pattern(rules, faults, workload)
        _check_nested(rules, faults, is_sound=is_sound, workload=workload)
    if "schema" in spec:
        _check_raw(spec, rules, path, faults, workload)
    if "schema" in spec and is_sound and len(faults) == before:
        raw, whole = spec["schema"], value_schema(spec)
        faults += _raw_checker().misfit_faults(raw, whole, (*path, "schema"))
    if "default" in spec and is_sound and len(faults) == before:
        _check_default(spec, (*path, "default"), has_rules=bool(rules), faults=faults)


def compile_check(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """A validator for `schema` as the engine uses it, mostly shared between equal schemas.

    Raises:
        jsonschema_rs.ValidationError: The schema is not valid JSON Schema 2020-12.
    """
    encoded = msgspec.json.encode(schema)
    # A compiled pattern may take megabytes, a long enum as well: these are not kept.
    is_kept = len(encoded) < _LONGEST_KEPT and b'"pattern' not in encoded
    return _compile_once(encoded) if is_kept else _compile_newest(encoded)


def _compile_schema(schema: bytes) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(
        msgspec.json.decode(schema),
        pattern_options=jsonschema_rs.RegexOptions(),
        validate_formats=True,
        offline=True,
    )


_compile_once: Final = lru_cache(maxsize=1024)(_compile_schema)
_compile_newest: Final = lru_cache(maxsize=2)(_compile_schema)
"""For the schema of one definition, which is asked for several times in a row."""


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
                message = f"{key} is also given beside type"
                faults.append(Fault(place, message, at_key=True, cure="remove one"))
            rules[key] = (value, place)
    return rules


def _check_bounds(rules: _Rules, faults: list[Fault]) -> None:
    for low, high in _BOUNDS:
        if low in rules and high in rules:
            least, place = rules[low]
            most = rules[high][0]
            if _is_number(least) and _is_number(most) and least > most:
                message = f"{low} {least} is above {high} {most}: no value would pass"
                faults.append(
                    Fault(
                        place,
                        message,
                        expected=f"at most {most}",
                        got=describe_value(least),
                        cure="change one of the two",
                    )
                )


def _check_applicable(kind: Any, rules: _Rules, faults: list[Fault]) -> None:
    """Add the rules that apply to none of several types; of one type the structure knows."""
    if not isinstance(kind, list):
        return
    known = {"enum", *(rule for each in kind for rule in RULES_BY_TYPE.get(str(each), ()))}
    for key, (_, place) in rules.items():
        if key not in known:
            message = f"{key} does not apply to the types {', '.join(map(str, kind))}"
            cure = f"the rules for them are {', '.join(sorted(known))}"
            faults.append(Fault(place, message, at_key=True, cure=cure))


def _check_enum(kind: Any, rules: _Rules, faults: list[Fault]) -> None:
    options, place = rules.get("enum", (None, ()))
    if not isinstance(options, list):
        return
    seen: set[tuple[type, bytes]] = set()
    for number, option in enumerate(options):
        if not _is_kind(option, kind):
            faults.append(_wrong_kind(option, kind, (*place, number)))
        identity = (type(option), msgspec.json.encode(option, order="deterministic"))
        if identity in seen:
            message = f"{describe_value(option)} is listed twice"
            faults.append(Fault((*place, number), message, cure="remove one"))
        seen.add(identity)


def _check_pattern(rules: _Rules, faults: list[Fault], workload: Workload) -> None:
    pattern, place = rules.get("pattern", (None, ()))
    if isinstance(pattern, str) and (fault := workload.pattern_fault(pattern, place)):
        faults.append(fault)


def _check_nested(
    rules: _Rules,
    faults: list[Fault],
    *,
    is_sound: bool,
    workload: Workload,
) -> None:
    if "items" in rules:
        check_value(*rules["items"], faults, is_sound=is_sound, workload=workload)
    properties, place = rules.get("properties", (None, ()))
    if not isinstance(properties, dict):
        return
    for name, item in properties.items():
        check_value(item, (*place, name), faults, is_sound=is_sound, workload=workload)
    required, place = rules.get("required", (None, ()))
    if properties and isinstance(required, list):
        for number, name in enumerate(required):
            # The structure's own rules report what is no text.
            if isinstance(name, str) and name not in properties:
                faults.append(_unknown_property(name, properties, (*place, number)))


def _check_raw(
    spec: Mapping[str, Any],
    rules: _Rules,
    path: Path,
    faults: list[Fault],
    workload: Workload,
) -> None:
    raw = spec["schema"]
    if not isinstance(raw, dict):
        return
    place = (*path, "schema")
    faults.extend(_raw_checker().raw_schema_faults(raw, place, workload))
    given = {SHORT_KEYS.get(key, key) for key in rules}
    given |= {"description", "default"}
    faults.extend(
        Fault((*place, keyword), f"{keyword} has its own key", at_key=True, cure="move it there")
        for keyword in raw
        if keyword in given
    )
    kind, types = spec.get("type"), raw.get("type")
    if isinstance(kind, list) and types is not None:
        message, cure = "type has its own key", "move it there"
        faults.append(Fault((*place, "type"), message, at_key=True, cure=cure))
    is_known = isinstance(kind, str) and kind in _KINDS
    if is_known and types is not None and kind not in (types, *_as_tuple(types)):
        message = f"{types!r} contradicts the type {kind}"
        faults.append(Fault((*place, "type"), message, cure="include it or remove the key"))


def _raw_checker() -> ModuleType:
    # Loaded by name on first use: jsonschema takes longer to import than the rest of the loader.
    return import_module("tool_engine.catalog.definition.raw_schema")


def _check_default(
    spec: Mapping[str, Any], place: Path, *, has_rules: bool, faults: list[Fault]
) -> None:
    value = spec["default"]
    kind = spec.get("type", "any")
    if not has_rules and "schema" not in spec:
        if not _is_kind(value, kind):
            faults.append(_wrong_kind(value, kind, place))
        return
    faults += default_faults(spec, value_schema(spec), place)


def default_faults(spec: Mapping[str, Any], schema: dict[str, Any], place: Path) -> list[Fault]:
    """Why the default in `spec`, if there is one, does not fit `schema`.

    Args:
        spec: What has the default.
        schema: The JSON Schema of the value.
        place: Where the default stands.
    """
    if "default" not in spec:
        return []
    value = spec["default"]
    check = compile_check({key: item for key, item in schema.items() if key != "default"})
    if check.is_valid(value):
        return []
    # By name: few definitions have a default that is wrong.
    effort = import_module("tool_engine.validation.effort")
    # Each error of a long list may carry one for each choice of its schema.
    errors = effort.find_errors(check, schema, value, only_first=not _is_short(value))
    cure = "change the default or the rule"
    return [
        Fault(
            (*place, *find_error(error, value)[0]),
            f"the default breaks the parameter's own rules: {error.message[:300]}",
            got=describe_value(error.instance),
            cure="remove the key for no default" if value is None else cure,
        )
        for error in errors
    ]


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list) or len(msgspec.json.encode(value)) < _LONGEST_KEPT


def _wrong_kind(value: Any, kind: Any, place: Path) -> Fault:
    kinds = [kind] if isinstance(kind, str) else kind
    is_default = value is None and place[-1] == "default"
    cure = "remove the key for no default" if is_default else type_cure(kinds, value)
    expected = " or ".join(map(_name_kind, kinds))
    return Fault(place, expected=expected, got=describe_value(value), cure=cure)


def _name_kind(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _unknown_property(name: Any, properties: Mapping[str, Any], place: Path) -> Fault:
    listed = list_names(properties)
    return Fault(
        place,
        f"required names {str(name)[:80]!r}, which is not in properties ({listed})",
        expected=f"one of {listed}",
        got=describe_value(name),
        nearest=find_nearest(name, properties) if isinstance(name, str) else "",
    )


def _is_kind(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type, or of one of several; True where no such is known."""
    if isinstance(kind, list):
        return not kind or any(_is_kind(value, each) for each in kind)
    if not isinstance(kind, str) or kind not in _KINDS:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else ()
