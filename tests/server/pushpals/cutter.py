"""A way to a server that can be cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Cutter:
    """Takes connections, and hands on what comes, until it cuts all of them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._take, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections."""
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Takes no more connections, and ends those that it has."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                with self._lock:
                    self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_hand_on, args=pair, daemon=True).start()


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutter(port: int) -> Iterator[Cutter]:
    """A cutter before the server at a port."""
    found = Cutter(port)
    try:
        yield found
    finally:
        found.close()
