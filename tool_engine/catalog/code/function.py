"""Which tool do a function's signature, hints and docstring describe?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.catalog.code.adapting import (
    field_of,
    is_context,
    judge_of,
    read_hints,
    ruled_hint,
    unwrap_partial,
)
from tool_engine.catalog.code.annotation import HintReading, described_as, read_hint
from tool_engine.catalog.code.conversion import Judge
from tool_engine.catalog.code.made_defaults import is_known, known_faults, write_path
from tool_engine.catalog.code.metadata import UnsupportedHintError, readable_hint
from tool_engine.catalog.definition.short_form import short_form
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.checks.setting_kinds import check_names
from tool_engine.model.parameter import PARAMETER_TYPES
from tool_engine.model.settings.field_default import supplier_of
from tool_engine.model.tool import Tool, ToolCategory

_NOT_NAMED: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; remove the / from the signature",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; declare one list instead",
}
_OF_OBJECTS: Final = {
    "self": "is the object of a method, which a class body does not have yet: make the object, "
    "and register its method, as engine.tool()(object.method)",
    "cls": "is the class of a method, which its body does not have yet: register the method of the "
    "class that is made, as engine.tool()(Class.method)",
}
"""The first parameter of a function that is no method yet -> why it is none of the tool."""


def tool_from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    category: ToolCategory | str = ToolCategory.CUSTOM,
    tags: Iterable[str] = (),
    **definition_keys: Any,
) -> Tool:
    """Build the tool that `function` describes.

    Each parameter of the signature becomes a parameter of the tool: its type from the hint, its
    default from the signature, its description from `Annotated` or the docstring (Google, NumPy
    or Sphinx style). A parameter named `context`, or of type `ToolExecutionContext`, is left to
    the engine; `**kwargs` is not declared.

    Args:
        function: Sync or async; also a bound method, a partial or a callable object.
        name: The tool's name; the function's own, when left out.
        description: What the tool does; the docstring's text, when left out.
        category: The tool's category.
        tags: The tool's tags.
        **definition_keys: Any other key of a definition, such as `timeout` or `effect`.

    Raises:
        DefinitionError: Something is missing, or has no JSON form; names the parameter.

    Example:
        >>> def add(a: int, b: int = 0) -> int:
        ...     "Adds two numbers."
        ...     return a + b
        >>> [parameter.type for parameter in tool_from_function(add).parameters]
        ['integer', 'integer']
    """
    tool_name = name or getattr(function, "__name__", None) or type(function).__name__
    source = _name_source(function, tool_name)
    text, about = _read_documentation(function)
    unnamed: list[str] = []
    parameters = _Signature(function, source, about, unnamed).parameters()
    definition: dict[str, Any] = {
        "name": tool_name,
        "description": description or text,
        "category": category,
        "tags": list(check_names("tags", tags, "tag")),
        "parameters": parameters,
        "entry": {"type": "custom", "handler": tool_name},
        **definition_keys,
    }
    if not definition["description"]:
        raise _make_error(
            source, "description", "is missing; write a docstring or pass description"
        )
    tool = ToolConfigLoader().from_mapping(definition, source)
    findings = [
        f"{source}: the parameter {parameter!r} has no description; write one in the docstring"
        for parameter in unnamed
    ]
    return msgspec.structs.replace(tool, findings=[*tool.findings, *findings])


def read_apart(function: Callable[..., Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a definition whose function runs apart: `isolation` is in its entry.

    Raises:
        DefinitionError: Other processes cannot import the function.
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not name or "<" in name or module == "__main__":
        raise _make_error(
            _name_source(function, name or type(function).__name__),
            "isolation",
            "needs a function that other processes can import; define it in a module, "
            "outside of functions",
        )
    config = {key: value for key, value in keys.items() if key in _OF_CONFIG}
    others = {key: value for key, value in keys.items() if key not in _OF_CONFIG}
    entry = {"type": "custom", "handler": f"{module}:{name}", "config": config}
    return {**others, "entry": entry}


_OF_CONFIG: Final = (
    *("isolation", "memory", "cpu", "workers", "resources", "runtime"),
    *("min_workers", "max_workers", "idle_time", "batch"),
)
"""Keys of `entry.config` of a function that runs apart."""


class _Signature:
    def __init__(
        self,
        function: Callable[..., Any],
        source: str,
        about: Mapping[str, str],
        unnamed: list[str],
    ) -> None:
        self._source = source
        self._about = about
        self._unnamed = unnamed
        if isinstance(function, classmethod):
            raise _make_error(source, "", f"'cls' {_OF_OBJECTS['cls']}")
        try:
            self._listed = list(inspect.signature(function).parameters.values())
            self._hints = read_hints(function)
        except (TypeError, ValueError, NameError) as error:
            raise _make_error(
                source, "", f"the signature cannot be read: {error}; use types of the module"
            ) from error

    def parameters(self) -> list[dict[str, Any]]:
        specs: list[dict[str, Any]] = []
        for parameter in self._listed:
            is_extra = parameter.kind is inspect.Parameter.VAR_KEYWORD
            if not is_extra and not is_context(parameter, self._hints):
                specs.append(self._make_parameter(parameter, f"parameters[{len(specs)}]"))
        return specs

    def _make_parameter(self, parameter: inspect.Parameter, path: str) -> dict[str, Any]:
        name = parameter.name
        if parameter.kind in _NOT_NAMED:
            raise _make_error(self._source, path, f"{name!r} {_NOT_NAMED[parameter.kind]}")
        if name in _OF_OBJECTS and parameter is self._listed[0]:
            raise _make_error(self._source, path, f"{name!r} {_OF_OBJECTS[name]}")
        if name not in self._hints:
            raise _make_error(self._source, path, f"{name!r} has no type; annotate it: {name}: str")
        hint = ruled_hint(parameter, self._hints)
        try:
            reading = read_hint(hint)
        except UnsupportedHintError as error:
            raise _make_error(self._source, path, f"{name!r}: {error}") from error
        spec = {"name": name, **_type_rules(reading.schema)}
        spec["description"] = self._describe_parameter(name, hint, spec)
        self._add_default(parameter, reading, spec, path)
        faults = known_faults(readable_hint(hint)) if reading.typed is None else ()
        for where, reason in faults:
            message = f"{name!r}: the default of {where} does not fit its type: {reason}"
            raise _make_error(self._source, path, message)
        return spec

    def _describe_parameter(self, name: str, hint: Any, spec: Mapping[str, Any]) -> str:
        text = described_as(hint) or spec.get("description") or self._about.get(name)
        if not text:
            self._unnamed.append(name)
            text = name.replace("_", " ").strip() or name
        return text

    def _add_default(
        self,
        parameter: inspect.Parameter,
        reading: HintReading,
        spec: dict[str, Any],
        path: str,
    ) -> None:
        kinds = reading.schema["type"]
        is_nullable = isinstance(kinds, list) and "null" in kinds
        if reading.typed is not None:
            # A schema of pydantic without a type says nothing about null.
            is_nullable &= len(kinds) <= len(PARAMETER_TYPES)
        default, field = parameter.default, field_of(parameter, self._hints)
        if field is not None:
            supply = supplier_of(field)
            if supply is not None and field.default_factory is not None:
                # Each call gets a value of its own, which no definition can say beforehand.
                judge = judge_of(ruled_hint(parameter, self._hints))
                self._check_known(supply, judge, parameter.name, path)
                return
            default = inspect.Parameter.empty if supply is None else supply()
        if default is inspect.Parameter.empty:
            # None replaces a missing nullable value; to `Any` it is a value like any other.
            if is_nullable and self._hints[parameter.name] not in (Any, object):
                spec["default"] = None
            else:
                spec["required"] = True
            return
        if default is None:
            # Left out, the function's own default applies; a null in the schema would only be
            # one more thing for a model to copy.
            return
        try:
            known = (
                msgspec.to_builtins(default, str_keys=True, enc_hook=write_path)
                if reading.typed is None
                else reading.typed.json_default(default)
            )
        except (TypeError, ValueError, NotImplementedError) as error:
            raise _make_error(
                self._source,
                f"{path}.default",
                f"the default of {parameter.name!r} has no JSON form, so that models cannot be told"
                f" of it ({error}); write a value of JSON, or None and set it in the function",
            ) from error
        if known is not msgspec.UNSET:
            spec["default"] = known

    def _check_known(self, supply: Callable[[], Any], judge: Judge, name: str, path: str) -> None:
        found = judge(supply()) if is_known(supply) else None
        if found is not None:
            message = f"the default of {name!r} does not fit its type: {found[1]}"
            raise _make_error(self._source, f"{path}.default", message)


def _type_rules(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's type and rules, several types as raw schema."""
    kind = schema["type"]
    if isinstance(kind, str):
        return short_form(schema)
    first = next(name for name in kind if name != "null")
    spec: dict[str, Any] = {"type": first, "schema": dict(schema)}
    if "description" in schema:
        spec["description"] = spec["schema"].pop("description")
    spec["schema"].pop("default", None)
    return spec


def _read_documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the descriptions of a function and its parameters, by name."""
    # Only functions that become tools have their docstring parsed.
    import docstring_parser

    parsed = docstring_parser.parse(_read_docstring(function))
    parts = [part for part in (parsed.short_description, parsed.long_description) if part]
    about = {
        entry.arg_name: " ".join(entry.description.split())
        for entry in parsed.params
        if entry.description
    }
    return "\n\n".join(parts), about


def _read_docstring(function: Callable[..., Any]) -> str:
    function = unwrap_partial(function)
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    # inspect.getdoc would find the docstring that every class inherits for __call__.
    own = type(function).__call__.__doc__ or type(function).__doc__ or ""
    return inspect.cleandoc(own)


def _name_source(function: Callable[..., Any], name: str) -> str:
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"<function {module}.{getattr(function, '__qualname__', name)}>"


def _make_error(source: str, path: str, message: str) -> DefinitionError:
    return DefinitionError(DefinitionProblem(message, source, path=path))
