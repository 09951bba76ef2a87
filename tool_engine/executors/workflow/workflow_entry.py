"""Which steps does a workflow's entry have, and what is wrong with them?

This checks everything that the definition alone can show. `links` checks what depends on the other
tools of the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.templates import find_foreign_forms
from tool_engine.executors.workflow.expression import (
    ExpressionError,
    Literal,
    Node,
    Path,
    parse_condition,
    paths_of,
)
from tool_engine.executors.workflow.template import (
    Places,
    Text,
    parse_template,
    references_in,
)
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.redaction import describe_value

MAX_STEPS: Final = 100
"""Branches included."""
MAX_ITEMS: Final = 1000
_DEFAULT_ITEMS: Final = 100
_MAX_PARALLEL: Final = 32
_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ENTRY_KEYS: Final = ("type", "handler", "steps", "output")
_CALL_KEYS: Final = (
    *("id", "tool", "params", "if", "for_each", "limit", "max_parallel", "timeout", "on_error"),
)
_GROUP_KEYS: Final = ("id", "parallel", "if", "on_error")
_STEP_KEYS: Final = (*_CALL_KEYS, "parallel")
_HABITS: Final = {
    **dict.fromkeys(("arguments", "args", "input", "inputs", "with", "parameters"), "params"),
    **dict.fromkeys(("name", "step", "step_id"), "id"),
    **dict.fromkeys(("uses", "use", "call", "run", "action"), "tool"),
    **dict.fromkeys(("when", "condition"), "if"),
    **dict.fromkeys(("foreach", "loop", "items"), "for_each"),
}
"""What other programs call it -> its key in a step."""
_FACTS: Final = ("output", "status", "error", "error_type")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: a call, a call for each item, or parallel branches."""

    id: str
    path: str
    """Its place, such as `entry.steps[0]`."""
    condition: Node | None = None
    """The step is skipped where this is not true."""
    tool: str = ""
    """Empty for a step with branches."""
    params: dict[str, Any] = {}
    for_each: Any = None
    """The list, a template; None: one call."""
    limit: int = _DEFAULT_ITEMS
    max_parallel: int = 1
    timeout: float | None = None
    on_error: Any = "fail"
    """`fail`, `continue`, or `{"use": template}`."""
    branches: tuple[Step, ...] = ()


