"""The coordinator: assigns a task for each file, and collects the results."""

from __future__ import annotations

import sys
import time

from ..bus.bus import Bus
from ..schema.message.draft import Draft
from ..subscribers.inboxes.session import Session
from .lifeline import end_with_parent
from .protocol import (
    BEAT_EVERY_S,
    COORDINATOR,
    RESULTS,
    RUN_FINISHED,
    TASK_ASSIGN,
    TASK_FAILED,
    TASKS_ASSIGNED,
)
from .tree import Tree, path_to_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: How many tasks are assigned in one transaction, and how many messages are collected at once.
BATCH_MESSAGES = 500

#: How long the coordinator lets results gather before it looks again, in seconds. Each look ends
#: with an acknowledgement, and the workers have more use for the write lock.
GATHER_S = 0.02

#: How long it waits for a ring of the doorbell, in seconds.
LOOK_AGAIN_S = 1.0


def main(directory: str, root: str) -> None:
    """Coordinate one run.

    Args:
        directory: the bus.
        root: the real path of the directory whose files are the tasks.
    """
    end_with_parent()
    with (
        Bus.open(directory) as bus,
        Session(bus, COORDINATOR, beat_every_s=BEAT_EVERY_S) as me,
    ):
        tree = Tree(root, leave_out=bus.layout.directory)
        me.heart.update("working", task="assigning")
        tasks = assign(bus, tree)
        me.publish(
            TASKS_ASSIGNED,
            {"tasks": tasks, "binary": tree.binary, "unreadable_directories": tree.unreadable},
        )
        done, failed = collect(me, tasks)
        me.publish(RUN_FINISHED, {"done": done, "failed": failed})


def assign(bus: Bus, files: Iterable[tuple[str, int]]) -> int:
    """Publish a task for each file, and return how many there are."""
    count = 0
    batch: list[Draft] = []
    for path, size in files:
        payload = {**path_to_payload(path), "size": size}
        batch.append(Draft(TASK_ASSIGN, payload, from_agent=COORDINATOR))
        if len(batch) == BATCH_MESSAGES:
            count += len(bus.publish_many(batch))
            batch.clear()
    return count + len(bus.publish_many(batch))


def collect(me: Session, tasks: int) -> tuple[int, int]:
    """Take results out of the inbox until every task has one.

    Returns:
        How many tasks were done, and how many failed.
    """
    done = failed = 0
    with me.bus.listen() as listener:
        while done + failed < tasks:
            messages = me.inbox.poll(BATCH_MESSAGES)
            for message in messages:
                if message.type in RESULTS:
                    failed += message.type == TASK_FAILED
                    done += message.type != TASK_FAILED
            if not messages:
                listener.wait(LOOK_AGAIN_S)
                continue
            me.inbox.ack(messages[-1])
            me.heart.update("working", task="collecting", progress=(done + failed) / tasks)
            time.sleep(GATHER_S)
    return done, failed


if __name__ == "__main__":
    main(*sys.argv[1:])
