"""What does a tool's entry say of the machines of a fleet that it needs?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from tool_engine.redaction import describe_value, is_secret_key, redact

RAY: Final = "ray"
"""What `entry.config.isolation` says of a tool that runs on a fleet."""
FLEET_KEYS: Final = ("resources", "runtime", "min_workers", "max_workers", "idle_time", "batch")
_RESOURCES: Final = ("cpus", "gpus", "memory", "others")
_RUNTIME: Final = ("pip", "uv", "conda", "working_dir", "py_modules", "env_vars")
_OF_RAY: Final = {"CPU": "cpus", "GPU": "gpus", "memory": "memory"}
"""Resources that have a key of their own."""
_BATCH: Final = ("max_size", "max_wait")
_UNITS: Final = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE: Final = re.compile(r"([0-9]{1,12}) ?([A-Za-z]+)", re.ASCII)
_LEAST_AMOUNT: Final = 0.0001
"""The step in which Ray counts resources."""
OPEN: Final = (
    "looks like a secret, and everyone who reaches the fleet can read its runtime environments; "
    "set it in the environment of the nodes"
)
_UNFILLED: Final = (
    "holds ${env:...} or ${file:...}, which is not filled in here: everyone who reaches the fleet "
    "can read its runtime environments; set it in the environment of the nodes, or write the value"
)
_MOST_WORKERS: Final = 10_000
_MOST_BATCH: Final = 10_000
_MOST_SECONDS: Final = 86_400.0
_LEAST_MEMORY: Final = 64 * 1024 * 1024
_MOST_MEMORY: Final = 1024**4

Say = Callable[[str, str], None]
"""Takes the path of a key, and what is wrong with it."""


class FleetEntry(msgspec.Struct, frozen=True):
    """What one worker of a tool needs, and how many there may be."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    """Bytes; 0: any node has enough."""
    others: dict[str, float] = {}
    """Resources by the names that the fleet's operator gave them."""
    runtime: dict[str, Any] = {}
    """Ray's runtime environment of the workers; empty: what the nodes have."""
    min_workers: int = 0
    """Workers that stay, once there are so many."""
    max_workers: int = 8
    idle_time: float = 300.0
    """Seconds without a call after which a worker ends."""
    batch_size: int = 0
    """The most calls that wait for one another to travel together; 0: none waits."""
    batch_wait: float = 0.0
    """The most seconds that the first of them waits."""
    is_alone: bool = False
    """Whether a worker has one call at a time although its function is async."""

    @property
    def resources(self) -> dict[str, float]:
        """What a worker takes of its node, by Ray's names."""
        wants = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory), **self.others}
        return {name: amount for name, amount in wants.items() if amount}


def read_fleet(
    config: Mapping[str, Any], say: Say, check_keys: Callable[..., None]
) -> FleetEntry | None:
    """Return what `entry.config` says; None, after a word to `say`, if it is wrong."""
    return _Reader(config, say, check_keys).read()


