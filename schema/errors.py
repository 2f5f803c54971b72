"""Every error that the package raises on purpose, and the exit code that the command gives it.

A message is one line that says what happened and, where there is one, what to do next. The facts
behind it are attributes, so that programs never parse the text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: How many characters of a value an error repeats: it must stay one readable line, and reports of
#: many lines are kept in memory.
SHOWN_CHARS = 80


def shown(value: object) -> str:
    """Return what an error shows of a value: quoted as Python does it, and cut where it is long."""
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
    return repr(cut) if isinstance(value, str) else cut


def suggestion(names: Iterable[str]) -> str:
    """Return `; did you mean a, b or c?` for names that a mistyped one may mean; "" for none."""
    *others, last = [*names] or [""]
    meant = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {meant}?" if last else ""


class AckbusError(Exception):
    """The root of every error of this package.

    Attributes:
        exit_code: what `bus` exits with: 1 error, 2 usage, 3 refused, 4 nothing there, 5 timed out.
    """

    exit_code = 1


class InvalidInput(AckbusError, ValueError):
    """Input broke a rule of the message form; nothing was stored."""

    exit_code = 2


class Refused(AckbusError):
    """The request is well formed, but the state of the bus forbids it; nothing was changed."""

    exit_code = 3


class NotFound(AckbusError):
    """The named thing does not exist."""

    exit_code = 4


class TimedOut(AckbusError, TimeoutError):
    """A wait reached its timeout."""

    exit_code = 5


class BusNotFound(AckbusError):
    """There is no bus at the directory, nor above it."""


class BusUnusable(AckbusError):
    """A bus is there, but this process can't use it (rights, version, filesystem, damage)."""


class DiskFull(BusUnusable):
    """There is no room on the disk: what was begun was undone, and can be done when there is."""


class Unfinished(BusUnusable):
    """A killed program left a change half made, which SQLite undoes at the next ordinary use."""


class BusMoved(BusUnusable):
    """The directory was moved, deleted or replaced under a process that has the bus open.

    A call in progress may be stored in the old one; later calls are not. Moved back, the bus is as
    before; else open it again, and repeat the call: with the same id nothing is doubled.

    Attributes:
        directory: where the bus was.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        super().__init__(
            f"the bus that was in {directory} was moved, deleted or replaced while it was in use;"
            " put it back, or start this program again"
        )


class RowDamaged(BusUnusable):
    """A row has what no ackbus stores, and what the file refuses unless a program turns that off.

    Attributes:
        directory: of the bus.
        table: its table.
        row: its key, in words.
        column: the column that is wrong; the first, where several don't go together.
    """

    def __init__(self, directory: str, table: str, row: str, column: str, what: str) -> None:
        self.directory, self.table, self.row, self.column = directory, table, row, column
        super().__init__(
            f"the bus in {directory} is damaged: in the table {table}, the row of {row} {what};"
            " 'bus doctor --full' tells what else is wrong, and how to put it right"
        )


class StatementRefused(AckbusError):
    """SQLite refused a statement as it does for no row that an ackbus stores."""


class BusBusy(AckbusError):
    """Another process held the write lock for longer than this write was ready to wait.

    The write did not happen; trying again is safe.
    """

    exit_code = 5


class WrongProcess(AckbusError):
    """A bus that was opened before a fork was used after it; open a new one in the child."""


class ReadOnlyBackup(Refused):
    """Something was to be written into a backup that was not taken into use.

    Attributes:
        directory: of the backup.
        made_at_ms: when it was made, in epoch milliseconds.
    """

    def __init__(self, directory: str, made_at_ms: int, age: str) -> None:
        self.directory, self.made_at_ms = directory, made_at_ms
        super().__init__(
            f"{directory} is a backup, {age}, and read-only; 'bus restore' takes it into use"
        )


class IdConflict(Refused):
    """A message with this id, but with other content, is already in the log.

    Attributes:
        id: the id that both share.
        seq: the place of the message that is stored.
        fields: the names of the fields that differ.
    """

    def __init__(self, id: str, seq: int, fields: list[str]) -> None:
        self.id, self.seq, self.fields = id, seq, fields
        differ = ", ".join(fields)
        super().__init__(
            f"message id {id!r} is taken by seq {seq}, with another {differ}; use a new id"
        )


class UnknownParent(Refused):
    """The message that is to be answered is not in the log."""


#: Words for every agent, in small letters: the first is how it is shown.
EVERYONE = ("all", "everyone", "everybody", "*")


def stands_for_several(recipient: str) -> bool:
    """Whether a name is a word for everyone, or a list of names: no agent would read its inbox."""
    return _is_list(recipient) or recipient.casefold() in EVERYONE


def names_no_agent(recipient: str) -> bool:
    """Whether a name would be no agent's, unless one has acted under it: several, or a phrase."""
    return " " in recipient or stands_for_several(recipient)


