"""Tokens of PushPals' door: needed unless somebody says otherwise, with rates and limits."""

import httpx
import pytest

from ackbus import Bus, JobControl
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.tasks.steps.planning import open_queue

from ...conftest import RunBus
from ..conftest import Serve
from .conftest import get, post, told

pytestmark = pytest.mark.slow

READ = ("/requests", "/jobs", "/completions", "/workers", "/system/status")
WRITE = (
    *("/requests/enqueue", "/requests/claim", "/jobs/enqueue", "/jobs/claim"),
    *("/completions/enqueue", "/completions/claim", "/workers/heartbeat", "/message"),
    *("/autonomy/lock/acquire", "/autonomy/lock/renew", "/autonomy/lock/release"),
)


def test_x_17_without_a_token_and_without_leave_the_server_does_not_start(
    run_bus: RunBus, bus: Bus
) -> None:
    """X-17, U-29: one line that says what to do; open it is on this machine alone."""
    serve = ("serve", "--port", "0", "--pushpals")
    found = run_bus(*serve)
    assert found.code == 3
    assert "--pushpals needs a token, 'bus token create'" in found.err
    found = run_bus(*serve, "--host", "0.0.0.0")
    assert found.code == 3
    assert "make a token first" in found.err


def test_x_17_open_is_for_this_machine_alone(run_bus: RunBus, bus: Bus) -> None:
    """X-17: not even with tokens."""
    Tokens.of(bus).create("t", [Scope.WORK_RW])
    public = ("--host", "0.0.0.0")
    found = run_bus("serve", "--port", "0", "--pushpals", "--open", *public)
    assert found.code == 3
    assert "--open is for this machine alone" in found.err


def test_u_29_a_bearer_token_guards_every_operation(bus: Bus, serve: Serve) -> None:
    """U-29, X-17: 401 without one, 403 without its scope."""
    tokens = Tokens.of(bus)
    reads = tokens.create("reads", [Scope.WORK_RO, Scope.MESSAGES_RO])
    door = serve("--pushpals")
    for path in READ:
        assert get(door, path, 401)["message"].startswith("Unauthorized")
    for path in WRITE:
        post(door, path, 401)
    door.headers["Authorization"] = f"Bearer {reads}"
    for path in READ:
        get(door, path)
    for path in WRITE:
        post(door, path, 403)


def test_a_token_of_one_agent_acts_for_it_alone(bus: Bus, serve: Serve) -> None:
    """U-29: it claims, ends and beats as that agent, also where a client names none."""
    secret = Tokens.of(bus).create("w1", [Scope.WORK_RW, Scope.TASKS_RW], agent="w1")
    door = serve("--pushpals", headers={"Authorization": f"Bearer {secret}"})
    post(door, "/jobs/enqueue", 403, taskId="t", kind="k", **{"from": "w2"})
    id = post(door, "/jobs/enqueue", 201, taskId="t", kind="k")["jobId"]
    post(door, "/jobs/claim", 403, workerId="w2")
    post(door, "/workers/heartbeat", 403, workerId="w2")
    assert post(door, "/jobs/claim")["job"]["workerId"] == "w1"
    post(door, f"/jobs/{id}/complete", 403, workerId="w2")
    post(door, f"/jobs/{id}/complete")
    message = bus.get(id)
    assert message is not None
    assert message.from_agent == "w1"


def test_rates_and_limits_admit_no_more(bus: Bus, serve: Serve) -> None:
    """Q-26: a client over its rate, and a queue that is full, are told when to come again."""
    door = serve("--pushpals", "--open", "--max-rate", "0.5")
    get(door, "/jobs")
    response = door.get("/jobs")
    told(response, 429)
    assert int(response.headers["Retry-After"]) >= 1
    JobControl(open_queue(bus, "requests")).limit(1)
    free = serve("--pushpals", "--open")
    ask = {"sessionId": "s", "prompt": "x"}
    post(free, "/requests/enqueue", 201, **ask)
    response = free.post("/requests/enqueue", json=ask)
    assert "full" in told(response, 429)["message"]
    assert response.headers["Retry-After"] == "1"


@pytest.mark.parametrize("origin", ["https://evil.example"])
def test_pages_of_others_may_not_ask(door: httpx.Client, origin: str) -> None:
    """X-17: an open door is open for programs of this machine, and for no page that they show."""
    response = door.post("/jobs/claim", json={}, headers={"Origin": origin})
    assert response.status_code == 403
