"""A stateful machine: whatever agents do, in whatever order, the bus and a plain model agree."""

import itertools
import shutil
import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ackbus import ABSENT, Bus, Draft, Inbox, Lease, Message
from ackbus.errors import AckPastEnd, IdConflict, LeaseLost, NotFound, UnknownParent

from ..sizes import size
from .conftest import RUNS
from .model import MAX_DELIVERIES, Log, Stored, View, canonical

pytestmark = pytest.mark.slow

AGENTS = ["ann", "bob", "cy"]
TYPES = ["task.assign", "task.done", "note"]
IDS = [f"id-{number}" for number in range(6)]
LEASES = ["build", "deploy"]
#: Falsy values, values that Python takes for equal, and one that becomes a blob.
PAYLOADS: list[object] = [
    ABSENT,
    None,
    0,
    False,
    "",
    {},
    [],
    1,
    1.0,
    True,
    {"b": 1, "a": [2]},
    "x" * 5000,
]

agents = st.sampled_from(AGENTS)
ids = st.sampled_from(IDS)
drafts = st.builds(
    Draft,
    type=st.sampled_from(TYPES),
    payload=st.sampled_from(PAYLOADS),
    from_agent=agents,
    to_agent=st.none() | agents,
    id=st.none() | ids,
    in_reply_to=st.none() | ids,
    correlation_id=st.sampled_from([None, None, "topic"]),
    priority=st.sampled_from([0, 1, 2]),
    headers=st.sampled_from([None, {}, {"trace": "1"}]),
)
plain_drafts = st.builds(
    Draft,
    type=st.sampled_from(TYPES),
    payload=st.sampled_from(PAYLOADS[:3]),
    from_agent=agents,
    to_agent=st.none() | agents,
)


