"""`bus webhook`: what is configured, without secrets, and a request to try it."""

import json
from pathlib import Path

import pytest

from ..conftest import Folder
from ..running import dumping
from ..service_process import ServiceProcess
from .senders import ENVIRON, config
from .test_killed import free_port

pytestmark = pytest.mark.slow


def configured(folder: Folder) -> None:
    folder.write(config=config().replace("127.0.0.1:0", f"127.0.0.1:{free_port()}"))
    folder.plugin("echo", run=dumping())
    folder.lock()


def test_a_test_is_a_signed_request_that_the_service_takes(folder: Folder) -> None:
    configured(folder)
    names = ["hook/github", "hook/stripe", "hook/standard", "/hook/shopify"]
    with ServiceProcess(folder.path, **ENVIRON).ready() as service, service.open() as bus:
        for number, name in enumerate(names):
            done = service.run("webhook", "test", name, "--json")
            found = json.loads(done.stdout)
            assert (done.returncode, found["status"]) == (0, 202), done
            job = bus.get(json.loads(found["answer"])["job_id"])
            assert job is not None
            assert job.headers["job"] == {"webhook": f"hook/{name.rpartition('/')[2]}"}
            assert len(list(bus.read(type="plugin.echo.handle"))) == number + 1
        text = '{"a":  "ü"}'
        given = ("--data", text, "--delivery", "d-1")
        told = [service.run("webhook", "test", "hook/github", *given).stdout for _ in range(2)]
        assert told[0] == told[1]
        assert told[0].startswith('202 {"job_id":')
        job = bus.get(json.loads(told[0].removeprefix("202 "))["job_id"])
        assert job is not None
        assert job.payload == json.loads(text)
        refused = service.run("webhook", "test", "hook/github", "--data", "no JSON")
        assert (refused.returncode, refused.stdout[:4]) == (1, "400 ")


def test_a_test_without_a_service_says_so(folder: Folder, tmp_path: Path) -> None:
    configured(folder)
    body = tmp_path / "body"
    body.write_bytes(b'{"a":\r\n 1}\n')
    with ServiceProcess(folder.path, **ENVIRON).ready() as service:
        service.stop()
        none = service.run("webhook", "test", "hook/github")
        assert (none.returncode, none.stdout) == (4, "")
        assert "nobody listens on 127.0.0.1:" in none.stderr
        words = ("webhook", "test", "hook/github", "--data", f"@{body}", "--dry-run")
        dry = service.run(*words, "--json")
        found = json.loads(dry.stdout)
        assert found["body"] == body.read_bytes().decode()
        assert found["headers"]["X-Hub-Signature-256"].startswith("sha256=")
        assert service.run(*words).stdout.startswith("POST /hook/github\n")


def test_no_command_shows_a_secret(folder: Folder) -> None:
    configured(folder)
    with ServiceProcess(folder.path, **ENVIRON).ready() as service:
        service.stop()
        listed = [
            json.loads(x) for x in service.run("webhook", "list", "--json").stdout.split("\n") if x
        ]
        assert [each["webhook"] for each in listed] == [
            *("hook/github", "hook/stripe", "hook/standard", "hook/shopify"),
        ]
        assert listed[1]["becomes"] == "echo.handle"
        told = ""
        for form in ([], ["--json"]):
            for words in (["webhook", "list"], ["config", "show"], ["config", "check"]):
                told += service.run(*words, *form).stdout
            for each in listed:
                shown = service.run("webhook", "show", each["webhook"], *form)
                assert shown.returncode == 0, shown
                told += shown.stdout
        for secret in ENVIRON.values():
            assert secret not in told
        wrong = service.run("webhook", "show", "hook/gihub")
        assert (wrong.returncode, "did you mean 'hook/github'?" in wrong.stderr) == (4, True)
        folder.write(config="service: {}\n")
        folder.lock()
        assert service.run("webhook", "list").returncode == 4
