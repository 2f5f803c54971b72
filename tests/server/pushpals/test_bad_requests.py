"""Bodies, ids and queries that no client should send: a plain answer, and never a defect."""

import itertools
import json
from typing import Any

import httpx
import pytest

from ackbus import Bus

from ...sizes import size

pytestmark = pytest.mark.slow

FIELDS = (
    *("sessionId", "prompt", "priority", "queueWaitBudgetMs", "taskId", "kind", "params", "jobId"),
    *("targetWorkerId", "requestId", "dedupeKey", "from", "agentId", "workerId", "pusherId"),
    *("message", "detail", "line", "result", "summary", "artifacts", "error", "commitSha"),
    *("status", "currentJobId", "pollMs", "capabilities", "details", "runId", "ttlMs", "text"),
    *("staleAfterMs", "branch", "state"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, 10**18, 2**63, "", " ", "x" * 5_000, "a\nb", "\x00", "\u202e", "é"),
    *([], [[]], {}, {"planning": []}, {"planning": {"executionBudgetMs": {}}}, {"a": None}),
)
RAW = (b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b'{"a": 1, "a": 2}', b'{"a": NaN}')
RAW_DEEP = b'{"params": ' + b"[" * 2_000 + b"]" * 2_000 + b"}"
POSTED = (
    *("/requests/enqueue", "/requests/claim", "/jobs/enqueue", "/jobs/claim"),
    *("/completions/enqueue", "/completions/claim", "/workers/heartbeat", "/message"),
    *("/autonomy/lock/acquire", "/autonomy/lock/renew", "/autonomy/lock/release"),
    *("/autonomy/state", "/requests/{id}/complete", "/requests/{id}/fail", "/jobs/{id}/complete"),
    *("/jobs/{id}/fail", "/jobs/{id}/log", "/completions/{id}/processed"),
    "/completions/{id}/fail",
)
IDS = ("none", "%00", "%F0%9F%98%80", "..", "'", "x" * 3_000, "%2e%2e")


@pytest.mark.slow
@pytest.mark.parametrize("path", POSTED)
def test_no_body_is_a_defect(door: httpx.Client, bus: Bus, path: str) -> None:
    """U-34, U-42, U-54: every field with every kind of value, and what is no object."""
    good = {"sessionId": "s1", "prompt": "x", "taskId": "t", "kind": "k", "jobId": "j"}
    good |= {"message": "m", "runId": "r", "workerId": "w1", "text": "hello"}
    address = path.replace("{id}", "none")
    bodies = [json.dumps(good | {field: value}) for field in FIELDS for value in VALUES]
    wanted = bodies[:: size(sample=53, whole=1)]  # each with another value
    for body in itertools.chain(wanted, RAW, (RAW_DEEP,)):
        response = door.post(address, content=body)
        assert response.status_code in (200, 201, 400, 404, 409, 413), (body, response.text)
        if response.status_code >= 400:
            assert response.json()["message"]


@pytest.mark.parametrize("id", IDS)
def test_no_id_is_a_defect(door: httpx.Client, id: str) -> None:
    """U-33, U-52: an id that nothing has is not found, or in no state to end."""
    for path in POSTED:
        if "{id}" in path:
            response = door.post(path.replace("{id}", id), json={"message": "m"})
            assert response.status_code in (400, 404, 405, 414), response.text
    assert door.get(f"/autonomy/snapshots/{id}").status_code in (400, 404, 405)
    response = door.get(f"/jobs/{id}/logs")
    assert response.status_code in (200, 404, 405), response.text
    if response.status_code == 200:
        assert (response.json()["logs"], response.json()["cursor"]) == ([], None)


@pytest.mark.parametrize("value", ["", "-1", "1e9", "9" * 40, "x", "%00", "pending", "nan"])
def test_no_query_is_a_defect(door: httpx.Client, value: str) -> None:
    """U-38: limits and cursors that are none have their defaults."""
    for path in ("/requests", "/jobs", "/completions", "/workers", "/system/status"):
        for name in ("limit", "ttlMs", "afterId", "windowHours"):
            assert door.get(f"{path}?{name}={value}").status_code == 200
        assert door.get(f"{path}?status={value}").status_code in (200, 400)
    assert door.get(f"/autonomy/snapshot?sessionId={value}").status_code in (200, 400)
