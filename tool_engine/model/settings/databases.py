"""Which databases may tools use, and how is each of them reached?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.json.data import Data

DEFAULT_POOL_SIZE: Final = 5
_MAX_POOL_SIZE: Final = 1000
_SCHEMES: Final = {
    "sqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "postgresql+asyncpg": "postgresql",
}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_KINDS: Final = ("sqlite:", "postgresql:")
_EXAMPLES: Final = "sqlite:///shop.db or postgresql://user:${env:PASSWORD}@host/shop"


class DatabaseSource(msgspec.Struct, Data, frozen=True, kw_only=True):
    """A database that tools name in `entry.source`. Its `repr` hides what may be secret."""

    url: str
    """`sqlite:///shop.db` or `postgresql://user:${env:PASSWORD}@host:5432/shop`. `${env:NAME}` and
    `${file:PATH}` are filled in when the first call connects."""
    readonly: bool = False
    """True refuses tools that write, whatever their definitions say."""
    pool_size: int = DEFAULT_POOL_SIZE
    """The most connections for reading, and the most for writing; more calls wait for one."""

    def __post_init__(self) -> None:
        check_url(self.url)
        if not isinstance(self.readonly, bool):
            raise ConfigurationError(f"readonly must be true or false, got {self.readonly!r}")
        check_count("pool_size", self.pool_size, minimum=1, maximum=_MAX_POOL_SIZE)

    @property
    def kind(self) -> str | None:
        """`sqlite` or `postgresql`; None while the whole URL is a secret."""
        found = _SCHEME.match(self.url)
        return None if found is None else _SCHEMES.get(found[1].lower())

    def __repr__(self) -> str:
        return (
            f"DatabaseSource(url={_show_url(self.url)!r}, readonly={self.readonly!r}, "
            f"pool_size={self.pool_size!r})"
        )

    def __rich_repr__(self) -> Any:
        yield "url", _show_url(self.url)
        yield "readonly", self.readonly
        yield "pool_size", self.pool_size


def checked_sources(values: object) -> dict[str, DatabaseSource]:
    """Return the setting `sources`, each as a `DatabaseSource`.

    Args:
        values: Maps names to URLs, mappings of the fields, or sources.

    Raises:
        ConfigurationError: It is not of that form; the message never holds a URL's password.
    """
    if not isinstance(values, Mapping):
        raise ConfigurationError(
            f"sources must map names to databases, such as {{'shop': 'sqlite:///shop.db'}}, got "
            f"{type(values).__name__}"
        )
    return {_check_name(name): _check_source(name, value) for name, value in values.items()}


def _check_name(name: object) -> str:
    if isinstance(name, str) and name.strip():
        return name
    raise ConfigurationError(f"a name in sources must be a non-empty string, got {name!r}")


def _check_source(name: str, value: object) -> DatabaseSource:
    if isinstance(value, DatabaseSource):
        return value
    fields = {"url": value} if isinstance(value, str) else value
    if not isinstance(fields, Mapping) or "url" not in fields:
        raise ConfigurationError(
            f"sources[{name!r}] must be a URL, or a mapping with url, such as {_EXAMPLES}"
        )
    known = DatabaseSource.__struct_fields__
    for field in fields:
        if field not in known:
            hint = suggest_near(field, known) or f"; it has {', '.join(known)}"
            raise ConfigurationError(f"sources[{name!r}] has no field {field!r}{hint}")
    try:
        return DatabaseSource(**fields)
    except ConfigurationError as error:
        raise ConfigurationError(f"sources[{name!r}]: {error}") from None


_FILE: Final = re.compile(r"[\w./-]+\.(?:db3?|sqlite3?)")


def check_url(url: object, *, kinds: Sequence[str] = _KINDS, example: str = _EXAMPLES) -> None:
    """Refuse what is no URL of a database, or of none of the kinds.

    Raises:
        ConfigurationError: It is not; the message never holds its password.
    """
    if not isinstance(url, str) or not url.strip() or "\0" in url:
        raise ConfigurationError(f"url must be a text such as {example}")
    if url.startswith("${"):
        return
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found is not None else ""
    schemes = [name for name, kind in _SCHEMES.items() if f"{kind}:" in kinds]
    if scheme not in schemes:
        got = f"the scheme {scheme!r}{suggest_near(scheme, schemes)}" if scheme else "no scheme"
        if not scheme:
            # The name of a file holds no password, and may be shown.
            is_file = "sqlite" in schemes and _FILE.fullmatch(url) is not None
            got += f"; write sqlite:///{url}" if is_file else f"; write it as {example}"
        raise ConfigurationError(f"url must begin with {' or '.join(kinds)}, got {got}")
    if not url[len(scheme) :].startswith("://"):
        raise ConfigurationError(f"url must have :// behind its scheme, such as {example}")
    if _SCHEMES[scheme] == "sqlite":
        _check_path(url.partition("://")[2])


def _check_path(rest: str) -> None:
    if not rest.startswith("/") or rest == "/" or rest.startswith("/:memory:"):
        raise ConfigurationError(
            "url of a SQLite database must name its file: sqlite:///shop.db counts from the "
            "working directory, sqlite:////var/lib/shop.db is absolute"
        )
    if "?" in rest:
        raise ConfigurationError(
            "url of a SQLite database takes no options behind a '?'; the engine decides how the "
            "file is opened"
        )


def _show_url(url: str) -> str:
    """Return the URL without user, password and options, which may hold a password too."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return "[hidden]"
    place, question, _ = rest.partition("?") if "@" not in rest else _behind_user(rest)
    return f"{scheme}://{place}{'?[hidden]' if question else ''}"


def _behind_user(rest: str) -> tuple[str, str, str]:
    # A password may hold '@', '/' and '?', so the last '@' counts; an option that holds one costs
    # the reader of the text only the host.
    place, question, options = rest.rpartition("@")[2].partition("?")
    return f"[hidden]@{place}", question, options
