"""What does one conversation keep under a name, and what goes when there is too much?"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Final, Self

import msgspec

from tool_engine.errors import ConfigurationError, VariableError
from tool_engine.model.bounds import check_count
from tool_engine.model.output import to_text

__all__ = ["MAX_CHARS", "NAME", "Variable", "VariableKind", "VariableStore", "as_kept"]

NAME: Final = r"[A-Za-z0-9_./-]{1,200}"
"""The names that a variable may have."""
MAX_CHARS: Final = 67_108_864
"""The most characters that all variables of a conversation come to, rules not counted."""
_NAME: Final = re.compile(NAME)
_HALF: Final = re.compile(r"(\\\\)|(\\ud[89a-f])")


class VariableKind(str, Enum):
    """Where a variable came from. U40."""

    RULE = "RULE"
    """A rule or a skill of a group: always kept, never written by a model."""
    TOOL_CALL_RESULT = "ToolCallResult"
    TOOL_CALL_ARGS = "ToolCallArgs"
    MESSAGE_CACHE = "MessageCache"
    LLM_ADD = "LLMAdd"
    """The model wrote it."""
    USER_ADD = "USER_ADD"
    """The embedding program, or its user, wrote it."""


_LABELS: Final = {
    VariableKind.RULE: "rule",
    VariableKind.LLM_ADD: "model",
    VariableKind.USER_ADD: "user",
}
_UNKNOWN: Final = "unknown"
"""The label of what came from a call or a message of which nobody said more."""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One kept value. Immutable: writing it again makes a new one."""

    name: str
    value: Any
    """A JSON value; read it, do not change it."""
    kind: VariableKind = VariableKind.USER_ADD
    desc: str = ""
    """What it holds, for people and models."""
    tags: tuple[str, ...] = ()
    labels: frozenset[str] = frozenset()
    """Where its content came from: a text for each origin, such as `user` or
    `tool:fetch_page effect:read host:example.com`. None given: what its kind says."""
    created: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    chars: int = 0
    """Characters of its text; the store counts them."""

    @property
    def text(self) -> str:
        """The value as a model reads it: a string as it is, anything else as JSON."""
        return to_text(self.value)

    @property
    def is_kept(self) -> bool:
        """Whether it stays however many variables there are."""
        return self.kind is VariableKind.RULE


def as_kept(variable: Variable) -> Variable:
    """The same variable with a value of its own, of JSON values only, and with a label.

    Takes time in proportion to the value, and may do so in a thread.
    """
    value, text = _copied(variable.value)
    labels = variable.labels or frozenset({_LABELS.get(variable.kind, _UNKNOWN)})
    return msgspec.structs.replace(variable, value=value, chars=len(text), labels=labels)


