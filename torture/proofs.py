"""The proofs: messages, inboxes, files, export and resources, one after the other.

A life is one run of an agent's process.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from ..doctor.checks.bus import checks_of_bus
from ..doctor.checks.directory import checks_of_file
from ..export.jsonl.exporter import Exporter
from ..export.jsonl.parts import exported_files
from ..schema.errors import AckbusError
from ..schema.findings import examine
from ..schema.queries import file_of
from ..subscribers.inboxes.inbox import Inbox
from .evidence import (
    HighestKnown,
    NumberedAct,
    RunEvidence,
    Verdict,
    out_of_order,
    prove_claims,
    prove_jobs,
    prove_leases,
)
from .history import ANSWER, ASK, PUBLISHER, READER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message
    from .evidence import LoggedMessage
    from .history import RecordedAct, RunFiles
    from .run import Measurements

# Proof: every published message is in the log once, unaltered, and in order.


class SentMessage(NamedTuple):
    """A message as a publish in a history has it; `size` is the length of its text."""

    id: str
    type: str
    to_agent: str | None
    size: int
    in_reply_to: str | None


def _sent_by(act: RecordedAct) -> list[SentMessage]:
    return [SentMessage(*values) for values in act.what["messages"]]


def prove_publishing(evidence: RunEvidence) -> Verdict:
    """Compare every publish with the log, and the log with every publish."""
    verdict = Verdict(
        "publishing",
        "every acknowledged message is in the log once, as it was sent; of what was cut off, all"
        " of a batch or none",
    )
    unexplained = {
        entry.id for entry in evidence.log.entries if entry.from_agent.startswith(PUBLISHER)
    }
    for id in evidence.log.doubled:
        verdict.fail(f"message {id} is in the log more than once")
    for act in evidence.acts("publish"):
        _check(act, evidence, verdict)
        unexplained.difference_update(sent.id for sent in _sent_by(act))
    for id in sorted(unexplained):
        verdict.fail(f"message {id} is in the log, but was never published")
    return verdict


def _check(act: RecordedAct, evidence: RunEvidence, verdict: Verdict) -> None:
    messages = _sent_by(act)
    entries = [evidence.log.by_id.get(sent.id) for sent in messages]
    who = f"life {act.life} of {act.agent}"
    for number, (sent, entry) in enumerate(zip(messages, entries, strict=True)):
        verdict.checked += 1
        if entry is not None and not _is_as_sent(entry, act.agent, sent):
            verdict.fail(f"message {sent.id} is in the log as {entry}, and was sent as {sent}")
        if act.result is None:
            continue
        seq = act.result["seqs"][number]
        if entry is None:
            verdict.fail(f"{who} was told that {sent.id} is message {seq}, and it is not there")
        elif entry.seq != seq:
            verdict.fail(f"{who} was told that {sent.id} is message {seq}, and it is {entry.seq}")
    stored = sum(entry is not None for entry in entries)
    if act.result is None and stored not in (0, len(messages)):
        verdict.fail(f"{who} was cut off in a batch, and {stored} of {len(messages)} were stored")


def _is_as_sent(entry: LoggedMessage, agent: str, sent: SentMessage) -> bool:
    stored = (entry.id, entry.type, entry.to_agent, entry.size, entry.in_reply_to)
    return stored == sent and entry.from_agent == agent


def prove_order(evidence: RunEvidence) -> Verdict:
    """Check that numbers grow: in the log, and with the time of the publishers."""
    verdict = Verdict(
        "order",
        "the log is in order of seq; what was published after another publish had returned comes"
        " after it",
    )
    before = 0
    for entry in evidence.log.entries:
        verdict.expect(entry.seq > before, f"message {entry.seq} stands behind message {before}")
        before = entry.seq
    for earlier, later in out_of_order(numbered_publishes(evidence)):
        verdict.fail(
            f"{later.who} was given message {later.low} after {earlier.who} had been given"
            f" {earlier.high}"
        )
    return verdict


def numbered_publishes(evidence: RunEvidence) -> list[NumberedAct]:
    """Return the publishes that stored something.

    A publish that repeats one whose outcome an earlier life never learned is left out.
    """
    uncertain_ids: set[str] = set()
    publishes = []
    for act in evidence.acts("publish"):
        ids = [sent.id for sent in _sent_by(act)]
        if act.result is not None and act.ended_ns is not None and ids[0] not in uncertain_ids:
            seqs = act.result["seqs"]
            who = f"life {act.life} of {act.agent}"
            publishes.append(NumberedAct(act.began_ns, act.ended_ns, min(seqs), max(seqs), who))
        elif act.result is None:
            uncertain_ids.update(ids)
    return publishes


# Proof: every inbox was delivered in order, with nothing skipped.


@dataclass(frozen=True, slots=True)
class ExpectedMail:
    """The mail of one agent.

    Attributes:
        seqs: its seqs, in order.
        archived: the archived broadcasts. They need not come to an agent that never
            acknowledged anything: a new agent begins with the messages still in the file.
    """

    seqs: list[int]
    archived: frozenset[int]

    def missing(self, cursor: int, polled: list[int], limit: int) -> int | None:
        """Return the first message that a poll should have brought and did not, or None.

        Args:
            cursor: the agent's cursor.
            polled: the seqs that the poll brought.
            limit: the limit of the poll.
        """
        optional = frozenset() if cursor else self.archived
        brought = iter(polled)
        next_brought = next(brought, None)
        for index in range(bisect_right(self.seqs, cursor), len(self.seqs)):
            seq = self.seqs[index]
            if seq == next_brought:
                next_brought = next(brought, None)
            elif seq not in optional:
                # Mail after the last polled is missing only if the poll had room for it.
                return seq if next_brought is not None or len(polled) < limit else None
        return None

    def has(self, cursor: int, polled: list[int]) -> bool:
        """Whether all that a poll brought is mail after the cursor, in order."""
        span = self.seqs[bisect_right(self.seqs, cursor) : bisect_right(self.seqs, _last(polled))]
        rest = iter(span)
        return all(seq in rest for seq in polled)


def prove_inboxes(evidence: RunEvidence) -> Verdict:
    """Follow each agent's cursor through its histories."""
    verdict = Verdict(
        "inboxes",
        "each poll brought what follows the acknowledged, in order, with nothing left out that had"
        " been published; no cursor moved by itself, and every reader had all of its mail",
    )
    highest = HighestKnown(numbered_publishes(evidence))
    archived = _archived_broadcasts(evidence)
    for agent in evidence.agents:
        acts = list(evidence.acts_of(agent, "poll", "ack"))
        if acts:
            mail = ExpectedMail(evidence.log.mail_of(agent), archived)
            _follow(agent, acts, mail, highest, evidence, verdict)
    return verdict


