"""The timeouts of clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """The timeouts of clients.

    Attributes:
        stalled_s: how long a client may take for the next MiB of a body or a blob, or for what a
            stream sent it, before it is dropped, in seconds. What a stream sent is at most a batch
            and what the system buffers.
        head_s: how long it may take for the head of a request, from the one before or from its
            connection on, in seconds.
        keep_alive_s: how often it hears that a stream is alive, when nothing comes, in seconds.
    """

    stalled_s: float = 30.0
    head_s: float = 30.0
    keep_alive_s: float = 15.0
