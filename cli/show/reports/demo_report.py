"""The report at the end of the demo: its results, the proof, and commands to try next."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import asdict

from ....bus.bus import Bus
from ....demo.protocol import DONE
from ....demo.totals import totals_of
from ...own_path import own_path
from .. import output
from ..text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....demo.proof import Proof, Takeover
    from ....demo.run import Run
    from ....demo.totals import Totals
    from ....schema.message.message import Message


def print_report(run: Run) -> None:
    """Print the report; with --json one object for each result, then one for the whole."""
    with Bus.open(run.directory) as bus:
        if output.is_json():
            for each in bus.read(type=DONE):
                about = {"task": each.in_reply_to, "from": each.from_agent}
                output.json_line(about | each.payload)
        totals, largest = totals_of(bus.read())
        jsonl = bus.layout.jsonl
    proof = {**asdict(run.proof), "holds": run.proof.holds}
    summary = {"totals": asdict(totals), "proof": proof, **asdict(run), "jsonl": jsonl}
    if not output.is_json() and largest:
        headings = ("file", "bytes", "lines", "Python", "by")
        output.table(headings, [_row(each) for each in largest])
    output.result({"summary": summary | {"proof": proof}}, *_lines(run, totals, jsonl))


def _row(result: Message) -> tuple[object, ...]:
    found = result.payload
    numbers = (f"{found['bytes']:,}", f"{found['lines']:,}")
    return (found["path"], *numbers, found["python"], result.from_agent)


def _lines(run: Run, totals: Totals, jsonl: str) -> Iterator[str]:
    yield ""
    yield (
        f"In all: {counted(totals.files, 'file')}, {counted(totals.bytes, 'byte')},"
        f" {counted(totals.lines, 'line')}, in {run.took_s:.1f} s"
    )
    remarks = (
        (totals.python_ok, "Python without syntax errors"),
        (totals.python_errors, "Python with syntax errors"),
        (totals.python_not_checked, "Python, too large to check"),
        (totals.failed, "could not be read"),
        (run.binary, "binary, left out"),
        (run.unreadable_directories, "directories that can't be listed"),
        *((count, f"by {worker}") for worker, count in sorted(totals.by_agent.items())),
    )
    for count, what in remarks:
        if count:
            yield f"  {count:,} {what}"
    yield ""
    yield from _proof(run.proof)
    yield ""
    yield "The log as text, one message a line:"
    yield f"  {shlex.quote(jsonl)}"
    yield "Look around:"
    yield from _next_steps(run)


def _proof(proof: Proof) -> Iterator[str]:
    yield f"Proof, counted in the log: {'it holds' if proof.holds else 'IT FAILS'}"
    yield (
        f"  {counted(proof.tasks, 'task')}, {proof.examined:,} of them examined under a claim,"
        f" {proof.reported_once:,} reported exactly once; {counted(proof.results, 'result')} in all"
    )
    if proof.takeover is None:
        yield "  no worker was killed, so no takeover was shown"
    else:
        yield from _takeover(proof.takeover)


def _takeover(takeover: Takeover) -> Iterator[str]:
    lost, won = takeover.tokens
    yield (
        f"  {takeover.killed} (process {takeover.pid}) was killed on purpose, with SIGKILL,"
        f" while it had the claim of {takeover.path} (token {lost})"
    )
    if takeover.holds:
        yield f"  {takeover.taken_over_by} took it over (token {won}) and reported it"
    else:
        yield "  no worker took it over"


def _next_steps(run: Run) -> Iterator[str]:
    """Yield commands that can be pasted into the shell."""
    bus = "bus" if shutil.which("bus") else shlex.quote(own_path())
    where = f"--dir {shlex.quote(run.directory)}"
    yield f"  {bus} tail -n 20 {where}"
    if run.proof.takeover is not None:
        yield f"  {bus} trace {run.proof.takeover.task} {where}"
    yield f"  {bus} queue list {where}"
    yield f"  {bus} agents {where}"
