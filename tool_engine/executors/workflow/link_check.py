"""Do the steps of a workflow fit the other tools of the catalog?

A definition is checked when its file is read, and files may come in any order. So this checks each
snapshot as a whole, whenever it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tool_engine.errors import DefinitionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.workflow.expression import Path
from tool_engine.executors.workflow.template import Text, has_references, references_in
from tool_engine.executors.workflow.workflow_entry import Step, Workflow, compile_entry
from tool_engine.executors.workflow.workflow_executor import MAX_DEPTH
from tool_engine.model.call import ValidationError, ValidationResult
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

_HARMLESS: Final = ("read", "unknown")

Find = Callable[[str], Tool | None]
Validate = Callable[[Tool, dict[str, Any]], ValidationResult]
_Reached = dict[str, tuple[Step, tuple[str, ...]]]
"""Name of a tool -> the step that leads to it, and the names on the way."""


class Link(NamedTuple):
    """One mismatch between a workflow and the present tools."""

    path: str
    message: str
    is_broken: bool = True
    """True if the workflow cannot run; otherwise only a claim in its definition is wrong."""
    is_absent: bool = False
    """True if a tool is absent, and may yet be registered."""
    is_for_models: bool = True
    """False if the message is about a tool for code only."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    def to_caller(self) -> str:
        """Return it in the words of a call's error, which a model may read."""
        if self.is_for_models:
            return str(self)
        return f"{self.path}: it does not fit the tool of the step, as a finding of this one says"


class WorkflowLinks:
    def __init__(self, is_workflow: Callable[[Tool], bool], validate: Validate) -> None:
        self._is_workflow = is_workflow
        self._validate = validate
        self._compiled = CompiledEntries(_compile_or_empty)
        self._known: dict[str, tuple[tuple[Tool | None, ...], list[Link]]] = {}

    def problems(self, tool: Tool, find: Find, near: Callable[[str], Sequence[str]]) -> list[Link]:
        steps = list(self._compiled.of(tool).calls())
        called = (tool, *(find(step.tool) for step in steps))
        known = self._known.get(tool.name)
        # Kept while the called tools stay the same; a stale suggestion of names does no harm.
        if (
            known is None
            or not all(map(_is_identical, known[0], called))
            or len(known[0]) != len(called)
        ):
            found: list[Link] = []
            for step, other in zip(steps, called[1:], strict=True):
                is_open = other is None or other.is_for_models
                links = self._step_problems(tool, step, other, near)
                found += [link._replace(is_for_models=is_open) for link in links]
            known = self._known[tool.name] = (called, found)
        return [*known[1], *self._reach_problems(tool, find)]

    def _step_problems(
        self, tool: Tool, step: Step, other: Tool | None, near: Callable[[str], Sequence[str]]
    ) -> Iterator[Link]:
        if other is None:
            names = [name for name in near(step.tool) if name != tool.name]
            hint = f"; did you mean {' or '.join(map(repr, names))}?" if names else ""
            yield Link(f"{step.path}.tool", f"there is no tool {step.tool!r}{hint}", is_absent=True)
            return
        if other.background == "required":
            message = (
                f"{other.name!r} runs only as a task (background: required), and no step is one"
            )
            yield Link(f"{step.path}.tool", f"{message}; write background: allowed in it")
        declared = {parameter.name: parameter for parameter in other.parameters}
        written: dict[str, Any] = {}
        for name, value in step.params.items():
            if name not in declared:
                hint = suggest_near(name, declared) or f"; it has {', '.join(declared) or 'none'}"
                yield Link(
                    f"{step.path}.params.{name}",
                    f"{other.name!r} has no parameter {name!r}{hint}",
                )
            elif not has_references(value):
                written[name] = value
        for error in self._find_errors(other, written):
            if error.error_type != "missing_required" or error.parameter not in step.params:
                yield Link(_place_error(step, error), f"{other.name!r}: {error.message}")
        yield from _reference_problems(tool, step, other)

    def _find_errors(self, other: Tool, written: dict[str, Any]) -> Sequence[ValidationError]:
        try:
            return self._validate(other, written).errors
        except DefinitionError:
            # It was registered in code; its calls report what is wrong with it.
            return ()

    def _reach_problems(self, tool: Tool, find: Find) -> Iterator[Link]:
        front: _Reached = {
            step.tool: (step, (tool.name, step.tool)) for step in self._list_calls(tool)
        }
        reached = dict(front)
        for _ in range(MAX_DEPTH):
            front = {
                inner.tool: (step, (*way, inner.tool))
                for name, (step, way) in front.items()
                if (other := find(name)) is not None and self._is_workflow(other)
                for inner in self._list_calls(other)
            }
            if tool.name in front:
                step, way = front[tool.name]
                is_open = all(each is None or each.is_for_models for each in map(find, way))
                message = f"calls itself without end: {' -> '.join(way)}"
                yield Link(f"{step.path}.tool", message, is_for_models=is_open)
                break
            reached = {**front, **reached}
            if not front:
                break
        else:
            message = f"the workflows that it calls are more than {MAX_DEPTH} deep, or without end"
            yield Link("entry.steps", f"{message}; make them flatter")
        yield from _effect_problems(tool, reached, find)

    def _list_calls(self, tool: Tool) -> Iterator[Step]:
        return self._compiled.of(tool).calls()


