"""How is a SQL tool run so that a hostile parameter stays a value?

The definition holds the whole statement; a call gives values, which go to the database separately.
The database enforces what a tool may do: see `sqlite` and `postgres`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import msgspec

from tool_engine.errors import ConfigurationError, MissingExtraError, ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.secrets import SecretScope, read_secret_file
from tool_engine.executors.sql.sql_entry import (
    SQLPlan,
    compile_entry,
    is_order,
    unknown_source,
)
from tool_engine.executors.sql.watch import Watch
from tool_engine.executors.templates import (
    ParameterPart,
    Part,
    TemplateError,
    TextTemplate,
)
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.model.tool import Tool


class Database(Protocol):
    """One source for reading or for writing, which runs statements."""

    mark: str
    """The quote of identifiers."""

    async def run(
        self, plan: SQLPlan, params: Mapping[str, Any], chosen: Mapping[str, str], watch: Watch
    ) -> dict[str, Any]:
        """Run the statement of `plan` in one transaction."""

    async def close(self) -> None:
        """Close every connection."""


_KINDS: Final = {
    "sqlite": ("tool_engine.executors.sql.sqlite", "SQLiteDatabase", "sql"),
    "postgresql": ("tool_engine.executors.sql.postgres", "PostgreSQLDatabase", "postgres"),
}
"""Kind of database -> its module, its class there, and the extra that it needs."""

_NUL: Final = b"\\u0000"
_Key = tuple[asyncio.AbstractEventLoop, str, bool]


class _Opened:
    def __init__(self, database: Database, secrets: SecretScope) -> None:
        self.database = database
        self.secrets = secrets


class SQLExecutor:
    def __init__(self, sources: Mapping[str, DatabaseSource] | None = None) -> None:
        self._sources = dict(sources or {})
        self._plans = CompiledEntries(compile_entry)
        # Separate for reading and writing: a connection that may write runs no reading tool.
        self._opened: dict[_Key, _Opened] = {}
        self._opening: dict[_Key, asyncio.Lock] = {}

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Run the statement with the values of the call, in its own transaction.

        Returns:
            For a statement that returns rows `{"columns", "rows", "row_count", "is_complete"}`,
            with a `note` about what was cut where it is not complete; each row maps columns to
            values. For another one `{"row_count"}`: how many rows it wrote.

        Raises:
            ToolExecutionError: The source is not there, the database refused the statement, or a
                value does not fit.
            TimeoutError: It did not end in time; the database has ended it.
            MissingExtraError: The libraries for the database are not installed.
        """
        plan = self._plans.of(tool)
        watch = Watch(context)
        _check_texts(params)
        opened = await self._open_database(plan)
        try:
            chosen = {
                name: _quote_choice(name, params.get(name), choices, opened.database.mark)
                for name, choices in plan.choices.items()
            }
            output = await opened.database.run(plan, params, chosen, watch)
        except (ToolExecutionError, TimeoutError) as error:
            raise type(error)(opened.secrets.hide_text(str(error))) from None
        return opened.secrets.hide(output)  # type: ignore[no-any-return]

    async def close(self) -> None:
        opened, self._opened, self._opening = self._opened, {}, {}
        running = asyncio.get_running_loop()
        for (loop, _, _), each in opened.items():
            if loop is running:
                await each.database.close()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(each.database.close(), loop)
                await asyncio.wrap_future(closing)

    async def _open_database(self, plan: SQLPlan) -> _Opened:
        key = (asyncio.get_running_loop(), plan.source, plan.is_readonly)
        known = self._opened.get(key)
        if known is not None:
            return known
        source = self._find_source(plan)
        async with self._opening.setdefault(key, asyncio.Lock()):
            if key not in self._opened:
                self._opened[key] = await asyncio.to_thread(_make_opened, plan, source)
            return self._opened[key]

    def _find_source(self, plan: SQLPlan) -> DatabaseSource:
        source = self._sources.get(plan.source)
        if source is None:
            raise ToolExecutionError(unknown_source(plan.source, self._sources))
        if source.readonly and not plan.is_readonly:
            raise ToolExecutionError(
                f"the tool writes, and the engine's source {plan.source!r} is read-only"
            )
        return source


