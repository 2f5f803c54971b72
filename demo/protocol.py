"""The protocol of the demo's agents: their names and their messages.

    coordinator  examine.request  to all           one for each file: a job of the queue
    worker       examine.held     to coordinator   it holds still with a job, to be killed
    demo         examine.killed   to all           which worker was killed, at which job
    worker       examine.done     to coordinator   the answer to a job: the facts about its file

Leases, answers and retries are those of queues and workers: see `Worker`.
"""

from __future__ import annotations

COORDINATOR = "coordinator"
WORKERS = ("worker-1", "worker-2", "worker-3")
#: The name under which the demo itself speaks.
DEMO = "demo"

#: The type of a task, and the name of the queue of all tasks.
TASK = "examine.request"
DONE = "examine.done"
HELD = "examine.held"
KILLED = "examine.killed"

#: How long a worker may be silent before its job is given to another, in seconds. Short, so that
#: a demo of a few files need not wait long for the takeover.
LEASE_S = 2.0