def _is_list(recipient: str) -> bool:
    return "," in recipient or recipient.startswith("[")


#: The longest name of which a valid form is suggested, in characters: a sentence is longer.
_SUGGESTED_CHARS = 64


class UnknownRecipient(Refused):
    """An agent was named that the bus has never seen: strictly, or by a name that is no agent's.

    Attributes:
        agent: the name that was given.
        nearest: known agents with similar names, the most similar first.
    """

    def __init__(self, agent: str, nearest: list[str]) -> None:
        self.agent, self.nearest = agent, nearest
        name, near = repr(agent), list(nearest)
        rule = ""
        if stands_for_several(agent):
            several, everyone = "name several one by one", "to reach everyone, name no recipient"
            rule, near = f"; {several if _is_list(agent) else everyone}", []
        elif " " in agent:
            rule = "; the name of a new agent has no spaces: letters, digits, any of . _ @ / + -"
            is_word = len(agent) <= _SUGGESTED_CHARS and agent.isascii()
            if is_word and all(char.isalnum() or char in " ._@+-" for char in agent):
                near = [repr(word) for word in (*near, "-".join(agent.split()))]
            else:  # a model may have copied it: it is not repeated to it as words of the bus
                name, near = "of this name", []
        hint = suggestion(dict.fromkeys(near))
        super().__init__(f"the bus has never seen an agent {name}{rule}{hint}")


class UnknownRecipientWarning(UserWarning):
    """A message was stored for an agent that the bus has never seen."""


class NotActedUponWarning(UserWarning):
    """A message was stored whose type is acted upon, but nothing acts upon this message."""


class AnsweredAgainWarning(UserWarning):
    """A second answer of an agent to the same request was stored."""


class SecondLoopWarning(UserWarning):
    """A loop delivers to an agent that another living process delivers to."""


class AckPastEnd(Refused):
    """An acknowledgement named a seq above the newest message."""


class MailArchived(Refused):
    """Messages were archived that an agent had not acknowledged: it had not been seen for long.

    Attributes:
        agent: whose messages.
        last_seq: the last of them.
    """

    def __init__(self, agent: str, cursor: int, last_seq: int, discarded_seq: int = 0) -> None:
        self.agent, self.last_seq = agent, last_seq
        what = f"messages for {agent!r} up to {last_seq} were archived unread"
        go_on = f"'bus ack {agent} {last_seq}'"
        if discarded_seq >= last_seq:
            super().__init__(f"{what}, and discarded; go on after them with {go_on}")
            return
        first, them = cursor + 1, "them"
        if discarded_seq > cursor:
            what += f", and those up to {discarded_seq} discarded"
            first, them = discarded_seq + 1, "the others"
        super().__init__(
            f"{what}; read {them} with 'bus replay --from {first} --to {last_seq}', then {go_on}"
        )


class LeaseLost(Refused):
    """The lease expired, was released, or is another holder's by now."""


class RowRefused(AckbusError):
    """A rule of the tables refused a row; the statement changed nothing."""


class LimitReached(Refused):
    """A queue or an inbox that the message is for has as many waiting as it may have.

    Attributes:
        kind: `queue` or `inbox`.
        name: which one.
        max_waiting: its limit.
    """

    def __init__(self, kind: str, name: str, max_waiting: int) -> None:
        self.kind, self.name, self.max_waiting = kind, name, max_waiting
        super().__init__(
            f"{kind} {name!r} is full: {max_waiting} wait there, which is its limit;"
            " wait for room with --wait (wait_s in programs), or see 'bus limit list'"
        )


class BlobMissing(NotFound, FileNotFoundError):
    """No blob of this name is in the store."""


class BlobAltered(AckbusError):
    """A blob's bytes do not give the hash in its name."""
