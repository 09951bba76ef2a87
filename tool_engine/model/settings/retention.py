"""How long are records and sessions kept, and what does an acknowledged record survive?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.json.data import Data
from tool_engine.model.settings.databases import DatabaseSource

DURABILITIES: Final = ("buffered", "batch", "call")


class RecordsURL(str):
    """The setting `records`; its `repr` hides what may be secret."""

    __slots__ = ()

    def __new__(cls, url: object) -> Self:
        """Check the URL.

        Raises:
            ConfigurationError: It is none; the message never holds its password.
        """
        try:
            DatabaseSource(url=url)  # type: ignore[arg-type]
        except ConfigurationError as error:
            raise ConfigurationError(f"records: {error}") from None
        return super().__new__(cls, url)

    def __repr__(self) -> str:
        shown = repr(DatabaseSource(url=str(self)))
        return shown.partition("url=")[2].partition(", readonly=")[0]


class RecordRetention(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """What a database keeps; the oldest entries go first. None: no such bound."""

    max_age: float | None = None
    """Seconds since the call ended; a week is 604800."""
    max_count: int | None = None
    """The most records."""
    max_bytes: int | None = None
    """About the most bytes: of SQLite's file in use, of PostgreSQL's rows."""
    max_session_age: float | None = None
    """Seconds since a session was saved last; one with an open request for approval stays."""
    interval: float = 3600.0
    """Seconds between removals of what is no longer kept."""

    def __post_init__(self) -> None:
        check_timeout("retention.interval", self.interval)
        for name in ("max_age", "max_session_age"):
            age = getattr(self, name)
            if age is not None:
                check_timeout(f"retention.{name}", age)
        for name in ("max_count", "max_bytes"):
            bound = getattr(self, name)
            if bound is not None:
                check_count(f"retention.{name}", bound, minimum=1)

    @property
    def has_bounds(self) -> bool:
        """True if anything is ever removed."""
        bounds = (self.max_age, self.max_count, self.max_bytes, self.max_session_age)
        return any(bound is not None for bound in bounds)


def checked_retention(value: object) -> RecordRetention:
    """Return the setting `retention`, built from a mapping of its fields if needed.

    Raises:
        ConfigurationError: It is neither, or a bound is out of range.
    """
    if isinstance(value, RecordRetention):
        return value
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"retention must be a RecordRetention or a mapping of its fields, got {value!r}"
        )
    known = RecordRetention.__struct_fields__
    for field in value:
        if field not in known:
            hint = suggest_near(str(field), known) or f"; it has {', '.join(known)}"
            raise ConfigurationError(f"retention has no field {field!r}{hint}")
    return RecordRetention(**value)
