"""Which addresses a tool may reach: the table, and what a definition opens."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from tool_engine.executors.http.addresses import (
    METADATA_ADDRESSES,
    SPECIAL_RANGES,
    AddressRefusedError,
    AllowList,
    ends_in_number,
    is_metadata,
    special_range,
)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("0.0.0.0", "this network"),  # noqa: S104 - looked up, not bound
        ("10.1.2.3", "private"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "cloud metadata"),
        ("168.63.129.16", "cloud metadata"),
        ("172.31.255.255", "private"),
        ("192.0.2.1", "documentation"),
        ("192.168.0.1", "private"),
        ("198.19.255.255", "benchmarking"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "IPv4-mapped"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::ffff:0:127.0.0.1", "IPv4-translated"),
        ("::127.0.0.1", "IPv4-compatible"),
        ("64:ff9b::7f00:1", "NAT64"),
        ("64:ff9b:1::1", "NAT64"),
        ("100::1", "discard"),
        ("100:0:0:1::1", "dummy prefix"),
        ("2001::1", "Teredo"),
        ("2001:2::1", "benchmarking"),
        ("2001:10::1", "protocol assignments"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "6to4"),
        ("3ffe::1", "6bone"),
        ("3fff::1", "documentation"),
        ("5f00::1", "segment routing"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "cloud metadata"),
        ("fe80::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("4000::1", "reserved"),
        ("2a00:1450::5efe:7f00:1", "ISATAP"),
        ("2a00:1450::200:5efe:7f00:1", "ISATAP"),
        ("8.8.8.8", None),
        ("172.32.0.1", None),
        ("2606:4700::1111", None),
    ],
)
def test_special_range(address: str, what: str | None) -> None:
    """Every address that is not public unicast is found, in whatever translation it hides."""
    assert special_range(ip_address(address)) == what


def test_both_ends_of_every_range_are_refused() -> None:
    """No range of the table is off by one."""
    for text, _, source in SPECIAL_RANGES:
        network = ip_network(text)
        assert source.startswith("RFC")
        for edge in (network.network_address, network.broadcast_address):
            with pytest.raises(AddressRefusedError):
                AllowList().permitted(str(edge), 80, [str(edge)])


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:169.254.169.254",
        "::ffff:0:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "2002:a9fe:a9fe::1",
        f"2001:0:1:2:3:4:{0xFFFF ^ 0xA9FE:x}:{0xFFFF ^ 0xA9FE:x}",
        "2a00:1450::5efe:a9fe:a9fe",
        *sorted(map(str, METADATA_ADDRESSES)),
    ],
)
def test_a_metadata_service_is_opened_only_literally(address: str) -> None:
    """A name that its author allows still never leads to a metadata service."""
    assert is_metadata(ip_address(address))
    allow = AllowList.parse(["*.corp.example:*", "host.example:80"])
    with pytest.raises(AddressRefusedError, match="cloud metadata"):
        allow.permitted("host.example", 80, [address])
    shown = f"[{address}]" if ":" in address else address
    literal = AllowList.parse([f"{shown}:80"])
    assert literal.permitted("host.example", 80, [address]) == [address]


@pytest.mark.parametrize(
    "address", ["169.254.1.1", "fe80::1", "64:ff9b::169.254.1.1", "2002:a9fe:101::1"]
)
def test_a_link_local_address_is_opened_only_literally(address: str) -> None:
    """That is where clouds put services such as these, and no name of a company leads there."""
    with pytest.raises(AddressRefusedError, match=r"entry\.allow: \['\[?[0-9a-f:.]+\]?:80'\]"):
        AllowList.parse(["host.example:80"]).permitted("host.example", 80, [address])
    shown = f"[{address}]" if ":" in address else address
    literal = AllowList.parse([f"{shown}:80"])
    assert literal.permitted("host.example", 80, [address]) == [address]


def test_lists() -> None:
    """A host is listed by its name or as an address, in whatever spelling."""
    allow = AllowList.parse(["10.0.0.5:80", "*.corp.example:443", "[::1]:*"])
    for host, port in (("10.0.0.5", 80), ("a.corp.example.", 443), ("0:0::1", 9)):
        assert allow.lists(host, port)
    for host, port in (("10.0.0.5", 81), ("corp.example", 443), ("::2", 9)):
        assert not allow.lists(host, port)


def test_ordinary_addresses_are_no_metadata() -> None:
    """Only the services that hand out credentials are."""
    assert not is_metadata(ip_address("169.254.1.1"))
    assert not is_metadata(ip_address("2606:4700::1111"))


def test_a_private_address_is_refused_with_the_cure() -> None:
    """The message says who can open the address, and how."""
    with pytest.raises(AddressRefusedError) as caught:
        AllowList().permitted("10.0.0.5", 8080, ["10.0.0.5"])
    assert str(caught.value) == (
        "10.0.0.5:8080 is not a public address (private); only the tool's author can open it, "
        "with entry.allow: ['10.0.0.5:8080'] in the tool's YAML"
    )


def test_a_name_that_leads_to_a_private_address_is_refused() -> None:
    """The message names both the name and the address behind it."""
    with pytest.raises(AddressRefusedError, match=r"host\.example:80 leads to fd00::1, not a pub"):
        AllowList().permitted("host.example", 80, ["fd00::1"])


def test_a_mixed_answer_is_refused_as_a_whole() -> None:
    """An answer of public and private addresses is how rebinding looks, so nothing is dialled."""
    with pytest.raises(AddressRefusedError):
        AllowList().permitted("host.example", 80, ["8.8.8.8", "127.0.0.1"])


def test_of_a_mixed_answer_the_listed_addresses_are_dialled() -> None:
    """`localhost` is ::1 and 127.0.0.1; where only one is listed, only that one is dialled."""
    allow = AllowList.parse(["127.0.0.1:80"])
    assert allow.permitted("localhost", 80, ["::1", "127.0.0.1"]) == ["127.0.0.1"]


def test_what_is_no_address_is_refused() -> None:
    """A resolver that returns a name, or an address with a zone, opens nothing."""
    for text in ("host", "fe80::1%eth0"):
        with pytest.raises(AddressRefusedError, match="not an address"):
            AllowList.parse(["host:80"]).permitted("host", 80, [text])


@pytest.mark.parametrize(
    ("line", "host", "port", "address"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1"),
        ("10.0.0.5:*", "10.0.0.5", 9999, "10.0.0.5"),
        ("[::1]:8080", "::1", 8080, "::1"),
        ("[0:0::1]:8080", "::1", 8080, "::1"),
        ("HOST.corp.example:443", "host.corp.example", 443, "10.0.0.1"),
        ("*.corp.example:443", "deep.host.corp.example", 443, "10.0.0.1"),
    ],
)
def test_allow_opens(line: str, host: str, port: int, address: str) -> None:
    """entry.allow: a host and port that is listed may be dialled."""
    assert AllowList.parse([line]).permitted(host, port, [address]) == [address]


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8081),
        ("127.0.0.1:8080", "127.0.0.2", 8080),
        ("*.corp.example:443", "corp.example", 443),
        ("*.corp.example:443", "evilcorp.example", 443),
        ("*.corp.example:443", "host.corp.example", 80),
        ("corp.example:443", "host.corp.example", 443),
    ],
)
def test_allow_opens_nothing_else(line: str, host: str, port: int) -> None:
    """entry.allow: neither another port, nor a neighbour, nor a name that only ends alike."""
    with pytest.raises(AddressRefusedError):
        AllowList.parse([line]).permitted(host, port, ["10.0.0.1"])


@pytest.mark.parametrize(
    "line",
    ["127.0.0.1", "host", "*:80", "http://host:80", "host:0", "host:65536", "", 8080, "127.1:80",
     "[127.0.0.1]:80", "[abc]:80", "[::1::]:80"],
)  # fmt: skip
def test_a_line_of_allow_that_is_none(line: object) -> None:
    """entry.allow: a line that is not host:port is refused, never ignored."""
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ, the refusal does not
        AllowList.parse([line])


def test_ends_in_number() -> None:
    """What looks like an IPv4 address in any spelling is taken for one."""
    for host in ("127.1", "0x7f.1", "1.2.3.0x10", "2130706433", "127.0.0.1.", "0x"):
        assert ends_in_number(host)
    for host in ("web1", "a.b", "1.example", "xa0"):
        assert not ends_in_number(host)
