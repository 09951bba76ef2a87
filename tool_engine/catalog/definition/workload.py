"""Are the rules of a definition too much work for the engine?

A pattern must match in linear time, and all of them together must be quick to compile.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Final

import jsonschema_rs

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.limits import (
    MAX_LARGE_PATTERNS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    MAX_SCHEMAS,
)
from tool_engine.catalog.yaml.document import Path

_NOT_LINEAR: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=|\\k<|\(\?>|[*+?}]\+")
_SMALL: Final = 256 * 1024


class Workload:
    def __init__(self) -> None:
        self._patterns = self._large = 0
        self.schemas = 0
        """How many raw schemas were counted."""

    @property
    def is_bearable(self) -> bool:
        return self.schemas <= MAX_SCHEMAS

    @property
    def is_full(self) -> bool:
        """Whether one pattern more may be too many."""
        return self._patterns >= MAX_PATTERNS or self._large >= MAX_LARGE_PATTERNS

    def take(self, other: Workload) -> bool:
        """Count the patterns that `other` counted; False, and none is counted: too many."""
        patterns, large = self._patterns + other._patterns, self._large + other._large
        if patterns > MAX_PATTERNS or large > MAX_LARGE_PATTERNS:
            return False
        self._patterns, self._large = patterns, large
        return True

    def schema_fault(self, path: Path) -> Fault | None:
        """Count a raw schema; return a fault for the first excess one."""
        self.schemas += 1
        is_one_too_many = self.schemas == MAX_SCHEMAS + 1
        return _too_many(path, f"{MAX_SCHEMAS} raw schemas") if is_one_too_many else None

    def pattern_fault(self, pattern: str, path: Path, *, at_key: bool = False) -> Fault | None:
        """Count a pattern; return why the engine cannot match it, or None."""
        self._patterns += 1
        if len(pattern) > MAX_PATTERN_LENGTH:
            got = f"{len(pattern)} characters"
            expected = f"at most {MAX_PATTERN_LENGTH} characters"
            message = f"the pattern {pattern[:80]!r} has {got}, and may have {MAX_PATTERN_LENGTH}"
            return Fault(path, message, at_key, expected, got, cure="simplify it")
        if self._patterns > MAX_PATTERNS:
            return _too_many(path, f"{MAX_PATTERNS} patterns")
        is_small = _can_compile(pattern, _SMALL)
        if not is_small:
            self._large += 1
            if self._large > MAX_LARGE_PATTERNS:
                return _too_many(path, f"{MAX_LARGE_PATTERNS} large patterns")
        return (
            None
            if is_small or _can_compile(pattern, None)
            else _explain_pattern(pattern, path, at_key)
        )


def _too_many(path: Path, limit: str) -> Fault:
    expected = f"at most {limit}"
    message = f"a definition may have {expected}, and this is one more"
    return Fault(path, message, expected=expected, cure="simplify it")


def _explain_pattern(pattern: str, path: Path, at_key: bool) -> Fault:
    shown = f"the pattern {pattern[:80]!r}"
    if _NOT_LINEAR.search(pattern):
        what = "uses lookaround, a back-reference or a possessive part"
        message = f"{shown} {what}, which cannot be matched in linear time"
        return Fault(path, message, at_key, cure="write it without")
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return Fault(path, f"{shown} is not a regular expression: {error}", at_key, cure="mend it")
    message = f"{shown} is too large, or not in the supported syntax"
    return Fault(path, message, at_key, cure="simplify it")


@lru_cache(maxsize=1024)
def _can_compile(pattern: str, size_limit: int | None) -> bool:
    options = jsonschema_rs.RegexOptions(size_limit=size_limit)
    try:
        jsonschema_rs.Draft202012Validator(
            {"type": "string", "pattern": pattern}, pattern_options=options
        )
    except ValueError:
        return False
    return True
