"""Which raw JSON Schema may stand in a definition?

A keyword that the engine would not enforce is refused: a rule that is written and ignored is worse
than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import jsonschema_rs.canonical
import msgspec

from tool_engine.catalog.definition.fault import Fault, list_names
from tool_engine.catalog.definition.foreign_words import (
    MISPLACED_SCHEMA,
    SCHEMA_KEYS,
    is_root_schema,
    schema_cure,
)
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS, is_known_draft
from tool_engine.catalog.definition.rules import compile_check, default_faults
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.limits import LONGEST_NAME, MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.references import (
    DEFINITIONS,
    HOLD_SCHEMAS,
    IN_PLACE,
    copy_schemas,
    inner_schemas,
    resolve_pointer,
    split_pointer,
    write_pointer,
)
from tool_engine.model.json.secret_schema import write_only_names
from tool_engine.redaction import describe_value

_LONGEST_JUDGED: Final = 10_000
"""Bytes of a schema; to find out what a longer one allows could take long."""
_INSTEAD_OF_KEYS: Final = (
    "remove it, and take what is secret as a value: under additionalProperties with writeOnly, or "
    "as a list of objects with a property that is writeOnly"
)
_OTHER_REFERENCES: Final = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id")
_OLDER_WORDS: Final = {
    "nullable": "type: [string, 'null'] in place of type: string",
    "dependencies": "dependentRequired for lists of keys, dependentSchemas for schemas",
    "additionalItems": "items, and the list of schemas under prefixItems",
}
"""Keywords of older drafts and of OpenAPI -> what says the same today."""
_WHOLE: Final = ("$defs", "whole")
_CERTAIN: Final = frozenset({"properties", "items", "additionalProperties"})
"""Keywords through which a rule still holds for every value."""
_PLACE: Final[Path] = ("parameters",)


def raw_schema_faults(schema: dict[str, Any], path: Path, workload: Workload) -> list[Fault]:
    faults: list[Fault] = []
    _check_keywords(schema, path, faults, workload)
    if len(faults) >= MAX_PROBLEMS or not workload.is_bearable:
        return faults
    inner = [node for _, node in copy_schemas(schema)]
    has_references = any("$ref" in node for node in inner)
    if has_references:
        _check_references(schema, path, faults)
    if "$schema" in schema or not jsonschema_rs.meta.is_valid(schema):
        # Explains what is wrong; it takes long to import, and most schemas are right.
        from jsonschema import Draft202012Validator

        errors = Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)
        faults.extend(_not_a_schema(error, path) for error in islice(errors, MAX_PROBLEMS))
    if has_references and not faults and not _has_bound(schema):
        message = "its references multiply, so that thousands of schemas apply to one value"
        faults.append(Fault(path, message, cure="simplify it"))
    if not faults:
        try:
            compile_check(schema)
        except jsonschema_rs.ValidationError as error:  # pragma: no cover - the two agree so far
            faults.append(Fault(path, f"not a usable JSON Schema: {error.message[:300]}"))
    if not faults and any("default" in node for node in inner):
        _check_defaults(schema, path, faults)
    return faults


def _has_bound(schema: dict[str, Any]) -> bool:
    # By name: the validator stands beside the catalog.
    return bool(import_module("tool_engine.validation.effort").find_levels(schema))


def misfit_faults(raw: dict[str, Any], schema: dict[str, Any], path: Path) -> list[Fault]:
    """The defaults in `raw`, which stands at `path`, that break a rule in a branch of it.

    Args:
        raw: The raw schema.
        schema: The schema of the whole value, in which it stands.
        path: Its place.
    """
    # By name: what fills a call in is the validator's, and it alone knows what a call gets.
    filling = import_module("tool_engine.validation.filling")
    filled = filling.Filling.of(schema, lambda place: place.default)
    if filled is None:
        return []
    return [
        Fault(
            _place_in(raw, error.instance_path, path),
            f"the default breaks another rule of the schema: {error.message[:300]}",
            got=describe_value(error.instance),
            cure="change the default or the rule",
        )
        for error in islice(
            filling.find_misfits(filled, compile_check(schema), schema), MAX_PROBLEMS
        )
    ]


def _place_in(raw: Any, steps: Iterable[Any], path: Path) -> Path:
    """Where the schema of a place in a value stands, as far as `properties` and `items` lead."""
    for step in steps:
        inner = ("items",) if isinstance(step, int) else ("properties", step)
        for key in inner:
            if not isinstance(raw, dict) or key not in raw:
                return path
            raw, path = raw[key], (*path, key)
    return (*path, "default") if isinstance(raw, dict) and "default" in raw else path


def unfit_defaults(schema: dict[str, Any]) -> Iterator[Path]:
    """Yield the places of the schemas inside of one whose default breaks their own rules."""
    for steps, node, rules in _list_defaults(schema):
        try:
            check = compile_check({key: each for key, each in rules.items() if key != "default"})
            is_fitting = check.is_valid(node["default"])
        except ValueError:
            # What is no schema, or no text, is a fault of its own.
            continue
        if not is_fitting:
            yield steps


def is_impossible(schema: dict[str, Any]) -> bool:
    """Return True if certainly no value fits `schema`."""
    if len(msgspec.json.encode(schema)) > _LONGEST_JUDGED:
        return False
    try:
        empty = jsonschema_rs.canonical.find_unsatisfiable(
            schema,
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=True,
            offline=True,
        )
    except (ValueError, TypeError):  # pragma: no cover - other code reports what is no schema
        return False
    return "" in empty


def idle_defaults(schema: Any, path: Path, *, is_certain: bool = True) -> Iterator[Fault]:
    """Yield the defaults in `schema` that no call ever gets."""
    if not isinstance(schema, dict):
        return
    if not is_certain and "default" in schema:
        is_named = not {*DEFINITIONS}.isdisjoint(path)
        why = (
            "behind a $ref is never filled in"
            if is_named
            else ("in a branch is never filled in, as the branch need not apply")
        )
        cure = "move it to the parameter's own properties or items, or remove it"
        yield Fault((*path, "default"), f"a default {why}", at_key=True, cure=cure)
    for keyword, value in schema.items():
        if keyword not in HOLD_SCHEMAS:
            continue
        is_sure = is_certain and keyword in _CERTAIN
        is_sure &= not (keyword == "items" and "prefixItems" in schema)
        is_sure &= not (keyword == "additionalProperties" and "patternProperties" in schema)
        for part, child in inner_schemas(keyword, value):
            yield from idle_defaults(child, (*path, keyword, *part), is_certain=is_sure)


def _not_a_schema(error: Any, path: Path) -> Fault:
    return Fault(
        (*path, *error.absolute_path),
        f"not JSON Schema 2020-12: {error.message[:300]}",
        got=describe_value(error.instance),
        cure="mend it",
    )


def _check_keywords(schema: Any, path: Path, faults: list[Fault], workload: Workload) -> None:
    if not isinstance(schema, dict) or len(faults) >= MAX_PROBLEMS:
        return
    if fault := workload.schema_fault(path):
        faults.append(fault)
    if not workload.is_bearable:
        return
    for keyword, value in schema.items():
        place = (*path, keyword)
        if keyword not in KEYWORDS:
            faults.append(_unsupported_fault(keyword, place))
        _check_texts(keyword, value, place, faults, workload)
        if keyword == "propertyNames" and any(write_only_names({"properties": {keyword: value}})):
            message = "writeOnly hides values, and these are keys"
            faults.append(Fault(place, message, cure=_INSTEAD_OF_KEYS))
        if keyword in HOLD_SCHEMAS:
            for part, child in inner_schemas(keyword, value):
                _check_keywords(child, (*place, *part), faults, workload)


def _check_references(schema: dict[str, Any], path: Path, faults: list[Fault]) -> None:
    """Add the references that lead nowhere, out of the schema, or in a circle."""
    nodes = copy_schemas(schema)
    known = {id(node) for _, node in nodes}
    before = len(faults)
    for steps, node in nodes:
        pointer = node.get("$ref")
        target = resolve_pointer(nodes[0][1], pointer)
        if isinstance(pointer, str) and not (isinstance(target, bool) or id(target) in known):
            faults.append(_lost_reference(schema, pointer, (*path, *steps, "$ref")))
    if len(faults) == before and (way := _find_circle(nodes)) is not None:
        message = "this schema refers to itself without a step into the value, so it has no end"
        cure = "refer to it from properties or items"
        faults.append(Fault((*path, *way), message, cure=cure))


def _lost_reference(schema: dict[str, Any], pointer: str, place: Path) -> Fault:
    if not pointer.startswith("#"):
        message = f"the reference {pointer[:80]!r} leads elsewhere, and nothing is fetched"
        cure = "copy what it means under $defs, and refer to it with '#/$defs/NAME'"
        return Fault(place, message, cure=cure)
    named = {key: schema[key] for key in DEFINITIONS if isinstance(schema.get(key), dict)}
    known = [f"#/{key}/{name}" for key, each in named.items() for name in each]
    near = find_nearest(pointer, known)
    cure = "" if near else f"the definitions here are {list_names(known)}" if known else "add $defs"
    return Fault(place, f"there is no schema at {pointer[:80]!r}", nearest=near, cure=cure)


def _find_circle(nodes: list[tuple[Path, dict[str, Any]]]) -> Path | None:
    """Return the way to a schema that applies itself to the same value, or None."""
    whole = nodes[0][1]
    ways = {id(node): steps for steps, node in nodes}
    is_open: dict[int, bool] = {}
    for _, node in nodes:
        trail = [] if id(node) in is_open else [(node, _list_in_place(whole, node))]
        while trail:
            each, following = trail[-1]
            is_open[id(each)] = True
            after = next(following, None)
            if after is None:
                is_open[id(trail.pop()[0])] = False
            elif is_open.get(id(after)):
                return ways[id(after)]
            elif id(after) not in is_open:
                trail.append((after, _list_in_place(whole, after)))
    return None


def _list_in_place(whole: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a schema applies to the same value."""
    found = [resolve_pointer(whole, node.get("$ref"))]
    for keyword in IN_PLACE & node.keys():
        found += (child for _, child in inner_schemas(keyword, node[keyword]))
    return (each for each in found if isinstance(each, dict))


