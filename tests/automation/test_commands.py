"""The commands about the service, with and without one."""

import json
from pathlib import Path

import pytest

from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.automation.records.breakers import Breakers

from ..conftest import wait_until
from .conftest import Folder
from .running import OK, response
from .service_process import ServiceProcess
from .test_service import configured, lines, submit

pytestmark = pytest.mark.slow

#: The words of Ductile for what an operator does, each with what it is here.
WORDS = {
    "system start": ["automation", "start"],
    "run <plugin>": ["automation", "run", "echo"],
    "status": ["automation", "status"],
    "system reset <plugin>": ["automation", "reset", "echo"],
    "system breaker": ["automation", "breaker", "echo"],
    "plugins": ["automation", "plugins"],
    "logs [plugin]": ["automation", "logs", "echo"],
    "queue": ["automation", "queue"],
}

#: The exit codes against a live service with a job that waits, and without one.
LIVE = [1, 0, 0, 0, 0, 0, 0, 0]
NONE = [4, 4, 0, 0, 0, 0, 0]  # but for "system start", which would begin one


@pytest.mark.requirement("D-142", "X-29")
def test_d_142_every_word_of_ductile_is_a_command(folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        submit(bus, "held")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        live = [service.run(*words) for words in WORDS.values()]
        (tmp_path / "held.go").touch()
        assert service.stop() == 0
        submit(bus, "held")
        none = [service.run(*words) for words in list(WORDS.values())[1:]]
    assert [each.returncode for each in live] == LIVE, [each.stderr for each in live]
    assert [each.returncode for each in none] == NONE, [each.stderr for each in none]
    shown = dict(zip(WORDS, live, strict=True))
    assert shown["plugins"].stdout == service.run("plugin", "list").stdout


def test_health_needs_a_service_and_is_asked_of_the_plugin(folder: Folder, tmp_path: Path) -> None:
    path = configured(folder, tmp_path).plugin("echo", run=OK)
    manifest = path / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("poll:", "health: {type: read}\n  poll:"))
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        well = service.run("plugin", "health", "echo")
        assert (well.returncode, well.stdout) == (0, "echo health succeeded: done\n")
        assert service.run("automation", "stop", "--now").returncode == 0
        before = bus.log.newest_seq()
        none = service.run("plugin", "health", "echo")
        assert (none.returncode, "no service runs" in none.stderr) == (4, True)
        assert bus.log.newest_seq() == before


def test_queue_and_logs_tell_what_waits_and_what_was_printed(
    folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    folder.plugin("echo", run=OK.replace("cat >", "echo hello >&2\ncat >"))
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        held = submit(bus, "held")
        done = json.loads(service.run("plugin", "run", "echo", "--json").stdout)
        (waiting,) = map(
            json.loads, service.run("automation", "queue", "--json").stdout.splitlines()
        )
        (logged,) = map(json.loads, service.run("automation", "logs", "--json").stdout.splitlines())
        told = service.run("automation", "logs").stdout
    assert (waiting["id"], waiting["status"]) == (held.job_id, "running")
    assert logged["id"].startswith(f"{done['job_id']}-")
    assert (logged["attempt"], logged["stderr"]) == (1, "hello\n")
    assert "stderr: hello" in told


@pytest.mark.requirement("D-77", "D-78", "D-143")
def test_d_77_breakers_are_shown_and_reset_by_command(folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        breakers = Breakers.of(bus)
        with bus.transaction():
            for number in range(3):
                breakers.note("echo", "poll", False, f"j-{number}", "scheduler")
        shown = json.loads(service.run("automation", "breaker", "echo", "--json").stdout)
        dry = service.run("automation", "reset", "echo", "--dry-run")
        assert dry.stdout == "1 breakers of echo would be closed\n"
        assert breakers.get("echo", "poll").state == "open"
        reset = json.loads(service.run("automation", "reset", "echo", "--json").stdout)
        after = json.loads(service.run("automation", "breaker", "echo", "--json").stdout)
    assert shown["breakers"][0]["state"] == "open"
    assert reset["closed"] == 1
    assert [each["reason"] for each in after["history"]] == ["failure_threshold", "manual_reset"]


@pytest.mark.requirement("D-10")
def test_d_10_job_show_has_the_fields_of_a_job_of_a_plugin(folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        request = JobRequest(
            plugin="echo",
            command="poll",
            submitted_by="api",
            payload={"a": 1},
            parent_job_id="p",
            source_event_id="e",
        )
        done = Submission(bus).submit(request)
        words = ["job", "show", str(done.seq), "--json", "--dir", str(service.bus_dir)]
        shown = json.loads(service.command(*words).stdout)
    wanted = {"id": done.job_id, "plugin": "echo", "command": "poll", "payload": {"a": 1}}
    wanted |= {"submitted_by": "api", "parent_job_id": "p", "source_event_id": "e"}
    assert {name: shown[name] for name in wanted} == wanted
    names = {"status", "attempt", "max_attempts", "created_at", "started_at", "completed_at"}
    assert names | {"dedupe_key", "next_retry_at", "last_error"} <= set(shown)


@pytest.mark.requirement("D-04")
def test_d_04_plugins_of_two_languages_read_and_print_json(folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    program = """#!/usr/bin/env python3
import json, sys
request = json.load(sys.stdin)
json.dump({"status": "ok", "result": f"python {request['command']}"}, sys.stdout)
"""
    folder.plugin("held", run=program)
    with ServiceProcess(folder.path).ready() as service:
        told = [
            json.loads(service.run("plugin", "run", name, "--json").stdout)["result"]
            for name in ("echo", "held")
        ]
    assert told == ["done", "python poll"]


def test_start_refuses_a_broken_configuration_with_every_fault(folder: Folder) -> None:
    folder.write(config="service: {max_workers: 0, nme: x}\nplugins: {echo: {enable: true}}\n")
    with ServiceProcess(folder.path) as service:
        assert service.process.wait(60) == 78
        told = service.told.read_text().splitlines()
    assert len(told) >= 3
    assert all(line.startswith("bus: ") and "config.yaml:" in line for line in told)
    assert not service.bus_dir.exists()


def test_facts_are_listed_without_their_values_unless_they_are_asked_for(folder: Folder) -> None:
    plugin = folder.plugin("echo", run=response(state_updates={"token": "hidden"}))
    rule = "fact_outputs:\n  - {when: {command: poll}, from: state_updates, fact_type: echo.seen}\n"
    manifest = plugin / "manifest.yaml"
    manifest.write_text(manifest.read_text() + rule)
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    with ServiceProcess(folder.path).ready() as service:
        assert service.run("plugin", "facts", "echo").returncode == 4
        assert service.run("plugin", "run", "echo").returncode == 0
        listed = service.run("plugin", "facts", "echo", "--json")
        whole = service.run("plugin", "facts", "echo", "--json", "--values")
        table = service.run("plugin", "facts", "echo")
    record = json.loads(listed.stdout)
    assert (record["fact_type"], record["command"]) == ("echo.seen", "poll")
    assert "hidden" not in listed.stdout + table.stdout
    assert json.loads(json.loads(whole.stdout)["fact_json"]) == {"token": "hidden"}
