"""Comments on lines: messages to the worker of a task, pinned to a commit and a line of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...git.branches.repositories import LinePlace, line_at, place_now
from ...git.limited import one_look
from ...git.sealed import TrustedRepositories
from ...schema.errors import InvalidInput, NotFound, shown
from ...schema.message.names import check_agent
from ...schema.message.times import format_ts
from ..steps.messages import task_mail
from ..steps.tasks import Tasks
from .forecast import TaskRepositories, heads_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...git.sealed import SealedRepository
    from ...schema.message.message import Message
    from ..records.task import Task

#: The type of the messages.
COMMENT = "task_comment"


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a line of a task's branch.

    Attributes:
        seq, id: of its message.
        at_ms: when it was made, in epoch milliseconds.
        by: the agent that made it.
        attempt: the attempt of the task at that time.
        commit: the commit that was commented on.
        place: the line in that commit.
        text: the text of that line.
        words: the comment.
        now: the line at the present head of the task; None where it was changed, or is gone.
    """

    seq: int
    id: str
    at_ms: int
    by: str
    attempt: int
    commit: str
    place: LinePlace
    text: str
    words: str
    now: LinePlace | None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "seq": self.seq,
            "id": self.id,
            "at": format_ts(self.at_ms),
            "by": self.by,
            "attempt": self.attempt,
            "commit": self.commit,
            "file": self.place.file,
            "line": self.place.line,
            "text": self.text,
            "comment": self.words,
            "now": None if self.now is None else {"file": self.now.file, "line": self.now.line},
        }


def place_in(text: str) -> LinePlace:
    """Return the place that FILE:LINE names.

    Raises:
        InvalidInput: it names no place.
    """
    file, colon, line = text.rpartition(":")
    if not (file and colon and line.isascii() and line.isdecimal() and 0 < len(line) < 10):
        raise InvalidInput(f"give FILE:LINE, such as src/app.py:12, not {shown(text)}")
    return LinePlace(file, int(line))


def comment(bus: LocalBus, name: str, place: LinePlace, words: str, *, agent: str) -> Comment:
    """Publish a comment on a line of a task to its worker, and return it.

    The line is looked up in the commit that is done, or else in the newest on the branch.

    Args:
        bus: an open bus.
        name: of the task.
        place: the line; the file's path counts from the root of the repository.
        words: the comment.
        agent: the agent that comments.

    Raises:
        NotFound: there is no such task, file or line.
        NotTrusted: the repository of the task may not be looked into.
        InvalidInput: the comment is empty.
    """
    check_agent(agent)
    if not words.strip():
        raise InvalidInput("the comment is empty")
    task = Tasks(bus).get(name)
    repository = TrustedRepositories(bus.layout.directory).sealed(task.repository)
    head = _head_of(task, TaskRepositories(bus))
    if head is None:
        raise NotFound(f"branch {task.branch} of task {name!r} is not there; see 'bus task show'")
    text = line_at(repository, head, place)
    if text is None:
        raise NotFound(f"{shown(place.file)} has no line {place.line} at {head[:12]}")
    mail = task_mail(
        *(task, COMMENT, agent, task.worker),
        commit=head,
        file=place.file,
        line=place.line,
        text=text,
        comment=words,
    )
    receipt = bus.log.append([mail])[0]
    stored = bus.log.at(receipt.seq)
    published = None if stored is None else _comment(stored, place)
    assert published is not None
    return published


@one_look()
def comments(bus: LocalBus, name: str) -> list[Comment]:
    """Return the comments on a task, the oldest first, and where their lines are now.

    Raises:
        NotFound: there is no such task.
        GitFailed: git is not installed.
    """
    task, lookout = Tasks(bus).get(name), TaskRepositories(bus)
    head, repository = _head_of(task, lookout), lookout.into(task.repository)
    listed = []
    for message in bus.read(conversation=task.correlation_id):
        if message.type == COMMENT:
            original = _comment(message, None)
            if original is not None and message.payload.get("task") == name:
                present = (
                    _present_place(repository, original, head) if repository and head else None
                )
                listed.append(_comment(message, present) or original)
    return listed


def _head_of(task: Task, lookout: TaskRepositories) -> str | None:
    return heads_of([task], lookout).get(task.repository, {}).get(task.task)


def _present_place(repository: SealedRepository, original: Comment, head: str) -> LinePlace | None:
    (commit,) = repository.commits([original.commit])
    if commit is None:  # no ref keeps it any more
        return None
    return place_now(repository, commit, head, original.place)


def _comment(message: Message, present: LinePlace | None) -> Comment | None:
    """Return the comment of a message; None if a program has written another form."""
    payload = message.payload
    try:
        return Comment(
            message.seq,
            message.id,
            message.ts_ms,
            message.from_agent,
            int(payload["attempt"]),
            str(payload["commit"]),
            LinePlace(str(payload["file"]), int(payload["line"])),
            str(payload["text"]),
            str(payload["comment"]),
            present,
        )
    except (KeyError, TypeError, ValueError):
        return None
