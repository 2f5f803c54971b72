"""bus request, check."""

import json
import re
import signal
import time
from collections.abc import Callable

import pytest

from ackbus import Bus, JobControl, Priority, Queue
from ackbus.subscribers.queues.queue_set import QueueWorkers

from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error

pytestmark = [
    pytest.mark.usefixtures("bus_dir"),
    pytest.mark.filterwarnings(
        "ignore::ackbus.errors.AnsweredAgainWarning"
    ),  # requests are answered more than once here
]

ME = ("--from", "me")

Ended = tuple[int, bytes, bytes]


@pytest.fixture
def served(bus: Bus) -> None:
    """A group of workers is there for the requests, by its heart: nothing is warned of."""
    QueueWorkers(bus).note(Queue.create(bus, "t.request").info, "crew")
    bus.heartbeats.beat("crew")


@pytest.fixture
def answered(start_bus: StartBus, bus: Bus, served: None) -> Callable[..., Ended]:
    """Runs ``bus request t.request`` and answers it; returns code, stdout, stderr after the ids."""

    def run(type: str, payload: object, *options: str) -> Ended:
        process = start_bus("request", "t.request", "?", *ME, *options)
        assert process.stderr is not None
        process.stderr.readline()
        (asked,) = bus.read(type="t.request")
        bus.publish(type, payload, from_agent="you", in_reply_to=asked.id)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return run


def test_ids_are_told_at_once_and_before_any_answer(start_bus: StartBus, bus: Bus) -> None:
    """P-54, P-19: message_id and conversation on stderr, while it waits."""
    process = start_bus("request", "t.request", "?", *ME, "--to", "you", "--meta", "n=1")
    assert process.stderr is not None
    lines = [process.stderr.readline().decode() for _ in range(2)]
    (asked,) = bus.read()
    assert lines[0].startswith("bus: warning: the bus has never seen an agent 'you'")
    ids = f"message_id={asked.id} conversation={asked.id} type=t.request"
    assert lines[1] == f"bus: published {ids}\n"
    assert (asked.from_agent, asked.to_agent, asked.payload) == ("me", "you", "?")
    assert asked.headers == {"meta": {"n": 1}}
    assert process.poll() is None


@pytest.mark.usefixtures("served")
def test_ids_are_json_for_programs(start_bus: StartBus, bus: Bus) -> None:
    """P-20: one JSON object on stderr."""
    process = start_bus("request", "t.request", *ME, "--json")
    assert process.stderr is not None
    told = json.loads(process.stderr.readline())
    (asked,) = bus.read()
    assert told == {
        "event": "published",
        "message_id": asked.id,
        "conversation": asked.id,
        "type": "t.request",
    }
    reply = bus.publish("t.done", {"n": 1}, from_agent="you", in_reply_to=asked.id)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out) == {
        "state": "success",
        "conversation": asked.id,
        "message_id": reply.id,
        "type": "t.done",
        "payload": {"n": 1},
    }


@pytest.mark.parametrize(
    ("type", "code"), [("t.done", 0), ("t.failed", 1), ("t.request.timed_out", 1)]
)
def test_answer_goes_to_stdout_and_decides_the_exit_code(
    type: str, code: int, answered: Callable[..., Ended]
) -> None:
    """P-56, P-60, P-83: 0 on success, 1 with no extra stderr on a failure or a timeout."""
    assert answered(type, "two\nlines") == (code, b"two\nlines\n", b"")


@pytest.mark.parametrize(
    ("payload", "printed"),
    [
        ("ends in a newline\n", b"ends in a newline\n"),
        ("\x1b[31m Grüße \t", "\x1b[31m Grüße \t\n".encode()),
        ("", b""),
        ({"a": [1, None]}, b'{"a":[1,null]}\n'),
        (None, b"null\n"),
        ("x" * 100_000, b"x" * 100_000 + b"\n"),
    ],
    ids=["newline", "control", "empty", "json", "null", "large"],
)
def test_body_comes_as_it_is(
    payload: object, printed: bytes, answered: Callable[..., Ended]
) -> None:
    """P-56: text untouched, all else as JSON; large payloads are read in."""
    assert answered("t.done", payload) == (0, printed, b"")


