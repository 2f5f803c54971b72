"""A token without `tasks:rw` may publish only what comes under a claim of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from ackbus import Bus
from ackbus.server.access.table import PUSHPALS, ActsAs
from ackbus.server.access.tokens import Scope, Tokens

from ..conftest import Serve
from .conftest import get, post

Client = Callable[..., httpx.Client]

ASK = {"sessionId": "s1", "prompt": "mend it"}
JOB = {"taskId": "t1", "kind": "k"}


@pytest.fixture
def client(bus: Bus, serve: Serve) -> Iterator[Client]:
    """Makes clients of one server, each with a token of its own."""
    Tokens.of(bus).create("root", [Scope.ADMIN])
    url = serve("--pushpals").base_url

    with ExitStack() as stack:

        def of(name: str, *scopes: Scope, agent: str | None = None) -> httpx.Client:
            secret = Tokens.of(bus).create(name, scopes, agent=agent)
            headers = {"Authorization": f"Bearer {secret}"}
            return stack.enter_context(httpx.Client(base_url=url, timeout=60, headers=headers))

        yield of


def done(job: str) -> dict[str, str]:
    return {"jobId": job, "sessionId": "s1", "message": "mended", "commitSha": "c" * 40}


def test_a_worker_enqueues_completions_of_jobs_that_it_claimed_alone(
    client: Client, bus: Bus
) -> None:
    files = client("files", Scope.TASKS_RW)
    bound = client("bound", Scope.WORK_RW, agent="w1")
    free, another = client("free", Scope.WORK_RW), client("another", Scope.WORK_RW)
    jobs = [post(files, "/jobs/enqueue", 201, **JOB)["jobId"] for _ in range(4)]
    assert post(bound, "/jobs/claim")["job"]["id"] == jobs[0]
    assert post(free, "/jobs/claim", workerId="w2")["job"]["id"] == jobs[1]
    assert post(another, "/jobs/claim", workerId="w3@free")["job"]["id"] == jobs[2]
    newest = bus.log.newest_seq()
    for one, job in (
        *((bound, job) for job in (jobs[1], jobs[2], jobs[3], "none")),
        *((free, job) for job in (jobs[0], jobs[2], jobs[3], "none")),
    ):
        told = post(one, "/completions/enqueue", 403, **done(job))
        assert "'tasks:rw'" in told["message"]
        assert "bus token create NAME --scope tasks:rw --scope work:rw" in told["message"]
    assert bus.log.newest_seq() == newest
    post(bound, "/completions/enqueue", 201, **done(jobs[0]))
    post(free, f"/jobs/{jobs[1]}/complete", workerId="w2")
    post(free, "/completions/enqueue", 201, **done(jobs[1]))
    post(another, f"/jobs/{jobs[2]}/fail", workerId="w3@free", message="no")
    post(another, "/completions/enqueue", 403, **done(jobs[2]))


def test_a_planner_enqueues_jobs_of_requests_that_it_has_alone(client: Client, bus: Bus) -> None:
    files = client("files", Scope.TASKS_RW)
    planner, another = client("plans", Scope.WORK_RW), client("another", Scope.WORK_RW)
    first, second = (post(files, "/requests/enqueue", 201, **ASK)["requestId"] for _ in range(2))
    assert post(planner, "/requests/claim", agentId="p")["request"]["id"] == first
    assert post(another, "/requests/claim", agentId="p")["request"]["id"] == second
    newest = bus.log.newest_seq()
    for more in ({}, {"requestId": second}, {"params": {"requestId": second}}, {"params": ["x"]}):
        post(planner, "/jobs/enqueue", 403, **JOB, **more)
    assert bus.log.newest_seq() == newest
    post(planner, "/jobs/enqueue", 201, **JOB, requestId=first)
    post(planner, f"/requests/{first}/complete", agentId="p")
    post(planner, "/jobs/enqueue", 403, **JOB, requestId=first)


def test_only_who_has_a_job_writes_its_output(client: Client) -> None:
    files = client("files", Scope.TASKS_RW)
    w1, w2 = (client(name, Scope.WORK_RW, agent=name) for name in ("w1", "w2"))
    job = post(files, "/jobs/enqueue", 201, **JOB)["jobId"]
    post(w1, "/jobs/claim")
    post(w2, f"/jobs/{job}/log", 403, line="forged")
    post(w1, f"/jobs/{job}/log", line="true")


ENQUEUED = {
    "requests": ("requestId", ASK),
    "jobs": ("jobId", JOB),
    "completions": ("completionId", {"jobId": "j", "sessionId": "s1", "message": "m"}),
}


@pytest.mark.parametrize(
    "operation", [each for each, row in PUSHPALS.items() if row.names is ActsAs.HOLDER]
)
def test_a_bound_token_does_nothing_to_what_it_has_not(client: Client, operation: str) -> None:
    """Nobody has it, another has it, or another has ended it."""
    root = client("all", Scope.ADMIN)
    bound = client("bound", Scope.WORK_RW, Scope.TASKS_RW, agent="w2")
    queue = operation.split("/")[1]
    field, body = ENQUEUED[queue]
    id = post(root, f"/{queue}/enqueue", 201, **body)[field]
    path = operation.removeprefix("POST ").format(id=id)

    def refused() -> None:
        before = get(root, f"/{queue}"), get(root, f"/jobs/{id}/logs") if queue == "jobs" else None
        response = bound.post(path, json={"line": "forged", "message": "forged"})
        assert response.status_code in (400, 403), response.text
        after = get(root, f"/{queue}"), get(root, f"/jobs/{id}/logs") if queue == "jobs" else None
        assert stands(after) == stands(before)

    refused()
    post(root, f"/{queue}/claim", agentId="w1", workerId="w1", pusherId="w1")
    refused()
    post(root, f"/{queue}/{id}/fail", agentId="w1", workerId="w1", pusherId="w1")
    refused()


def stands(seen: tuple[dict[str, Any], dict[str, Any] | None]) -> object:
    """The part of a listing that does not change with the time of day."""
    listed, logs = seen
    (row,) = next(value for key, value in listed.items() if key in ENQUEUED)
    return row["status"], row["error"], row["updatedAt"], logs and logs["logs"]


def test_a_decision_for_a_person_needs_its_scope_both_ways(client: Client, bus: Bus) -> None:
    agent = client("agent", Scope.MESSAGES_RW, Scope.WORK_RW)
    post_session = agent.post("/sessions", json={"sessionId": "s1"})
    assert post_session.status_code == 201
    call = {"toolCallId": "c1", "tool": "rm", "args": {}, "requiresApproval": True}
    post(agent, "/sessions/s1/command", type="tool_call", payload=call)
    newest = bus.log.newest_seq()
    approved = {"type": "approved", "payload": {"approvalId": "c1"}}
    assert "'tasks:rw'" in post(agent, "/sessions/s1/command", 403, **approved)["message"]
    post(agent, "/approvals/c1", 403, decision="approve")
    assert bus.log.newest_seq() == newest
    post(client("person", Scope.TASKS_RW), "/approvals/c1", decision="approve")


def test_words_of_a_bound_token_are_those_of_its_agent(client: Client, bus: Bus) -> None:
    """Those that a planner gets, too."""
    ann = client("ann", Scope.MESSAGES_RW, Scope.TASKS_RW, Scope.WORK_RW, agent="ann")
    assert ann.post("/sessions", json={"sessionId": "s1"}).status_code == 201
    said = ann.post("/message", json={"text": "/ask_remote_buddy fix it", "sessionId": "s1"})
    assert said.status_code == 200
    own = [
        each.from_agent for each in bus.read() if each.type in ("session.message", "task.request")
    ]
    assert own == ["ann", "ann"]
    reader = client("reads", Scope.WORK_RO, Scope.MESSAGES_RO)
    assert get(reader, "/requests")["requests"][0]["prompt"] == "fix it"
