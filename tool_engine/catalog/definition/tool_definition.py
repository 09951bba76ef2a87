"""Which tool does a definition, read into plain data, describe?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.audience import hint_warnings, read_readers, reader_faults
from tool_engine.catalog.definition.concurrency import (
    build_concurrency,
    concurrency_faults,
    rate_faults,
)
from tool_engine.catalog.definition.examples import example_faults
from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.foreign_words import as_output_spec
from tool_engine.catalog.definition.known_parts import (
    is_known_output,
    is_known_parameter,
    known_output_schema,
)
from tool_engine.catalog.definition.permission import (
    build_permission,
    label_warnings,
    permission_warnings,
)
from tool_engine.catalog.definition.rules import FLAT_RULES, check_value
from tool_engine.catalog.definition.structure import structure_faults
from tool_engine.catalog.definition.workload import Workload
from tool_engine.catalog.limits import MAX_PATTERN_LENGTH
from tool_engine.catalog.literal_words import find_literals
from tool_engine.catalog.private_host import find_private_host
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.result import CutStrategy, ResultLimits, ResultShow
from tool_engine.model.schema import output_schema, parameters_of, value_schema
from tool_engine.model.settings.concurrency import ToolRate
from tool_engine.model.tool import RetryPolicy, Tool, ToolCategory, content_of, pack_tool

_COPIED: Final = (
    *("version", "author", "icon", "shareable_scope", "status", "timeout", "effect"),
    *("accepts", "max_uses", "examples", "tests", "output_mode", "background"),
)
_RUN_BY: Final = {
    "http": ("request",),
    "workflow": ("steps",),
    "javascript": ("handler",),
    "mcp": ("server", "tool"),
}
"""Entry type -> the keys without which such an entry does nothing."""
_OUTPUTS: Final = ("output", "returns")
_OF_SEVERAL_TYPES: Final = frozenset(("type", "validation", "schema", *FLAT_RULES))
_FIELDS: Final = frozenset(ToolParameter.__struct_fields__) - {"has_default"}
_CATEGORIES: Final = {category.value: category for category in ToolCategory}


def definition_faults(definition: Any, *, is_schema_right: bool = False) -> list[Fault]:
    """Return every fault; `build_tool` takes only definitions without one.

    Args:
        definition: As plain data.
        is_schema_right: Whether the schema under `parameters` is known to be right.
    """
    is_known = isinstance(definition, dict) and all(
        is_known_output(definition[key]) for key in _OUTPUTS if key in definition
    )
    meant = definition if is_known else _with_outputs(definition)
    faults = _list_faults(meant, is_schema_right=is_schema_right, is_output_right=is_known)
    if meant is definition:
        return faults
    pasted = {key for key in _OUTPUTS if meant.get(key) is not definition.get(key)}
    return [
        fault._replace(path=(fault.path[0], *fault.path[2:]))
        if fault.path and fault.path[0] in pasted
        else fault
        for fault in faults
    ]


def _with_outputs(definition: Any) -> Any:
    """Return a definition with pasted JSON Schemas of outputs where schemas belong."""
    if not isinstance(definition, dict):
        return definition
    specs = {key: as_output_spec(definition[key]) for key in _OUTPUTS if key in definition}
    is_same = all(specs[key] is definition[key] for key in specs)
    return definition if is_same else {**definition, **specs}


def _list_faults(definition: Any, *, is_schema_right: bool, is_output_right: bool) -> list[Fault]:
    faults = structure_faults(definition)
    if not isinstance(definition, dict):
        return faults
    unsound = {fault.path[:2] for fault in faults} | {fault.path[:1] for fault in faults}
    workload = Workload()
    parameters = definition.get("parameters")
    if isinstance(parameters, list):
        for number, parameter in enumerate(parameters):
            place = ("parameters", number)
            is_sound = place not in unsound
            if not (is_sound and is_known_parameter(parameter, workload)):
                check_value(parameter, place, faults, is_sound=is_sound, workload=workload)
        _check_names(parameters, faults)
    elif isinstance(parameters, dict) and not is_schema_right:
        faults += _root_checker().root_schema_faults(parameters, workload)
    for key in () if is_output_right else _OUTPUTS:
        is_sound = (key,) not in unsound
        check_value(definition.get(key), (key,), faults, is_sound=is_sound, workload=workload)
    _check_retry(definition, faults)
    faults += concurrency_faults(definition)
    faults += reader_faults(definition)
    if "examples" in definition or "tests" in definition:
        faults += example_faults(definition)
    if "rate" in definition and ("rate",) not in unsound:
        faults += rate_faults(definition["rate"])
    if "result" in definition:
        faults += limit_faults(definition["result"])
    return faults


def definition_warnings(
    definition: Mapping[str, Any], *, is_schema_right: bool = False
) -> list[Fault]:
    """Return what is allowed, but can hardly be meant."""
    parameters = definition.get("parameters", ())
    listed = () if isinstance(parameters, dict) else parameters
    found = [
        Fault(
            ("parameters", number, "default"),
            "a required parameter never uses its default",
            at_key=True,
            cure="remove one of the two",
        )
        for number, parameter in enumerate(listed)
        if "default" in parameter and parameter.get("required")
    ]
    for number, parameter in enumerate(listed):
        if "schema" in parameter:
            found += _raw_warnings(parameter, ("parameters", number, "schema"))
    if isinstance(parameters, dict) and not is_schema_right:
        found += _root_checker().root_schema_warnings(parameters)
    found += _entry_warnings(definition)
    entry = definition.get("entry")
    found += [
        Fault(place, message, cure=cure)
        for place, message, cure in (*find_private_host(entry), *find_literals(entry))
    ]
    if "annotations" in definition:
        found += hint_warnings(definition)
    if "permission" in definition:
        found += permission_warnings(definition["permission"])
    if "accepts" in definition:
        found += label_warnings(definition["accepts"])
    return found


def _root_checker() -> ModuleType:
    # Loaded by name: most definitions list their parameters.
    return import_module("tool_engine.catalog.definition.raw_schema")


def _raw_warnings(parameter: Mapping[str, Any], place: Path) -> Iterator[Fault]:
    checker = import_module("tool_engine.catalog.definition.raw_schema")
    if checker.is_impossible(value_schema({**parameter, "description": ""})):
        message = "no value would pass: the rules contradict one another, or the type"
        yield Fault(place, message, at_key=True, cure="correct them")
    yield from checker.idle_defaults(parameter["schema"], place)


def _entry_warnings(definition: Mapping[str, Any]) -> list[Fault]:
    entry = definition.get("entry", {})
    kind = entry.get("type")
    needed = _RUN_BY.get(kind, ())
    if not needed or "handler" in entry or any(key in entry for key in needed):
        return []
    what = f"entry.{needed[0]}, or " if needed[0] != "handler" else ""
    message = f"the type {kind} runs nothing by itself, and the entry does not say what does"
    return [Fault(("entry", "type"), message, cure=f"write {what}entry.handler")]


def build_tool(definition: Mapping[str, Any], source: str | None, findings: list[str]) -> Tool:
    name = definition["name"]
    fields: dict[str, Any] = {key: definition[key] for key in _COPIED if key in definition}
    fields.setdefault("version", "1.0.0")
    if "timeout" in fields:
        fields["timeout"] = float(fields["timeout"])
    if "retry" in definition:
        fields["retry"] = _make_retry(definition["retry"])
    if "concurrency" in definition:
        fields["concurrency"] = build_concurrency(definition["concurrency"])
    if "rate" in definition:
        fields["rate"] = ToolRate.parse(definition["rate"])
    if "result" in definition:
        fields["result"] = build_limits(definition["result"])
    if "permission" in definition:
        fields["permission"] = build_permission(definition["permission"])
    fields.update(read_readers(definition))
    if "max_uses" in fields:
        fields["max_uses"] = int(fields["max_uses"])
    parameters = definition.get("parameters", ())
    input_schema = parameters if isinstance(parameters, dict) else None
    tool = Tool(
        id=name,
        name=name,
        description=definition["description"],
        category=_CATEGORIES[definition.get("category", "custom")],
        tags=definition.get("tags", []),
        parameters=(
            _make_parameters(parameters) if input_schema is None else parameters_of(input_schema)
        ),
        input_schema=input_schema,
        implementation_config=definition.get("entry", {"type": "custom"}),
        output=_make_output(definition),
        idempotent=definition.get("idempotent", False),
        **fields,
    )
    # The hash covers what the tool is, not the layout or place of its text.
    change = msgspec.structs.force_setattr
    change(tool, "definition_hash", hashlib.sha256(content_of(tool)).hexdigest())
    change(tool, "source", source)
    change(tool, "findings", findings)
    return pack_tool(tool)


def _make_parameters(listed: list[dict[str, Any]]) -> list[ToolParameter]:
    is_as_written = all(
        each.keys() <= _FIELDS
        and each["type"].__class__ is str
        and each.get("default", True) is not None
        for each in listed
    )
    # One step of C where the definition's words are the fields.
    return (
        msgspec.convert(listed, list[ToolParameter])
        if is_as_written
        else [_make_parameter(each) for each in listed]
    )


def _make_parameter(spec: Mapping[str, Any]) -> ToolParameter:
    validation = {key: spec[key] for key in FLAT_RULES if key in spec}
    validation.update(spec.get("validation", ()))
    kind, raw = spec["type"], spec.get("schema")
    if isinstance(kind, list):
        # A parameter has one type: what is said of several is JSON Schema.
        raw = value_schema({key: each for key, each in spec.items() if key in _OF_SEVERAL_TYPES})
        kind, validation = "any", {}
    return ToolParameter(
        name=spec["name"],
        type=kind,
        required=spec.get("required", False),
        default=spec.get("default"),
        description=spec["description"],
        validation=validation,
        schema=raw,
        has_default="default" in spec,
        secret=spec.get("secret", False),
    )


def _make_retry(spec: Mapping[str, Any]) -> RetryPolicy:
    return RetryPolicy(
        attempts=int(spec["attempts"]),
        backoff=float(spec.get("backoff", 0.1)),
        on=tuple(spec.get("on", ("execution_error", "timeout", "worker_lost"))),
    )


def _make_output(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    spec = definition.get("output", definition.get("returns"))
    if spec is None:
        return None
    return known_output_schema(spec) or output_schema(as_output_spec(spec))


def _check_names(parameters: list[Any], faults: list[Fault]) -> None:
    seen: dict[str, int] = {}
    for number, parameter in enumerate(parameters):
        name = parameter.get("name") if isinstance(parameter, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            faults.append(
                Fault(
                    ("parameters", number, "name"),
                    f"the parameter {name[:80]!r} is already declared as parameters[{seen[name]}]",
                    cure="rename or remove one",
                )
            )
        seen.setdefault(name, number)


def _check_retry(definition: Mapping[str, Any], faults: list[Fault]) -> None:
    if "retry" not in definition:
        return
    may_repeat = definition.get("effect") == "read" or definition.get("idempotent") is True
    if not (may_repeat or _sends_idempotency_key(definition)):
        faults.append(
            Fault(
                ("retry",),
                "retry applies only to tools that may safely run twice",
                at_key=True,
                cure="add effect: read or idempotent: true, or remove retry",
            )
        )


def _sends_idempotency_key(definition: Mapping[str, Any]) -> bool:
    entry = definition.get("entry")
    request = entry.get("request") if isinstance(entry, Mapping) else None
    return isinstance(request, Mapping) and bool(request.get("idempotency_key"))


_COUNTS: Final = ("max_chars", "max_items", "limit")


def limit_faults(spec: Any) -> list[Fault]:
    if not isinstance(spec, dict):
        return []
    faults: list[Fault] = []
    select = spec.get("select")
    if isinstance(select, str) and len(select) > MAX_PATTERN_LENGTH:
        message = f"has {len(select):,} characters, and may have {MAX_PATTERN_LENGTH:,}"
        faults.append(Fault(("result", "select"), message, cure="simplify it"))
    elif isinstance(select, str) and select.strip():
        # Loaded on first use: few definitions select.
        jmespath = import_module("jmespath")
        try:
            jmespath.compile(select)
        except (jmespath.exceptions.JMESPathError, RecursionError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            message = f"not a JMESPath expression: {reason[:200]}"
            cure = "leave out the $. at its beginning" if select.startswith("$") else "correct it"
            faults.append(Fault(("result", "select"), message, cure=cure))
    if "strategy" in spec and not {"max_chars", "max_items"} & set(spec):
        message = "strategy says what stays where a limit cuts, and there is none"
        cure = "add max_chars or max_items, or remove it"
        faults.append(Fault(("result", "strategy"), message, at_key=True, cure=cure))
    return faults


def build_limits(spec: Mapping[str, Any]) -> ResultLimits:
    values = {key: int(spec[key]) for key in _COUNTS if key in spec}
    strategy = CutStrategy(spec.get("strategy", CutStrategy.HEAD_TAIL))
    show = ResultShow(spec["show"]) if "show" in spec else None
    return ResultLimits(strategy=strategy, select=spec.get("select"), show=show, **values)
