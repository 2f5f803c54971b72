"""The roles of a torture run, and the process of one agent, which plays one of them."""

from __future__ import annotations

import logging
import random
import sys
import warnings

from ..bus.bus import Bus
from ..bus.doorbell import listen
from ..bus.maintenance import Maintenance
from ..export.archive_writer import Archiver
from ..export.jsonl.exporter import Exporter
from ..schema.errors import LeaseLost
from ..schema.message.draft import Draft
from ..subscribers.inboxes.inbox import Inbox
from ..subscribers.jobs.errors import ClaimLost
from ..subscribers.overview.retention import Retention
from ..subscribers.queues.queue import Queue
from .crew import Lifeline
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
    History,
    cast_of,
    named,
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

# The protocol of the agents: the length of leases, and the policy of their queue.

#: How long leases and claims last, in seconds: those of killed agents must end soon.
LEASE_S = 2.0

#: How many attempts a job has. They end by kill -9 all the time, and none may be given up for it.
MAX_ATTEMPTS = 1_000_000

#: The base of the pause before the next attempt, in seconds.
BACKOFF_S = 0.05

#: How often every agent's heart beats, in seconds: far more often than in earnest.
BEAT_EVERY_S = 1.0

# The mail of an agent: it polls, answers questions, and acknowledges in order.

#: How many messages a poll brings at most.
MAX_POLL = 50

#: How often, of 1, a message is acknowledged by itself, and not together with others.
ONE_BY_ONE = 0.2


class Mail:
    """The inbox of one agent."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._inbox = Inbox(me.bus, me.name)

    def take(self) -> bool:
        """Take unread messages, up to a random number, and return whether there were any."""
        limit = self._me.chance.randint(1, MAX_POLL)
        with self._me.history.attempt("poll", limit=limit) as attempt:
            messages = self._inbox.poll(limit)
            attempt.told(seqs=[message.seq for message in messages])
        for message in messages:
            asked = message.type == ASK and message.to_agent == self._me.name
            if asked:
                self._answer(message)
            elif message is messages[-1] or self._me.chance.random() < ONE_BY_ONE:
                self._acknowledge(message)
        return bool(messages)

    def _acknowledge(self, message: Message) -> None:
        with self._me.history.attempt("ack", seq=message.seq) as attempt:
            attempt.told(cursor=self._inbox.ack(message))

    def _answer(self, message: Message) -> None:
        answer = Draft(
            ANSWER,
            from_agent=self._me.name,
            to_agent=message.from_agent,
            in_reply_to=message.id,
        )
        with self._me.history.attempt("ack", seq=message.seq, answers=message.id) as attempt:
            receipts = self._inbox.complete(message, answer)
            attempt.told(cursor=self._inbox.position, first=receipts is not None)


# A publisher: notes, questions and jobs, one or several at a time, some of them again.

#: How long it thinks between two publishes at most, in seconds.
PUBLISHER_THINKS_S = 0.1

#: How often, of 1, several are published together, and how many at most.
TOGETHER, MAX_TOGETHER = 0.1, 10

#: The kinds of messages published, of 100.
KINDS = {NOTE: 45, ASK: 20, JOB: 30, "broadcast": 5}

#: How often, of 1, a note answers an earlier message; and mail is taken after a publish.
ANSWERS, TAKES_MAIL = 0.3, 0.1


def play_publisher(me: Me) -> None:
    """Publish until it is over."""
    Publisher(me).run()


class Publisher:
    """One life of a publisher."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._mail = Mail(me)
        self._count = 0
        self._last: str | None = None

    def run(self) -> None:
        """Publish until the end, first the messages that the last life may have left undone."""
        self._repeat()
        while not self._me.lifeline.ending:
            chance = self._me.chance
            together = chance.randint(2, MAX_TOGETHER) if chance.random() < TOGETHER else 1
            self._publish([self._line() for _ in range(together)])
            if chance.random() < TAKES_MAIL:
                self._mail.take()
            self._me.pause(PUBLISHER_THINKS_S)

    def _repeat(self) -> None:
        """Publish again the batch of a killed last life, with the same ids; or leave it."""
        act = self._me.history.cut_off()
        if act is not None and act.kind == "publish" and self._me.chance.random() < 0.5:
            self._publish([tuple(line) for line in act.what["messages"]])

    def _publish(self, lines: list[Line]) -> None:
        drafts = [draft_of(self._me.name, line) for line in lines]
        with self._me.history.attempt("publish", messages=lines) as attempt:
            receipts = self._me.bus.publish_many(drafts)
            attempt.told(seqs=[receipt.seq for receipt in receipts])
        self._last = lines[-1][0]

    def _line(self) -> Line:
        chance = self._me.chance
        self._count += 1
        id = f"{self._me.name}.{self._me.history.life}.{self._count}"
        kind = self._me.choose(KINDS)
        size = self._me.choose(SIZES)
        if kind == "broadcast":
            return id, NOTE, None, size, None
        to = self._me.any_of(READER if kind != NOTE else chance.choice((READER, PUBLISHER)))
        parent = self._last if kind == NOTE and chance.random() < ANSWERS else None
        return id, kind, to, size, parent


