"""`Bus`: an open bus, from which all of the library is reached.

Its parts are in rooms above the log, which the log knows nothing of; each is loaded by the first
call that needs it.
"""

from __future__ import annotations

import os

from .bus.local_bus import LocalBus
from .schema.arguments import with_checked_arguments
from .schema.message import lazy_orjson
from .schema.message.draft import ABSENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO, Literal, Unpack

    from .export.jsonl.exporter import Exporter
    from .export.jsonl.importer import FieldMap, ImportReport
    from .schema.message.fields import MessageFields
    from .subscribers.answers import Answer
    from .subscribers.inboxes.inbox import Inbox
    from .subscribers.inboxes.session import Session
    from .subscribers.options import InboxOptions, PolicyRules, Start, WorkerOptions
    from .subscribers.overview.trace import ReadReceipt
    from .subscribers.queues.queue import Queue
    from .subscribers.requests import Request
    from .tasks.finish import Cleaned
    from .tasks.records.task import Task
    from .tasks.spawn import TaskSpec
    from .tasks.steps.tasks import Tasks
    from .workers.worker import Worker

lazy_orjson.load()  # a program lives longer than a command


@with_checked_arguments
class Bus(LocalBus):
    """An open bus. Share it between threads freely; after a fork, open it again in the child.

    Make one with `Bus.init` or `Bus.open`. It is a context manager that closes itself.

    Attributes:
        blobs: the blob store.
    """

    def inbox(self, agent: str, **options: Unpack[InboxOptions]) -> Inbox:
        """Return the inbox of an agent. Reads nothing yet.

        Args:
            agent: whose; it needs no registration.
            options: as for `Inbox`.

        Raises:
            InvalidInput: an argument breaks its rule.
        """
        from .subscribers.inboxes.inbox import Inbox

        return Inbox(self, agent, **options)

    def session(
        self, agent: str, *, interval_s: float = 10.0, **options: Unpack[InboxOptions]
    ) -> Session:
        """Return a context in which an agent is there: it has an inbox, and its heart beats.

        Args:
            agent: its name.
            interval_s: the time between two heartbeats, in seconds.
            options: as for `Inbox`.

        Raises:
            InvalidInput: an argument breaks its rule.
        """
        from .subscribers.inboxes.session import Session

        return Session(self, agent, interval_s=interval_s, **options)

    def queue(self, name: str) -> Queue:
        """Return a queue that exists.

        Raises:
            QueueNotFound: there is none of this name.
        """
        from .subscribers.queues.queue import Queue

        return Queue.open(self, name)

    def create_queue(
        self,
        name: str,
        pattern: str | None = None,
        *,
        start: Start = "beginning",
        group: str | None = None,
        **rules: Unpack[PolicyRules],
    ) -> Queue:
        """Create a queue, unless it exists, and return it. Safe to repeat.

        Arguments and errors as for `Queue.create`.
        """
        from .subscribers.queues.queue import Queue

        return Queue.create(self, name, pattern, start=start, group=group, **rules)

    def worker(self, queue: Queue | str, **options: Unpack[WorkerOptions]) -> Worker:
        """Return a worker of a queue; its `run` works on the jobs.

        Args:
            queue: a queue, or the name of a queue; if there is none of the name, it is created.
            options: as for `Worker`.

        Raises:
            InvalidInput: an argument breaks its rule.
        """
        from .workers.worker import Worker

        return Worker(self, queue, **options)

    def request(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        timeout_s: float | None = None,
        success_type: str | None = None,
        failure_type: str | None = None,
        **fields: Unpack[MessageFields],
    ) -> Answer:
        """Publish a request, wait for the first message that answers it, and return that.

        Args:
            type, payload, from_agent: as for `publish`.
            timeout_s: how long to wait, in seconds; None waits for ever.
            success_type, failure_type, fields: as for `Request.send`.

        Raises:
            TimedOut: no answer came in that time. The request stands, and may still be answered.
            As for `Request.send`.
        """
        sent = self.send_request(
            type,
            payload,
            from_agent=from_agent,
            success_type=success_type,
            failure_type=failure_type,
            **fields,
        )
        return sent.wait(timeout_s)

    async def request_async(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        timeout_s: float | None = None,
        success_type: str | None = None,
        failure_type: str | None = None,
        **fields: Unpack[MessageFields],
    ) -> Answer:
        """Publish a request and wait for its answer, as `request` does, without blocking the loop.

        A cancelled call may have published the request.
        """
        from .subscribers.requests import Request

        sent = await Request.send_async(
            self,
            type,
            payload,
            from_agent=from_agent,
            success_type=success_type,
            failure_type=failure_type,
            **fields,
        )
        return await sent.wait_async(timeout_s)

    def send_request(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        success_type: str | None = None,
        failure_type: str | None = None,
        **fields: Unpack[MessageFields],
    ) -> Request:
        """Publish a request, and return it; its `wait` waits for the answer.

        Arguments and errors as for `Request.send`.
        """
        from .subscribers.requests import Request

        return Request.send(
            self,
            type,
            payload,
            from_agent=from_agent,
            success_type=success_type,
            failure_type=failure_type,
            **fields,
        )

    def answer(
        self,
        conversation: str,
        *,
        success_type: str | None = None,
        failure_type: str | None = None,
        which: Literal["last", "first"] = "last",
    ) -> Answer:
        """Return the answer in a conversation, or that it is pending, without waiting.

        It only looks: the answer stays in the inbox of the agent that asked (`Inbox.receive`).

        Its request is its first message whose type ends in `.request`, or else its first message;
        messages before the request are no answer to it. An unknown conversation is pending.

        Args:
            conversation: its id; or the id of a request among several in a conversation.
            success_type, failure_type: the types of the answers; those left out follow the
                convention by the request's type.
            which: which answer counts where there are several: the `last` or the `first`.

        Raises:
            InvalidInput: neither the convention nor the arguments say what would be an answer, or
                `which` is something else.
        """
        from .subscribers.answers import answer_in

        return answer_in(
            self, conversation, success_type=success_type, failure_type=failure_type, which=which
        )

    def read_receipts(self, key: int | str) -> list[ReadReceipt]:
        """Return the state of a message at each reader: inboxes by name, then queues.

        Readers are its recipient; of a broadcast, all agents with a cursor that want it; and the
        queues that take it in. A message that a cursor has passed counts as acknowledged, read or
        not.

        Args:
            key: the seq or id of a message, also an archived message.

        Raises:
            NotFound: there is no such message.
        """
        from .subscribers.overview.trace import read_receipts

        return read_receipts(self, key)

    @property
    def tasks(self) -> Tasks:
        """The tasks on git branches."""
        from .tasks.steps.tasks import Tasks

        return Tasks(self)

    def spawn_task(self, spec: TaskSpec, *, agent: str, lease_s: float | None = None) -> Task:
        """Make a task, its branch and its work tree, and give it to its worker under a lease.

        Repeated it returns the task as it is, mends its tree, and gives the worker a lease again
        while the task is ASSIGNED and free. It blocks while git checks out the tree.

        Args:
            spec: what is to be done, by whom, and where.
            agent: the agent that assigns it.
            lease_s: how long the worker has it without a renewal, in seconds; None: an hour.

        Raises:
            TaskExists: there is a task of this name, of another worker, branch or repository, with
                other terms.
            WrongTaskState: it is CANCELLED or FAILED, unless it came from the queue.
            Refused: the branch or the path is somebody else's, or the base is no commit.
            LeaseLost: another worker has the lease of this name.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
        """
        from .tasks.records.task import LEASE_S
        from .tasks.spawn import Spawner

        return Spawner(self).spawn(
            spec, agent=agent, lease_s=LEASE_S if lease_s is None else lease_s
        )

    def mend_task_tree(self, task: Task, spec: TaskSpec | None = None) -> None:
        """Make the work tree of a task again where it is gone, with what it had.

        Args:
            task: as it is.
            spec: how a new tree is filled; None: as by default.

        Raises:
            Refused: its place is somebody else's, or none of a tree of this repository.
            NotTrusted: only its row names its repository.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
        """
        from .tasks.spawn import Spawner

        Spawner(self).mend(task, spec)

    def finish_task(self, name: str, *, agent: str, token: int) -> Task:
        """Pin the head of a task's branch as its result, and keep it. Safe to repeat.

        Args:
            name: of the task.
            agent: its holder.
            token: of the lease on it.

        Raises:
            TaskNotFound: there is no such task.
            LeaseLost: it is not held with this token any more.
            WrongTaskState: it is not WORKING.
            Refused: its tree is not there, is not clean, or is on another branch.
            NothingDone: no commit is beyond the base.
            GitFailed: git can't look, or refuses the ref that keeps the head.
        """
        from .tasks.finish import finish_task

        return finish_task(self, name, agent=agent, token=token)

    def clean_tasks(
        self,
        names: Sequence[str] = (),
        *,
        folder: str = os.curdir,
        keeps_files: bool = False,
        is_dry: bool = False,
    ) -> list[Cleaned]:
        """Remove the work trees and branches of tasks that are over; lose nothing. Safe to repeat.

        Args:
            names: of tasks, and of trees that were never finished; none: all tasks whose state is
                final.
            folder: in a repository where trees without a task are looked for besides those of
                tasks.
            keeps_files: whether files that are not committed are kept at a ref; else they keep
                their tree from being removed.
            is_dry: whether nothing is changed, but said.

        Raises:
            TaskNotFound: there is no task of a name, and no tree that was never finished.
        """
        from .tasks.finish import Cleaner

        return Cleaner(self, folder).clean(names, keeps_files=keeps_files, is_dry=is_dry)

    def exporter(self) -> Exporter:
        """Return what keeps `bus.jsonl`: `export_once` now, or `start` in a thread."""
        from .export.jsonl.exporter import Exporter

        return Exporter(self)

    def import_jsonl(
        self,
        stream: BinaryIO,
        *,
        field_map: FieldMap | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> ImportReport:
        """Publish every line of a stream that is not in the log yet, with its own id and time.

        Repeating an import, also after a crash, stores nothing twice. A line that can't be a
        message is skipped and reported; the others are stored, at most 1,000 lines or some 8 MiB in
        a transaction.

        Args:
            stream: open for reading bytes; read in bounded memory.
            field_map: the mapping of fields; None for lines of `bus.jsonl`.
            progress: called after each transaction with the number of bytes read so far.

        Raises:
            ConflictMarkers: git left a conflict in the lines; nothing is stored.
            Refused: a line is longer than any of a message can be.
            BusBusy, BusUnusable: the bus can't be written; messages stored before stay.
        """
        from .export.jsonl.importer import import_jsonl

        return import_jsonl(self, stream, field_map=field_map, progress=progress)
