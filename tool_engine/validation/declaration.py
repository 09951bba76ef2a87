"""Do a tool's own parameters make sense?

The loader asks this for every file; a `Tool(...)` made in code is checked when it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import jsonschema_rs

from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.error_path import find_error
from tool_engine.model.json.plain import read_plain
from tool_engine.model.json.references import DEFINITIONS
from tool_engine.model.parameter import PARAMETER_TYPES, ToolParameter
from tool_engine.model.schema import (
    VALIDATION_KEYS,
    closed_schema,
    parameters_of,
    parameters_schema,
)
from tool_engine.model.tool import Tool
from tool_engine.validation.effort import find_errors
from tool_engine.validation.filling import Filling, Place, find_misfits
from tool_engine.validation.position import Position, build_validator, can_be_split
from tool_engine.validation.shape import Path, Shaper

_UNREADABLE: Final = (ValueError, TypeError, AttributeError, LookupError)
"""Errors that an invalid schema causes in the code that reads it."""
# By name: most definitions were checked by the loader before.
_RULES: Final = "tool_engine.validation.rules"
_WORDING: Final = "tool_engine.validation.wording"
_DEFAULT: Final = "\0default"
"""A key that no parameter has."""


class Declaration:
    """The parameters of one tool, checked for sense.

    Raises:
        DefinitionError: They do not; it lists everything that is wrong with them.
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        problems = list(self._find_problems())
        if problems:
            raise DefinitionError(*problems)
        try:
            self.schema: dict[str, Any] = _judged_schema(tool)
            self.rules: jsonschema_rs.Draft202012Validator = build_validator(self.schema)
        except _UNREADABLE as error:
            raise DefinitionError(*self._explain_unreadable(error)) from error
        self.declared: dict[str, Any] = _declared_only(tool, self.schema)
        """The schema of the arguments one by one: none must be there, none needs another."""
        short = {
            each.name: {"validation": each.validation, "schema": each.schema}
            for each in tool.parameters
        }
        self.root: Position = Position.of(self.schema, {"properties": short})

    def defaults(self) -> dict[str, Any]:
        """Return the defaults of the optional parameters, as plain JSON.

        Raises:
            DefinitionError: A default breaks its own parameter's rules.
        """
        declared = {
            parameter.name: parameter.default
            for parameter in self._tool.parameters
            if parameter.has_default and not parameter.required
        }
        # A default of null says "none given", whatever the parameter's type.
        values = {name: value for name, value in declared.items() if value is not None}
        return {**declared, **self._judge_values(values, self.declared)}

    def filling(self) -> Filling | None:
        """Return the defaults to fill in inside the arguments; None: none.

        Raises:
            DefinitionError: A default inside an object breaks its own rules.
        """
        keys = {
            name: filling
            for name, schema in self.declared["properties"].items()
            if (filling := Filling.of(schema, self._judge_nested, (name,))) is not None
        }
        if not keys:
            return None
        filling = Filling({}, keys)
        problems = [
            self._explain_broken(error, tuple(error.instance_path))
            for error in find_misfits(filling, build_validator(self.declared), self.declared)
        ]
        if problems:
            raise DefinitionError(*problems)
        return filling

    def _judge_nested(self, place: Place) -> Any:
        # References lead to the parameters, so these must stand where they did.
        schema = {"type": "object", "properties": {_DEFAULT: place.schema}}
        if not can_be_split(place.schema):
            below = self.declared
            schema = {**below, "properties": {**below["properties"], _DEFAULT: place.schema}}
        judged = self._judge_values({_DEFAULT: place.default}, schema, place.path)
        return judged[_DEFAULT]

    def _judge_values(
        self, values: dict[str, Any], schema: dict[str, Any], at: Path | None = None
    ) -> dict[str, Any]:
        """Return `values` as plain JSON that fits `schema`; `at` is the place of a single one."""
        shaper = Shaper()
        shaped = shaper.arguments(read_plain(values), Position.of(schema))

        def place(path: Path) -> Path:
            return path if at is None else (*at, *path[1:])

        problems = [
            self._make_problem(place(refusal.path), f"must {refusal.rule}, got {refusal.got}")
            for refusal in shaper.refusals
        ]
        if not problems:
            errors = find_errors(build_validator(schema), schema, shaped)
            problems = [
                self._explain_broken(error, place(find_error(error, shaped)[0])) for error in errors
            ]
        if problems:
            raise DefinitionError(*problems)
        return shaped

    def numbers(self) -> frozenset[str]:
        """Return the parameters that refuse NaN and accept 1.5 or 1.0 for certain."""
        return frozenset(
            name
            for name in self.root.properties
            if "number" in _list_types(self.root.child(name).certain)
            and not self.root.child(name).is_integer
        )

    def is_bounded(self) -> bool:
        """True if a rule of some parameter depends on how large a number is."""
        return any(self.root.child(name).is_bounded for name in self.root.properties)

    def _find_problems(self) -> Iterator[DefinitionProblem]:
        names: dict[str, int] = {}
        written = self._tool.input_schema
        if written is not None and self._tool.parameters != parameters_of(written):
            message = "they are not those of input_schema; leave one of the two out"
            yield self._locate_problem("parameters", message)
        for index, parameter in enumerate(self._tool.parameters):
            place = f"parameters[{index}]"
            first = names.setdefault(parameter.name, index)
            if first != index:
                yield self._locate_problem(
                    f"{place}.name",
                    f"parameter {parameter.name!r} is already declared as parameters[{first}]; "
                    "rename one of them",
                )
            for key in parameter.validation:
                if key not in VALIDATION_KEYS:
                    near = find_nearest(str(key), VALIDATION_KEYS)
                    hint = f"did you mean {near!r}?" if near else "put it under `schema`"
                    message = f"{key!r} is not a known key: {hint}"
                    yield self._locate_problem(f"{place}.validation.{key}", message)

    def _explain_unreadable(self, whole: Exception) -> list[DefinitionProblem]:
        problems = []
        listed = self._tool.parameters if self._tool.input_schema is None else ()
        for index, parameter in enumerate(listed):
            try:
                build_validator(parameters_schema([parameter]))
            except _UNREADABLE as error:
                message = f"parameter {parameter.name!r}: {_explain_parameter(parameter, error)}"
                problems.append(self._locate_problem(f"parameters[{index}]", message))
        # Each alone may be right, and only their references to one another wrong.
        return problems or [self._locate_problem("parameters", f"cannot be read together: {whole}")]

    def _explain_broken(
        self, error: jsonschema_rs.ValidationError, path: Path
    ) -> DefinitionProblem:
        wording = import_module(_WORDING)
        reading = import_module(_RULES).read_rule(error, error.instance)
        secrets = frozenset(item.name for item in self._tool.parameters if item.secret)
        got = wording.json_text(wording.show_value(error.instance, path, secrets))
        return self._make_problem(path, f"must {reading.rule}, got {got}")

    def _make_problem(self, path: Path, message: str) -> DefinitionProblem:
        names = [parameter.name for parameter in self._tool.parameters]
        place = f"parameters[{names.index(str(path[0]))}].default" if path else "parameters"
        if path and self._tool.input_schema is not None:
            place = f"parameters.properties.{path[0]}.default"
        subject = import_module(_WORDING).name_subject(path)
        return self._locate_problem(place, f"the default of {subject} {message}; correct it")

    def _locate_problem(self, place: str, message: str) -> DefinitionProblem:
        file = self._tool.source or f"tool {self._tool.name!r}"
        return DefinitionProblem(message, file, path=place)


