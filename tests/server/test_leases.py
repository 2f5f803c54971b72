"""Leases and reservations over HTTP."""

from pathlib import Path

import httpx
import pytest

from ackbus import Bus
from ackbus.server.access.tokens import Scope, Tokens

from .conftest import Serve, problem

WANTED = {"name": "deploy", "holder": "a", "lease_s": 60}


@pytest.mark.slow
def test_lease_has_one_holder_and_the_conflict_names_it(one_client: httpx.Client) -> None:
    granted = one_client.post("/v1/leases", json=WANTED)
    assert granted.status_code == 201
    lease = granted.json()
    refused = one_client.post("/v1/leases", json=WANTED | {"holder": "b"})
    assert "held by a" in problem(refused, 409, "held")
    assert refused.json()["held"] == lease
    assert lease in one_client.get("/v1/leases").json()["leases"]
    renewed = one_client.post(f"/v1/leases/{lease['token']}/renew", json={"lease_s": 600}).json()
    assert renewed == lease | {"until": renewed["until"]}
    assert renewed["until"] > lease["until"]
    assert one_client.post(f"/v1/leases/{lease['token']}/release").status_code == 204
    for act in ("renew", "release"):
        lost = one_client.post(f"/v1/leases/{lease['token']}/{act}", json={})
        problem(lost, 409, "lease-lost")


def test_renewals_are_alike(one_client: httpx.Client, one_bus: Bus) -> None:
    """One path, body and result for leases, reservations and claims."""
    one_bus.publish("alike.request", from_agent="lead")
    assert one_client.put("/v1/queues/alike", json={"type": "alike.request"}).status_code == 201
    wanted = {"paths": ["src/alike"], "agent": "a", "lease_s": 5}
    granted = {
        "leases": one_client.post("/v1/leases", json=WANTED | {"name": "alike"}).json(),
        "reservations": one_client.post("/v1/reservations", json=wanted).json()["reservations"][0],
        "claims": one_client.post("/v1/queues/alike/claims", json={"worker": "w"}).json()["claims"][
            0
        ],
    }
    for kind, before in granted.items():
        url = f"/v1/{kind}/{before['token']}/renew"
        renewed = one_client.post(url, json={"lease_s": 7200})
        assert renewed.status_code == 200, renewed.text
        after = renewed.json()
        assert after["token"] == before["token"]
        assert after["until"] > before["until"]
        for body, why in (({"lease_s": 0}, "greater than 0"), ({"ttl": 5}, "ttl")):
            assert why in problem(one_client.post(url, json=body), 422, "invalid-input")
        none = one_client.post(f"/v1/{kind}/99999/renew", json={})
        assert none.json()["type"] in ("urn:ackbus:lease-lost", "urn:ackbus:claim-not-found")


@pytest.mark.slow
def test_token_of_another_agent_renews_and_releases_nothing(
    serve: Serve, bus: Bus, bus_dir: Path
) -> None:
    lease = bus.leases.acquire("deploy", "a", lease_s=60)
    (held,) = bus.reservations.reserve(["src"], "a").reservations
    assert lease is not None
    token = Tokens.of(bus).create("b", [Scope.WORK_RW], agent="b")
    client = serve(headers={"Authorization": f"Bearer {token}"})
    for kind, number in (("leases", lease.token), ("reservations", held.token)):
        for act in ("renew", "release"):
            refused = client.post(f"/v1/{kind}/{number}/{act}", json={})
            problem(refused, 403, "forbidden")
    assert bus.leases.get("deploy") == lease
    assert bus.reservations.list() == [held]


def test_reserved_files_are_a_conflict_that_says_whose(one_client: httpx.Client) -> None:
    wanted = {"paths": ["src/api", "docs/*.md"], "agent": "a", "reason": "routes"}
    granted = one_client.post("/v1/reservations", json=wanted)
    assert granted.status_code == 201
    tokens = [each["token"] for each in granted.json()["reservations"]]
    refused = one_client.post(
        "/v1/reservations", json={"paths": ["lib", "src/api/users.py"], "agent": "b"}
    )
    problem(refused, 409, "reserved")
    (conflict,) = refused.json()["conflicts"]
    assert (conflict["path"], conflict["held"]["agent"]) == ("src/api/users.py", "a")
    listed = one_client.get("/v1/reservations", params={"agent": "b"})
    assert listed.json()["reservations"] == []  # all or none
    for token in tokens:
        assert one_client.post(f"/v1/reservations/{token}/release").status_code == 204
    again = one_client.post(f"/v1/reservations/{tokens[0]}/release")
    problem(again, 409, "lease-lost")


@pytest.mark.slow
def test_unknown_field_is_answered_with_those_that_there_are(client: httpx.Client) -> None:
    """In one way, however many fields there are."""
    for path, given, takes in (
        ("/v1/leases/1/renew", {"holder": "h"}, "it takes lease_s"),
        ("/v1/leases/1/renew", {"ttl_s": 5}, "it takes lease_s"),
        ("/v1/reservations/1/renew", {"lease_s": 5, "agent": "h"}, "it takes lease_s"),
        ("/v1/messages", {"type": "t", "from": "a", "thread": "c"}, "conversation"),
    ):
        refused = problem(client.post(path, json=given), 422, "invalid-input")
        assert f"there is no field '{list(given)[-1]}'; it takes" in refused
        assert takes in refused
