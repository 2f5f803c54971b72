"""From a request to a completion by real roles, each of which may be down while others go on."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.tasks.control.entries import open_queue

from ...conftest import Ended, RunBus, wait_until
from .conftest import BUS, Jobs, RunWorker, git

pytestmark = pytest.mark.slow

RunPlanner = Callable[..., Ended]

#: Plans a request into as many jobs as it says.
PLAN = """
count = int(request["event"]["payload"]["prompt"])
jobs += [{"prompt": f"file-{n} of {n}"} for n in range(count)]
"""

#: A program that writes a file of the name that its prompt begins with.
WRITES = 'read name words; echo "$words" >"$name"'


def land_all(jobs: Jobs) -> int:
    """Land every completion as an integrator would, by a stub."""
    queue, count = open_queue(jobs.bus, "completions"), 0
    (first, *_) = jobs.bus.read(type="task.completion")
    group = str((first.headers or {}).get("for_worker", "integrator"))
    while claims := queue.claim("stub", group=group):
        entry = claims[0].message.payload
        with jobs.bus.transaction():
            jobs.tasks.land(
                entry["task"], attempt=entry["attempt"], agent="integrator", commit=entry["head"]
            )
            queue.end(claims[0], Outcome(result="landed"))
        count += 1
    return count


def test_u_01_request_is_planned_worked_on_and_landed_in_one_conversation(
    jobs: Jobs, bus: Bus, run_planner: RunPlanner, start_worker: RunWorker, run_bus: RunBus
) -> None:
    """U-01, U-02, U-76: each arrow is a message; `bus trace` of any id prints the whole chain."""
    id = jobs.ask("1")
    run_planner(PLAN)
    start_worker(WRITES, "--drain")
    assert land_all(jobs) == 1
    (task,) = jobs.tasks.list()
    assert (task.state, task.correlation_id) == ("COMPLETED", id)
    (job,) = bus.read(type="task.job")
    (completion,) = bus.read(type="task.completion")
    for each in (id, job.id, completion.id):
        told = run_bus("trace", each, "--json").out
        assert {other in told for other in (id, job.id, completion.id)} == {True}, each
    states = [each.payload["to"] for each in bus.read(type="state_change", conversation=id)]  # type: ignore[call-overload, index]
    assert states == ["ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED", "COMPLETED"]


def test_u_03_u_08_server_that_is_killed_harms_no_work(
    jobs: Jobs, repo: Path, start_worker: RunWorker, bus_env: dict[str, str]
) -> None:
    """U-03, U-08: the control plane's server is killed: trees are intact, the worker goes on."""
    jobs.publish("file of words", task="t")
    script = (
        f'{WRITES}; touch "{repo}/up.out"; while ! test -e "{repo}/go.out"; do sleep 0.02; done'
    )
    with subprocess.Popen(
        [BUS, "serve", "--port", "0"],
        cwd=repo,
        env=bus_env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        running = start_worker(script, "--once", wait=False)
        wait_until((repo / "up.out").exists)
        server.send_signal(signal.SIGKILL)
    tree = Path(jobs.tasks.get("t").path)
    assert (tree / "file").read_text() == "of words\n"
    (repo / "go.out").touch()
    assert running.wait(30) == 0
    assert jobs.tasks.get("t").state == "APPROVED"


def test_u_05_planner_down(
    jobs: Jobs, repo: Path, run_planner: RunPlanner, start_worker: RunWorker
) -> None:
    """U-05, U-04: 5 requests wait; the job that runs goes on to its end, whoever looks or not."""
    jobs.publish("file of words", task="t")
    script = (
        f'{WRITES}; touch "{repo}/up.out"; while ! test -e "{repo}/go.out"; do sleep 0.02; done'
    )
    running = start_worker(script, "--once", wait=False)
    wait_until((repo / "up.out").exists)
    for _ in range(5):
        jobs.ask("1")
    (repo / "go.out").touch()
    assert running.wait(30) == 0
    assert jobs.states() == ["succeeded"]
    assert jobs.states("requests") == ["queued"] * 5
    run_planner(PLAN)
    assert jobs.states("requests") == ["succeeded"] * 5
    assert jobs.states() == ["succeeded"] + ["queued"] * 5


def test_u_06_workers_down(jobs: Jobs, repo: Path, start_worker: RunWorker) -> None:
    """U-06: 1 claimed, 2 pending, all workers killed: they wait, and a restart drains them."""
    for n in range(3):
        jobs.publish(f"file-{n} of {n}", task=f"t{n}")
    first = start_worker(f'touch "{repo}/up.out"; exec sleep 600', "--lease", "2s", wait=False)
    wait_until((repo / "up.out").exists)
    first.kill()
    first.wait()
    assert sorted(jobs.states()) == ["queued", "queued", "running"]
    assert len(jobs.tasks.list()) == 1
    start_worker(WRITES, "--lease", "2s", worker="w2", wait=False)
    wait_until(lambda: jobs.states() == ["succeeded"] * 3)
    assert {task.state for task in jobs.tasks.list()} == {"APPROVED"}
    assert len(jobs.completions()) == 3


def test_u_07_integrator_down(jobs: Jobs, repo: Path, start_worker: RunWorker) -> None:
    """U-07: completions wait, and their number grows; later they are drained."""
    for n in range(3):
        jobs.publish(f"file-{n} of {n}")
        start_worker(WRITES, "--drain")
        assert jobs.states("completions") == ["queued"] * (n + 1)
    assert land_all(jobs) == 3
    assert jobs.states("completions") == ["succeeded"] * 3
    assert {task.state for task in jobs.tasks.list()} == {"COMPLETED"}


def test_crew_runs_a_request_to_merged_commits(jobs: Jobs, repo: Path, run_bus: RunBus) -> None:
    """U-01: a crew of a planner, two workers and an integrator, by `bus crew start`."""
    plan = repo / "plan.out"
    plan.write_text(
        "import json, sys\nrequest = json.load(sys.stdin)\n"
        "job = lambda n: {'type': 'task.job', 'payload': {'prompt': f'file-{n} of {n}'}}\n"
        "jobs = [job(n) for n in range(4)]\n"
        "print(json.dumps({'status': 'ok', 'result': 'planned', 'events': jobs}))\n"
    )
    crew = {
        "planner": {"command": ["python3", str(plan)]},
        "workers": {"count": 2, "name": "coder", "command": ["sh", "-c", WRITES]},
        "integrator": {"into": "main", "check": ["test -e first.txt"]},
    }
    (repo / "crew.out").write_text(json.dumps(crew))
    assert run_bus("crew", "start", "crew.out", "--detach").code == 0
    try:
        jobs.ask("build it")
        wait_until(lambda: sum(task.state == "COMPLETED" for task in jobs.tasks.list()) == 4)
        wait_until(lambda: "[agent/" not in git(repo, "worktree", "list"))
        shown = run_bus("crew", "status", "--json").out.splitlines()
        told = {role["name"]: role["status"] for role in map(json.loads, shown)}
        assert told == dict.fromkeys(("planner", "coder-1", "coder-2", "integrator"), "running")
    finally:
        assert run_bus("crew", "stop").code == 0
    landed = git(repo, "ls-tree", "--name-only", "main").splitlines()
    assert landed == ["file-0", "file-1", "file-2", "file-3", "first.txt"]
    assert git(repo, "status", "--porcelain") == ""
