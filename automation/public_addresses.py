"""Addresses of the public internet, by the registries of special-purpose addresses.

The registries are IANA's for IPv4 and IPv6 (RFC 6890, RFC 8190) with their entries up to RFC 9780,
as they stood in 2025. Python has tables of its own, which differ from release to release: an answer
that guards a network must not. The shipped plugin `feed` runs alone and has a copy of this file; a
test compares them.
"""

from __future__ import annotations

import ipaddress

#: Networks, each with whether its addresses are of the public internet; the narrowest one counts.
#: An address of version 4 in none is public; one of version 6 is in 2000::/3 or in none.
NETWORKS = {
    "0.0.0.0/0": True,
    "0.0.0.0/8": False,  # this network
    "10.0.0.0/8": False,  # private
    "100.64.0.0/10": False,  # shared by the customers of a provider
    "127.0.0.0/8": False,  # this machine
    "169.254.0.0/16": False,  # this link
    "172.16.0.0/12": False,  # private
    "192.0.0.0/24": False,  # protocols of the IETF
    "192.0.0.9/32": True,  # port control, anycast
    "192.0.0.10/32": True,  # relays, anycast
    "192.0.2.0/24": False,  # documentation
    "192.31.196.0/24": True,  # AS112
    "192.52.193.0/24": True,  # AMT
    "192.88.99.0/24": False,  # relays of 6to4, deprecated
    "192.168.0.0/16": False,  # private
    "192.175.48.0/24": True,  # AS112
    "198.18.0.0/15": False,  # benchmarks
    "198.51.100.0/24": False,  # documentation
    "203.0.113.0/24": False,  # documentation
    "224.0.0.0/4": False,  # multicast
    "240.0.0.0/4": False,  # reserved, and the broadcast of all
    "::/0": False,  # ours, mapped, translated, of a site or a link, multicast, or nobody's
    "2000::/3": True,
    "2001::/23": False,  # protocols of the IETF, among them Teredo, 2001::/32
    "2001:1::1/128": True,  # port control, anycast
    "2001:1::2/128": True,  # relays, anycast
    "2001:1::3/128": True,  # service registration, anycast
    "2001:3::/32": True,  # AMT
    "2001:4:112::/48": True,  # AS112
    "2001:20::/28": True,  # ORCHIDv2
    "2001:30::/28": True,  # drones
    "2001:db8::/32": False,  # documentation
    "2002::/16": False,  # 6to4, which leads to whatever its address of version 4 is
    "2620:4f:8000::/48": True,  # AS112
    "3fff::/20": False,  # documentation
}

#: The addresses by which a gateway leads to one of version 4, which is its last 32 bits.
NAT64 = "64:ff9b::/96"

_NETWORKS = sorted(
    ((ipaddress.ip_network(text), is_public) for text, is_public in NETWORKS.items()),
    key=lambda entry: -entry[0].prefixlen,
)
_NAT64 = ipaddress.ip_network(NAT64)


def is_public(text: str) -> bool:
    """Whether an address, as the resolver writes it, is one of the public internet.

    One of version 6 by which a gateway leads to one of version 4 is as good as that.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if address in _NAT64:
        return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)))
    return next(is_public for network, is_public in _NETWORKS if address in network)
