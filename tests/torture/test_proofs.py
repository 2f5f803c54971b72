"""A proof that can't fail proves nothing: each kind of damage is found by its proof."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ackbus import Draft, Message
from ackbus.torture.evidence import RunEvidence, Verdict, prove_claims, prove_jobs, prove_leases
from ackbus.torture.proofs import (
    ExpectedMail,
    prove,
    prove_agents,
    prove_answers,
    prove_export,
    prove_files,
    prove_inboxes,
    prove_order,
    prove_publishing,
    prove_resources,
)
from ackbus.torture.run import MIN_MEASUREMENTS, Measurements

from ..programs import raw_sql, tamper
from .conftest import Copy

pytestmark = pytest.mark.slow

Lines = list[Any]

#: What each proof must have looked at, at the least, for it to mean something.
LOOKED_AT = {
    "agents": 200,
    "publishing": 20,
    "order": 50,
    "inboxes": 30,
    "answers": 5,
    "leases": 5,
    "claims": 10,
    "jobs": 10,
    "export": 3,
    "files": 5,
    "resources": 1,
}


def failure(verdict: Verdict) -> str:
    """The one failure that a proof tells of."""
    assert not verdict.holds
    assert verdict.failed == 1, verdict.failures
    return verdict.failures[0]


def told(lines: Lines, kind: str, fits: Callable[[Any, Any], object]) -> tuple[Any, Any] | None:
    """The first act of a kind that was told something that fits, as its two lines."""
    for intent, outcome in pairwise(lines):
        is_told = intent.get("act") == kind and "result" in outcome
        if is_told and fits(intent["what"], outcome["result"]):
            return intent, outcome
    return None


def without(messages: list[Message], damaged: Message) -> list[Message]:
    return [message for message in messages if message is not damaged]


def last_note(copy: Copy) -> Message:
    """A message of which its publisher was told, and that nothing depends on.

    It is not the newest of the log: a number that lacks its message shows by those that follow.
    """
    lives = [
        [json.loads(line) for line in life.read_bytes().splitlines()]
        for life in copy.lives("publisher")
    ]
    acknowledged = {
        message[0]
        for lines in lives
        for intent, outcome in pairwise(lines)
        if intent.get("act") == "publish" and "result" in outcome
        for message in intent["what"]["messages"]
    }
    messages = list(copy.bus.read())
    parents = {message.in_reply_to for message in messages}
    return next(
        message
        for message in reversed(messages[:-1])
        if message.type == "note" and message.to_agent and message.id in acknowledged - parents
    )


def test_an_undamaged_copy_holds(copy: Copy) -> None:
    proof = prove(copy.bus, copy.files, Measurements(copy.files.bus))
    assert [v.failures for v in proof.verdicts if not v.holds] == []
    looked_at = {verdict.name: verdict.checked for verdict in proof.verdicts}
    assert looked_at.keys() == LOOKED_AT.keys()
    assert {name: least for name, least in LOOKED_AT.items() if looked_at[name] < least} == {}


# Publishing and order


def test_a_message_that_was_lost_from_the_file_is_named(copy: Copy) -> None:
    """The whole way: another program removes an acknowledged message from the database."""
    lost = last_note(copy)
    assert lost.seq > copy.bus.archive.upto()
    tamper(Path(copy.files.bus), f"DELETE FROM messages WHERE seq = {lost.seq}")
    verdicts = {
        verdict.name: verdict
        for verdict in prove(copy.bus, copy.files, Measurements(copy.files.bus)).verdicts
    }
    text = failure(verdicts["publishing"])
    assert text.endswith(f"was told that {lost.id} is message {lost.seq}, and it is not there")
    assert not verdicts["export"].holds
    assert failure(verdicts["files"]).startswith("numbers without a message")


def test_a_message_that_is_there_twice_is_named(copy: Copy) -> None:
    doubled = last_note(copy)
    messages = [*copy.bus.read(), doubled]
    evidence = RunEvidence(copy.bus, copy.files.histories, messages)
    assert doubled.id in failure(prove_publishing(evidence))
    assert "stands behind message" in failure(prove_order(evidence))


def test_a_message_that_nobody_published_is_named(copy: Copy) -> None:
    copy.bus.publish("note", from_agent="publisher-003", to_agent="reader-004", id="made up")
    assert failure(prove_publishing(copy.evidence())) == (
        "message made up is in the log, but was never published"
    )


def test_a_message_with_other_content_is_named(copy: Copy) -> None:
    changed = last_note(copy)
    tamper(
        Path(copy.files.bus),
        f"UPDATE messages SET payload = '\"other\"', payload_ref = NULL WHERE seq = {changed.seq}",
    )
    assert f"message {changed.id} is in the log as" in failure(prove_publishing(copy.evidence()))


def test_another_number_than_was_told_is_named(copy: Copy) -> None:
    def change(lines: Lines) -> bool:
        found = told(lines, "publish", lambda what, told: True)
        if found is not None:
            found[1]["result"]["seqs"][0] += 1
        return found is not None

    copy.change("publisher", change)
    assert "was told that" in failure(prove_publishing(copy.evidence()))


def test_half_a_batch_is_named(copy: Copy) -> None:
    batch: list[str] = []

    def cut_off(lines: Lines) -> bool:
        found = told(lines, "publish", lambda what, told: len(what["messages"]) > 1)
        if found is not None:
            lines.remove(found[1])
            batch.extend(line[0] for line in found[0]["what"]["messages"])
        return found is not None

    copy.change("publisher", cut_off)
    messages = [message for message in copy.bus.read() if message.id != batch[0]]
    evidence = RunEvidence(copy.bus, copy.files.histories, messages)
    expected = f"was cut off in a batch, and {len(batch) - 1} of {len(batch)} were stored"
    assert expected in failure(prove_publishing(evidence))


def test_a_number_below_one_that_was_given_before_is_named(copy: Copy) -> None:
    """Promise 2: two publishes one after the other, and the numbers the other way round."""
    lines = [["x.1", "note", None, 40, None]], [["x.2", "note", None, 40, None]]
    copy.write_life(
        "publisher-999",
        {"at": 1, "act": "publish", "what": {"messages": lines[0]}},
        {"at": 2, "result": {"seqs": [2]}},
        {"at": 3, "act": "publish", "what": {"messages": lines[1]}},
        {"at": 4, "result": {"seqs": [1]}},
    )
    verdict = prove_order(copy.evidence())
    assert verdict.failures[0].startswith(
        "life 1 of publisher-999 was given message 1 after life 1 of publisher-999"
    )


# Inboxes


def test_a_delivery_that_was_skipped_is_named(copy: Copy) -> None:
    """Of a message to the agent itself: a new one need not be given an archived broadcast."""
    direct = {message.seq for message in copy.bus.read() if message.to_agent is not None}
    skipped: list[int] = []

    def change(lines: Lines) -> bool:
        found = told(lines, "poll", lambda what, told: direct.intersection(told["seqs"][1:-1]))
        if found is not None:
            seqs = found[1]["result"]["seqs"]
            skipped.append(next(seq for seq in seqs[1:-1] if seq in direct))
            seqs.remove(skipped[0])
        return found is not None

    copy.change("reader", change)
    assert failure(prove_inboxes(copy.evidence())).endswith(f" without {skipped[0]}")


def test_a_cursor_that_moved_by_itself_is_named(copy: Copy) -> None:
    def change(lines: Lines) -> bool:
        found = told(lines, "ack", lambda what, told: True)
        if found is not None:
            found[1]["result"]["cursor"] += 1
        return found is not None

    copy.change("reader", change)
    assert "acknowledged" in failure(prove_inboxes(copy.evidence()))


def test_a_poll_that_ignored_an_acknowledgement_is_named(copy: Copy) -> None:
    """Redelivery is for what was not acknowledged."""

    def change(lines: Lines) -> bool:
        polls = [line for line in lines if "seqs" in line.get("result", {})]
        full = [line for line in polls if line["result"]["seqs"]]
        if len(full) > 1:
            full[1]["result"]["seqs"] = full[0]["result"]["seqs"]
        return len(full) > 1

    copy.change("reader", change)
    assert "had acknowledged" in failure(prove_inboxes(copy.evidence()))


def test_a_message_that_was_there_and_did_not_come_is_named(copy: Copy) -> None:
    """Pitfall 10: a poll that brings less than it may must bring all that was published before."""
    newest = last_note(copy).seq
    copy.write_life(
        "publisher-999",
        {"at": 1, "act": "publish", "what": {"messages": [["x", "note", None, 40, None]]}},
        {"at": 2, "result": {"seqs": [newest]}},
    )
    first = prove_inboxes(copy.evidence()).failures[0]
    assert " had acknowledged " in first
    assert " without " in first


@pytest.mark.parametrize(
    ("cursor", "seqs", "missing", "in_order"),
    [
        (0, [1, 3, 4], None, True),
        (1, [3, 4], None, True),
        (1, [4], 3, True),
        (1, [3, 6], 4, True),
        (1, [4, 3], 3, False),
        (4, [3, 4], 6, False),
        (4, [], 6, True),
        (6, [], None, True),
        (0, [4, 6], None, True),  # 1 and 3 were archived before the agent acknowledged anything
        (2, [4], 3, True),
        (1, [2, 3], 3, False),
    ],
)
def test_mail_that_a_poll_brought_is_held_against_all(
    cursor: int, seqs: list[int], missing: int | None, in_order: bool
) -> None:
    """An own broadcast (2) is no mail, and a new agent begins with what the log still holds."""
    mail = ExpectedMail([1, 3, 4, 6], archived=frozenset({1, 3}))
    limit = max(1, len(seqs))
    assert (mail.missing(cursor, seqs, limit), mail.has(cursor, seqs)) == (missing, in_order)


def test_mail_that_a_reader_never_had_is_named(copy: Copy) -> None:
    (reader, *_) = (path.parent.name for path in copy.lives("reader"))
    seq = copy.bus.publish("note", from_agent="somebody", to_agent=reader).seq
    assert failure(prove_inboxes(copy.evidence())).endswith(f"and has mail up to {seq}")


def test_a_cursor_that_is_not_where_it_was_left_is_named(copy: Copy) -> None:
    (reader, *_) = (path.parent.name for path in copy.lives("reader"))
    seq = copy.bus.publish("note", from_agent="somebody", to_agent=reader).seq
    raw_sql(
        Path(copy.files.bus),
        f"UPDATE cursors SET last_acked_seq = {seq} WHERE agent_id = '{reader}'",
    )
    assert f"{reader} is at {seq}" in failure(prove_inboxes(copy.evidence()))


def test_a_second_answer_is_named(copy: Copy) -> None:
    answer = next(copy.bus.read(type="answer"))
    copy.bus.publish_many(
        [Draft("answer", from_agent=answer.from_agent, in_reply_to=answer.in_reply_to)]
    )
    assert f"question {answer.in_reply_to}" in failure(prove_answers(copy.evidence()))


def test_a_lost_answer_is_named(copy: Copy) -> None:
    messages = list(copy.bus.read())
    lost = next(message for message in messages if message.type == "answer")
    evidence = RunEvidence(copy.bus, copy.files.histories, without(messages, lost))
    assert "has 0 answers" in failure(prove_answers(evidence))


# Leases, claims, jobs

#: A moment within a grant, in nanoseconds after the holder was told of it.
SOON_NS = 1_000


def grant_again(copy: Copy, role: str, kind: str, change: Callable[[Any, Any], None]) -> None:
    """Lets a stranger be granted what somebody holds, who is killed with it, and be told so."""
    again: list[Any] = []

    def find(lines: Lines) -> bool:
        found = told(lines, kind, lambda what, told: told.get("token") or told.get("claims"))
        if found is not None:
            again.extend(json.loads(json.dumps(found)))
            del lines[lines.index(found[1]) + 1 :]
        return found is not None

    copy.change(role, find)
    intent, outcome = again
    intent["at"] = outcome["at"] + SOON_NS
    outcome["at"] += 2 * SOON_NS
    change(intent, outcome)
    copy.write_life("stranger", intent, outcome)


def test_a_lease_that_two_held_at_once_is_named(copy: Copy) -> None:
    def change(intent: Any, outcome: Any) -> None:
        outcome["result"]["token"] += 0.5  # later than the other's, and nobody else's

    grant_again(copy, "holder", "acquire", change)
    first = prove_leases(copy.evidence()).failures[0]
    assert "stranger" in first
    assert "held lease" in first


def test_a_token_that_did_not_grow_is_named(copy: Copy) -> None:
    def change(intent: Any, outcome: Any) -> None:
        outcome["result"]["token"] -= 0.5
        intent["what"]["lease"] = "another"

    grant_again(copy, "holder", "acquire", change)
    failures = prove_leases(copy.evidence()).failures
    assert any("stranger was given token" in text for text in failures)


def test_a_late_holder_that_wrote_is_named(copy: Copy) -> None:
    newest = {turn.payload["lease"]: turn.payload["token"] for turn in copy.bus.read(type="turn")}
    lease, token = newest.popitem()
    late = {"lease": lease, "token": token - 1}
    copy.bus.publish("turn", late, from_agent="holder-007")
    verdict = prove_leases(copy.evidence())
    assert f"was written under token {token - 1}" in verdict.failures[0]


def test_a_write_under_a_lease_that_was_lost_is_named(copy: Copy) -> None:
    messages = list(copy.bus.read())
    lost = [message for message in messages if message.type == "turn"][-1]
    evidence = RunEvidence(copy.bus, copy.files.histories, without(messages, lost))
    assert f"under token {lost.payload['token']}" in failure(prove_leases(evidence))


def test_a_job_that_two_had_at_once_is_named(copy: Copy) -> None:
    def change(intent: Any, outcome: Any) -> None:
        outcome["result"]["claims"] = [
            [seq, token + 0.5] for seq, token in outcome["result"]["claims"][-1:]
        ]

    grant_again(copy, "worker", "claim", change)
    first = prove_claims(copy.evidence()).failures[0]
    assert "stranger" in first
    assert "held job" in first


def test_a_job_with_two_answers_is_named(copy: Copy) -> None:
    done = next(copy.bus.read(type="job.done"))
    copy.bus.publish("job.done", done.payload, from_agent="w", in_reply_to=done.in_reply_to)
    assert "has 2 answers" in prove_jobs(copy.evidence()).failures[0]


def test_a_job_without_an_answer_is_named(copy: Copy) -> None:
    messages = list(copy.bus.read())
    lost = next(message for message in messages if message.type == "job.done")
    evidence = RunEvidence(copy.bus, copy.files.histories, without(messages, lost))
    assert "has 0 answers" in prove_jobs(evidence).failures[0]


def test_a_job_that_the_queue_does_not_know_is_named(copy: Copy) -> None:
    job = next(copy.bus.read(type="job"))
    raw_sql(
        Path(copy.files.bus),
        "PRAGMA foreign_keys = OFF",
        f"DELETE FROM jobs WHERE seq = {job.seq}",
    )
    assert failure(prove_jobs(copy.evidence())) == f"job {job.seq} is not in the queue"


def test_a_late_worker_that_answered_is_named(copy: Copy) -> None:
    def change(lines: Lines) -> bool:
        found = told(lines, "complete", lambda what, told: "answers" in told)
        if found is not None:
            found[1]["result"] = {"lost": True}
        return found is not None

    copy.change("worker", change)
    failures = prove_jobs(copy.evidence()).failures
    assert "was told that its claim of job" in failures[0]


def test_an_end_that_nobody_made_is_named(copy: Copy) -> None:
    def change(lines: Lines) -> bool:
        found = told(lines, "complete", lambda what, told: "answers" in told)
        if found is not None:
            lines.remove(found[0])
            lines.remove(found[1])
        return found is not None

    copy.change("worker", change)
    assert "no worker ended job" in failure(prove_jobs(copy.evidence()))


# Files, and the agents themselves


@pytest.mark.parametrize("name", ["bus.jsonl", "bus-000001.jsonl", "bus.index.json"])
def test_one_changed_byte_of_an_exported_file_is_named(copy: Copy, name: str) -> None:
    path = Path(copy.files.bus, name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert f"of {name} is not that of a rebuild" in failure(
        prove_export(copy.bus, copy.files.exported)
    )
    assert Path(copy.files.exported, name).read_bytes() == data  # kept, to be looked at


def test_a_part_that_is_missing_is_named(copy: Copy) -> None:
    Path(copy.files.bus, "bus-000001.jsonl").unlink()
    assert "a rebuild writes" in failure(prove_export(copy.bus, copy.files.exported))


def test_an_altered_blob_is_named(copy: Copy) -> None:
    ref = copy.bus.blobs.put(b"a long payload")
    copy.bus.publish("note", from_agent="a", payload_ref=ref)
    (path,) = Path(copy.files.bus, "blobs").rglob(ref)
    path.chmod(0o600)
    path.write_bytes(b"a lost payload!")
    assert "blobs: 1 of" in failure(prove_files(copy.bus))


def test_a_locked_database_is_named_and_counted(copy: Copy) -> None:
    copy.write_life(
        "unlucky",
        {"at": 1, "act": "publish", "what": {"messages": []}},
        {"at": 2, "error": "BusBusy: another process has held write.lock for 30 s"},
        {"at": 3, "act": "logged", "error": "a heart can't beat: database is locked"},
    )
    verdict, locked, _ = prove_agents(copy.evidence(), ())
    assert (verdict.failed, locked) == (2, 2)
    assert any("unlucky, at publish: BusBusy" in text for text in verdict.failures)


def test_a_process_that_ended_by_itself_is_named(copy: Copy) -> None:
    verdict, locked, _ = prove_agents(copy.evidence(), ["life 3 of worker-005 ended by itself"])
    assert failure(verdict) == "life 3 of worker-005 ended by itself"
    assert locked == 0


def measured(copy: Copy, *, wal_bytes: int = 0, grown: int = 0) -> Measurements:
    """Measurements of this process over a minute, in which it opens files."""
    measures = Measurements(copy.files.bus)
    opened = []
    for second in range(MIN_MEASUREMENTS):
        if second == MIN_MEASUREMENTS // 2:
            opened = [open(os.devnull, "rb") for _ in range(grown)]  # noqa: SIM115
        measures.take({"me": (1, os.getpid())})
    for file in opened:
        file.close()
    measures.max_wal_bytes = wal_bytes
    return measures


def test_what_stays_as_it_is_holds(copy: Copy) -> None:
    verdict = prove_resources(measured(copy))
    assert verdict.holds
    assert verdict.checked == (2 if os.path.exists("/proc/self/fd") else 1)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="this system does not tell")
def test_descriptors_that_are_not_given_back_are_named(copy: Copy) -> None:
    """Pitfall 8."""
    assert failure(prove_resources(measured(copy, grown=50))).endswith("by 50 descriptors")


def test_a_write_ahead_log_that_grows_is_named(copy: Copy) -> None:
    assert "the write-ahead log had" in failure(prove_resources(measured(copy, wal_bytes=2**30)))
