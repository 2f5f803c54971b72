"""The json contract, protocol 2: one request on stdin, one response on stdout."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, JobControl, Queue, Worker, work_headers
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Claim
from ackbus.workers.json_contract import JSON_TIMEOUT_S, MAX_STATE_BYTES, JsonCommand, WorkerStates
from ackbus.workers.raw_contract import RAW_TIMEOUT_S, RawCommand

from ..programs import raw_sql
from ..subscribers.work import attempts, job, state, statuses
from .hosts import LONG_S, REQUEST, answer, answers, ask, attempt, python

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

#: A plugin as people write them: it says what it can't speak, and otherwise does as it is told.
PLUGIN = """
import json, sys

SPOKEN = 2
request = json.load(sys.stdin)
if request["protocol"] != SPOKEN:
    print(f"this plugin speaks protocol {SPOKEN}, not {request['protocol']}", file=sys.stderr)
    sys.exit(78)
json.dump({"status": "ok", "result": "done", **request["event"]["payload"]}, sys.stdout)
"""

#: Answers with the request that it got.
ECHO = """
import json, sys
json.dump({"status": "ok", "result": sys.stdin.read()}, sys.stdout)
"""

OK: dict[str, Any] = {"status": "ok", "result": "done"}


@pytest.fixture(autouse=True)
def in_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def work(
    bus: Bus, plugin: str | list[str], queue: Queue | str | None = None, **options: Any
) -> int:
    """Has a Python program, or a command, work until nothing is left; failures are answers."""
    queue = queue or Queue.create(bus, REQUEST, retry="asked")
    argv = python(plugin) if isinstance(plugin, str) else plugin
    work = JsonCommand(bus, argv, group="plugin", **{"timeout_s": LONG_S} | options)
    return Worker(bus, queue, group="plugin", beats=False).run_work(work, drain=True)


def respond(bus: Bus, response: object, queue: Queue | None = None, exit_code: int = 0) -> int:
    """Asks once, of a command that prints a response (text as it is), and returns the seq."""
    text = response if isinstance(response, str) else json.dumps(response)
    Path("response").write_text(text)
    (seq,) = ask(bus, "go")
    work(bus, ["sh", "-c", f"cat response; echo said >&2; exit {exit_code}"], queue)
    return seq


def request_of(bus: Bus, seq: int = 1) -> Any:
    """The request that `ECHO` got."""
    return json.loads(answer(bus, seq).payload)


# The request.


def test_request_has_every_field(bus: Bus) -> None:
    """D-88, D-95: and the event has its source, time and identity from the bus."""
    headers = {"context": {"tenant": "t1"}} | work_headers(dedupe_key="k1")
    ask(bus, {"x": 1}, headers=headers)
    work(bus, ECHO, config={"url": "http://x"}, command="poll")
    message = bus.get(1)
    assert message is not None
    request = request_of(bus)
    deadline = request.pop("deadline_at")
    timestamp = request["event"].pop("timestamp")
    assert request == {
        "protocol": 2,
        "job_id": f"{REQUEST}:1",
        "command": "poll",
        "config": {"url": "http://x"},
        "state": {},
        "context": {"tenant": "t1"},
        "event": {
            "type": REQUEST,
            "payload": {"x": 1},
            "source": "boss",
            "event_id": message.id,
            "dedupe_key": "k1",
        },
    }
    assert datetime.fromisoformat(timestamp).timestamp() * 1000 == message.ts_ms
    assert datetime.fromisoformat(deadline).tzinfo is not None


def test_command_is_handle_unless_it_is_told_otherwise(bus: Bus) -> None:
    """D-89: the event comes with it, whatever its payload."""
    ask(bus, None)
    work(bus, ECHO)
    assert request_of(bus)["command"] == "handle"
    assert request_of(bus)["event"]["payload"] is None


@pytest.mark.parametrize("timeout_s", [45.0, None])
def test_deadline_is_the_start_and_the_timeout(bus: Bus, timeout_s: float | None) -> None:
    """D-90: for the plugin's information; there is none where it may take as long as it likes."""
    ask(bus, "go")
    work(bus, ECHO, timeout_s=timeout_s)
    deadline = request_of(bus)["deadline_at"]
    if timeout_s is None:
        assert deadline is None
        return
    began_ms = datetime.fromisoformat(deadline).timestamp() * 1000 - timeout_s * 1000
    record = attempt(bus)
    assert record.ended_at_ms is not None
    assert record.claimed_at_ms - 1 <= began_ms <= record.ended_at_ms