def test_types_of_the_answers_can_be_given(answered: Callable[..., Ended]) -> None:
    """P-54: --success-type and --failure-type."""
    options = ("--success-type", "yes", "--failure-type", "no")
    assert answered("no", "never", *options) == (1, b"never\n", b"")


@pytest.mark.usefixtures("served")
def test_own_timeout_ends_with_5_and_one_line(run_bus: RunBus, bus: Bus) -> None:
    """P-60: a time limit of its own; the answer may still come."""
    done = run_bus("request", "t.request", "?", *ME, "--timeout", "200ms")
    (asked,) = bus.read()
    assert (done.code, done.out) == (5, "")
    _, line = done.err.splitlines()
    assert line == (
        f"bus: no answer to {asked.id} within 0.2 s; it may still come: see 'bus check {asked.id}'"
    )


@pytest.mark.parametrize(
    "source", [("-",), ("--file", "-"), ("--data", "-"), ()], ids=["dash", "file", "data", "none"]
)
def test_body_comes_from_stdin(source: tuple[str, ...], run_bus: RunBus, bus: Bus) -> None:
    """P-57: without a body, what comes through a pipe is the body."""
    line = ("request", "t.request", *source, *ME, "--timeout", "0")
    assert run_bus(*line, stdin='"`x`"').code == 5
    (asked,) = bus.read()
    assert asked.payload == ("`x`" if "--data" in source else '"`x`"')


def test_without_pipe_and_body_there_is_no_payload(start_bus: StartBus, bus: Bus) -> None:
    """P-57: /dev/null is nobody's message."""
    process = start_bus("request", "t.request", *ME, "--timeout", "0")
    process.communicate(timeout=60)
    assert process.returncode == 5
    assert not next(bus.read()).has_payload


def test_bad_requests_publish_nothing(run_bus: RunBus, bus: Bus) -> None:
    """P-22, P-84: each mistake is one line."""
    assert_error(run_bus("request", "ask", "?", *ME), 2, "'ask'", ".request")
    assert_error(run_bus("request", "t.request", "?"), 2, "--from")
    for wrong in ("missing_equals", "=v"):
        line = ("request", "t.request", "?", *ME, "--meta", wrong)
        assert_error(run_bus(*line), 2, "KEY=VALUE", wrong)
    assert_error(run_bus("request", "t.request", "?", *ME, "--timeout", "soon"), 2, "--timeout")
    assert_error(run_bus("request", "t.request", *ME), 2, "standard input is empty")
    assert_error(run_bus("request", "t.request", "?", "--data", "1", *ME), 2, "--data")
    assert bus.log.newest_seq() == 0


def test_metadata_is_json_where_it_is_such(run_bus: RunBus, bus: Bus) -> None:
    """P-22, P-58: split at the first equals sign; what is not JSON is text."""
    given = {"temperature": "0.7", "model": "a:b", "eq": "a=b", "on": "true", "empty": ""}
    given["huge"] = "9" * 30
    options = [part for key, value in given.items() for part in ("--meta", f"{key}={value}")]
    run_bus("request", "t.request", "?", *ME, "--timeout", "0", *options)
    assert next(bus.read()).headers == {
        "meta": given | {"temperature": 0.7, "on": True},
    }


def test_answer_whose_payload_is_gone_is_an_error(run_bus: RunBus, bus: Bus) -> None:
    root = bus.publish("t.request", from_agent="me")
    bus.publish("t.done", "x" * 10_000, from_agent="you", in_reply_to=root.id)
    for ref in bus.blobs:
        bus.blobs.remove(ref)
    checked = run_bus("check", root.id)
    assert (checked.code, checked.err) == (
        1,
        "bus: the payload of message 2 can't be had: blob_missing; see 'bus show 2'\n",
    )
    record = json.loads(run_bus("check", root.id, "--json").out)
    assert record["payload_error"] == "blob_missing"
    assert "payload" not in record


