"""The words of tasks, for type checkers."""

from __future__ import annotations

from typing import Literal

#: The state of a task's newest attempt.
TaskState = Literal[
    "ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED", "COMPLETED", "CANCELLED", "FAILED"
]

#: Whose approval a task needs before it is integrated: nobody's, anybody's, or that of an agent
#: other than its worker.
Review = Literal["none", "required", "other"]

#: The meaning of a lost holder: another attempt, or the end of the task.
OnLost = Literal["requeue", "fail"]
