"""Which limits does this process share with others, and through which database?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_name
from tool_engine.model.json.data import Data
from tool_engine.model.settings.by_name import check_fields, check_limits, read_policies, read_rates
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate
from tool_engine.model.settings.databases import DatabaseSource, check_url

LOCAL: Final = "local"
KEYS: Final = ("conversation_id", "caller_id", "workflow_id", "caller_type")
"""The fields of a caller that calls may share."""
_UNAVAILABLE: Final = ("refuse", LOCAL)
_EXAMPLE: Final = "postgresql://user:${env:PASSWORD}@host/coordination"
_LEAST_GRACE: Final = 0.01
_LONGEST: Final = 86_400.0
"""Seconds: what must be waited for after a crash is no more than a day."""
_LONGEST_NAME: Final = 100
"""Characters of what stands in the one row that each message writes anew."""
_LEAST_TTL: Final = 3.0
"""Times the grace: a process is silent for a third of the ttl before it is in doubt."""


class ClusterConfig(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """Limits that hold for all processes which share a database. Its `repr` hides secrets."""

    url: str
    """`postgresql://user:${env:PASSWORD}@host/coordination`: a database of its own is best."""
    name: str = "default"
    """The cluster: processes with one database and one name share its limits."""
    revision: int = 0
    """Which edition of the limits this is. The highest one holds in every process, from when it is
    there; the same one with other values is an error."""
    bucket_limits: dict[str, int] = {}
    """Units that calls of a bucket may have at once in all processes, such as `{"ai": 2}`."""
    key_limits: dict[str, int] = {}
    """The same for calls with one value of a key, by its kind: `{"conversation_id": 1}`."""
    bucket_rates: dict[str, ToolRate] = {}
    """How many calls may start in a bucket in all processes, such as `{"http": "10/s"}`."""
    breakers: dict[str, BreakerPolicy] = {}
    """Breakers of buckets; one that opens in a process opens in all."""
    session_grace: float = 0.3
    """Seconds that a process whose connection has ended has to come back."""
    lease_ttl: float = 10.0
    """Seconds of silence after which others may have what a process has."""
    idle_time: float = 5.0
    """Seconds for which a process keeps units that none of its calls uses."""
    on_unavailable: str = "refuse"
    """What happens to calls while the database cannot be asked for longer than `lease_ttl`:
    `refuse` ends them as `rejected`; `local` lets the limits of each process hold alone."""

    def __post_init__(self) -> None:
        settle = msgspec.structs.force_setattr
        settle(self, "url", ClusterURL(self.url))
        check_name("cluster.name", self.name)
        check_count("cluster.revision", self.revision, minimum=0)
        settle(self, "bucket_limits", check_limits("cluster.bucket_limits", self.bucket_limits))
        settle(self, "key_limits", check_limits("cluster.key_limits", self.key_limits))
        for kind in self.key_limits:
            check_choice("a name in cluster.key_limits", kind, KEYS)
        settle(self, "bucket_rates", read_rates(self.bucket_rates))
        settle(self, "breakers", read_policies("breakers", self.breakers, BreakerPolicy))
        _check_texts("cluster.name", self.name)
        for field in ("bucket_limits", "bucket_rates", "breakers"):
            _check_texts(f"a name in cluster.{field}", *getattr(self, field))
        for field in ("session_grace", "lease_ttl", "idle_time"):
            seconds = getattr(self, field)
            check_timeout(f"cluster.{field}", seconds)
            if seconds > _LONGEST:
                raise ConfigurationError(
                    f"cluster.{field} must be at most {_LONGEST:.0f} s, got {seconds!r}"
                )
        if self.session_grace < _LEAST_GRACE:
            raise ConfigurationError(
                f"cluster.session_grace must be at least {_LEAST_GRACE} s, "
                f"got {self.session_grace!r}"
            )
        if self.lease_ttl < _LEAST_TTL * self.session_grace:
            raise ConfigurationError(
                f"cluster.lease_ttl ({self.lease_ttl:g} s) must be at least three times "
                f"session_grace ({self.session_grace:g} s); raise it, or lower the grace"
            )
        check_choice("cluster.on_unavailable", self.on_unavailable, _UNAVAILABLE)


def _check_texts(what: str, *values: str) -> None:
    """Raise `ConfigurationError` for what cannot stand in the database, or makes its row large."""
    for value in values:
        is_writable = value == value.encode(errors="ignore").decode() and "\0" not in value
        if not is_writable or len(value) > _LONGEST_NAME:
            raise ConfigurationError(
                f"{what} must be a text of at most {_LONGEST_NAME} characters, without a zero "
                f"character or one half of a surrogate pair, got {value[:_LONGEST_NAME]!a}"
            )


class ClusterURL(str):
    """The URL of a cluster's database; its `repr` hides what may be secret."""

    __slots__ = ()

    def __new__(cls, url: object) -> Self:
        """Check the URL.

        Raises:
            ConfigurationError: It is none of PostgreSQL; the message never holds its password.
        """
        try:
            check_url(url, kinds=("postgresql:",), example=_EXAMPLE)
        except ConfigurationError as error:
            raise ConfigurationError(f"cluster: {error}") from None
        return super().__new__(cls, url)

    def __repr__(self) -> str:
        shown = repr(DatabaseSource(url=str(self)))
        return shown.partition("url=")[2].partition(", readonly=")[0]


def checked_cluster(value: object) -> ClusterConfig | None:
    """Return the setting `cluster`, built from a mapping of its fields if needed.

    Raises:
        ConfigurationError: It is neither, or a value is none that it can have.
    """
    if value is None or isinstance(value, ClusterConfig):
        return value
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            "cluster must be a ClusterConfig or a mapping of its fields, such as "
            f"{{'url': 'postgresql://host/coordination'}}, got a {type(value).__name__}"
        )
    check_fields("cluster", value, ClusterConfig)
    if "url" not in value:
        raise ConfigurationError(
            "cluster has no url; give that of a PostgreSQL database, such as "
            "postgresql://user:${env:PASSWORD}@host/coordination"
        )
    return ClusterConfig(**value)
