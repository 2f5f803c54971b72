"""The socket that the server listens on."""

import socket

from ackbus.server.listening import listen_on


def test_connections_send_what_they_have_at_once() -> None:
    """Or else each response takes 40 ms: its body waits for the acknowledgement of its head."""
    with (
        listen_on("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
