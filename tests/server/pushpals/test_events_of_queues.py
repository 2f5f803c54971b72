"""The events of sessions that the queues cause, as a client of the session reads them."""

import json
from typing import Any

import httpx
import pytest

from .conftest import post

pytestmark = pytest.mark.slow

JOB = {"taskId": "t1", "kind": "k", "sessionId": "s1"}


def events(door: httpx.Client, last: str) -> list[dict[str, Any]]:
    """The envelopes of the session, up to the first of a type."""
    found = []
    with door.stream("GET", "/sessions/s1/events", params={"after": 0}) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: "))["envelope"])
                if found[-1]["type"] == last:
                    break
    return found


def test_u_45_a_failed_job_is_one_event_of_its_session(door: httpx.Client) -> None:
    """U-45: with message and detail; a refused second end tells nothing."""
    assert door.post("/sessions", json={"sessionId": "s1"}).status_code == 201
    id = post(door, "/jobs/enqueue", 201, **JOB)["jobId"]
    post(door, "/jobs/claim", workerId="w1")
    post(door, f"/jobs/{id}/fail", message="no", detail="why")
    post(door, f"/jobs/{id}/fail", 400, message="no", detail="why")
    post(door, "/sessions/s1/command", type="done", payload={"ok": True})
    told = [each for each in events(door, "done") if each["type"] == "job_failed"]
    assert [each["payload"] for each in told] == [{"jobId": id, "message": "no", "detail": "why"}]


def test_u_45_a_job_of_no_session_fails_all_the_same(door: httpx.Client) -> None:
    """U-45: nobody is there to be told."""
    id = post(door, "/jobs/enqueue", 201, **(JOB | {"sessionId": "nowhere"}))["jobId"]
    post(door, "/jobs/claim", workerId="w1")
    post(door, f"/jobs/{id}/fail")


def test_u_85_both_sides_of_a_talk_are_in_the_session(door: httpx.Client) -> None:
    """U-85, U-01: the words of the person, and the answer."""
    door.post("/sessions", json={"sessionId": "s1"})
    door.post("/message", json={"text": "hello", "sessionId": "s1"})
    said, answered = events(door, "assistant_message")
    assert (said["type"], said["from"], said["payload"]["text"]) == ("message", "client", "hello")
    assert answered["payload"]["text"].startswith("To have something done")
