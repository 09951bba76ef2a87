"""Does a definition name a host that the engine always refuses?"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from tool_engine.catalog.definition.fault import Fault

_PORTS = {"http": 80, "https": 443}


def private_host_warnings(entry: Any) -> list[Fault]:
    request = entry.get("request") if isinstance(entry, Mapping) else None
    url = request.get("url") if isinstance(request, Mapping) else None
    if not isinstance(url, str) or "://" not in url:
        return []
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme.lower(), 443)
    except ValueError:
        # A wrong URL is reported by the executor that reads the entry.
        return []
    shown = f"[{host}]" if ":" in host else host
    if not _is_private(host) or _is_open(entry.get("allow"), shown, port):
        return []
    message = f"{shown}:{port} is not a public address, and every call is refused"
    cure = f'add allow: ["{shown}:{port}"] to the entry'
    return [Fault(("entry", "request", "url"), message, cure=cure)]


def _is_private(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return False


def _is_open(lines: Any, host: str, port: int) -> bool:
    if not isinstance(lines, list):
        return False
    # A range or a name with a star may allow it as well; only the plain case is certain.
    places = (f"{host}:{port}", f"{host}:*")
    return any(line in places or "*." in str(line) for line in lines)
