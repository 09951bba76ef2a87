"""Does a call need consent before it runs, and its result before the model reads it?

Several places may say so: a rule about a parameter's value, a rule about a tool, the session, a
group, the tool's own definition. The most specific one that says anything decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

import msgspec

from tool_engine.approval.matching import Argument, is_match, is_pattern, spelled_in
from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data
from tool_engine.model.permission import (
    POLICY,
    ExecutionPolicy,
    Permission,
    ResultPolicy,
    check_no_client,
)

_EXECUTION: Final = list(ExecutionPolicy)
_RESULT: Final = list(ResultPolicy)
_SILENT: Final = "::SilentReject"
_RULE: Final = re.compile(
    r"(?P<tool>[^:=\s]+)(?::(?P<parameter>[^:=\s]+)=(?P<glob>.*)|:(?P<command>[^:=\s]+))?", re.S
)


class PermissionRule(msgspec.Struct, Data, frozen=True, metaclass=KnownFields):
    """A rule for calls of some tools, or with some argument.

    Both the tool and the value are globs: `*`, `?` and `[...]`, in the given case.
    """

    tool: str
    permission: Permission
    parameter: str | None = None
    glob: str = "*"
    is_silent: bool = False
    """Whether the model is not given the reason for a refusal. U32."""

    def __post_init__(self) -> None:
        check_kinds(self)
        check_no_client(self.permission, f"the rule {self.text!r}")

    @classmethod
    def parse(cls, text: str, permission: Permission) -> Self:
        """Parse `tool` or `tool:parameter=glob`, with or without `::SilentReject`.

        `tool:word` is short for `tool:command=word`. U32.

        Raises:
            ConfigurationError: The text is not a rule.
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
    def text(self) -> str:
        """The rule as text that `parse` reads."""
        about = "" if self.parameter is None else f":{self.parameter}={self.glob}"
        return f"{self.tool}{about}{_SILENT if self.is_silent else ''}"

    @property
    def rank(self) -> tuple[bool, bool]:
        """Whether the rule is about a value, and whether about a single tool."""
        return self.parameter is not None, not is_pattern(self.tool)

    @property
    def specificity(self) -> tuple[bool, bool, bool, int]:
        """The rank, whether it names one value, and the count of literal letters."""
        glob = self.glob if self.parameter else "*"
        return *self.rank, not is_pattern(glob), spelled_in(self.tool) + spelled_in(glob)

    def words(self, tool_name: str, arguments: Mapping[str, Argument]) -> Permission | None:
        """Return the permission that the rule sets for a call, or None.

        A value that only looks as if it matched counts for a strict word and against a loose one:
        `..` in its path, control characters, another spelling such as `1.0` for `1`, or a list or
        mapping with such a value in it.
        """
        if not is_match(tool_name, self.tool):
            return None
        if self.parameter is None:
            return self.permission
        argument = arguments.get(self.parameter)
        if argument is None:
            return None
        if argument.fits(self.glob):
            return self.permission
        strict = self._strict_words()
        return strict if strict != _NO_WORD and argument.is_like(self.glob) else None

    def _strict_words(self) -> Permission:
        execution, result = self.permission.execution, self.permission.result
        return Permission(
            execution=None if execution is ExecutionPolicy.AUTO else execution,
            result=None if result is ResultPolicy.NEVER else result,
        )


_NO_WORD: Final = Permission()


class Decision(msgspec.Struct, frozen=True):
    """The policies that apply to one call, and what set them."""

    execution: ExecutionPolicy
    result: ResultPolicy
    is_silent: bool = False
    """Whether the model is not given the reason for a refused call."""
    is_result_silent: bool = False
    """Whether the model is not given the reason for a refused result."""
    execution_by: str | int | None = None
    """The deciding rule's text, or the deciding place's number from 0, or None."""
    result_by: str | int | None = None

    @property
    def decided_by(self) -> str:
        """What decided about the call, as in a record."""
        by = self.execution_by
        return f"rule:{by}" if isinstance(by, str) else POLICY


def decide(
    tool_name: str,
    params: Mapping[str, Any],
    rules: Iterable[PermissionRule],
    places: Iterable[Permission | None],
    *,
    other_names: Iterable[str] = (),
) -> Decision:
    """Return a call's policies: the most specific rule, else the first place.

    Among equally specific rules the strictest decides. Without any, the call runs and its result is
    read.

    Args:
        tool_name: The tool.
        params: Its arguments.
        rules: The rules that may apply.
        places: The permissions of session, group, tool and so on, the most specific first.
        other_names: More names of the tool. A rule for any of its names applies; their length does
            not matter, the strictest word decides.
    """
    arguments = {name: Argument(value) for name, value in params.items()}
    spoken = list(_match_rules(list(rules), dict.fromkeys((*other_names, tool_name)), arguments))
    listed = list(enumerate(places))
    execution, silent, execution_by = _choose_word(spoken, listed, "execution", _EXECUTION)
    result, is_result_silent, result_by = _choose_word(spoken, listed, "result", _RESULT)
    return Decision(
        execution or ExecutionPolicy.AUTO,
        result or ResultPolicy.NEVER,
        silent,
        is_result_silent,
        execution_by,
        result_by,
    )


class _Word(NamedTuple):
    """One rule's permission for a call, under one of the tool's names."""

    name: str
    rule: PermissionRule
    says: Permission


def _match_rules(
    rules: list[PermissionRule], names: Iterable[str], arguments: Mapping[str, Argument]
) -> Iterator[_Word]:
    """Yield each matching rule once, with the first name that it matches."""
    for rule in rules:
        for name in names:
            says = rule.words(name, arguments)
            if says is not None:
                yield _Word(name, rule, says)
                break


def _choose_word(
    spoken: Iterable[_Word],
    places: Iterable[tuple[int, Permission | None]],
    field: str,
    order: list[Any],
) -> tuple[Any, bool, str | int | None]:
    """Return the deciding word, whether it is silent, and its source."""
    best: dict[tuple[str, str | None], tuple[Any, ...]] = {}
    for name, rule, says in spoken:
        word = getattr(says, field)
        if word is not None:
            strictness = order.index(word)
            entry = (rule.specificity, strictness, rule.is_silent, rule.text)
            about = name, rule.parameter
            best[about] = max(entry, best.get(about, entry))
    if best:
        # Names are not compared by their length: a longer one would get round a shorter one's rule.
        # Neither are values of several parameters: a model chooses what it sends beside a path.
        _, strictness, is_silent, text = max(
            best.values(), key=lambda entry: (entry[0][:2], *entry[1:])
        )
        return order[strictness], is_silent, text
    for number, place in places:
        word = None if place is None else getattr(place, field)
        if word is not None:
            return word, False, number
    return None, False, None
