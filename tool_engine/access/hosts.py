"""Under which names may a server be reached?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from tool_engine.access.problem import Problem
from tool_engine.access.texts import require_texts
from tool_engine.errors import ConfigurationError

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""The addresses that only this machine reaches."""
_OWN: Final = ("127.0.0.1", "localhost", "[::1]")
_OWN_CLIENTS: Final = ("127.0.0.1", "::1")
_HANDED_ON: Final = frozenset((b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"))
"""Headers of proxies: theirs is the address of all that they speak for."""
_HOST: Final = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class Hosts:
    """The names under which a server may be reached, beside those of this machine.

    Args:
        allowed: As `HOST`, at any port, or `HOST:PORT`.

    Raises:
        ConfigurationError: One of them could be no name of a request.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        names = require_texts("allowed_hosts", allowed)
        for each in names:
            if _HOST.fullmatch(each) is None:
                raise ConfigurationError(
                    f"allowed_hosts: no request names {each!r}; write HOST or HOST:PORT, in ASCII "
                    "and an address of IPv6 in brackets"
                )
        self._names = frozenset(each.lower() for each in (*_OWN, *names))

    def check_name(self, sent: bytes) -> str:
        """Return the name that a request is for, and its port.

        Raises:
            Problem: The server has another name.
        """
        host = sent.decode("latin-1").lower()
        name, _, port = host.rpartition(":")
        if host not in self._names and not (name in self._names and port.isdecimal()):
            raise Problem(
                421,
                "unknown-host",
                "this server does not answer under that name; name it in allowed_hosts",
            )
        return host


def is_of_this_machine(scope: Any, sent: Mapping[bytes, bytes]) -> bool:
    """Return True if a request is of this machine, and not handed on by a proxy of it."""
    client = scope.get("client")
    return client is not None and client[0] in _OWN_CLIENTS and _HANDED_ON.isdisjoint(sent)
