"""The output at the end of a run, for people and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from .output import Output
from .terminal import progress
from .text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ...torture.history import TorturePlan
    from ...torture.proofs import TortureProof
    from ...torture.run import AgentProcesses, Growth, Measurements

_MIB = 1024 * 1024


class TortureReporter:
    """Shows a run of the torture.

    Args:
        output: where it is shown; with --json the result is one object.
    """

    def __init__(self, output: Output) -> None:
        self._output = output

    def note(self, text: str) -> None:
        """Print one line on standard error."""
        self._output.note(text)

    def progress(self, what: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
        """Return a progress bar on a terminal, else a context that shows nothing."""
        return progress(what, total)

    def report(
        self,
        plan: TorturePlan,
        processes: AgentProcesses,
        measurements: Measurements,
        proof: TortureProof,
        stays_in: str | None,
    ) -> None:
        """Print the measurements and the proofs."""
        show = _print_json if self._output.is_json else _print_report
        show(self._output, plan, processes, measurements, proof, stays_in)


def _print_json(
    output: Output,
    plan: TorturePlan,
    processes: AgentProcesses,
    measurements: Measurements,
    proof: TortureProof,
    stays_in: str | None,
) -> None:
    times = proof.publish_ms
    output.json_line(
        {
            **asdict(plan),
            "holds": proof.holds,
            "proofs": [{**asdict(verdict), "holds": verdict.holds} for verdict in proof.verdicts],
            "messages": proof.messages,
            "kills": processes.kills,
            "acts_cut_off": proof.cut_off,
            "suspensions": processes.suspensions,
            "locked": proof.locked,
            "publishes": len(times),
            "publish_ms": {
                "p50": _part(times, 0.5),
                "p99": _part(times, 0.99),
                "max": _part(times, 1),
            },
            "max_wal_bytes": measurements.max_wal_bytes,
            "clock_step_ms": round(measurements.clock_step_ms, 3),
            "memory": _record(measurements.memory),
            "descriptors": _record(measurements.descriptors),
            "stays_in": stays_in,
        }
    )
    output.flush()


def _print_report(
    output: Output,
    plan: TorturePlan,
    processes: AgentProcesses,
    measurements: Measurements,
    proof: TortureProof,
    stays_in: str | None,
) -> None:
    for text in _measured(processes, measurements, proof):
        output.line(text)
    output.line("")
    for verdict in proof.verdicts:
        state = "holds" if verdict.holds else "FAILS"
        output.line(f"{state}  {verdict.name}: {verdict.claim} ({verdict.checked:,} checked)")
        for failure in verdict.failures:
            output.line(f"       - {failure}")
        if verdict.failed > len(verdict.failures):
            output.line(f"       - and {verdict.failed - len(verdict.failures):,} more")
    if stays_in is not None:
        output.line("")
        output.line(f"the bus and the histories stay in {stays_in}")
    output.flush()


def _measured(
    processes: AgentProcesses, measurements: Measurements, proof: TortureProof
) -> list[str]:
    times = proof.publish_ms
    lines = [
        f"{counted(proof.messages, 'message')}, {counted(processes.kills, 'kill')},"
        f" {counted(proof.cut_off, 'act')} cut off,"
        f" {counted(processes.suspensions, 'suspension')},"
        f" {counted(proof.locked, 'locked error')}",
        f"{counted(len(times), 'publish', plural='es')}: half within {_part(times, 0.5)} ms,"
        f" 99 of 100 within {_part(times, 0.99)} ms, the slowest {_part(times, 1)} ms",
        f"the write-ahead log had at most {measurements.max_wal_bytes / _MIB:.1f} MiB",
    ]
    if measurements.clock_step_ms > 1:
        lines.append(
            f"the machine's clock was put forward or back, by {measurements.clock_step_ms:,.0f} ms"
        )
    memory, descriptors = measurements.memory, measurements.descriptors
    if memory is not None and descriptors is not None:
        lines.append(
            f"memory of {counted(memory.processes, 'process', plural='es')} that lived for"
            f" a minute: {_grown(memory, _MIB)} MiB; descriptors: {_grown(descriptors, 1)}"
        )
    return lines


def _grown(growth: Growth, unit: int) -> str:
    first, last = growth.first / unit, growth.last / unit
    return f"from {first:,.1f} to {last:,.1f}, by {growth.most_grown / unit:,.1f} at most"


def _part(times: list[float], part: float) -> float:
    """Return the time within which this part of all was done."""
    return round(times[min(len(times) - 1, int(part * len(times)))], 2) if times else 0.0


def _record(growth: Growth | None) -> dict[str, float] | None:
    return None if growth is None else asdict(growth)
