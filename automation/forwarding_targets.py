"""Targets: the URLs that messages are posted to, and the addresses that they may have.

A name is resolved for each connection, and the connection is made to the very address that was
checked: a name that stands for another address a moment later leads nowhere else.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from ..schema.errors import AckbusError, InvalidInput, shown

#: The ports of the schemes.
_PORTS = {"http": 80, "https": 443}


class Unreachable(AckbusError):
    """There is no connection to a target, for now; or none that may be made."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that messages are posted to. Its text is without path and query, which may be secret.

    Attributes:
        scheme, host, port: of the server.
        path: the path, with the query.
        allow_private: whether it may be in a network that is not public, and be plain http.
    """

    scheme: str
    host: str
    port: int
    path: str
    allow_private: bool = False

    @classmethod
    def parse(cls, url: str, *, allow_private: bool = False) -> Target:
        """Return the target of a URL.

        Raises:
            InvalidInput: it is none that messages can be posted to; it is not repeated.
        """
        if not (url.isascii() and url.isprintable()) or " " in url:
            raise InvalidInput("the URL has a character that must be percent-encoded")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidInput(f"the URL is not valid: {error}") from error
        if port == 0:
            raise InvalidInput("the URL has port 0, which no server has")
        if parts.scheme not in _PORTS or not host:
            raise InvalidInput("the URL must be like https://example.org/hook")
        if parts.username is not None:
            raise InvalidInput("the URL has a name or a password: receivers check the signature")
        if parts.fragment:
            raise InvalidInput("the URL has a fragment, which is never sent: end it before the #")
        if parts.scheme == "http" and not allow_private:
            raise InvalidInput("the URL must begin with https://; http:// needs --allow-private")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, host, port or _PORTS[parts.scheme], path, allow_private)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The host and port, as the header `Host` has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def connect(self, deadline: float) -> socket.socket:
        """Connect to the first address that answers.

        Args:
            deadline: until when, by the monotonic clock.

        Raises:
            Unreachable: none answers in time, or all are refused.
        """
        failure = "it has no address"
        addresses = self._addresses()
        for number, (family, address) in enumerate(addresses):
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                # Each gets a share of the time: one that drops all packets must not use it up.
                share_s = (deadline - monotonic()) / (len(addresses) - number)
                connection.settimeout(max(share_s, 0.001))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # head, then body
                return self._secured(connection)
            except OSError as error:
                connection.close()
                failure = words_of(error)
        raise Unreachable(f"{self} can't be reached: {failure}")

    def _addresses(self) -> list[tuple[int, Any]]:
        """Return the addresses that a connection may be made to."""
        try:
            resolved = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{self} has no address: {words_of(error)}") from error
        allowed: list[tuple[int, Any]] = [
            (family, address)
            for family, _, _, _, address in resolved
            if self.allow_private or is_public(str(address[0]))
        ]
        if resolved and not allowed:
            raise Unreachable(
                f"{self} is {resolved[0][4][0]}, which is no public address;"
                " --allow-private allows it"
            )
        return allowed

    def _secured(self, connection: socket.socket) -> socket.socket:
        if self.scheme == "http":
            return connection
        return _certificates().wrap_socket(connection, server_hostname=self.host)


@cache
def _certificates() -> ssl.SSLContext:
    """Return the TLS context that checks certificates; creating one takes milliseconds."""
    return ssl.create_default_context()


def words_of(error: Exception) -> str:
    """Return the words of an error of the network, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it took too long"
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return words[:200] if words.isprintable() else shown(words)


# Addresses of the public internet, by the registries of special-purpose addresses.
#
# The registries are IANA's for IPv4 and IPv6 (RFC 6890, RFC 8190) with their entries up to RFC
# 9780, as they stood in 2025. Python has tables of its own, which differ from release to release:
# an answer that guards a network must not. The shipped plugin `feed` runs alone and has a copy of
# what follows; a test compares them.

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
