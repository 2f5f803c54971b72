"""Leases and reservations over HTTP."""

import httpx

from .conftest import problem

WANTED = {"name": "deploy", "holder": "a", "lease_s": 60}


def test_lease_has_one_holder_and_the_conflict_names_it(one_client: httpx.Client) -> None:
    granted = one_client.post("/v1/leases", json=WANTED)
    assert granted.status_code == 201
    lease = granted.json()
    refused = one_client.post("/v1/leases", json=WANTED | {"holder": "b"})
    assert "held by a" in problem(refused, 409, "held")
    assert refused.json()["held"] == lease
    assert lease in one_client.get("/v1/leases").json()["leases"]
    held = {"name": "deploy", "holder": "a", "token": lease["token"]}
    assert (
        one_client.post("/v1/leases/renew", json=held | {"lease_s": 600}).json()["until"]
        > (lease["until"])
    )
    assert one_client.post("/v1/leases/release", json=held).status_code == 204
    for act in ("renew", "release"):
        problem(one_client.post(f"/v1/leases/{act}", json=held), 409, "lease-lost")


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
    held = {"agent": "a", "tokens": tokens}
    renewed = one_client.post("/v1/reservations/renew", json=held | {"lease_s": 7200}).json()
    assert [each["token"] for each in renewed["reservations"]] == tokens
    assert one_client.post("/v1/reservations/release", json=held).status_code == 204
    again = one_client.post("/v1/reservations/release", json=held)
    problem(again, 409, "lease-lost")


def test_ttl_s_is_understood_for_lease_s(one_client: httpx.Client) -> None:
    granted = one_client.post("/v1/leases", json=WANTED | {"name": "old"}).json()
    held = {"name": "old", "holder": "a", "token": granted["token"]}
    renewed = one_client.post("/v1/leases/renew", json=held | {"ttl_s": 600}).json()
    assert renewed["until"] > granted["until"]