def test_defaults_of_the_contracts() -> None:
    """D-65: a minute for the raw contract, two for this one."""
    assert (RAW_TIMEOUT_S, JSON_TIMEOUT_S) == (60, 120)


def test_plugin_refuses_another_protocol_for_good(bus: Bus) -> None:
    """D-97: shown by a plugin of the usual kind and a forged request."""
    plugin = python(PLUGIN)
    forged = json.dumps({"protocol": 1, "event": {"payload": {}}})
    done = subprocess.run(plugin, input=forged, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == "this plugin speaks protocol 2, not 1\n"
    # And what the host makes of such an end, whatever the policy.
    queue = Queue.create(bus, REQUEST, backoff_s=0)
    ask(bus, {})
    old = ["sh", "-c", 'sed "s/\\"protocol\\":2/\\"protocol\\":1/" | "$0" "$@"', *plugin]
    assert work(bus, old, queue) == 1
    assert (state(queue), attempt(bus).exit_code) == ("dead", 78)
    assert attempt(bus).stderr == "this plugin speaks protocol 2, not 1\n"


def test_payload_that_can_not_be_had_is_a_failure(bus: Bus, bus_dir: Path) -> None:
    bus.publish(REQUEST, from_agent="boss", payload_ref=bus.blobs.put(b"\xff no json"))
    assert work(bus, ECHO) == 1
    assert "can't be had: decode_failed" in (attempt(bus).error or "")
    assert answer(bus).type == "job.failed"


# The response.


def test_ok_is_answered_with_the_result(bus: Bus) -> None:
    """D-91, Q-13: each field may be there, the protocol too."""
    full = {**OK, "protocol": 2, "error": "", "retry": True, "events": [], "state_updates": {}}
    for response in (OK, {**full, "logs": [], "unknown": 1}, f"\n {json.dumps(OK)} \n"):
        seq = respond(bus, response)
        assert (answer(bus, seq).type, answer(bus, seq).payload) == ("job.done", "done")
        assert (attempt(bus, seq).status, attempt(bus, seq).stderr) == ("completed", "said\n")


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ("banner\n" + json.dumps(OK), "the response is not valid JSON"),
        (json.dumps(OK) + json.dumps(OK), "the response is not valid JSON"),
        (json.dumps(OK) + "\nbye", "the response is not valid JSON"),
        ("", "the response is not valid JSON"),
        ("\x00", "the response is not valid JSON"),
        ("[]", "the response is not a JSON object"),
        ('"ok"', "the response is not a JSON object"),
        ({**OK, "status": "fine"}, "status in the response is neither ok nor error"),
        ({**OK, "status": None}, "status in the response is neither ok nor error"),
        ({"result": "x"}, "status in the response is neither ok nor error"),
        ({"status": "ok"}, "the response is ok, and has no result"),
        ({**OK, "result": 5}, "result in the response is not of type str"),
        ({**OK, "error": {}}, "error in the response is not of type str"),
        ({**OK, "retry": "no"}, "retry in the response is not of type bool"),
        ({**OK, "retry_after_s": "1"}, "retry_after_s in the response is not of type number"),
        ({**OK, "retry_after_s": True}, "retry_after_s in the response is not a number from 0 on"),
        ({**OK, "retry_after_s": -1}, "retry_after_s in the response is not a number from 0 on"),
        ({**OK, "events": {}}, "events in the response is not of type list"),
        ({**OK, "events": ["x"]}, "an event in the response is not an object"),
        ({**OK, "events": [{"payload": 1}]}, "type must be text"),
        ({**OK, "events": [{"type": "a b"}]}, "type 'a b' must be dotted words"),
        ({**OK, "events": [{"type": "a", "dedupe_key": ""}]}, "a dedupe key is 1 to 255"),
        ({**OK, "events": [{"type": "a", "dedupe_key": 5}]}, "is not of type str"),
        ({**OK, "state_updates": []}, "state_updates in the response is not of type dict"),
        ({**OK, "protocol": 1}, "the response is of protocol 1, not 2"),
    ],
)
def test_anything_but_one_right_object_is_an_error_of_protocol(
    bus: Bus, response: object, error: str
) -> None:
    """D-91, D-92, D-96, X-13, Q-13: with what it printed kept on the claim."""
    seq = respond(bus, response)
    record = attempt(bus, seq)
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.startswith("protocol error: ")
    assert error in record.error
    assert record.result == (response if isinstance(response, str) else json.dumps(response))
    assert record.stderr == "said\n"
    assert (answer(bus, seq).type, answer(bus, seq).payload) == ("job.failed", record.error)


