"""An answer of any type, by whom it was asked: what counts, and what does not."""

import asyncio
from collections.abc import Callable

import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.bus.own_answers import own_answer
from ackbus.subscribers.inboxes.session_names import SessionNames
from ackbus.subscribers.jobs.claims import Claim
from ackbus.subscribers.jobs.outcomes import tell_cancelled
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.requests import Request, wait_all

#: Some say several words, of which publishing warns.
pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.AnsweredAgainWarning")

REQUEST = "review.request"


@pytest.fixture(autouse=True)
def agents(bus: Bus) -> None:
    """All who are named have been seen."""
    for name in ("me", "ann", "bob"):
        bus.heartbeats.beat(name)


def asked(bus: Bus, to: str | None = "ann") -> Request:
    return Request.send(bus, REQUEST, "?", from_agent="me", to_agent=to)


def said(bus: Bus, sent: Request, type: str = "note", **fields: str | None) -> int:
    given = {"from_agent": "ann", "to_agent": "me", "in_reply_to": sent.id}
    return bus.publish(type, "!", **(given | fields)).seq  # type: ignore[arg-type]


def found(sent: Request) -> tuple[str, str | None]:
    """The state of a request, and the type of its answer; every way to ask says the same."""
    answers = [sent.check(), sent.bus.answer(sent.id)]
    ((state, _, type),) = {
        (each.state, each.asker, each.reply and each.reply.type) for each in answers
    }
    return state, type


@pytest.mark.parametrize(
    ("type", "state"),
    [
        ("note", "answered"),
        ("pr.review.done", "success"),
        ("done", "success"),
        ("parser.failed", "failure"),
        ("tests.timed_out", "timed_out"),
        ("undone", "answered"),
    ],
)
def test_reply_of_any_type_by_whom_it_was_asked_is_the_answer(
    bus: Bus, type: str, state: str
) -> None:
    """Issue 19, 7: its ending tells how it went, where it says so."""
    sent = asked(bus)
    said(bus, sent, type)
    assert found(sent) == (state, type)
    assert sent.wait(0).state == state
    assert sent.wait(0).failed == (state in ("failure", "timed_out"))
    assert Inbox(bus, "me").unread() == 0


def test_reply_to_all_by_the_recipient_is_the_answer(bus: Bus) -> None:
    """Issue 19, 7: as `bus publish --reply-to` sends it where no recipient is named."""
    sent = asked(bus)
    said(bus, sent, to_agent=None)
    assert found(sent) == ("answered", "note")


@pytest.mark.parametrize(
    "fields",
    [
        {"from_agent": "bob"},
        {"in_reply_to": None},
        {"to_agent": "bob"},
        {"type": "review.progress"},
        {"type": "clarify.request"},
    ],
    ids=["of another", "no reply", "to another", "progress", "a question back"],
)
def test_what_is_no_word_of_who_was_asked_is_no_answer(bus: Bus, fields: dict[str, str]) -> None:
    """Issue 19, 7: what others say, and news of the work."""
    sent = asked(bus)
    said(bus, sent, **fields)
    assert found(sent) == ("pending", None)


def test_reply_to_another_request_is_no_answer(bus: Bus) -> None:
    first, second = asked(bus), asked(bus)
    said(bus, second)
    assert (found(first), found(second)) == (("pending", None), ("answered", "note"))


def test_reply_of_another_to_all_that_were_asked_needs_a_type_of_the_convention(bus: Bus) -> None:
    """Issue 19, 7: a broadcast asks nobody by name."""
    sent = asked(bus, to=None)
    said(bus, sent)
    assert found(sent) == ("pending", None)
    said(bus, sent, "review.done")
    assert found(sent) == ("success", "review.done")


def test_answer_of_the_convention_goes_before_other_words(bus: Bus) -> None:
    """Issue 19, 7: whichever came first, and whoever sent it."""
    sent = asked(bus)
    said(bus, sent)
    said(bus, sent, "review.failed", from_agent="bob")
    said(bus, sent, "more")
    for which in ("first", "last"):
        answer = bus.answer(sent.conversation, which=which)  # type: ignore[arg-type]
        assert (answer.state, answer.reply and answer.reply.type) == ("failure", "review.failed")


def test_first_and_last_of_several_words(bus: Bus) -> None:
    sent = asked(bus)
    seqs = [said(bus, sent, type) for type in ("one", "two", "three")]
    first, last = bus.answer(sent.id, which="first").reply, bus.answer(sent.id).reply
    assert first is not None
    assert last is not None
    assert [first.seq, last.seq] == [seqs[0], seqs[2]]