class _Reader:
    def __init__(
        self, config: Mapping[str, Any], say: Say, check_keys: Callable[..., None]
    ) -> None:
        self._config = config
        self._say = say
        self._check_keys = check_keys
        self._is_right = True

    def read(self) -> FleetEntry | None:
        resources = self._read_mapping("resources", _RESOURCES)
        cpus = self._read_number(resources, "resources.cpus", 1.0, 0, 10_000)
        gpus = self._read_number(resources, "resources.gpus", 0.0, 0, 1_000)
        if gpus > 1 and gpus % 1:
            self._say_wrong("resources.gpus", f"must be whole above 1, got {gpus:g}")
        others = self._read_others(resources.get("others", {}))
        batch = self._read_mapping("batch", _BATCH)
        least = self._read_count(self._config, "min_workers", 0, 0, _MOST_WORKERS)
        most = self._read_count(self._config, "max_workers", max(8, least), 1, _MOST_WORKERS)
        if least > most:
            self._say_wrong("min_workers", f"is {least}, more than max_workers, {most}; lower it")
        made = FleetEntry(
            cpus,
            gpus,
            self._read_memory(resources),
            others,
            self._read_runtime(),
            least,
            most,
            self._read_number(self._config, "idle_time", 300.0, 0, _MOST_SECONDS),
            self._read_count(batch, "batch.max_size", 100, 2, _MOST_BATCH) if batch else 0,
            self._read_number(batch, "batch.max_wait", 0.01, 0, 60.0) if batch else 0.0,
        )
        return made if self._is_right else None

    def _say_wrong(self, key: str, words: str) -> None:
        self._is_right = False
        self._say(f"entry.config.{key}", words)

    def _read_mapping(self, key: str, known: tuple[str, ...]) -> Mapping[str, Any]:
        found = self._config.get(key, {})
        if not isinstance(found, Mapping):
            self._say_wrong(key, f"must be a mapping of {', '.join(known)}")
            return {}
        self._check_keys(found, known, f"entry.config.{key}")
        return found

    def _read_number(
        self, found: Mapping[str, Any], path: str, default: float, least: float, most: float
    ) -> float:
        value = found.get(path.rpartition(".")[2], default)
        if not _is_number(value) or not least <= value <= most:
            self._say_wrong(
                path, f"must be a number from {least:g} to {most:g}, got {describe_value(value)}"
            )
            return default
        if 0 < value < _LEAST_AMOUNT and path.startswith("resources."):
            self._say_wrong(
                path, f"must be 0, or {_LEAST_AMOUNT:g} and more; got {describe_value(value)}"
            )
        return float(value)

    def _read_count(
        self, found: Mapping[str, Any], path: str, default: int, least: int, most: int
    ) -> int:
        value = found.get(path.rpartition(".")[2], default)
        if type(value) is int and least <= value <= most:
            return value
        self._say_wrong(
            path, f"must be a whole number from {least} to {most}, got {describe_value(value)}"
        )
        return default

    def _read_memory(self, resources: Mapping[str, Any]) -> int:
        value = resources.get("memory", 0)
        size = parse_size(value)
        if size == 0 or (size is not None and _LEAST_MEMORY <= size <= _MOST_MEMORY):
            return size
        self._say_wrong(
            "resources.memory",
            f"must be a size from 64MiB to 1024GiB, such as 2GiB, or 0; "
            f"got {describe_value(value)}",
        )
        return 0

    def _read_others(self, value: Any) -> dict[str, float]:
        if isinstance(value, Mapping):
            unfit = [
                f"{name!r} with {describe_value(amount)}"
                for name, amount in value.items()
                if not (isinstance(name, str) and name and _is_number(amount))
                or amount < _LEAST_AMOUNT
            ]
        else:
            unfit = [describe_value(value)]
        if isinstance(value, Mapping) and not unfit:
            for name in (*_OF_RAY, "object_store_memory"):
                if name in value:
                    cure = f"is resources.{_OF_RAY[name]}" if name in _OF_RAY else "is Ray's own"
                    self._say_wrong(f"resources.others.{name}", f"{cure}; remove it here")
            return {name: float(amount) for name, amount in value.items()}
        self._say_wrong(
            "resources.others",
            f"must name resources of the nodes and amounts from {_LEAST_AMOUNT:g}; got {unfit[0]}",
        )
        return {}

    def _read_runtime(self) -> dict[str, Any]:
        found = self._read_mapping("runtime", _RUNTIME)
        variables = found.get("env_vars", {})
        if not isinstance(variables, Mapping):
            self._say_wrong("runtime.env_vars", "must map names to texts, such as {LANG: de}")
            return {}
        # Without their values, any of which may be a secret.
        odd = [
            name
            for name, value in variables.items()
            if not (isinstance(name, str) and isinstance(value, str))
        ]
        for name in odd:
            self._say_wrong(
                f"runtime.env_vars.{name}", "its name and its value must be texts; quote them"
            )
        if odd:
            return {}
        secrets = {*list_secrets(found)}
        secrets.update(f"runtime.env_vars.{name}" for name in variables if is_secret_key(name))
        for path, text in _list_texts(found, "runtime"):
            if "${env:" in text or "${file:" in text:
                self._say_wrong(path, _UNFILLED)
        for path in sorted(secrets):
            self._say_wrong(path, OPEN)
        return dict(found)


def list_secrets(runtime: Mapping[str, Any]) -> list[str]:
    """Return the places in a runtime environment of what looks like a secret."""
    return [path for path, text in _list_texts(runtime, "runtime") if redact(text) != text]


def _list_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _list_texts(each, f"{path}.{name}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _list_texts(each, f"{path}[{place}]")


def parse_size(value: Any) -> int | None:
    """Return the bytes of 268435456 or "256MiB"; None for what is neither."""
    if type(value) is int:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = None if match is None else _UNITS.get(match[2].upper())
    return None if match is None or unit is None else int(match[1]) * unit


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
