"""Under which names is a server reached?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ConfigurationError, ToolEngine
from tool_engine.access.hosts import Hosts
from tool_engine.access.problem import Problem
from tool_engine.server import create_app

ALLOWED = ["tools.example", "other.example:8930", "[2001:db8::1]"]


@pytest.mark.parametrize(
    ("host", "is_taken"),
    [
        ("tools.example", True),
        ("Tools.Example:443", True),
        ("other.example:8930", True),
        ("other.example", False),
        ("other.example:80", False),
        ("[2001:db8::1]:80", True),
        ("[2001:db8::2]", False),
        ("tools.example.evil.example", False),
        ("tools.example@evil.example", False),
        ("tools.example:80@evil.example", False),
        ("tools.example:\xb2", False),
        ("[2001:db8::1]evil.example", False),
        ("tools.example:", False),
        ("", False),
    ],
)
def test_allowed_names(host: str, is_taken: bool) -> None:
    """A name without a port is allowed at each; one with a port at that alone."""
    hosts = Hosts(ALLOWED)
    if is_taken:
        assert hosts.check_name(host.encode("latin-1")) == host.lower()
        return
    with pytest.raises(Problem) as caught:
        hosts.check_name(host.encode("latin-1"))
    assert caught.value.status == 421


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("tools.example", "allowed_hosts must be a list of texts, got 'tools.example'"),
        (None, "allowed_hosts must be a list of texts, got None"),
        ([7], "allowed_hosts must be a list of texts, got [7]"),
        (["*"], "no request names '*'; write HOST or HOST:PORT"),
        (["*.example"], "no request names '*.example'"),
        (["https://tools.example"], "no request names 'https://tools.example'"),
        (["tools.example/x"], "no request names 'tools.example/x'"),
        (["bücher.example"], "no request names 'bücher.example'"),
        (["2001:db8::1"], "no request names '2001:db8::1'"),
        ([""], "no request names ''"),
    ],
)
def test_names_that_are_none(given: Any, says: str) -> None:
    """One text is not taken for its letters, and a name that no request has is said."""
    with pytest.raises(ConfigurationError) as caught:
        create_app(ToolEngine(), allowed_hosts=given)
    assert says in str(caught.value)
