"""A real PostgreSQL server for tests: one per test run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests import postgres_server as servers
from tests.postgres_server import NoServerError, PostgresServer

__all__ = ["PostgresServer", "postgres_server", "running_server"]


@contextmanager
def running_server(*, waits_for_disk: bool = False) -> Iterator[PostgresServer]:
    """Starts a server; where none is installed, the test is skipped."""
    with ExitStack() as stack:
        try:
            running = servers.running_server(waits_for_disk=waits_for_disk)
            server = stack.enter_context(running)
        except NoServerError as error:
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this test run; the tests that use it make their own databases or tables."""
    with running_server() as server:
        yield server
