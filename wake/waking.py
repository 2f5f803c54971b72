"""Waking an agent for waiting mail: whether it may be woken, and the fixed line typed to it.

Mail of priority interactive wakes, and so does a request to a named agent, unless it is background.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, takewhile
from time import monotonic
from typing import Protocol

from ..bus.doorbell import Pace, listen
from ..bus.own_answers import own_answer
from ..schema.message.draft import PRIORITY_NAMES, Priority
from ..schema.message.reply_types import REQUEST
from ..schema.paging import pages, seq_of
from ..subscribers.inboxes.mail import POLL_LIMIT
from ..subscribers.inboxes.session import inbox_of
from .notes import WakeNotes
from .terminals import BY_COMMAND, NotWoken, ScreenTerminal, TmuxTerminal, program_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message

#: The text that an agent gets when it is woken.
TEXT = "Mail waits on the bus: read your inbox."

#: How long an agent is left alone after it was woken, in seconds.
PACE_S = 600.0

#: How long mail waits before it wakes, in seconds: an agent at work sees it without a wake.
PATIENCE_S = 15.0


#: How long after a failed try the next try is made, in seconds.
RETRY_S = 30.0


def _wakes(mail: Message) -> bool:
    """Whether mail is worth a wake: it is urgent, or a request to a named agent."""
    if mail.priority == Priority.INTERACTIVE:
        return True
    asks = mail.type.endswith(REQUEST) and mail.to_agent is not None
    return asks and mail.priority != Priority.BACKGROUND


def _why_not(mail: Message, answer: Message | None) -> str:
    """Return why mail is not worth a wake, for people; it may have an answer already."""
    if answer is not None:
        return f"answered by {answer.seq}"
    asks = mail.type.endswith(REQUEST)
    kind = f"a request to {'it' if mail.to_agent else 'all'}" if asks else "no request"
    return f"{kind}, of priority {PRIORITY_NAMES[mail.priority]}"


class WakeMethod(Protocol):
    """A way to wake an agent."""

    def check(self) -> str:
        """Return its name; raise `NotWoken` if it can't be used now."""

    def wake(self, mail: Message) -> None:
        """Wake the agent for mail that waits; raise `NotWoken` if that failed."""


@dataclass(frozen=True, slots=True)
class Woken:
    """An agent that was woken.

    Attributes:
        agent: its name.
        seq: the message for which it was woken.
        way: the way, for people.
    """

    agent: str
    seq: int
    way: str


