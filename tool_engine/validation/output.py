"""Does a tool's output hold what its definition declares?

A mapping is held against the declaration as it is. A lone value is held in an output as
`{"result": value}`: there the value is what was declared, unless the declaration names `result`.
Beside content it is what stands under `structuredContent`, unless the declaration names that.
"""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ValidationError
from tool_engine.model.content.blocks import find_structured
from tool_engine.model.json.halves import escape_halves
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.validation.effort import find_errors
from tool_engine.validation.position import Position, build_validator, can_be_split
from tool_engine.validation.shape import Shaper

if TYPE_CHECKING:
    from tool_engine.validation.findings import Findings

_MOST: Final = 20
"""Findings about one output."""
_SAYS_NOTHING: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "$comment", "$schema")
)
_ANY_KEYS: Final = frozenset(
    ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames")
)


class OutputCheck:
    """One tool's declared output, ready to check what it returns.

    Args:
        schema: JSON Schema of the output.

    Raises:
        ValueError: The schema cannot be compiled.
    """

    __slots__ = ("_may_be_whole", "_names_structured", "_root", "_rules", "_schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._rules = build_validator(schema)
        self._root: Position | None = None
        is_object = schema.get("type") == "object" and _ANY_KEYS.isdisjoint(schema)
        names_result = "result" in schema.get("properties", {})
        self._may_be_whole = names_result or not is_object
        """Whether an output with no key but `result` may be the declared object itself."""
        self._names_structured = "structuredContent" in schema.get("properties", {})

    def holds(self, output: dict[str, Any]) -> bool:
        """Return True if the output certainly holds; cheap, and made for small outputs.

        Raises:
            ValueError: There are values in it that are no JSON.
        """
        if len(output) != 1 or "result" not in output:
            return self._rules.is_valid(self._find_declared(output))
        if self._may_be_whole and self._rules.is_valid(output):
            return True
        return self._rules.is_valid(output["result"])

    def accepts(self, value: Any) -> bool:
        """Return True if a value, which has no other form, certainly holds; cheap, as `holds`.

        Raises:
            ValueError: There are values in it that are no JSON.
        """
        return self._rules.is_valid(value)

    def find_misfits(self, output: dict[str, Any]) -> list[ValidationError]:
        """Return where an output of any size differs from the declaration.

        Works in small pieces, so that other threads have their turn meanwhile.
        """
        output = _read_json(output)
        try:
            return self._find_in(output)
        except UnicodeEncodeError:
            # As whatever writes it has the halves of surrogate pairs.
            return self._find_in(escape_halves(output))

    def _find_in(self, output: dict[str, Any]) -> list[ValidationError]:
        if len(output) != 1 or "result" not in output:
            return self.explain_value(self._find_declared(output))
        found = self.explain_value(output["result"])
        if not found or not self._may_be_whole:
            return found
        whole = self.explain_value(output)
        return whole if not whole or self._schema.get("type") == "object" else found

    def _find_declared(self, output: dict[str, Any]) -> Any:
        structured = None if self._names_structured else find_structured(output)
        return output if structured is None else structured

    def explain_value(self, value: Any) -> list[ValidationError]:
        """Return where a value, which has no other form, differs; works as `find_misfits`."""
        if self._root is None:
            self._root = Position.of(self._schema)
        # By name: most outputs are as declared.
        made: type[Findings] = import_module("tool_engine.validation.findings").Findings
        findings = made(self._root, frozenset(), Shaper())
        if can_be_split(self._schema):
            find_breaches = import_module("tool_engine.validation.breaches").find_breaches
            findings.add(islice(find_breaches(value, self._root), _MOST))
        elif not self._rules.is_valid(value):
            # Each error has a copy of the value: of the rest of them nothing is made.
            errors = find_errors(self._rules, self._schema, value, only_first=True)
            findings.add_errors(errors, value)
        return [_as_about_output(each) for each in findings.errors]


def _read_json(output: dict[str, Any]) -> dict[str, Any]:
    """Return the output in the types of JSON."""
    try:
        read = msgspec.to_builtins(output)
    except Exception:  # noqa: BLE001 - foreign objects raise anything
        read = copy_plain(output)
    return read if type(read) is dict else {"result": read}


def make_check(output: dict[str, Any] | None) -> OutputCheck | None:
    """Return the check of a declared output; None where the declaration says nothing of it."""
    if output is None or _SAYS_NOTHING.issuperset(output):
        return None
    said = {key for key in output if key not in _SAYS_NOTHING}
    if said == {"type"} and output["type"] == "object":
        return None
    return OutputCheck(output)


def _as_about_output(finding: ValidationError) -> ValidationError:
    """Return what is said of arguments as said of an output, whose places start with `output`."""
    inside = finding.path
    path = f"output{'' if not inside or inside.startswith('[') else '.'}{inside}"
    if finding.error_type == "missing_required":
        wanted = f" ({finding.expected})" if isinstance(finding.expected, str) else ""
        message = f"'{path}'{wanted} is missing"
    elif finding.error_type == "extra_parameter":
        message = f"'{path}' is not declared"
    else:
        about = f"'{inside}'" if inside else "the arguments"
        message = finding.message.replace(about, f"'{path}'" if inside else "the output", 1)
    return msgspec.structs.replace(finding, path=path, message=message)


class OutputMismatchError(ToolExecutionError):
    """The tool has run, and its output is not what its definition declares.

    It is not tried again: another run could do its work twice, and returns the same kind of value.
    """

    def __init__(self, found: list[ValidationError], kept: bytes) -> None:
        super().__init__(
            "the tool has run, but its output is not what its definition declares: "
            f"{'; '.join(each.message for each in found)}",
            details={"output": [each.to_dict() for each in found]},
            is_final=True,
        )
        self.kept: bytes = kept
        """What the record keeps of the output."""
