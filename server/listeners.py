"""The HTTP listeners of a service: each serves an application beside the service's own loop.

An address is taken before the service begins, so that one that can't be had keeps it from starting;
requests are answered as soon as jobs can run, and until the service has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from types import TracebackType

from starlette.applications import Starlette

from ..schema.errors import AckbusError
from ..schema.processes import start_thread
from .client_timeouts import Patience
from .listening import Server, listen_on, server_config, url_of


@dataclass(frozen=True)
class Door:
    """An application, and where it is to be served.

    Attributes:
        name: for people and the log.
        listen: the address, HOST:PORT as in a configuration; the port 0 takes a free one.
        app: the application; its `state.hang_up` becomes the way to drop a client.
        patience: the timeouts of clients.
        on_stop: ends what waits in the application, from any thread, so that it can stop.
    """

    name: str
    listen: str
    app: Starlette
    patience: Patience = field(default_factory=Patience)
    on_stop: Callable[[], object] = lambda: None


class Listeners:
    """The listeners of some doors, from `start` to the end of the `with` block.

    Args:
        doors: what is served; their addresses are taken at once.

    Raises:
        AckbusError: an address can't be had; none is taken then.
    """

    def __init__(self, doors: Iterable[Door]) -> None:
        self._listeners: list[_Listener] = []
        try:
            for door in doors:
                self._listeners.append(_Listener(door))
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> dict[str, str]:
        """The URL of each door, by its name."""
        return {each.door.name: each.url for each in self._listeners}

    def start(self) -> None:
        """Answer requests from now on; those that came before have waited.

        Raises:
            AckbusError: an application can't be served; its log says why.
        """
        for listener in self._listeners:
            listener.start()

    def close(self) -> None:
        """End the requests that run, and free the addresses. Safe to repeat."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.stop_soon()
        for listener in listeners:
            listener.close()

    def __enter__(self) -> Listeners:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Listener:
    """One door: its socket, and the thread that serves it."""

    def __init__(self, door: Door) -> None:
        self.door = door
        host, _, port = door.listen.rpartition(":")
        host = host.strip("[]")
        self._socket = listen_on(host, int(port))
        self.url = url_of(host, self._socket)
        self._settled = Event()
        config = server_config(door.app, door.patience)
        self._server = Server(config, self._settled.set, door.on_stop, door.patience)
        door.app.state.hang_up = self._server.hang_up
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = start_thread(self._serve, f"{self.door.name} listener")
        self._settled.wait()
        if not self._server.started:
            raise AckbusError(f"{self.door.name} can't be served on {self.door.listen}")

    def stop_soon(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._server.stop()
            self.door.on_stop()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        try:
            # It exits where its application can't start, as if the process were its own.
            with suppress(SystemExit):
                self._server.run(sockets=[self._socket])
        finally:
            self._settled.set()