class Workflow(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    output: Any = None
    """A template; None: the output of the last step."""

    def all_steps(self) -> Iterator[Step]:
        """Yield each step, before its branches."""
        for step in self.steps:
            yield step
            yield from step.branches

    def calls(self) -> Iterator[Step]:
        return (step for step in self.all_steps() if step.tool)


class _WorkflowReader(EntryReader[Workflow]):
    def read(self) -> Workflow:
        entry = self.tool.implementation_config
        self.keys(entry, _ENTRY_KEYS, "entry")
        self._known: dict[str, str] = {}
        self._visible: set[str] = set()
        self._used: set[str] = set()
        listed = entry.get("steps")
        if not isinstance(listed, list) or not listed:
            self.problem("entry.steps", "a workflow has a list of steps, each with id and tool")
            return Workflow(())
        if _count_steps(listed) > MAX_STEPS:
            self.problem(
                "entry.steps",
                f"{_count_steps(listed)} steps; a workflow has at most {MAX_STEPS}: move some "
                "into a "
                "workflow of their own, and call that",
            )
            return Workflow(())
        steps = []
        for number, spec in enumerate(listed):
            if (step := self._read_step(spec, f"entry.steps[{number}]")) is not None:
                steps.append(step)
                self._visible.update((step.id, *(branch.id for branch in step.branches)))
        output = self._read_template(entry.get("output"), "entry.output", in_loop=False)
        self._check_unused(entry)
        return Workflow(tuple(steps), output)

    def _check_unused(self, entry: Mapping[str, Any]) -> None:
        """Refuse a parameter that no reference reads: most often it is written in another form."""
        unused = [name for name in self.parameters if name not in self._used]
        if not unused or self.problems:
            return  # what is wrong may be where it is used
        forms = find_foreign_forms([entry["steps"], entry.get("output")])
        for name in unused:
            where = f"in place of {forms[name]}" if name in forms else "somewhere"
            cure = f"write ${{params.{name}}} {where}, or remove it"
            self.problem("entry.steps", f"never uses the parameter {name!r}; {cure}")

    def _read_step(self, spec: Any, path: str, *, is_branch: bool = False) -> Step | None:
        if not isinstance(spec, Mapping):
            self.problem(path, f"a step is a mapping with id and tool, got {describe_value(spec)}")
            return None
        if "parallel" in spec:
            if is_branch:
                self.problem(path, "a branch calls one tool; for more, call a workflow")
                return None
            return self._read_group(spec, path)
        self.keys(spec, _CALL_KEYS if is_branch else _STEP_KEYS, path, _HABITS)
        in_loop = spec.get("for_each") is not None
        return Step(
            id=self._read_id(spec, path),
            path=path,
            tool=self._read_tool(spec, path),
            condition=self._read_condition(spec, path),
            params=self._read_params(spec.get("params", {}), f"{path}.params", in_loop=in_loop),
            for_each=self._read_list(spec, path),
            limit=self._read_whole(spec, "limit", _DEFAULT_ITEMS, MAX_ITEMS, path),
            max_parallel=self._read_whole(spec, "max_parallel", 1, _MAX_PARALLEL, path),
            timeout=self._read_timeout(spec, path),
            on_error=self._on_error(spec, path, in_loop=in_loop),
        )

    def _read_group(self, spec: Mapping[str, Any], path: str) -> Step:
        self.keys(spec, _GROUP_KEYS, path, _HABITS)
        identifier = self._read_id(spec, path)
        condition = self._read_condition(spec, path)
        listed = spec["parallel"]
        branches: list[Step] = []
        if not isinstance(listed, list) or not 1 <= len(listed) <= _MAX_PARALLEL:
            self.problem(f"{path}.parallel", f"must be a list of 1 to {_MAX_PARALLEL} steps")
            listed = []
        on_error = self._on_error(spec, path, in_loop=False)
        for number, branch in enumerate(listed):
            goes_on = on_error == "continue" and isinstance(branch, Mapping)
            spec = {"on_error": on_error, **branch} if goes_on else branch
            step = self._read_step(spec, f"{path}.parallel[{number}]", is_branch=True)
            branches += [] if step is None else [step]
        return Step(
            id=identifier,
            path=path,
            condition=condition,
            on_error=on_error,
            branches=tuple(branches),
        )

    def _read_id(self, spec: Mapping[str, Any], path: str) -> str:
        identifier = spec.get("id")
        if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
            got = "is missing" if identifier is None else f"cannot be {identifier!r:.80}"
            self.problem(
                f"{path}.id" if "id" in spec else path,
                f"the id {got}; write a letter or _ first, then letters, digits, _ and -",
            )
            return f"[{path}]"
        if identifier in self._known:
            self.problem(
                f"{path}.id",
                f"{self._known[identifier]} has the id {identifier!r} too; rename one of them",
            )
        self._known.setdefault(identifier, path)
        return identifier

    def _read_tool(self, spec: Mapping[str, Any], path: str) -> str:
        name = spec.get("tool")
        if not isinstance(name, str) or not name:
            self.problem(
                f"{path}.tool" if "tool" in spec else path,
                "a step names its tool, as text, or has parallel: with a list of steps",
            )
            return ""
        if "${" in name:
            self.problem(
                f"{path}.tool",
                f"{name!r} holds a reference; the tool of a step is fixed: no value chooses what "
                "runs",
            )
        elif name == self.tool.name:
            self.problem(f"{path}.tool", f"{name!r} calls itself, without end; call another tool")
        return name

    def _read_params(self, value: Any, path: str, *, in_loop: bool) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.problem(
                path, f"must be a mapping of the tool's parameters, got {describe_value(value)}"
            )
            return {}
        tree: dict[str, Any] = self._read_template(value, path, in_loop=in_loop)
        return tree

    def _read_condition(self, spec: Mapping[str, Any], path: str) -> Node | None:
        value = spec.get("if")
        if value is None or isinstance(value, bool):
            return None if value is None else Literal(value)
        if not isinstance(value, str):
            self.problem(f"{path}.if", f"must be a condition, as text, got {describe_value(value)}")
            return None
        try:
            node = parse_condition(value)
        except ExpressionError as error:
            self.problem(f"{path}.if", str(error))
            return None
        for reference in paths_of(node):
            self._check_reference(reference, f"{path}.if", in_loop=False)
        return node

    def _read_list(self, spec: Mapping[str, Any], path: str) -> Any:
        value = spec.get("for_each")
        if value is None:
            for key in ("limit", "max_parallel"):
                if key in spec:
                    self.problem(f"{path}.{key}", f"{key} needs for_each; add it or remove {key}")
            return None
        known = len(self.problems)
        tree = self._read_template(value, f"{path}.for_each", in_loop=False)
        is_list = isinstance(tree, list) or (isinstance(tree, Text) and tree.whole is not None)
        if not is_list and len(self.problems) == known:
            is_bare = isinstance(value, str) and value.startswith(("params.", "steps."))
            shown = value if is_bare else "steps.a.output.items"
            self.problem(
                f"{path}.for_each",
                f'must be a list, or the reference to one, such as "${{{shown}}}"; '
                f"got {describe_value(value)}",
            )
        return tree

    def _read_whole(
        self, spec: Mapping[str, Any], key: str, default: int, most: int, path: str
    ) -> int:
        value = spec.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.problem(
                f"{path}.{key}",
                f"must be a whole number from 1 to {most}, got {describe_value(value)}",
            )
            return default
        return value

    def _read_timeout(self, spec: Mapping[str, Any], path: str) -> float | None:
        value = spec.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            self.problem(
                f"{path}.timeout",
                f"must be a number of seconds above 0, got {describe_value(value)}",
            )
            return None
        return float(value)

    def _on_error(self, spec: Mapping[str, Any], path: str, *, in_loop: bool) -> Any:
        value = spec.get("on_error", "fail")
        if value in ("fail", "continue"):
            return value
        if isinstance(value, dict) and list(value) == ["use"]:
            return self._read_template(value, f"{path}.on_error", in_loop=in_loop)
        near = suggest_near(value, ("fail", "continue")) if isinstance(value, str) else ""
        self.problem(
            f"{path}.on_error",
            f"must be fail, continue or {{use: value}}, got {describe_value(value)}{near}",
        )
        return "fail"

    def _read_template(self, value: Any, path: str, *, in_loop: bool) -> Any:
        wrong: Places = []
        tree = parse_template(value, wrong)
        for place, message in wrong:
            self.problem(path + place, message)
        for place, reference in _place_references(tree, path):
            self._check_reference(reference, place, in_loop=in_loop)
        return tree

    def _check_reference(self, reference: Path, place: str, *, in_loop: bool) -> None:
        if reference.root in ("item", "index"):
            if not in_loop:
                self.problem(place, f"{reference.root} is known only in a step with for_each")
            return
        if not reference.parts or not isinstance(reference.parts[0], str):
            what = "a parameter" if reference.root == "params" else "a step"
            self.problem(place, f"{reference} names no {what[2:]}; write {reference.root}.name")
        elif reference.root == "params":
            self._check_parameter(reference.parts[0], place)
        else:
            self._check_step(reference, reference.parts[0], place)

    def _check_parameter(self, name: str, place: str) -> None:
        self._used.add(name)
        if name not in self.parameters:
            known = list(self.parameters)
            hint = suggest_near(name, known) or (
                f"; declared are {', '.join(known)}" if known else "; declare it under parameters"
            )
            self.problem(place, f"the workflow declares no parameter {name!r}{hint}")

    def _check_step(self, reference: Path, name: str, place: str) -> None:
        if name not in self._visible:
            known = sorted(self._visible)
            hint = suggest_near(name, known) or (
                f"; before it are {', '.join(known)}" if known else "; it is the first"
            )
            self.problem(place, f"no step {name!r} has ended before this one{hint}")
            return
        fact = reference.parts[1] if len(reference.parts) > 1 else None
        if fact not in _FACTS:
            got = "nothing" if fact is None else repr(fact)
            whole = f"steps.{name}.output"
            inner = Path("steps", (name, "output", *reference.parts[1:]))
            cure = f"write {whole}"
            if fact is not None and not suggest_near(str(fact), _FACTS):
                cure = f"write {inner} for that part of its output, or {whole} for all of it"
            self.problem(place, f"of a step there is {', '.join(_FACTS)}, got {got}; {cure}")


def _place_references(tree: Any, path: str) -> Iterator[tuple[str, Path]]:
    if isinstance(tree, dict):
        for key, each in tree.items():
            yield from _place_references(each, f"{path}.{key}")
    elif isinstance(tree, list):
        for number, each in enumerate(tree):
            yield from _place_references(each, f"{path}[{number}]")
    else:
        for reference in references_in(tree):
            yield path, reference


def _count_steps(listed: list[Any]) -> int:
    groups = [
        spec["parallel"]
        for spec in listed
        if isinstance(spec, Mapping) and isinstance(spec.get("parallel"), list)
    ]
    return len(listed) + sum(map(len, groups))


check_entry = _WorkflowReader.check
compile_entry = _WorkflowReader.compile
