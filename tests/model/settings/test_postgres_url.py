"""All that decides about a connection is in the URL."""

from __future__ import annotations

import getpass
import re
import ssl
from pathlib import Path

import pytest

from tool_engine.model.settings.postgres_url import connect_arguments


def test_the_parts() -> None:
    """Each part is read and decoded; what is missing has the usual value."""
    arguments, mode = connect_arguments(
        "postgresql://u%40x:p%2Fw@db.example:5433/a%20b?sslmode=disable"
    )
    assert mode == "disable"
    assert arguments == {
        "host": "db.example",
        "port": 5433,
        "user": "u@x",
        "password": "p/w",
        "database": "a b",
        "ssl": False,
    }
    arguments, mode = connect_arguments("postgresql://")
    user = getpass.getuser()
    assert mode == "prefer"
    assert (arguments["host"], arguments["port"]) == ("localhost", 5432)
    assert (arguments["user"], arguments["database"], arguments["password"]) == (user, user, "")
    arguments, _ = connect_arguments("postgresql://u@/shop?host=/run/postgresql")
    assert (arguments["host"], arguments["ssl"]) == ("/run/postgresql", False)


@pytest.mark.parametrize(
    ("mode", "checks_host", "verifies"),
    [
        ("prefer", False, ssl.CERT_NONE),
        ("require", False, ssl.CERT_NONE),
        ("verify-ca", False, ssl.CERT_REQUIRED),
        ("verify-full", True, ssl.CERT_REQUIRED),
    ],
)
def test_encryption(mode: str, checks_host: bool, verifies: ssl.VerifyMode) -> None:
    """`sslmode` says what is verified, as it does elsewhere."""
    context = connect_arguments(f"postgresql://h/d?sslmode={mode}")[0]["ssl"]
    assert (context.check_hostname, context.verify_mode) == (checks_host, verifies)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("postgresql://h/d?sslmode=no", "sslmode must be one of disable, prefer, require"),
        ("postgresql://h/d?passfile=/x", "it has the option 'passfile'; known are host, sslmode"),
        ("postgresql://u:s3cret/word@h/d", "a character that a URL wants as %XX"),
        ("postgresql://h:port/d", "its port is no number"),
        ("postgresql://u:s3cret\u2100@h/d", "a character that a URL wants as %XX"),
        ("postgresql://u:s3cret@[::1/d", "a character that a URL wants as %XX"),
    ],
)
def test_what_is_not_understood(url: str, part: str) -> None:
    """It is refused with the reason; no password is in it."""
    with pytest.raises(ValueError, match=re.escape(part)) as caught:
        connect_arguments(url)
    assert "s3cret" not in str(caught.value)


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    """A file that the URL names must be there."""
    for option in ("sslrootcert", "sslcert"):
        with pytest.raises(FileNotFoundError):
            connect_arguments(f"postgresql://h/d?sslmode=verify-full&{option}={tmp_path}/x")
