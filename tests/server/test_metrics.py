"""The metrics for Prometheus, access to them, and the health check."""

import asyncio
import os
import threading
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from ackbus import Bus, Draft, Inbox, Queue, Worker
from ackbus.errors import BusBusy
from ackbus.export.jsonl.writer import Automatic
from ackbus.schema.queries import file_of
from ackbus.server.access.access import BusAccess
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.server.monitoring import Metrics, Readiness
from ackbus.server.running import create_app

from ..conftest import RunBus
from .conftest import Serve, problem, scrape


@pytest.fixture
def busy(bus: Bus) -> Bus:
    """A bus with something of everything, and two jobs; its server exports nothing unasked."""
    Automatic.of(bus).set(False)
    bus.publish_many([Draft("task", n, from_agent="a") for n in range(5)])
    Inbox(bus, "reader").ack(2)
    Queue.create(bus, "job")
    bus.publish("job", "first", from_agent="a")
    bus.publish("job", "second", from_agent="a")
    bus.leases.acquire("build", "a")
    bus.heartbeats.beat("a")
    return bus


@pytest.mark.slow
def test_metrics_tell_how_the_bus_is_doing(
    client: httpx.Client, busy: Bus, run_bus: RunBus
) -> None:
    def fail_once(message: object) -> None:
        raise ValueError("once")

    scrape(client)
    Worker(busy, "job").run(fail_once, once=True)
    found = scrape(client)
    expected = {
        ("ackbus_messages_total", ()): 7,
        ("ackbus_inbox_unread", ("reader",)): 3,  # the two jobs are no mail
        ("ackbus_inbox_cursor", ("reader",)): 2,
        ("ackbus_inboxes", ()): 1,
        ("ackbus_queues", ()): 1,
        ("ackbus_queue_jobs", ("job", "open")): 1,
        ("ackbus_queue_jobs", ("job", "dead")): 0,  # the first must be seen as a rise
        ("ackbus_queue_behind", ("job",)): 0,
        ("ackbus_queue_claims_total", ("job",)): 1,
        ("ackbus_queue_retries_total", ("job",)): 0,
        ("ackbus_parked", ()): 0,
        ("ackbus_leases", ()): 1,
        ("ackbus_agents", ("alive",)): 1,
        ("ackbus_export_behind", ()): 7,
    }
    assert {key: found[key] for key in expected} == expected
    assert found["ackbus_heartbeat_age_seconds", ("a",)] < 30
    assert found["ackbus_queue_oldest_wait_seconds", ("job",)] >= 0
    assert found["ackbus_wal_bytes", ()] == os.stat(f"{busy.layout.database}-wal").st_size
    run_bus("export")
    assert scrape(client)["ackbus_export_behind", ()] == 0


@pytest.mark.slow
def test_metrics_tell_what_the_server_did(one_client: httpx.Client) -> None:
    for _ in range(3):
        one_client.post("/v1/messages", json={"type": "t", "from": "a"})
    one_client.post("/v1/messages", json={})
    one_client.get("/v1/inboxes/a%2Fb")
    found = scrape(one_client)
    route = "/v1/messages"
    assert found["ackbus_http_requests_total", ("POST", route, "201")] == 3
    assert found["ackbus_http_requests_total", ("POST", route, "422")] == 1
    assert found["ackbus_http_request_seconds_count", (route,)] == 4
    documented = one_client.get("/v1/openapi.json").json()["paths"].keys()
    assert "/v1/inboxes/{agent}" in documented
    assert found["ackbus_http_requests_total", ("GET", "/v1/inboxes/{agent}", "200")] == 1


def test_what_clients_make_up_makes_no_labels(one_client: httpx.Client) -> None:
    def labels() -> set[tuple[str, ...]]:
        return {
            labels for name, labels in scrape(one_client) if name == "ackbus_http_requests_total"
        }

    before = labels()
    for n in range(20):
        one_client.get(f"/v1/messages/{n}")
        one_client.get(f"/nothing/{n}")
        one_client.request(f"VERB{n}", "/healthz")
    found = labels() - before
    assert len(found) <= 5, found


def test_names_of_any_form_are_labels(one_client: httpx.Client, one_bus: Bus) -> None:
    """Programs with their own SQL may store any text: it must not end a label, or a line."""
    one_bus.publish("t", from_agent="a")
    names = ['q"uote', "back\\slash\\", "new\nline", '"} 1\nackbus_leases 99', "\u2028"]
    for name in names:
        file_of(one_bus).rows("INSERT INTO cursors VALUES (?, 1, 1, NULL)", (name,))
    found = scrape(one_client)
    assert {("ackbus_inbox_unread", (name,)) for name in names} <= found.keys()
    assert found["ackbus_leases", ()] == 0


