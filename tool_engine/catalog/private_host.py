"""Does a definition open the private host that its request goes to?"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from tool_engine.catalog.literal_words import Literal

_PORTS: Final = {"http": 80, "https": 443}


def find_private_host(entry: Any) -> list[Literal]:
    """Return place, message and cure of a host that a call would be refused."""
    request = entry.get("request") if isinstance(entry, dict) else None
    url = request.get("url") if isinstance(request, dict) else None
    if not isinstance(url, str) or "://" not in url:
        return []
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme.lower(), 443)
    except ValueError:
        # A wrong URL is reported by the executor that reads the entry.
        return []
    shown = f"[{host}]" if ":" in host else host
    if not _is_private(host) or _is_open(entry.get("allow"), host, port):
        return []
    message = f"{shown}:{port} is not a public address, and every call is refused"
    cure = f'add allow: ["{shown}:{port}"] to the entry'
    return [(("entry", "request", "url"), message, cure)]


def _is_private(host: str) -> bool:
    address = _read_address(host)
    return _is_of_this_computer(host) or (address is not None and not address.is_global)


def _is_of_this_computer(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _read_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_open(lines: Any, host: str, port: int) -> bool:
    return isinstance(lines, list) and any(
        _opens_host(str(line).lower(), host, port) for line in lines
    )


def _opens_host(line: str, host: str, port: int) -> bool:
    name, _, its_port = line.rpartition(":")
    address = _read_address(name.strip("[]"))
    if its_port not in ("*", str(port)):
        return False
    if address is None:
        return name == host or (name.startswith("*.") and host.endswith(name[1:]))
    # A name is dialled where one of its addresses is listed.
    return address.is_loopback if _is_of_this_computer(host) else address == _read_address(host)
