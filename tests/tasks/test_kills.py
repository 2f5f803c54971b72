"""Many tasks at once, whose workers and integrator are killed: nothing is lost or twice."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.bus.doorbell import listen
from ackbus.tasks.steps.messages import fold
from ackbus.tasks.steps.planning import NewJob
from ackbus.tasks.steps.tasks import Tasks

from ..command_server import Command, shared_server
from ..sizes import size

pytestmark = pytest.mark.slow

WORKERS = ("w-1", "w-2", "w-3", "w-4")

#: It writes one file of its own, and adds a line to one that all share, each in another place.
AGENT = """\
#!/bin/sh
set -eu
echo "$BUS_TASK" > "files/$BUS_TASK.txt"
git add -A && git commit -qm "Write $BUS_TASK" 2>/dev/null || true
"""


class Roles:
    """Workers and an integrator as processes, started again after each kill."""

    def __init__(self, folder: Path, bus_dir: Path, env: dict[str, str]) -> None:
        self._folder, self._bus_dir, self._env = folder, bus_dir, env
        self._running: dict[str, Command] = {}

    def start(self, name: str) -> None:
        place = ("--dir", str(self._bus_dir))
        words: tuple[str, ...] = ("integrate", "--into", "main", "--check", "true", *place)
        if name in WORKERS:
            tree = ("--into", "main", "--lease", "2s")
            program = ("--", "sh", str(self._folder / "agent.sh"))
            words = ("task", "work", "--worker", name, *tree, *place, *program)
        with (self._folder / f"{name}.log").open("ab") as log:
            repository = self._folder / "repo"
            self._running[name] = shared_server().start_into(
                log, words, cwd=repository, env=self._env
            )

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def check(self) -> None:
        """Fails where a role has ended by itself: nothing goes on without it."""
        codes = {name: each.poll() for name, each in self._running.items()}
        ended = {name: code for name, code in codes.items() if code is not None}
        logs = [(self._folder / f"{name}.log").read_text()[-2000:] for name in ended]
        assert not ended, f"{ended}: {logs}"

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)


@contextmanager
def roles(folder: Path, bus_dir: Path, env: dict[str, str]) -> Iterator[Roles]:
    running = Roles(folder, bus_dir, env)
    try:
        for name in ("integrator", *WORKERS):
            running.start(name)
        yield running
    finally:
        running.close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / "files").mkdir(parents=True)
    (repo / "files/.keep").touch()
    (tmp_path / "agent.sh").write_text(AGENT)
    git(repo, "init", "-q", "--initial-branch=main")
    git(repo, "config", "user.name", "test")
    git(repo, "config", "user.email", "test@localhost")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Begin")
    return repo


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout


def test_tasks_whose_roles_are_killed_land_once_each(
    repository: Path, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """U-06, U-07, U-55, U-69: workers and integrator die again and again; all tasks land once."""
    count = size(sample=8, whole=32)
    dice = random.Random(18)
    names = [f"task-{number}" for number in range(count)]
    with Bus.init(tmp_path / "bus") as bus, roles(tmp_path, tmp_path / "bus", bus_env) as team:
        tasks = Tasks(bus)
        tasks.plan([NewJob(task=name, payload={"prompt": "write"}) for name in names], agent="me")
        for _ in range(size(sample=8, whole=40)):
            seq = bus.log.newest_seq() + dice.randint(1, 20)
            wait_for(bus, team, lambda seq=seq: bus.log.newest_seq() >= seq or is_over(bus, names))
            victim = dice.choice(["integrator", *WORKERS])
            team.kill(victim)
            team.start(victim)
        wait_for(bus, team, lambda: is_over(bus, names))
        assert set(landed(bus).values()) == {1}
        assert set(landed(bus)) | given_up(bus) == set(names)
        assert not set(landed(bus)) & given_up(bus)
        folded = fold(bus.read())
        assert folded.foreign == []
        assert folded.tasks == {task.task: task for task in tasks.list()}
        done = sorted(landed(bus))
    for name in done:
        path = f"files/{name}.txt"
        assert git(repository, "show", f"main:{path}") == f"{name}\n"
        assert len(git(repository, "log", "--format=%H", "main", "--", path).split()) == 1
    assert "missing" not in git(repository, "fsck", "--full", "--no-progress")


def landed(bus: Bus) -> dict[str, int]:
    changes = [message.payload for message in bus.read(type="state_change")]
    return dict(Counter(each["task"] for each in changes if each["to"] == "COMPLETED"))


def given_up(bus: Bus) -> set[str]:
    """The tasks that failed for good: their workers were killed in each attempt, or before any."""
    failed = {task.task for task in Tasks(bus).list(states=["FAILED"])}
    assert all(task.attempt == 3 for task in Tasks(bus).list(states=["FAILED"]))
    dead = Queue.open(bus, "jobs").dead_letters.find()
    return failed | {bus.get(each.seq).payload["task"] for each in dead}  # type: ignore[union-attr]


def is_over(bus: Bus, names: list[str]) -> bool:
    return set(landed(bus)) | given_up(bus) >= set(names)


def wait_for(bus: Bus, team: Roles, condition: Callable[[], bool]) -> None:
    """Wait for what the roles do, as long as they do anything: a message within two minutes.

    It looks once for each message: a look reads the whole log, and the roles need the processors.
    """
    with listen(bus) as listener:
        newest, since = bus.log.newest_seq(), time.monotonic()
        while not condition():
            team.check()
            listener.wait(1.0)
            if (seq := bus.log.newest_seq()) != newest:
                newest, since = seq, time.monotonic()
            assert time.monotonic() - since < 120, "the roles hang"