def test_agents_and_queues_that_have_labels_are_bounded(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    before = scrape(one_client)
    one_bus.publish("t", from_agent="a")
    with one_bus.transaction():
        for n in range(120):
            Inbox(one_bus, f"agent-{n}").ack(1)
            one_bus.heartbeats.beat(f"agent-{n}")
            Queue.create(one_bus, f"queue-{n}", pattern="t")
    found = scrape(one_client)
    for name in ("ackbus_inbox_unread", "ackbus_heartbeat_age_seconds", "ackbus_queue_behind"):
        assert len([labels for key, labels in found if key == name]) == 100
    for name in ("ackbus_inboxes", "ackbus_queues"):
        assert found[name, ()] == before[name, ()] + 120


@pytest.mark.slow
def test_claims_are_counted_once_whoever_asks_at_the_same_time(bus: Bus) -> None:
    """Two servers of Prometheus that watch the same bus come at the same moment, for ever."""
    rounds, at_once, jobs = 24, 8, 500
    queue = Queue.create(bus, "job")
    metrics = Metrics(bus)
    begin, end = threading.Barrier(at_once + 1), threading.Barrier(at_once + 1)

    def ask() -> None:
        for _ in range(rounds):
            begin.wait(60)
            metrics.text()
            end.wait(60)

    threads = [threading.Thread(target=ask) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        bus.publish_many([Draft("job", n, from_agent="a") for n in range(jobs)])
        assert len(queue.claim("w", limit=jobs)) == jobs
        begin.wait(60)
        end.wait(60)
    for thread in threads:
        thread.join()
    counted = f'ackbus_queue_claims_total{{queue="job"}} {rounds * jobs}.0'
    assert counted in metrics.text().decode()


def test_defects_are_counted_too(bus: Bus) -> None:
    """The handler of defects stands outside of all else."""
    app = create_app(bus, BusAccess(bus))

    @app.get("/v1/defect")
    def fail() -> None:
        raise RuntimeError("a defect")

    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/v1/defect").status_code == 500
        counted = 'ackbus_http_requests_total{method="GET",route="/v1/defect",status="500"} 1.0'
        assert counted in client.get("/metrics").text


def test_metrics_need_a_token_that_may_look_at_work(serve: Serve, bus: Bus) -> None:
    tokens = Tokens.of(bus)
    shown = {scope: tokens.create(scope.replace(":", "-"), [scope]) for scope in Scope}
    may = {Scope.WORK_RO, Scope.WORK_RW, Scope.ADMIN}
    client = serve()
    problem(client.get("/metrics"), 401, "unauthorized")
    for scope, token in shown.items():
        response = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == (200 if scope in may else 403), scope
    assert client.get("/healthz").status_code == 200


def test_health_tells_that_the_bus_was_moved_away(client: httpx.Client, bus_dir: Path) -> None:
    """PITFALLS 27: the connections that are open would go on with the file that was moved."""
    elsewhere = bus_dir.rename(bus_dir.with_name("elsewhere"))
    assert "no bus in" in problem(client.get("/healthz"), 503, "bus-not-found")
    Bus.init(bus_dir).close()
    assert "start the server again" in problem(client.get("/healthz"), 503, "bus-unusable")
    for path in sorted(bus_dir.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    bus_dir.rmdir()
    elsewhere.rename(bus_dir)
    assert client.get("/healthz").json() == {"ok": True, "newest_seq": 0}


def test_health_tells_that_the_bus_cannot_be_written(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    with one_bus.transaction():
        response = one_client.get("/healthz")
    problem(response, 503, "bus-busy")
    assert one_client.get("/healthz").status_code == 200


def test_health_is_asked_for_once_however_many_ask(bus: Bus) -> None:
    """It needs no token: who asks often must not take the threads that others need."""
    readiness = Readiness(bus)

    def threads() -> int:
        return sum("AnyIO" in thread.name for thread in threading.enumerate())

    async def ask_often() -> tuple[int, list[int | BaseException]]:
        asking = [asyncio.create_task(readiness.check()) for _ in range(20)]
        while not threads():
            await asyncio.sleep(0.001)
        return threads(), await asyncio.gather(*asking, return_exceptions=True)

    assert threads() == 0
    with bus.transaction():
        asked_by, answers = asyncio.run(ask_often())
    assert asked_by == 1
    assert [type(each) for each in answers] == [BusBusy] * 20
    assert asyncio.run(readiness.check()) == 0


def test_health_tells_of_a_file_that_is_no_database(client: httpx.Client, bus: Bus) -> None:
    """PITFALLS 27: a green health check over a corrupt store."""
    path = Path(bus.layout.database)
    bus.close()
    path.write_bytes(b"nothing of a database" * 400)
    assert client.get("/healthz").status_code == 503
