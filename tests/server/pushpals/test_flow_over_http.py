"""The way from a message to a processed commit, by scripted roles that know HTTP alone."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ackbus import Bus
from ackbus.model import Trace

from ..conftest import Serve, serving
from .conftest import get, post

pytestmark = pytest.mark.slow


@contextmanager
def open_door(bus_dir: Path, env: dict[str, str]) -> Iterator[httpx.Client]:
    with (
        serving(bus_dir, "--pushpals", "--open", env=env) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


def test_u_01_a_message_becomes_a_processed_commit(door: httpx.Client, bus: Bus) -> None:
    """U-01, U-02: client, planner, worker and integrator are stubs; all ids are linked."""
    said = door.post("/message", json={"text": "/ask_remote_buddy fix it", "sessionId": "s1"})
    *_, last = (json.loads(frame[6:]) for frame in said.text.split("\n\n")[:-1])
    request = post(door, "/requests/claim", agentId="planner")["request"]
    assert request["id"] == last["data"]["requestId"]
    plan = {"schemaVersion": 2, "lane": "worker", "instruction": request["prompt"]}
    plan |= {"requestId": request["id"]}
    plan["planning"] = {
        "intent": "a fix",
        "scope": {},
        "acceptanceCriteria": ["it works"],
        "validationSteps": [],
    }
    job = post(
        *(door, "/jobs/enqueue", 201),
        taskId="t1",
        kind="task.execute",
        sessionId="s1",
        params=plan,
    )["jobId"]
    post(door, f"/requests/{request['id']}/complete", result={"requiresWorker": True})
    claimed = post(door, "/jobs/claim", workerId="w1")["job"]
    assert (claimed["id"], json.loads(claimed["params"])["instruction"]) == (job, "fix it")
    post(door, f"/jobs/{job}/log", line="working")
    done = {"jobId": job, "sessionId": "s1", "message": "fix it", "commitSha": "c" * 40}
    completion = post(door, "/completions/enqueue", 201, **done, branch="agent/w1/j")
    post(door, f"/jobs/{job}/complete", summary="it works")
    taken = post(door, "/completions/claim", pusherId="scm")["completion"]
    assert (taken["id"], taken["commitSha"]) == (completion["completionId"], "c" * 40)
    post(door, f"/completions/{taken['id']}/processed")
    status = get(door, "/system/status")["queues"]
    assert status["requests"]["completed"] == status["jobs"]["completed"] == 1
    assert status["completions"]["processed"] == 1
    chain = {request["id"], job, taken["id"]}
    for id in chain:
        assert chain <= {step.message.id for step in Trace.of(bus, id).steps}


def test_u_08_work_goes_on_over_a_restart(bus_dir: Path, bus_env: dict[str, str]) -> None:
    """U-08, U-05: what was claimed from one server ends at the next; what waits is still there."""
    with open_door(bus_dir, bus_env) as door:
        ids = [
            post(door, "/jobs/enqueue", 201, taskId=f"t{number}", kind="k")["jobId"]
            for number in range(3)
        ]
        assert post(door, "/jobs/claim", workerId="w1")["job"]["id"] == ids[0]
    with open_door(bus_dir, bus_env) as door:
        post(door, f"/jobs/{ids[0]}/complete", workerId="w1")
        assert get(door, "/jobs")["counts"] == {
            "pending": 2,
            "claimed": 0,
            "completed": 1,
            "failed": 0,
        }
        assert [row["workerId"] for row in get(door, "/workers")["workers"]] == ["w1"]
        assert post(door, "/jobs/claim", workerId="w2")["job"]["id"] == ids[1]


def test_u_36_two_servers_of_one_bus_hand_out_each_job_once(serve: Serve) -> None:
    """U-36, U-43: 60 jobs, 8 workers at two servers: exact counts, nothing twice."""
    doors = [serve("--pushpals", "--open") for _ in range(2)]
    for number in range(60):
        post(doors[0], "/jobs/enqueue", 201, taskId=f"t{number}", kind="k")

    def work(number: int) -> list[str]:
        own, door = [], doors[number % 2]
        while True:
            response = door.post("/jobs/claim", json={"workerId": f"w{number}"})
            if response.status_code == 404:
                return own
            own.append(response.json()["job"]["id"])
            post(door, f"/jobs/{own[-1]}/complete", workerId=f"w{number}")

    with ThreadPoolExecutor(8) as pool:
        done = [id for own in pool.map(work, range(8)) for id in own]
    assert len(done) == len(set(done)) == 60
    counts = get(doors[1], "/jobs")["counts"]
    assert counts == {"pending": 0, "claimed": 0, "completed": 60, "failed": 0}
