"""All proofs, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from .agents import prove_agents
from .evidence import Evidence
from .export import prove_export
from .files import prove_files
from .inboxes import prove_answers, prove_inboxes
from .jobs import prove_claims, prove_jobs
from .leases import prove_leases
from .publishing import prove_order, prove_publishing
from .resources import prove_resources
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..measures import Measures
    from ..place import Place

#: How often progress is told, in messages.
_TELL_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Proof:
    """The results of all proofs.

    Attributes:
        verdicts: one for each.
        messages: how many messages the log holds.
        locked: how many errors about locks the agents met.
        cut_off: how many acts were cut off by a kill.
        publish_ms: the times of all acknowledged publishes, in milliseconds, the shortest first.
    """

    verdicts: list[Verdict]
    messages: int
    locked: int
    cut_off: int
    publish_ms: list[float]

    @property
    def holds(self) -> bool:
        """Whether every one holds."""
        return all(verdict.holds for verdict in self.verdicts)


def prove(
    bus: Bus,
    place: Place,
    measures: Measures,
    fell: Sequence[str] = (),
    progress: Callable[[int], object] = lambda done: None,
) -> Proof:
    """Read the log and the histories, and run all proofs.

    Args:
        bus: the bus, which no other process uses any more.
        place: the directory of the run.
        measures: the measurements of the run.
        fell: the unexpected ends of processes.
        progress: called now and then with the number of messages read.
    """
    evidence = Evidence(
        bus,
        place.histories,
        _counted(bus.read(), progress),
        round(measures.clock_step_ms * 1_000_000),
    )
    lives = prove_agents(evidence, fell)
    verdicts = [
        lives.verdict,
        prove_publishing(evidence),
        prove_order(evidence),
        prove_inboxes(evidence),
        prove_answers(evidence),
        prove_leases(evidence),
        prove_claims(evidence),
        prove_jobs(evidence),
        prove_export(bus, place.exported),
        prove_files(bus),
        prove_resources(measures),
    ]
    return Proof(
        verdicts,
        len(evidence.log.entries),
        lives.locked,
        lives.cut_off,
        _publish_ms(evidence),
    )


def _counted(messages: Iterator[Message], progress: Callable[[int], object]) -> Iterator[Message]:
    for number, message in enumerate(messages, 1):
        if number % _TELL_EVERY == 0:
            progress(number)
        yield message


def _publish_ms(evidence: Evidence) -> list[float]:
    return sorted(
        (act.ended_ns - act.began_ns) / 1_000_000
        for act in evidence.acts("publish")
        if act.told is not None and act.ended_ns is not None
    )
