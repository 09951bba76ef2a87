"""Which network addresses may a tool reach?

Everything that is not plain public unicast is refused, unless the tool's own definition lists the
host and port. The table is our own, with its sources: `ipaddress.is_global` admits forms that reach
a private host by translation (RFC 6052, RFC 5214), and does not know the clouds' metadata services.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

import msgspec

from tool_engine.errors import ToolExecutionError

_Address = IPv4Address | IPv6Address

SPECIAL_RANGES: Final[tuple[tuple[str, str, str], ...]] = (
    # IANA IPv4 Special-Purpose Address Registry, unless another source is named.
    ("0.0.0.0/8", "this network", "RFC 791"),
    ("10.0.0.0/8", "private", "RFC 1918"),
    ("100.64.0.0/10", "carrier-grade NAT", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122"),
    ("169.254.0.0/16", "link-local", "RFC 3927"),
    ("172.16.0.0/12", "private", "RFC 1918"),
    ("192.0.0.0/24", "protocol assignments", "RFC 6890"),
    ("192.0.2.0/24", "documentation", "RFC 5737"),
    ("192.31.196.0/24", "AS112", "RFC 7535"),
    ("192.52.193.0/24", "AMT relay", "RFC 7450"),
    ("192.88.99.0/24", "6to4 relay", "RFC 7526"),
    ("192.168.0.0/16", "private", "RFC 1918"),
    ("192.175.48.0/24", "AS112", "RFC 7534"),
    ("198.18.0.0/15", "benchmarking", "RFC 2544"),
    ("198.51.100.0/24", "documentation", "RFC 5737"),
    ("203.0.113.0/24", "documentation", "RFC 5737"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("255.255.255.255/32", "broadcast", "RFC 919"),
    ("240.0.0.0/4", "reserved", "RFC 1112"),
    # IANA IPv6 Special-Purpose Address Registry, unless another source is named.
    ("::/128", "unspecified", "RFC 4291"),
    ("::1/128", "loopback", "RFC 4291"),
    ("::ffff:0:0/96", "IPv4-mapped", "RFC 4291"),
    ("::ffff:0:0:0/96", "IPv4-translated", "RFC 2765"),
    ("::/96", "IPv4-compatible", "RFC 4291"),
    ("64:ff9b::/96", "NAT64", "RFC 6052"),
    ("64:ff9b:1::/48", "NAT64", "RFC 8215"),
    ("100::/64", "discard", "RFC 6666"),
    ("100:0:0:1::/64", "dummy prefix", "RFC 9780"),
    ("2001::/32", "Teredo", "RFC 4380"),
    ("2001:2::/48", "benchmarking", "RFC 5180"),
    ("2001:db8::/32", "documentation", "RFC 3849"),
    ("2001::/23", "protocol assignments", "RFC 2928"),
    ("2002::/16", "6to4", "RFC 3056"),
    ("2620:4f:8000::/48", "AS112", "RFC 7534"),
    ("3ffe::/16", "6bone", "RFC 3701"),
    ("3fff::/20", "documentation", "RFC 9637"),
    ("5f00::/16", "segment routing", "RFC 9602"),
    ("fc00::/7", "private", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291"),
    ("fec0::/10", "site-local", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291"),
)
"""Range, what it is, and its source; the first match gives the reason."""

METADATA_ADDRESSES: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, GCP, DigitalOcean, OpenStack
        "169.254.170.2",  # AWS ECS task credentials
        "169.254.170.23",  # AWS EKS pod identity
        "169.254.169.252",  # GKE workload identity
        "169.254.169.255",  # Linode
        "169.254.42.42",  # Scaleway
        "169.254.0.23",  # Tencent Cloud
        "fd00:ec2::254",  # AWS over IPv6
        "fd00:ec2::23",  # AWS EKS pod identity over IPv6
        "fd20:ce::254",  # GCP over IPv6
        "fd00:a9fe:a9fe::1",  # Linode over IPv6
        "fd00:42::42",  # Scaleway over IPv6
        "fd00:c1::a9fe:a9fe",  # Oracle Cloud over IPv6
        "fe80::a9fe:a9fe",  # OpenStack over IPv6
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
        "168.63.129.16",  # Azure wire server; lies in public space
    )
)
"""Services that hand credentials to any program inside a machine."""

_NETWORKS: Final = tuple((ip_network(text), what) for text, what, _ in SPECIAL_RANGES)
# RFC 4291: all unicast that IANA has assigned so far is here.
_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
# For each translation, the shift of the embedded IPv4 address.
_EMBEDDED: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("64:ff9b:1::/48"), 0),
    (IPv6Network("2002::/16"), 80),
)
_NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
_TEREDO: Final = IPv6Network("2001::/32")
_ALLOW: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9._\-]*[A-Za-z0-9_])?)"
    r":(?P<port>\*|[0-9]{1,5})",
    re.ASCII,
)


class AddressRefusedError(ToolExecutionError):
    """A forbidden address; the message says how the author can permit it."""


class AllowEntry(msgspec.Struct, frozen=True):
    host: str
    """A lower-case name, a suffix with a leading dot, or an address."""
    port: int | None
    """None: any."""
    address: _Address | None = None

    @classmethod
    def parse(cls, text: object) -> AllowEntry:
        """Read `host:port`, `*.suffix:port`, `address:port` or `[address]:port`.

        The port may be `*`. The message of `ValueError` says what to write.
        """
        match = _ALLOW.fullmatch(text) if isinstance(text, str) else None
        if match is None and (meant := _find_meant(str(text))):
            raise ValueError(f"{text!r} is not host:port; write {meant!r}")
        if match is None:
            raise ValueError(
                f"{text!r} is not host:port; write '127.0.0.1:8080', '*.corp.example:443', "
                "'10.0.0.5:*' or '[::1]:8080'"
            )
        port = None if match["port"] == "*" else int(match["port"])
        if port is not None and not 0 < port < 65536:
            raise ValueError(f"{text!r} has the port {port}; a port is between 1 and 65535")
        host = match["host"].lower()
        if not host.startswith("[") and not ends_in_number(host):
            return cls(host.removeprefix("*"), port)
        address = _parse_address(host.strip("[]"))
        if address is None or host.startswith("[") is not isinstance(address, IPv6Address):
            raise ValueError(
                f"{text!r} is an odd spelling of an address; write it as in '10.0.0.5:8080' or "
                "'[::1]:8080'"
            )
        return cls(host.strip("[]"), port, address)

    def matches_name(self, host: str, port: int) -> bool:
        if self.port not in (None, port) or self.address is not None:
            return False
        return host.endswith(self.host) if self.host[0] == "." else host == self.host

    def matches_address(self, address: _Address, port: int) -> bool:
        return self.port in (None, port) and self.address == address


class AllowList(msgspec.Struct, frozen=True, cache_hash=True):
    """The hosts and ports that a definition opens, beyond the public network."""

    entries: tuple[AllowEntry, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[object]) -> AllowList:
        return cls(tuple(AllowEntry.parse(text) for text in texts))

    def lists(self, host: str, port: int) -> bool:
        address = _parse_address(host)
        return any(
            entry.matches_name(host.rstrip("."), port)
            or (address is not None and entry.matches_address(address, port))
            for entry in self.entries
        )

    def permitted(self, host: str, port: int, addresses: Iterable[str]) -> list[str]:
        """Return those of the host's `addresses` that may be dialled.

        A public address always may. One special address that is not listed refuses the whole host:
        an answer that mixes both kinds looks like a rebinding attack. Only where some of the
        addresses are listed one by one, the others are left out instead.

        Raises:
            AddressRefusedError: None may be dialled, or not all of them.
        """
        is_named = any(entry.matches_name(host, port) for entry in self.entries)
        permitted: list[str] = []
        refused: tuple[str, str] | None = None
        has_listed = False
        for text in addresses:
            address = _parse_address(text)
            if address is None:
                refused = refused or (text, "not an address")
            elif any(entry.matches_address(address, port) for entry in self.entries):
                has_listed = True
                permitted.append(text)
            elif (what := special_range(address)) is None or (
                is_named and not _only_literally(address)
            ):
                permitted.append(text)
            else:
                refused = refused or (text, "cloud metadata" if is_metadata(address) else what)
        if refused and not has_listed:
            raise AddressRefusedError(_describe_refusal(host, port, *refused))
        return permitted


def _find_meant(text: str) -> str:
    """Return the line that a URL or a host alone means; empty for a range and others."""
    scheme, _, rest = text.rpartition("://")
    place = rest.partition("/")[0] if scheme else rest
    return next((each for each in (place, f"{place}:*") if _ALLOW.fullmatch(each)), "")


def ends_in_number(host: str) -> bool:
    """Return True for any spelling of an IPv4 address (WHATWG URL, 3.5)."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None


