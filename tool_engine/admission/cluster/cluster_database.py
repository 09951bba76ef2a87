"""How do processes share one state in PostgreSQL, and hear when it changes?

The state is one row. Who has something to say works out the next state and writes it in its place,
unless another one was first; then it does so again with what that one wrote. No lock is held
between statements, and none of the rules stand in the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import asyncpg  # type: ignore[import-untyped]

from tool_engine.clock import read_uptime
from tool_engine.errors import ConfigurationError
from tool_engine.model.settings.postgres_url import FALLS_BACK, connect_arguments

PATIENCE: Final = 2.0
"""Seconds in which a statement must be answered, else the connection counts as lost."""
_OLDEST: Final = 120000
LONGEST_NOTE: Final = 7000
"""Bytes: a notification of PostgreSQL has at most 8,000."""
_NO_ENCRYPTION: Final = "rejected SSL upgrade"
"""asyncpg's message for a server without TLS."""
_LOCK: Final = 0x746F6F6C  # "tool", of the change of the schema
STEP, RESTART_STEP = 1, 1_000_000_000
"""What a version grows by. What a crash has forgotten must not come again under the same number: a
process that knew it would write what follows from it."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tool_cluster (
    name text PRIMARY KEY, version bigint NOT NULL, state bytea NOT NULL
) WITH (fillfactor = 20, toast_tuple_target = 8160);
-- What values of keys are hashed with, so that a reader of a hash cannot find one by trying.
CREATE TABLE IF NOT EXISTS tool_cluster_key (name text PRIMARY KEY, secret bytea NOT NULL);
-- Empty after a crash of the server; it tells of other starts by their time.
CREATE UNLOGGED TABLE IF NOT EXISTS tool_cluster_alive (
    name text PRIMARY KEY, started timestamptz NOT NULL
);
-- Statements in a function see what others wrote while it waited; one statement does not.
CREATE OR REPLACE FUNCTION tool_cluster_swap(
    its_name text, known bigint, new_state bytea, channels text[], notes text[], durable boolean,
    restarts boolean, OUT is_done boolean, OUT has_crashed boolean, OUT version bigint,
    OUT state bytea, OUT clock double precision
) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT durable THEN SET LOCAL synchronous_commit = off; END IF;
    has_crashed := NOT EXISTS (SELECT FROM tool_cluster_alive a WHERE a.name = its_name
        AND a.started = pg_postmaster_start_time());
    is_done := false;
    IF restarts OR NOT has_crashed THEN
        version := known + CASE WHEN restarts THEN $RESTART_STEP ELSE $STEP END;
        UPDATE tool_cluster c SET version = tool_cluster_swap.version, state = new_state
            WHERE c.name = its_name AND c.version = known;
        is_done := FOUND;
    END IF;
    IF is_done THEN
        IF restarts THEN
            INSERT INTO tool_cluster_alive VALUES (its_name, pg_postmaster_start_time())
                ON CONFLICT (name) DO UPDATE SET started = excluded.started;
        END IF;
        FOR i IN 1 .. coalesce(array_length(channels, 1), 0) LOOP
            PERFORM pg_notify(channels[i], notes[i]);
        END LOOP;
    ELSE
        -- In one statement: another one may have taken note of the crash since the look above.
        SELECT c.version, c.state, NOT EXISTS (SELECT FROM tool_cluster_alive
                WHERE name = c.name AND started = pg_postmaster_start_time())
            INTO version, state, has_crashed FROM tool_cluster c WHERE c.name = its_name;
    END IF;
    clock := extract(epoch FROM clock_timestamp());
END $$;
""".replace("$RESTART_STEP", str(RESTART_STEP)).replace("$STEP", str(STEP))
_MAY_CREATE: Final = (
    # Only who owns a function may put another one in its place.
    "SELECT has_schema_privilege(current_schema(), 'CREATE') AND NOT EXISTS (SELECT FROM pg_proc"
    " WHERE oid = to_regproc('tool_cluster_swap') AND NOT pg_has_role(proowner, 'USAGE'))"
)
_IS_THERE: Final = (
    "SELECT to_regclass('tool_cluster') IS NOT NULL AND to_regclass('tool_cluster_key') IS NOT NULL"
    " AND to_regclass('tool_cluster_alive') IS NOT NULL"
    " AND to_regproc('tool_cluster_swap') IS NOT NULL"
)
_OTHERS: Final = (
    "SELECT string_agg(DISTINCT own.tab, ', ') FROM (VALUES"
    " ('tool_cluster', 'name', 'text'), ('tool_cluster', 'version', 'bigint'),"
    " ('tool_cluster', 'state', 'bytea'),"
    " ('tool_cluster_key', 'name', 'text'), ('tool_cluster_key', 'secret', 'bytea'),"
    " ('tool_cluster_alive', 'name', 'text'), ('tool_cluster_alive', 'started', 'timestamptz')"
    ") AS own (tab, col, kind) LEFT JOIN pg_attribute found ON found.attname = own.col"
    " AND found.attrelid = to_regclass(own.tab) AND NOT found.attisdropped"
    " WHERE found.atttypid IS DISTINCT FROM own.kind::regtype"
)
_SETTLE: Final = (
    # What an operator may have set for all programs: a statement that sees nothing of what others
    # wrote since its transaction began, a commit that never waits for the disk, an end of sessions
    # that only listen. Older servers do not know each of them.
    "SELECT set_config(own.name, own.value, false) FROM (VALUES"
    " ('default_transaction_isolation', 'read committed', NULL),"
    " ('idle_session_timeout', '0', NULL),"
    " ('synchronous_commit', 'on', 'off')) AS own (name, value, wrong)"
    " WHERE current_setting(own.name, true) = coalesce(own.wrong, current_setting(own.name, true))"
)
_SWAP: Final = "SELECT * FROM tool_cluster_swap($1, $2, $3, $4, $5, $6, $7)"
_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
_PUT_KEY: Final = "INSERT INTO tool_cluster_key VALUES ($1, $2) ON CONFLICT DO NOTHING"
_READ_KEY: Final = "SELECT secret FROM tool_cluster_key WHERE name = $1"
_CREATE: Final = (
    # A version that none had before, where a row was removed.
    "INSERT INTO tool_cluster VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint,"
    " $2) ON CONFLICT DO NOTHING"
)
_READ: Final = (
    # Of a state that is known only that it is.
    "SELECT version, CASE WHEN version = $2 THEN '' ELSE state END AS state,"
    " extract(epoch FROM clock_timestamp())::float8 AS clock,"
    " EXISTS (SELECT FROM tool_cluster_alive a WHERE a.name = $1"
    " AND a.started = pg_postmaster_start_time()) AS is_alive"
    " FROM tool_cluster WHERE name = $1"
)
_SESSIONS: Final = (
    "SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What a statement raises that may have been carried out or not."""
_WARNINGS: Final = (
    asyncpg.AdminShutdownError.sqlstate,
    asyncpg.CrashShutdownError.sqlstate,
)
"""What a server says to each session as it goes down at once, or as another one has crashed it. To
a session that is ended alone it says so as an error."""
_FORBIDDEN: Final = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.SyntaxOrAccessError,
    asyncpg.InvalidSQLStatementNameError,
)
"""What the server says that waiting does not change."""
_SHARED: Final = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""What it says where a statement was prepared in another session."""
_POOLED: Final = "statement pooling mode"
"""What pgbouncer says in that mode as it ends a connection that begins a transaction."""
_REMOVED: Final = (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError)
"""What it says where an operator has removed what coordinates."""
_ROUNDS: Final = 4
"""Looks for a pooler: of one look that others disturb, nothing may be seen."""


class Found(NamedTuple):
    """The state that stands in the database.

    Args:
        version: How often it was written.
        state: Its bytes.
        has_crashed: The server has, or was started anew, and no process has noted it yet.
        offset: What the database's clock says at least beyond this machine's uptime, in seconds.
        doubt: By how much it may say more.
    """

    version: int
    state: bytes
    has_crashed: bool
    offset: float
    doubt: float = 0.0


class ClusterConnection:
    """The one connection of a process: statements one after another, notifications, a session.

    Args:
        url: The database, or what finds its URL, which may block.
        name: The cluster.
        on_note: Hears each notification.
        on_end: Hears once that the connection has ended.
    """

    def __init__(
        self,
        url: str | Callable[[], str],
        name: str,
        on_note: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        self._url, self._name = url, name
        self._on_note, self._on_end = on_note, on_end
        self._connection: Any = None
        self._prepared: dict[str, tuple[Any, Any]] = {}
        """Statements, each with the connection that it was prepared on."""
        self._turn = asyncio.Lock()
        self._echo: asyncio.Future[None] | None = None
        self._is_checked = False
        self.is_listening = False
        """Whether notifications are heard. PostgreSQL wakes all sessions that do, for each one."""
        self.was_warned = False
        """Whether the server has said that it ends all sessions, not this one alone."""
        self.was_answered = False
        """Whether the server has done what was said in it."""
        self.secret: bytes | None = None
        """What all processes hash values of keys with; None: it was never connected."""
        self.offset = self.doubt = 0.0
        """Of the newest answer: as in `Found`."""

    async def open(self, life: str, make_state: Callable[[float | None], bytes]) -> None:
        """Connect, with a session that shows that a life goes on.

        Args:
            life: The life.
            make_state: Returns what is written where nothing stands. It gets the time on the
                database's clock if something stood there before, else None.

        Raises:
            ConfigurationError: The database cannot coordinate: it is too old, only to be read, or
                there is a pooler in between that shares sessions.
            OSError: It cannot be reached, or says something else; try again.
        """
        try:
            self._connection = connection = await _open_session(self._url)
        except _FORBIDDEN as error:
            raise _say_forbidden(error) from error
        try:
            if not self._is_checked and await _is_shared(connection, self._url):
                raise _say_shared()
            await connection.execute(_SETTLE, timeout=PATIENCE)  # now that its session is its own
            if not self._is_checked:
                await self._prepare_database(connection, make_state)
            self.was_warned = False
            connection.add_log_listener(self._hear_warning)
            connection.add_termination_listener(self._hear_end)
            lock = f"SELECT pg_advisory_lock_shared({lock_of(life)})"
            await connection.execute(lock, timeout=PATIENCE)
            await self.listen(life, is_needed=True)
            if not self._is_checked:
                await self._check_session(connection, life)
            # Who comes back has little time for it.
            self._is_checked = True
        except BaseException as error:
            self.abort()
            if isinstance(error, _FORBIDDEN) or _POOLED in str(error):
                raise _say_forbidden(error) from error
            raise

    async def listen(self, life: str, *, is_needed: bool) -> None:
        """Hear what a life is notified of, or hear it no more."""
        async with self._turn, asyncio.timeout(PATIENCE):
            connection, channel = self._open_connection, channel_of(life)
            if is_needed:
                await connection.add_listener(channel, self._hear_note)
            else:
                await connection.remove_listener(channel, self._hear_note)
            self.is_listening = is_needed

    async def connect(self) -> None:
        """Connect without a session of a life: only `read` and `swap` can be used.

        Raises:
            ConfigurationError: The URL cannot be used.
            OSError: It cannot be reached, or says something else.
        """
        self._connection = await _open_session(self._url)
        await self._connection.execute(_SETTLE, timeout=PATIENCE)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, as far as it is known."""
        return self._connection is not None

    @property
    def _open_connection(self) -> Any:
        if self._connection is None:
            raise ConnectionResetError("the connection of the cluster has ended")
        return self._connection

    async def _fetch_row(self, sql: str, *values: Any) -> Any:
        """Return the row of a statement that a connection prepares once."""
        connection = self._open_connection
        try:
            if self._prepared.get(sql, (None,))[0] is not connection:
                statement = await connection.prepare(sql, timeout=PATIENCE)
                self._prepared[sql] = connection, statement
            return await self._prepared[sql][1].fetchrow(*values, timeout=PATIENCE)
        except _REMOVED as error:
            raise self._note_removal() from error
        except _SHARED as error:
            self._is_checked = False  # the next connection looks for a pooler again
            raise _say_shared() from error

    async def read(self, known: int = -1) -> Found:
        """Return the state; of the version that is `known`, without its bytes."""
        async with self._turn:
            asked = read_uptime()
            row = await self._fetch_row(_READ, self._name, known)
        if row is None:
            raise self._note_removal()
        found = _make_found(row, asked)
        self.offset, self.doubt = found.offset, found.doubt
        return found

    async def swap(
        self,
        known: int,
        state: bytes,
        notes: Iterable[tuple[str, str]],
        *,
        is_durable: bool,
        restarts: bool,
    ) -> Found | None:
        """Write the next state in the place of one that is known; None: done.

        Args:
            known: The version of that one.
            state: The next one.
            notes: Who hears what: a life and a text.
            is_durable: Whether it must be on disk.
            restarts: Whether it takes note of a crash or another start of the server.

        Returns:
            What stands there, where it is another version, or none has taken note of a crash.
        """
        channels, texts = [], []
        for life, text in notes:
            channels.append(channel_of(life))
            texts.append(text if len(text.encode()) <= LONGEST_NOTE else "")
        async with self._turn:
            asked = read_uptime()
            row = await self._fetch_row(
                _SWAP, self._name, known, state, channels, texts, is_durable, restarts
            )
        self.offset, self.doubt = _read_clock(row["clock"], asked)
        if row["is_done"]:
            return None
        if row["state"] is None:
            raise self._note_removal()
        clock = self.offset, self.doubt
        return Found(row["version"], row["state"], row["has_crashed"], *clock)

    def _note_removal(self) -> ConnectionResetError:
        """Have the state made anew with the next connection; return what ends this one."""
        self._is_checked = False
        return ConnectionResetError("the state of the cluster was removed from its database")

    async def list_sessions(self, lives: Iterable[str]) -> frozenset[str]:
        """Return which lives have a session."""
        async with self._turn:
            rows = await self._open_connection.fetch(_SESSIONS, timeout=PATIENCE)
        held = {(row[0] << 32) | row[1] for row in rows}
        return frozenset(life for life in lives if lock_of(life) & 0xFFFF_FFFF_FFFF_FFFF in held)

    def abort(self) -> None:
        """End the connection at once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.remove_termination_listener(self._hear_end)
            connection.terminate()

    async def _prepare_database(
        self, connection: Any, make_state: Callable[[float | None], bytes]
    ) -> None:
        """See whether the database can coordinate, and make what is missing in it."""
        row = await connection.fetchrow(
            "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),"
            " current_setting('default_transaction_read_only') = 'on'",
            timeout=PATIENCE,
        )
        if row[0] < _OLDEST:
            raise ConfigurationError(
                f"a cluster needs PostgreSQL {_OLDEST // 10000} or newer, and its server is "
                f"{row[0] // 10000}; upgrade it, or give the URL of a newer one"
            )
        if row[1] or row[2]:
            raise ConfigurationError(
                "the database of the cluster can only be read; give the URL of the primary server"
            )
        # Not its `transaction()`: where the connection ends, that says no more than this.
        async with asyncio.timeout(PATIENCE):
            await connection.execute("BEGIN")
            await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
            if await connection.fetchval(_MAY_CREATE) or not await connection.fetchval(_IS_THERE):
                await connection.execute(_SCHEMA)
            if others := await connection.fetchval(_OTHERS):
                raise ConfigurationError(
                    f"another program has tables of the same names in the cluster's database "
                    f"({others}); give the URL of a database of its own, or remove them"
                )
            known = await connection.fetchval(_READ_KEY, self._name)
            is_first = known is None and self.secret is None
            now = None if is_first else await connection.fetchval(_CLOCK)
            await connection.execute(_CREATE, self._name, make_state(now))
            # Where the tables were removed, keys go on bearing the names that calls know.
            secret = self.secret or secrets.token_bytes(16)
            await connection.execute(_PUT_KEY, self._name, secret)
            self.secret = await connection.fetchval(_READ_KEY, self._name)
            await connection.execute("COMMIT")

    async def _check_session(self, connection: Any, life: str) -> None:
        """See that what one statement leaves in the session is there for the next ones."""
        self._echo = asyncio.get_running_loop().create_future()
        await connection.execute(
            f"SELECT pg_notify('{channel_of(life)}', 'echo')", timeout=PATIENCE
        )
        try:
            async with asyncio.timeout(PATIENCE):
                await self._echo
        except TimeoutError:
            raise _say_shared() from None

    def _hear_note(self, _connection: Any, _pid: int, _channel: str, text: str) -> None:
        if text == "echo":
            if self._echo is not None and not self._echo.done():
                self._echo.set_result(None)
        else:
            self._on_note(text)

    def _hear_warning(self, _connection: Any, message: Any) -> None:
        self.was_warned |= message.sqlstate in _WARNINGS

    def _hear_end(self, connection: Any) -> None:
        if connection is self._connection:  # else it is heard late, and there is another one
            self._connection = None
            self._on_end()


async def read_state(url: str | Callable[[], str], name: str) -> Found | None:
    """Read a state, without taking part in its cluster; None: there is none.

    Raises:
        ConfigurationError: The URL cannot be used.
        OSError: The database cannot be reached, or says something else.
    """
    connection = None
    try:
        connection = await _open_session(url)
        asked = read_uptime()
        row = await connection.fetchrow(_READ, name, -1, timeout=PATIENCE)
    except asyncpg.UndefinedTableError:
        return None
    except _FORBIDDEN as error:
        raise _say_forbidden(error) from error
    finally:
        if connection is not None:
            connection.terminate()
    return None if row is None else _make_found(row, asked)


def _make_found(row: Any, asked: float) -> Found:
    clock = _read_clock(row["clock"], asked)
    return Found(row["version"], row["state"], not row["is_alive"], *clock)


def _read_clock(said: float, asked: float) -> tuple[float, float]:
    """Return `Found.offset` and `Found.doubt`: when the server looked is not known better."""
    answered = read_uptime()
    return said - answered, answered - asked


async def _open_session(url: str | Callable[[], str]) -> Any:
    arguments, mode = await asyncio.to_thread(_read_url, url)
    try:
        return await asyncpg.connect(**arguments, timeout=PATIENCE)
    except ConnectionError as error:
        if mode != FALLS_BACK or _NO_ENCRYPTION not in str(error):
            raise
    return await asyncpg.connect(**{**arguments, "ssl": False}, timeout=PATIENCE)


def _say_forbidden(error: BaseException) -> ConfigurationError:
    said = str(error).partition("\n")[0]
    if isinstance(error, _SHARED) or _POOLED in str(error):
        return _say_shared()
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return ConfigurationError(
            f"the server of the cluster's database lets this user not connect ({said}); correct "
            "the user and the password of its URL, or let this user connect"
        )
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return ConfigurationError(
            f"the database of the cluster is not there ({said}); create it, or correct its name in "
            "the URL"
        )
    return ConfigurationError(
        f"the server of the cluster's database refuses this process ({said}); give the user the "
        "right to create tables in the schema, and to use those that are there"
    )


def _say_shared() -> ConfigurationError:
    return ConfigurationError(
        "sessions of the cluster's database are shared: there is a pooler in between in its "
        "transaction or statement mode; give the URL of the server itself, or of a pool in session "
        "mode"
    )


async def _is_shared(connection: Any, url: str | Callable[[], str]) -> bool:
    """Return whether a pooler gives the server's session of a connection to others, too."""
    ask = "SELECT pg_backend_pid()"
    pid = await connection.fetchval(ask, timeout=PATIENCE)
    if pid == connection.get_server_pid():
        return False  # it speaks with the server itself
    # Between two statements another connection is given the session, or this one another session.
    other = await _open_session(url)
    try:
        async with asyncio.timeout(PATIENCE):
            for _ in range(_ROUNDS):
                # In no transaction: many that hold one each would leave no session to look at.
                found = [await other.fetchval(ask), await connection.fetchval(ask)]
                if found[0] == pid or found[1] != pid:
                    return True
        return False
    except _SHARED:
        return True
    finally:
        other.terminate()


def _read_url(url: str | Callable[[], str]) -> tuple[dict[str, Any], str]:
    try:
        return connect_arguments(url() if callable(url) else url)
    except (ValueError, OSError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"the URL of the cluster cannot be used: {error}") from None


def new_life() -> str:
    """Return a name that no life ever had."""
    return secrets.token_hex(8)


def channel_of(life: str) -> str:
    """Return where a life hears notifications."""
    return f"tool_cluster_{life}"


def lock_of(life: str) -> int:
    """Return the number of the lock that the session of a life holds."""
    return int.from_bytes(hashlib.sha256(life.encode()).digest()[:8], signed=True)


def is_refusal(error: BaseException) -> bool:
    """Return whether a server says itself that it takes no connection: it starts, or stops.

    The end of one that is being made is no such thing, for an operator may end each of one process.
    """
    return isinstance(error, asyncpg.CannotConnectNowError)