def draft_of(agent: str, line: Line) -> Draft:
    """Return the message that a line stands for."""
    id, type, to, size, parent = line
    return Draft(type, text_of(id, size), from_agent=agent, to_agent=to, id=id, in_reply_to=parent)


# A reader: takes its mail as it comes, and the rest before it ends.

#: How long it waits for a ring of the doorbell, in seconds, and how long it thinks at most.
READER_LOOKS_AGAIN_S, READER_THINKS_S = 0.5, 0.05


def play_reader(me: Me) -> None:
    """Read until it is over."""
    mail = Mail(me)
    with listen(me.bus) as listener:
        while True:
            ending = me.lifeline.ending  # looked at before the mail: what came until then is read
            if mail.take():
                me.pause(READER_THINKS_S)
            elif ending:
                return
            else:
                listener.wait(READER_LOOKS_AGAIN_S)


# A worker: claims jobs, and completes them with an answer, fails them, drops them, or is late.

#: How many jobs are claimed together at most.
MAX_CLAIMS = 4

#: How long it waits for a ring of the doorbell, in seconds, and how long it thinks at most.
WORKER_LOOKS_AGAIN_S, WORKER_THINKS_S = 0.25, 0.03

#: The fates of attempts, of 1000. `late` ends after its lease, `dropped` never does.
FATES = {"completed": 880, "failed": 40, "given up": 30, "renewed": 20, "dropped": 10, "late": 20}


def play_worker(me: Me) -> None:
    """Work until the run is over and no job is left for any worker."""
    worker = Worker(me)
    with listen(me.bus) as listener:
        while True:
            ending = me.lifeline.ending
            if worker.work():
                continue
            if ending and worker.nothing_left():
                return
            listener.wait(WORKER_LOOKS_AGAIN_S)


