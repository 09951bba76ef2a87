"""The URL of a source becomes the place of a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.sql.sql_executor import resolve_source
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.redaction import redact_text

PASSWORD = "a@b/c:d?e#f%g h"
ENCODED = "a%40b%2Fc%3Ad%3Fe%23f%25g%20h"


def url_of(text: str) -> str:
    return resolve_source("shop", DatabaseSource(url=text))[0]


def test_secrets_are_filled_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before the `@` they are encoded, so that any password is one; behind it they are as is."""
    monkeypatch.setenv("SHOP_PW", PASSWORD)
    monkeypatch.setenv("SHOP_PLACE", "db.example:5433")
    (tmp_path / "pw").write_text(PASSWORD + "\n", encoding="utf-8")
    expected = f"postgresql://u:{ENCODED}@db.example:5433/shop"
    assert url_of("postgresql://u:${env:SHOP_PW}@${env:SHOP_PLACE}/shop") == expected
    file = f"postgresql://u:${{file:{tmp_path}/pw}}@db.example:5433/shop"
    assert url_of(file) == expected
    monkeypatch.setenv("SHOP_DATA", "/var/lib")
    assert url_of("sqlite:///${env:SHOP_DATA}/shop.db") == "sqlite:////var/lib/shop.db"
    monkeypatch.setenv("SHOP_URL", expected)
    assert url_of("${env:SHOP_URL}") == expected


def test_passwords_are_hidden_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As written, as sent and as an option; names and places are not."""
    monkeypatch.setenv("SHOP_PW", PASSWORD)
    _, scope = resolve_source(
        "shop", DatabaseSource(url="postgresql://u:${env:SHOP_PW}@localhost/shop")
    )
    assert scope.hide_text(f"{PASSWORD} {ENCODED} u localhost shop") == (
        "[hidden] [hidden] u localhost shop"
    )
    assert PASSWORD not in redact_text(f"it is {PASSWORD}")
    _, scope = resolve_source(
        "shop", DatabaseSource(url="postgresql://u:plain-word@h/s?password=other")
    )
    assert scope.hide_text("plain-word other") == "[hidden] [hidden]"
    _, scope = resolve_source("shop", DatabaseSource(url="sqlite:///shop.db"))
    assert scope.hide_text("shop.db") == "shop.db"


@pytest.mark.parametrize(
    ("url", "value", "part"),
    [
        ("${env:SHOP_X}", None, "the environment variable SHOP_X is not set; the engine's source"),
        ("sqlite:///${env:SHOP_X}/a", "", "SHOP_X is empty"),
        ("${env:SHOP_X}", "mysql://u:s3cret@h/d", "'shop': url must begin with sqlite: or"),
        ("${env:SHOP_X}", "s3cret", "got no scheme"),
        ("sqlite:///{name}.db", "", "takes the parameter 'name'"),
        ("sqlite:///${other:x}.db", "", "is not a placeholder"),
        ("sqlite:///${file:/does/not/exist}", "", "/does/not/exist"),
    ],
)
def test_what_is_no_url(
    monkeypatch: pytest.MonkeyPatch, url: str, value: str | None, part: str
) -> None:
    """The message says which source and what is missing, and holds no password."""
    if value is None:
        monkeypatch.delenv("SHOP_X", raising=False)
    else:
        monkeypatch.setenv("SHOP_X", value)
    with pytest.raises(ToolExecutionError) as caught:
        url_of(url)
    assert part in str(caught.value)
    assert "s3cret" not in str(caught.value)
