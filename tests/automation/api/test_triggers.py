"""Triggers of single commands, by a real client of a real service."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, dumping, response
from .serving import API, KEYS, Served, api_of, problem

pytestmark = pytest.mark.slow

EVENT = {"type": "seen", "payload": {"n": 1}}


@pytest.fixture
def configured(folder: Folder) -> Folder:
    folder.plugin("echo", run=dumping())
    folder.plugin("loud", run=response(events=[EVENT]))
    folder.plugin("next", run=OK)
    return folder.write(
        api=API,
        config="""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}, loud: {enabled: true}, next: {enabled: true}}
        routes: [{from: loud, event_type: seen, to: next}]
        """,
    )


@pytest.fixture
def served(bus: Bus, configured: Folder) -> Iterator[Served]:
    with api_of(bus, configured) as served:
        yield served


def request_of(folder: Folder, job_id: str) -> dict[str, object]:
    """The request that the plugin echo read for a job."""
    told = folder.path / "plugins" / "echo" / f"{job_id}.json"
    wait_until(told.exists)
    found: dict[str, object] = json.loads(told.read_text())
    return found


def test_x_31_a_trigger_is_one_job_by_the_api(served: Served, configured: Folder) -> None:
    answer = served.client().post("/plugin/echo/poll", json={"payload": {"message": "hello"}})
    body = answer.json()
    assert answer.status_code == 202
    expected = {"status": "queued", "plugin": "echo", "command": "poll"}
    assert body == {"job_id": body["job_id"], **expected}
    assert request_of(configured, body["job_id"])["payload"] == {"message": "hello"}
    found = served.client().get(f"/job/{body['job_id']}").json()
    assert found["submitted_by"] == "api"


@pytest.mark.requirement("D-112")
def test_d_112_no_route_follows_the_event_of_a_trigger(served: Served) -> None:
    job_id = served.client().post("/plugin/loud/poll").json()["job_id"]
    served.running.ended(job_id)
    types = [message.type for message in served.bus.read()]
    assert types == ["plugin.loud.poll", "plugin.event", "plugin.ended"]


def test_a_handle_is_told_of_an_event_by_the_api(served: Served, configured: Folder) -> None:
    job_id = (
        served.client().post("/plugin/echo/handle", json={"payload": {"n": 1}}).json()["job_id"]
    )
    event = request_of(configured, job_id)["event"]
    assert isinstance(event, dict)
    assert (event["type"], event["source"], event["payload"]) == ("api.trigger", "api", {"n": 1})
    assert event["event_id"] == job_id


@pytest.mark.parametrize("body", [None, {}, {"payload": None}, {"payload": {}}])
def test_a_trigger_without_a_payload_has_none(
    served: Served, configured: Folder, body: object
) -> None:
    answer = served.client().post("/plugin/echo/poll", **({} if body is None else {"json": body}))  # type: ignore[arg-type]
    assert answer.status_code == 202
    assert "payload" not in request_of(configured, answer.json()["job_id"])


def test_d_114_a_job_is_queued_then_runs_then_has_a_result(
    bus: Bus, configured: Folder, tmp_path: Path
) -> None:
    """One worker: the second job waits for the first, which waits for a file."""
    gate = tmp_path / "gate"
    waiting = f"while [ ! -e {gate} ]; do sleep 0.02; done\n"
    answer = {"status": "ok", "result": "done", "logs": [{"level": "info", "message": "m"}]}
    program = response(**answer).replace("cat > /dev/null\n", f"cat > /dev/null\n{waiting}")
    configured.plugin("echo", run=program)
    with api_of(bus, configured) as served:
        client = served.client()
        first, second = (client.post("/plugin/echo/poll").json()["job_id"] for _ in range(2))
        wait_until(lambda: client.get(f"/job/{first}").json()["status"] == "running")
        running, queued = (client.get(f"/job/{each}").json() for each in (first, second))
        assert {"created_at", "started_at"} <= running.keys()
        assert not {"completed_at", "result"} & running.keys()
        assert (queued["status"], "started_at" in queued) == ("queued", False)
        gate.touch()
        served.running.ended(first)
        done = client.get(f"/job/{first}").json()
    assert (done["status"], done["plugin"], done["command"]) == ("succeeded", "echo", "poll")
    assert done["result"] == answer
    assert done["created_at"] <= done["started_at"] <= done["completed_at"]


def test_a_failed_job_says_why(bus: Bus, configured: Folder) -> None:
    configured.plugin("echo", run=response(status="error", error="no such feed", retry=False))
    with api_of(bus, configured) as served:
        job_id = served.client().post("/plugin/echo/poll").json()["job_id"]
        served.running.ended(job_id)
        found = served.client().get(f"/job/{job_id}").json()
    assert (found["status"], found["last_error"]) == ("dead", "no such feed")


@pytest.mark.requirement("D-116")
def test_d_116_a_bad_token_a_missing_scope_and_an_unknown_job_have_their_codes(
    served: Served,
) -> None:
    bad = served.client("wrong").post("/plugin/echo/poll")
    missing = served.client(KEYS["PLUGIN_RO"]).post("/plugin/echo/handle")
    unknown = served.client().get("/job/0198c0de-0000-7000-8000-000000000001")
    problem(bad, 401, "unauthorized")
    problem(missing, 403, "forbidden")
    problem(unknown, 404, "not-found")


@pytest.mark.requirement("D-59")
def test_d_59_a_token_to_read_may_call_what_only_reads(served: Served) -> None:
    reader = served.client(KEYS["PLUGIN_RO"])
    assert reader.post("/plugin/echo/poll").status_code == 202
    problem(reader.post("/plugin/echo/handle"), 403, "forbidden")
    assert served.client(KEYS["PLUGIN_RW"]).post("/plugin/echo/handle").status_code == 202


@pytest.mark.parametrize("path", ["/plugin/nobody/poll", "/plugin/echo/nothing"])
def test_an_unknown_plugin_or_command_is_not_found(served: Served, path: str) -> None:
    problem(served.client().post(path), 404, "not-found")
