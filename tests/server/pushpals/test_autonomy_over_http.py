"""The dispatch lock, snapshots and the way in over HTTP."""

import json
from typing import Any

import httpx
import pytest

from .conftest import get, post

pytestmark = pytest.mark.slow

A, B = {"sessionId": "a", "runId": "run-a"}, {"sessionId": "b", "runId": "run-b"}


def test_u_64_two_runs_contend(door: httpx.Client) -> None:
    """U-64: 409 names the holder and the end; 400 without ids; a release says if it was one."""
    held = post(door, "/autonomy/lock/acquire", **A, ttlMs=60_000)
    told = post(door, "/autonomy/lock/acquire", 409, **B)
    assert (told["ownerSessionId"], told["ownerRunId"]) == ("a", "run-a")
    assert told["lockUntil"] == held["lockUntil"]
    post(door, "/autonomy/lock/renew", 409, **B)
    assert post(door, "/autonomy/lock/renew", **A)["lockUntil"] >= held["lockUntil"]
    assert post(door, "/autonomy/lock/release", **B)["released"] is False
    assert post(door, "/autonomy/lock/release", **A)["released"] is True
    post(door, "/autonomy/lock/renew", 409, **A)
    post(door, "/autonomy/lock/acquire", **B)
    for act in ("acquire", "renew", "release"):
        for body in ({}, {"sessionId": "a"}, {"runId": "r"}):
            post(door, f"/autonomy/lock/{act}", 400, **body)


def test_u_67_snapshots_over_http(door: httpx.Client) -> None:
    """U-67: made, and shown again; with service levels and the flag of the lock."""
    get(door, "/autonomy/snapshot", 400)
    post(door, "/autonomy/lock/acquire", **A)
    made = get(door, "/autonomy/snapshot", **A, isWorktreeDirty="true")["snapshot"]
    assert made["dispatchLockHeld"] is True
    assert made["repoHealthFlags"] == {"is_worktree_dirty": True, "is_merge_in_progress": False}
    assert made["jobSlo"]["terminal"] == 0
    assert get(door, f"/autonomy/snapshots/{made['snapshotId']}")["snapshot"] == made
    get(door, "/autonomy/snapshots/none", 404)
    assert get(door, "/autonomy/state", sessionId="a")["state"] is None
    post(door, "/autonomy/state", sessionId="a", state={"paused": True})
    post(door, "/autonomy/state", 400, sessionId="a", state=[])
    assert get(door, "/autonomy/state", sessionId="a")["state"] == {"paused": True}


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    return [json.loads(frame.removeprefix("data: ")) for frame in response.text.split("\n\n")[:-1]]


def test_u_85_the_way_in_streams_events(door: httpx.Client) -> None:
    """U-85: local complete, enqueued complete with requestId, 400."""
    *_, last = events(door.post("/message", json={"text": "hello"}))
    assert (last["type"], last["message"]) == ("complete", "Handled locally")
    first, last = events(door.post("/message", json={"text": "/ask_remote_buddy hello"}))
    assert (first["type"], last["type"]) == ("status", "complete")
    (request,) = get(door, "/requests")["requests"]
    assert (request["id"], request["prompt"]) == (last["data"]["requestId"], "hello")
    for body in ({}, {"text": " "}):
        assert post(door, "/message", 400, **body)["message"] == "text is required"


@pytest.mark.parametrize("path", ["/autonomy/lock", "/autonomy/lock/steal"])
def test_u_64_there_is_no_other_act_on_the_lock(door: httpx.Client, path: str) -> None:
    post(door, path, 404)
