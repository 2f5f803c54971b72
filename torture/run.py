"""One run, from the empty directory to the proof."""

from __future__ import annotations

import os
import shutil

from ..bus.bus import Bus
from ..export.jsonl.exporter import MIN_ROTATE_BYTES, Exporter
from ..schema.errors import AckbusError
from ..subscribers.queues.queue import Queue
from .conductor import Conductor
from .contents import JOB, QUEUE
from .crew import Crew
from .lifeline import INTERRUPTED
from .measures import Measures
from .place import choose_place
from .plan import cast_of
from .proofs.checker import prove
from .roles.protocol import BACKOFF_S, MAX_ATTEMPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Protocol

    from .place import Place
    from .plan import Plan
    from .proofs.checker import Proof

    class Screen(Protocol):
        """Shows a run to its user: this room prints nothing."""

        def note(self, text: str) -> None:
            """Print one line about the run."""

        def progress(
            self, what: str, total: int
        ) -> AbstractContextManager[Callable[[int], object]]:
            """Return a context whose function takes the amount done."""

        def report(
            self, plan: Plan, crew: Crew, measures: Measures, proof: Proof, stays_in: str | None
        ) -> None:
            """Print the measurements and the proofs."""


#: The exit code for a proof that failed.
FAILED = 1

#: The size at which `bus.jsonl` is cut, in bytes for each minute: a run is to have some tens of
#: parts. In one of less than half a minute they are as small as an export allows.
ROTATE_BYTES_A_MINUTE = 256 * 1024


def run_torture(plan: Plan, directory: str | None, *, keep: bool, screen: Screen) -> int:
    """Run the torture to its end, and check that nothing was lost.

    Args:
        plan: how many agents, for how long, and how often one is killed.
        directory: where the bus and the histories are made; None takes a fresh directory in the
            working directory.
        keep: leave everything there, also when every proof holds.
        screen: shows the run.

    Returns:
        The exit code: 0, 1 when a proof fails, 130 when it was interrupted.

    Raises:
        Refused: the directory is not empty.
        InvalidInput: it can't be made.
    """
    place = choose_place(directory)
    screen.note(
        f"{plan.agents} agents in {place.directory}, for {plan.minutes:g} min;"
        f" --seed {plan.seed} makes the same choices again"
    )
    try:
        proof, crew, measures = _run(plan, place, screen)
    except KeyboardInterrupt:
        screen.note(f"interrupted; what there is stays in {place.directory}")
        return INTERRUPTED
    except AckbusError as error:
        raise AckbusError(f"{error}; what there is stays in {place.directory}") from error
    stays = keep or not proof.holds
    if not stays:
        place.remove()
    screen.report(plan, crew, measures, proof, place.directory if stays else None)
    return 0 if proof.holds else FAILED


def _run(plan: Plan, place: Place, screen: Screen) -> tuple[Proof, Crew, Measures]:
    os.mkdir(place.histories, mode=0o700)
    _make_bus(plan, place)
    measures = Measures(place.bus)
    # This process has the bus closed meanwhile: only the agents are to checkpoint.
    with (
        Crew(plan, place) as crew,
        screen.progress("torturing", round(plan.minutes * 60)) as move,
    ):
        Conductor(plan, crew, measures, move).conduct()
    screen.note("the time is over; now the proof")
    with Bus.open(place.bus) as bus, screen.progress("proving", bus.log.newest_seq()) as move:
        proof = prove(bus, place, measures, crew.fell, move)
    if proof.holds:
        shutil.rmtree(place.exported)
    return proof, crew, measures


def _make_bus(plan: Plan, place: Place) -> None:
    """Make the bus, with a queue and rotation; all agents are known before the first message.

    The queue also takes in messages to any agent: each job is also mail of a reader.
    """
    with Bus.init(place.bus) as bus:
        Queue.create(
            *(bus, QUEUE, JOB), max_attempts=MAX_ATTEMPTS, backoff_s=BACKOFF_S, addressed="*"
        )
        size = max(MIN_ROTATE_BYTES, round(plan.minutes * ROTATE_BYTES_A_MINUTE))
        Exporter(bus).rotate(size)
        for name in cast_of(plan.agents):
            bus.heartbeats.beat(name)
