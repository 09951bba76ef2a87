"""How is a definition's `entry` read so that all its mistakes are found at once?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.tool import Tool
from tool_engine.redaction import describe_value

EntryT = TypeVar("EntryT")
WORK_KEYS: Final = ("request", "argv", "sql", "steps")
"""The keys that name an executor where the entry has no handler."""


class EntryReader(ABC, Generic[EntryT]):
    """A reader of one entry that goes on after a mistake.

    An executor's reader says what it knows in `read`; the rest is the same for all of them.
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.parameters = {parameter.name: parameter for parameter in tool.parameters}
        self.problems: list[DefinitionProblem] = []

    @classmethod
    def check(cls, tool: Tool) -> list[DefinitionProblem]:
        reader = cls(tool)
        reader.read()
        return reader.problems

    @classmethod
    def compile(cls, tool: Tool) -> EntryT:
        """Return the entry of `tool`, ready to run; raise `DefinitionError` with all problems."""
        reader = cls(tool)
        entry = reader.read()
        if entry is None or reader.problems:
            raise DefinitionError(*reader.problems)
        return entry

    @abstractmethod
    def read(self) -> EntryT | None:
        """Return the entry; None, or any other value, if `problems` were found."""

    def problem(self, path: str, message: str, *, got: str = "", nearest: str = "") -> None:
        file = self.tool.source or f"tool {self.tool.name!r}"
        problem = DefinitionProblem(message, file=file, path=path, got=got, nearest=nearest)
        self.problems.append(problem)

    def keys(
        self,
        mapping: Mapping[Any, Any],
        known: tuple[str, ...],
        path: str,
        habits: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Note each key that is not known; `habits`: the words of others, and what they mean."""
        for key in mapping:
            if key not in known:
                if path == "entry" and key in WORK_KEYS and mapping.get("handler"):
                    words = f"{self.tool.handler} never uses {key!r}; {find_work_cure(key)}"
                    self.problem(f"{path}.{key}", words)
                    continue
                near = habits.get(key) or find_nearest(key, known)
                hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
                message, got = f"unknown key {key!r}; {hint}", f"the key {key!r}"
                self.problem(f"{path}.{key}", message, got=got, nearest=near)

    def config(self, known: tuple[str, ...]) -> Mapping[str, Any]:
        config = self.any_config()
        self.keys(config, known, "entry.config")
        return config

    def any_config(self) -> Mapping[str, Any]:
        """Return the entry's `config`, whatever its keys."""
        config = self.tool.implementation_config.get("config", {})
        if isinstance(config, Mapping):
            return config
        self.problem("entry.config", f"must be a mapping, got {describe_value(config)}")
        return {}


class CompiledEntries(Generic[EntryT]):
    """The entries of the tools that one executor runs, each compiled once."""

    def __init__(self, compile_entry: Callable[[Tool], EntryT]) -> None:
        self._compile = compile_entry
        self._known: dict[str, tuple[Tool, EntryT]] = {}

    def of(self, tool: Tool) -> EntryT:
        known = self._known.get(tool.name)
        if known is not None and known[0] is tool:
            return known[1]
        entry = self._compile(tool)
        self._known[tool.name] = (tool, entry)
        return entry


def find_work_cure(key: str) -> str:
    """Return what to do about a key of `WORK_KEYS` beside a handler that never reads it."""
    return f"remove it, or remove 'handler' so that {key!r} says what runs"


def is_filled_text(value: object) -> bool:
    """Return True for a text that is not empty."""
    return isinstance(value, str) and value != ""
