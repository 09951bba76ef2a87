"""What does a tool's entry say about the Python function that runs it?"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import msgspec

from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.fleet_entry import (
    FLEET_KEYS,
    RAY,
    FleetEntry,
    parse_size,
    read_fleet,
)
from tool_engine.executors.python.handler_source import SourceError, source_of
from tool_engine.model.tool import Tool
from tool_engine.redaction import describe_value

DEFAULT_MEMORY: Final = 1024 * 1024 * 1024
DEFAULT_WORKERS: Final = 2
_LEAST_MEMORY: Final = 64 * 1024 * 1024
_MOST_MEMORY: Final = 1024**4
_MOST_WORKERS: Final = 256
_MOST_CPU: Final = 86_400.0
_ENTRY_KEYS: Final = ("type", "handler", "config")
_LIMITS: Final = ("memory", "cpu", "workers")
_KEYS: Final = {
    "none": (),
    "process": _LIMITS,
    RAY: FLEET_KEYS,
}
"""What else an entry's config may have, by its isolation."""
_ALIKE: Final = {"memory": "resources.memory", "workers": "max_workers", "max_workers": "workers"}
"""Keys of one isolation -> what means the same in the other one."""


class PythonEntry(msgspec.Struct, frozen=True):
    module: str
    name: str
    """Dotted, for an attribute of an object in the module."""
    isolation: str = "none"
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
    fleet: FleetEntry | None = None
    """What it needs of a fleet."""
    program: str = ""
    """The program that the function starts, for messages; empty: it starts none."""

    @property
    def place(self) -> str:
        return self.program or f"{self.module}:{self.name}"

    @property
    def is_isolated(self) -> bool:
        return self.isolation != "none"


def isolation_of(tool: Tool) -> object:
    """Return what the tool's definition says of it, right or wrong."""
    config = tool.implementation_config.get("config")
    return config.get("isolation", "none") if isinstance(config, Mapping) else "none"


def is_isolated(tool: Tool) -> bool:
    return isolation_of(tool) in ("process", RAY)


def declared_of(tool: Tool) -> Mapping[str, Any]:
    """Return the JSON Schema of each parameter of the tool."""
    declared: Mapping[str, Any] = tool.parameters_schema.get("properties", {})
    return declared


def is_place(handler: str) -> bool:
    return ":" in handler


class _Reader(EntryReader[PythonEntry]):
    def read(self) -> PythonEntry | None:
        self.keys(self.tool.implementation_config, _ENTRY_KEYS, "entry")
        config = self.any_config()
        isolation = self._read_isolation(config)
        if isolation == RAY:
            return self._read_for_fleet(config)
        memory = self._read_memory(config.get("memory", DEFAULT_MEMORY))
        cpu = config.get("cpu")
        if cpu is not None and not _is_number(cpu, 0, _MOST_CPU):
            self.problem(
                "entry.config.cpu",
                f"must be seconds above 0, at most {_MOST_CPU:g}; got {describe_value(cpu)}",
            )
        workers = config.get("workers", DEFAULT_WORKERS)
        if type(workers) is not int or not 1 <= workers <= _MOST_WORKERS:
            self.problem(
                "entry.config.workers",
                f"must be a whole number from 1 to {_MOST_WORKERS}, got {describe_value(workers)}",
            )
        place = self._read_place(self.tool.handler)
        if place is None or self.problems:
            return None
        return PythonEntry(*place, isolation, memory, None if cpu is None else float(cpu), workers)

    def _read_place(self, handler: str) -> tuple[str, str] | None:
        module, _, name = handler.partition(":")
        if not (_is_dotted(module) and _is_dotted(name)):
            # Loaded by name: most handlers are right.
            meant = import_module("tool_engine.executors.python.meant_place").write_place(handler)
            self.problem(
                "entry.handler",
                f"{handler!r} names no function; write package.module:function, the module as in "
                f"an import, such as {meant or 'my_tools.text:shorten'}",
            )
            return None
        return module, name

    def _read_isolation(self, config: Mapping[str, Any]) -> str:
        isolation = config.get("isolation", "none")
        if not isinstance(isolation, str) or isolation not in _KEYS:
            self.problem(
                "entry.config.isolation",
                f"must be one of {', '.join(_KEYS)}; got {describe_value(isolation)}",
            )
            return "none"
        every = dict.fromkeys(key for keys in _KEYS.values() for key in keys)
        self.keys(config, ("isolation", *every), "entry.config")
        for key in config:
            if key in every and key not in _KEYS[isolation]:
                self.problem(f"entry.config.{key}", _word_place(key, isolation))
        return isolation

    def _read_for_fleet(self, config: Mapping[str, Any]) -> PythonEntry | None:
        fleet = read_fleet(config, self.problem, self.keys)
        timeout = self.tool.timeout
        if fleet is not None and timeout is not None and timeout <= fleet.batch_wait:
            self.problem(
                "entry.config.batch.max_wait",
                f"is {fleet.batch_wait:g} s, and the tool's timeout {timeout:g} s: no call could "
                "begin; write less, or raise the timeout",
            )
        place = self._read_place(self.tool.handler)
        if place is None or self.problems:
            return None
        # What drives a GPU maps far more memory than it uses.
        memory = 0 if fleet is None or fleet.gpus else fleet.memory
        return PythonEntry(*place, RAY, memory, fleet=fleet)

    def _read_memory(self, value: Any) -> int:
        size = parse_size(value)
        if size is not None and _LEAST_MEMORY <= size <= _MOST_MEMORY:
            return size
        self.problem(
            "entry.config.memory",
            f"must be a size from 64MiB to 1024GiB, such as 256MiB; got {describe_value(value)}",
        )
        return DEFAULT_MEMORY


class _Checker(_Reader):
    """A reader that also checks the source, without running it. Blocks."""

    def read(self) -> PythonEntry | None:
        entry = super().read()
        module, _, name = self.tool.handler.partition(":")
        if _is_dotted(module) and _is_dotted(name):
            try:
                source_of(module).check(name, self.tool)
            except SourceError as error:
                self.problem("entry.handler", str(error))
        return entry


check_entry = _Checker.check
check_form = _Reader.check
compile_entry = _Reader.compile


def _word_place(key: str, isolation: str) -> str:
    """Say which isolation a key is for, and what to do about it."""
    needed = next(name for name, keys in _KEYS.items() if key in keys)
    if isolation == "none":
        return f"is for handlers that run apart; add isolation: {needed}, or remove it"
    other = _ALIKE.get(key)
    cure = f"write {other}" if other else "remove it"
    return f"is for isolation: {needed}, and this handler has isolation: {isolation}; {cure}"


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def _is_number(value: Any, above: float, most: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and above < value <= most
