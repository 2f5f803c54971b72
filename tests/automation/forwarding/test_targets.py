"""Which URLs and addresses messages may be posted to."""

import socket
import ssl
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.automation import forwarding_targets
from ackbus.automation.config.values import key_of
from ackbus.automation.forwarder import Forwarder, Subscription
from ackbus.automation.forwarding_targets import Target, Unreachable
from ackbus.schema.errors import InvalidInput

from .receivers import SECRET, receiving

#: Forms of this machine's address, of which the resolver knows some.
LOOPBACK = ["127.0.0.1", "2130706433", "0x7f000001", "127.1", "017700000001", "[::1]", "localhost"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_is_refused_in_every_form(host: str) -> None:
    with pytest.raises(Unreachable, match=r"no public address; --allow-private|has no address"):
        Target.parse(f"https://{host}:9/").connect(time.monotonic() + 10)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.org/a b", "percent-encoded"),
        ("https://example.org/\r\nX: y", "percent-encoded"),
        ("https://exämple.org/", "percent-encoded"),
        ("ftp://example.org/", "like https://"),
        ("example.org/hook", "like https://"),
        ("https:///hook", "like https://"),
        ("", "like https://"),
        ("https://example.org:99999/", "Port out of range"),
        ("https://example.org:0/", "port 0"),
        ("https://[::1/", "Invalid IPv6"),
        ("https://me:secret@example.org/", "a name or a password"),
        ("https://example.org/#x", "fragment"),
        ("http://example.org/", "--allow-private"),
    ],
)
def test_url_that_is_none_is_refused_and_not_repeated(url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        Target.parse(url)
    assert "secret" not in str(refused.value)


def test_name_is_resolved_once_and_its_checked_address_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that stands for another address at the next look leads nowhere else."""
    looks = []

    def resolve(host: str, port: int, **options: Any) -> list[Any]:
        looks.append(host)
        address = "192.0.2.7" if len(looks) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    connected = []
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(forwarding_targets, "is_public", lambda text: text == "192.0.2.7")
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: connected.append(address))
    Target("http", "rebind.example", 80, "/").connect(time.monotonic() + 10).close()
    assert (looks, connected) == (["rebind.example"], [("192.0.2.7", 80)])
    with pytest.raises(Unreachable, match="no public address"):
        Target("http", "rebind.example", 80, "/").connect(time.monotonic() + 10)
    assert len(connected) == 1


def test_of_several_addresses_the_public_ones_are_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a private one beside a public one would be reached when that is down."""
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
        for address in ("127.0.0.1", "1.1.1.1", "10.0.0.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
    assert Target.parse("https://mixed.example/")._addresses() == [
        (socket.AF_INET, ("1.1.1.1", 443))
    ]


def test_address_that_drops_all_packets_leaves_time_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a target with a dead address before a good one would never be reached."""
    with ExitStack() as open_ones:
        full, good = (
            open_ones.enter_context(socket.create_server(("127.0.0.1", 0), backlog=number))
            for number in (0, 9)
        )
        for _ in range(9):  # its queue is full: further packets are dropped
            waiting = open_ones.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", each.getsockname()) for each in (full, good)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
        target = Target.parse("http://two.example/", allow_private=True)
        deadline = time.monotonic() + 6
        with target.connect(deadline) as connection:
            assert connection.getpeername() == good.getsockname()
            assert time.monotonic() < deadline


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate of its own, and its key."""
    files = directory / "cert.pem", directory / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"),
            *("-out", files[0], "-keyout", files[1]),
        ],
        check=True,
        capture_output=True,
    )
    return files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_known", "why"),
    [
        ("localhost", True, None),
        ("localhost", False, "its certificate is not good: self-signed certificate"),
        ("other.example", True, "its certificate is not good: Hostname mismatch"),
    ],
)
def test_certificate_of_a_target_must_be_good(
    bus: Bus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    is_known: bool,
    why: str | None,
) -> None:
    cert, key = certificate(tmp_path, name)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    forwarding_targets._certificates.cache_clear()
    bus.publish("t", 1, from_agent="a")
    subscription = Subscription(bus, "hook", retry_pause_s=0.001, max_deliveries=1)
    with receiving(wrap=lambda plain: server.wrap_socket(plain, server_side=True)) as receiver:
        url = receiver.url.replace("http://127.0.0.1", "https://localhost")
        target = Target.parse(url, allow_private=True)
        Forwarder(
            subscription, target, [key_of(SECRET, "standard")], timeout_s=20, patience_s=0.05
        ).run(drain=True)
    forwarding_targets._certificates.cache_clear()
    parked = subscription.parked()
    if why is None:
        assert (receiver.data, parked) == ([1], [])
    else:
        assert (receiver.data, len(parked)) == ([], 1)
        assert why in parked[0].error
