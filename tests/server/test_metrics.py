"""What Prometheus is told, who is, and what a health check finds."""

import os
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ackbus import Bus, Draft, Inbox, Queue, Worker
from ackbus.server import Scope, Tokens

from ..conftest import RunBus
from .conftest import Serve, problem

Samples = dict[tuple[str, tuple[str, ...]], float]


def scrape(client: httpx.Client) -> Samples:
    """All samples: by name, and the values of their labels."""
    response = client.get("/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


@pytest.fixture
def busy(bus: Bus) -> Bus:
    """A bus with something of everything, and two jobs."""
    bus.publish_many([Draft("task", n, from_agent="a") for n in range(5)])
    Inbox(bus, "reader").ack(2)
    Queue.create(bus, "job")
    bus.publish("job", "first", from_agent="a")
    bus.publish("job", "second", from_agent="a")
    bus.leases.acquire("build", "a")
    bus.heartbeats.beat("a")
    return bus


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
        ("ackbus_inbox_unread", ("reader",)): 5,
        ("ackbus_inboxes", ()): 1,
        ("ackbus_queues", ()): 1,
        ("ackbus_queue_jobs", ("job", "open")): 1,
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


def test_metrics_tell_what_the_server_did(client: httpx.Client, bus: Bus) -> None:
    for _ in range(3):
        client.post("/v1/messages", json={"type": "t", "from": "a"})
    client.post("/v1/messages", json={})
    found = scrape(client)
    route = "/v1/messages"
    assert found["ackbus_http_requests_total", ("POST", route, "201")] == 3
    assert found["ackbus_http_requests_total", ("POST", route, "422")] == 1
    assert found["ackbus_http_request_seconds_count", (route,)] == 4


def test_what_clients_make_up_makes_no_labels(client: httpx.Client) -> None:
    client.get("/v1/messages/1")
    for n in range(20):
        client.get(f"/v1/messages/{n}")
        client.get(f"/nothing/{n}")
        client.request(f"VERB{n}", "/healthz")
    scrape(client)
    found = [labels for name, labels in scrape(client) if name == "ackbus_http_requests_total"]
    assert len(found) <= 5, found


def test_agents_and_queues_that_have_labels_are_bounded(client: httpx.Client, bus: Bus) -> None:
    bus.publish("t", from_agent="a")
    with bus.transaction():
        for n in range(120):
            Inbox(bus, f"agent-{n}").ack(1)
            bus.heartbeats.beat(f"agent-{n}")
            Queue.create(bus, f"queue-{n}", pattern="t")
    found = scrape(client)
    for name in ("ackbus_inbox_unread", "ackbus_heartbeat_age_seconds", "ackbus_queue_behind"):
        assert len([labels for key, labels in found if key == name]) == 100
    assert found["ackbus_inboxes", ()] == found["ackbus_queues", ()] == 120


def test_metrics_need_a_token_that_may_look_at_work(serve: Serve, bus: Bus) -> None:
    tokens = Tokens(bus.database)
    shown = {scope: tokens.create(scope.replace(":", "-"), [scope]) for scope in Scope}
    client = serve()
    problem(client.get("/metrics"), 401, "unauthorized")
    for scope, token in shown.items():
        response = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == (403 if scope.startswith("messages") else 200), scope
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


def test_health_tells_that_the_bus_cannot_be_written(client: httpx.Client, bus: Bus) -> None:
    with bus.transaction():
        response = client.get("/healthz")
    problem(response, 503, "bus-busy")
    assert client.get("/healthz").status_code == 200


def test_health_tells_of_a_file_that_is_no_database(client: httpx.Client, bus: Bus) -> None:
    """PITFALLS 27: a green health check over a corrupt store."""
    path = Path(bus.layout.database)
    bus.close()
    path.write_bytes(b"nothing of a database" * 400)
    assert client.get("/healthz").status_code == 503