def _archived_broadcasts(evidence: RunEvidence) -> frozenset[int]:
    """Return the broadcasts that have left the file."""
    upto = evidence.bus.archive.upto()
    return frozenset(
        entry.seq for entry in evidence.log.entries if entry.to_agent is None and entry.seq <= upto
    )


def _follow(
    agent: str,
    acts: list[RecordedAct],
    mail: ExpectedMail,
    highest: HighestKnown,
    evidence: RunEvidence,
    verdict: Verdict,
) -> None:
    cursors = {0}  # the possible cursors: two after an acknowledgement that was cut off
    for act in acts:
        if act.kind == "poll" and act.result is not None:
            cursors = _after_poll(act, mail, cursors, highest, verdict)
        elif act.kind == "ack":
            seq = act.what["seq"]
            if act.result is None:
                cursors = cursors | {seq}
                continue
            cursors = {seq}
            cursor = act.result["cursor"]
            verdict.expect(cursor == seq, f"{_life_of(act)} acknowledged {seq}, and is at {cursor}")
    position = Inbox(evidence.bus, agent).position
    verdict.expect(
        position in cursors, f"{agent} is at {position}, and acknowledged {_alternatives(cursors)}"
    )
    if agent.startswith(READER) and position < _last(mail.seqs):
        verdict.fail(f"{agent} ended at {position}, and has mail up to {_last(mail.seqs)}")


def _after_poll(
    act: RecordedAct, mail: ExpectedMail, cursors: set[int], highest: HighestKnown, verdict: Verdict
) -> set[int]:
    """Check the result of a poll, and return the cursors that explain it."""
    assert act.result is not None
    seqs, limit = act.result["seqs"], act.what["limit"]
    visible = max(_last(seqs), highest.at(act.began_ns))
    missing = {cursor: mail.missing(cursor, seqs, limit) for cursor in cursors}
    lacking = {cursor: seq for cursor, seq in missing.items() if seq is not None and seq <= visible}
    possible = {cursor for cursor in cursors - lacking.keys() if mail.has(cursor, seqs)}
    verdict.checked += 1
    if not possible:
        first = min(seq or 0 for seq in missing.values())
        without = f" without {first}" if first else ""
        verdict.fail(
            f"{_life_of(act)} had acknowledged {_alternatives(cursors)},"
            f" and was given {_shortened(seqs)}{without}"
        )
    return possible or cursors


