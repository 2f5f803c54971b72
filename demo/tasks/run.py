"""One run of the demo of tasks, from the empty folder to the proof."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from ...bus.bus import Bus
from ...export.jsonl.exporter import Exporter
from ...schema.errors import AckbusError
from ...tasks.control.requests import Requests
from ...tasks.steps.errors import TaskNotFound
from ...tasks.steps.tasks import Tasks
from ..place import fresh_folder, refuse_bus
from .project import CELLAR, PLAN, Project
from .proof import read_proof
from .team import Team

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..run import Progress, Say
    from .proof import TasksProof

#: How long anything may take, in seconds, before the demo gives up; and how often it looks.
_PATIENCE_S, _LOOK_EVERY_S = 60.0, 0.05


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
    if directory is not None:
        refuse_bus(directory)
    began = time.monotonic()
    folder = fresh_folder()
    where = os.path.join(folder, "bus") if directory is None else os.path.realpath(directory)
    project = Project(folder)
    project.make()
    say(f"the repository is in {project.repository}, the bus in {where}; both stay there")
    with (
        Bus.init(where) as bus,
        Team(where, project) as team,
        progress("landing", len(PLAN)) as move,
    ):
        wish = "Count what is in stock, and set the new prices."
        Requests(bus).enqueue({"sessionId": "demo", "prompt": wish}, agent="client")
        killed = _kill_who_is_held(bus, team, project, say)
        _wait(team, lambda: move(_landed(bus)) or _landed(bus) == len(PLAN), "all tasks land")
    with Bus.open(where) as bus:
        Exporter(bus).export_once()
        proof = read_proof(bus, project)
        taken_over_by = Tasks(bus).get(CELLAR).worker
    took_s = time.monotonic() - began
    return TasksRun(where, project.repository, took_s, killed, taken_over_by, proof)


def _kill_who_is_held(bus: Bus, team: Team, project: Project, say: Say) -> str:
    held = os.path.join(project.meeting, "held")
    _wait(team, lambda: os.path.exists(held), f"an agent works on {CELLAR}")
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


def _wait(team: Team, condition: Callable[[], object], what: str) -> None:
    """Wait until something has happened.

    Raises:
        AckbusError: a role has ended, or it takes too long.
    """
    ends = time.monotonic() + _PATIENCE_S
    while not condition():
        if ended := team.ended():
            raise AckbusError(f"a role of the demo has ended: {'; '.join(ended)}")
        if time.monotonic() > ends:
            raise AckbusError(f"it took more than {_PATIENCE_S:g} s until {what}")
        time.sleep(_LOOK_EVERY_S)
