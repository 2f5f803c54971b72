"""A user's program: mail, work, requests, leases, files, search and export, in its own types.

Type checkers find nothing in it, and it runs.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ackbus import (
    Bus,
    Claim,
    Draft,
    Exporter,
    Inbox,
    Job,
    Message,
    NeverRetry,
    Policy,
    Priority,
    Queue,
    Receipt,
    Request,
    RetryLater,
    Session,
    Worker,
    as_completed_async,
    wait_all_async,
    work_headers,
)
from ackbus.errors import AckbusError, BusBusy, InvalidInput, LeaseLost, LimitReached, TimedOut
from ackbus.model import Answer, AnswerState, Liveness, QueueStats, Reservation, Trace


@dataclass(frozen=True)
class Review:
    """The payload of `review.request`, in the types of this program."""

    path: str
    lines: int

    @classmethod
    def of(cls, message: Message) -> Review:
        payload: object = message.payload
        match payload:
            case {"path": str(path), "lines": int(lines)}:
                return cls(path, lines)
            case _:
                raise NeverRetry(f"message {message.seq} is no review")


def open_bus(directory: str) -> Bus:
    """Make the bus with settings of its own, and open it."""
    Bus.init(directory, durability="normal").close()
    return Bus.open(directory, durability="full", write_timeout_s=10.0)


def send_mail(bus: Bus) -> list[Receipt]:
    """Publish one message, and many in a transaction."""
    first = bus.publish(
        "note",
        {"text": "hello", "to": ["all", "of", "you"]},
        from_agent="lead",
        priority=Priority.INTERACTIVE,
        headers={"meta": {"board": 7}},
    )
    again = bus.publish("note", "the same", from_agent="lead", id="once", wait_s=0.5)
    repeated = bus.publish("note", "the same", from_agent="lead", id="once")
    assert repeated.duplicate
    assert repeated.seq == again.seq
    drafts = [Draft("note", number, from_agent="lead") for number in range(3)]
    return [first, again, *bus.publish_many(drafts)]


def read_mail(bus: Bus, agent: str) -> list[str]:
    """Acknowledge what waits, one by one, and return what it says."""
    inbox = Inbox(bus, agent, max_deliveries=3, retry_pause_s=0.01)
    said: list[str] = []
    while messages := inbox.poll(limit=2, wait_s=0.01):
        for message in messages:
            said.append(f"{message.type}: {message.payload}")
            position: int = inbox.ack(message)
            assert position >= message.seq
    return said


def handle_mail(bus: Bus, agent: str) -> int:
    """Deliver with redelivery until nothing is left; count the parked messages."""
    handled: list[datetime] = []

    def handle(message: Message) -> None:
        if message.type == "broken" and message.attempt < 9:
            raise ValueError("not yet")
        handled.append(message.ts)

    with Session(bus, agent, max_deliveries=2, retry_pause_s=0.01) as me:
        me.run(handle, drain=True)
        parked = me.inbox.parked()
    assert all(time.tzinfo is UTC for time in handled)
    return len(parked)


def review(message: Message) -> Draft:
    """Answer a request for a review; try again later where the file is large."""
    wanted = Review.of(message)
    if wanted.lines > 1000 and message.attempt == 1:
        raise RetryLater("it is long", after_s=0.0)
    return message.reply("review.done", {"path": wanted.path, "ok": True}, from_agent="reviewer")


def work(bus: Bus) -> QueueStats:
    """Work on requests in a queue with rules of its own."""
    queue = Queue.create(
        bus, "review.request", ordering="priority", max_attempts=3, backoff_s=0.0, on_lost="requeue"
    )
    policy: Policy = queue.info.policy
    assert policy.max_attempts == 3
    bus.heartbeats.beat("review.request-worker", "idle")
    sent = Request.send(
        bus,
        "review.request",
        {"path": "a.py", "lines": 2000},
        from_agent="lead",
        priority=Priority.BACKGROUND,
        headers=work_headers(dedupe_key="a.py"),
    )
    assert sent.check().state == "pending"
    worker = Worker(bus, queue, concurrency=1, answers=False)
    worker.run(review, drain=True)
    answer: Answer = sent.wait(timeout_s=10)
    assert answer.reply is not None
    assert bus.answer(sent.conversation).state == answer.state == "success"
    return queue.stats(window_s=3600)


def claim_by_hand(bus: Bus) -> list[Job]:
    """Claim, fail and retry jobs without a worker."""
    queue = Queue.create(bus, "build", max_attempts=1)
    bus.publish("build", "make", from_agent="lead")
    claims: list[Claim] = queue.claim("host-1", group="builders", lease_s=30)
    for claim in claims:
        queue.renew(claim, lease_s=60)
        queue.fail(claim, "the compiler is missing", retry=False)
    for job in queue.dead_letters.find():
        queue.jobs.retry(job.seq)
    return queue.jobs.list("queued", limit=10)


def hold(bus: Bus) -> tuple[bool, list[Reservation]]:
    """Hold a lease and files, and give both back."""
    lease = bus.leases.acquire("release", "lead", lease_s=30, wait_s=0.1)
    if lease is None:
        return False, []
    try:
        lease = bus.leases.renew(lease, lease_s=60)
        with bus.transaction():
            bus.leases.check(lease)
            bus.publish("release.begun", from_agent=lease.holder)
        reserved = bus.reservations.list()
        bus.leases.release(lease)
    except LeaseLost:
        return False, []
    return True, reserved


async def talk_async(directory: str) -> list[str]:
    """Ask several questions at once, and answer them in another task."""
    answered: list[str] = []

    async def answer(message: Message) -> str:
        return f"{message.payload}!"

    with Bus.open(directory) as bus:
        worker = Worker(bus, "ask.request")
        working = asyncio.create_task(worker.run_async(answer))
        async with Session(bus, "asker", interval_s=5) as me:
            await me.publish_async("note", "asking")
            asked = [
                await Request.send_async(bus, "ask.request", word, from_agent=me.agent)
                for word in ("one", "two")
            ]
            async for sent, found in as_completed_async(asked, timeout_s=20):
                state: AnswerState = found.state
                answered.append(f"{sent.seq > 0} {state}")
            assert [each.state for each in await wait_all_async(asked)] == ["success"] * 2
            last = await bus.request_async("ask.request", "three", from_agent="asker")
            assert last.reply is not None
            answered.append(str(last.reply.payload))
            async for message in bus.follow_async(after_seq=0, type="ask.*"):
                answered.append(message.type)
                break
        worker.stop()
        await working
    return answered


def look_back(bus: Bus) -> tuple[int, int, str | None]:
    """Search, trace and export what happened."""
    hits = bus.search("hello", type="note", limit=5)
    trace = Trace.of(bus, str(hits[0].message.seq))
    alive = [beat.agent for beat in bus.heartbeats.list() if beat.liveness is Liveness.ALIVE]
    exported = Exporter(bus).export_once()
    with open(Path(bus.directory, "bus.jsonl"), "rb") as lines:
        report = bus.import_jsonl(lines)
    states = {receipt.name: receipt.state for receipt in bus.read_receipts("1")}
    assert (len(trace.steps), report.stored, "lead" in states) == (1, 0, False)
    return len(hits), exported, alive[0] if alive else None


def meet_errors(bus: Bus) -> list[str]:
    """Meet errors by their classes, and by Python's own."""
    met: list[str] = []
    try:
        bus.publish("", from_agent="lead")
    except InvalidInput as error:
        met.append(f"{error.exit_code}")
    try:
        bus.request("silence.request", from_agent="lead", to_agent="lead", timeout_s=0.01)
    except TimeoutError as late:
        met.append("late" if isinstance(late, TimedOut) else "other")
    bus.limits.set_for_inbox("full", 1)
    try:
        for _ in range(2):
            bus.publish("note", from_agent="lead", to_agent="full")
    except (LimitReached, BusBusy) as error:
        met.append(type(error).__name__)
    return met


def main(directory: str) -> int:
    try:
        with open_bus(directory) as bus:
            for agent in ("reader", "handler", "full"):
                bus.heartbeats.beat(agent)
            print(len(send_mail(bus)), "sent")
            print(len(read_mail(bus, "reader")), "read")
            bus.publish("broken", from_agent="lead", to_agent="handler")
            print(handle_mail(bus, "handler"), "parked")
            print(work(bus).completed, "completed")
            print(len(claim_by_hand(bus)), "queued again")
            print(hold(bus)[0], "held")
            print(look_back(bus)[0], "found")
            print(meet_errors(bus))
        print(asyncio.run(talk_async(directory)))
    except AckbusError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