class Worker:
    """One life of a worker."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._queue = Queue.open(me.bus, QUEUE)

    def work(self) -> bool:
        """Do the jobs that can be claimed at once, and return whether there were any."""
        limit = self._me.chance.randint(1, MAX_CLAIMS)
        with self._me.history.attempt("claim", lease_s=LEASE_S) as attempt:
            claims = self._queue.claim(self._me.name, limit=limit, lease_s=LEASE_S)
            attempt.told(claims=[[claim.message.seq, claim.token] for claim in claims])
        for claim in claims:
            self._me.pause(WORKER_THINKS_S)
            fate = self._me.choose(FATES)
            self._end(claim, fate)
        return bool(claims)

    def nothing_left(self) -> bool:
        """Whether no job waits for its time, or for the end of a lease."""
        return self._queue.next_change_ms() is None

    def _end(self, claim: Claim, fate: str) -> None:
        if fate == "dropped":
            return
        if fate == "late":
            self._me.lifeline.wait(LEASE_S)
        if fate == "renewed" and not self._renew(claim):
            return
        act = "complete" if fate not in ("failed", "given up") else "fail"
        what = {"seq": claim.message.seq, "token": claim.token, "fate": fate}
        with self._me.history.attempt(act, **what) as attempt:
            try:
                if act == "complete":
                    receipts = self._queue.complete(claim, self._answer(claim, JOB_DONE))
                else:
                    answer = self._answer(claim, JOB_FAILED)
                    receipts = self._queue.fail(claim, fate, answer, retry=fate == "failed")
            except ClaimLost:
                attempt.told(lost=True)
            else:
                attempt.told(answers=[receipt.seq for receipt in receipts])

    def _renew(self, claim: Claim) -> bool:
        what = {"seq": claim.message.seq, "token": claim.token, "lease_s": LEASE_S}
        with self._me.history.attempt("renew claim", **what) as attempt:
            try:
                self._queue.renew(claim, lease_s=LEASE_S)
            except ClaimLost:
                attempt.told(lost=True)
                return False
            attempt.told()
        self._me.pause(LEASE_S / 2)
        return True

    def _answer(self, claim: Claim, type: str) -> Draft:
        return Draft(
            type,
            {"token": claim.token},
            from_agent=self._me.name,
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


def play_holder(me: Me) -> None:
    """Take leases until it is over."""
    while not me.lifeline.ending:
        name = me.chance.choice(NAMES)
        with me.history.attempt("acquire", lease=name, lease_s=LEASE_S) as attempt:
            lease = me.bus.leases.acquire(name, me.name, lease_s=LEASE_S)
            attempt.told(token=None if lease is None else lease.token)
        if lease is not None:
            Holding(me, lease).use()
        me.pause(HOLDER_THINKS_S)


class Holding:
    """A lease from its grant to its end."""

    def __init__(self, me: Me, lease: Lease) -> None:
        self._me = me
        self._lease = lease

    def use(self) -> None:
        """Take steps until one of them is the last."""
        step = ""
        while step not in ("release", "leave"):
            self._me.pause(HOLDER_THINKS_S)
            step = self._me.choose(STEPS)
            if step == "leave":
                return
            if step == "late":
                self._me.lifeline.wait(LEASE_S)
            elif not self._take(step):
                return

    def _take(self, step: str) -> bool:
        """Take a step, and return whether the lease was still held."""
        what = {"lease": self._lease.name, "token": self._lease.token, "lease_s": LEASE_S}
        with self._me.history.attempt(step, **what) as attempt:
            try:
                getattr(self, f"_{step}")()
            except LeaseLost:
                attempt.told(lost=True)
                return False
            attempt.told()
        return True

    def _write(self) -> None:
        payload = {"lease": self._lease.name, "token": self._lease.token}
        with self._me.bus.transaction():
            self._me.bus.leases.check(self._lease)
            self._me.bus.publish(
                TURN, payload, from_agent=self._me.name, to_agent=self._me.any_of(READER)
            )

    def _renew(self) -> None:
        self._lease = self._me.bus.leases.renew(self._lease, lease_s=LEASE_S)

    def _release(self) -> None:
        self._me.bus.leases.release(self._lease)


# The keeper: archives, checkpoints, gives pages back, collects blobs, searches, counts.

#: How long it rests between two acts at most, in seconds.
REST_S = 1.0

#: How many messages stay in the file, however many have been done with.
LEFT_MESSAGES = 100

#: How old a blob must be that no message names. A publisher that is suspended after it wrote its
#: blob, and before it named it, must not lose it.
COLLECT_AFTER_S = 60.0


def play_keeper(me: Me) -> None:
    """Look after the bus until it is over."""
    acts: dict[str, Callable[[Me], object]] = {
        "archive": _archive,
        "maintain": _maintain,
        "collect": lambda me: me.bus.collect_blobs(older_than_s=COLLECT_AFTER_S),
        "search": lambda me: len(me.bus.search(me.any_of("publisher"))),
        "count": lambda me: me.bus.stats().messages,
    }
    while not me.lifeline.ending:
        name = me.chance.choice(list(acts))
        with me.history.attempt(name) as attempt:
            attempt.told(did=acts[name](me))
        me.pause(REST_S)


def _archive(me: Me) -> int:
    with Archiver(me.bus) as archiver:
        plan = Retention(me.bus).plan(me.bus.log.newest_seq() - LEFT_MESSAGES)
        return len(archiver.archive(plan.upto_seq))


def _maintain(me: Me) -> int | None:
    upkeep = Maintenance(me.bus)
    upkeep.checkpoint()
    return upkeep.give_back()


# The exporter: keeps `bus.jsonl` up with the log.


def play_exporter(me: Me) -> None:
    """Export until it is over."""
    exporter = Exporter(me.bus)
    me.lifeline.call_at_end(exporter.stop)
    with me.history.attempt("follow") as attempt:
        exporter.follow()
        attempt.told(position=exporter.position)


#: The part that each role plays, by the beginning of an agent's name.
ROLES = {
    "publisher": play_publisher,
    "reader": play_reader,
    "worker": play_worker,
    "holder": play_holder,
    "keeper": play_keeper,
    "exporter": play_exporter,
}


class Me:
    """The state of an agent's process.

    Attributes:
        bus: the bus, open.
        history: its own history.
        name: its name.
        lifeline: tells when to end.
        chance: its own random numbers, others in each life.
    """

    def __init__(
        self, bus: Bus, history: History, lifeline: Lifeline, agents: int, seed: int
    ) -> None:
        self.bus = bus
        self.history = history
        self.name = history.agent
        self.lifeline = lifeline
        self.chance = random.Random(f"{seed}/{history.agent}/{history.life}")
        self._cast = cast_of(agents)

    def any_of(self, role: str) -> str:
        """Return some agent that has a role."""
        return self.chance.choice(named(self._cast, role))

    def choose(self, weights: Mapping[T, int]) -> T:
        """Return one of some things, each as often as its weight says."""
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def pause(self, most_s: float) -> None:
        """Sleep for a random time."""
        self.lifeline.wait(self.chance.random() * most_s)


def main(directory: str, histories: str, agents: str, name: str, life: str, seed: str) -> None:
    """Play the role that the name begins with until the parent says that it is over."""
    history = History(histories, name, int(life))
    _write_down_troubles(history)
    with history.attempt("open") as attempt:
        bus = Bus.open(directory)
        attempt.told()
    with bus:
        me = Me(bus, history, Lifeline(), int(agents), int(seed))
        with bus.heart(name, interval_s=BEAT_EVERY_S):
            ROLES[name.partition("-")[0]](me)


def _write_down_troubles(history: History) -> None:
    """Record warnings, and the library's log, in the history, for the proof."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            history.trouble(f"{record.name}: {record.getMessage()}")

    logging.getLogger("ackbus").addHandler(Handler(logging.WARNING))

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        history.trouble(f"warning: {message}")

    warnings.showwarning = show


if __name__ == "__main__":
    main(*sys.argv[1:])
