"""Do the arguments of a call fit its tool?

A tool is compiled on its first use. `accept` is the fast path of a correct call: one pass over the
types and one check by the compiled validator. Everything else goes through `explain`, which finds
all faults at once and describes them for a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
import msgspec

from tool_engine.model.call import ValidationError, ValidationResult
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.plain import Unreadable, name_of, read_plain
from tool_engine.model.tool import Tool
from tool_engine.validation.acceptance import (
    Accept,
    AcceptPacked,
    choose_accept,
    choose_accept_packed,
    complete_steps,
    unshare_defaults,
)
from tool_engine.validation.declaration import Declaration
from tool_engine.validation.effort import count_levels, find_levels
from tool_engine.validation.filling import MAX_FILLED, TooManyDefaultsError
from tool_engine.validation.position import Position, build_validator, can_be_split
from tool_engine.validation.shape import MAX_DEPTH, Shaper

if TYPE_CHECKING:
    from tool_engine.validation.breaches import Breach, Broken
    from tool_engine.validation.findings import Findings

# By name: what explains wrong arguments is not needed before some come.
_BREACHES: Final = "tool_engine.validation.breaches"
_FINDINGS: Final = "tool_engine.validation.findings"
_RULES: Final = "tool_engine.validation.rules"


class ToolParameterValidator(KnownArguments):
    """Validates the arguments of calls.

    Args:
        strict: Refuses unknown parameters, and unknown keys of objects that short keys alone
            declare; else they are kept out, with a warning. What a `schema:` says of keys holds
            either way.

    For a tool that requires `url`, `validate(tool, {"ulr": "https://a.b"})` finds a
    `missing_required` on `url` ("you sent 'ulr', did you mean 'url'?") and, when strict, an
    `extra_parameter` on `ulr`.
    """

    def __init__(self, strict: bool = False) -> None:
        check_switch("strict", strict)
        self.strict: bool = strict
        self._key: str = f"compiled_parameters_{'strict' if strict else 'lenient'}"

    def validate(self, tool: Tool, params: Any) -> ValidationResult:
        """Find everything that is wrong with `params`, and fill in the defaults.

        Args:
            tool: The tool that they are for.
            params: The arguments as a mapping; None is the same as none at all. They are never
                changed, and never raise, whatever they hold.

        Raises:
            DefinitionError: The tool's own parameters cannot be compiled.
        """
        compiled = self.compiled(tool)
        accepted = compiled.accept(params)
        if accepted is not None:
            return ValidationResult(is_valid=True, validated_params=accepted)
        return compiled.explain(params)

    def compiled(self, tool: Tool) -> CompiledParameters:
        """Return the compiled parameters of `tool`, kept as long as the tool.

        Raises:
            DefinitionError: The tool's parameters cannot be compiled.
        """
        found: CompiledParameters | None = tool.__dict__.get(self._key)
        if found is None:
            found = tool.__dict__[self._key] = CompiledParameters(tool, strict=self.strict)
        return found


class CompiledParameters:
    """One tool's parameters, ready to check calls.

    Args:
        tool: The tool; what it declares is checked here too.
        strict: Refuses unknown parameters.

    Raises:
        DefinitionError: A schema, a pattern or a default of the tool is wrong.
    """

    __slots__ = ("_accept_bare", "_declared", "_defaults", "_explained_levels", "_filling",
                 "_is_split", "_loose", "_optional", "_root", "_rules", "_schema", "_secrets",
                 "_strict", "_unshared", "accept", "accept_packed")  # fmt: skip

    accept: Accept
    """Returns correct arguments as a new dict with the defaults; None when there are findings,
    which `explain` returns. Never raises."""

    accept_packed: AcceptPacked
    """The same for a caller that also has the arguments as MessagePack."""

    def __init__(self, tool: Tool, *, strict: bool = False) -> None:
        declaration = Declaration(tool)
        self._schema = declaration.schema
        self._declared = declaration.declared
        self._rules = declaration.rules
        self._root = declaration.root
        self._is_split = can_be_split(self._schema)
        self._explained_levels = MAX_DEPTH if self._is_split else find_levels(self._schema)
        self._strict = strict
        self._secrets = tool.secret_names | tool.secret_parts
        self._optional = [item.name for item in tool.parameters if not item.required]
        self._loose: jsonschema_rs.Draft202012Validator | None = None
        self._filling = declaration.filling()
        self._defaults = declaration.defaults()
        if self._filling is not None:
            self._filling.fill(self._defaults)
        self._unshared = tuple(
            item for item in self._defaults.items() if isinstance(item[1], list | dict)
        )
        self.accept = choose_accept(
            self._rules.is_valid,
            careful=self._accept_carefully,
            defaults=self._defaults,
            unshared=self._unshared,
            filling=self._filling,
            numbers=declaration.numbers(),
            is_bounded=declaration.is_bounded(),
        )
        self._accept_bare = choose_accept_packed(
            self._rules.is_valid,
            careful=self._accept_carefully,
            defaults=self._defaults,
            schema=self._schema,
        )
        self.accept_packed = complete_steps(self._accept_bare, self._unshared, self._filling)

    def explain(self, params: Any) -> ValidationResult:
        """Return all findings, or the arguments to run with and the warnings."""
        if self._filling is not None and self._is_overfilled(params):
            return ValidationResult(is_valid=False, errors=[_too_many_defaults()])
        params = {} if params is None else read_plain(params)
        if type(params) is not dict:
            return ValidationResult(is_valid=False, errors=[_not_an_object(params, self._root)])
        shaper = Shaper()
        shaped = shaper.arguments(params, self._root)
        for name in self._optional:
            if name in shaped and shaped[name] is None and not self._are_right({name: None}):
                del shaped[name]
        findings: Findings = import_module(_FINDINGS).Findings(self._root, self._secrets, shaper)
        warnings = [] if self._strict else findings.warnings()
        is_refused = bool(shaper.refusals) or (self._strict and bool(shaper.unknown))
        if not is_refused and self._rules.is_valid(shaped):
            filled = unshare_defaults({**self._defaults, **shaped}, self._unshared)
            if self._filling is not None:
                try:
                    self._filling.fill(filled)
                except TooManyDefaultsError:
                    errors = [_too_many_defaults()]
                    return ValidationResult(is_valid=False, errors=errors, warnings=warnings)
            return ValidationResult(is_valid=True, validated_params=filled, warnings=warnings)
        self._find_breaches(shaped, findings)
        return ValidationResult(is_valid=False, errors=findings.errors, warnings=warnings)

    def _is_overfilled(self, params: Any) -> bool:
        """Return True if all is right but how much would be filled in."""
        try:
            accepted = self._accept_bare(params, msgspec.msgpack.encode(params))
        except Exception:  # noqa: BLE001 - foreign objects may raise anything
            return False
        try:
            if accepted is not None and self._filling is not None:
                self._filling.fill(accepted)
        except TooManyDefaultsError:
            return True
        return False

    def _find_breaches(self, shaped: dict[str, Any], findings: Findings) -> None:
        breaches = import_module(_BREACHES)
        findings.add_refusals()
        if self._is_split:
            findings.add(breaches.find_breaches(shaped, self._root))
        elif breaches.is_small(shaped) and count_levels(shaped) <= self._explained_levels:
            findings.add_errors(self._rules.iter_errors(shaped), shaped)
        else:
            findings.add(self._find_oversized(shaped))
        if self._strict:
            findings.add_unknown()
        if not findings.errors:  # pragma: no cover - a refusal always says something
            findings.add([_break_schema((), shaped)])

    def _find_oversized(self, shaped: dict[str, Any]) -> Iterator[Breach]:
        """Yield a breach for each wrong parameter that is too large to examine."""
        for name in self._root.required:
            if name not in shaped:
                yield import_module(_BREACHES).Missing((), name)
        for name, value in shaped.items():
            if not self._are_right({name: value}):
                yield _break_schema((name,), value)

    def _are_right(self, some: dict[str, Any]) -> bool:
        """True if `some` of the arguments are right, whatever the others are."""
        if self._loose is None:
            self._loose = build_validator(self._declared)
        return self._loose.is_valid(some)

    def _accept_carefully(self, params: Any) -> dict[str, Any] | None:
        params = {} if params is None else read_plain(params)
        if type(params) is not dict:
            return None
        shaper = Shaper()
        shaped = shaper.arguments(params, self._root)
        if not shaper.is_clean or not self._rules.is_valid(shaped):
            return None
        return {**self._defaults, **shaped}


def _break_schema(path: tuple[str, ...], value: Any) -> Broken:
    """Return the breach of a rule that cannot be named more exactly."""
    phrase = partial(import_module(_RULES).phrase_of, "schema")
    broken: Broken = import_module(_BREACHES).Broken(path, value, phrase)
    return broken


def _too_many_defaults() -> ValidationError:
    message = (
        f"the arguments have so many places with defaults that more than {MAX_FILLED:,} values "
        "would be filled in: send fewer items in one call"
    )
    return ValidationError("", "constraint_violation", message)


def _not_an_object(params: Any, root: Position) -> ValidationError:
    name = next(iter(root.properties), None)
    example = f' such as {{"{name}": …}}' if name else ", {} for none"
    kind = name_of(params)
    if isinstance(params, Unreadable):
        message = f"the arguments must be an object{example}, got {params.words}"
        return ValidationError("", "type_mismatch", message, "object", params.words)
    cure = "; decode the JSON text first" if isinstance(params, str | bytes) else ""
    message = f"the arguments must be an object{example}, got a value of type {kind}{cure}"
    return ValidationError("", "type_mismatch", message, "object", kind)
