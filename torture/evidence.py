"""The evidence of a torture run: the log and the histories, read once; and verdicts on them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

from ..subscribers.jobs.jobs import ENDED_BADLY
from ..subscribers.queues.queue import Queue
from ..subscribers.views import list_jobs
from .history import JOB, JOB_DONE, JOB_FAILED, QUEUE, SIZES, TURN, agents_in, read_acts, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message
    from ..subscribers.jobs.jobs import Job
    from .history import RecordedAct

# A verdict: a claim, the number of checks, and the failures.

#: How many failures of a proof are listed; further ones are only counted.
MAX_LISTED = 10


@dataclass(slots=True)
class Verdict:
    """The outcome of one proof.

    Attributes:
        name: its subject, in a word or two.
        claim: the claim.
        checked: the number of checks.
        failed: the number of failed checks.
        failures: the first failures, in words.
    """

    name: str
    claim: str
    checked: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    def fail(self, text: str) -> None:
        """Note a failed check."""
        self.failed += 1
        if len(self.failures) < MAX_LISTED:
            self.failures.append(text)

    def expect(self, condition: bool, text: str) -> None:
        """Count one check, and note the text as a failure if the condition is false."""
        self.checked += 1
        if not condition:
            self.fail(text)


class LoggedMessage(NamedTuple):
    """The fields of a message that proofs need.

    Attributes:
        seq, id, from_agent, to_agent, type, in_reply_to: as in the message.
        size: how long its text is; None where it has none, or another than its id says.
        token: the token of the lease or claim under which it was written, or None.
        lease: the name of the lease, or None.
    """

    seq: int
    id: str
    from_agent: str
    to_agent: str | None
    type: str
    in_reply_to: str | None
    size: int | None
    token: int | None
    lease: str | None


@dataclass(slots=True)
class LogIndex:
    """The log, as the proofs see it.

    Attributes:
        entries: the messages, in the order in which the log gives them.
        by_id: the same by id; of several with one id the last.
        doubled: the ids that more than one message has.
    """

    entries: list[LoggedMessage] = field(default_factory=list)
    by_id: dict[str, LoggedMessage] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    _direct: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _broadcasts: list[LoggedMessage] = field(default_factory=list)

    def add(self, entry: LoggedMessage) -> None:
        """Note the next message."""
        if entry.id in self.by_id:
            self.doubled.append(entry.id)
        self.entries.append(entry)
        self.by_id[entry.id] = entry
        if entry.to_agent is None:
            self._broadcasts.append(entry)
        else:
            self._direct[entry.to_agent].append(entry.seq)

    def of_types(self, *types: str) -> Iterator[LoggedMessage]:
        """Yield the messages of some types, in order."""
        return (entry for entry in self.entries if entry.type in types)

    def mail_of(self, agent: str) -> list[int]:
        """Return the seqs of all messages to an agent, and of others' broadcasts, in order."""
        broadcasts = (entry.seq for entry in self._broadcasts if entry.from_agent != agent)
        return list(merge(self._direct.get(agent, ()), broadcasts))


class RunEvidence:
    """All evidence of a run: the log and the histories.

    Args:
        bus: the bus, which no other process uses any more.
        histories: the folder of the histories.
        messages: the whole log.
        clock_step_ns: by how much the machine's clock was set forward or back during the run.

    Attributes:
        bus, clock_step_ns: these.
        log: the messages.
        agents: the agents that have a history.
    """

    def __init__(
        self, bus: LocalBus, histories: str, messages: Iterable[Message], clock_step_ns: int = 0
    ) -> None:
        self.bus = bus
        self.clock_step_ns = clock_step_ns
        self.log = LogIndex()
        self._histories = histories
        self.agents = agents_in(histories)
        for message in messages:
            self.log.add(_entry(message))

    def acts(self, *kinds: str) -> Iterator[RecordedAct]:
        """Yield the acts of some kinds, agent after agent; of all kinds when none is named."""
        for agent in self.agents:
            yield from self.acts_of(agent, *kinds)

    def acts_of(self, agent: str, *kinds: str) -> Iterator[RecordedAct]:
        """Yield one agent's acts in the order in which they began."""
        return read_acts(self._histories, agent, kinds)


