"""Jobs as clients list and search them."""

from collections.abc import Iterator
from typing import Any

import pytest

from ackbus import Bus, Draft, Queue
from ackbus.server.automation.triggers import JobFilter, jobs_list

from ...performance.statements import watching
from ..conftest import Folder
from ..running import OK, response
from .serving import API, Served, api_of, problem

pytestmark = pytest.mark.slow


@pytest.fixture
def served(bus: Bus, folder: Folder) -> Iterator[Served]:
    folder.plugin("echo", run=OK.replace("cat >", "echo seen >&2\ncat >"))
    folder.plugin("bad", run=response(status="error", error="100% wrong", retry=False))
    folder.write(
        api=API,
        config="""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}, bad: {enabled: true}}
        """,
    )
    with api_of(bus, folder) as served:
        yield served


def run(served: Served, *wanted: str) -> list[str]:
    """Runs commands one after another, and returns the ids of their jobs."""
    client = served.client()
    ids = []
    for each in wanted:
        ids.append(client.post(f"/plugin/{each}").json()["job_id"])
        served.running.ended(ids[-1])
    return ids


def ids(found: dict[str, Any], name: str) -> list[str]:
    return [each["job_id"] for each in found[name]]


def test_jobs_are_listed_the_newest_first_and_counted(served: Served) -> None:
    done = run(served, "echo/poll", "bad/poll", "echo/handle")
    client = served.client()
    assert ids(client.get("/jobs").json(), "jobs") == done[::-1]
    first = client.get("/jobs?limit=1").json()
    assert (ids(first, "jobs"), first["total"]) == ([done[2]], 3)
    assert ids(client.get("/jobs?plugin=echo").json(), "jobs") == [done[2], done[0]]
    assert ids(client.get("/jobs?plugin=echo&command=poll").json(), "jobs") == [done[0]]
    assert client.get("/jobs?plugin=nobody").json() == {"jobs": [], "total": 0}


@pytest.mark.requirement("D-115", "X-30")
@pytest.mark.parametrize(
    ("words", "jobs", "attempts"),
    [
        (("succeeded", "completed", "ok"), 2, 2),
        (("dead",), 1, 0),
        (("failed", "error"), 0, 1),
        (("queued", "pending"), 0, 0),
        (("running",), 0, 0),
        (("timed_out",), 0, 0),
    ],
)
def test_d_115_states_have_one_word_and_aliases_find_them(
    served: Served, words: tuple[str, ...], jobs: int, attempts: int
) -> None:
    """The job whose last attempt failed is dead."""
    done = run(served, "echo/poll", "bad/poll", "echo/poll")
    client = served.client()
    assert client.get(f"/job/{done[0]}").json()["status"] == "succeeded"
    for word in words:
        assert client.get(f"/jobs?status={word}").json()["total"] == jobs
        assert client.get(f"/job-logs?status={word}").json()["total"] == attempts


def test_logs_are_found_by_what_they_say(served: Served) -> None:
    echo, bad = run(served, "echo/poll", "bad/poll")
    client = served.client()
    found = client.get("/job-logs").json()
    assert (ids(found, "logs"), found["total"]) == ([bad, echo], 2)
    assert found["logs"][0]["last_error"] == "100% wrong"
    assert "result" not in found["logs"][1]
    assert found["logs"][1]["log_id"].startswith(f"{echo}-")
    whole = client.get(f"/job-logs?job_id={echo}&include_result=true").json()
    assert whole["logs"][0]["result"] == {"status": "ok", "result": "done"}
    for query, ids_found in (("100%25", [bad]), ("WRONG", [bad]), ("seen", [echo]), ("_", [])):
        assert ids(client.get(f"/job-logs?query={query}").json(), "logs") == ids_found, query
    assert ids(client.get("/job-logs?submitted_by=api&plugin=bad").json(), "logs") == [bad]
    at = found["logs"][1]["completed_at"]
    assert ids(client.get(f"/job-logs?from={at}&to={at}&plugin=echo").json(), "logs") == [echo]
    assert client.get("/job-logs?to=2000-01-01T00:00:00Z").json() == {"logs": [], "total": 0}
    assert client.get(f"/job-logs?job_id={echo}&plugin=bad").json()["total"] == 0


@pytest.mark.parametrize(
    "path",
    [
        *("/jobs?status=lost", "/jobs?limit=0", "/jobs?limit=x", "/jobs?plugn=echo"),
        *("/jobs?plugin=", "/jobs?limit=1&limit=2", "/job-logs?limit=201"),
        *("/job-logs?from=yesterday", "/job-logs?include_result=maybe"),
    ],
)
def test_a_wrong_parameter_is_a_bad_request(served: Served, path: str) -> None:
    problem(served.client().get(path), 400, "invalid-input")


def test_a_message_that_is_no_job_is_no_job(served: Served) -> None:
    receipt = served.bus.publish("note", {"n": 1}, from_agent="somebody")
    for path in (f"/job/{receipt.id}", f"/job/{receipt.id}/tree"):
        problem(served.client().get(path), 404, "not-found")


def test_a_job_is_named_by_its_id_alone(served: Served) -> None:
    (job_id,) = run(served, "echo/poll")
    client, job = served.client(), served.running.job(job_id)
    problem(client.get(f"/job/{job.seq}"), 404, "not-found")
    problem(client.get(f"/job/{job.seq}/tree"), 404, "not-found")
    problem(client.post(f"/job/{job.seq}/cancel"), 404, "not-found")
    assert client.post(f"/job/{job_id}/cancel").json() == {"cancelled": []}


def test_what_no_queue_takes_in_is_no_job(served: Served) -> None:
    """It would be said to wait, for ever."""
    to = "automation"
    drafts = [
        Draft("plugin.unknown.poll", from_agent="a", to_agent=to),
        Draft("plugin.echo.poll", from_agent="a", to_agent="somebody"),
    ]
    unknown, elsewhere = served.bus.log.append(drafts)
    (job_id,) = run(served, "echo/poll")  # the queue has looked at all of them
    for receipt in (unknown, elsewhere):
        problem(served.client().get(f"/job/{receipt.id}"), 404, "not-found")
    assert served.client().get(f"/job/{job_id}").json()["status"] == "succeeded"


def test_jobs_are_counted_without_a_look_at_their_messages(bus: Bus) -> None:
    queue = Queue.create(bus, "plugin.p", "plugin.p.*", addressed="automation", hides="all")
    draft = Draft("plugin.p.poll", from_agent="api", to_agent="automation")
    with bus.transaction():
        queue.take_in([each.seq for each in bus.log.append([draft] * 40)])
    queue.claim("w", group="automation", limit=1)
    with watching() as seen, Bus.open(bus.layout.directory) as own:
        found = jobs_list(own, JobFilter(status="queued"), 3)
    assert (len(found["jobs"]), found["total"]) == (3, 39)
    assert 3 <= len(seen.of("bus.message_by_seq")) < 10
