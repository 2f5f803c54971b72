"""Which addresses are of the public internet: each entry of the registries, at both of its ends."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbus.automation import forwarding_targets, shipped
from ackbus.automation.forwarding_targets import NETWORKS, is_public

#: The first and the last address that is not public, of each entry of the registries, and of what
#: is multicast, of a site, or not given to anybody.
PRIVATE = [
    *("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"),
    *("127.0.0.0", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255"),
    *("172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.11", "192.0.0.170"),
    *("192.0.0.171", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255"),
    *("192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0"),
    *("198.51.100.255", "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.255"),
    *("240.0.0.0", "255.255.255.254", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
    *("::ffff:0:7f00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::6440:1"),
    *("64:ff9b:1::", "64:ff9b:1::808:808", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    *("100::", "100::ffff:ffff:ffff:ffff", "100:0:0:1::1", "200::1", "1fff:ffff::1"),
    *("2001::", "2001:0:7f00:1::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "2001:1::", "2001:1::4"),
    *("2001:2::", "2001:2:0:ffff::1", "2001:4:111::1", "2001:4:113::1", "2001:10::", "2001:1f::1"),
    *("2001:40::1", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff::1"),
    *("2002::", "2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1", "2002:ffff:ffff::1"),
    *("3fff::", "3fff:fff:ffff::1", "4000::1", "5f00::", "5f00:ffff::1", "fc00::", "fdff:ffff::1"),
    *("fe80::", "fe80::1", "fe80::1%lo", "fe80::1%1", "febf:ffff::1", "fec0::", "feff:ffff::1"),
    *("ff00::", "ff02::1", "ff0e::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
]
#: The neighbours of those, and the entries that the registries call globally reachable.
PUBLIC = [
    *("1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255"),
    *("100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0"),
    *("172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.0.9", "192.0.0.10", "192.0.1.0"),
    *("192.0.3.0", "192.31.196.1", "192.52.193.1", "192.88.98.255", "192.88.100.0"),
    *("192.167.255.255", "192.169.0.0", "192.175.48.1", "198.17.255.255", "198.20.0.0"),
    *("198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"),
    *("64:ff9b::808:808", "64:ff9b::c000:9", "2000::1", "2001:1::1", "2001:1::2", "2001:1::3"),
    *("2001:3::1", "2001:4:112::1", "2001:20::1", "2001:2f:ffff::1", "2001:30::1", "2001:3f::1"),
    *("2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2003::1", "2606:4700:4700::1111"),
    *("2620:4f:8000::1", "3ffe:ffff::1", "3fff:1000::1"),
]

#: The plugin that has a copy of the section.
_PLUGIN = Path(shipped.__path__[0]) / "feed" / "run.py"


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    """Issue 29, item 9."""
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_taken(address: str) -> None:
    assert is_public(address)


def test_each_network_of_the_table_differs_from_the_one_around_it() -> None:
    """An entry that says what the one around it says can't be wrong, and is not needed."""
    networks = {ipaddress.ip_network(text): said for text, said in NETWORKS.items()}
    for network, said in networks.items():
        wider = [
            other
            for other in networks
            if other.version == network.version and other != network and network.subnet_of(other)  # type: ignore[arg-type]
        ]
        if wider and str(network) not in REACHABLE:
            assert networks[max(wider, key=lambda other: other.prefixlen)] is not said


#: Entries of the registries that only say that they are as public as their surroundings.
REACHABLE = {"192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24", "2620:4f:8000::/48"}


@pytest.mark.slow
@given(st.ip_addresses(v=4).filter(lambda each: not is_public(str(each))))
def test_address_is_no_better_inside_one_of_version_6(address: Any) -> None:
    number = int(address)
    for inside in (
        f"::ffff:{address}",
        f"::{address}",
        f"64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}",
        f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1",
        f"2001:0:{number >> 16:x}:{number & 0xFFFF:x}::1",
    ):
        assert not is_public(inside)


def test_plugin_that_runs_alone_has_the_same_section() -> None:
    assert _section(_PLUGIN) == _section(Path(forwarding_targets.__file__))


def _section(path: Path) -> str:
    """Return the networks, and the function that looks in them, as they stand in a file."""
    text = path.read_text("utf-8")
    end = "if address in network)\n"
    return text[text.index("#: Networks, each") : text.index(end) + len(end)]
