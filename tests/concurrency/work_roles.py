"""The workers of these tests: `python work_roles.py ROLE ARGUMENT…`."""

import json
import os
import random
import signal
import sys
import sysconfig
import time

from ackbus import Bus, Message
from ackbus.workers.worker import Worker

#: How long the slow ones of the handlers take, in seconds: several leases of a claim would be
#: too long for a test, and no time at all would hardly ever meet a kill.
SLOW_S = 0.02


def tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def python(directory: str, queue: str, lease_s: str, concurrency: str) -> None:
    """Works with a Python function until SIGTERM; tells [seq, token] when it begins."""
    chance = random.Random()

    def handle(message: Message) -> object:
        tell([message.seq, message.token])
        if chance.random() < 0.25:
            time.sleep(SLOW_S)
        return message.payload

    with Bus.open(directory) as bus:
        worker = Worker(bus, queue, lease_s=float(lease_s), concurrency=int(concurrency))
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run(handle)


def shell(directory: str, queue: str, lease_s: str, concurrency: str) -> None:
    """Becomes `bus run`, with a command that answers with the request."""
    bus = os.path.join(sysconfig.get_path("scripts"), "bus")
    options = ["--dir", directory, "--queue", queue, "--lease", lease_s]
    os.execv(bus, [bus, "run", *options, "--concurrency", concurrency, "--", "cat"])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
