"""A client of PushPals' protocol, as its own are: commands, and events by SSE or WebSocket.

It chooses the transport by its environment, takes the other where one fails, and comes back from
the last cursor that it has.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

#: The least time before a client comes back, in seconds.
LEAST_RECONNECT_S = 0.5


@dataclass
class Client:
    """A client of one session.

    Attributes:
        url: of the server.
        session: its id.
        env: `PUSHPALS_TRANSPORT` is `sse`, `ws`, or `auto`.
        reconnect_s: how long it waits before it comes back.
        cursor: of the last event that it has.
        connections: the transports of its connections so far.
    """

    url: str
    session: str
    env: Mapping[str, str] = field(default_factory=dict)
    reconnect_s: float = 3.0
    cursor: int = 0
    token: str | None = None
    connections: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def join(self) -> int:
        """Makes the session, or joins it; returns the status."""
        body = {"sessionId": self.session}
        found = httpx.post(f"{self.url}/sessions", json=body, headers=self._headers(), timeout=60)
        assert found.json() == {"sessionId": self.session, "protocolVersion": "0.1.0"}
        return found.status_code

    def emit(self, type: str, payload: Mapping[str, Any], **routing: str) -> dict[str, Any]:
        """Posts an event, and returns what the server says."""
        body = {"type": type, "payload": payload, **routing}
        url = f"{self.url}/sessions/{self.session}/command"
        found: dict[str, Any] = httpx.post(
            url, json=body, headers=self._headers(), timeout=20
        ).json()
        return found

    def events(self) -> Iterator[dict[str, Any]]:
        """Yields envelopes for ever, whatever becomes of its connections."""
        transport = self.env.get("PUSHPALS_TRANSPORT", "auto")
        by_socket = transport == "ws"
        while not self.stopped.is_set():
            try:
                for cursor, envelope in self._by_socket() if by_socket else self._by_sse():
                    self.cursor = max(self.cursor, cursor)
                    yield envelope
            except (httpx.HTTPError, OSError, WebSocketException):
                by_socket = by_socket if transport != "auto" else not by_socket
            self.stopped.wait(max(LEAST_RECONNECT_S, self.reconnect_s))

    def _by_sse(self) -> Iterator[tuple[int, dict[str, Any]]]:
        url = f"{self.url}/sessions/{self.session}/events"
        query = {"after": self.cursor} if self.cursor else {}
        headers = self._headers()
        with httpx.stream("GET", url, params=query, headers=headers, timeout=60) as response:
            response.raise_for_status()
            self.connections.append("sse")
            yield from frames(response)

    def _by_socket(self) -> Iterator[tuple[int, dict[str, Any]]]:
        query = f"?after={self.cursor}" if self.cursor else ""
        url = f"{self.url.replace('http', 'ws')}/sessions/{self.session}/ws{query}"
        with connect(url, additional_headers=self._headers()) as socket:
            self.connections.append("ws")
            for text in socket:
                yield unwrapped(json.loads(text))

    def _headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def frames(response: httpx.Response) -> Iterator[tuple[int, dict[str, Any]]]:
    """The cursor and envelope of each event of a stream, as it comes."""
    id = 0
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            id = int(value)
        elif name == "data":
            cursor, envelope = unwrapped(json.loads(value))
            assert cursor == id
            yield cursor, envelope


def unwrapped(frame: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The cursor and envelope of a frame, which has nothing else."""
    assert frame.keys() == {"envelope", "cursor"}
    return frame["cursor"], frame["envelope"]
