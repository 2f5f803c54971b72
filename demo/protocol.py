"""The protocol of the demo's agents: their names, their messages, their leases.

    coordinator  task_assign     to all           one for each file; begins a conversation
    coordinator  tasks_assigned  to all           how many there are
    worker       task_progress   to coordinator   now and then, in the conversation of its task
    worker       task_held       to coordinator   it took the task, and holds still to be killed
    demo         worker_killed   to all           which one, and which lease it held until when
    worker       task_done       to coordinator   the result; its id is made from the task's id
    worker       task_failed     to coordinator   likewise, when the file could not be read
    coordinator  run_finished    to all           every task is reported: workers leave

A task is done when its result, of any worker, is in the log. A worker looks for the result and
takes the lease in one transaction, and publishes the result and gives the lease back in one, so a
task is examined again after a crash, and reported once.
"""

from __future__ import annotations

COORDINATOR = "coordinator"
WORKERS = ("worker-1", "worker-2", "worker-3")
#: The name under which the demo itself speaks.
DEMO = "demo"

TASK_ASSIGN = "task_assign"
TASKS_ASSIGNED = "tasks_assigned"
TASK_PROGRESS = "task_progress"
TASK_HELD = "task_held"
TASK_DONE = "task_done"
TASK_FAILED = "task_failed"
WORKER_KILLED = "worker_killed"
RUN_FINISHED = "run_finished"

#: The types of a result.
RESULTS = frozenset({TASK_DONE, TASK_FAILED})

#: How long a worker may be silent before its task is given to another, in seconds. Short, so that
#: a demo of a few files need not wait long for the takeover.
LEASE_S = 1.0

#: How often the agents' hearts beat, in seconds: often enough for a demo that takes a few.
BEAT_EVERY_S = 1.0


def result_id(task_id: str) -> str:
    """Return the id of a task's result: it is fixed, so the log can hold only one."""
    return f"{task_id}:result"


def lease_name(task_id: str) -> str:
    """Return the name of the lease under which a task is worked on."""
    return f"demo:{task_id}"
