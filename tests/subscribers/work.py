"""Short forms for the tests of queues."""

from collections.abc import Iterable
from typing import Any

from ackbus import Bus, Draft
from ackbus.subscribers.jobs.claims import Claim, ClaimRecord, Claims
from ackbus.subscribers.jobs.jobs import Job, Jobs
from ackbus.subscribers.queues.queue import Queue


def publish(bus: Bus, count: int = 1, type: str = "job", **fields: Any) -> list[int]:
    """Publishes messages with payloads 0, 1, …, and returns their seqs."""
    options = {"from_agent": "boss"} | fields
    receipts = bus.publish_many([Draft(type, number, **options) for number in range(count)])
    return [receipt.seq for receipt in receipts]


def take(queue: Queue, **options: Any) -> Claim:
    """Claims the one job that must be there to be claimed."""
    (claim,) = queue.claim("worker", **options)
    return claim


def seqs(found: Iterable[Claim | Job]) -> list[int]:
    return [one.message.seq if isinstance(one, Claim) else one.seq for one in found]


def job(queue: Queue, seq: int = 1) -> Job:
    return Jobs.of(queue.bus).get(queue.info, seq)


def state(queue: Queue, seq: int = 1) -> str:
    return job(queue, seq).state


def attempts(queue: Queue, seq: int = 1) -> list[ClaimRecord]:
    return Claims.of(queue.bus).of_job(queue.info, seq)


def statuses(queue: Queue, seq: int = 1) -> list[str]:
    return [record.status for record in attempts(queue, seq)]


def counts(queue: Queue) -> dict[str, int]:
    return Jobs.of(queue.bus).counts(queue.info)
