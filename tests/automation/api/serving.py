"""The API of a service that runs in this process, asked over real HTTP."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx

from ackbus import Bus
from ackbus.automation.active_config import ConfigLoader, examine_folder
from ackbus.automation.service import Service
from ackbus.server.automation.app import create_api, end_waiting
from ackbus.server.connections import ClientTimeouts
from ackbus.server.running import Listeners, ServedApp

from ..conftest import Folder
from ..running import Running, serving

#: The keys of the tokens that `API` names, by the variable of each.
KEYS = {
    "ADMIN": "the-key-of-admin",
    "PLUGIN_RO": "the-key-of-plugin-ro",
    "PLUGIN_RW": "the-key-of-plugin-rw",
    "JOBS_RO": "the-key-of-jobs-ro",
    "JOBS_RW": "the-key-of-jobs-rw",
    "EVENTS_RO": "the-key-of-events-ro",
    "EVENTS_RW": "the-key-of-events-rw",
}

#: Tokens of each scope alone.
API = """
    api:
      enabled: true
      listen: 127.0.0.1:0
      auth:
        tokens:
          - {name: admin, token: "${ADMIN}", scopes: ["*"]}
          - {name: plugin-ro, token: "${PLUGIN_RO}", scopes: ["plugin:ro"]}
          - {name: plugin-rw, token: "${PLUGIN_RW}", scopes: ["plugin:rw"]}
          - {name: jobs-ro, token: "${JOBS_RO}", scopes: ["jobs:ro"]}
          - {name: jobs-rw, token: "${JOBS_RW}", scopes: ["jobs:rw"]}
          - {name: events-ro, token: "${EVENTS_RO}", scopes: ["events:ro"]}
          - {name: events-rw, token: "${EVENTS_RW}", scopes: ["events:rw"]}
"""


class Served:
    """A service with its API."""

    def __init__(self, running: Running, listeners: Listeners, stack: ExitStack) -> None:
        self.running = running
        self.bus = running.bus
        self.url = listeners.urls["API"]
        self.close = listeners.close
        self._stack = stack

    def client(self, key: str | None = KEYS["ADMIN"], **options: Any) -> httpx.Client:
        """A client that shows a key, or none."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)
        return self._stack.enter_context(client)


@contextmanager
def api_of(bus: Bus, folder: Folder, *, patience: ClientTimeouts | None = None) -> Iterator[Served]:
    """Runs the service of a folder, and serves its API, until the block ends."""
    with ExitStack() as stack:
        own = stack.enter_context(Bus.open(bus.layout.directory))
        loader = ConfigLoader(lambda: examine_folder(folder.path, KEYS))
        service = Service(own, loader, on_reloaded=loader.end)
        running = stack.enter_context(serving(bus, service))

        def reload() -> list[str]:
            loader.reload(service)
            return []

        app = create_api(own, service, reload, patience=patience)
        door = ServedApp("API", "127.0.0.1:0", app, on_stop=lambda: end_waiting(app))
        listeners = stack.enter_context(Listeners([door]))
        listeners.start()
        yield Served(running, listeners, stack)


def problem(response: httpx.Response, status: int, kind: str) -> str:
    """Checks that a response is a certain problem, and returns its detail."""
    body = response.json()
    assert (response.status_code, body["type"]) == (status, f"urn:ackbus:{kind}"), body
    assert response.headers["Content-Type"] == "application/problem+json"
    assert body["error"] == body["detail"]
    return str(body["detail"])
