"""Which settings does an engine take, and which values are allowed?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolExecutionContext, check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count, check_share
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_name, check_path, check_switch
from tool_engine.model.json.data import Data
from tool_engine.model.settings.by_name import (
    check_fields,
    check_limits,
    copy_named,
    read_policies,
    read_rates,
)
from tool_engine.model.settings.cluster import KEYS, ClusterConfig, checked_cluster
from tool_engine.model.settings.concurrency import (
    ADAPTIVE_LIFO,
    AdaptivePolicy,
    BreakerPolicy,
    OverloadPolicy,
    ToolRate,
)
from tool_engine.model.settings.databases import DatabaseSource, checked_sources
from tool_engine.model.settings.retention import (
    DURABILITIES,
    RecordRetention,
    RecordsURL,
    checked_retention,
)

DEFAULT_MAX_THREADS: Final = 64
DEFAULT_MAX_RECORDS: Final = 10_000
FLEET_LOST_AFTER: Final = 60.0
RELOAD_POLICIES: Final = ("warn", "strict")
LOCK_ENFORCE: Final = "enforce"
LOCKS: Final = ("off", LOCK_ENFORCE)
_SWITCHES: Final = (
    "auto_reload",
    "watch_for_changes",
    "strict_validation",
    "recursive",
    "preload",
    "mcp_autostart",
    "run_tasks",
)
STRATEGIES: Final = ("fifo", "priority", "fair", "reject")


class KeyLimits(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """Slots that calls of one conversation, caller or workflow may hold."""

    key: str = "conversation_id"
    """The context field that calls must share: `conversation_id`, `caller_id`, `workflow_id` or
    `caller_type`. A call without it counts against no key."""
    limit: int | None = None
    """Slots per key, inside the other limits. None: no limit, the keys only share fairly."""
    overrides: dict[str, int] = {}
    """Slots for particular keys, such as `{"vip": 10}`."""
    weights: dict[str, float] = {}
    """Strategy `fair` only: shares for particular keys, such as `{"vip": 2.0}`; others have 1."""
    queue_size: int | None = None
    """The most calls of one key that wait. None: only `queue_size` of all bounds them."""

    def __post_init__(self) -> None:
        check_choice("key_limits.key", self.key, KEYS)
        if self.limit is not None:
            check_count("key_limits.limit", self.limit, minimum=1)
        if self.queue_size is not None:
            check_count("key_limits.queue_size", self.queue_size)
        overrides = check_limits("key_limits.overrides", self.overrides)
        weights = copy_named("key_limits.weights", self.weights, "shares")
        for key, weight in weights.items():
            check_share(f"key_limits.weights[{key!r}]", weight)
        msgspec.structs.force_setattr(self, "overrides", overrides)
        msgspec.structs.force_setattr(self, "weights", weights)

    def limit_of(self, key: str) -> int | None:
        """Return the slots that `key` may hold; None: as many as there are."""
        return self.overrides.get(key, self.limit)


class _ConcurrencyFields(msgspec.Struct, Data, frozen=True, metaclass=KnownFields):
    """The fields of the founding document, in its order."""

    max_concurrent: int = 10
    """Slots in all."""
    queue_size: int = 100
    """The most calls that wait for a slot; one more ends as `queue_full`. 0: no call waits."""
    default_timeout: float = 30.0
    """Seconds that a call may run when neither its caller nor its tool says otherwise."""
    strategy: str = "fifo"
    """`fifo`, `priority`, `fair` or `reject`."""
    bucket_limits: dict[str, int] = {}
    """Slots per bucket, inside `max_concurrent`, such as `{"http": 5, "ai": 2}`."""


class ConcurrencyConfig(_ConcurrencyFields, frozen=True, kw_only=True):
    """How many calls run at once, and how the others wait."""

    queue_timeout: float | None = 30.0
    """Seconds that a call may wait for a slot, apart from its execution timeout. None: no bound."""
    aging_interval: float = 10.0
    """`priority` only: the seconds of waiting that outweigh one step of priority, so that a call is
    overtaken for at most `aging_interval` seconds per step."""
    max_zombies: int | None = None
    """While this many timed-out calls still hold their slots, new ones end as `rejected`."""
    key_limits: KeyLimits | None = None
    """Slots per conversation, caller or workflow, and their shares under `fair`."""
    bucket_queue_sizes: dict[str, int] = {}
    """The most calls that wait for one bucket, inside `queue_size`. 0: no call waits for it."""
    bucket_rates: dict[str, ToolRate] = {}
    """How many calls may start in a bucket, such as `{"http": "10/s"}`."""
    breakers: dict[str, BreakerPolicy] = {}
    """Breakers of buckets, beside those of tools."""
    adaptive: dict[str, AdaptivePolicy] = {}
    """Buckets whose limit finds itself, such as `{"http": {"min": 2, "max": 50}}`; it starts with
    that of `bucket_limits`, or else with `min`."""
    overload: dict[str, OverloadPolicy] = {}
    """What buckets do while their calls wait too long, such as `{"http": {"target": 0.5}}`."""
    max_bucket_pause: float = 60.0
    """The most seconds for which one `Retry-After` may pause a bucket."""
    cluster: ClusterConfig | None = None
    """Limits that hold for all processes which share a database; a `ClusterConfig` or a mapping of
    its fields. The limits above hold in this process besides. Needs the extra `postgres`."""
    slot_ttl: float | None = None
    """Seconds after which a slot that is still held shows as overdue; it is never taken away."""
    bypass_caller_types: frozenset[str] = frozenset({"workflow_node"})
    """Caller types that the limits do not apply to, and that do not count."""

    def __post_init__(self) -> None:
        check_count("max_concurrent", self.max_concurrent, minimum=1)
        check_count("queue_size", self.queue_size)
        check_choice("strategy", self.strategy, STRATEGIES)
        if self.max_zombies is not None:
            check_count("max_zombies", self.max_zombies, minimum=1)
        self._check_times()
        settle = msgspec.structs.force_setattr
        settle(self, "key_limits", _key_limits(self.key_limits))
        settle(self, "bucket_limits", check_limits("bucket_limits", self.bucket_limits))
        sizes = check_limits("bucket_queue_sizes", self.bucket_queue_sizes, minimum=0)
        settle(self, "bucket_queue_sizes", sizes)
        settle(self, "bucket_rates", read_rates(self.bucket_rates))
        settle(self, "breakers", read_policies("breakers", self.breakers, BreakerPolicy))
        settle(self, "adaptive", read_policies("adaptive", self.adaptive, AdaptivePolicy))
        settle(self, "overload", read_policies("overload", self.overload, OverloadPolicy))
        settle(self, "cluster", checked_cluster(self.cluster))
        self._check_orders()
        settle(self, "bypass_caller_types", _caller_types(self.bypass_caller_types))

    @property
    def has_keys(self) -> bool:
        """True if limits depend on the caller of a call."""
        return self.key_limits is not None or self.strategy == "fair"

    def key_of(self, context: ToolExecutionContext) -> str | None:
        """Return the key of the call, such as its conversation; None: no key."""
        limits = self.key_limits
        key = getattr(context, "conversation_id" if limits is None else limits.key)
        return None if key is None else str(key)

    def _check_orders(self) -> None:
        for bucket, policy in self.overload.items():
            if policy.order == ADAPTIVE_LIFO and self.strategy not in ("fifo", "reject"):
                raise ConfigurationError(
                    f"overload[{bucket!r}].order {ADAPTIVE_LIFO!r} has no meaning under the "
                    f"strategy {self.strategy!r}, which has an order of its own; use 'arrival', or "
                    "the strategy 'fifo'"
                )

    def _check_times(self) -> None:
        check_timeout("default_timeout", self.default_timeout)
        check_timeout("aging_interval", self.aging_interval)
        check_timeout("max_bucket_pause", self.max_bucket_pause)
        if self.queue_timeout is not None:
            check_timeout("queue_timeout", self.queue_timeout)
        if self.slot_ttl is not None:
            check_timeout("slot_ttl", self.slot_ttl)


def _key_limits(value: object) -> KeyLimits | None:
    if value is None or isinstance(value, KeyLimits):
        return value
    if isinstance(value, Mapping):
        check_fields("key_limits", value, KeyLimits)
        return KeyLimits(**value)
    raise ConfigurationError(
        f"key_limits must be a KeyLimits or a mapping of its fields, got {value!r}"
    )


def _caller_types(values: object) -> frozenset[str]:
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        types = list(values)
        if all(isinstance(each, str) for each in types):
            return frozenset(types)
    raise ConfigurationError(f"bypass_caller_types must be a set of caller types, got {values!r}")


class _EngineFields(msgspec.Struct, Data, frozen=True, metaclass=KnownFields):
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

    name: str | None = None
    """Identifies the engine in what outlives it: remembered consent and calls that wait for consent
    hold for the engine of this name, wherever its folder is. None: identified by its folder and the
    databases of `sources`."""
    process: str | None = None
    """The name of this process, for people: in records and events of a database, and in a cluster.
    None: the machine's name and the process id."""
    recursive: bool = False
    """Loads sub-folders of `tools_directory` too."""
    reload_policy: str = "warn"
    """What happens on a breaking edit without a major version step: `warn` loads it and reports it,
    `strict` keeps the previous tool."""
    keep_generations: int = 5
    """The number of snapshots kept for `rollback`, the present one included."""
    lock: str = "off"
    """`enforce` calls only tools, and follows only groups, that the lock file approves as they are;
    `off` calls all."""
    lock_file: str | None = None
    """The lock file; None: `tools_directory` with `.lock` after its name, such as `tools.lock`."""
    cache_directory: str | None = "auto"
    """Where the tools of large folders are kept ready for the next start, by the hash of each file;
    `auto`: the user's own cache directory. None: nowhere. Write access to it is enough to change
    what your tools are."""
    preload: bool = True
    """Import with a definition what runs it, such as an HTTP client. False: the first call does,
    which then takes some tenths of a second longer, on the event loop."""
    concurrency: ConcurrencyConfig = ConcurrencyConfig()
    max_threads: int = DEFAULT_MAX_THREADS
    """The most threads that run tools with plain functions at once; a call beyond it waits for one,
    within its own time. Calls made by tools do not wait for it."""
    max_records: int = DEFAULT_MAX_RECORDS
    """The most records kept in memory; the oldest go first."""
    keep_events: int = 0
    """The most events kept for `engine.events(after=...)`: in the database of `records`, else in
    memory. 0: none; an event without a subscriber then costs nothing."""
    close_timeout: float = 5.0
    """Seconds that `close()` gives running calls before it cancels them."""
    sources: Mapping[str, DatabaseSource | Mapping[str, Any] | str] = {}
    """The databases that SQL tools name: a URL each, a `DatabaseSource`, or a mapping of its
    fields. What is read here are always `DatabaseSource` values."""
    records: str | None = None
    """The database that keeps the records: `sqlite:///calls.db` or
    `postgresql://user:${env:PASSWORD}@host/records`. None: memory."""
    mcp_servers: str | Mapping[str, Mapping[str, Any]] | Sequence[Any] | None = None
    """The servers of tools that speak the Model Context Protocol: the path of a `.mcp.json`, a
    mapping of its entries by name, or a list of `MCPServerSettings`. Those of files run beside
    them. Needs the extra `mcp`."""
    mcp_autostart: bool = True
    """Starts and reaches these servers with `load`. False: with `start_mcp_servers`."""
    mcp_start_timeout: float = 10.0
    """Seconds that `load` and `reload` wait for servers which are still connecting; the tools of
    the others come later."""
    durability: str = "buffered"
    """What a record in a database survives: `buffered` and `batch` lose what came in the last
    0.5 s or 20 ms when the process is killed; with `call` a result comes when its record is
    committed."""
    retention: RecordRetention = RecordRetention()
    """Which records a database keeps; a `RecordRetention` or a mapping of its fields."""
    run_tasks: bool = True
    """Runs, from `load` on, the tasks that earlier engines have left in the database."""
    max_tasks_per_owner: int | None = 10_000
    """The most tasks of one owner that are kept, those that have ended among them. The owner is the
    `caller_id`, over HTTP whose token it is; tasks without one are not counted. None: no bound."""
    fleet_lost_after: float = FLEET_LOST_AFTER
    """Seconds after its end for which a call keeps its slot while a worker process, or another
    backend, does not say that its work has ended; then that is unknown, and the slot goes back."""

    fleet: str | None = None
    """Where tools with `isolation: ray` run: `auto`, the Ray cluster that this machine belongs to,
    `ray://HOST:PORT`, another one, or `local`, one on this machine that ends with the engine. None:
    nowhere, so that such a tool is not loaded. Needs the extra `ray`."""

    def __post_init__(self) -> None:
        directory = check_path("tools_directory", self.tools_directory)
        msgspec.structs.force_setattr(self, "tools_directory", directory)
        for field in ("name", "process"):
            check_name(field, getattr(self, field), may_be_none=True)
        if "${" in (self.process or ""):
            raise ConfigurationError(
                f"process is a name, in which no placeholder is filled, got {self.process!r}; set "
                "the variable TOOL_ENGINE_PROCESS, or in a program give process=os.environ[...]"
            )
        for switch in _SWITCHES:
            check_switch(switch, getattr(self, switch))
        msgspec.structs.force_setattr(self, "sources", checked_sources(self.sources))
        check_timeout("reload_interval", self.reload_interval)
        check_timeout("close_timeout", self.close_timeout)
        check_timeout("fleet_lost_after", self.fleet_lost_after)
        _check_fleet(self.fleet)
        check_timeout("mcp_start_timeout", self.mcp_start_timeout)
        msgspec.structs.force_setattr(self, "mcp_servers", _checked_servers(self.mcp_servers))
        check_count("max_records", self.max_records, minimum=1)
        if self.max_tasks_per_owner is not None:
            check_count("max_tasks_per_owner", self.max_tasks_per_owner, minimum=1)
        check_count("max_threads", self.max_threads, minimum=1)
        check_count("keep_events", self.keep_events)
        check_choice("reload_policy", self.reload_policy, RELOAD_POLICIES)
        check_count("keep_generations", self.keep_generations, minimum=1)
        check_choice("lock", self.lock, LOCKS)
        check_choice("durability", self.durability, DURABILITIES)
        if self.records is not None:
            msgspec.structs.force_setattr(self, "records", RecordsURL(self.records))
        msgspec.structs.force_setattr(self, "retention", checked_retention(self.retention))
        if self.cache_directory is not None:
            cache = check_path("cache_directory", self.cache_directory)
            msgspec.structs.force_setattr(self, "cache_directory", cache)
        if self.lock_file is not None:
            lock_file = check_path("lock_file", self.lock_file)
            msgspec.structs.force_setattr(self, "lock_file", lock_file)
        msgspec.structs.force_setattr(self, "concurrency", checked_concurrency(self.concurrency))