class BusMachine(RuleBasedStateMachine):
    """Three agents, one bus, a clock that only the machine moves."""

    @initialize()
    def open_bus(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ackbus-model-")
        self.now_ms = 1_000_000
        self.bus = Bus.init(self.folder, clock=lambda: self.now_ms)
        self.inboxes = {
            agent: Inbox(self.bus, agent, max_deliveries=MAX_DELIVERIES) for agent in AGENTS
        }
        for agent in AGENTS:
            self.bus.heartbeats.beat(agent)
        self.log = Log()
        self.views = {agent: View() for agent in AGENTS}
        self.held: dict[str, Lease] = {}
        self.grants: list[Lease] = []
        self.compared = 0
        # Something to fail and acknowledge at once: Hypothesis often leaves whole rules out.
        for type, recipient in itertools.product(TYPES, [None, "ann", "bob"]):
            self._publish([Draft(type, from_agent="cy", to_agent=recipient)])

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.bus.close()
            shutil.rmtree(self.folder)

    # Publishing ------------------------------------------------------------------------------

    @rule(draft=plain_drafts)
    def publish_something_new(self, draft: Draft) -> None:
        self._publish([draft])

    @rule(draft=drafts)
    def publish(self, draft: Draft) -> None:
        self._publish([draft])

    @rule(batch=st.lists(drafts, min_size=2, max_size=3))
    def publish_many(self, batch: list[Draft]) -> None:
        self._publish(batch)

    @precondition(lambda self: self.log.messages)
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        """A retry: every field as it was stored."""
        stored = data.draw(st.sampled_from(self.log.messages))
        message = self.bus.get(stored.seq)
        assert message is not None
        receipt = self.bus.publish(
            message.type,
            message.payload if message.has_payload else ABSENT,
            id=message.id,
            from_agent=message.from_agent,
            to_agent=message.to_agent,
            in_reply_to=message.in_reply_to,
            correlation_id=message.correlation_id,
            priority=message.priority,
            headers=message.headers,
        )
        assert (receipt.seq, receipt.id, receipt.duplicate) == (stored.seq, stored.id, True)

    def _publish(self, batch: list[Draft]) -> None:
        before = len(self.log.messages)
        expected, refusal = self._expect(batch)
        if refusal is not None:
            del self.log.messages[before:]
            try:
                self.bus.publish_many(batch)
            except refusal:
                return
            raise AssertionError(f"published, but the model says {refusal.__name__}")
        receipts = self.bus.publish_many(batch)
        for receipt, (seq, duplicate), draft in zip(receipts, expected, batch, strict=True):
            assert (receipt.seq, receipt.duplicate) == (seq, duplicate)
            assert draft.id in (None, receipt.id)
            if not duplicate:
                self.log.messages[seq - 1].id = receipt.id

    def _expect(
        self, batch: list[Draft]
    ) -> tuple[list[tuple[int, bool]], type[IdConflict] | type[UnknownParent] | None]:
        """Append the drafts to the model: (seq, duplicate) of each, or the error for the batch."""
        expected = []
        for draft in batch:
            if draft.in_reply_to is not None and self.log.by_id(draft.in_reply_to) is None:
                return [], UnknownParent
            row = self.log.row(draft, draft.id or f"drawn-{len(self.log.messages)}")
            twin = self.log.by_id(row.id)
            if twin is None:
                self.log.messages.append(row)
                expected.append((row.seq, False))
            elif twin.same_content(row):
                expected.append((twin.seq, True))
            else:
                return [], IdConflict
        return expected, None

    # Inboxes ---------------------------------------------------------------------------------

    @rule(agent=agents, limit=st.integers(1, 4), type=st.none() | st.sampled_from(TYPES))
    def poll(self, agent: str, limit: int, type: str | None) -> None:
        polled = [message.seq for message in self.inboxes[agent].poll(limit, type=type)]
        assert polled == self.log.waiting(agent, self.views[agent], type)[:limit]

    @rule(agent=agents)
    def handle(self, agent: str) -> None:
        message = self._first(agent)
        if message is not None:
            self.inboxes[agent].ack(message)
            self.views[agent].acknowledge(message.seq)

    @rule(agent=agents, times=st.integers(1, MAX_DELIVERIES))
    def fail(self, agent: str, times: int) -> None:
        message = self._first(agent)
        for number in range(times if message is not None else 0):
            assert message is not None
            parked = self.inboxes[agent].fail(message, f"error {number}")
            assert parked == self.views[agent].fail(message.seq)
            if parked:
                return

    @rule(agent=agents)
    def park_and_requeue(self, agent: str) -> None:
        """So that several requeued messages of one inbox are no rarity."""
        self.fail(agent, MAX_DELIVERIES)
        if self.views[agent].parked:
            self.unpark(agent, 0, drop=False)

    @rule(agent=agents, draft=plain_drafts)
    def complete(self, agent: str, draft: Draft) -> None:
        message = self._first(agent)
        if message is None:
            return
        view = self.views[agent]
        receipts = self.inboxes[agent].complete(message, draft)
        assert (receipts is None) == (message.id in view.completed)
        if receipts is not None:
            self.log.messages.append(self.log.row(draft, receipts[0].id))
        view.completed.add(message.id)
        view.acknowledge(message.seq)

    @rule(agent=agents, seq=st.integers(-1, 40))
    def ack_any_seq(self, agent: str, seq: int) -> None:
        if 1 <= seq <= len(self.log.messages):
            self.views[agent].acknowledge(seq)
            assert self.inboxes[agent].ack(seq) == self.views[agent].cursor
            return
        try:
            self.inboxes[agent].ack(seq)
        except AckPastEnd:
            return
        raise AssertionError(f"acknowledged {seq}, which is not in the log")

    @rule(agent=agents, seq=st.integers(1, 12), drop=st.booleans())
    def unpark(self, agent: str, seq: int, drop: bool) -> None:
        view, inbox = self.views[agent], self.inboxes[agent]
        seq = min(view.parked, default=seq)
        was_parked = seq in view.parked
        try:
            (inbox.drop if drop else inbox.requeue)(seq)
        except NotFound:
            assert not was_parked
            return
        assert was_parked
        del view.parked[seq]
        if not drop:
            view.requeued[seq] = 0

    def _first(self, agent: str) -> Message | None:
        return next(iter(self.inboxes[agent].poll(1)), None)

    # Leases ----------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 5, 10]))
    def time_passes(self, seconds: int) -> None:
        self.now_ms += seconds * 1000

    @rule(name=st.sampled_from(LEASES), holder=agents, lease_s=st.sampled_from([1, 5, 10]))
    def acquire(self, name: str, holder: str, lease_s: int) -> None:
        lease = self.bus.leases.acquire(name, holder, lease_s=lease_s)
        if self._holder(name) is not None:
            assert lease is None
            return
        assert lease is not None
        assert (lease.name, lease.holder) == (name, holder)
        assert lease.until_ms == self.now_ms + lease_s * 1000
        assert all(lease.token > earlier.token for earlier in self.grants)
        self.held[name] = lease
        self.grants.append(lease)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), act=st.sampled_from(["renew", "release", "check"]))
    def use_a_lease(self, data: st.DataObject, act: str) -> None:
        """Of any age: only the grant that is held now can do anything."""
        lease = data.draw(st.sampled_from(self.grants))
        current = self._holder(lease.name)
        holds = current is not None and current.token == lease.token
        renewed = None
        try:
            if act == "renew":
                renewed = self.bus.leases.renew(lease, lease_s=5)
            else:
                getattr(self.bus.leases, act)(lease)
        except LeaseLost:
            assert not holds
            return
        assert holds
        if renewed is not None:
            assert renewed.until_ms == self.now_ms + 5000
            self.held[lease.name] = renewed
        if act == "release":
            del self.held[lease.name]

    def _holder(self, name: str) -> Lease | None:
        lease = self.held.get(name)
        return lease if lease is not None and lease.until_ms > self.now_ms else None

    # What is true after every step -----------------------------------------------------------

    @invariant()
    def log_is_the_model(self) -> None:
        assert self.bus.log.newest_seq() == len(self.log.messages)
        for message in self.bus.read(after_seq=self.compared):
            assert as_stored(message) == self.log.messages[message.seq - 1]
            assert message.seq == self.compared + 1, "our own publishing leaves no gap"
            self.compared = message.seq
        assert self.compared == len(self.log.messages)

    @invariant()
    def inboxes_are_the_model(self) -> None:
        for agent, view in self.views.items():
            inbox = self.inboxes[agent]
            waiting = self.log.waiting(agent, view)
            assert inbox.position == view.cursor
            assert [message.seq for message in inbox.poll(1000)] == waiting
            assert inbox.unread() == len(waiting)
            for type in TYPES:
                first = [message.seq for message in inbox.poll(1, type=type)]
                assert first == self.log.waiting(agent, view, type)[:1]
            assert {one.seq: one.attempts for one in inbox.parked()} == view.parked

    @invariant()
    def leases_are_the_model(self) -> None:
        held = [lease for name in LEASES if (lease := self._holder(name)) is not None]
        assert self.bus.leases.list() == held


def as_stored(message: Message) -> Stored:
    return Stored(
        seq=message.seq,
        id=message.id,
        from_agent=message.from_agent,
        to_agent=message.to_agent,
        type=message.type,
        correlation_id=message.correlation_id,
        in_reply_to=message.in_reply_to,
        priority=message.priority,
        payload=canonical(message.payload) if message.has_payload else None,
        headers=canonical(message.headers),
    )


class TestBusIsItsModel(BusMachine.TestCase):  # type: ignore[valid-type, misc]
    """M-22, M-40, M-41, M-47 to M-50, M-54, M-56, M-57, M-69 to M-71, M-73, M-74, M-76, C-03, C-04.

    Publishing (retries with the same and with other content, replies, batches), polling,
    acknowledging, failing, parking, requeueing, dropping, completing; leases on a clock that moves.
    """

    settings = settings(max_examples=size(sample=12, whole=60) * RUNS, stateful_step_count=40)
