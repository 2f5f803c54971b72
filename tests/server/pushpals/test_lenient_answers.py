"""Answers of PushPals' own server where ours was stricter, or used other words."""

import json
from typing import Any

import httpx
import pytest

from .conftest import get, post

pytestmark = pytest.mark.slow

ASK = {"sessionId": "s1", "prompt": "mend it"}
JOB = {"taskId": "t1", "kind": "task.execute", "sessionId": "s1"}
DONE = {"jobId": "j1", "sessionId": "s1", "message": "mended"}


def test_u_38_the_snapshot_has_positions_and_open_ones_count(door: httpx.Client) -> None:
    """U-38: the line is that of claiming, a claimed one counts, a delayed one has no place."""
    words = ("background", "interactive", "normal", "normal")
    ids = [
        post(door, "/requests/enqueue", 201, **ASK, priority=word)["requestId"] for word in words
    ]
    assert post(door, "/requests/claim", agentId="p")["request"]["id"] == ids[1]
    found = get(door, "/requests")
    assert found["priorityCounts"] == {"interactive": 1, "normal": 2, "background": 1}
    line = [(each["id"], each["position"], each["etaMs"]) for each in found["pendingSnapshot"]]
    assert line == [(ids[2], 1, 0), (ids[3], 2, 90_000), (ids[0], 3, 480_000)]
    status = get(door, "/system/status")["queues"]
    assert status["requestPendingSnapshot"] == found["pendingSnapshot"]
    assert status["requestPriorities"] == found["priorityCounts"]


def test_u_38_lists_of_every_status_are_newest_first(door: httpx.Client) -> None:
    """U-38, U-54: whatever the priority; pending ones as well."""
    words = ("background", "interactive", "normal")
    ids = {
        "requests": [
            post(door, "/requests/enqueue", 201, **ASK, priority=word)["requestId"]
            for word in words
        ],
        "jobs": [post(door, "/jobs/enqueue", 201, **JOB, priority=word)["jobId"] for word in words],
        "completions": [
            post(door, "/completions/enqueue", 201, **DONE)["completionId"] for _ in words
        ],
    }
    for name, enqueued in ids.items():
        for status in ("pending", "all"):
            found = get(door, f"/{name}", status=status)[name]
            assert [each["id"] for each in found] == enqueued[::-1], (name, status)
        for _ in words:
            post(door, f"/{name}/claim", agentId="w", workerId="w", pusherId="w")
        found = get(door, f"/{name}", status="claimed")[name]
        assert [each["id"] for each in found] == enqueued[::-1], name


def test_u_46_an_unknown_job_has_printed_nothing(door: httpx.Client) -> None:
    """U-46: 200, no lines, and the cursor that came."""
    assert get(door, "/jobs/none/logs") == {"ok": True, "jobId": "none", "logs": [], "cursor": None}
    assert get(door, "/jobs/none/logs", afterId=7)["cursor"] == 7


def test_u_44_artifacts_are_json_text_within_the_result(door: httpx.Client) -> None:
    """U-44, U-37: what is missing or false is null."""
    artifacts: list[Any] = [[{"kind": "diff", "uri": "ä"}], [], None, "", 0]
    for value in artifacts:
        id = post(door, "/jobs/enqueue", 201, **JOB)["jobId"]
        post(door, "/jobs/claim", workerId="w")
        post(door, f"/jobs/{id}/complete", summary="done", artifacts=value)
    rows = get(door, "/jobs", status="completed")["jobs"][::-1]
    texts = ['[{"kind":"diff","uri":"ä"}]', "[]", None, None, None]
    assert [json.loads(row["result"]) for row in rows] == [
        {"summary": "done", "artifacts": text} for text in texts
    ]
    request = post(door, "/requests/enqueue", 201, **ASK)["requestId"]
    post(door, "/requests/claim", agentId="p")
    post(door, f"/requests/{request}/complete")
    assert get(door, "/requests")["requests"][0]["result"] is None


