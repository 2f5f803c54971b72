"""Discovery of what a service offers, by clients that know nothing of it."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from fastapi.routing import APIRoute

from ackbus import Bus
from ackbus.server.automation.app import ROUTERS

from ...field_names import SECOND_NAMES, fields
from ..conftest import Folder
from ..running import OK
from .serving import API, KEYS, Served, api_of, problem

MANIFEST = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: echo
    version: 1.2.3
    protocol: 2
    entrypoint: run.sh
    description: Says it again.
    commands:
      poll:
        type: read
        description: Looks.
        input_schema: {type: object, properties: {message: {type: string}}}
      handle: {type: write}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("api")
    folder = Folder(path / "config")
    folder.plugin("echo", MANIFEST, run=OK)
    folder.write(
        api=API,
        config="""
        include: [api.yaml]
        service: {name: home}
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}}
        pipelines:
          - {name: now, on: now.please, execution_mode: synchronous, steps: [{uses: echo.poll}]}
          - {name: later, on: later.please, steps: [{uses: echo.poll}]}
        """,
    )
    with Bus.init(path / ".worker-state") as bus, api_of(bus, folder) as served:
        yield served


def asked(served: Served, path: str, key: str | None = None) -> Any:
    answer = served.client(key).get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
def test_the_index_leads_on(served: Served) -> None:
    index = asked(served, "/")
    assert index["name"] == "home"
    for path in index["discovery"].values():
        asked(served, path)


def test_plugins_and_skills_are_open(served: Served) -> None:
    assert asked(served, "/plugins")["plugins"] == [
        {
            "name": "echo",
            "version": "1.2.3",
            "description": "Says it again.",
            "commands": ["poll", "handle"],
        }
    ]
    skills = {each["name"]: each for each in asked(served, "/skills")["skills"]}
    poll, now, later = (
        skills[name] for name in ("plugin.echo.poll", "pipeline.now", "pipeline.later")
    )
    assert (poll["endpoint"], poll["tier"], poll["description"]) == (
        "/plugin/echo/poll",
        "READ",
        "Looks.",
    )
    assert (now["execution_mode"], now["trigger"]) == ("synchronous", "now.please")
    assert (later["execution_mode"], later["timeout_secs"]) == ("asynchronous", 30)


def test_the_details_of_a_plugin_need_a_token(served: Served) -> None:
    problem(served.client(None).get("/plugin/echo"), 401, "unauthorized")
    found = asked(served, "/plugin/echo", KEYS["PLUGIN_RO"])
    assert (found["protocol"], found["name"]) == (2, "echo")
    assert found["commands"][1] == {"name": "handle", "type": "write"}
    assert found["commands"][0]["input_schema"]["properties"] == {"message": {"type": "string"}}
    problem(served.client().get("/plugin/nobody"), 404, "not-found")


@pytest.mark.requirement("Q-27")
def test_the_document_describes_each_command(served: Served) -> None:
    whole, one = asked(served, "/openapi.json"), asked(served, "/plugin/echo/openapi.json")
    assert one["paths"].keys() == {"/plugin/echo/poll", "/plugin/echo/handle"}
    assert one["paths"].items() <= whole["paths"].items()
    poll, handle = (one["paths"][f"/plugin/echo/{name}"]["post"] for name in ("poll", "handle"))
    assert (poll["operationId"], poll["summary"]) == ("echo__poll", "Looks.")
    assert handle["summary"] == "echo: handle"
    assert "requestBody" not in handle
    schema = poll["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["payload"]["properties"] == {"message": {"type": "string"}}
    assert poll["security"] == [{"BearerAuth": ["plugin:ro"]}]
    assert handle["security"] == [{"BearerAuth": ["plugin:rw"]}]
    problem(served.client(None).get("/plugin/nobody/openapi.json"), 404, "not-found")


def test_the_document_has_every_route_and_says_which_need_a_token(served: Served) -> None:
    paths = asked(served, "/openapi.json")["paths"]
    described = {
        (method.upper(), path): "security" in operation
        for path, operations in paths.items()
        for method, operation in operations.items()
        if not path.startswith("/plugin/echo/")
    }
    assert described.keys() == {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods
    }
    without_token = {path for (_, path), needs_token in described.items() if not needs_token}
    assert without_token == {
        *("/", "/healthz", "/plugins", "/skills", "/.well-known/ai-plugin.json"),
        "/plugin/{plugin}/openapi.json",
    }


def test_no_operation_answers_by_a_slash_at_its_end(served: Served) -> None:
    client = served.client()
    for path, operations in asked(served, "/openapi.json")["paths"].items():
        for method in operations:
            if path != "/":
                ended = client.request(method, f"{path.replace('{', '').replace('}', '')}/")
                problem(ended, 404, "not-found")


def test_fields_have_the_names_of_the_other_doors(served: Served) -> None:
    document = asked(served, "/openapi.json")
    names = set(fields(document))
    assert {"payload", "type"} <= names
    assert names & SECOND_NAMES.keys() == set()
    assert document["info"]["version"] == version("ackbus")
    assert [each["url"] for each in document["servers"]] == ["/"]