def _entry(message: Message) -> LoggedMessage:
    size = token = lease = None
    payload = None if message.payload_error is not None else message.payload
    if isinstance(payload, str) and len(payload) in SIZES:
        size = len(payload) if payload == text_of(message.id, len(payload)) else None
    elif isinstance(payload, dict):
        token, lease = payload.get("token"), payload.get("lease")
    return LoggedMessage(
        message.seq,
        message.id,
        message.from_agent,
        message.to_agent,
        message.type,
        message.in_reply_to,
        size,
        token,
        lease,
    )


# Order in time: an act that began after another was over must have the higher numbers.


class NumberedAct(NamedTuple):
    """An act that gave out numbers.

    Attributes:
        began_ns, ended_ns: the times before it began, and after it returned.
        low, high: the lowest and the highest of its numbers.
        who: its agent, for people.
    """

    began_ns: int
    ended_ns: int
    low: int
    high: int
    who: str


def out_of_order(acts: Iterable[NumberedAct]) -> Iterator[tuple[NumberedAct, NumberedAct]]:
    """Yield pairs of acts where the second began after the first ended, without higher numbers."""
    acts = list(acts)
    over = sorted(acts, key=lambda act: act.ended_ns)
    next_over = 0
    highest: NumberedAct | None = None
    for act in sorted(acts):
        while over[next_over].ended_ns < act.began_ns:
            if highest is None or over[next_over].high > highest.high:
                highest = over[next_over]
            next_over += 1
        if highest is not None and highest.high >= act.low:
            yield highest, act


class HighestKnown:
    """The highest number that any process knew, at any moment.

    Args:
        acts: the acts that gave out numbers.
    """

    def __init__(self, acts: Iterable[NumberedAct]) -> None:
        over = sorted((act.ended_ns, act.high) for act in acts)
        self._ended_ns = [ended_ns for ended_ns, _ in over]
        self._highest = list(accumulate((high for _, high in over), max))

    def at(self, moment_ns: int) -> int:
        """Return the highest number that a process knew before a moment; 0 for none."""
        count = bisect_left(self._ended_ns, moment_ns)
        return self._highest[count - 1] if count else 0


# Grants: the periods in which a holder was sure of its lease or claim; no two may overlap.
#
# A holder is sure from the moment at which it learns of the grant until the lease time, counted
# from its request, is over, or until it is about to release the resource. All processes of a
# machine share the clock of these records.

#: How much earlier a lease may end than its holder expects, in nanoseconds: the bus counts in
#: whole milliseconds, and the system slows and speeds up the clock that it reads.
SLACK_NS = 5_000_000


@dataclass(slots=True)
class Grant:
    """One grant of a lease or a claim.

    Attributes:
        resource: the lease or the job, in words.
        token: its token.
        who: its holder, for people.
        requested_ns, from_ns: the times of the request, and of its result.
        until_ns: the time until which the holder was sure of it.
    """

    resource: object
    token: int
    who: str
    requested_ns: int
    from_ns: int
    until_ns: int


