"""Webhooks in, as a configuration has them: the listener, and the paths that it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .records import NOWHERE, Place, Secret

#: The forms of signatures: `automation/webhooks/signatures.py` says what each signs.
SignatureFormat = Literal["plain", "standard", "stripe"]

#: How far a signed time may be from now, in seconds, as senders' documents ask for.
REPLAY_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part of a request: a header, or a field of the JSON object that its body is."""

    where: Literal["header", "body"]
    name: str

    def __str__(self) -> str:
        return f"{self.where}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A count of requests in a time; as many may come at once."""

    count: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """A path that takes signed requests.

    Each is a job of its plugin, a run of its pipeline, or else an event that begins pipelines.

    Attributes:
        path, name: where it listens; the name is the path unless it has one.
        plugin, command: the job.
        pipeline: the run.
        event_type, event_type_from: the type of the event, and a part of the request that is added
            to it after a dot, or is the type where there is no other.
        secret_ref, previous_secret_ref: the tokens with the secret, and with the one before it.
        signature_prefix: what a plain signature begins with; None takes bare ones and ``sha256=``.
        replay_window_s: how far a signed time may be from now.
        max_body_bytes: a longer body is refused.
        delivery_id: the part of the request that is the same when a delivery is repeated.
        rate: how many signed requests are taken; None is no limit.
    """

    path: str
    name: str = ""
    plugin: str | None = None
    command: str = "handle"
    pipeline: str | None = None
    event_type: str | None = None
    event_type_from: PartOf | None = None
    secret_ref: str
    secret: Secret
    previous_secret_ref: str | None = None
    previous_secret: Secret | None = None
    signature_header: str
    signature_prefix: str | None = None
    signature_format: SignatureFormat = "plain"
    replay_window_s: float = REPLAY_WINDOW_S
    max_body_bytes: int = 1_048_576
    delivery_id: PartOf | None = None
    rate: Rate | None = None
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def target(self) -> str:
        """A word for what a request becomes: a job, a run, or an event."""
        if self.plugin is not None:
            return f"{self.plugin}.{self.command}"
        if self.pipeline is not None:
            return f"pipeline {self.pipeline}"
        parts = [self.event_type, self.event_type_from and f"<{self.event_type_from}>"]
        return f"event {'.'.join(part for part in parts if part)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksConfig:
    """The listener of webhooks, and its paths."""

    listen: str = "127.0.0.1:8081"
    endpoints: tuple[WebhookEndpoint, ...] = ()
