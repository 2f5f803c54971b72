"""One run of the demo of tasks, from the empty folder to the proof."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from ...bus.bus import Bus
from ...export.jsonl.exporter import Exporter
from ...tasks.control.requests import Requests
from ...tasks.steps.errors import TaskNotFound
from ...tasks.steps.tasks import Tasks
from ..stage import fresh_folder, named_place, wait_until
from .project import CELLAR, PLAN, Project
from .proof import read_proof
from .team import Team

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..stage import Progress, Say
    from .proof import TasksProof


@dataclass(frozen=True, slots=True)
class TasksRun:
    """A run that came to its end.

    Attributes:
        directory: the bus, which stays.
        repository: the repository, which stays too.
        took_s: how long it took, in seconds.
        killed: the worker that was killed.
        taken_over_by: the worker that had its task afterwards.
        proof: what log and git prove.
    """

    directory: str
    repository: str
    took_s: float
    killed: str
    taken_over_by: str
    proof: TasksProof


def run_tasks_demo(*, directory: str | None, say: Say, progress: Progress) -> TasksRun:
    """Run the demo to its end; its repository and its bus stay on disk.

    Args:
        directory: the directory for the bus; None takes a new one.
        say: prints one line about the run.
        progress: shows how much is done.

    Raises:
        Refused: `directory` holds a bus already.
        AckbusError: something that was to happen does not.
    """
    named = named_place(directory)
    began = time.monotonic()
    folder = fresh_folder()
    where = named or os.path.join(folder, "bus")
    project = Project(folder)
    project.make()
    say(f"the repository is in {project.repository}, the bus in {where}; both stay there")
    with (
        Bus.init(where) as bus,
        Team(where, project) as team,
        progress("landing", len(PLAN)) as move,
    ):
        wish = "Count what is in stock, and set the new prices."
        team.begin()
        Requests(bus).enqueue({"sessionId": "demo", "prompt": wish}, agent="client")
        killed = _kill_who_is_held(bus, team, project, say)

        def have_all_landed() -> bool:
            landed = _landed(bus)
            move(landed)
            return landed == len(PLAN)

        wait_until(have_all_landed, "all tasks land", team.ends)
    with Bus.open(where) as bus:
        Exporter(bus).export_once()
        proof = read_proof(bus, project)
        taken_over_by = Tasks(bus).get(CELLAR).worker
    took_s = time.monotonic() - began
    return TasksRun(where, project.repository, took_s, killed, taken_over_by, proof)


def _kill_who_is_held(bus: Bus, team: Team, project: Project, say: Say) -> str:
    held = os.path.join(project.meeting, "held")
    wait_until(lambda: os.path.exists(held), f"an agent works on {CELLAR}", team.ends)
    worker = Tasks(bus).get(CELLAR).worker
    pid = team.kill(worker)
    say(f"{worker} (process {pid}) was killed, with SIGKILL, in the middle of {CELLAR}")
    return worker


def _landed(bus: Bus) -> int:
    tasks = Tasks(bus)
    done = 0
    for name in PLAN:
        with suppress(TaskNotFound):
            done += tasks.get(name).state == "COMPLETED"
    return done