def _last(seqs: list[int]) -> int:
    return seqs[-1] if seqs else 0


def _life_of(act: RecordedAct) -> str:
    return f"life {act.life} of {act.agent}"


def _alternatives(cursors: set[int]) -> str:
    return " or ".join(map(str, sorted(cursors)))


def _shortened(seqs: list[int]) -> str:
    return ", ".join(map(str, seqs[:5])) + (" …" if len(seqs) > 5 else "") if seqs else "nothing"


def prove_answers(evidence: RunEvidence) -> Verdict:
    """Check that each question has one answer: it is stored with the acknowledgement."""
    verdict = Verdict("answers", "every question has one answer, from the agent that was asked")
    senders_of_answers: dict[str, list[str]] = {}
    for entry in evidence.log.of_types(ANSWER):
        senders_of_answers.setdefault(entry.in_reply_to or "", []).append(entry.from_agent)
    for entry in evidence.log.of_types(ASK):
        senders = senders_of_answers.pop(entry.id, [])
        verdict.expect(
            senders == [entry.to_agent],
            f"question {entry.id} to {entry.to_agent} has {len(senders)} answers, not one",
        )
    for id in senders_of_answers:
        verdict.fail(f"there is an answer to {id}, which is no question")
    return verdict


# Proof: the file is undamaged, and every blob and segment is there and whole.


def prove_files(bus: LocalBus) -> Verdict:
    """Examine everything, as `bus doctor --full` does."""
    verdict = Verdict(
        "files",
        "SQLite finds no damage; every number has its message; every blob and archive segment is"
        " there, and whole",
    )
    checks = {**checks_of_file(file_of(bus), full=True), **checks_of_bus(bus, full=True)}
    for finding in examine(checks):
        verdict.expect(finding.state != "bad", f"{finding.check}: {finding.text}")
    # The doctor only warns of these: another program may leave numbers out. None did here.
    gaps = bus.log.gaps()
    verdict.expect(not gaps, f"numbers without a message: {gaps}")
    return verdict


# Proof: `bus.jsonl` is, byte for byte, what a rebuild from nothing writes.


def prove_export(bus: LocalBus, aside: str) -> Verdict:
    """Put the exported files aside, rebuild them, and compare.

    Args:
        bus: the bus.
        aside: the folder that they are moved to, and stay in if they differ; it must not exist.
    """
    verdict = Verdict(
        "export", "bus.jsonl and its parts are, byte for byte, what a rebuild from nothing writes"
    )
    before = _names(bus)
    os.mkdir(aside)
    for name in before:
        os.rename(os.path.join(bus.layout.directory, name), os.path.join(aside, name))
    try:
        Exporter(bus).export_once()
    except AckbusError as error:
        verdict.fail(f"the rebuild failed: {error}")
        return verdict
    after = _names(bus)
    if before != after:
        verdict.fail(f"the exporter wrote {', '.join(before)}; a rebuild writes {', '.join(after)}")
    for name in sorted({*before} & {*after}):
        verdict.checked += 1
        number = _first_difference(
            os.path.join(aside, name), os.path.join(bus.layout.directory, name)
        )
        if number is not None:
            verdict.fail(f"line {number} of {name} is not that of a rebuild; compare it in {aside}")
    return verdict


def _names(bus: LocalBus) -> list[str]:
    """Return the names of the exported files, and of their index."""
    names = [os.path.basename(path) for path in exported_files(bus.layout.jsonl)]
    index = "bus.index.json"
    return [*names, *([index] if os.path.exists(os.path.join(bus.layout.directory, index)) else [])]


def _first_difference(path: str, other: str) -> int | None:
    """Return the number of the first line that differs, or None."""
    with open(path, "rb") as lines, open(other, "rb") as expected_lines:
        for number, pair in enumerate(zip_longest(lines, expected_lines), 1):
            if pair[0] != pair[1]:
                return number
    return None


# Proof: nothing grows without a bound.

_MIB = 1024 * 1024

#: How long the write-ahead log may become, in bytes. A commit checkpoints a log of 125 MiB, if
#: every process that should have done it earlier was killed; a suspended reader, or a disk that
#: can't keep up, lets it grow beyond.
MAX_WAL_BYTES = 256 * _MIB

#: By how much a process may grow from the first to the last third of its life: resident memory in
#: bytes, which SQLite's cache, pages of messages and the allocator fill by and by; and descriptors,
#: since a thread that checkpoints has a few for a moment.
MAX_GROWN_BYTES, MAX_GROWN_DESCRIPTORS = 24 * _MIB, 8


