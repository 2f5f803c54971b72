"""The hot operations of a bus, each to be counted on a log of some thousand messages."""

from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path

from counters import Operation

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.schema.queries import file_of

#: How many messages the log has, and how many agents wrote them.
MESSAGES, AGENTS = 5000, 50

#: What a message of an agent often says: 300 bytes.
PAYLOAD = "a sentence that an agent wrote " * 9 + "to another one"

#: A payload that becomes a blob.
LARGE = "x" * 5000

Act = Callable[[], object]


def filled(directory: Path) -> Bus:
    """A bus with a log, and a heartbeat of each agent, so that all recipients are known."""
    bus = Bus.init(directory)
    for number in range(AGENTS):
        bus.heartbeats.beat(f"agent-{number}")
    bus.publish_many(map(_message, range(MESSAGES)))
    return bus


def _message(number: int, type: str = "note") -> Draft:
    return Draft(
        type,
        PAYLOAD,
        from_agent=f"agent-{number % AGENTS}",
        to_agent=None if number % 10 == 0 else f"agent-{number * 7 % AGENTS}",
        correlation_id=f"conversation-{number // 20}",
    )


def _publish(bus: Bus) -> Act:
    return lambda: bus.publish("note", PAYLOAD, from_agent="agent-1", to_agent="agent-2")


def _publish_reply(bus: Bus) -> Act:
    parent = bus.publish("note", from_agent="agent-1", to_agent="agent-2").id
    return lambda: bus.publish("note", PAYLOAD, from_agent="agent-2", in_reply_to=parent)


def _publish_safely(bus: Bus) -> Act:
    return _publish(Bus.open(bus.layout.directory, durability="full"))


def _publish_many(bus: Bus) -> Act:
    return lambda: bus.publish_many(map(_message, range(1000)))


def _publish_blob(bus: Bus) -> Act:
    numbers = count()
    return lambda: bus.publish("note", f"{LARGE}{next(numbers):06}", from_agent="agent-1")


def _publish_blobs(bus: Bus) -> Act:
    numbers = count()

    def act() -> object:
        texts = (f"{LARGE}{next(numbers):06}" for _ in range(100))
        return bus.publish_many(Draft("note", text, from_agent="agent-1") for text in texts)

    return act


def _poll_nothing(bus: Bus) -> Act:
    inbox = Inbox(bus, "agent-1")
    inbox.ack(bus.log.newest_seq())
    return inbox.poll


def _poll_100(bus: Bus) -> Act:
    return Inbox(bus, "agent-1").poll


def _use_100(bus: Bus) -> Act:
    inbox = Inbox(bus, "agent-1")
    return lambda: [message.payload for message in inbox.poll()]


def _ack(bus: Bus) -> Act:
    inbox = Inbox(bus, "agent-1")
    seqs = count(1)
    return lambda: inbox.ack(next(seqs))


def _complete(bus: Bus) -> Act:
    inbox = Inbox(bus, "agent-1")
    waiting = iter(inbox.poll(500))
    reply = Draft("note", PAYLOAD, from_agent="agent-1", to_agent="agent-2")
    return lambda: inbox.complete(next(waiting), reply)


def _work(bus: Bus) -> Queue:
    queue = Queue.create(bus, "work", addressed="*")
    bus.publish_many(_message(number, type="work") for number in range(1000))
    queue.fill()
    return queue


def _claim(bus: Bus) -> Act:
    queue = _work(bus)
    return lambda: queue.claim("agent-1")


def _take_in_and_claim(bus: Bus) -> Act:
    queue = Queue.create(bus, "work")

    def act() -> object:
        bus.publish("work", PAYLOAD, from_agent="agent-1")
        return queue.claim("agent-1")

    return act


def _claim_nothing(bus: Bus) -> Act:
    queue = Queue.create(bus, "work")
    return lambda: queue.claim("agent-1")


def _complete_job(bus: Bus) -> Act:
    queue = _work(bus)
    claims = iter(queue.claim("agent-1", limit=1000))
    return lambda: queue.complete(next(claims), result="ok")


def _acquire(bus: Bus) -> Act:
    numbers = count()
    return lambda: bus.leases.acquire(f"task-{next(numbers):06}", "agent-1")


def _beat(bus: Bus) -> Act:
    return lambda: bus.heartbeats.beat("agent-1", "working", task="task-1")


def _export(bus: Bus) -> Act:
    exporter = Exporter(bus)
    exporter.export_once()

    def act() -> object:
        bus.publish_many(map(_message, range(1000)))
        file_of(bus).checkpointer.wait()  # beside the export it would find other pages
        return exporter.export_once()

    return act


def _open(bus: Bus) -> Act:
    def act() -> None:
        with Bus.open(bus.layout.directory) as opened:
            opened.log.newest_seq()

    return act


def _get(bus: Bus) -> Act:
    ids = cycle([message.id for message in bus.read(upto_seq=500)])
    return lambda: bus.get(next(ids))


def _conversation(bus: Bus) -> Act:
    return lambda: list(bus.read(conversation="conversation-7"))


def _replay(bus: Bus) -> Act:
    return lambda: [message.seq for message in bus.read(after_seq=1000, upto_seq=2000)]


def _archive_nothing(bus: Bus) -> Act:
    from ackbus.subscribers.overview.retention import Retention

    return lambda: Retention(bus).plan(MESSAGES)


def _search(bus: Bus) -> Act:
    return lambda: bus.search("sentence", "agent")


#: Each by name: how to begin, how often it is done, and of how many messages it is.
OPERATIONS = {
    # On some filesystems opening reads the table of mounts, which is long or short.
    "open": Operation(_open, 50, memory=False),
    "publish": Operation(_publish, 500),
    "publish, durability full": Operation(_publish_safely, 100),
    "publish a reply": Operation(_publish_reply, 100),
    "publish a blob": Operation(_publish_blob, 100),
    "publish 100 blobs, for each": Operation(_publish_blobs, 5, 100),
    "publish 1,000, for each": Operation(_publish_many, 5, 1000),
    "poll, nothing new": Operation(_poll_nothing, 100),
    "poll 100": Operation(_poll_100, 50),
    "poll 100 and use their payloads": Operation(_use_100, 50),
    "ack": Operation(_ack, 500),
    "complete with a reply": Operation(_complete, 100),
    "claim a job": Operation(_claim, 200),
    "publish, take in and claim": Operation(_take_in_and_claim, 100),
    "claim, nothing there": Operation(_claim_nothing, 100),
    "complete a job": Operation(_complete_job, 200),
    "acquire a lease": Operation(_acquire, 200),
    "beat": Operation(_beat, 200),
    "get by id": Operation(_get, 200),
    "read a conversation of 20": Operation(_conversation, 50),
    "replay 1,000, for each": Operation(_replay, 10, 1000),
    "publish and export 1,000, for each": Operation(_export, 5, 1000),
    "plan an archive": Operation(_archive_nothing, 10),
    "search": Operation(_search, 5),
}