def test_request_that_is_repeated_with_its_id_asks_once(run_bus: RunBus, bus: Bus) -> None:
    """A terminal was lost, or the time was up: the same command again finds the answer."""
    line = ("request", "t.request", "?", *ME, "--id", "ask-1", "--meta", "n=1")
    assert run_bus(*line, "--timeout", "0").code == 5
    bus.publish("t.done", "here", from_agent="you", in_reply_to="ask-1")
    again = run_bus(*line, "--timeout", "20")
    assert (again.code, again.out) == (0, "here\n")
    assert "message_id=ask-1 conversation=ask-1" in again.err
    assert bus.log.newest_seq() == 2
    other = run_bus("request", "t.request", "!", *ME, "--id", "ask-1")
    assert_error(other, 3, "'ask-1'", "seq 1")


def test_request_has_a_priority(run_bus: RunBus, bus: Bus) -> None:
    line = ("request", "t.request", "?", *ME, "--timeout", "0")
    assert run_bus(*line, "--priority", "interactive").code == 5
    assert next(bus.read()).priority == Priority.INTERACTIVE
    assert_error(run_bus(*line, "--priority", "high"), 2, "high")


def test_request_waits_for_room_or_is_refused(
    run_bus: RunBus, start_bus: StartBus, bus: Bus
) -> None:
    """Q-04: as bus publish does."""
    queue = Queue.create(bus, "t.request")
    JobControl(queue).limit(1)
    bus.publish("t.request", from_agent="me")
    line = ("request", "t.request", "?", *ME, "--timeout", "0")
    assert_error(run_bus(*line), 3, "is full")
    assert_error(run_bus(*line, "--wait", "20ms"), 3, "is full")
    waiting = start_bus(*line, "--wait", "20s")
    (claim,) = queue.claim("worker")
    queue.complete(claim)
    assert waiting.wait(timeout=60) == 5
    assert bus.log.newest_seq() == 2


@pytest.mark.usefixtures("served")
def test_ctrl_c_ends_the_wait_with_130(start_bus: StartBus, bus: Bus) -> None:
    process = start_bus("request", "t.request", "?", *ME)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


@pytest.mark.slow
def test_worker_and_requester_meet(start_bus: StartBus, run_bus: RunBus, bus: Bus) -> None:
    """P-60: a worker that times out ends the request too, non-zero."""
    worker = start_bus(
        *("run", "--type", "t.request", "--timeout", "3s", "--"),
        *("sh", "-c", 'read body; [ "$body" = slow ] && exec sleep 60; echo "did $body"'),
    )
    asked = run_bus("request", "t.request", "it\n", *ME, "--timeout", "20")
    assert (asked.code, asked.out) == (0, "did it\n")
    began = time.monotonic()
    slow = run_bus("request", "t.request", "slow\n", *ME, "--timeout", "20")
    assert slow.code == 1
    assert time.monotonic() - began < 20
    assert len(slow.err.splitlines()) == 1
    assert next(bus.read(type="t.request.timed_out")).to_agent == "me"
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)


TS = r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\]"


def test_check_says_how_a_conversation_stands(run_bus: RunBus, bus: Bus) -> None:
    """P-61, P-62: one line and the body; exit 0 pending and success, 1 failure."""
    root = bus.publish("t.request", from_agent="me")
    pending = run_bus("check", root.id)
    assert (pending.code, pending.err) == (0, "")
    assert re.fullmatch(rf"{TS} pending conversation={root.id}\n", pending.out)
    for type, state, code in (("t.failed", "failure", 1), ("t.done", "success", 0)):
        reply = bus.publish(type, f"body of {type}", from_agent="you", in_reply_to=root.id)
        done = run_bus("check", root.id)
        first, rest = done.out.split("\n", 1)
        ids = f"conversation={root.id} message_id={reply.id} type={type}"
        assert re.fullmatch(rf"{TS} {state} {ids}", first)
        assert (done.code, rest, done.err) == (code, f"body of {type}\n", "")
    assert run_bus("check", root.id, "--first").code == 1