class Waker:
    """Wakes an agent, at a set pace that all processes share.

    Args:
        bus, agent: the agent.
        way: how it is woken.
        pace_s: how long it is left alone after it was woken, in seconds.
    """

    def __init__(
        self, bus: LocalBus, agent: str, way: WakeMethod, *, pace_s: float = PACE_S
    ) -> None:
        self._bus = bus
        self._agent = agent
        self._notes = WakeNotes(bus, agent)
        self._way = way
        self._pace_s = pace_s
        # Up to this seq the agent was woken for all waiting mail that is worth a wake.
        self._looked = 0
        # Why mail gave no wake at the last look: for each reason the newest mail that has it.
        self._refusals: dict[str, NotWoken] = {}

    def once(self, *, dry_run: bool = False) -> Woken | None:
        """Wake the agent if any mail waits for it; else return None.

        Args:
            dry_run: only return how it would be woken.

        Raises:
            NotWoken: it could not be woken, or was a short time ago.
        """
        waiting = inbox_of(self._bus, self._agent).poll(1)
        if not waiting:
            return None
        if not dry_run:
            return self._wake(waiting[0], again=True)
        self._notes.check_pace(self._pace_s)
        return Woken(self._agent, waiting[0].seq, self._way.check())

    def follow(
        self,
        *,
        patience_s: float = PATIENCE_S,
        retry_s: float = RETRY_S,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> Iterator[Woken | NotWoken]:
        """Wake the agent for each mail that is worth a wake; yield the end of each try.

        Mail that is not worth a wake is a failed try, the newest of each reason at a look. Of tries
        that fail for the same reason in a row, only the first is yielded.

        Args:
            patience_s: how long the agent may take to handle the mail without a wake, in seconds.
            retry_s: how long after a failed try the next try is made, in seconds.
            goes_on: is asked every 2 s at least; False ends it.
        """
        pace, not_before, last_end = Pace(), 0.0, ""
        with listen(self._bus) as listener:  # before the look: what comes after it is heard
            while goes_on():
                mail = self.unhandled(patience_s) if monotonic() >= not_before else None
                ends: list[Woken | NotWoken | None] = [*self._refusals.values()]
                self._refusals = {}
                if mail is not None:
                    pace.reset()
                    try:
                        ends.append(self._wake(mail, again=False))
                    except NotWoken as error:
                        ends.append(error)
                        not_before = monotonic() + retry_s
                for end in ends:
                    if end is not None and str(end) != last_end:
                        last_end = str(end)
                        yield end
                if mail is None:
                    listener.wait(pace.next())

    def unhandled(self, patience_s: float) -> Message | None:
        """Return mail that has waited so long, and for which a wake is due, or None."""
        self._refusals = {}
        self._looked = max(self._looked, self._notes.last().upto)
        inbox = inbox_of(self._bus, self._agent)
        mail_after = partial(inbox.poll_after, limit=POLL_LIMIT)
        for page in pages(mail_after, self._looked, place=seq_of, what="mail"):
            for mail in page:
                answer = own_answer(self._bus, mail, self._agent)
                if _wakes(mail) and answer is None:
                    return self._due(mail, patience_s)
                self._looked = mail.seq
                self._refuse(mail, _why_not(mail, answer))
        return None

    def _due(self, mail: Message, patience_s: float) -> Message | None:
        """Return the mail, if it has waited long enough and the pace is kept."""
        if self._notes.left_s(self._pace_s):
            self._refuse(mail, f"a wake was tried less than {self._pace_s:g} s ago (--pace)")
            return None
        has_waited_s = (self._bus.now_ms() - mail.ts_ms) / 1000
        return mail if has_waited_s >= patience_s else None

    def _refuse(self, mail: Message, why: str) -> None:
        """Note why mail gives no wake."""
        self._refusals[why] = NotWoken(self._agent, f"message {mail.seq} waits: {why}")

    def _wake(self, mail: Message, *, again: bool) -> Woken | None:
        """Wake the agent for mail; None if another process just has, unless `again`."""
        with self._notes.alone(self._pace_s):
            before, upto = self._notes.last().upto, self._bus.log.newest_seq()
            if before >= mail.seq and not again:
                return None
            way = self._way.check()
            try:
                self._way.wake(mail)
            except NotWoken:
                self._notes.write(before)  # the try counts for the pace
                raise
            self._notes.write(upto)
        return Woken(self._agent, mail.seq, way)


# A nudge: a fixed line that is typed into the terminal of an agent's program.
#
# Text of messages and names of agents are never typed. A program may ask a question just then: a
# letter or Enter would answer it. So the first character answers nothing; the others follow when it
# is shown at the beginning of a line, and Enter when the whole line is shown.

#: The only text that is ever typed.
LINE = f"({TEXT})"

#: How long a program may take to show it, and how often it is looked for, in seconds.
_SHOWN_WITHIN_S, _LOOK_S = 3.0, 0.05


class Terminal(Protocol):
    """A window of tmux or screen in which the program of an agent is."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    def check(self) -> None:
        """Raise `NotWoken` unless typed text reaches the program, and no person types there."""

    def type(self, text: str) -> None:
        """Type a text."""

    def press_enter(self) -> None:
        """Press Enter."""

    def erase(self, count: int) -> None:
        """Press Backspace so many times."""

    def lines(self) -> list[str]:
        """Return the lines that it shows."""


class Nudge:
    """The way to wake an agent by its terminal.

    Args:
        bus, agent: the agent.
    """

    def __init__(self, bus: LocalBus, agent: str) -> None:
        self._bus = bus
        self._agent = agent

    def check(self) -> str:
        """Return the name of the way, as it is now.

        Raises:
            NotWoken: nothing may be typed now.
        """
        return self._terminal().name

    def wake(self, mail: Message) -> None:
        """Type the line, and press Enter.

        Raises:
            NotWoken: the line was not taken. What was typed of it was erased, unless the terminal
                is another's by then: the reason says so.
        """
        typed = ""
        try:
            for part in (LINE[0], LINE[1:]):
                terminal = self._terminal()
                before = _count_alone(typed + part, terminal.lines())
                typed += part
                terminal.type(part)
                if not _is_shown(typed, terminal, before):
                    terminal.erase(len(typed))
                    typed = ""
                    reason = "takes no line now: it asks something, or has a line begun"
                    raise NotWoken(self._agent, f"{terminal.name} {reason}")
            self._terminal().press_enter()
        except NotWoken as error:
            if not typed:
                raise
            why = f"{error.reason}; {typed!r} may be left in its prompt"
            raise NotWoken(self._agent, why) from error

    def _terminal(self) -> Terminal:
        program = program_of(self._bus, self._agent)
        for kind in (ScreenTerminal, TmuxTerminal):
            terminal: Terminal | None = kind.of(program)
            if terminal is not None:
                terminal.check()
                return terminal
        name = program.process.name
        raise NotWoken(self._agent, f"{name} is in neither tmux nor screen; {BY_COMMAND}")


def _is_shown(line: str, terminal: Terminal, before: int) -> bool:
    """Wait until a line is shown once more than before; return whether it was in time."""
    end = time.monotonic() + _SHOWN_WITHIN_S
    while True:
        is_last = time.monotonic() > end  # read before the look, which may take long
        if _count_alone(line, terminal.lines()) > before:
            return True
        if is_last:
            return False
        time.sleep(_LOOK_S)


def _count_alone(text: str, lines: list[str]) -> int:
    """Return how often lines have a text, with nothing but a prompt or a frame beside it.

    A narrow window has the text on several lines: then its letters count.
    """
    letters, shown = _letters(text), [_letters(line) for line in lines]
    if not letters:
        return sum(
            text in line and not letters_of_line
            for line, letters_of_line in zip(lines, shown, strict=True)
        )
    ends = (accumulate(takewhile(bool, shown[start:])) for start in range(len(shown)))
    return sum(letters in letters_of_line for letters_of_line in ends)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))