def test_plain_text_is_an_answer_in_the_one_contract_and_an_error_in_the_other(bus: Bus) -> None:
    """X-13: the same text, in both."""
    seq = respond(bus, "plain text")
    assert attempt(bus, seq).status == "failed"
    (seq,) = ask(bus, "go")
    raw = RawCommand(bus, ["cat", "response"], group="g")
    Worker(bus, REQUEST, beats=False).run_work(raw, drain=True)
    assert answer(bus, seq).payload == "plain text"


def test_logs_are_kept_on_the_claim_in_their_order(bus: Bus) -> None:
    """D-93: also those of a failure."""
    levels = ("debug", "info", "warn", "error")
    logs = [{"level": level, "message": f"it is {level}"} for level in levels]
    for response in ({**OK, "logs": logs}, {"status": "error", "error": "x", "logs": logs}):
        record = attempt(bus, respond(bus, response))
        assert record.logs is not None
        assert json.loads(record.logs) == logs


@pytest.mark.parametrize(
    ("fields", "logs"),
    [
        ({"logs": [{"level": "trace", "message": "x"}]}, ["x", "'trace' are no levels"]),
        ({"logs": [{"message": "x"}, "y"]}, ["x", "y"]),
        ({"logs": {}}, ["logs are an array of objects"]),
        ({"unknown": 1}, ["'unknown' are no fields"]),
        ({"events": [{"type": "a", "more": 1}]}, ["'more' are no fields of events"]),
    ],
)
def test_what_only_comments_on_done_work_fails_nothing(
    bus: Bus, fields: dict[str, object], logs: list[str]
) -> None:
    record = attempt(bus, respond(bus, {**OK, **fields}))
    found = [each["message"] for each in json.loads(record.logs or "[]")]
    assert record.status == "completed"
    assert len(found) == len(logs)
    assert all(part in text for part, text in zip(logs, found, strict=True))


# Errors, and another attempt.


@pytest.mark.parametrize(
    ("response", "exit_code", "count", "error"),
    [
        ({"status": "error", "error": "no luck"}, 0, 3, "no luck"),
        ({"status": "error", "error": "no luck", "retry": True}, 0, 3, "no luck"),
        ({"status": "error", "error": "no luck", "retry": False}, 0, 1, "no luck"),
        ({"status": "error"}, 0, 3, "the command says error, and not which"),
        ({"status": "error", "error": "no luck", "retry": True}, 78, 1, "no luck"),
        ({"status": "error", "error": "no luck"}, 75, 3, "no luck"),
        (OK, 1, 3, "command exited with code 1"),
        ("", 1, 3, "command exited with code 1; the response is not valid JSON"),
        ("no json", 75, 3, "command exited with code 75, which asks for another attempt: said"),
        ("", 78, 1, "command exited with code 78, which forbids another attempt: said"),
        ("no json", 0, 3, "protocol error: the response is not valid JSON"),
        ({"status": "fine"}, 0, 1, "protocol error: status in the response"),
        ({"status": "fine"}, 1, 3, "command exited with code 1; status in the response"),
        ({**OK, "events": [1]}, 0, 1, "protocol error: an event in the response"),
        ({**OK, "state_updates": {"k": "x" * 1_000_001}}, 0, 1, "the result can't be stored: "),
    ],
)
def test_errors_are_tried_again_unless_that_is_forbidden(
    bus: Bus, response: object, exit_code: int, count: int, error: str
) -> None:
    """D-71, D-72, X-14: a bad exit code outweighs a good response."""
    queue = Queue.create(bus, REQUEST, max_attempts=3, backoff_s=0)
    seq = respond(bus, response, queue, exit_code)
    assert (statuses(queue, seq), state(queue, seq)) == (["failed"] * count, "dead")
    first = attempts(queue, seq)[0]
    assert first.exit_code == exit_code
    assert (first.error or "").startswith(error)
    assert exit_code not in (75, 78) or "JSON" not in (first.error or "")
    assert len(answers(bus, seq)) == 1
    if count == 1:  # no other attempt is planned
        assert (job(queue, seq).attempt, job(queue, seq).gate) == (1, "open")


def test_another_attempt_comes_after_the_pause_that_the_response_names(bus: Bus) -> None:
    """Issue 19, item 13: in place of the queue's own, which would be an hour here."""
    queue = Queue.create(bus, REQUEST, max_attempts=2, backoff_s=3600)
    seq = respond(bus, {"status": "error", "error": "busy", "retry_after_s": 0}, queue)
    assert statuses(queue, seq) == ["failed", "failed"]


