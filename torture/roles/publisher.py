"""A publisher: notes, questions and jobs, one or several at a time, some of them again."""

from __future__ import annotations

from ...schema.message.draft import Draft
from ..contents import ASK, JOB, NOTE, SIZES, text_of
from ..plan import PUBLISHER, READER
from .mail import Mail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent import Me

    #: The record of a message: id, type, recipient, size, id of its parent.
    Line = tuple[str, str, str | None, int, str | None]

#: How long it thinks between two publishes at most, in seconds.
THINK_S = 0.1

#: How often, of 1, several are published together, and how many at most.
TOGETHER, MAX_TOGETHER = 0.1, 10

#: The kinds of messages published, of 100.
KINDS = {NOTE: 45, ASK: 20, JOB: 30, "broadcast": 5}

#: How often, of 1, a note answers an earlier message; and mail is taken after a publish.
ANSWERS, TAKES_MAIL = 0.3, 0.1


def play(me: Me) -> None:
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
            self._me.pause(THINK_S)

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
