"""Targets: the URLs that messages are posted to, and the addresses that they may have.

A name is resolved for each connection, and the connection is made to the very address that was
checked: a name that stands for another address a moment later leads nowhere else.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from ..schema.errors import AckbusError, InvalidInput, shown
from .public_addresses import is_public

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
