"""Planners: real commands of the json contract, and jobs in one transaction with the request."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.tasks.control.sessions import Sessions
from ackbus.tasks.roles.plan import PlanSettings, TaskPlanner
from ackbus.tasks.steps.messages import QUEUES

from ...conftest import Ended, RunBus, wait_until
from ..conftest import enter
from .conftest import Jobs, RunWorker

RunPlanner = Callable[..., Ended]


def prompts(bus: Bus) -> list[str]:
    """The prompts of the jobs that are in their queue."""
    return [str(each.payload["prompt"]) for each in bus.read(type=QUEUES["jobs"])]  # type: ignore[call-overload, index]


def test_request_becomes_jobs(jobs: Jobs, run_planner: RunPlanner, bus: Bus) -> None:
    """U-01: the jobs follow the request in its conversation, and its sender has an answer."""
    id = jobs.ask("build it", priority=0)
    run_planner("""
        asked = request["event"]["payload"]["prompt"]
        jobs += [{"prompt": f"{asked}: {n}", "priority": "background"} for n in range(2)]
    """)
    assert prompts(bus) == ["build it: 0", "build it: 1"]
    told = list(bus.read(type=QUEUES["jobs"]))
    assert {(each.in_reply_to, each.conversation, each.from_agent) for each in told} == {
        (id, id, "planner")
    }
    assert [each.priority for each in told] == [2, 2]
    assert [each.payload["task"] for each in told] == [f"{id}-1", f"{id}-2"]  # type: ignore[call-overload, index]
    (answer,) = bus.read(conversation=id, to_agent="me")
    assert (answer.type, answer.payload) == ("task.done", "planned")
    assert jobs.states("requests") == ["succeeded"]


def test_u_59_jobs_are_of_the_session_of_their_request(
    jobs: Jobs, run_planner: RunPlanner, bus: Bus
) -> None:
    """So that it hears of their integration; a job may name another one."""
    payload = {"prompt": "x", "sessionId": "s1"}
    enter(bus, Draft("task.request", payload, from_agent="me", to_agent="tasks"))
    run_planner('jobs += [{"prompt": "a"}, {"prompt": "b", "sessionId": "s2"}]')
    told = [each.payload for each in bus.read(type=QUEUES["jobs"])]
    assert [each["sessionId"] for each in told] == ["s1", "s2"]  # type: ignore[call-overload, index]


def test_u_39_session_hears_that_its_request_waited_too_long(
    jobs: Jobs, run_planner: RunPlanner, bus: Bus
) -> None:
    Sessions(bus).create("s1")
    jobs.ask("in time")
    payload = {"prompt": "late", "sessionId": "s1", "queueWaitBudgetMs": 5000}
    draft = Draft("task.request", payload, from_agent="me", to_agent="tasks")
    draft.ts_ms = bus.now_ms() - 6000
    (late,) = enter(bus, draft)
    run_planner("pass")
    (told,) = bus.read(type="session.assistant_message")
    assert told.in_reply_to == late.id
    assert "waited" in told.payload["payload"]["text"]


@pytest.mark.slow
def test_dependent_job_waits_until_the_others_have_landed(
    jobs: Jobs, run_planner: RunPlanner, bus: Bus, start_worker: RunWorker
) -> None:
    jobs.ask("x")
    run_planner("""
        jobs += [
            {"task": "lexer", "prompt": "lexer"},
            {"task": "parser", "prompt": "parser", "depends_on": ["lexer"]},
        ]
    """)
    assert prompts(bus) == ["lexer"]
    start_worker("touch file", "--drain")
    assert prompts(bus) == ["lexer"]
    jobs.tasks.land("lexer", attempt=1, agent="integrator", commit="1" * 40)
    assert prompts(bus) == ["lexer", "parser"]
    start_worker("touch other", "--drain")
    assert jobs.tasks.get("parser").state == "APPROVED"


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ({"prompt": "x", "task": "../x"}, "task name '../x' must be"),
        ({"prompt": "x", "priority": "urgent"}, "job 1 of the plan: priority must be interactive"),
        ({"prompt": "x", "depends_on": ["no-such"]}, "depends on 'no-such', which is no task"),
        ({"params": {"schemaVersion": 3}}, "job 1 of the plan: params.schemaVersion must be 2"),
        (
            {"params": {"schemaVersion": 2, "lane": "worker", "instruction": "x", "planning": {}}},
            "job 1 of the plan: params.planning.intent must be",
        ),
        ("x", "job 1 of the plan: the payload must be an object"),
    ],
)
def test_u_71_wrong_job_fails_the_plan_and_names_the_field(
    jobs: Jobs, run_planner: RunPlanner, run_bus: RunBus, bus: Bus, job: object, error: str
) -> None:
    """U-71: the error names the field; no job of the plan is published."""
    jobs.ask("x")
    run_planner(f"jobs += [json.loads({json.dumps(json.dumps(job))})]; jobs[0:0] = []")
    shown = json.loads(run_bus("job", "show", "1", "--json").out)
    assert error in shown["error"]
    assert (shown["state"], shown["attempt"]) == ("queued", 2)
    assert prompts(bus) == []


@pytest.mark.slow
def test_command_that_fails_is_tried_again_later(
    jobs: Jobs, run_planner: RunPlanner, run_bus: RunBus
) -> None:
    """Q-23: a request whose planning fails for ever is a dead letter in the end."""
    jobs.ask("x")
    run_planner("sys.exit('no model')")
    shown = json.loads(run_bus("job", "show", "1", "--json").out)
    assert (shown["state"], shown["attempt"]) == ("queued", 2)
    assert "command exited with code 1" in shown["error"]
    jobs.ask("y")
    run_planner("sys.exit(78)")
    assert jobs.states("requests") == ["queued", "dead"]


def test_u_82_without_workers_the_job_is_for_any(
    jobs: Jobs, run_planner: RunPlanner, bus: Bus
) -> None:
    """U-82: no workers online: the planner asks for one, waits, and the job stays untargeted."""
    jobs.ask("x")
    run_planner("jobs += [{'prompt': 'a'}]", "--pick", "--wait", "300ms")
    (job,) = bus.read(type=QUEUES["jobs"])
    assert "for_worker" not in (job.headers or {})


@pytest.mark.slow
def test_u_82_idle_worker_gets_the_job(
    jobs: Jobs, run_planner: RunPlanner, bus: Bus, start_worker: RunWorker
) -> None:
    """U-82: a worker that is online and idle is picked."""
    start_worker("cat >file", "--once", worker="w7", wait=False)
    wait_until(lambda: (beat := bus.heartbeats.get("w7")) and beat.status == "idle")
    jobs.ask("x")
    run_planner("jobs += [{'prompt': 'a'}]", "--pick")
    (job,) = bus.read(type=QUEUES["jobs"])
    assert (job.headers or {}).get("for_worker") == "w7"


@pytest.mark.slow
def test_killed_planner_plans_nothing_twice(jobs: Jobs, bus: Bus, repo: Path) -> None:
    """Kill -9 while it plans: the request comes back, and its jobs are there once."""
    jobs.ask("x")
    script = repo / "plan.out"
    script.write_text(
        "import json, os, sys, time\njson.load(sys.stdin)\n"
        f"up = {str(repo / 'up.out')!r}\n"
        "if not os.path.exists(up):\n    open(up, 'w').close()\n    time.sleep(600)\n"
        "job = {'type': 'task.job', 'payload': {'prompt': 'once'}}\n"
        "print(json.dumps({'status': 'ok', 'result': '', 'events': [job]}))\n"
    )
    settings = PlanSettings(planner="planner", argv=["python3", str(script)], lease_s=3)
    child = os.fork()
    if child == 0:
        with Bus.open(bus.layout.directory) as own:
            TaskPlanner(own, settings).run(once=True)
        os._exit(0)
    wait_until((repo / "up.out").exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    TaskPlanner(bus, settings).run(once=True)
    assert prompts(bus) == ["once"]
    assert jobs.states("requests") == ["succeeded"]
