"""One run of the demo, from the empty bus to the proof."""

from __future__ import annotations

import os
import subprocess
import time

from ..bus.bus import Bus
from ..export.jsonl.exporter import Exporter
from ..schema.errors import AckbusError, InvalidInput
from .crew import Crew
from .lifeline import INTERRUPTED
from .place import choose_place
from .proof import read_proof
from .protocol import DEMO, WORKER_KILLED, lease_name
from .tally import Tally
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Protocol

    from ..schema.message.message import Message
    from .place import Place
    from .proof import Proof

    class View(Protocol):
        """Shows a run while it goes on."""

        def say(self, text: str) -> None:
            """Print one line, for good."""

        def show(self, tally: Tally) -> None:
            """Show the present state."""

    class Screen(Protocol):
        """Shows a run to its user: this room prints nothing."""

        def note(self, text: str) -> None:
            """Print one line about the run."""

        def view(self) -> AbstractContextManager[View]:
            """Return the view of a run; leaving it leaves the screen tidy."""

        def report(self, bus: Bus, proof: Proof, took_s: float, place: Place) -> None:
            """Print the results and the proof."""


#: How often the demo looks at the log, in seconds: as often as a person can see a difference.
LOOK_EVERY_S = 0.05

#: The exit codes for a proof that failed, and for a tree without text files.
FAILED, NOTHING_THERE = 1, 4


def run_demo(path: str, *, directory: str | None, screen: Screen) -> int:
    """Run the demo to its end; the bus that it made stays on disk.

    Args:
        path: the directory whose text files are examined.
        directory: the directory for the bus; None takes a fresh temporary one.
        screen: shows the run.

    Returns:
        The exit code: 0, 1 when the proof failed, 4 when there was nothing to examine, 130 when
        it was interrupted.

    Raises:
        InvalidInput: `path` is no directory that can be read.
        Refused: `directory` holds a bus already.
    """
    root = _readable_directory(path)
    leave_out = None if directory is None else os.path.realpath(directory)
    if next(iter(Tree(root, leave_out=leave_out)), None) is None:
        screen.note(f"nothing to examine: no text files in {root}")
        return NOTHING_THERE
    return _run(root, choose_place(directory), screen)


def _run(root: str, place: Place, screen: Screen) -> int:
    began = time.monotonic()
    with Bus.init(place.directory) as bus:
        try:
            # The exporter ends after the agents, so that their last words are in bus.jsonl too.
            with (
                screen.view() as view,
                Exporter(bus),
                Crew(bus.layout.directory, root) as crew,
            ):
                _conduct(bus, crew, view)
        except KeyboardInterrupt:
            for remark in ("interrupted", *place.remarks):
                screen.note(remark)
            return INTERRUPTED
        took_s = time.monotonic() - began
        proof = read_proof(bus)
        screen.report(bus, proof, took_s, place)
    return 0 if proof.holds else FAILED


def _conduct(bus: Bus, crew: Crew, view: View) -> None:
    tally = Tally(bus)
    view.say(f"The bus is in {bus.layout.directory}")
    crew.start_coordinator()
    _watch(crew, tally, view, until=lambda: tally.all_assigned is not None)
    view.say(f"The coordinator has assigned {_tasks(tally.tasks)}; three workers begin")
    # The middle one of all grants always takes place, however small the tree is.
    crew.start_workers(hold_at_grant=(tally.tasks + 1) // 2)
    _watch(crew, tally, view, until=lambda: tally.held is not None or tally.finished)
    if tally.held is not None:
        _kill_holder(bus, crew, view, tally.held)
    _watch(crew, tally, view, until=lambda: tally.finished)
    try:
        crew.wait()
    except subprocess.TimeoutExpired as error:
        raise AckbusError("an agent of the demo did not end when all was done") from error
    tally.read_on()
    view.show(tally)


def _watch(crew: Crew, tally: Tally, view: View, *, until: Callable[[], bool]) -> None:
    """Follow the log until a condition is true.

    Raises:
        AckbusError: too many agents ended with an error.
    """
    while True:
        tally.read_on()
        view.show(tally)
        if until():
            return
        for agent in crew.newly_lost():
            view.say(f"{agent} ended unexpectedly")
        if not crew.can_go_on():
            raise AckbusError(
                "the demo has lost too many of its agents; what they did stays in"
                f" {tally.bus.layout.directory}"
            )
        time.sleep(LOOK_EVERY_S)


def _kill_holder(bus: Bus, crew: Crew, view: View, held: Message) -> None:
    """Kill the worker that holds still with a lease, and publish a message about it."""
    task = held.in_reply_to
    assert task is not None
    pid = crew.kill(held.from_agent)
    lease = bus.leases.get(lease_name(task))
    if lease is None or lease.holder != held.from_agent:
        raise AckbusError(f"{held.from_agent} did not hold its lease when it was killed")
    path = held.payload["path"]
    bus.publish(
        WORKER_KILLED,
        {
            "agent": held.from_agent,
            "pid": pid,
            "task": task,
            "path": path,
            "token": lease.token,
            "until_ms": lease.until_ms,
        },
        from_agent=DEMO,
    )
    view.say(
        f"Killed {held.from_agent} (process {pid}) on purpose, at work on {path};"
        " another worker takes over when its lease ends"
    )


def _readable_directory(path: str) -> str:
    """Return the real path of a directory.

    Raises:
        InvalidInput: it is not a directory, or can't be listed.
    """
    root = os.path.realpath(path)
    try:
        os.scandir(root).close()
    except OSError as error:
        raise InvalidInput(f"can't examine {path!r}: {error.strerror}") from error
    return root


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number:,} tasks"