class VariableStore:
    """The variables of one conversation, by name.

    At most `capacity` of at most `max_chars` characters are kept, rules not counted: the one that
    was neither read nor written for the longest time goes first, and the one that was written last
    stays however long it is.

    Args:
        capacity: The most variables.
        max_chars: The most characters of all their texts.

    Raises:
        ConfigurationError: A number of less than 1.
    """

    def __init__(self, capacity: int = 1000, max_chars: int = MAX_CHARS) -> None:
        check_count("capacity", capacity, minimum=1)
        check_count("max_chars", max_chars, minimum=1)
        self.capacity = capacity
        self.max_chars = max_chars
        self.evicted = 0
        """How many went because there were too many."""
        # In the order of their last use: a dict remembers it, and moving to its end is cheap.
        self._used: dict[str, Variable] = {}
        self._kept: dict[str, Variable] = {}
        self._chars = 0

    def __repr__(self) -> str:
        return f"VariableStore({len(self._used)} of {self.capacity}, {len(self._kept)} rules)"

    def __len__(self) -> int:
        return len(self._used) + len(self._kept)

    def __contains__(self, name: object) -> bool:
        return name in self._used or name in self._kept

    def __iter__(self) -> Iterator[Variable]:
        """All variables: the rules, then the others, the longest unused first."""
        return iter([*self._kept.values(), *self._used.values()])

    def add(self, variable: Variable) -> Variable:
        """Keeps a variable, in the place of one of the same name, whose `created` it takes over.

        What is kept is a copy of the value, of JSON values only: of anything else, such as a date,
        a set or a NaN, what a model reads of it (`to_text`).

        Returns:
            The variable as it is kept.

        Raises:
            VariableError: The name cannot be referenced, or belongs to a rule.
        """
        return self.take(as_kept(variable))

    def take(self, variable: Variable) -> Variable:
        """The same as `add`, for what `as_kept` made already.

        Raises:
            VariableError: As for `add`.
        """
        self._check_name(variable)
        old = self._kept.get(variable.name) or self._used.get(variable.name)
        if old is not None:
            variable = msgspec.structs.replace(variable, created=old.created)
        self._forget(variable.name)
        if variable.is_kept:
            self._kept[variable.name] = variable
        else:
            self._used[variable.name] = variable
            self._chars += variable.chars
            self._evict()
        return variable

    def get(self, name: str) -> Variable:
        """The variable of that name, which counts as a use of it.

        Raises:
            VariableError: There is none; the message lists the nearest names.
        """
        variable = self._kept.get(name)
        if variable is not None:
            return variable
        variable = self._used.pop(name, None)
        if variable is None:
            raise VariableError(f"there is no variable {name[:80]!r}{self._near(name)}")
        self._used[name] = variable
        return variable

    def remove(self, names: Iterable[str]) -> list[str]:
        """Forgets variables, and tells which of the names there were.

        Raises:
            VariableError: One of them is a rule; then none is forgotten.
        """
        listed = list(dict.fromkeys(names))
        rules = [name for name in listed if name in self._kept]
        if rules:
            raise VariableError(f"{rules[0]!r} is a rule, which cannot be removed")
        return [name for name in listed if self._forget(name)]

    def forget_rules(self, names: Iterable[str]) -> None:
        """Forgets rules, for the conversation itself: those of groups that are off."""
        for name in names:
            self._kept.pop(name, None)

    def find(
        self, *, kind: VariableKind | None = None, search: str = "", tag: str | None = None
    ) -> list[Variable]:
        """The variables that fit, the last used first, rules at the end.

        Args:
            kind: Where they came from.
            search: What is in the name or the description, in whatever case.
            tag: One of their tags.
        """
        wanted = search.casefold()
        return [
            each
            for each in [*reversed(self._used.values()), *self._kept.values()]
            if (kind is None or each.kind is kind)
            and (tag is None or tag in each.tags)
            and (wanted in each.name.casefold() or wanted in each.desc.casefold())
        ]

    def to_dict(self) -> dict[str, Any]:
        """All variables as JSON values, for `from_dict`; the same variables, the same values."""
        return {
            "capacity": self.capacity,
            "max_chars": self.max_chars,
            "evicted": self.evicted,
            "variables": [_as_dict(each) for each in self],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The store that `to_dict` wrote.

        Raises:
            VariableError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = msgspec.convert(data, _Kept)
            store = cls(kept.capacity, kept.max_chars)
        except (msgspec.ValidationError, ConfigurationError) as error:
            raise VariableError(f"these are no kept variables: {error}") from error
        for variable in kept.variables:
            store.add(variable)
        store.evicted = kept.evicted
        return store

    def _check_name(self, variable: Variable) -> None:
        if not _NAME.fullmatch(variable.name):
            raise VariableError(
                f"no variable can be named {variable.name[:80]!r}: a name has 1 to 200 of the "
                "characters A-Z, a-z, 0-9, _ . / and -"
            )
        if variable.name in self._kept and not variable.is_kept:
            raise VariableError(
                f"{variable.name!r} is a rule, which cannot be written: choose another name"
            )

    def _forget(self, name: str) -> bool:
        old = self._used.pop(name, None)
        if old is not None:
            self._chars -= old.chars
        return old is not None

    def _evict(self) -> None:
        while len(self._used) > self.capacity or (
            self._chars > self.max_chars and len(self._used) > 1
        ):
            self._forget(next(iter(self._used)))
            self.evicted += 1

    def _near(self, name: str) -> str:
        if not len(self):
            return "; nothing is kept yet"
        known = [*self._used, *self._kept]
        near = difflib.get_close_matches(name[:80], known, n=3, cutoff=0.4) or known[-3:]
        return f"; near are {', '.join(near)}"


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What `to_dict` writes."""

    capacity: int
    evicted: Annotated[int, msgspec.Meta(ge=0)]
    variables: list[Variable]
    max_chars: int = MAX_CHARS


def _as_dict(variable: Variable) -> dict[str, Any]:
    """A variable as JSON values: sets in order, and the keys of its value as they are.

    The places in its text that a model was told of are the same then.
    """
    rest = msgspec.structs.replace(variable, value=None)
    fields: dict[str, Any] = msgspec.to_builtins(rest, order="deterministic")
    return {**fields, "value": msgspec.to_builtins(variable.value)}


def _copied(value: Any) -> tuple[Any, str]:
    """A value as it is kept, which nobody else holds, and its text."""
    text = to_text(value)
    if isinstance(value, str):
        return text, text
    if "\\ud" in text:
        # Half of a surrogate pair: kept as the letters of its escape, which can be written.
        text = _HALF.sub(lambda found: found[1] or f"\\{found[2]}", text)
    try:
        kept = json.loads(text)
    except RecursionError:  # pragma: no cover - what can be written can be read so far
        kept = text
    return kept, kept if isinstance(kept, str) else text
