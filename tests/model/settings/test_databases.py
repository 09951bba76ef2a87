"""Databases are named once, and their passwords are shown nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.config import ToolEngineConfig
from tool_engine.errors import ConfigurationError
from tool_engine.model.settings.cluster import ClusterURL
from tool_engine.model.settings.databases import DatabaseSource, checked_sources


def test_forms_of_a_source() -> None:
    """A URL, a mapping and a `DatabaseSource` say the same."""
    given: dict[str, DatabaseSource | dict[str, Any] | str] = {
        "a": "sqlite:///shop.db",
        "b": {"url": "postgresql://h/d", "readonly": True, "pool_size": 2},
        "c": DatabaseSource(url="postgres://h/d"),
        "d": "postgresql+asyncpg://h/d",
        "e": "${env:SHOP}",
    }
    sources = checked_sources(ToolEngineConfig(sources=given).sources)
    assert sources == ToolEngineConfig(sources=given).sources
    assert ToolEngineConfig(sources={"a": "sqlite:///shop.db"}).sources == {"a": sources["a"]}
    assert sources["a"] == DatabaseSource(url="sqlite:///shop.db", readonly=False, pool_size=5)
    assert (sources["b"].readonly, sources["b"].pool_size) == (True, 2)
    kinds = [source.kind for source in sources.values()]
    assert kinds == ["sqlite", "postgresql", "postgresql", "postgresql", None]
    assert ToolEngineConfig().sources == {}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:s3cret@h:1/d", "postgresql://[hidden]@h:1/d"),
        ("postgresql://u:s3cret@x/s3cret@h/d", "postgresql://[hidden]@h/d"),
        ("postgresql://u:s3cret?x@h/d?password=s3cret", "postgresql://[hidden]@h/d?[hidden]"),
        ("postgresql://h/d?password=s3cret", "postgresql://h/d?[hidden]"),
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("${env:SHOP}", "[hidden]"),
    ],
)
def test_what_is_shown(url: str, shown: str) -> None:
    """Neither the repr of a source nor that of a configuration holds its password."""
    source = DatabaseSource(url=url)
    assert repr(source) == f"DatabaseSource(url={shown!r}, readonly=False, pool_size=5)"
    assert dict(source.__rich_repr__())["url"] == shown
    assert "s3cret" not in repr(ToolEngineConfig(sources={"shop": source}))


@pytest.mark.parametrize(
    ("sources", "part"),
    [
        ("sqlite:///a.db", "sources must map names to databases"),
        ({"": "sqlite:///a.db"}, "a name in sources must be a non-empty string, got ''"),
        ({1: "sqlite:///a.db"}, "got 1"),
        ({"shop": 5}, "sources['shop'] must be a URL, or a mapping with url"),
        ({"shop": {"readonly": True}}, "a mapping with url"),
        ({"shop": {"url": "sqlite:///a", "readonl": True}}, "did you mean 'readonly'?"),
        ({"shop": {"url": "sqlite:///a", "zzz": True}}, "it has url, readonly, pool_size"),
        ({"shop": ""}, "sources['shop']: url must be a text such as sqlite:///shop.db or"),
        ({"shop": {"url": 5}}, "url must be a text"),
        ({"shop": "shop.db"}, "url must begin with sqlite: or postgresql:, got no scheme"),
        ({"shop": "mysql://u:s3cret@h/d"}, "got the scheme 'mysql'"),
        ({"shop": "postgrsql://u:s3cret@h/d"}, "did you mean 'postgresql'?"),
        ({"shop": "postgresql:u:s3cret@h/d"}, "url must have :// behind its scheme"),
        ({"shop": "sqlite://"}, "must name its file"),
        ({"shop": "sqlite:///"}, "must name its file"),
        ({"shop": "sqlite://shop.db"}, "must name its file"),
        ({"shop": "sqlite:///:memory:"}, "must name its file"),
        ({"shop": "sqlite:///a.db?mode=rwc"}, "takes no options behind a '?'"),
        ({"shop": {"url": "sqlite:///a", "readonly": "no"}}, "readonly must be true or false"),
        ({"shop": {"url": "sqlite:///a", "pool_size": 0}}, "pool_size must be a whole number from"),
        ({"shop": {"url": "sqlite:///a", "pool_size": 10**6}}, "from 1 to 1000, got 1000000"),
    ],
)
def test_what_is_no_source(sources: Any, part: str) -> None:
    """The message names the source, the value and what is allowed, and holds no password."""
    with pytest.raises(ConfigurationError) as caught:
        checked_sources(sources)
    assert part in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["foo", "foo://", "sqlite:///x.db", "postgrs://h/d", "", None])
def test_url_of_a_cluster(url: object) -> None:
    """It is offered no database that a cluster refuses."""
    with pytest.raises(ConfigurationError, match="postgresql:") as raised:
        ClusterURL(url)
    assert "sqlite:" not in str(raised.value)
