"""The way in for people's messages, answered by a stream of events."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from fastapi import Response
from starlette.responses import StreamingResponse

from ...tasks.control.ingress import Ingress
from ..access.access import GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import TheBody, TheBus, TheTeller, TheTrace

router = GuardedRouter(PUSHPALS)


@router.post("/message")
def take(
    body: TheBody, bus: TheBus, tell: TheTeller, trace: TheTrace, person: TheClient
) -> Response:
    """Take a message in: `status` as often as needed, then `complete` or `error`."""
    ingress = Ingress(bus, tell)
    ingress.check(body)
    agent = person.agent

    def events() -> Iterator[bytes]:
        for event in ingress.take(body, agent=agent, trace=trace):
            yield b"data: " + orjson.dumps(event) + b"\n\n"

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(), headers=headers, media_type="text/event-stream")