class Grants:
    """All grants of one kind, by token.

    Args:
        clock_step_ns: by how much the machine's clock was set during the run. Leases go by it, and
            histories don't: overlaps up to this length can't be judged.
    """

    def __init__(self, clock_step_ns: int) -> None:
        self._slack_ns = SLACK_NS + clock_step_ns
        self._by_token: dict[int, Grant] = {}
        self._doubled: list[str] = []

    def grant(self, act: RecordedAct, resource: object, token: int) -> None:
        """Note the grant that an act returned."""
        assert act.ended_ns is not None
        who = f"life {act.life} of {act.agent}"
        until_ns = act.began_ns + _duration_ns(act)
        if token in self._by_token:
            self._doubled.append(
                f"token {token} was given to {self._by_token[token].who} and to {who}"
            )
        self._by_token[token] = Grant(resource, token, who, act.began_ns, act.ended_ns, until_ns)

    def renew(self, act: RecordedAct) -> None:
        """Note an extension by its holder."""
        grant = self._by_token.get(act.what["token"])
        if grant is not None:
            grant.until_ns = max(grant.until_ns, act.began_ns + _duration_ns(act))

    def give_back(self, act: RecordedAct) -> None:
        """Note that a holder was about to release its grant."""
        grant = self._by_token.get(act.what["token"])
        if grant is not None:
            grant.until_ns = min(grant.until_ns, act.began_ns)

    def judge(self, verdict: Verdict) -> None:
        """Report overlapping grants, and tokens that did not grow."""
        for text in self._doubled:
            verdict.fail(text)
        last: dict[object, Grant] = {}
        for grant in sorted(self._by_token.values(), key=lambda grant: grant.from_ns):
            before = last.get(grant.resource)
            if before is not None:
                self._judge_pair(before, grant, verdict)
            verdict.checked += 1
            if before is None or grant.until_ns > before.until_ns:
                last[grant.resource] = grant
        numbered = (
            NumberedAct(grant.requested_ns, grant.from_ns, grant.token, grant.token, grant.who)
            for grant in self._by_token.values()
        )
        for earlier, later in out_of_order(numbered):
            verdict.fail(
                f"{later.who} was given token {later.low} after {earlier.who} had been given"
                f" {earlier.high}"
            )

    def _judge_pair(self, before: Grant, after: Grant, verdict: Verdict) -> None:
        both_ns = min(before.until_ns, after.until_ns) - after.from_ns
        if both_ns > self._slack_ns:
            verdict.fail(
                f"{before.who} (token {before.token}) and {after.who} (token {after.token}) held"
                f" {after.resource} at once, for {both_ns / 1e9:.3f} s"
            )


def _duration_ns(act: RecordedAct) -> int:
    lease_s: float = act.what["lease_s"]
    return round(lease_s * 1_000_000_000)


# Proof: a job has one holder at a time, one end, and one answer.


def prove_claims(evidence: RunEvidence) -> Verdict:
    """Check that the claims of each job do not overlap."""
    verdict = Verdict("claims", "no job had two workers at once, and the tokens of its claims grew")
    grants = Grants(evidence.clock_step_ns)
    for act in evidence.acts("claim", "renew claim", "complete", "fail"):
        if act.kind == "claim":
            for seq, token in act.result["claims"] if act.result is not None else ():
                grants.grant(act, f"job {seq}", token)
        elif act.kind == "renew claim":
            if act.result is not None and "lost" not in act.result:
                grants.renew(act)
        else:
            grants.give_back(act)
    grants.judge(verdict)
    return verdict


def prove_jobs(evidence: RunEvidence) -> Verdict:
    """Compare every job with its answers in the log and its state in the queue."""
    verdict = Verdict(
        "jobs",
        "every job came to one end, with one answer, in one transaction, by the worker that held"
        " it; a late worker changed nothing",
    )
    logged = {entry.seq: entry for entry in evidence.log.of_types(JOB)}
    queue = Queue.open(evidence.bus, QUEUE)
    queued = {job.seq: job for job in list_jobs(queue, (), limit=len(logged) + 1)}
    answers: dict[str, list[LoggedMessage]] = {}
    for answer in evidence.log.of_types(JOB_DONE, JOB_FAILED):
        answers.setdefault(answer.in_reply_to or "", []).append(answer)
    for seq in sorted(queued.keys() - logged.keys()):
        verdict.fail(f"message {seq} is in the queue, and is no job")
    for seq, entry in logged.items():
        verdict.checked += 1
        for failure in _of_job(entry, queued.get(seq), answers.get(entry.id, [])):
            verdict.fail(failure)
    _judge_ends(evidence, answers, logged, verdict)
    return verdict