def _check_fleet(value: object) -> None:
    if value in (None, "auto", "local"):
        return
    scheme, _, address = str(value).partition("://")
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 65_535
    if scheme != "ray" or not host or not is_port:
        words = "fleet must be 'auto', 'local', 'ray://HOST:PORT' or None"
        raise ConfigurationError(f"{words}, got {value!r}")


class _ServerEntries(dict[str, Any]):
    """A mapping for `mcp_servers`; its `repr` hides what may be secret."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: ...' for name in self)}}}"

    def __rich_repr__(self) -> Any:
        yield repr(self)


def _checked_servers(value: object) -> Any:
    """Return the setting `mcp_servers`; what single servers say is checked at each load."""
    if value is None:
        return None
    if isinstance(value, str | PathLike):
        return check_path("mcp_servers", value)
    if isinstance(value, Mapping):
        entries = copy_named("mcp_servers", value, "entries of .mcp.json")
        for name, entry in entries.items():
            if not isinstance(entry, Mapping):
                raise ConfigurationError(
                    f"mcp_servers[{name!r}] must be an entry as of .mcp.json, such as "
                    f"{{'command': 'npx', 'args': [...]}}, got {type(entry).__name__}"
                )
        return _ServerEntries(entries)
    if isinstance(value, list | tuple):
        # Settings that a program gives, or what a command has read in the project's settings.
        kind: Any = import_module("tool_engine.catalog.kinds").ServerDefinition
        if all(isinstance(each, kind) or hasattr(each, "connect_timeout") for each in value):
            return tuple(value)
    raise ConfigurationError(
        "mcp_servers must be the path of a .mcp.json, a mapping of its entries, or a list of "
        f"MCPServerSettings, got {type(value).__name__}"
    )


def checked_concurrency(value: object, name: str = "concurrency") -> ConcurrencyConfig:
    """Return the limits in the argument `name`, built from a mapping of their fields if needed.

    Raises:
        ConfigurationError: It is none.
    """
    if isinstance(value, ConcurrencyConfig):
        return value
    if isinstance(value, Mapping):
        check_fields(name, value, ConcurrencyConfig)
        return ConcurrencyConfig(**value)
    raise ConfigurationError(
        f"{name} must be a ConcurrencyConfig, or a mapping of its fields, got {value!r}; "
        "write ConcurrencyConfig(max_concurrent=...)"
    )
