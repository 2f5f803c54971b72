"""Repositories, jobs, and workers as processes beside the test."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ackbus import Bus
from ackbus.schema.message.draft import Draft
from ackbus.tasks.steps.messages import QUEUES
from ackbus.tasks.steps.planning import open_queue
from ackbus.tasks.steps.tasks import Tasks

from ...command_server import Command, shared_server
from ...conftest import Ended, RunBus
from ..conftest import enter

BUS = Path(sysconfig.get_path("scripts"), "bus")


@pytest.fixture
def bus(bus_dir: Path) -> Iterator[Bus]:
    """The bus of ``project``, by the real clock: processes use it, too."""
    with Bus.open(bus_dir) as bus:
        yield bus


def git(folder: Path, *args: str) -> str:
    """Runs git in a folder, and returns its output without the last end of a line."""
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


@pytest.fixture
def repo(project: Path, bus_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder ``project`` as a repository with one commit; its bus is no part of it."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "person")
    git(project, "config", "user.email", "person@example.org")
    (project / ".git" / "info" / "exclude").write_text(f"{bus_dir.name}\n*.out\n")
    (project / "first.txt").write_text("one\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    return project


class Jobs:
    """Jobs of tasks, published and looked at."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.tasks = Tasks(bus)
        self.queue = open_queue(bus, "jobs")

    def ask(self, prompt: str, **fields: object) -> str:
        """Publish a request, and return its id."""
        payload = {"prompt": prompt, "sessionId": "s1", **fields}
        draft = Draft("task.request", payload, from_agent="me", to_agent="tasks")
        return enter(self.bus, draft)[0].id

    def publish(self, prompt: str, **fields: object) -> str:
        """Publish a job, and return its id."""
        payload = {"prompt": prompt, **fields}
        draft = Draft("task.job", payload, from_agent="me", to_agent="tasks")
        return enter(self.bus, draft)[0].id

    def states(self, queue: str = "jobs") -> list[str]:
        """The states of the jobs of a queue, in order."""
        opened = open_queue(self.bus, queue)
        opened.fill()
        seqs = [message.seq for message in self.bus.read(type=QUEUES[queue])]
        return [opened.jobs.get(seq).state for seq in seqs]

    def completions(self) -> list[dict[str, object]]:
        """The entries of the integrator's queue."""
        return [dict(each.payload) for each in self.bus.read(type="task.completion")]  # type: ignore[call-overload]


@pytest.fixture
def jobs(bus: Bus) -> Jobs:
    return Jobs(bus)


RunWorker = Callable[..., Command]


@pytest.fixture
def run_planner(repo: Path, run_bus: RunBus) -> Callable[..., Ended]:
    """Runs ``bus task plan`` with a Python script as its command, until no request waits.

    The script finds the request in `request`, and puts jobs into `jobs`.
    """

    def run(script: str, *options: str) -> Ended:
        path = repo / "plan.out"
        path.write_text(
            "import json, sys\nrequest = json.load(sys.stdin)\njobs, answer = [], {}\n"
            + dedent(script)
            + "\nevents = [{'type': 'task.job', 'payload': job} for job in jobs]\n"
            "print(json.dumps({'status': 'ok', 'result': 'planned', 'events': events} | answer))\n"
        )
        line = ("task", "plan", "--drain", *options, "--", sys.executable, str(path))
        return run_bus(*line)

    return run


@pytest.fixture
def start_worker(repo: Path, bus_env: dict[str, str]) -> Iterator[RunWorker]:
    """Starts ``bus task work`` in ``repo`` with a shell script as its program."""
    started: list[Command] = []

    def start(
        script: str, *options: str, worker: str = "w1", wait: bool = True, **env: str
    ) -> Command:
        line = ["task", "work", "--worker", worker, *options, "--", "sh", "-c", dedent(script)]
        with (repo / f"{worker}.out").open("ab") as out:
            process = shared_server().start_into(
                out, line, cwd=repo, env=bus_env | env, new_session=True
            )
        started.append(process)
        if wait:
            assert process.wait(120) == 0, (repo / f"{worker}.out").read_text()
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