def _judged_schema(tool: Tool) -> dict[str, Any]:
    if tool.input_schema is None:
        return tool.parameters_schema
    return closed_schema(tool.input_schema, (each.name for each in tool.parameters))


def _declared_only(tool: Tool, schema: dict[str, Any]) -> dict[str, Any]:
    if tool.input_schema is None:
        return {keyword: value for keyword, value in schema.items() if keyword != "required"}
    named: dict[str, Any] = {
        keyword: schema[keyword] for keyword in DEFINITIONS if keyword in schema
    }
    properties = {each.name: each.schema or {} for each in tool.parameters}
    return {"type": "object", "properties": properties, **named}


def _explain_parameter(parameter: ToolParameter, error: Exception) -> str:
    if parameter.type not in PARAMETER_TYPES and parameter.type != "any":
        near = find_nearest(str(parameter.type), PARAMETER_TYPES)
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(PARAMETER_TYPES)}"
        return f"unknown type {parameter.type!r}: {hint}"
    if not isinstance(error, jsonschema_rs.ValidationError):
        return f"its rules cannot be read as JSON Schema ({error}); use plain JSON values"
    path = error.instance_path[2:]
    where = f" at {import_module(_WORDING).path_text(tuple(path))}" if path else ""
    cure = "; patterns know no look-around and no back-references" if "pattern" in path else ""
    return f"its rules are not JSON Schema 2020-12{where}: {error.message}{cure}"


def _list_types(schema: dict[str, Any]) -> list[str]:
    declared = schema.get("type", ())
    return [declared] if isinstance(declared, str) else list(declared)