@lru_cache(maxsize=4096)
def special_range(address: _Address) -> str | None:
    """Return what is special about `address`; None for plain public unicast."""
    if address in METADATA_ADDRESSES:
        return "cloud metadata"
    for network, what in _NETWORKS:
        if network.version == address.version and address in network:
            return what
    if isinstance(address, IPv4Address):
        return None
    if address not in _GLOBAL_IPV6:
        return "reserved"
    return "ISATAP" if _isatap_id(address) in _ISATAP else None


def is_metadata(address: _Address) -> bool:
    """Return True for a metadata service, also one behind a translation."""
    if address in METADATA_ADDRESSES:
        return True
    return isinstance(address, IPv6Address) and any(
        embedded in METADATA_ADDRESSES for embedded in _embedded_addresses(address)
    )


def _only_literally(address: _Address) -> bool:
    """Return True if only a literal entry may open it, as for metadata services."""
    if is_metadata(address):
        return True
    if address.is_link_local:
        return True
    return isinstance(address, IPv6Address) and any(
        embedded.is_link_local for embedded in _embedded_addresses(address)
    )


def _embedded_addresses(address: IPv6Address) -> list[IPv4Address]:
    number = int(address)
    found = [
        IPv4Address(number >> shift & 0xFFFFFFFF)
        for network, shift in _EMBEDDED
        if address in network
    ]
    if address in _NAT64_LOCAL:
        # RFC 6052, 2.2: a /48 prefix splits the address around the always-zero bits 64 to 71.
        found.append(IPv4Address((number >> 64 & 0xFFFF) << 16 | (number >> 40 & 0xFFFF)))
    if address in _TEREDO:
        # RFC 4380: the client's address is sent inverted.
        found.append(IPv4Address(~number & 0xFFFFFFFF))
    if _isatap_id(address) in _ISATAP:
        found.append(IPv4Address(number & 0xFFFFFFFF))
    return found


def _isatap_id(address: IPv6Address) -> int:
    return int(address) >> 32 & 0xFFFFFFFF


@lru_cache(maxsize=4096)
def _parse_address(text: str) -> _Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A zone selects the interface, which no table can judge.
    return None if isinstance(address, IPv6Address) and address.scope_id else address


def _describe_refusal(host: str, port: int, address: str, what: str) -> str:
    shown = _bracket_host(host)
    subject = f"{shown}:{port} is" if host == address else f"{shown}:{port} leads to {address},"
    # The owner of a name may point it anywhere, so it never opens a metadata service.
    known = _parse_address(address)
    listed = _bracket_host(address) if known is not None and _only_literally(known) else shown
    return (
        f"{subject} not a public address ({what}); only the tool's author can open it, with "
        f"entry.allow: ['{listed}:{port}'] in the tool's YAML"
    )


def _bracket_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
