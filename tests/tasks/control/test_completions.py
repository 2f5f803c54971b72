"""Completions: first in, first out; states; and a claim whose holder is gone."""

import json
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.errors import InvalidInput
from ackbus.tasks.control.entries import LEASE_S, NotClaimed
from ackbus.tasks.control.jobs import JobQueue
from ackbus.tasks.control.requests import Completions, Requests, completion_row
from ackbus.tasks.control.requests import row as request_row
from ackbus.tasks.steps.messages import job_of
from ackbus.tasks.steps.tasks import Tasks

from ...subscribers.conftest import Clock
from ..conftest import enter, new_task
from .conftest import add
from .test_requests import rows

KEYS = [
    *("id", "jobId", "sessionId", "commitSha", "branch", "message", "prTitle", "prBody", "status"),
    *("pusherId", "error", "completedAt", "failedAt", "createdAt", "updatedAt"),
]

#: Columns that are not in the view.
TIMES = ("completedAt", "failedAt")


def in_view(completion: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in completion.items() if name not in TIMES}


def finish(completions: Completions, **more: object) -> str:
    body = {"jobId": "j1", "sessionId": "s1", "message": "mend it", **more}
    return completions.enqueue(body)


def test_u_53_pending_claimed_processed_or_failed(completions: Completions, bus: Bus) -> None:
    """U-53, U-09: in order of their coming, with exactly these keys, in the view as well."""
    ids = [
        finish(completions, branch="b", commitSha="c", prTitle="t", prBody="p", priority=word)
        for word in ("background", "interactive")
    ]
    with pytest.raises(NotClaimed, match="it is pending"):
        completions.processed(ids[0])
    claimed = [completions.claim("pusher") for _ in ids]
    assert [found and found[0]["id"] for found in claimed] == ids
    assert completions.claim("pusher") is None
    assert completions.processed(ids[0]).status == "processed"
    assert completions.fail(ids[1], "conflict").status == "failed"
    with pytest.raises(NotClaimed, match="it is processed"):
        completions.fail(ids[0], "late")
    found = [completion_row(entry) for entry in completions.entries.list()]
    assert [list(each) for each in found] == [KEYS] * 2
    assert rows(bus, "pushpals_completions") == [in_view(each) for each in found[::-1]]
    assert [each["error"] for each in found] == ["conflict", None]
    ended = [(each["completedAt"] is None, each["failedAt"] is None) for each in found]
    assert ended == [(True, False), (False, True)]
    assert completions.entries.counts()[0] == {
        "pending": 0,
        "claimed": 0,
        "processed": 1,
        "failed": 1,
    }


@pytest.mark.parametrize("missing", ["jobId", "sessionId", "message"])
def test_u_54_job_session_and_message_are_needed(completions: Completions, missing: str) -> None:
    """U-54: else nothing is stored."""
    with pytest.raises(InvalidInput, match="jobId, sessionId and message are required"):
        finish(completions, **{missing: ""})
    assert completions.entries.list() == []


def test_u_55_the_completion_of_a_lost_integrator_comes_back(
    completions: Completions, clock: Clock
) -> None:
    """U-55: its claim has a lease, and a late end of it is refused."""
    id = finish(completions)
    assert completions.claim("gone")
    assert completions.claim("next") is None
    clock.advance(LEASE_S)
    with pytest.raises(NotClaimed, match="not in claimed state any more"):
        completions.processed(id)
    again = completions.claim("next")
    assert again is not None
    assert again[0]["id"] == id
    with pytest.raises(NotClaimed, match="next has it"):
        completions.processed(id, agent="gone")
    assert completions.processed(id, agent="next").status == "processed"


def test_u_76_request_job_and_completion_are_one_conversation(
    jobs: JobQueue, completions: Completions, bus: Bus
) -> None:
    """U-76: each answers the one before, where that is in the log."""
    told = Requests(bus).enqueue({"sessionId": "s1", "prompt": "x"})
    request = told["requestId"]
    job = add(jobs, params={"requestId": request})
    done = completions.enqueue({"jobId": job, "sessionId": "s1", "message": "m"})
    assert [message.id for message in bus.read(conversation=request)] == [request, job, done]
    alone = add(jobs, params={"requestId": "of another server"})
    found = bus.get(alone)
    assert found is not None
    assert found.in_reply_to is None


def test_u_09_what_a_task_published_has_the_same_columns(
    bus: Bus, tasks: Tasks, requests: Requests, jobs: JobQueue, completions: Completions
) -> None:
    """U-09, U-40, U-53: requests, jobs and completions of this bus's own roles, in both views."""
    task = tasks.assign(new_task(review="none", from_queue=True), agent="lead")
    tasks.start(task.task, agent="worker-1", token=task.token)
    tasks.done(task.task, agent="worker-1", token=task.token, head="2" * 40)
    asked = Draft("task.request", "mend the login", from_agent="anna")
    enter(bus, job_of(task, "lead"), asked)
    (completion,) = map(completion_row, completions.entries.list())
    assert (completion["jobId"], completion["commitSha"]) == (task.task, "2" * 40)
    assert completion["message"] == f"Merge {task.task}: {task.prompt}"
    (job,) = map(jobs.row, jobs.entries.list())
    assert (job["taskId"], job["kind"]) == (task.task, "task.execute")
    assert json.loads(job["params"])["prompt"] == "mend the login"
    (request,) = map(request_row, requests.entries.list())
    assert request["prompt"] == "mend the login"
    assert rows(bus) == [request]
    assert rows(bus, "pushpals_jobs") == [job]
    assert rows(bus, "pushpals_completions") == [in_view(completion)]
