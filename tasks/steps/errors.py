"""The errors of tasks."""

from __future__ import annotations

from ...schema.errors import NotFound, Refused


class TaskNotFound(NotFound):
    """There is no task of this name."""


class WrongTaskState(Refused):
    """The task is in a state from which this step does not go; nothing was changed.

    Attributes:
        task: its name.
        state: its state.
    """

    def __init__(self, task: str, state: str, text: str) -> None:
        self.task, self.state = task, state
        super().__init__(text)


class TaskExists(Refused):
    """A task of this name exists, and is not the one that was asked for."""


class TaskUnproven(Refused):
    """The row of the task was made of messages, and nobody has confirmed it: no step goes on."""


class TaskBlocked(Refused):
    """The task waits for the answer to a question."""
