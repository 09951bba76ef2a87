"""The URL of the records: what it says, and that its password is told to nobody."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.knowledge.sql.connection.address import Address, explain_error
from tool_engine.knowledge.sql.database_errors import UnusableDatabaseError
from tool_engine.knowledge.sql.writing.postgres import Server
from tool_engine.redaction import redact_text


def test_sqlite() -> None:
    """Three slashes count from the working directory, four are absolute; %XX is decoded."""
    assert Address.of("sqlite:///kept/calls.db").place == str(Path("kept/calls.db").absolute())
    assert Address.of("sqlite:////var/my%20calls.db").place == "/var/my calls.db"
    assert Address.of("sqlite+aiosqlite:////a.db").kind == "sqlite"
    assert repr(Address.of("sqlite:////a.db")) == "<Address sqlite /a.db>"


def test_postgresql() -> None:
    """The usual names of the scheme mean the same; the password is hidden from then on."""
    for scheme in ("postgresql", "postgres", "postgresql+asyncpg"):
        address = Address.of(f"{scheme}://ann:canary-address@db:5433/calls?sslmode=disable")
        assert address.place == "postgresql://ann:canary-address@db:5433/calls?sslmode=disable"
    assert repr(address) == "<Address postgresql db:5433/calls>"
    assert "canary-address" not in redact_text("refused canary-address")
    assert explain_error(OSError("no canary-address\nhere")) == "OSError: no [hidden] here"


def test_password_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the URL may hold what a URL may not."""
    monkeypatch.setenv("RECORDS_PASSWORD", "p@ss/w?rd#1")
    address = Address.of("postgresql://ann:${env:RECORDS_PASSWORD}@db/calls")
    (first, _) = Server.of(address.place).tries
    assert (first["user"], first["password"], first["host"], first["port"]) == (
        "ann",
        "p@ss/w?rd#1",
        "db",
        5432,
    )


def test_secret_that_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a secret says is checked when it is known, and not told."""
    monkeypatch.setenv("RECORDS_URL", "canary-no-url")
    with pytest.raises(ConfigurationError, match="records: url must begin with") as caught:
        Address.of("${env:RECORDS_URL}")
    assert "canary-no-url" not in str(caught.value)
    monkeypatch.setenv("RECORDS_URL", "${env:RECORDS_URL}")
    with pytest.raises(ConfigurationError, match="the secret is no URL of a database"):
        Address.of("${env:RECORDS_URL}")


def test_encryption() -> None:
    """`prefer` tries both ways; every other mode has one."""
    encrypted, plain = Server.of("postgresql://db/calls").tries
    assert encrypted["ssl"].verify_mode is ssl.CERT_NONE
    assert plain["ssl"] is False
    (disabled,) = Server.of("postgresql://db/calls?sslmode=disable").tries
    assert disabled["ssl"] is False
    (full,) = Server.of("postgresql://db/calls?sslmode=verify-full").tries
    assert full["ssl"].check_hostname
    (socket,) = Server.of("postgresql:///calls?host=/run/postgresql").tries
    assert (socket["host"], socket["ssl"]) == ("/run/postgresql", False)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ann:canary-server@db:port/calls", "the URL is not understood"),
        ("postgresql://ann:canary-server\u2100@db/calls", "the URL is not understood"),
        ("postgresql://ann:canary-server@db/calls?sslmode=maybe", "sslmode must be one of"),
        ("postgresql://ann:canary-server@db/calls?password=x", "it has the option 'password'"),
        ("postgresql://ann:canary-server@db/x?sslmode=require&sslrootcert=/no", "sslkey: No such"),
    ],
)
def test_what_is_not_understood(url: str, message: str) -> None:
    """An option that is not known is refused, never ignored; no password is in the message."""
    with pytest.raises(UnusableDatabaseError, match=message) as caught:
        Server.of(url)
    assert "canary-server" not in str(caught.value)