def test_killed_and_timed_out_plugins_are_tried_again(bus: Bus) -> None:
    """D-52, D-66, D-72: none may stay; what is to live on is not a plugin."""
    queue = Queue.create(bus, REQUEST, max_attempts=2, backoff_s=0)
    (killed,) = ask(bus, "go")
    work(bus, ["sh", "-c", "kill -9 $$"], queue)
    (hanging,) = ask(bus, "go")
    work(bus, ["sleep", "60"], queue, timeout_s=0.2)
    assert statuses(queue, killed) == ["failed", "failed"]
    assert statuses(queue, hanging) == ["timed_out", "timed_out"]
    assert attempts(queue, hanging)[0].error == "command timed out after 0.2 seconds"


# Events.


def test_events_follow_from_the_request(bus: Bus) -> None:
    """D-94: broadcast, in the conversation, before the answer, with an exact type."""
    events = [{"type": "disk.full", "payload": {"at": 90}}, {"type": "disk.seen"}]
    seq = respond(bus, {**OK, "events": events})
    request, *found, said = bus.read(after_seq=seq - 1)
    assert [(event.type, event.payload) for event in found] == [
        ("disk.full", {"at": 90}),
        ("disk.seen", None),
    ]
    assert {event.from_agent for event in found} == {"plugin"}
    assert {event.to_agent for event in found} == {None}
    assert {event.in_reply_to for event in found} == {request.id}
    assert {event.conversation for event in found} == {request.conversation}
    assert said.type == "job.done"


def test_dedupe_key_of_an_event_is_that_of_the_downstream_job(bus: Bus) -> None:
    """D-94: it is a header of the event, and the job that the event becomes has it.

    A second success is kept out.
    """
    downstream = Queue.create(bus, "disks", "disk.*")
    for _ in "12":
        respond(bus, {**OK, "events": [{"type": "disk.full", "dedupe_key": "sda"}]})
        Worker(bus, downstream, beats=False).run(lambda message: None, drain=True)
    first, second = bus.read(type="disk.full")
    assert first.headers["dedupe_key"] == second.headers["dedupe_key"] == "sda"
    assert (job(downstream, first.seq).dedupe_key, state(downstream, first.seq)) == (
        "sda",
        "succeeded",
    )
    assert state(downstream, second.seq) == "cancelled"
    assert f"duplicate of {first.seq}" in (job(downstream, second.seq).error or "")


def test_context_and_trace_go_with_the_events(bus: Bus) -> None:
    """Q-22: through the request, its event, and what follows from that."""
    headers = {"traceparent": TRACE, "context": {"tenant": "t1"}}
    ask(bus, {"events": [{"type": "next.request", "payload": {}}]}, headers=headers)
    work(bus, PLUGIN)
    work(bus, PLUGIN, Queue.create(bus, "next.request"))
    found = [(message.type, message.headers) for message in bus.read()]
    assert [type for type, _ in found] == [REQUEST, "next.request", "job.done", "next.done"]
    assert {told["context"]["tenant"] for _, told in found} == {"t1"}
    assert {told["traceparent"][:35] for _, told in found} == {TRACE[:35]}
    assert len({told["traceparent"][36:52] for _, told in found}) == 4


def test_failed_attempt_publishes_no_event_and_keeps_no_state(bus: Bus) -> None:
    more = {"events": [{"type": "disk.full"}], "state_updates": {"a": 1}}
    respond(bus, {"status": "error", "error": "x", **more})
    respond(bus, {**OK, **more}, exit_code=1)
    assert list(bus.read(type="disk.full")) == []
    assert WorkerStates.of(bus).get("plugin") == {}


def test_bad_event_among_good_ones_fails_the_job_and_nothing_of_it_is_stored(bus: Bus) -> None:
    bad = {"type": "x", "dedupe_key": "k" * 256}
    seq = respond(bus, {**OK, "state_updates": {"a": 1}, "events": [{"type": "good"}, bad]})
    assert attempt(bus, seq).status == "failed"
    assert [message.type for message in bus.read(after_seq=seq - 1)] == [REQUEST, "job.failed"]
    assert WorkerStates.of(bus).get("plugin") == {}


# State.


