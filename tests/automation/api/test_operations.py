"""Operations of a service over HTTP: reload, views, schedules, breakers, cancelling."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.automation.records.breakers import Breakers

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK
from .serving import API, KEYS, Served, api_of, problem

pytestmark = pytest.mark.slow

CONFIG = """
    include: [api.yaml]
    plugin_roots: [plugins]
    service: {max_workers: 2}
    plugins:
      echo:
        enabled: true
        config: {api_key: hidden-value, path: /here}
        schedules: [{every: 1h}, {id: morning, cron: "0 8 * * *", timezone: Europe/Berlin}]
      held: {enabled: true}
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def served(bus: Bus, folder: Folder, gate: Path) -> Iterator[Served]:
    folder.plugin("echo", run=OK)
    waiting = f"while [ ! -e {gate} ]; do sleep 0.02; done\n"
    folder.plugin("held", run=OK.replace("cat > /dev/null\n", f"cat > /dev/null\n{waiting}"))
    folder.write(api=API, config=CONFIG)
    with api_of(bus, folder) as served:
        yield served
        gate.touch()


def test_a_reload_takes_the_configuration_or_says_what_is_wrong(
    served: Served, folder: Folder
) -> None:
    client = served.client()
    folder.plugin("new", run=OK)
    folder.write(config=CONFIG.replace("held: {", "new: {enabled: true}\n      held: {"))
    answer = client.post("/system/reload")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert client.post("/plugin/new/poll").status_code == 202
    folder.write(config=CONFIG + "    servce: {}\n")
    refused = client.post("/system/reload")
    assert "servce" in problem(refused, 409, "configuration-refused")
    (fault,) = refused.json()["faults"]
    assert (fault["path"], Path(fault["file"]).name) == ("servce", "config.yaml")
    assert client.post("/plugin/new/poll").status_code == 202
    folder.write(config=CONFIG)
    assert client.post("/system/reload").status_code == 200
    problem(client.post("/plugin/new/poll"), 404, "not-found")


def test_reload_that_the_bus_refuses_is_answered_at_once(
    served: Served, bus: Bus, folder: Folder
) -> None:
    """The queue of the new plugin is another one, which is found while it is stored."""
    Queue.create(bus, "plugin.new", "something.else")
    folder.plugin("new", run=OK)
    folder.write(config=CONFIG.replace("held: {", "new: {enabled: true}\n      held: {"))
    client = served.client()
    assert "plugin.new" in problem(client.post("/system/reload"), 409, "refused")
    assert client.post("/plugin/echo/poll").status_code == 202


def test_the_configuration_is_shown_without_secrets(served: Served) -> None:
    answer = served.client().get("/config/view")
    view = answer.json()
    assert view["plugins"]["echo"]["config"] == {"api_key": "[REDACTED]", "path": "/here"}
    assert {"scopes", "name"} <= view["tokens"][0].keys()
    for secret in (*KEYS.values(), "hidden-value"):
        assert secret not in answer.text


def test_the_configuration_shows_what_begins_each_pipeline(served: Served, folder: Folder) -> None:
    text = (
        CONFIG
        + """
    pipelines:
      - {name: of-echo, on: e, from_plugin: echo, steps: [{uses: echo}]}
      - name: hooked
        on-hook: job.failed
        if: {path: payload.plugin, op: eq, value: echo}
        steps: [{uses: echo}]
    """
    )
    folder.write(config=text)
    client = served.client()
    assert client.post("/system/reload").status_code == 200
    found = client.get("/config/view").json()["compiled_routes"]
    assert (found["of-echo"]["event_type"], found["of-echo"]["source_plugin"]) == ("e", "echo")
    assert (found["hooked"]["hook"], found["hooked"]["source_plugin"]) == ("job.failed", None)
    assert found["hooked"]["if"] == {"path": "payload.plugin", "op": "eq", "value": "echo"}


def test_the_queue_and_a_day_are_summed_up(served: Served, gate: Path) -> None:
    client = served.client()
    done = client.post("/plugin/echo/poll").json()["job_id"]
    served.running.ended(done)
    held = client.post("/plugin/held/poll").json()["job_id"]
    wait_until(lambda: client.get(f"/job/{held}").json()["status"] == "running")
    queue = client.get("/analytics/queue").json()
    assert (queue["running"], queue["max_workers"], queue["utilization"]) == (1, 2, 0.5)
    assert client.get("/healthz").json()["queue_depth"] == 1
    summary = client.get("/analytics/summary").json()
    ended = client.get("/job-logs?status=ok").json()["total"]
    assert (summary["window"], summary["stats"]["succeeded"]) == ("24h", ended)


def test_schedules_are_listed_paused_resumed_and_run(served: Served) -> None:
    client = served.client()
    hourly, morning = client.get("/scheduler/jobs").json()["jobs"]
    assert (hourly["schedule_id"], hourly["mode"], hourly["status"]) == (
        "default",
        "every",
        "active",
    )
    assert (morning["mode"], morning["timezone"]) == ("cron", "Europe/Berlin")
    assert morning["next_run_at"].endswith("Z")
    path = "/scheduler/jobs/echo/morning"
    assert client.post(f"{path}/pause").json()["status"] == "paused"
    assert client.get("/scheduler/jobs").json()["jobs"][1]["status"] == "paused"
    assert client.post(f"{path}/resume").json()["status"] == "active"
    run = client.post(f"{path}/run")
    assert run.status_code == 202
    assert served.running.ended(run.json()["job_id"]).state == "succeeded"
    for act in ("pause", "resume", "run"):
        problem(client.post(f"/scheduler/jobs/echo/evening/{act}"), 404, "not-found")


def test_breakers_are_shown_and_reset(served: Served) -> None:
    client = served.client()
    breakers = Breakers.of(served.bus)
    for _ in range(3):
        breakers.note("echo", "poll", False, "job", "scheduler")
    shown = client.get("/breakers/echo").json()
    assert [each["state"] for each in shown["breakers"]] == ["open"]
    assert client.get("/healthz").json()["plugins_circuit_open"] == 1
    assert client.post("/breakers/echo/reset").json() == {"plugin": "echo", "closed": 1}
    assert client.get("/healthz").json()["plugins_circuit_open"] == 0
    problem(client.get("/breakers/nobody"), 404, "not-found")
    problem(client.post("/breakers/nobody/reset"), 404, "not-found")


def test_a_job_that_runs_is_cancelled(served: Served) -> None:
    client = served.client()
    held = client.post("/plugin/held/poll").json()["job_id"]
    wait_until(lambda: client.get(f"/job/{held}").json()["status"] == "running")
    assert client.post(f"/job/{held}/cancel").json() == {"cancelled": [held]}
    assert client.get(f"/job/{held}").json()["status"] == "dead"
    assert client.post(f"/job/{held}/cancel").json() == {"cancelled": []}
    problem(client.post("/job/nothing/cancel"), 404, "not-found")
