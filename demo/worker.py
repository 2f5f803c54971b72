"""A worker: takes tasks under leases, examines their files, and answers with the results."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict

from ..bus.bus import Bus
from ..schema.errors import LeaseLost
from ..subscribers.inboxes.session import Session
from .examine import examine
from .lifeline import end_with_parent
from .progress import Progress
from .protocol import (
    BEAT_EVERY_S,
    LEASE_S,
    RUN_FINISHED,
    TASK_ASSIGN,
    TASK_DONE,
    TASK_FAILED,
    TASK_HELD,
    WORKERS,
    lease_name,
    result_id,
)
from .tree import path_from_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.leases import Lease
    from ..schema.message.message import Message

#: How many messages a worker looks at together, at first.
WINDOW = 100

#: How many at most: when others hold all that is left of a window, a worker looks further ahead,
#: so that the task of a dead worker does not stop the rest until its lease has ended.
MAX_WINDOW = 1600

#: How long a worker that finds nothing to do waits, in seconds, for a ring of the doorbell; the
#: end of a dead worker's lease rings nothing.
LOOK_AGAIN_S = 0.2

#: How often a lease is renewed in the time that it lasts: one renewal may well come late.
RENEWALS_PER_LEASE = 3


def main(directory: str, root: str, agent: str, hold_at_grant: str) -> None:
    """Work until the run is finished.

    Args:
        directory: the bus.
        root: the real path of the directory that the tasks' paths begin in.
        agent: this worker's name.
        hold_at_grant: with the grant of a lease that has this token, hold still: that is how the
            demo chooses whom it kills.
    """
    end_with_parent()
    with Bus.open(directory) as bus, Session(bus, agent, beat_every_s=BEAT_EVERY_S) as me:
        Worker(me, root, int(hold_at_grant)).run()


class Worker:
    """One worker. Its cursor passes only tasks that are reported, by any worker.

    Args:
        me: its session.
        root: the directory that the tasks' paths begin in.
        hold_at_grant: the token with which it holds still.
        lease_s: how long a lease lasts that it does not renew, in seconds.
    """

    def __init__(
        self, me: Session, root: str, hold_at_grant: int, *, lease_s: float = LEASE_S
    ) -> None:
        self._me = me
        self._bus = me.bus
        self._root = root
        self._hold_at_grant = hold_at_grant
        self._lease_s = lease_s
        self._progress = Progress(me)
        # Workers begin in different places of a window, so that they rarely meet.
        self._share = WORKERS.index(me.agent) / len(WORKERS)

    def run(self) -> None:
        """Take free tasks, acknowledge reported ones, wait when there are neither."""
        limit = WINDOW
        with self._bus.listen() as listener:
            while True:
                window = self._me.inbox.poll(limit)
                worked = self._take_what_is_free(window)
                passed = self._acknowledge_reported(window)
                if any(message.type == RUN_FINISHED for message in passed):
                    return
                if passed:
                    limit = WINDOW
                elif not worked and len(window) == limit < MAX_WINDOW:
                    limit *= 2
                elif not worked:
                    self._progress.idle()
                    listener.wait(LOOK_AGAIN_S)

    def _take_what_is_free(self, window: list[Message]) -> bool:
        """Do every free task of the window; return whether there was one."""
        tasks = [message for message in window if message.type == TASK_ASSIGN]
        first = int(self._share * len(tasks))
        worked = False
        for task in tasks[first:] + tasks[:first]:
            lease = self._take(task)
            if lease is not None:
                worked = True
                self._do(task, lease)
        return worked

    def _acknowledge_reported(self, window: list[Message]) -> list[Message]:
        """Acknowledge the messages up to the first task without a result, and return them."""
        passed = []
        for message in window:
            if message.type == TASK_ASSIGN and not self._is_reported(message):
                break
            passed.append(message)
        if passed:
            self._me.inbox.ack(passed[-1])
        return passed

    def _is_reported(self, task: Message) -> bool:
        return self._bus.get(result_id(task.id)) is not None

    def _take(self, task: Message) -> Lease | None:
        """Take a task's lease, unless the task is reported or its lease is held."""
        if self._is_reported(task):
            return None
        # Looked at again inside: its worker may have reported it, and freed the lease, meanwhile.
        with self._bus.transaction():
            if self._is_reported(task):
                return None
            name = lease_name(task.id)
            return self._bus.leases.acquire(name, self._me.agent, ttl_s=self._lease_s)

    def _do(self, task: Message, lease: Lease) -> None:
        if lease.token == self._hold_at_grant:
            self._hold_still(task, lease)
        try:
            self._examine_and_report(task, lease)
        except LeaseLost:
            return  # another worker took the task over, and reports it
        self._progress.count()

    def _examine_and_report(self, task: Message, lease: Lease) -> None:
        holding, size = _Holding(self._bus, lease, self._lease_s), task.payload["size"]

        def tick(done_bytes: int) -> None:
            holding.keep()
            self._progress.tell(task, done_bytes / max(done_bytes, size))

        try:
            path = os.path.join(self._root, path_from_payload(task.payload))
            found = asdict(examine(path, tick))
        except OSError as error:
            self._report(task, lease, TASK_FAILED, {"error": error.strerror or str(error)})
        else:
            self._report(task, lease, TASK_DONE, found)

    def _report(self, task: Message, lease: Lease, type: str, found: dict[str, object]) -> None:
        """Publish the result and give the lease back, if it is still ours, in one transaction."""
        names = {name: task.payload[name] for name in ("path", "path_hex") if name in task.payload}
        payload = {**names, **found, "token": lease.token}
        with self._bus.transaction():
            self._bus.leases.check(lease)
            self._me.reply(task, type, payload, id=result_id(task.id))
            self._bus.leases.release(lease)

    def _hold_still(self, task: Message, lease: Lease) -> None:
        """Publish that the task is taken, and hold it until SIGKILL comes."""
        self._me.reply(task, TASK_HELD, {"path": task.payload["path"], "token": lease.token})
        while True:
            lease = self._bus.leases.renew(lease, ttl_s=self._lease_s)
            time.sleep(self._lease_s / RENEWALS_PER_LEASE)


class _Holding:
    """Keeps a lease through work that takes longer than the lease lasts."""

    def __init__(self, bus: Bus, lease: Lease, lease_s: float) -> None:
        self._leases = bus.leases
        self._lease = lease
        self._lease_s = lease_s
        self._renew_at = time.monotonic() + lease_s / RENEWALS_PER_LEASE

    def keep(self) -> None:
        """Renew the lease when a third of it is over. Raises `LeaseLost` when it is too late."""
        if time.monotonic() >= self._renew_at:
            self._lease = self._leases.renew(self._lease, ttl_s=self._lease_s)
            self._renew_at = time.monotonic() + self._lease_s / RENEWALS_PER_LEASE


if __name__ == "__main__":
    main(*sys.argv[1:])