def _of_job(entry: LoggedMessage, job: Job | None, answers: list[LoggedMessage]) -> list[str]:
    """Return the errors in the end of a job."""
    if job is None:
        return [f"job {entry.seq} is not in the queue"]
    if len(answers) != 1:
        return [f"job {entry.seq} is {job.state}, and has {len(answers)} answers"]
    ends = ("succeeded",) if answers[0].type == JOB_DONE else ENDED_BADLY
    if job.state not in ends:
        return [f"job {entry.seq} is {job.state}, and was answered with {answers[0].type}"]
    return []


def _judge_ends(
    evidence: RunEvidence,
    answers: dict[str, list[LoggedMessage]],
    jobs: dict[int, LoggedMessage],
    verdict: Verdict,
) -> None:
    """Compare the histories of workers about the ends of their claims with the answers."""
    possible_ends: set[tuple[int, int]] = set()
    for act in evidence.acts("complete", "fail"):
        verdict.checked += 1
        seq, token = act.what["seq"], act.what["token"]
        who = f"life {act.life} of {act.agent}"
        job = jobs.get(seq)
        own = [a for a in answers.get(job.id, ()) if a.token == token] if job is not None else []
        if act.result is None:
            possible_ends.add((seq, token))
        elif "lost" in act.result:
            if own:
                verdict.fail(f"{who} was told that its claim of job {seq} is lost, and answered it")
        else:
            possible_ends.add((seq, token))
            if [answer.seq for answer in own] != act.result["answers"]:
                verdict.fail(
                    f"{who} was told that job {seq} is answered by {act.result['answers']}, and it"
                    f" is by {[answer.seq for answer in own]}"
                )
    for job in jobs.values():
        for answer in answers.get(job.id, ()):
            if (job.seq, answer.token) not in possible_ends:
                verdict.fail(f"no worker ended job {job.seq} as message {answer.seq} says")


# Proof: a lease has one holder at a time, and one that is late writes nothing.


def prove_leases(evidence: RunEvidence) -> Verdict:
    """Check that grants of a lease do not overlap, and that late holders wrote nothing."""
    verdict = Verdict(
        "leases",
        "no lease had two holders at once, tokens grew, and nothing was written under a token"
        " after a later one had come",
    )
    grants = Grants(evidence.clock_step_ns)
    acknowledged: Counter[int] = Counter()
    tried: Counter[int] = Counter()
    for act in evidence.acts("acquire", "renew", "release", "write"):
        was_done = act.result is not None and "lost" not in act.result
        if act.kind == "acquire":
            if act.result is not None and act.result["token"] is not None:
                grants.grant(act, f"lease {act.what['lease']!r}", act.result["token"])
        elif act.kind == "renew" and was_done:
            grants.renew(act)
        elif act.kind == "release":
            grants.give_back(act)
        elif act.kind == "write":
            acknowledged[act.what["token"]] += was_done
            tried[act.what["token"]] += was_done or act.result is None
    grants.judge(verdict)
    _judge_turns(evidence, acknowledged, tried, verdict)
    return verdict


def _judge_turns(
    evidence: RunEvidence, acknowledged: Counter[int], tried: Counter[int], verdict: Verdict
) -> None:
    stored: Counter[int] = Counter()
    newest: dict[str | None, int] = {}
    for entry in evidence.log.of_types(TURN):
        token = entry.token or 0
        stored[token] += 1
        before = newest.get(entry.lease, 0)
        verdict.expect(
            token >= before,
            f"message {entry.seq} was written under token {token} of lease {entry.lease!r}, after"
            f" one with token {before}",
        )
        newest[entry.lease] = max(before, token)
    for token in sorted(tried.keys() | stored.keys()):
        verdict.expect(
            acknowledged[token] <= stored[token] <= tried[token],
            f"under token {token}, {stored[token]} messages are in the log, {acknowledged[token]}"
            f" were acknowledged, and {tried[token]} may have been stored",
        )