def _compile_or_empty(tool: Tool) -> Workflow:
    try:
        return compile_entry(tool)
    except DefinitionError:
        # It was registered in code; its calls report what is wrong with it.
        return Workflow(())


def _is_identical(left: object, right: object) -> bool:
    return left is right


def _place_error(step: Step, error: ValidationError) -> str:
    is_there = error.parameter in step.params
    return f"{step.path}.params.{error.path}" if is_there else f"{step.path}.params"


def _reference_problems(tool: Tool, step: Step, other: Tool) -> Iterator[Link]:
    """Yield mismatches between both declarations, for values that are not known yet."""
    own = {parameter.name: parameter for parameter in tool.parameters}
    secrets = tool.secret_names
    for target in other.parameters:
        value = step.params.get(target.name)
        path, theirs = f"{step.path}.params.{target.name}", f"{target.name!r} of {other.name!r}"
        whole = value.whole if isinstance(value, Text) else None
        if isinstance(whole, Path) and whole.root == "params" and len(whole.parts) == 1:
            yield from _parameter_problems(own[str(whole.parts[0])], target, path, theirs)
        for reference in () if target.secret else references_in(value):
            if reference.root == "params" and reference.parts[0] in secrets:
                message = (
                    f"{reference.upto(1)} is secret, and {theirs} is not: it would be recorded "
                    "there; declare it there with secret: true"
                )
                yield Link(path, message, is_broken=False)


def _parameter_problems(
    source: ToolParameter, target: ToolParameter, path: str, theirs: str
) -> Iterator[Link]:
    if not _fits_type(source.type, target.type):
        yield Link(
            path,
            f"params.{source.name} is of the type {source.type}, and {theirs} of the type "
            f"{target.type}",
        )
    if target.required and not source.required and not source.has_default:
        message = (
            f"params.{source.name} may be left out, and {theirs} is required; require it here too, "
            "or write ?? and what stands for it"
        )
        yield Link(path, message, is_broken=False)


def _fits_type(source: str, target: str) -> bool:
    return source == target or (source, target) in (("integer", "number"), ("number", "integer"))


def _effect_problems(tool: Tool, reached: _Reached, find: Find) -> Iterator[Link]:
    if tool.effect != "read":
        return
    for name, (step, _) in reached.items():
        other = find(name)
        if other is not None and other.effect not in _HARMLESS:
            yield Link(
                "effect",
                f"says read, and step {step.id!r} runs {name!r}, whose effect is {other.effect}; "
                f"write effect: {other.effect}",
                is_broken=False,
            )
            return
