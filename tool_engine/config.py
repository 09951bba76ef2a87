"""Which settings does an engine take, and which values are allowed?"""

from __future__ import annotations

import difflib
from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import check_timeout

__all__ = ["ConcurrencyConfig", "ToolEngineConfig"]

STRATEGIES: Final = ("fifo", "priority", "reject")


def _check_count(name: str, value: object, *, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigurationError(f"{name} must be a whole number >= {minimum}, got {value!r}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"{name} must be one of {', '.join(choices)}, got {value!r}{hint}")


class _ConcurrencyFields(msgspec.Struct, frozen=True):
    """The fields of the founding document, in its order."""

    max_concurrent: int = 10
    """Slots in all."""
    queue_size: int = 100
    """The most calls that wait for a slot; one more ends as `queue_full`. 0: nobody waits."""
    default_timeout: float = 30.0
    """Seconds that a call may run when neither its caller nor its tool says otherwise."""
    strategy: str = "fifo"
    """`fifo`, `priority` or `reject`."""
    bucket_limits: dict[str, int] = {}
    """Slots per bucket, inside `max_concurrent`, such as `{"http": 5, "ai": 2}`."""


class ConcurrencyConfig(_ConcurrencyFields, frozen=True, kw_only=True):
    """How many calls run at once, and what happens to the others."""

    queue_timeout: float | None = 30.0
    """Seconds that a call may wait for a slot, apart from its execution timeout. None: no bound."""
    aging_interval: float = 10.0
    """`priority` only: the seconds of waiting that outweigh one step of priority, so that a call is
    overtaken for at most `aging_interval` seconds per step."""
    max_zombies: int | None = None
    """While this many timed-out calls still hold their slots, new ones end as `rejected`."""
    bypass_caller_types: frozenset[str] = frozenset({"workflow_node"})
    """Caller types that the limits do not apply to, and that do not count."""

    def __post_init__(self) -> None:
        _check_count("max_concurrent", self.max_concurrent, minimum=1)
        _check_count("queue_size", self.queue_size, minimum=0)
        check_timeout("default_timeout", self.default_timeout)
        _check_choice("strategy", self.strategy, STRATEGIES)
        if not isinstance(self.bucket_limits, dict):
            raise ConfigurationError(
                f"bucket_limits must map bucket names to limits, got {self.bucket_limits!r}"
            )
        for bucket, limit in self.bucket_limits.items():
            if not isinstance(bucket, str) or not bucket:
                raise ConfigurationError(f"a bucket name must be a non-empty string: {bucket!r}")
            _check_count(f"bucket_limits[{bucket!r}]", limit, minimum=1)
        if self.queue_timeout is not None:
            check_timeout("queue_timeout", self.queue_timeout)
        check_timeout("aging_interval", self.aging_interval)
        if self.max_zombies is not None:
            _check_count("max_zombies", self.max_zombies, minimum=1)
        if isinstance(self.bypass_caller_types, str):
            raise ConfigurationError("bypass_caller_types must be a set of caller types")
        msgspec.structs.force_setattr(
            self, "bypass_caller_types", frozenset(self.bypass_caller_types)
        )


class _EngineFields(msgspec.Struct, frozen=True):
    """The fields of the founding document, in its order."""

    tools_directory: str = "tools"
    """The folder of tool definitions, `*.yaml` and `*.yml`."""
    auto_reload: bool = True
    """Looks for changed files every `reload_interval` seconds."""
    reload_interval: float = 5.0
    watch_for_changes: bool = False
    """Reloads as soon as the file system reports a change."""
    strict_validation: bool = False
    """Refuses unknown parameters instead of leaving them out with a warning."""


class ToolEngineConfig(_EngineFields, frozen=True, kw_only=True):
    """What an engine loads, how it reloads, and how strict it is."""

    recursive: bool = False
    """Loads sub-folders of `tools_directory` too."""
    concurrency: ConcurrencyConfig = ConcurrencyConfig()
    max_records: int = 10_000
    """The most records kept in memory; the oldest go first."""
    close_timeout: float = 5.0
    """Seconds that `close()` gives running calls before it cancels them."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "tools_directory", str(self.tools_directory))
        if not self.tools_directory:
            raise ConfigurationError("tools_directory must name a folder")
        check_timeout("reload_interval", self.reload_interval)
        check_timeout("close_timeout", self.close_timeout)
        _check_count("max_records", self.max_records, minimum=1)
        if not isinstance(self.concurrency, ConcurrencyConfig):
            raise ConfigurationError(
                f"concurrency must be a ConcurrencyConfig, got {self.concurrency!r}"
            )
