"""Which addresses may be asked, by where the MCP server itself is. Pure.

What a server says about its authorization server is a stranger's word. It may lead to anywhere on the public
internet over https, and back to where the server itself is: a server on this machine may name one on this
machine, one in a private network may name another there. Nobody may name the address of a cloud's metadata
who is not there himself.
"""

from enum import Enum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Kind", "kind_of", "may_name", "nearest"]

Address = IPv4Address | IPv6Address


class Kind(Enum):
    """Where an address is."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    RESERVED = "reserved"


_PRIVATE = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)
"""RFC 1918, RFC 6598 (which overlay networks use) and RFC 4193."""
_WITH_IPV4_AT_THE_END = (IPv6Network("::ffff:0:0/96"), IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))
"""Mapped, compatible, and translated by the network (RFC 6052): what is meant is the IPv4 address in them."""
_SIX_TO_FOUR = IPv6Network("2002::/16")
_NEVER = tuple(map(ip_network, ("2001::/32", "64:ff9b:1::/48", "fec0::/10", "100::/64", "192.0.0.0/24")))
"""Teredo, local translation, site-local, discard-only, protocol assignments (Oracle has its metadata there):
whatever is behind them, it is no public server."""
_CLOUDS = tuple(map(ip_network, ("fd00:ec2::/32", "fd20:ce::254", "100.100.100.200", "168.63.129.16")))
"""Metadata, keys included, outside of the link-local range: Amazon's, Google's, Alibaba's, Azure's. By their
range the first three are private, and a server in a private network could name them."""


def kind_of(text: str) -> Kind:
    """Of an address as text; RESERVED if it is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return Kind.RESERVED
    if isinstance(address, IPv6Address) and not address.is_loopback:
        if any(address in network for network in _WITH_IPV4_AT_THE_END):
            return _kind_of(IPv4Address(int(address) & 0xFFFFFFFF))
        if address in _SIX_TO_FOUR:
            return _kind_of(IPv4Address((int(address) >> 80) & 0xFFFFFFFF))
    return _kind_of(address)


def _kind_of(address: Address) -> Kind:
    if address.is_multicast or address.is_unspecified:
        return Kind.RESERVED
    if any(address in network for network in (*_NEVER, *_CLOUDS)):
        return Kind.RESERVED
    if address.is_loopback:
        return Kind.LOOPBACK
    if address.is_link_local:
        return Kind.LINK_LOCAL
    if any(address in network for network in _PRIVATE):
        return Kind.PRIVATE
    return Kind.PUBLIC if address.is_global and not address.is_reserved else Kind.RESERVED


def nearest(kinds: set[Kind]) -> Kind:
    """Where somebody with several addresses is: in public if any is, since that gives the least rights."""
    order = (Kind.PUBLIC, Kind.RESERVED, Kind.LINK_LOCAL, Kind.PRIVATE, Kind.LOOPBACK)
    return next((kind for kind in order if kind in kinds), Kind.PUBLIC)


def may_name(server: Kind, named: Kind, *, is_https: bool) -> bool:
    """May a server that is there name an address that is there?"""
    if named is Kind.PUBLIC:
        return is_https
    if named is Kind.RESERVED:
        return False
    return named is server
