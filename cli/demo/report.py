"""What the demo prints at its end, for people and as JSON."""

from __future__ import annotations

import shlex
from dataclasses import asdict

from .. import output
from .results import read_results, read_totals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...bus import Bus
    from ...schema import Message
    from .proof import Proof, Takeover
    from .results import Totals

#: The columns of numbers: their headings, and the fields of a result.
_NUMBERS = {
    "bytes": "bytes",
    "lines": "lines",
    "words": "words",
    "longest line": "longest_line_bytes",
}


def print_json(bus: Bus, proof: Proof, took_s: float) -> None:
    """Print one object a line: each result, then what they add up to and the proof."""
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


def print_report(bus: Bus, proof: Proof, took_s: float) -> None:
    """Print the results, the proof, and what to type next."""
    totals, largest = read_totals(bus)
    output.line(f"The largest {len(largest)} of {totals.files:,} files:")
    _print_table(largest)
    for paragraph in (_totals(totals, took_s), _proof(proof), _next_steps(bus, proof)):
        output.line("")
        for text in paragraph:
            output.line(text)
    output.flush()


def _print_table(results: list[Message]) -> None:
    numbers = (
        _right_aligned(heading, (f"{result.payload[name]:,}" for result in results))
        for heading, name in _NUMBERS.items()
    )
    columns = [
        ["file", *(result.payload["path"] for result in results)],
        *numbers,
        ["Python", *(result.payload["python"] or "" for result in results)],
        ["by", *(result.from_agent for result in results)],
    ]
    headings, *rows = zip(*columns, strict=True)
    output.table(headings, rows)


def _right_aligned(heading: str, cells: Iterable[str]) -> list[str]:
    column = [heading, *cells]
    width = max(map(len, column))
    return [cell.rjust(width) for cell in column]


def _totals(totals: Totals, took_s: float) -> list[str]:
    by = ", ".join(f"{agent} {count:,}" for agent, count in sorted(totals.by_agent.items()))
    return [
        f"In all: {totals.files:,} files, {totals.bytes:,} bytes, {totals.lines:,} lines,"
        f" {totals.words:,} words",
        f"  Python: {totals.python_ok:,} without syntax errors, {totals.python_errors:,} with,"
        f" {totals.python_not_checked:,} too large to check",
        f"  could not be read: {totals.failed:,}; left out: binary files {totals.binary:,},"
        f" directories that can't be listed {totals.unreadable_directories:,}",
        f"  results: {by}",
        f"  {totals.messages:,} messages in {took_s:.1f} s",
    ]


def _proof(proof: Proof) -> list[str]:
    return [
        f"Proof, counted in the log: {'it holds' if proof.holds else 'IT FAILS'}",
        f"  {proof.tasks:,} tasks, {proof.examined:,} of them examined under a lease,"
        f" {proof.reported_once:,} reported exactly once; {proof.results:,} results in all",
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
        return [killed, "  nobody took it over"]
    return [killed, f"  {takeover.taken_over_by} took it over (token {won}) and reported it"]


def _next_steps(bus: Bus, proof: Proof) -> list[str]:
    where = f"--dir {shlex.quote(bus.layout.directory)}"
    steps = [(f"bus tail -n 20 {where}", "the newest messages")]
    if proof.takeover is not None:
        conversation = f"bus read --conversation {proof.takeover.task} {where}"
        steps.append((conversation, "the task that was taken over"))
    steps.append((f"bus agents {where}", "who was there, and how they are"))
    steps.append((f"bus replay --from 1 {where}", "everything, from the first message"))
    return [
        f"The log as text, one message a line: {bus.layout.jsonl}",
        "Look around:",
        *(line for step, what in steps for line in (f"  {step}", f"      {what}")),
    ]