def test_state_updates_are_merged_key_by_key(bus: Bus, bus_dir: Path) -> None:
    """D-84, D-85, X-25: one row for each group, which the next request holds.

    Facts are a later room's: here updates are written through.
    """
    respond(bus, {**OK, "state_updates": {"a": 1, "b": {"c": 1}}})
    respond(bus, {**OK, "state_updates": {"b": {"d": 2}, "e": None}})
    (seq,) = ask(bus, "go")
    work(bus, ECHO)
    assert request_of(bus, seq)["state"] == {"a": 1, "b": {"d": 2}, "e": None}
    assert raw_sql(bus_dir, "SELECT worker_group FROM worker_states") == [["plugin"]]


def test_state_belongs_to_the_group(bus: Bus) -> None:
    """D-82, D-87: tokens that a plugin refreshes stay its own."""
    respond(bus, {**OK, "state_updates": {"access_token": "t1"}})
    ask(bus, "go")
    other = JsonCommand(bus, python(ECHO), group="other")
    Worker(bus, REQUEST, group="other", beats=False).run_work(other, drain=True)
    assert request_of(bus, 3)["state"] == {}


def test_state_above_a_megabyte_fails_the_job_and_stays_as_it_was(bus: Bus) -> None:
    """D-86, X-19: to the byte; what ended the attempt is kept with it."""
    overhead = len('{"a":1,"big":""}')
    fits = "x" * (MAX_STATE_BYTES - overhead)
    respond(bus, {**OK, "state_updates": {"a": 1}})
    seq = respond(bus, {**OK, "state_updates": {"big": fits + "x"}})
    record = attempt(bus, seq)
    assert (record.status, record.exit_code, record.stderr) == ("failed", 0, "said\n")
    assert "the state of plugin would be 1000001 bytes of JSON; the limit is 1000000" in (
        record.error or ""
    )
    assert answer(bus, seq).type == "job.failed"
    assert WorkerStates.of(bus).get("plugin") == {"a": 1}
    seq = respond(bus, {**OK, "state_updates": {"big": fits}})
    assert attempt(bus, seq).status == "completed"
    assert WorkerStates.of(bus).get("plugin") == {"a": 1, "big": fits}


def test_outcome_follow_ups_and_state_are_one_transaction(bus: Bus, bus_dir: Path) -> None:
    """U-61, U-62, U-79, P-86: all that comes of an attempt is stored, or nothing of it.

    What marks a message as handled is the end of its claim. Here the file refuses the last write.
    """
    file_of(bus).refuses_foreign_objects = False
    raw_sql(
        bus_dir,
        "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN NEW.type = 'job.done'"
        " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
    )
    queue = Queue.create(bus, REQUEST)
    ask(bus, {"events": [{"type": "next"}], "state_updates": {"a": 1}})
    assert work(bus, PLUGIN, queue) == 1
    assert [message.type for message in bus.read()] == [REQUEST, "job.failed"]
    assert WorkerStates.of(bus).get("plugin") == {}
    assert (state(queue), statuses(queue)) == ("dead", ["failed"])  # its work is done
    assert "refused by the test" in (attempt(bus).error or "")
    raw_sql(bus_dir, "DROP TRIGGER refuse")
    JobControl(queue).retry(1)
    assert work(bus, PLUGIN, queue) == 1
    assert [message.type for message in bus.read()][2:] == ["next", "job.done"]
    assert WorkerStates.of(bus).get("plugin") == {"a": 1}
    assert statuses(queue) == ["failed", "completed"]


def test_late_worker_changes_no_state(bus: Bus) -> None:
    """Promise 6: neither message nor state comes of a claim that was lost."""
    queue = Queue.create(bus, REQUEST)
    ask(bus, {"events": [{"type": "next"}], "state_updates": {"a": 1}})

    class Slow(JsonCommand):
        def do(self, claim: Claim) -> Any:
            JobControl(queue).cancel(claim.message.seq)
            return super().do(claim)

    slow = Slow(bus, python(PLUGIN), group="plugin")
    Worker(bus, queue, group="plugin", beats=False).run_work(slow, drain=True)
    told = [(message.type, message.from_agent) for message in bus.read(after_seq=1)]
    assert told == [("job.failed", REQUEST)]  # by the queue, when it was cancelled
    assert WorkerStates.of(bus).get("plugin") == {}
    assert "reported too late: completed" in (attempt(bus).error or "")


def test_output_above_the_limit_is_an_error_with_its_beginning_kept(bus: Bus) -> None:
    """D-67: as in the raw contract."""
    ask(bus, "go")
    work(bus, [sys.executable, "-c", "print('a' * 11 * 2**20)"])
    assert (attempt(bus).status, attempt(bus).result) == ("failed", "a" * 65_536)
