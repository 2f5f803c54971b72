"""Read receipts: the state of a message at each of its readers. No message is sent for them."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus.log.finding import find_message
from ...schema.arguments import checked
from ...schema.errors import NotFound
from ...schema.message.patterns import TypePattern
from ..inboxes.cursors import Cursors
from ..inboxes.statements import SESSION_NEWS
from ..jobs.jobs import Jobs
from ..jobs.policy import ANYBODY
from ..queues.queues import Queues
from .retention import INBOX, QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..queues.queues import QueueInfo


@dataclass(frozen=True, slots=True)
class ReadReceipt:
    """The state of a message at one reader.

    Attributes:
        kind: `inbox` or `queue`.
        name: whose inbox, or which queue.
        state: in an inbox a `ReadState`: `unread`, `acknowledged`, `parked`, `received` or
            `passed_over`; in a queue the `JobState` of its job.
    """

    kind: str
    name: str
    state: str

    def record(self) -> dict[str, str]:
        """Return its JSON object."""
        return {"kind": self.kind, "name": self.name, "state": self.state}


@checked
def read_receipts(bus: Bus, key: int | str) -> list[ReadReceipt]:
    """Return the state of a message at each reader: inboxes by name, then queues.

    Readers are its recipient; of a broadcast, all agents with a cursor that want it; and the queues
    that take it in. What a cursor has passed counts as acknowledged, read or not.

    Args:
        bus: an open bus.
        key: the seq or id of a message, an archived one too.

    Raises:
        NotFound: there is no such message.
    """
    message = find_message(bus, str(key))
    if message is None:
        raise NotFound(f"no message {str(key)[:255]!a} in the log; see 'bus read'")
    queues = list(_in_queues(bus, message))
    return [*_in_inboxes(bus, message, queues), *queues]


def _in_inboxes(bus: Bus, message: Message, queues: list[ReadReceipt]) -> Iterator[ReadReceipt]:
    is_work = bus.log.is_work(message.seq)
    if is_work is None:  # it is archived: as its queues are now
        policies = [Queues(bus).get(each.name).policy for each in queues]
        is_work = any(
            policy.hides != "none" and message.to_agent in (None, policy.addressed)
            for policy in policies
        )
    if is_work or (message.to_agent is None and message.type in SESSION_NEWS):
        return
    states = Cursors.of(bus).read_states(
        message.seq, message.type, message.from_agent, message.to_agent
    )
    for agent, state in states:
        yield ReadReceipt(INBOX, agent, state)


def _in_queues(bus: Bus, message: Message) -> Iterator[ReadReceipt]:
    states = {job.queue: job.state for job in Jobs.of(bus).of_message(message.seq)}
    for info in Queues(bus).list():
        if info.name in states or _is_to_take(info, message):
            yield ReadReceipt(QUEUE, info.name, states.get(info.name, "queued"))


def _is_to_take(info: QueueInfo, message: Message) -> bool:
    """Whether a queue has yet to look at a message that it takes in."""
    return (
        info.filled_seq < message.seq
        and TypePattern(info.pattern).matches(message.type)
        and (message.to_agent is None or info.policy.addressed in (message.to_agent, ANYBODY))
    )
