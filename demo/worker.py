"""A worker of the demo: a process that examines files as jobs, and may hold still at one."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import asdict

from ..bus.bus import Bus
from ..subscribers.queues.queue import Queue
from ..workers.worker import Worker
from .examine import examine
from .protocol import HELD, LEASE_S, TASK
from .tree import path_from_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema.message.message import Message

_STDIN = 0


def main(directory: str, root: str, name: str, held_seq: str) -> None:
    """Work until standard input ends: the demo closes it, or the kernel when the demo is gone.

    Args:
        directory: the bus.
        root: the real path of the directory that the tasks' paths begin in.
        name: this worker's.
        held_seq: the task with which its first worker holds still, to be killed.
    """
    over = threading.Event()
    with Bus.open(directory) as bus:
        worker = Worker(
            bus, Queue.open(bus, TASK), group=name, instance=f"pid {os.getpid()}", lease_s=LEASE_S
        )

        def wait_for_end() -> None:
            while os.read(_STDIN, 1):
                pass
            over.set()
            worker.stop()

        def work(task: Message) -> dict[str, object]:
            if task.seq == int(held_seq) and task.attempt == 1:
                bus.publish(HELD, task.payload, from_agent=name, in_reply_to=task.id)
                over.wait()
            try:
                found = asdict(examine(os.path.join(root, path_from_payload(task.payload))))
            except OSError as error:
                found = {"error": error.strerror or str(error)}
            return {**task.payload, **found}

        threading.Thread(target=wait_for_end, name="lifeline", daemon=True).start()
        worker.run(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