def test_u_53_completions_have_times_and_trimmed_titles(door: httpx.Client) -> None:
    """U-53: `completedAt` and `failedAt`; titles without blanks at their ends, blank ones null."""
    texts = {"prTitle": "  Mend it \n", "prBody": "\tall of it  "}
    first = post(door, "/completions/enqueue", 201, **DONE, **texts)["completionId"]
    blank = {"prTitle": "  ", "prBody": None}
    second = post(door, "/completions/enqueue", 201, **DONE, **blank)["completionId"]
    for _ in range(2):
        post(door, "/completions/claim", pusherId="p")
    post(door, f"/completions/{first}/processed")
    post(door, f"/completions/{second}/fail", error="conflict")
    bad, good = get(door, "/completions")["completions"]
    assert (good["prTitle"], good["prBody"]) == ("Mend it", "all of it")
    assert (bad["prTitle"], bad["prBody"]) == (None, None)
    assert (good["completedAt"], good["failedAt"]) == (good["updatedAt"], None)
    assert (bad["completedAt"], bad["failedAt"]) == (None, bad["updatedAt"])


def test_u_48_an_age_counts_up_to_what_is_no_digit(door: httpx.Client) -> None:
    """U-48: `ttlMs=600000ms` is ten minutes; what begins with no digit is the default."""
    post(door, "/workers/heartbeat", workerId="w1")
    (row,) = get(door, "/workers", ttlMs="600000ms")["workers"]
    assert row["isOnline"] is True
    for path in ("/workers", "/system/status"):
        for text in ("1", "5e9", "-3", "x", ""):
            assert get(door, path, ttlMs=text)["ok"]


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (5.0, "5"), (1.5, "1.5"), (True, "true"), (" x ", "x")]
)
def test_u_34_a_value_that_is_no_text_is_read_as_one(
    door: httpx.Client, value: object, text: str
) -> None:
    """U-34, U-37, U-42, U-54: ids, prompts, kinds and messages; null and blank ones are missing."""
    request = post(door, "/requests/enqueue", 201, sessionId=value, prompt=value)["requestId"]
    job = post(door, "/jobs/enqueue", 201, taskId=value, kind=value)
    post(door, "/completions/enqueue", 201, jobId=value, sessionId=value, message=value)
    (row,) = get(door, "/requests")["requests"]
    assert (row["sessionId"], row["prompt"]) == (text, text)
    (row,) = get(door, "/jobs")["jobs"]
    assert (job["taskId"], row["taskId"], row["kind"]) == (text, text, text)
    (row,) = get(door, "/completions")["completions"]
    assert (row["jobId"], row["sessionId"], row["message"]) == (text, text, text)
    post(door, "/requests/claim", agentId="p")
    post(door, f"/requests/{request}/fail", message=value, detail=value)
    (row,) = get(door, "/requests")["requests"]
    assert json.loads(row["error"]) == {"message": text, "detail": text}
    for missing in (None, "", " "):
        post(door, "/requests/enqueue", 400, sessionId="s1", prompt=missing)


def test_an_unknown_session_refuses_a_command_and_a_stream(door: httpx.Client) -> None:
    """U-20, U-24, U-25: 400 for a command, 404 where its events or its people are asked for."""
    told = post(door, "/sessions/none/command", 400, type="done", payload={"ok": True})
    assert told["message"].startswith("Session not found")
    assert get(door, "/sessions/none/events", 404)["message"].startswith("Session not found")
    post(door, "/sessions/none/message", 404, text="hello")


def test_u_20_a_cursor_counts_up_to_what_is_no_digit(door: httpx.Client) -> None:
    """U-12, U-20: `after=12abc` is 12; what begins with no digit is 0."""
    door.post("/sessions", json={"sessionId": "s1"})
    for _ in range(2):
        post(door, "/sessions/s1/command", type="done", payload={"ok": True})
    cursors = [_first_cursor(door, "0")]
    cursors += [_first_cursor(door, f"{cursors[0]}{end}") for end in ("abc", ".9", " ")]
    assert cursors[1:] == [cursors[1]] * 3
    assert cursors[1] > cursors[0]
    for none in ("abc", "", "-1", "x1"):
        assert _first_cursor(door, none) == cursors[0], none


def _first_cursor(door: httpx.Client, after: str) -> int:
    """The cursor of the first event that a stream sends."""
    with door.stream("GET", "/sessions/s1/events", params={"after": after}) as response:
        lines = (line for line in response.iter_lines() if line.startswith("id: "))
        return int(next(lines).removeprefix("id: "))
