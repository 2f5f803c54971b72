"""The roles of a torture run, and the process of one agent, which plays one of them."""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import warnings

from ..bus.doorbell import wait_for
from ..bus.local_bus import LocalBus
from ..bus.maintenance import Maintenance
from ..export.archive_writer import Archiver
from ..export.jsonl.exporter import Exporter
from ..schema.errors import LeaseLost
from ..schema.message.draft import Draft
from ..subscribers.inboxes.inbox import Inbox
from ..subscribers.jobs.errors import ClaimLost
from ..subscribers.overview.retention import Retention
from ..subscribers.queues.queue import Queue
from .history import (
    ANSWER,
    ASK,
    JOB,
    JOB_DONE,
    JOB_FAILED,
    NOTE,
    PUBLISHER,
    QUEUE,
    READER,
    SIZES,
    TURN,
    ActHistory,
    agents_with,
    roles_of,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from ..bus.leases import Lease
    from ..schema.message.message import Message
    from ..subscribers.jobs.claims import Claim

    #: The record of a message: id, type, recipient, size, id of its parent.
    Line = tuple[str, str, str | None, int, str | None]

    T = TypeVar("T")

# The lifeline of an agent's process: a pipe by which its parent tells it to end.
#
# A byte asks the agent to end in good order. The end of the pipe, which the kernel brings about
# when the parent is gone, ends it at once.

_STDIN = 0

#: The exit code of a process that lost its parent: the same as of an interrupted one.
INTERRUPTED = 130


class Lifeline:
    """Listens to the parent in a thread of its own."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    @property
    def ending(self) -> bool:
        """Whether the agent is to come to an end."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than until the agent is to end."""
        self._asked.wait(seconds)

    def call_at_end(self, act: Callable[[], object]) -> None:
        """Call a function as soon as the agent is to end; for agents that wait without `wait`."""
        self._callbacks.append(act)
        if self.ending:
            act()

    def _listen(self) -> None:
        while os.read(_STDIN, 1):
            self._asked.set()
            for act in self._callbacks:
                act()
        os._exit(INTERRUPTED)


# The protocol of the agents: the length of leases, and the policy of their queue.

#: How long leases and claims last, in seconds: those of killed agents must end soon.
LEASE_S = 2.0

#: How many attempts a job has. They end by kill -9 all the time, and none may be given up for it.
MAX_ATTEMPTS = 1_000_000

#: The base of the pause before the next attempt, in seconds.
BACKOFF_S = 0.05

#: How often each agent sends a heartbeat, in seconds: far more often than in real use.
BEAT_EVERY_S = 1.0

# The mail of an agent: it polls, answers questions, and acknowledges in order.

#: How many messages a poll brings at most.
MAX_POLL = 50

#: The share of messages that are acknowledged by themselves, and not together with others.
ONE_BY_ONE = 0.2


class AgentMail:
    """The inbox of one agent."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._inbox = Inbox(context.bus, context.name)

    def take(self) -> bool:
        """Take unread messages, up to a random number, and return whether there were any."""
        limit = self._context.rng.randint(1, MAX_POLL)
        with self._context.history.attempt("poll", limit=limit) as attempt:
            messages = self._inbox.poll(limit)
            attempt.record_result(seqs=[message.seq for message in messages])
        for message in messages:
            asked = message.type == ASK and message.to_agent == self._context.name
            if asked:
                self._answer(message)
            elif message is messages[-1] or self._context.rng.random() < ONE_BY_ONE:
                self._acknowledge(message)
        return bool(messages)

    def _acknowledge(self, message: Message) -> None:
        with self._context.history.attempt("ack", seq=message.seq) as attempt:
            attempt.record_result(cursor=self._inbox.ack(message))

    def _answer(self, message: Message) -> None:
        answer = Draft(
            ANSWER,
            from_agent=self._context.name,
            to_agent=message.from_agent,
            in_reply_to=message.id,
        )
        with self._context.history.attempt("ack", seq=message.seq, answers=message.id) as attempt:
            receipts = self._inbox.complete(message, answer)
            attempt.record_result(cursor=self._inbox.position, first=receipts is not None)


# A publisher: notes, questions and jobs, one or several at a time, some of them again.

#: How long it thinks between two publishes at most, in seconds.
PUBLISHER_THINKS_S = 0.1

#: The share of publishes that have several messages, and how many messages at most.
TOGETHER, MAX_TOGETHER = 0.1, 10

#: The kinds of published messages, and how many of 100 are of each kind.
KINDS = {NOTE: 45, ASK: 20, JOB: 30, "broadcast": 5}

#: The share of notes that answer an earlier message, and of publishes after which mail is taken.
ANSWERS, TAKES_MAIL = 0.3, 0.1


def play_publisher(context: AgentContext) -> None:
    """Publish until it is over."""
    PublisherRole(context).run()


class PublisherRole:
    """One life of a publisher."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._mail = AgentMail(context)
        self._count = 0
        self._last: str | None = None

    def run(self) -> None:
        """Publish until the end, first the messages that the last life may have left undone."""
        self._repeat()
        while not self._context.lifeline.ending:
            rng = self._context.rng
            together = rng.randint(2, MAX_TOGETHER) if rng.random() < TOGETHER else 1
            self._publish([self._line() for _ in range(together)])
            if rng.random() < TAKES_MAIL:
                self._mail.take()
            self._context.pause(PUBLISHER_THINKS_S)

    def _repeat(self) -> None:
        """Publish again the batch of a killed last life, with the same ids; or leave it."""
        act = self._context.history.cut_off()
        if act is not None and act.kind == "publish" and self._context.rng.random() < 0.5:
            self._publish([tuple(line) for line in act.what["messages"]])

    def _publish(self, lines: list[Line]) -> None:
        drafts = [draft_of(self._context.name, line) for line in lines]
        with self._context.history.attempt("publish", messages=lines) as attempt:
            receipts = self._context.bus.publish_many(drafts)
            attempt.record_result(seqs=[receipt.seq for receipt in receipts])
        self._last = lines[-1][0]

    def _line(self) -> Line:
        rng = self._context.rng
        self._count += 1
        id = f"{self._context.name}.{self._context.history.life}.{self._count}"
        kind = self._context.choose(KINDS)
        size = self._context.choose(SIZES)
        if kind == "broadcast":
            return id, NOTE, None, size, None
        to = self._context.any_of(READER if kind != NOTE else rng.choice((READER, PUBLISHER)))
        parent = self._last if kind == NOTE and rng.random() < ANSWERS else None
        return id, kind, to, size, parent


def draft_of(agent: str, line: Line) -> Draft:
    """Return the message that a line stands for."""
    id, type, to, size, parent = line
    return Draft(type, text_of(id, size), from_agent=agent, to_agent=to, id=id, in_reply_to=parent)


# A reader: takes its mail as it comes, and the rest before it ends.

#: How long it waits for a ring of the doorbell, in seconds, and how long it thinks at most.
READER_LOOKS_AGAIN_S, READER_THINKS_S = 0.5, 0.05


def play_reader(context: AgentContext) -> None:
    """Read until it is over."""
    mail = AgentMail(context)

    def read_all() -> bool:
        ending = context.lifeline.ending  # before the mail: what came until then is read
        while mail.take():
            context.pause(READER_THINKS_S)
        return ending

    wait_for(context.bus, read_all, recheck_s=READER_LOOKS_AGAIN_S)


# A worker: claims jobs, and completes them with an answer, fails them, drops them, or is late.

#: How many jobs are claimed together at most.
MAX_CLAIMS = 4

#: How long it waits for a ring of the doorbell, in seconds, and how long it thinks at most.
WORKER_LOOKS_AGAIN_S, WORKER_THINKS_S = 0.25, 0.03

#: The fates of attempts, of 1000. `late` ends after its lease, `dropped` never does.
FATES = {"completed": 880, "failed": 40, "given up": 30, "renewed": 20, "dropped": 10, "late": 20}


def play_worker(context: AgentContext) -> None:
    """Work until the run is over and no job is left for any worker."""
    worker = WorkerRole(context)

    def work_all() -> bool:
        ending = context.lifeline.ending
        while worker.work():
            pass
        return ending and worker.has_no_jobs_left()

    wait_for(context.bus, work_all, recheck_s=WORKER_LOOKS_AGAIN_S)


class WorkerRole:
    """One life of a worker."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._queue = Queue.open(context.bus, QUEUE)

    def work(self) -> bool:
        """Do the jobs that can be claimed at once, and return whether there were any."""
        limit = self._context.rng.randint(1, MAX_CLAIMS)
        with self._context.history.attempt("claim", lease_s=LEASE_S) as attempt:
            claims = self._queue.claim(self._context.name, limit=limit, lease_s=LEASE_S)
            attempt.record_result(claims=[[claim.message.seq, claim.token] for claim in claims])
        for claim in claims:
            self._context.pause(WORKER_THINKS_S)
            fate = self._context.choose(FATES)
            self._end(claim, fate)
        return bool(claims)

    def has_no_jobs_left(self) -> bool:
        """Whether no job waits for its time, or for the end of a lease."""
        return self._queue.next_change_ms() is None

    def _end(self, claim: Claim, fate: str) -> None:
        if fate == "dropped":
            return
        if fate == "late":
            self._context.lifeline.wait(LEASE_S)
        if fate == "renewed" and not self._renew(claim):
            return
        act = "complete" if fate not in ("failed", "given up") else "fail"
        what = {"seq": claim.message.seq, "token": claim.token, "fate": fate}
        with self._context.history.attempt(act, **what) as attempt:
            try:
                if act == "complete":
                    receipts = self._queue.complete(claim, self._answer(claim, JOB_DONE))
                else:
                    answer = self._answer(claim, JOB_FAILED)
                    receipts = self._queue.fail(claim, fate, answer, retry=fate == "failed")
            except ClaimLost:
                attempt.record_result(lost=True)
            else:
                attempt.record_result(answers=[receipt.seq for receipt in receipts])

    def _renew(self, claim: Claim) -> bool:
        what = {"seq": claim.message.seq, "token": claim.token, "lease_s": LEASE_S}
        with self._context.history.attempt("renew claim", **what) as attempt:
            try:
                self._queue.renew(claim, lease_s=LEASE_S)
            except ClaimLost:
                attempt.record_result(lost=True)
                return False
            attempt.record_result()
        self._context.pause(LEASE_S / 2)
        return True

    def _answer(self, claim: Claim, type: str) -> Draft:
        return Draft(
            type,
            {"token": claim.token},
            from_agent=self._context.name,
            to_agent=claim.message.from_agent,
            in_reply_to=claim.message.id,
        )


# A holder: takes leases that others want too, and writes under them, sometimes too late.

#: The leases, few enough that they are fought over.
NAMES = ("main branch", "release", "schema")

#: How long it thinks between two steps at most, in seconds: now and then a lease runs out.
HOLDER_THINKS_S = 0.15

#: The next step under a lease, of 100. `leave` abandons the lease until it expires.
STEPS = {"write": 50, "renew": 20, "release": 20, "late": 5, "leave": 5}


def play_holder(context: AgentContext) -> None:
    """Take leases until it is over."""
    while not context.lifeline.ending:
        name = context.rng.choice(NAMES)
        with context.history.attempt("acquire", lease=name, lease_s=LEASE_S) as attempt:
            lease = context.bus.leases.acquire(name, context.name, lease_s=LEASE_S)
            attempt.record_result(token=None if lease is None else lease.token)
        if lease is not None:
            LeaseUse(context, lease).use()
        context.pause(HOLDER_THINKS_S)


class LeaseUse:
    """A lease from its grant to its end."""

    def __init__(self, context: AgentContext, lease: Lease) -> None:
        self._context = context
        self._lease = lease

    def use(self) -> None:
        """Take steps until one of them is the last."""
        step = ""
        while step not in ("release", "leave"):
            self._context.pause(HOLDER_THINKS_S)
            step = self._context.choose(STEPS)
            if step == "leave":
                return
            if step == "late":
                self._context.lifeline.wait(LEASE_S)
            elif not self._take(step):
                return

    def _take(self, step: str) -> bool:
        """Take a step, and return whether the lease was still held."""
        what = {"lease": self._lease.name, "token": self._lease.token, "lease_s": LEASE_S}
        with self._context.history.attempt(step, **what) as attempt:
            try:
                getattr(self, f"_{step}")()
            except LeaseLost:
                attempt.record_result(lost=True)
                return False
            attempt.record_result()
        return True

    def _write(self) -> None:
        payload = {"lease": self._lease.name, "token": self._lease.token}
        with self._context.bus.transaction():
            self._context.bus.leases.check(self._lease)
            self._context.bus.publish(
                TURN, payload, from_agent=self._context.name, to_agent=self._context.any_of(READER)
            )

    def _renew(self) -> None:
        self._lease = self._context.bus.leases.renew(self._lease, lease_s=LEASE_S)

    def _release(self) -> None:
        self._context.bus.leases.release(self._lease)


# The keeper: archives, checkpoints, gives pages back, collects blobs, searches, counts.

#: How long it rests between two acts at most, in seconds.
REST_S = 1.0

#: How many messages stay in the file, even if they could be archived.
LEFT_MESSAGES = 100

#: How old a blob without a message must be before it is collected, in seconds: a publisher may be
#: suspended between writing its blob and publishing the message that names it.
COLLECT_AFTER_S = 60.0


def play_keeper(context: AgentContext) -> None:
    """Look after the bus until it is over."""
    acts: dict[str, Callable[[AgentContext], object]] = {
        "archive": _archive,
        "maintain": _maintain,
        "collect": lambda context: context.bus.collect_blobs(older_than_s=COLLECT_AFTER_S),
        "search": lambda context: len(context.bus.search(context.any_of("publisher"))),
        "count": lambda context: context.bus.stats().messages,
    }
    while not context.lifeline.ending:
        name = context.rng.choice(list(acts))
        with context.history.attempt(name) as attempt:
            attempt.record_result(did=acts[name](context))
        context.pause(REST_S)


def _archive(context: AgentContext) -> int:
    with Archiver(context.bus) as archiver:
        plan = Retention(context.bus).plan(context.bus.log.newest_seq() - LEFT_MESSAGES)
        return len(archiver.archive(plan.upto_seq))


def _maintain(context: AgentContext) -> int | None:
    upkeep = Maintenance(context.bus)
    upkeep.checkpoint()
    return upkeep.give_back()


# The exporter: keeps `bus.jsonl` up with the log.


def play_exporter(context: AgentContext) -> None:
    """Export until it is over."""
    exporter = Exporter(context.bus)
    context.lifeline.call_at_end(exporter.stop)
    with context.history.attempt("follow") as attempt:
        exporter.follow()
        attempt.record_result(position=exporter.position)


#: The function that plays each role, by the beginning of an agent's name.
ROLES = {
    "publisher": play_publisher,
    "reader": play_reader,
    "worker": play_worker,
    "holder": play_holder,
    "keeper": play_keeper,
    "exporter": play_exporter,
}


class AgentContext:
    """The state of an agent's process.

    Attributes:
        bus: the bus, open.
        history: its own history.
        name: its name.
        lifeline: tells when to end.
        rng: its own random numbers, which differ from life to life.
    """

    def __init__(
        self, bus: LocalBus, history: ActHistory, lifeline: Lifeline, agents: int, seed: int
    ) -> None:
        self.bus = bus
        self.history = history
        self.name = history.agent
        self.lifeline = lifeline
        self.rng = random.Random(f"{seed}/{history.agent}/{history.life}")
        self._roles = roles_of(agents)

    def any_of(self, role: str) -> str:
        """Return some agent that has a role."""
        return self.rng.choice(agents_with(self._roles, role))

    def choose(self, weights: Mapping[T, int]) -> T:
        """Return a random key, each as often as its weight says."""
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def pause(self, most_s: float) -> None:
        """Sleep for a random time."""
        self.lifeline.wait(self.rng.random() * most_s)


def main(directory: str, histories: str, agents: str, name: str, life: str, seed: str) -> None:
    """Play the role that the name begins with until the parent says that it is over."""
    history = ActHistory(histories, name, int(life))
    _write_down_troubles(history)
    with history.attempt("open") as attempt:
        bus = LocalBus.open(directory)
        attempt.record_result()
    with bus:
        context = AgentContext(bus, history, Lifeline(), int(agents), int(seed))
        with bus.heart(name, interval_s=BEAT_EVERY_S):
            ROLES[name.partition("-")[0]](context)


def _write_down_troubles(history: ActHistory) -> None:
    """Record warnings, and the library's log, in the history, for the proof."""

    class HistoryHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            history.trouble(f"{record.name}: {record.getMessage()}")

    logging.getLogger("ackbus").addHandler(HistoryHandler(logging.WARNING))

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        history.trouble(f"warning: {message}")

    warnings.showwarning = show


if __name__ == "__main__":
    main(*sys.argv[1:])
