"""Does a call need somebody's consent before it runs, and its result before the model reads it?

Several places may say so: a rule about a parameter's value, a rule about a tool, the session, a
group, the tool's own definition. The most specific one that says anything decides.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Self

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.bounds import check_choice
from tool_engine.model.output import to_text

__all__ = [
    "Decision",
    "ExecutionPolicy",
    "Permission",
    "PermissionRule",
    "ResultPolicy",
    "decide",
]


class ExecutionPolicy(str, Enum):
    """When somebody is asked before a call runs. From the loosest to the strictest."""

    AUTO = "auto"
    ASK_ONCE = "ask_once"
    """The first time for the same tool with the same arguments."""
    ASK_ALWAYS = "ask_always"
    DENY = "deny"


class ResultPolicy(str, Enum):
    """When somebody is asked before the model reads a result. From the loosest to the strictest."""

    NEVER = "never"
    ON_ERROR = "on_error"
    ALWAYS = "always"


_EXECUTION: Final = list(ExecutionPolicy)
_RESULT: Final = list(ResultPolicy)
_SILENT: Final = "::SilentReject"
_RULE: Final = re.compile(
    r"(?P<tool>[^:=\s]+)(?::(?P<parameter>[^:=\s]+)=(?P<glob>.*)|:(?P<command>[^:=\s]+))?", re.S
)
_WILD: Final = re.compile(r"[*?\[]")


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """What one place says; None: nothing, the next place decides."""

    execution: ExecutionPolicy | None = None
    result: ResultPolicy | None = None

    def __post_init__(self) -> None:
        for name, kind in (("execution", ExecutionPolicy), ("result", ResultPolicy)):
            value = getattr(self, name)
            if value is not None:
                value = value.replace("-", "_") if type(value) is str else value
                check_choice(name, value, [each.value for each in kind])
                msgspec.structs.force_setattr(self, name, kind(value))


class PermissionRule(msgspec.Struct, frozen=True):
    """What holds for the calls of some tools, or for those with some value of one parameter.

    Both the tool and the value are globs: `*`, `?` and `[...]`, in the given case.
    """

    tool: str
    permission: Permission
    parameter: str | None = None
    glob: str = "*"
    is_silent: bool = False
    """Whether the model is not told why a call was refused. U32."""

    @classmethod
    def parse(cls, text: str, permission: Permission) -> Self:
        """A rule from its text: `tool` or `tool:parameter=glob`, and `::SilentReject` or not.

        `tool:word` is short for `tool:command=word`. U32.

        Raises:
            ConfigurationError: The text is no rule.
        """
        bare = text.removesuffix(_SILENT)
        found = _RULE.fullmatch(bare)
        if found is None:
            raise ConfigurationError(
                f"{text!r} is no permission rule: write 'tool', or 'tool:parameter=glob' such as "
                f"'write_file:path=drafts/*', and '{_SILENT}' at the end to keep the reason of a "
                "refusal from the model"
            )
        parameter, glob = found["parameter"], found["glob"]
        if found["command"] is not None:
            parameter, glob = "command", found["command"]
        return cls(
            found["tool"], permission, parameter, "*" if glob is None else glob, bare != text
        )

    @property
    def specificity(self) -> tuple[bool, bool, int]:
        """What makes a rule go before another: a parameter, one tool, and more that is spelled."""
        literal = _WILD.sub("", self.tool + (self.glob if self.parameter else ""))
        return self.parameter is not None, not _WILD.search(self.tool), len(literal)

    def fits(self, tool_name: str, params: Mapping[str, Any]) -> bool:
        """Whether it is about this call.

        What only looks as if it fitted counts for a rule that is strict, and against one that is
        loose: a value with `..` in its path, or with control characters.
        """
        if not fnmatch.fnmatchcase(tool_name, self.tool):
            return False
        if self.parameter is None:
            return True
        if self.parameter not in params:
            return False
        text = to_text(params[self.parameter])
        if fnmatch.fnmatchcase(text, self.glob):
            return self._is_strict or not _is_devious(text)
        return self._is_strict and fnmatch.fnmatchcase(posixpath.normpath(text), self.glob)

    @property
    def _is_strict(self) -> bool:
        return self.permission.execution is not ExecutionPolicy.AUTO


def _is_devious(text: str) -> bool:
    parts = text.replace("\\", "/").split("/")
    return ".." in parts or any(ord(letter) < 32 for letter in text)


class Decision(msgspec.Struct, frozen=True):
    """What holds for one call."""

    execution: ExecutionPolicy
    result: ResultPolicy
    is_silent: bool = False


def decide(
    tool_name: str,
    params: Mapping[str, Any],
    rules: Iterable[PermissionRule],
    places: Iterable[Permission | None],
) -> Decision:
    """What holds for a call: by the most specific rule, then by the first place that says it.

    Of rules that are equally specific the strictest one decides. Where nobody says anything, a
    call runs and its result is read.

    Args:
        tool_name: The tool.
        params: Its arguments.
        rules: Those that may fit.
        places: What session, group, tool and the like say, the most specific first.
    """
    fitting = [rule for rule in rules if rule.fits(tool_name, params)]
    execution, is_silent = _of_rules(fitting)
    result = _result_of_rules(fitting)
    for place in places:
        if place is not None:
            execution = place.execution if execution is None else execution
            result = place.result if result is None else result
    return Decision(execution or ExecutionPolicy.AUTO, result or ResultPolicy.NEVER, is_silent)


def _of_rules(rules: Iterable[PermissionRule]) -> tuple[ExecutionPolicy | None, bool]:
    spoken = [
        (rule.specificity, _EXECUTION.index(rule.permission.execution), rule.is_silent)
        for rule in rules
        if rule.permission.execution is not None
    ]
    if not spoken:
        return None, False
    _, place, is_silent = max(spoken)
    return _EXECUTION[place], is_silent


def _result_of_rules(rules: Iterable[PermissionRule]) -> ResultPolicy | None:
    spoken = [
        (rule.specificity, _RESULT.index(rule.permission.result))
        for rule in rules
        if rule.permission.result is not None
    ]
    return _RESULT[max(spoken)[1]] if spoken else None
