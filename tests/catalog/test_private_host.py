"""Is a private host that a definition opens the same to `validate` and to a call?"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tool_engine.catalog.private_host import find_private_host
from tool_engine.executors.http.addresses import AddressRefusedError, AllowList


@pytest.mark.parametrize(
    ("url", "allow", "is_open"),
    [
        ("http://localhost:80/x", ["127.0.0.1:80"], True),
        ("http://localhost/x", ["[::1]:*"], True),
        ("http://a.localhost:80/", ["*.localhost:80"], True),
        ("http://localhost:80/x", ["LOCALHOST:80"], True),
        ("http://[::1]:80/", ["[0:0:0:0:0:0:0:1]:80"], True),
        ("http://10.0.0.5:80/", ["10.0.0.5:*"], True),
        ("http://localhost:80/x", ["127.0.0.1:81"], False),
        ("http://localhost:80/x", ["10.0.0.5:80"], False),
        ("http://127.0.0.1:80/x", ["localhost:80"], False),
        ("http://127.0.0.1:80/x", ["*.corp.example:80"], False),
        ("http://127.0.0.1:80/x", None, False),
    ],
)
def test_a_private_host_is_open_where_a_call_would_be(url: str, allow: Any, is_open: bool) -> None:
    """A warning that every call is refused is given where the executor refuses it."""
    entry = {"type": "http", "request": {"url": url}, **({"allow": allow} if allow else {})}
    assert (find_private_host(entry) == []) is is_open
    host, _, port = url.partition("://")[2].partition("/")[0].rpartition(":")
    name = (host or port).strip("[]")
    addresses = ["127.0.0.1", "::1"] if name.endswith("localhost") else [name]
    rules = AllowList.parse(allow or ())
    with contextlib.nullcontext() if is_open else pytest.raises(AddressRefusedError):
        rules.permitted(name, int(port) if host else 80, addresses)
