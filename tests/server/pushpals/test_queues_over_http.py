"""Requests, jobs, completions and workers over HTTP: codes, forms, and the chain of all three."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ackbus import Bus
from ackbus.model import Trace

from .conftest import get, post

pytestmark = pytest.mark.slow

ASK = {"sessionId": "s1", "prompt": "mend it"}
JOB = {"taskId": "t1", "kind": "task.execute", "sessionId": "s1"}
DONE = {"jobId": "j1", "sessionId": "s1", "message": "mended"}


def test_u_34_enqueue_answers_with_place_and_estimate(door: httpx.Client) -> None:
    """U-34, U-35: 201; 400 without a session or a prompt."""
    post(door, "/requests/enqueue", 201, **ASK)
    told = post(door, "/requests/enqueue", 201, **ASK, priority="interactive")
    assert (told["queuePosition"], told["etaMs"]) == (1, 0)
    assert told.keys() == {"ok", "requestId", "queuePosition", "etaMs"}
    for body in ({}, {"sessionId": "s1"}, {"prompt": "x"}):
        assert post(door, "/requests/enqueue", 400, **body)["message"] == (
            "sessionId and prompt are required"
        )
    for content in (b"", b"no json", b"[1]", b"\xff"):
        assert door.post("/requests/enqueue", content=content).status_code == 400


def test_u_36_ten_agents_claim_five_requests(door: httpx.Client) -> None:
    """U-36: five 200 with distinct ids and waits, five 404."""
    for _ in range(5):
        post(door, "/requests/enqueue", 201, **ASK)

    def claim(number: int) -> httpx.Response:
        return door.post("/requests/claim", json={"agentId": f"agent-{number}"})

    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(claim, range(10)))
    assert sorted(each.status_code for each in found) == [200] * 5 + [404] * 5
    claimed = [each.json() for each in found if each.status_code == 200]
    assert len({each["request"]["id"] for each in claimed}) == 5
    assert all(each["queueWaitMs"] >= 0 for each in claimed)
    assert {each.json()["message"] for each in found if each.status_code == 404} == {
        "No pending requests"
    }


def test_u_33_and_u_37_ends_of_requests(door: httpx.Client) -> None:
    """U-33, U-37: what is not claimed can't end: 400."""
    first, second = (post(door, "/requests/enqueue", 201, **ASK)["requestId"] for _ in range(2))
    told = post(door, f"/requests/{first}/complete", 400, result={})
    assert "not in claimed state" in told["message"]
    for _ in range(2):
        post(door, "/requests/claim", agentId="planner")
    post(door, f"/requests/{first}/complete", 400, agentId="another", result={})
    post(door, f"/requests/{first}/complete", agentId="planner", result={"jobs": 1})
    post(door, f"/requests/{second}/fail")
    post(door, f"/requests/{second}/fail", 400)
    rows = {row["id"]: row for row in get(door, "/requests")["requests"]}
    assert json.loads(rows[first]["result"]) == {"jobs": 1}
    assert json.loads(rows[second]["error"]) == {"message": "Unknown error"}


def test_u_38_lists_have_limits_counts_and_levels(door: httpx.Client) -> None:
    """U-38: limit 0 is 1; another status is 400."""
    for _ in range(3):
        post(door, "/requests/enqueue", 201, **ASK)
    found = get(door, "/requests", limit=0)
    assert len(found["requests"]) == 1
    assert found["counts"] == {"pending": 3, "claimed": 0, "completed": 0, "failed": 0}
    assert found["priorityCounts"] == {"interactive": 0, "normal": 3, "background": 0}
    assert [each["position"] for each in found["pendingSnapshot"]] == [1, 2, 3]
    assert found["slo"]["successRate"] is None
    for path in ("/requests", "/jobs", "/completions"):
        assert get(door, path, 400, status="foo")["message"] == "Invalid status filter"
        get(door, path, status="pending", limit="x")


