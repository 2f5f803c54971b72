"""`bus automation api`: calls with the address and the token of the configuration."""

import json
import os
import socket
import subprocess

import pytest

from ackbus.cli.running.service_call import ApiCall, parse_call
from ackbus.schema.errors import InvalidInput

from ..conftest import Folder
from ..running import dumping
from ..service_process import BUS, ServiceProcess
from .test_listening import free_address

pytestmark = pytest.mark.slow


def configured(folder: Folder) -> Folder:
    folder.plugin("echo", run=dumping())
    return folder.write(
        config=f"""
        plugin_roots: [plugins]
        plugins: {{echo: {{enabled: true}}}}
        api:
          enabled: true
          listen: {free_address()}
          auth:
            tokens:
              - {{token: "${{READER}}", scopes: ["jobs:ro"]}}
              - {{token: "${{ADMIN}}", scopes: ["*"]}}
        """
    )


def address_of(folder: Folder) -> str:
    api = folder.load({"READER": "reader", "ADMIN": "admin"}).api
    assert api is not None
    return api.listen


def test_a_call_has_the_address_and_the_token_that_may_do_most(folder: Folder) -> None:
    configured(folder)
    with ServiceProcess(folder.path, READER="reader", ADMIN="admin").ready() as service:

        def api(*words: str) -> subprocess.CompletedProcess[str]:
            return service.run("automation", "api", *words)

        assert json.loads(api("/healthz").stdout)["status"] == "ok"
        done = api("/plugin/echo/poll", "-f", "message=hello", "-f", "count:=2")
        assert (done.returncode, done.stderr) == (0, "")
        job_id = json.loads(done.stdout)["job_id"]
        found = json.loads(api(f"/job/{job_id}").stdout)
        assert found["plugin"] == "echo"
        told = folder.path / "plugins" / "echo" / f"{job_id}.json"
        with service.open() as bus:
            message = bus.get(job_id)
        assert message is not None
        assert message.payload == {"message": "hello", "count": 2}
        listed = api("/jobs", "-X", "get", "-f", "plugin=echo", "-f", "limit:=1", "--json")
        assert [each["job_id"] for each in json.loads(listed.stdout)["jobs"]] == [job_id]
        assert json.loads(api("/system/reload", "-X", "POST").stdout)["status"] == "ok"
        missing = api("/nothing")
        assert (missing.returncode, json.loads(missing.stdout)["status"]) == (1, 404)
        assert service.stop() == 0
        assert told.exists()
        host, _, port = address_of(folder).rpartition(":")
        with socket.create_server((host, int(port))) as another:  # who has the address now
            gone = api("/healthz")
            assert (gone.returncode, "no service runs" in gone.stderr) == (4, True)
            another.setblocking(False)
            with pytest.raises(BlockingIOError):
                another.accept()


def test_a_reader_that_leaves_is_no_error_of_the_service(folder: Folder) -> None:
    configured(folder)
    with ServiceProcess(folder.path, READER="reader", ADMIN="admin").ready():
        read, write = os.pipe()
        os.close(read)
        # Longer than what is buffered.
        words = [*BUS, "automation", "api", "/openapi.json", "--config", str(folder.path)]
        env = os.environ | {"READER": "reader", "ADMIN": "admin"}
        done = subprocess.run(
            words, stdout=write, stderr=subprocess.PIPE, text=True, env=env, check=False
        )
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_configuration_without_an_api_says_so(folder: Folder) -> None:
    folder.plugin("echo", run=dumping())
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    with ServiceProcess(folder.path).ready() as service:
        done = service.run("automation", "api", "/healthz")
    assert (done.returncode, "has no API" in done.stderr) == (4, True)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("/jobs", None, []), ApiCall("GET", "/jobs")),
        (("/jobs?limit=1", "GET", ["q=a b&c"]), ApiCall("GET", "/jobs?limit=1&q=a+b%26c")),
        (("/x", None, ["a=1"]), ApiCall("POST", "/x", b'{"payload":{"a":"1"}}')),
        (
            ("/x", "post", ["a:=[1]", "b=x=y"]),
            ApiCall("POST", "/x", b'{"payload":{"a":[1],"b":"x=y"}}'),
        ),
        (("/ü x", "delete", []), ApiCall("DELETE", "/%C3%BC%20x")),
        (("/a\r\nHost: b", None, []), ApiCall("GET", "/a%0D%0AHost:%20b")),
    ],
)
def test_words_become_a_call(words: tuple[str, str | None, list[str]], call: ApiCall) -> None:
    assert parse_call(*words) == call


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", None, []),
        ("//host/jobs", None, []),
        ("", None, []),
        ("/x", "GE T", []),
        ("/x", "", ["x"]),
        ("/x", None, ["=1"]),
        ("/x", None, ["a:=nothing"]),
    ],
)
def test_words_of_another_form_are_refused(words: tuple[str, str | None, list[str]]) -> None:
    with pytest.raises(InvalidInput):
        parse_call(*words)
