"""Proof: a job has one holder at a time, one end, and one answer."""

from __future__ import annotations

from ...subscribers.jobs.job_lists import list_jobs
from ...subscribers.jobs.jobs import ENDED_BADLY
from ...subscribers.queues.queue import Queue
from ..contents import JOB, JOB_DONE, JOB_FAILED, QUEUE
from .holdings import Holdings
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...subscribers.jobs.jobs import Job
    from .evidence import Entry, Evidence


def prove_claims(evidence: Evidence) -> Verdict:
    """Check that the claims of each job do not overlap."""
    verdict = Verdict("claims", "no job had two workers at once, and the tokens of its claims grew")
    holdings = Holdings(evidence.clock_step_ns)
    for act in evidence.acts("claim", "renew claim", "complete", "fail"):
        if act.kind == "claim":
            for seq, token in act.told["claims"] if act.told is not None else ():
                holdings.grant(act, f"job {seq}", token)
        elif act.kind == "renew claim":
            if act.told is not None and "lost" not in act.told:
                holdings.renew(act)
        else:
            holdings.give_back(act)
    holdings.judge(verdict)
    return verdict


def prove_jobs(evidence: Evidence) -> Verdict:
    """Compare every job with its answers in the log and its state in the queue."""
    verdict = Verdict(
        "jobs",
        "every job came to one end, with one answer, in one transaction, by the worker that held"
        " it; a late worker changed nothing",
    )
    wanted = {entry.seq: entry for entry in evidence.log.of_types(JOB)}
    queue = Queue.open(evidence.bus, QUEUE)
    found = {job.seq: job for job in list_jobs(queue, (), limit=len(wanted) + 1)}
    answers: dict[str, list[Entry]] = {}
    for answer in evidence.log.of_types(JOB_DONE, JOB_FAILED):
        answers.setdefault(answer.in_reply_to or "", []).append(answer)
    for seq in sorted(found.keys() - wanted.keys()):
        verdict.fail(f"message {seq} is in the queue, and is no job")
    for seq, entry in wanted.items():
        verdict.checked += 1
        for failure in _of_job(entry, found.get(seq), answers.get(entry.id, [])):
            verdict.fail(failure)
    _judge_ends(evidence, answers, wanted, verdict)
    return verdict


def _of_job(entry: Entry, job: Job | None, answers: list[Entry]) -> list[str]:
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
    evidence: Evidence, answers: dict[str, list[Entry]], jobs: dict[int, Entry], verdict: Verdict
) -> None:
    """Compare the histories of workers about the ends of their claims with the answers."""
    meant: set[tuple[int, int]] = set()
    for act in evidence.acts("complete", "fail"):
        verdict.checked += 1
        seq, token = act.what["seq"], act.what["token"]
        who = f"life {act.life} of {act.agent}"
        job = jobs.get(seq)
        own = [a for a in answers.get(job.id, ()) if a.token == token] if job is not None else []
        if act.told is None:
            meant.add((seq, token))
        elif "lost" in act.told:
            if own:
                verdict.fail(f"{who} was told that its claim of job {seq} is lost, and answered it")
        else:
            meant.add((seq, token))
            if [answer.seq for answer in own] != act.told["answers"]:
                verdict.fail(
                    f"{who} was told that job {seq} is answered by {act.told['answers']}, and it"
                    f" is by {[answer.seq for answer in own]}"
                )
    for job in jobs.values():
        for answer in answers.get(job.id, ()):
            if (job.seq, answer.token) not in meant:
                verdict.fail(f"no worker ended job {job.seq} as message {answer.seq} says")