@pytest.fixture
def taken(bus: Bus) -> Callable[[], tuple[Request, Queue, Claim]]:
    """Publishes a request for a queue, which the group ann claims."""
    queue = Queue.create(bus, REQUEST)

    def take() -> tuple[Request, Queue, Claim]:
        sent = asked(bus, to=None)
        (claim,) = queue.claim("ann")
        return sent, queue, claim

    return take


Taken = Callable[[], tuple[Request, Queue, Claim]]


def test_word_of_the_worker_group_that_has_the_job_is_the_answer(bus: Bus, taken: Taken) -> None:
    """Issue 19, 7: in the transaction of the end, before it and after it; not another's."""
    sent, queue, claim = taken()
    said(bus, sent, from_agent="bob")
    assert found(sent) == ("pending", None)
    said(bus, sent)
    assert found(sent) == ("answered", "note")
    sent, queue, claim = taken()
    queue.complete(
        claim, Draft("report", from_agent="ann", to_agent="me", in_reply_to=claim.message.id)
    )
    assert found(sent) == ("answered", "report")
    sent, queue, claim = taken()
    queue.complete(claim)
    said(bus, sent, "late.failed")
    assert found(sent) == ("failure", "late.failed")


def test_events_of_a_job_are_no_answer(bus: Bus, taken: Taken) -> None:
    """Issue 19, 7: the json contract publishes them to all, as replies."""
    sent, queue, claim = taken()
    queue.complete(claim, Draft("built", from_agent="ann", in_reply_to=claim.message.id))
    assert found(sent) == ("pending", None)
    named = Queue.create(bus, "named", REQUEST, addressed="ann")
    sent = asked(bus)
    (claim,) = named.claim("ann")
    named.complete(claim, Draft("built", from_agent="ann", in_reply_to=claim.message.id))
    assert found(sent) == ("pending", None)


def test_step_that_another_queue_takes_is_no_answer(bus: Bus, taken: Taken) -> None:
    """Issue 19, 7: a chain of workers replies to the asker, and the last one answers."""
    Queue.create(bus, "linted", "review.linted", addressed="*")
    sent, queue, claim = taken()
    step = Draft("review.linted", from_agent="ann", to_agent="me", in_reply_to=claim.message.id)
    queue.complete(claim, step)
    assert found(sent) == ("pending", None)


def test_cancelled_request_that_has_a_word_gets_no_second_answer(bus: Bus, taken: Taken) -> None:
    """Issue 19, 7: the same rule where a queue answers for jobs that end without a worker."""
    for word, answers in (("note", []), ("review.progress", ["review.failed"])):
        sent, queue, claim = taken()
        said(bus, sent, word)
        before = bus.log.newest_seq()
        with bus.transaction():
            tell_cancelled(bus, queue.info, [(claim.message, "gone")])
        assert [each.type for each in bus.read(after_seq=before)] == answers


def test_all_ways_to_wait_take_it(bus: Bus) -> None:
    """Issue 19, 7: wait_all and asyncio, by the rule of `check`."""
    both = [asked(bus, "ann"), asked(bus, "bob")]
    said(bus, both[0])
    said(bus, both[1], from_agent="bob")
    assert [answer.state for answer in wait_all(both, 0)] == ["answered"] * 2
    sent = asked(bus)
    said(bus, sent, "free.form")
    answer = asyncio.run(sent.wait_async(0))
    assert answer.reply is not None
    assert answer.reply.type == "free.form"


def test_one_request_of_several_in_a_conversation_is_checked_by_its_id(bus: Bus) -> None:
    """Issue 19, 6: each recipient of one message has an answer of its own."""
    first = asked(bus)
    second = Request.send(bus, REQUEST, from_agent="me", to_agent="bob", correlation_id=first.id)
    said(bus, second, from_agent="bob")
    assert bus.answer(first.id).state == "pending"
    assert bus.answer(second.id).state == "answered"
    assert bus.answer(second.id).conversation == first.id


def test_a_session_knows_what_others_of_its_base_name_have_answered(bus: Bus) -> None:
    """Issue 32, 6: whoever takes up the name, and whoever claims it."""
    names = SessionNames.of(bus)
    taken = [names.take("reviewer", "a server", connection) for connection in ("one", "two")]
    assert [session.name for session in taken] == ["reviewer", "reviewer-2"]
    sent = bus.publish("t.request", from_agent="me", to_agent="reviewer")
    request = bus.get(sent.seq)
    assert request is not None
    bus.publish("t.progress", from_agent="reviewer-2", to_agent="me", in_reply_to=sent.id)
    assert own_answer(bus, request, "reviewer") is None
    done = bus.publish("t.done", from_agent="reviewer-2", to_agent="me", in_reply_to=sent.id)
    for name in ("reviewer", "reviewer-2"):
        answer = own_answer(bus, request, name)
        assert answer is not None
        assert answer.seq == done.seq
    assert own_answer(bus, request, "ann") is None