def test_check_as_json(run_bus: RunBus, bus: Bus) -> None:
    """P-63, P-64: pending has two keys; the latest answer counts, or with --first the first."""
    root = bus.publish("t.request", from_agent="me")
    pending = {"state": "pending", "conversation": root.id}
    assert json.loads(run_bus("check", root.id, "--json").out) == pending
    first = bus.publish("t.request.timed_out", from_agent="you", in_reply_to=root.id)
    last = bus.publish("t.done", [1], from_agent="you", in_reply_to=root.id)
    expected = {"state": "success", "message_id": last.id, "type": "t.done", "payload": [1]}
    assert json.loads(run_bus("check", root.id, "--json").out) == pending | expected
    done = run_bus("check", root.id, "--json", "--first")
    expected = {"state": "timed_out", "message_id": first.id, "type": "t.request.timed_out"}
    assert (done.code, json.loads(done.out)) == (1, pending | expected)


def test_check_of_an_unknown_conversation_is_not_pending(run_bus: RunBus) -> None:
    """P-65 had it pending, with exit 0: a misspelt id was waited for, for ever."""
    assert_error(run_bus("check", "nobody-began-it"), 4, "nobody-began-it", "bus read")
    assert_error(run_bus("check", "99"), 4, "'99'", "bus read")


def test_check_takes_the_id_or_the_seq_of_any_message(run_bus: RunBus, bus: Bus) -> None:
    root = bus.publish("t.request", from_agent="a")
    late = bus.publish("note", from_agent="b", in_reply_to=root.id)
    for key in (root.id, str(root.seq), late.id, str(late.seq)):
        assert f"pending conversation={root.id}\n" in run_bus("check", key).out


def test_check_by_other_types(run_bus: RunBus, bus: Bus) -> None:
    """P-61: --success-type and --failure-type, where the convention says nothing."""
    root = bus.publish("ask", from_agent="me")
    bus.publish("yes", "!", from_agent="you", in_reply_to=root.id)
    assert_error(run_bus("check", root.id), 2, "'ask'")
    assert run_bus("check", root.id, "--success-type", "yes").out.endswith("\n!\n")
    assert run_bus("check", root.id, "--failure-type", "yes").code == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("request", ["stdin", "250 ms", "Exit code 1", "for ever", "x.done"]),
        ("check", ["pending", "Exit code 0", "--first"]),
        ("notify", ["--once", "2s", "once", "BUS_NOTIFY_BACKEND"]),
        ("inspect", ["live_active", "expired_active", "terminal"]),
        ("trace", ["claim:TOKEN", "QUEUE:SEQ"]),
    ],
)
def test_help_states_the_contract(command: str, words: list[str], run_bus: RunBus) -> None:
    """P-58, P-78, P-82, P-84: defaults and contract words."""
    shown = " ".join(run_bus(command, "--help").out.split())
    for word in words:
        assert word in shown, word


def test_answer_to_a_requester_that_died_waits_for_check(
    start_bus: StartBus, run_bus: RunBus, bus: Bus
) -> None:
    """P-69: publish, keep going, read later: the ids are enough."""
    process = start_bus("request", "t.request", "?", *ME)
    wait_until(lambda: bus.log.newest_seq() == 1)
    process.kill()
    process.wait(timeout=60)
    (asked,) = bus.read()
    bus.publish("t.done", "later", from_agent="you", in_reply_to=asked.id)
    assert run_bus("check", asked.id).out.endswith("\nlater\n")