def _make_opened(plan: SQLPlan, source: DatabaseSource) -> _Opened:
    url, secrets = resolve_source(plan.source, source)
    kind = DatabaseSource(url=url).kind
    module, name, extra = _KINDS[str(kind)]
    try:
        made = getattr(import_module(module), name)
    except ImportError as error:
        raise MissingExtraError(
            f"the source {plan.source!r} is a {kind} database, which needs {error.name}: "
            f"pip install 'tool-engine[{extra}]'"
        ) from error
    try:
        database = made(plan.source, url, is_readonly=plan.is_readonly, pool_size=source.pool_size)
    except (ValueError, OSError) as error:
        reason = secrets.hide_text(str(error))
        raise ToolExecutionError(f"the engine's source {plan.source!r}: {reason}") from None
    return _Opened(database, secrets)


def _check_texts(params: Mapping[str, Any]) -> None:
    """Refuse texts that a database would read differently, or not at all."""
    try:
        text = msgspec.json.encode(params)
    except UnicodeEncodeError:
        raise ToolExecutionError(
            "a text holds half a character (a lone surrogate), which no database takes; send it "
            "whole"
        ) from None
    # SQLite's functions read a text up to its first NUL: `lamp\0x` would be `lamp`.
    if _NUL in text and any(_has_nul(value) for value in params.values()):
        raise ToolExecutionError("a text holds a NUL character; send it without")


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def _quote_choice(name: str, value: Any, choices: frozenset[str], mark: str) -> str:
    """Quote an identifier; checked here too, because only this protects the text."""
    if not isinstance(value, str) or value not in choices:
        raise ToolExecutionError(
            f"parameter {name!r} must be one of {', '.join(sorted(choices))}, got {value!r:.80}"
        )
    return value if is_order(choices) else f"{mark}{value}{mark}"


def resolve_source(name: str, source: DatabaseSource) -> tuple[str, SecretScope]:
    """Return the source's URL with its secrets, and their scope. Blocks.

    A URL that is one secret is used unchanged. Elsewhere a secret before the last `@` is a user or
    a password, and is percent-encoded.

    Raises:
        ToolExecutionError: A variable is not set, a file cannot be read, or the result is no URL of
            a database. The message never holds a password.
    """
    scope = SecretScope()
    try:
        parts = TextTemplate.parse(source.url).parts
        url = _fill_parts(parts, name)
        # Checked again: the value of a URL that is one secret is known only now.
        found = DatabaseSource(url=url)
    except (TemplateError, ConfigurationError) as error:
        raise ToolExecutionError(f"the engine's source {name!r}: {error}") from None
    for secret in _find_passwords(url):
        scope.hide_value(secret)
    return found.url, scope


def _fill_parts(parts: Iterable[Part], name: str) -> str:
    parts = tuple(parts)
    if len(parts) == 1:
        return _resolve_part(parts[0], name)
    last = max((at for at, part in enumerate(parts) if "@" in str(_literal_of(part))), default=-1)
    return "".join(
        text if isinstance(part, str) or at > last else quote(text, safe="")
        for at, (part, text) in enumerate((part, _resolve_part(part, name)) for part in parts)
    )


def _literal_of(part: Part) -> str:
    return part if isinstance(part, str) else ""


def _resolve_part(part: Part, name: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, ParameterPart):
        raise TemplateError(f"takes the parameter {part.name!r}; a call does not choose a database")
    if part.source == "file":
        return read_secret_file(part.name)
    value = os.environ.get(part.name)
    if not value:
        state = "is not set" if value is None else "is empty"
        raise ToolExecutionError(
            f"the environment variable {part.name} {state}; the engine's source {name!r} needs it: "
            "set it before the engine starts"
        )
    return value


def _find_passwords(url: str) -> Iterable[str]:
    """Return a URL's password, as written and as sent."""
    user, mark, _ = url.partition("://")[2].rpartition("@")
    password = user.partition(":")[2]
    if mark and password:
        yield from {password, unquote(password)}
    for option in url.partition("?")[2].split("&"):
        key, _, value = option.partition("=")
        if "password" in key and value:
            yield from {value, unquote(value)}