def prove_resources(measurements: Measurements) -> Verdict:
    """Judge the measurements; if no process lived for a minute, only the size of the WAL."""
    verdict = Verdict(
        "resources",
        f"the write-ahead log stayed below {MAX_WAL_BYTES // _MIB} MiB; no process that lived for"
        f" a minute grew by {MAX_GROWN_BYTES // _MIB} MiB or {MAX_GROWN_DESCRIPTORS} descriptors",
    )
    wal_bytes, memory, descriptors = (
        measurements.max_wal_bytes,
        measurements.memory,
        measurements.descriptors,
    )
    verdict.expect(
        wal_bytes < MAX_WAL_BYTES, f"the write-ahead log had {wal_bytes / _MIB:,.0f} MiB"
    )
    if memory is not None and descriptors is not None:
        verdict.checked += memory.processes
        if memory.most_grown >= MAX_GROWN_BYTES:
            verdict.fail(f"a process grew by {memory.most_grown / _MIB:,.0f} MiB")
        if descriptors.most_grown >= MAX_GROWN_DESCRIPTORS:
            verdict.fail(f"a process grew by {descriptors.most_grown:,.0f} descriptors")
    return verdict


# Proof: no process met an unexpected error, a locked database least of all.

#: The words of errors about a lock that was not granted.
_LOCKED = ("locked", "BusBusy", "another process has held")


class AgentErrors(NamedTuple):
    """The result of the proof about the agents.

    Attributes:
        verdict: whether they met errors.
        locked: how many errors were about locks.
        cut_off: how many acts have no outcome, since the process was killed in them.
    """

    verdict: Verdict
    locked: int
    cut_off: int


def prove_agents(evidence: RunEvidence, unexpected_ends: Sequence[str]) -> AgentErrors:
    """Read all histories for errors.

    Args:
        evidence: what is known of the run.
        unexpected_ends: the unexpected ends of processes.
    """
    verdict = Verdict("agents", "no process met an unexpected error, or ended by itself")
    locked = cut_off = 0
    for act in evidence.acts():
        verdict.checked += 1
        cut_off += act.ended_ns is None
        if act.error is not None:
            locked += any(word in act.error for word in _LOCKED)
            verdict.fail(f"life {act.life} of {act.agent}, at {act.kind}: {act.error}")
    for text in unexpected_ends:
        verdict.fail(text)
    return AgentErrors(verdict, locked, cut_off)


#: How often progress is reported, in messages.
_PROGRESS_EVERY = 1000


@dataclass(frozen=True, slots=True)
class TortureProof:
    """The results of all proofs.

    Attributes:
        verdicts: the verdict of each proof.
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
        """Whether every proof holds."""
        return all(verdict.holds for verdict in self.verdicts)


def prove(
    bus: LocalBus,
    files: RunFiles,
    measurements: Measurements,
    unexpected_ends: Sequence[str] = (),
    progress: Callable[[int], object] = lambda done: None,
) -> TortureProof:
    """Read the log and the histories, and run all proofs.

    Args:
        bus: the bus, which no other process uses any more.
        files: the directory of the run.
        measurements: the measurements of the run.
        unexpected_ends: the unexpected ends of processes.
        progress: called now and then with the number of messages read.
    """
    evidence = RunEvidence(
        bus,
        files.histories,
        _counted(bus.read(), progress),
        round(measurements.clock_step_ms * 1_000_000),
    )
    agent_errors = prove_agents(evidence, unexpected_ends)
    verdicts = [
        agent_errors.verdict,
        prove_publishing(evidence),
        prove_order(evidence),
        prove_inboxes(evidence),
        prove_answers(evidence),
        prove_leases(evidence),
        prove_claims(evidence),
        prove_jobs(evidence),
        prove_export(bus, files.exported),
        prove_files(bus),
        prove_resources(measurements),
    ]
    return TortureProof(
        verdicts,
        len(evidence.log.entries),
        agent_errors.locked,
        agent_errors.cut_off,
        _publish_ms(evidence),
    )


def _counted(messages: Iterator[Message], progress: Callable[[int], object]) -> Iterator[Message]:
    for number, message in enumerate(messages, 1):
        if number % _PROGRESS_EVERY == 0:
            progress(number)
        yield message


def _publish_ms(evidence: RunEvidence) -> list[float]:
    return sorted(
        (act.ended_ns - act.began_ns) / 1_000_000
        for act in evidence.acts("publish")
        if act.result is not None and act.ended_ns is not None
    )