def _check_defaults(schema: dict[str, Any], path: Path, faults: list[Fault]) -> None:
    for steps, node, rules in _list_defaults(schema):
        if len(faults) < MAX_PROBLEMS:
            faults += default_faults(node, rules, (*path, *steps, "default"))


def _list_defaults(schema: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
    """Yield the schemas inside of one that have a default: place, schema, and what it means."""
    nodes = copy_schemas(schema)
    whole = _as_definition(nodes)
    for steps, node in nodes[1:]:
        if "default" in node:
            pointer = write_pointer((*_WHOLE, *steps))
            yield (
                steps,
                node,
                node
                if whole is None
                else {
                    "$ref": pointer,
                    "$defs": {_WHOLE[1]: whole},
                },
            )


def _as_definition(nodes: list[tuple[Path, dict[str, Any]]]) -> dict[str, Any] | None:
    """Let the references of a schema begin at `_WHOLE`; None: it has none."""
    found = [node for _, node in nodes if isinstance(node.get("$ref"), str)]
    for node in found:
        node["$ref"] = write_pointer((*_WHOLE, *split_pointer(node["$ref"])))
    return nodes[0][1] if found else None


def _check_texts(
    keyword: str, value: Any, place: Path, faults: list[Fault], workload: Workload
) -> None:
    if (
        keyword == "pattern"
        and isinstance(value, str)
        and (fault := workload.pattern_fault(value, place))
    ):
        faults.append(fault)
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        message = f"the format {value[:80]!r} is not checked"
        faults.append(Fault(place, message, cure="use a pattern or remove it"))
    if keyword == "patternProperties" and isinstance(value, dict):
        wrong = (
            workload.pattern_fault(pattern, (*place, pattern), at_key=True) for pattern in value
        )
        faults.extend(fault for fault in wrong if fault)


def _unsupported_fault(keyword: str, place: Path) -> Fault:
    near, cure = find_nearest(keyword, KEYWORDS), ""
    if keyword in _OTHER_REFERENCES:
        near, cure = "", "name the schema under $defs, and refer to it with $ref: '#/$defs/NAME'"
    elif keyword in SCHEMA_KEYS:
        near, cure = "", MISPLACED_SCHEMA
    elif keyword in _OLDER_WORDS:
        near, cure = "", f"write {_OLDER_WORDS[keyword]}"
    elif not near:
        cure = "remove it"
    message = f"the keyword {keyword[:80]!r} is not supported in a schema"
    return Fault(place, message, at_key=True, nearest=near, cure=cure)


def root_schema_faults(schema: dict[str, Any], workload: Workload) -> list[Fault]:
    """Return why a schema cannot stand as `parameters`, where it is kept as it is written."""
    if (misplaced := SCHEMA_KEYS & schema.keys()) and not schema.keys() & {"type", "properties"}:
        key = min(misplaced)
        return [Fault((*_PLACE, key), f"unknown key {key!r}", at_key=True, cure=MISPLACED_SCHEMA)]
    if not is_root_schema(schema):
        expected = "a list, or the JSON Schema of an object"
        cure = schema_cure(schema)
        return [Fault(_PLACE, expected=expected, got=describe_value(schema), cure=cure)]
    faults = list(_find_misplaced(schema))
    rules = {key: value for key, value in schema.items() if key != "$schema"}
    faults += raw_schema_faults(rules, _PLACE, workload)
    return faults or misfit_faults(rules, rules, _PLACE)


def root_schema_warnings(schema: dict[str, Any]) -> list[Fault]:
    """Return what of a schema can hardly be meant."""
    found = list(idle_defaults(schema, _PLACE))
    if is_impossible(schema):
        message = "no arguments would pass: the rules contradict one another"
        found.append(Fault(_PLACE, message, at_key=True, cure="correct them"))
    return found


def _find_misplaced(schema: dict[str, Any]) -> Iterator[Fault]:
    kind, draft = schema.get("type", "object"), schema.get("$schema")
    if kind != "object":
        cure = "write type: object, and what this is under properties"
        yield Fault((*_PLACE, "type"), expected="object", got=describe_value(kind), cure=cure)
    if "$schema" in schema and not is_known_draft(draft):
        cure = "remove the key; it is read as 2020-12"
        yield Fault((*_PLACE, "$schema"), f"{draft!r:.100} is no known draft", cure=cure)
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, dict) else ():
        place = (*_PLACE, "properties", name)
        if not name or len(name) > LONGEST_NAME:
            message = f"a parameter's name has 1 to {LONGEST_NAME} characters"
            yield Fault(place, message, at_key=True, cure="change it")
        if isinstance(each, dict) and each.get("writeOnly") is True and "default" in each:
            message = "a model would be shown the default of this secret"
            cure = "write the parameters as a list, this one with secret: true, or remove it"
            yield Fault((*place, "default"), message, at_key=True, cure=cure)
