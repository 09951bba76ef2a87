"""What does one conversation keep under a name, and what goes when there is too much?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Self

import msgspec

from tool_engine.errors import VariableError
from tool_engine.model.bounds import check_count
from tool_engine.model.output import to_text

__all__ = ["NAME", "Variable", "VariableKind", "VariableStore"]

NAME: Final = r"[A-Za-z0-9_./-]{1,200}"
"""The names that a variable may have."""
_NAME: Final = re.compile(NAME)


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


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One kept value. Immutable: writing it again makes a new one."""

    name: str
    value: Any
    """Any JSON value; read it, do not change it."""
    kind: VariableKind = VariableKind.USER_ADD
    desc: str = ""
    """What it holds, for people and models."""
    tags: tuple[str, ...] = ()
    labels: frozenset[str] = frozenset()
    """Where its content came from, such as `tool:fetch_page` or `host:example.com`."""
    created: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    @property
    def text(self) -> str:
        """The value as a model reads it: a string as it is, anything else as JSON."""
        return to_text(self.value)

    @property
    def is_kept(self) -> bool:
        """Whether it stays however many variables there are."""
        return self.kind is VariableKind.RULE


class VariableStore:
    """The variables of one conversation, by name.

    At most `capacity` are kept, rules not counted: the one that was neither read nor written for
    the longest time goes first.

    Args:
        capacity: The most variables.

    Raises:
        ConfigurationError: A capacity of less than 1.
    """

    def __init__(self, capacity: int = 1000) -> None:
        check_count("capacity", capacity, minimum=1)
        self.capacity = capacity
        self.evicted = 0
        """How many went because there were too many."""
        # In the order of their last use: a dict remembers it, and moving to its end is cheap.
        self._used: dict[str, Variable] = {}
        self._kept: dict[str, Variable] = {}

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

        Raises:
            VariableError: The name cannot be referenced, or belongs to a rule.
        """
        if not _NAME.fullmatch(variable.name):
            raise VariableError(
                f"no variable can be named {variable.name[:80]!r}: a name has 1 to 200 of the "
                "characters A-Z, a-z, 0-9, _ . / and -"
            )
        old = self._kept.get(variable.name) or self._used.get(variable.name)
        if old is not None:
            if old.is_kept and not variable.is_kept:
                raise VariableError(
                    f"{variable.name!r} is a rule, which cannot be written: choose another name"
                )
            variable = msgspec.structs.replace(variable, created=old.created)
        self._used.pop(variable.name, None)
        (self._kept if variable.is_kept else self._used)[variable.name] = variable
        while len(self._used) > self.capacity:
            del self._used[next(iter(self._used))]
            self.evicted += 1
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
        return [name for name in listed if self._used.pop(name, None) is not None]

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
        """All variables as JSON values, for `from_dict`."""
        listed = [msgspec.to_builtins(each) for each in self]
        return {"capacity": self.capacity, "evicted": self.evicted, "variables": listed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The store that `to_dict` wrote.

        Raises:
            VariableError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = msgspec.convert(data, _Kept)
        except msgspec.ValidationError as error:
            raise VariableError(f"these are no kept variables: {error}") from error
        store = cls(kept.capacity)
        for variable in kept.variables:
            store.add(variable)
        store.evicted = kept.evicted
        return store

    def _near(self, name: str) -> str:
        if not len(self):
            return "; nothing is kept yet"
        known = [*self._used, *self._kept]
        near = difflib.get_close_matches(name[:80], known, n=3, cutoff=0.4) or known[-3:]
        return f"; near are {', '.join(near)}"


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What `to_dict` writes."""

    capacity: int
    evicted: int
    variables: list[Variable]
