"""A receiver of webhooks before a service that runs, both in the process of the test."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from ackbus import Bus
from ackbus.server.running import Listeners, ServedApp
from ackbus.server.webhooks import BODY_S, webhook_app

from ..running import Running, running
from .senders import ENVIRON, Request


class Receiving:
    """The receiver: its URL, and the service behind it."""

    def __init__(self, url: str, served: Running) -> None:
        self.url = url
        self.served = served
        self.bus = served.bus
        self.client = httpx.Client(base_url=url, timeout=60)

    def send(self, request: Request, **more: str) -> httpx.Response:
        """Sends a request as its sender does."""
        path, headers, body = request
        return self.client.post(path, content=body, headers=headers | more)

    def take(self, request: Request) -> str:
        """Sends a request that is taken, and returns the id of its job."""
        answer = self.send(request)
        assert answer.status_code == 202, answer.text
        job_id = answer.json()["job_id"]
        assert isinstance(job_id, str)
        return job_id

    def connect(self) -> socket.socket:
        """Opens a connection of its own."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def jobs(self) -> list[str]:
        """The ids of all jobs of plugins, in their order."""
        return [message.id for message in self.bus.read(type="plugin.*.*")]


@contextmanager
def receiving(
    bus: Bus, folder: Path, *, environ: Mapping[str, str] = ENVIRON, body_s: float = BODY_S
) -> Iterator[Receiving]:
    """Serves the webhooks of a folder of configuration until the block ends."""
    with running(bus, folder, environ=dict(environ)) as served:
        service = served.service
        app = webhook_app(service.bus, lambda: service.snapshot, body_s=body_s)
        with Listeners([ServedApp("webhooks", "127.0.0.1:0", app)]) as listeners:
            listeners.start()
            found = Receiving(listeners.urls["webhooks"], served)
            with found.client:
                yield found