def test_u_42_to_u_46_a_job_from_end_to_end(door: httpx.Client) -> None:
    """U-42, U-43, U-44, U-46: its worker, its output by a cursor, its end, and no second one."""
    for body in ({"taskId": "t"}, {"kind": "k"}):
        post(door, "/jobs/enqueue", 400, **body)
    own = post(door, "/jobs/enqueue", 201, **JOB, targetWorkerId="w2", priority="background")
    told = post(door, "/jobs/enqueue", 201, **JOB, priority="interactive")
    assert told.keys() == {"ok", "jobId", "taskId", "queuePosition", "etaMs"}
    assert post(door, "/jobs/claim", workerId="w1")["job"]["id"] == told["jobId"]
    assert post(door, "/jobs/claim", workerId="w2")["job"]["id"] == own["jobId"]
    post(door, "/jobs/claim", 404, workerId="w1")
    (first, _) = get(door, "/workers")["workers"]
    assert (first["workerId"], first["status"], first["activeJobCount"]) == ("w1", "busy", 1)
    path = f"/jobs/{told['jobId']}"
    post(door, f"{path}/log", 400, message="  ")
    post(door, "/jobs/none/log", 404, message="x")
    ids = [post(door, f"{path}/log", **{field: "line"})["logId"] for field in ("message", "line")]
    newest = get(door, f"{path}/logs", limit=1)
    assert ([each["id"] for each in newest["logs"]], newest["cursor"]) == (ids[1:], ids[1])
    assert [each["id"] for each in get(door, f"{path}/logs")["logs"]] == ids
    page = get(door, f"{path}/logs", afterId=0, limit=1)
    assert ([each["id"] for each in page["logs"]], page["cursor"]) == (ids[:1], ids[0])
    page = get(door, f"{path}/logs", afterId=page["cursor"])
    assert ([each["id"] for each in page["logs"]], page["cursor"]) == (ids[1:], ids[1])
    assert get(door, f"{path}/logs", afterId=ids[1])["cursor"] == ids[1]
    post(door, f"{path}/complete", summary="it works", artifacts=[])
    post(door, f"{path}/complete", 400, summary="again")
    post(door, f"/jobs/{own['jobId']}/fail", message="no", detail="why")
    assert {each["status"] for each in get(door, "/workers")["workers"]} == {"idle"}
    found = get(door, "/jobs")
    assert {row["status"] for row in found["jobs"]} == {"completed", "failed"}
    assert found["slo"]["successRate"] == 0.5


def test_u_48_heartbeats_over_http(door: httpx.Client) -> None:
    """U-48: 400 without a name; `ttlMs` says what online means."""
    post(door, "/workers/heartbeat", 400, status="idle")
    post(door, "/workers/heartbeat", workerId="w1", status="error", pollMs=2000)
    (row,) = get(door, "/workers", ttlMs=600_000)["workers"]
    assert (row["status"], row["isOnline"], row["pollMs"]) == ("error", True, 2000)


def test_u_54_every_route_of_completions(door: httpx.Client) -> None:
    """U-54: success 201 or 200, empty 404, missing field 400, wrong state 400."""
    for field in DONE:
        post(door, "/completions/enqueue", 400, **(DONE | {field: ""}))
    post(door, "/completions/claim", 404, pusherId="p1")
    first, second = (
        post(door, "/completions/enqueue", 201, **DONE)["completionId"] for _ in range(2)
    )
    post(door, f"/completions/{first}/processed", 400)
    claimed = [post(door, "/completions/claim", pusherId="p1")["completion"] for _ in range(2)]
    assert [each["id"] for each in claimed] == [first, second]
    post(door, f"/completions/{first}/processed")
    post(door, f"/completions/{second}/fail", error="conflict")
    for path in (f"{first}/processed", f"{second}/fail"):
        post(door, f"/completions/{path}", 400)
    found = get(door, "/completions")
    assert found["counts"] == {"pending": 0, "claimed": 0, "processed": 1, "failed": 1}
    assert [row["error"] for row in found["completions"]] == ["conflict", None]


def test_u_75_status_over_http(door: httpx.Client) -> None:
    """U-75: workers, queues and service levels, in one object."""
    post(door, "/requests/enqueue", 201, **ASK)
    found = get(door, "/system/status")
    assert found.keys() == {"ok", "ts", "workers", "queues", "slo"}
    assert found["workers"] == {"total": 0, "online": 0, "busy": 0, "idle": 0}
    assert found["queues"]["requests"]["pending"] == 1


def test_u_76_one_conversation_and_one_trace(door: httpx.Client, bus: Bus) -> None:
    """U-76, Q-22: a W3C traceparent goes in with the request, and is in every hop after it."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    request = door.post("/requests/enqueue", json=ASK, headers=headers).json()["requestId"]
    body = JOB | {"params": {"requestId": request}}
    job = post(door, "/jobs/enqueue", 201, **body)["jobId"]
    done = post(door, "/completions/enqueue", 201, **(DONE | {"jobId": job}))["completionId"]
    found = [bus.get(id) for id in (request, job, done)]
    assert {each.headers["traceparent"][3:35] for each in found if each} == {trace}
    spans = {each.headers["traceparent"][36:52] for each in found if each}
    assert len(spans) == 3
    for id in (request, job, done):
        assert [step.message.id for step in Trace.of(bus, id).steps] == [request, job, done]


@pytest.mark.parametrize("path", ["/requests/nothing/here", "/jobs/x/y/z", "/system/other"])
def test_u_28_an_unknown_path_is_404_in_json(door: httpx.Client, path: str) -> None:
    """U-28: in PushPals' form; a wrong method as well; OPTIONS is 204."""
    assert get(door, path, 404)["message"] == "Not found"
    assert get(door, "/jobs/claim", 405)
    assert door.options("/jobs/claim").status_code == 204


def test_the_rest_of_the_server_is_as_without_the_door(
    door: httpx.Client, serve: Callable[..., httpx.Client]
) -> None:
    """X-16: its own paths have its own forms, and a server without the option has no others."""
    assert door.get("/v1/nothing").headers["Content-Type"] == "application/problem+json"
    assert door.get("/healthz").json()["ok"] is True
    plain = serve()
    assert plain.get("/requests").headers["Content-Type"] == "application/problem+json"
    assert plain.get("/requests").status_code == 404
