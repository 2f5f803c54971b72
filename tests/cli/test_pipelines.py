"""The commands of pipelines and routes, beside a service in a process of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema import process_table

from ..automation.conftest import Folder
from ..automation.running import OK, response
from ..automation.service_process import ServiceProcess
from ..conftest import RunBus

CONFIG = """
    plugin_roots: [plugins]
    plugins: {a: {}, b: {}, bad: {retry: {max_attempts: 1}}}
    routes:
      - {from: b, event_type: made, to: a}
    pipelines:
      - name: digest
        on: day.over
        steps:
          - {id: make, uses: b, with: {text: "day {payload.day}"}}
          - {id: tell, uses: a, if: {path: payload.n, op: eq, value: 1}}
      - {name: failing, on: x, execution_mode: synchronous, timeout: 60s, steps: [{uses: bad}]}
      - {name: slow, on: y, steps: [{uses: a}, {call: digest}]}
"""
ARGS = ("--config", "conf")


@pytest.fixture
def folder(project: Path) -> Folder:
    folder = Folder(project / "conf").write(config=CONFIG)
    folder.plugin("a", run=OK)
    folder.plugin("b", run=response(events=[{"type": "made", "payload": {"n": 1}}]))
    folder.plugin("bad", run="#!/bin/sh\necho broken >&2\nexit 3\n")
    return folder


@pytest.fixture
def service(folder: Folder, bus_env: dict[str, str]) -> Iterator[ServiceProcess]:
    """A service of the folder, ready."""
    with ServiceProcess(folder.path, **bus_env).ready() as process:
        yield process
        process.stop()


def test_pipelines_are_listed_and_shown(folder: Folder, run_bus: RunBus) -> None:
    listed = run_bus("pipeline", "list", *ARGS, "--json")
    assert [json.loads(line)["pipeline"] for line in listed.out.splitlines()] == [
        "digest",
        "failing",
        "slow",
    ]
    shown = run_bus("pipeline", "show", "slow", *ARGS)
    assert shown.out.splitlines()[1:] == [
        "  #1: a.handle -> #2/make",
        "  #2/make: b.handle -> #2/tell",
        "  #2/tell: a.handle",
    ]
    missing = run_bus("pipeline", "show", "digst", *ARGS)
    assert missing.code == 4
    assert "there is no pipeline 'digst'; did you mean 'digest'?" in missing.err


def test_a_dry_run_says_what_would_run_and_needs_no_bus(folder: Folder, run_bus: RunBus) -> None:
    args = ("pipeline", "run", "digest", *ARGS, "--dry-run", "--json")
    done = run_bus(*args, "--payload", '{"day": 1}')
    assert json.loads(done.out) == {
        "pipeline": "digest",
        "dry_run": True,
        "begins": [
            {
                "step": "make",
                "plugin": "b",
                "command": "handle",
                "payload": {"day": 1, "text": "day 1"},
                "context": {},
                "fault": None,
            }
        ],
        "then": [{"step": "tell", "plugin": "a", "command": "handle", "then": []}],
    }
    refused = run_bus(*args)
    assert refused.code == 2
    assert "step make: with.text: payload.day is not there" in refused.err


@pytest.mark.slow
@pytest.mark.requirement("D-105", "D-106", "D-107")
def test_a_run_is_waited_for_as_asked_or_as_its_mode_says(
    service: ServiceProcess, run_bus: RunBus, project: Path
) -> None:
    args = ("pipeline", "run", "digest", *ARGS, "--payload", '{"day": 1}', "--json")
    done = run_bus(*args, "--wait")
    record = json.loads(done.out)
    assert (done.code, record["status"], record["timeout_exceeded"]) == (0, "succeeded", False)
    ran = [(job["step"], job["plugin"], job["depth"]) for job in record["jobs"]]
    switched = ("tell__switch", "core.switch", 1)
    assert ran == [("make", "b", 0), switched, ("tell", "a", 2), (None, "a", 1)]
    at_once = json.loads(run_bus(*args).out)
    assert at_once["status"] == "queued"
    late = run_bus(*args, "--wait", "--timeout", "0")
    record = json.loads(late.out)
    assert (late.code, record["timeout_exceeded"]) == (5, True)
    failed = run_bus("pipeline", "run", "failing", *ARGS, "--json")
    record = json.loads(failed.out)
    assert (failed.code, record["status"]) == (1, "dead")
    assert "broken" in record["jobs"][0]["error"]


@pytest.mark.slow
def test_a_run_without_a_service_waits_and_is_cancelled(
    service: ServiceProcess, folder: Folder, run_bus: RunBus, bus_env: dict[str, str]
) -> None:
    status = json.loads(run_bus("automation", "status", *ARGS, "--json").out)
    assert status["service"]["pid"] == service.process.pid
    stopped = run_bus("automation", "stop", *ARGS)
    assert stopped.code == 0, stopped.err
    assert process_table.runs(str(process_table.process(service.process.pid))) is not True
    args = (*ARGS, "--json")
    begun = run_bus("pipeline", "run", "slow", *args, "--wait")
    assert begun.code == 4
    assert "no service runs" in begun.err
    job = json.loads(begun.out)["job_id"]
    shown = json.loads(run_bus("pipeline", "tree", job, *args).out)
    assert (shown["status"], len(shown["jobs"])) == ("running", 1)
    cancelled = run_bus("pipeline", "cancel", job, *args)
    assert json.loads(cancelled.out)["job_id"] == job
    assert run_bus("pipeline", "cancel", job, *args).code == 4
    shown = json.loads(run_bus("pipeline", "tree", job, *args).out)
    assert shown["status"] == "cancelled"
    again = json.loads(run_bus("pipeline", "repeat", job, *args).out)
    assert again["job_id"] != job


def test_a_graph_is_mermaid(folder: Folder, run_bus: RunBus) -> None:
    one = run_bus("pipeline", "graph", "digest", *ARGS)
    assert one.out.splitlines()[:2] == ["flowchart TD", '  subgraph s0["digest"]']
    every = run_bus("pipeline", "graph", *ARGS)
    assert every.out.count("subgraph") == 3
    assert '-->|"made"|' in every.out


@pytest.mark.slow
def test_routes_are_listed_and_history_goes_through_a_changed_configuration(
    service: ServiceProcess, folder: Folder, run_bus: RunBus, project: Path
) -> None:
    (listed,) = run_bus("route", "list", *ARGS, "--json").out.splitlines()
    assert json.loads(listed) == {
        "from": "b",
        "event_type": "made",
        "to": "a",
        "command": "handle",
        "broadcast": False,
    }
    run = ("pipeline", "run", "digest", *ARGS, "--payload", '{"day": 1}')
    assert run_bus(*run, "--wait").code == 0
    same = run_bus("route", "test", "--from", "1", *ARGS, "--changed")
    assert (same.code, same.out) == (4, "")
    changed = Folder(project / "changed").write(config=CONFIG.replace("to: a}", "to: bad}"))
    changed.plugin("a")
    changed.plugin("b")
    changed.plugin("bad")
    config = run_bus("automation", "status", *ARGS, "--json")
    assert config.code == 0
    (bus_dir,) = [path.parent for path in (project / "conf").rglob("bus.db")]
    test = ("route", "test", "--from", "1", "--config", "changed", "--dir", bus_dir, "--changed")
    different = json.loads(run_bus(*test, "--json").out)
    assert different["added"] == [{"plugin": "bad", "command": "handle"}]
    assert different["dropped"] == [{"plugin": "a", "command": "handle"}]
    told = run_bus(*test).out.splitlines()
    assert told[1:] == ["    a.handle (digest: tell)", "  + bad.handle", "  - a.handle"]
    with Bus.open(bus_dir) as bus:
        before = bus.log.newest_seq()
    run_bus(*test)
    with Bus.open(bus_dir) as bus:
        assert bus.log.newest_seq() == before
