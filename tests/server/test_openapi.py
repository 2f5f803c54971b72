"""The OpenAPI document against the server that serves it."""

import json
import subprocess
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from ackbus import Bus, Queue
from ackbus.server.access.access import BusAccess
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.server.mcp.tools.catalog import tools_of
from ackbus.server.running import create_app

from ..field_names import SECOND_NAMES, fields
from ..sizes import size
from .conftest import problem

#: What no schema can tell: each rule of a name (422), integers beyond 64 bits in what is any JSON
#: (400), and that a fixed part of a path may be another operation's name or seq.
#: Where a parameter is given here, what would be wrong with it is not sent.
CONFIG = """
request-timeout = 60
headers = {{ Authorization = "Bearer {token}" }}

[parameters]
"query.wait_s" = 0
"path.queue" = "work"

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "400", "403", "404", "409", "422", "429"]

[[operations]]
include-path-regex = "/batch$|/dead-letters/.*/"
checks.unsupported_method.enabled = false
checks.allow_header_conformance.enabled = false

[[operations]]
include-path-regex = "/jobs/"
checks.negative_data_rejection.enabled = false
"""

#: Requests for each rule of the document, and sequences of requests, are for the night.
PHASES = ",".join(["fuzzing", "coverage", "stateful"][: size(sample=1, whole=3)])


@pytest.mark.slow
def test_rules_that_a_client_leaves_out_are_none_that_it_sends(one_client: httpx.Client) -> None:
    """Clients that are made of the document send what has a default there."""
    schemas = one_client.get("/v1/openapi.json").json()["components"]["schemas"]
    rules = schemas["PolicyBody"]["properties"]
    assert len(rules) > 5
    assert not [name for name, rule in rules.items() if "default" in rule]
    assert "default" not in schemas["QueueBody"]["properties"]["policy"]


