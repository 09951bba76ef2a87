"""What does a tool's entry say about the Python function that runs it?"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.python.handler_source import SourceError, source_of
from tool_engine.model.tool import Tool

DEFAULT_MEMORY: Final = 1024 * 1024 * 1024
DEFAULT_WORKERS: Final = 2
_LEAST_MEMORY: Final = 64 * 1024 * 1024
_MOST_MEMORY: Final = 1024**4
_MOST_WORKERS: Final = 256
_MOST_CPU: Final = 86_400.0
_ENTRY_KEYS: Final = ("type", "handler", "config")
_LIMITS: Final = ("memory", "cpu", "workers")
_CONFIG_KEYS: Final = ("isolation", *_LIMITS)
_ISOLATIONS: Final = ("none", "process")
_UNITS: Final = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE: Final = re.compile(r"([0-9]{1,12}) ?([A-Za-z]+)", re.ASCII)


class PythonEntry(msgspec.Struct, frozen=True):
    module: str
    name: str
    """Dotted, for an attribute of an object in the module."""
    is_isolated: bool = False
    memory: int = DEFAULT_MEMORY
    """Bytes of address space for one worker process."""
    cpu: float | None = None
    """Seconds of processor time for one call; None: only the call's deadline counts."""
    workers: int = DEFAULT_WORKERS
    """The most worker processes at once."""
    approved: str | None = None
    """The hash that the module's file must have; None: any."""
    parameters: Mapping[str, Any] = {}
    """The JSON Schema of each parameter of the tool."""

    @property
    def place(self) -> str:
        return f"{self.module}:{self.name}"


def is_isolated(tool: Tool) -> bool:
    config = tool.implementation_config.get("config")
    return isinstance(config, Mapping) and config.get("isolation") == "process"


def declared_of(tool: Tool) -> Mapping[str, Any]:
    """Return the JSON Schema of each parameter of the tool."""
    declared: Mapping[str, Any] = tool.parameters_schema.get("properties", {})
    return declared


def is_place(handler: str) -> bool:
    return ":" in handler


class _Reader(EntryReader[PythonEntry]):
    def read(self) -> PythonEntry | None:
        self.keys(self.tool.implementation_config, _ENTRY_KEYS, "entry")
        config = self.config(_CONFIG_KEYS)
        is_isolated = self._is_isolated(config)
        memory = self._read_memory(config.get("memory", DEFAULT_MEMORY))
        cpu = config.get("cpu")
        if cpu is not None and not _is_number(cpu, 0, _MOST_CPU):
            self.problem(
                "entry.config.cpu", f"must be seconds above 0, at most {_MOST_CPU:g}; got {cpu!r}"
            )
        workers = config.get("workers", DEFAULT_WORKERS)
        if type(workers) is not int or not 1 <= workers <= _MOST_WORKERS:
            self.problem(
                "entry.config.workers",
                f"must be a whole number from 1 to {_MOST_WORKERS}, got {workers!r}",
            )
        place = self._read_place(self.tool.handler)
        if place is None or self.problems:
            return None
        return PythonEntry(
            *place, is_isolated, memory, None if cpu is None else float(cpu), workers
        )

    def _read_place(self, handler: str) -> tuple[str, str] | None:
        module, _, name = handler.partition(":")
        if not (_is_dotted(module) and _is_dotted(name)):
            self.problem(
                "entry.handler",
                f"{handler!r} names no function; write package.module:function, the module as in "
                "an import, such as my_tools.text:shorten",
            )
            return None
        return module, name

    def _is_isolated(self, config: Mapping[str, Any]) -> bool:
        isolation = config.get("isolation", "none")
        if isolation not in _ISOLATIONS:
            self.problem(
                "entry.config.isolation", f"must be one of none, process; got {isolation!r}"
            )
        elif isolation == "none":
            for key in _LIMITS:
                if key in config:
                    self.problem(
                        f"entry.config.{key}",
                        "is a limit of worker processes; add isolation: process, or remove it",
                    )
        return bool(isolation == "process")

    def _read_memory(self, value: Any) -> int:
        size = _parse_size(value)
        if size is not None and _LEAST_MEMORY <= size <= _MOST_MEMORY:
            return size
        self.problem(
            "entry.config.memory",
            f"must be a size from 64MiB to 1024GiB, such as 256MiB; got {value!r}",
        )
        return DEFAULT_MEMORY


class _Checker(_Reader):
    """A reader that also checks the source, without running it. Blocks."""

    def read(self) -> PythonEntry | None:
        entry = super().read()
        if entry is not None:
            try:
                source_of(entry.module).check(entry.name, self.tool)
            except SourceError as error:
                self.problem("entry.handler", str(error))
        return entry


check_entry = _Checker.check
check_form = _Reader.check
compile_entry = _Reader.compile


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _is_number(value: Any, above: float, most: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and above < value <= most


def _parse_size(value: Any) -> int | None:
    """Return the bytes of 268435456 or "256MiB"; None for what is neither."""
    if type(value) is int:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = None if match is None else _UNITS.get(match[2].upper())
    return None if match is None or unit is None else int(match[1]) * unit
