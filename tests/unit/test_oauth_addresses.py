"""Which addresses a server may name."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.oauth.addresses import Kind, kind_of, may_name, nearest

KINDS = {
    Kind.LOOPBACK: ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"],
    Kind.PRIVATE: [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "::ffff:a00:1",
        "::10.0.0.1",
    ],
    Kind.LINK_LOCAL: ["169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254"],
    Kind.RESERVED: [
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "239.255.255.250",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "ff02::1",
        "2001:db8::1",
        "2001:0:1::1",
        "64:ff9b:1::1",
        "fec0::1",
        "100::1",
        "192.0.0.192",
        "::ffff:192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "64:ff9b::6464:64c8",
        "2002:6464:64c8::1",
        "168.63.129.16",
        "not an address",
        "127.1",
        "",
    ],
    Kind.PUBLIC: [
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_every_range_has_its_kind(kind: Kind, text: str) -> None:
    assert kind_of(text) is kind


INSIDE = [
    ip_network(text)
    for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "224.0.0.0/4")
]


@given(st.sampled_from(INSIDE).flatmap(lambda network: st.ip_addresses(network=network)))
def test_no_way_to_write_an_inner_address_makes_it_public(address: IPv4Address) -> None:
    number = int(address)
    ways = [
        address,
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address(number) if number > 1 else address,
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0x2002 << 112) | (number << 80)),
    ]
    assert Kind.PUBLIC not in {kind_of(str(way)) for way in ways}


@given(st.text())
def test_any_text_has_a_kind(text: str) -> None:
    assert kind_of(text) in Kind


def test_a_server_may_name_the_public_and_where_it_is_itself() -> None:
    allowed = {
        (server, named)
        for server in Kind
        for named in Kind
        if may_name(server, named, is_https=True) and named is not Kind.PUBLIC
    }
    assert allowed == {
        (Kind.PRIVATE, Kind.PRIVATE),
        (Kind.LOOPBACK, Kind.LOOPBACK),
        (Kind.LINK_LOCAL, Kind.LINK_LOCAL),
    }
    assert all(may_name(server, Kind.PUBLIC, is_https=True) for server in Kind)


def test_without_tls_nobody_goes_out_into_the_public() -> None:
    assert not any(may_name(server, Kind.PUBLIC, is_https=False) for server in Kind)
    assert may_name(Kind.LOOPBACK, Kind.LOOPBACK, is_https=False)
    assert not may_name(Kind.PUBLIC, Kind.LOOPBACK, is_https=False)


def test_who_has_a_public_address_is_in_public() -> None:
    assert nearest({Kind.LOOPBACK, Kind.PUBLIC}) is Kind.PUBLIC
    assert nearest({Kind.LOOPBACK, Kind.PRIVATE}) is Kind.PRIVATE
    assert nearest({Kind.LOOPBACK}) is Kind.LOOPBACK
    assert nearest(set()) is Kind.PUBLIC