@pytest.mark.slow
def test_server_keeps_to_its_document(
    one_client: httpx.Client, one_bus: Bus, tmp_path: Path
) -> None:
    """All checks of Schemathesis, with the token that the document asks for, and without.

    Streams have no end; tests/server/test_live.py follows them.
    """
    queue = Queue.create(one_bus, "work", "work.>", max_attempts=1)
    for n in range(5):
        one_bus.publish("work.request", n, from_agent="lead")
    for claim in queue.claim("w", limit=3):
        if claim.message.payload != 0:
            queue.fail(claim, "no disk")
    config = tmp_path / "schemathesis.toml"
    token = Tokens.of(one_bus).create("st", [Scope.ADMIN])
    config.write_text(CONFIG.format(token=token))
    done = subprocess.run(
        [
            *(Path(sysconfig.get_path("scripts"), "st"), "--config-file", config, "run"),
            *(f"{one_client.base_url}/v1/openapi.json", "--phases", PHASES),
            *(
                "--max-examples",
                str(size(sample=1, whole=3)),
                "--seed",
                "1",
                "--exclude-path-regex",
                "events",
            ),
            "--no-color",
        ],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert one_client.get("/healthz").json()["ok"] is True


def test_document_can_be_made_a_client_of(one_client: httpx.Client) -> None:
    """Generators leave out operations of which an enumeration has values of several types."""
    document = one_client.get("/v1/openapi.json").json()
    found: list[dict[str, Any]] = [document]
    for each in found:  # which grows meanwhile
        inner = each.values() if isinstance(each, dict) else each
        found += [value for value in inner if isinstance(value, dict | list)]
    enums = [each["enum"] for each in found if isinstance(each, dict) and "enum" in each]
    assert enums
    assert [enum for enum in enums if len({type(value) for value in enum}) > 1] == []


def test_health_is_there_for_those_who_read_no_body(one_client: httpx.Client) -> None:
    head = one_client.head("/healthz")
    assert (head.status_code, head.content) == (200, b"")


def test_whoever_is_lost_is_led_to_the_document(one_client: httpx.Client) -> None:
    found = one_client.get("/v1", follow_redirects=True)
    assert found.json()["openapi"].startswith("3.")
    for path in ("/v1/", "/v1/mesages"):
        assert "/v1/openapi.json" in problem(one_client.get(path), 404, "not-found")


def test_document_names_its_server_and_the_version_of_the_package(
    one_client: httpx.Client,
) -> None:
    document = one_client.get("/v1/openapi.json").json()
    assert document["info"]["version"] == version("ackbus")
    (server,) = document["servers"]
    url = one_client.base_url.join(server["url"])
    assert httpx.get(url.join("/healthz")).json()["ok"] is True


#: What stands in the paths of the document here.
VALUES = {
    "agent": "ann",
    "conversation": "c-1",
    "id": "r-1",
    "key": "1",
    "kind": "inbox",
    "name": "ann",
    "queue": "work",
    "ref": "sha256-" + "0" * 64,
    "seq": "1",
    "session": "s-1",
    "token": "1",
}


@pytest.mark.slow
def test_no_resource_answers_by_a_slash_at_its_end(client: httpx.Client, bus: Bus) -> None:
    """Neither does a redirect lead to one, nor is it the name of another resource."""
    paths = client.get("/v1/openapi.json").json()["paths"]
    asked = [
        (method, path.replace(":path", "").format_map(VALUES))
        for path, operations in paths.items()
        for method in operations
    ]
    assert len(asked) > 60
    newest = bus.log.newest_seq()
    for method, path in [*asked, ("get", "/mcp"), ("post", "/mcp"), ("get", "/v1/ws")]:
        answer = client.request(method, f"{path}/")
        assert answer.status_code == 404, (method, path, answer.text)
        assert method == "head" or answer.json()["type"] == "urn:ackbus:not-found", path
    assert bus.log.newest_seq() == newest
    assert "work/" not in [each["queue"] for each in client.get("/v1/queues").json()["queues"]]
    assert client.get("/v1/inboxes/ann%2F").json()["agent"] == "ann/"  # a name may end so


def test_each_thing_has_one_name_at_every_door(one_client: httpx.Client) -> None:
    """The fields of the API and of the tools of MCP; tests/automation has those of its API."""
    document = one_client.get("/v1/openapi.json").json()
    tools = [[each.input_schema, each.output_schema] for each in tools_of("full").values()]
    for door in (document, tools):
        names = set(fields(door))
        assert {"type", "payload", "conversation", "in_reply_to", "until", "next_cursor"} <= names
        assert names & SECOND_NAMES.keys() == set()
    # Stored messages are given as lines of bus.jsonl, which have another word for a conversation.
    places = document["components"]["schemas"]
    lines = {name for name, each in places.items() if "correlation_id" in each["properties"]}
    assert lines == {"MessageRecord", "StepRecord"}


@pytest.mark.slow
def test_token_is_optional_where_the_bus_has_none(client: httpx.Client, bus: Bus) -> None:
    """Issue 32, 12: and is asked for as soon as there is one."""

    def needs() -> list[list[dict[str, list[str]]]]:
        paths = client.get("/v1/openapi.json").json()["paths"].values()
        found = [each.get("security") for methods in paths for each in methods.values()]
        return [each for each in found if each]

    without = needs()
    assert len(without) > 30
    assert all(each[0] == {} and "token" in each[1] for each in without)
    Tokens.of(bus).create("ci", [Scope.ADMIN])
    assert client.get("/v1/stats").status_code == 401  # and the server knows of it
    assert needs() == [each[1:] for each in without]


# every 422 has errors (issue 32, 12) ----------------------------------------------------------


@pytest.mark.slow
def test_every_422_has_errors(client: httpx.Client) -> None:
    """Of fields, parameters, headers, names, and rules across them."""
    note = {"type": "t", "from": "a"}
    refused = [
        client.post("/v1/messages", json=note | {"id": "x"}, headers={"Idempotency-Key": "k"}),
        client.post("/v1/reservations", json={"paths": ["/"], "agent": "a"}),
        client.post("/v1/messages", json=note, headers=[("Idempotency-Key", "k")] * 2),
        client.get("/v1/search"),
    ]
    for response in refused:
        detail = problem(response, 422, "invalid-input")
        errors = response.json()["errors"]
        assert all(each.keys() == {"at", "why"} for each in errors)
        assert errors[0]["why"] in detail
    schemas = client.get("/v1/openapi.json").json()["components"]["schemas"]
    assert schemas["Problem"]["properties"]["errors"]["anyOf"][0]["type"] == "array"


#: Values of which a field takes a few at most.
WRONG_VALUES = (
    *(None, True, -1, 2**70, 0.5, "", "\0", "\ud800", "a b", "x" * 300_000),
    *([], [None], {}, {"a": 1}, "1"),
)

#: Texts of which a parameter takes a few at most, as they stand in a URL.
WRONG_TEXTS = (
    *("x", "%00", "%20x", "x" * 3000, "-1", "0", str(2**70), "1.5", "nan", "a%0Ab"),
    *("%FF", "%ED%A0%80"),
)

#: Of the wrong requests of an operation, a check sends every n-th, and the first.
EVERY = size(sample=13, whole=1)


def wrong_requests(
    path: str, operation: dict[str, Any], schemas: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Requests of an operation, each with one thing that may be wrong: what httpx takes.

    Nothing that a stream takes is sent to one, since it has no end.
    """
    url, is_stream = path.format_map(VALUES), path.endswith("/events")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    right = example(body["schema"], schemas) if body else None
    sent = {"content": json.dumps(right), "headers": IS_JSON} if body else {}
    yield sent | {"url": f"{url}?nothing=1"}
    for keys in ([""], ["k", "k"], ["x" * 3000]):
        yield sent | {"url": url, "headers": IS_JSON + [("Idempotency-Key", key) for key in keys]}
    for parameter in operation.get("parameters", ()):
        name, is_text = parameter["name"], parameter["schema"].get("type") != "integer"
        texts = WRONG_TEXTS[: 1 - is_text] if is_stream else WRONG_TEXTS
        if parameter["in"] == "query":
            yield sent | {"url": f"{url}?{name}=1&{name}=1"}
            yield from (sent | {"url": f"{url}?{name}={text}"} for text in texts)
        elif parameter["in"] == "path" and not is_stream:
            yield from (
                sent | {"url": path.format_map(VALUES | {name: text})} for text in WRONG_TEXTS
            )
    if body:
        fields = resolved(body["schema"], schemas)["properties"]
        bodies = [*WRONG_VALUES, right | {"nothing": 1}]
        bodies += [right | {name: value} for name in fields for value in WRONG_VALUES]
        yield from (sent | {"url": url, "content": json.dumps(each)} for each in bodies)


IS_JSON = [("Content-Type", "application/json")]


def resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """A schema itself, where there is a reference to one, or the first of several."""
    while "$ref" in schema or "anyOf" in schema:
        name = schema.get("$ref", "").rpartition("/")[2]
        schema = schemas[name] if name else schema["anyOf"][0]
    return schema


def example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A value that fits a schema, with nothing in it that may be left out."""
    schema = resolved(schema, schemas)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    if schema.get("type") == "object":
        required = schema.get("required", [])
        return {name: example(schema["properties"][name], schemas) for name in required}
    if schema.get("type") == "array":
        return [example(schema.get("items", {}), schemas)] * schema.get("minItems", 0)
    return {"integer": max(1, schema.get("minimum", 1)), "number": 1}.get(schema.get("type"), "ann")


@pytest.mark.slow
def test_every_operation_says_what_is_wrong_with_a_request(bus: Bus) -> None:
    """A wrong body, query, path or header: each 422 has `errors`.

    And every answer has a status that the document has for the operation.
    """
    app = create_app(bus, BusAccess(bus))
    refused = set()
    with TestClient(app, base_url="http://127.0.0.1") as client:
        document = client.get("/v1/openapi.json").json()
        operations = {
            (method, path): operation
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if "422" in operation["responses"]
        }
        for (method, path), operation in operations.items():
            wrong = wrong_requests(path, operation, document["components"]["schemas"])
            for request in islice(wrong, None, None, EVERY):
                answer = client.request(method, **request)
                told = method, request["url"][:200], str(request.get("content"))[:200], answer.text
                assert str(answer.status_code) in operation["responses"], told
                if answer.status_code == 422:
                    refused.add((method, path))
                    assert method == "head" or has_errors(answer), told
    assert len(operations) > 60
    assert refused == operations.keys()


def has_errors(answer: httpx.Response) -> bool:
    """Whether a problem says what is wrong, once in its detail and once by its parts."""
    errors = answer.json().get("errors")
    return bool(errors) and all(
        each.keys() == {"at", "why"} and each["at"] and each["why"] in answer.json()["detail"]
        for each in errors
    )
