#!/usr/bin/env python3
"""A worker in Python: its handler reads the conversation, and returns the answer to the request."""

import signal

from ackbus import Bus, Message


def summary(bus: Bus, message: Message) -> dict[str, object]:
    """Bring together what the workers before this one found."""
    earlier = bus.read(conversation=message.conversation)
    payloads = {reply.type: reply.payload for reply in earlier}
    lint, _, _ = payloads["change.linted"].partition("---\n")
    findings = [*lint.splitlines(), *message.payload.splitlines()]
    return {"verdict": "mend it" if findings else "take it", "findings": findings}


with Bus.open() as bus:
    worker = bus.worker(
        "change.reviewed",
        group="summary",
        success_type="change.done",
        failure_type="change.failed",
    )
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    worker.run(lambda message: summary(bus, message))
