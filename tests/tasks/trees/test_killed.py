"""kill -9 at every git of spawn, done and clean, and at every step of the bus between them."""

from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.work_trees import WorkTrees
from ackbus.tasks.finish import Cleaner
from ackbus.tasks.steps.tasks import Tasks

from ...automation.killing import killed_at
from ...cli.git import Git
from ...git_branches.conftest import at
from ...git_branches.killing import kills
from ...sizes import size
from .conftest import spawned

pytestmark = pytest.mark.slow


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a bus."""
    Bus.init(tmp_path / "place" / "bus").close()
    return tmp_path / "place" / "bus"


def counts(bus: Bus, name: str) -> dict[str, int]:
    """Returns the counts of the messages about a task, by kind."""
    found: dict[str, int] = {}
    for message in bus.read():
        payload = message.payload
        if isinstance(payload, dict) and payload.get("task") == name:
            kind = payload.get("to") if message.type == "state_change" else message.type
            found[str(kind)] = found.get(str(kind), 0) + 1
    return found


def spawned_once(bus: Bus, main: Git, name: str) -> None:
    """Asserts that a task has been spawned once, and all of it."""
    task = Tasks(bus).get(name)
    assert counts(bus, name) == {"ASSIGNED": 1, "task_assign": 1}
    git = at(task.path)
    assert (git.head, git.ok("symbolic-ref", "--short", "HEAD")) == (main.head, task.branch)
    assert git.ok("status", "--porcelain") == ""
    lease = bus.leases.get(task.lease_name)
    assert lease is not None
    assert (lease.holder, lease.token) == ("worker-1", task.token)


def test_spawn(directory: Path, main: Git, tmp_path: Path) -> None:
    """Promise 5: killed anywhere, a repetition ends it, nothing twice."""
    number = 0

    def spawn() -> None:
        with Bus.open(directory) as bus:
            spawned(bus, main, f"t{number}")

    for _ in kills(tmp_path / "bin", spawn, least=10):
        with Bus.open(directory) as bus:
            spawned(bus, main, f"t{number}")
            spawned_once(bus, main, f"t{number}")
            number += 1
    with Bus.open(directory) as bus:
        assert len(Tasks(bus).list()) == number
        assert len(WorkTrees(RepositoryPlace.around(str(main.path))).all()) == number


def test_spawn_between_its_gits(directory: Path, main: Git) -> None:
    """The same at statements of the bus, writes of its files, and files of ours.

    Each tree is removed again: with every one that is there, a spawn takes more steps.
    """
    number, step, died = 0, 1, True
    while died:
        name = f"t{number}"

        def act(bus: Bus, steps: object, name: str = name) -> None:
            steps.begin()  # type: ignore[attr-defined]
            spawned(bus, main, name)
            steps.end()  # type: ignore[attr-defined]

        died = killed_at(step, directory, act)
        with Bus.open(directory) as bus:
            spawned(bus, main, name)
            spawned_once(bus, main, name)
            Tasks(bus).cancel(name, agent="lead")
            (cleaned,) = Cleaner(bus).clean([name])
            assert cleaned.is_removed, cleaned.reason
        number += 1
        step += size(sample=19, whole=1)
    assert step > 30


def test_done(directory: Path, main: Git, tmp_path: Path) -> None:
    number = 0

    def prepare() -> None:
        with Bus.open(directory) as bus:
            task = spawned(bus, main, f"t{number}")
            Tasks(bus).start(task.task, agent="worker-1", token=task.token)
            at(task.path).commit("mine")

    def done() -> None:
        with Bus.open(directory) as bus:
            token = Tasks(bus).get(f"t{number}").token
            bus.finish_task(f"t{number}", agent="worker-1", token=token)

    prepare()
    for _ in kills(tmp_path / "bin", done, least=3):
        done()
        with Bus.open(directory) as bus:
            task = Tasks(bus).get(f"t{number}")
            assert (task.state, task.head) == ("IN_REVIEW", at(task.path).head)
            told = counts(bus, task.task)
            assert (told["IN_REVIEW"], told["task_done"], told["review_request"]) == (1, 1, 1)
        number += 1
        prepare()


def test_clean(directory: Path, main: Git, tmp_path: Path) -> None:
    """Promise 1: at every moment each commit is on a branch or at a ref."""
    number, heads = 0, {}

    def prepare() -> None:
        with Bus.open(directory) as bus:
            task = spawned(bus, main, f"t{number}")
            git = at(task.path)
            git.commit("mine", text=f"{number}\n")
            heads[task.task] = git.head
            Tasks(bus).cancel(task.task, agent="lead")

    def clean() -> None:
        with Bus.open(directory) as bus:
            Cleaner(bus).clean()

    prepare()
    for _ in kills(tmp_path / "bin", clean, least=10):
        assert set(heads.values()) <= set(main.ok("rev-list", "--all").split())
        clean()
        with Bus.open(directory) as bus:
            assert Tasks(bus).get(f"t{number}").cleaned_at_ms is not None
        assert not Path(main.path.parent / "repo.trees" / f"t{number}").exists()
        kept = main.ok("for-each-ref", "--format=%(objectname)", "refs/ackbus/rescue").split()
        assert sorted(kept) == sorted(heads.values())
        number += 1
        prepare()
