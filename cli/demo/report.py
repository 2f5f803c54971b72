"""The output of the demo at its end, for people and as JSON."""

from __future__ import annotations

import shlex
from dataclasses import asdict

from ...demo.results import read_results, read_totals
from ..show import output
from .file_table import print_files
from .next_steps import next_steps
from .text import counted, print_prose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...demo.place import Place
    from ...demo.proof import Proof, Takeover
    from ...demo.results import Totals


def print_json(bus: Bus, proof: Proof, took_s: float) -> None:
    """Print one object a line: each result, then the totals and the proof."""
    for result in read_results(bus):
        about = {"task": result.in_reply_to, "from": result.from_agent, "type": result.type}
        output.json_line({**about, **result.payload})
    totals, _ = read_totals(bus)
    summary = {
        "totals": asdict(totals),
        "seconds": round(took_s, 3),
        "proof": {**asdict(proof), "holds": proof.holds},
        "bus": bus.layout.directory,
        "jsonl": bus.layout.jsonl,
    }
    output.json_line({"summary": summary})
    output.flush()


def print_report(bus: Bus, proof: Proof, took_s: float, place: Place) -> None:
    """Print the results, the proof, and commands to try next."""
    totals, largest = read_totals(bus)
    if largest:
        shown = len(largest)
        few = "The" if shown == totals.files else f"The largest {shown:,} of"
        output.line(f"{few} {counted(totals.files, 'file')}:")
        print_files(largest)
    for paragraph in (_totals(totals, took_s), _proof(proof)):
        output.line("")
        for text in paragraph:
            print_prose(text)
    _print_next_steps(bus, proof)
    output.line("")
    print_prose(f"Afterwards {'; '.join(place.remarks)}")
    output.flush()


def _totals(totals: Totals, took_s: float) -> list[str]:
    python = _not_zero(
        (totals.python_ok, f"{totals.python_ok:,} without syntax errors"),
        (totals.python_errors, f"{totals.python_errors:,} with syntax errors"),
        (totals.python_not_checked, f"{totals.python_not_checked:,} too large to check"),
    )
    unlisted = totals.unreadable_directories
    left_out = _not_zero(
        (totals.binary, counted(totals.binary, "binary file")),
        (unlisted, counted(unlisted, "unlistable directory", "unlistable directories")),
    )
    by = ", ".join(f"{agent} {count:,}" for agent, count in sorted(totals.by_agent.items()))
    return [
        f"In all: {counted(totals.files, 'file')}, {counted(totals.bytes, 'byte')},"
        f" {counted(totals.lines, 'line')}, {counted(totals.words, 'word')}",
        *_not_zero(
            (python, f"  Python: {', '.join(python)}"),
            (totals.failed, f"  could not be read: {counted(totals.failed, 'file')}"),
            (left_out, f"  left out: {', '.join(left_out)}"),
        ),
        f"  results: {by}",
        f"  {counted(totals.messages, 'message')} in {took_s:.1f} s",
    ]


def _not_zero(*remarks: tuple[object, str]) -> list[str]:
    """Return the remarks whose count is not zero."""
    return [remark for something, remark in remarks if something]


def _proof(proof: Proof) -> list[str]:
    return [
        f"Proof, counted in the log: {'it holds' if proof.holds else 'IT FAILS'}",
        f"  {counted(proof.tasks, 'task')}, {proof.examined:,} of them examined under a lease,"
        f" {proof.reported_once:,} reported exactly once;"
        f" {counted(proof.results, 'result')} in all",
        *(
            ["  no worker was killed, so no takeover was shown"]
            if proof.takeover is None
            else _takeover(proof.takeover)
        ),
    ]


def _takeover(takeover: Takeover) -> list[str]:
    lost, won = takeover.tokens
    killed = (
        f"  {takeover.killed} (process {takeover.pid}) was killed on purpose, with SIGKILL,"
        f" while it held the lease of {takeover.path} (token {lost})"
    )
    if not takeover.holds:
        return [killed, "  no worker took it over"]
    return [killed, f"  {takeover.taken_over_by} took it over (token {won}) and reported it"]


def _print_next_steps(bus: Bus, proof: Proof) -> None:
    # What is to be pasted is not broken into lines.
    output.line("")
    output.line("The log as text, one message a line:")
    output.line(f"  {shlex.quote(bus.layout.jsonl)}")
    output.line("Look around:")
    for command, what in next_steps(bus.layout.directory, proof.takeover):
        output.line(f"  {command}")
        print_prose(f"      {what}")
