"""The raw contract: body on stdin, result on stdout, and what each exit means."""

import base64
import gc
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from ackbus import Bus, JobControl, Queue, Worker
from ackbus.errors import InvalidInput
from ackbus.workers.processes.run_process import MAX_STDERR_BYTES, MAX_STDOUT_BYTES
from ackbus.workers.raw_contract import RawCommand

from ..conftest import wait_until
from ..subscribers.work import attempts, job, state, statuses
from .hosts import LONG_S, REQUEST, answer, answers, ask, attempt, is_alive, pid_in, python

MIB = 1024 * 1024
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def in_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def work(
    bus: Bus, command: str | list[str], queue: Queue | str | None = None, **options: Any
) -> int:
    """Has a command, or a shell script, work until nothing is left; failures are answers."""
    queue = queue or Queue.create(bus, REQUEST, retry="asked")
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    raw = RawCommand(bus, argv, group="smiths", **{"timeout_s": LONG_S} | options)
    return Worker(bus, queue, group="smiths", beats=False).run_work(raw, drain=True)


# What goes in, and what comes out.


def test_command_reads_the_body_and_what_it_prints_is_the_answer(bus: Bus) -> None:
    """P-34, P-35, P-37, P-41: linked to the request, and in its conversation."""
    ask(bus, "hello", correlation_id="talk")
    assert work(bus, "tr a-z A-Z") == 1
    said = answer(bus)
    assert (said.type, said.payload, said.conversation) == ("job.done", "HELLO", "talk")
    record = attempt(bus)
    assert (record.status, record.exit_code, record.result) == ("completed", 0, "HELLO")
    assert state(Queue.open(bus, REQUEST)) == "succeeded"


@pytest.mark.parametrize(
    ("payload", "read"),
    [
        ("text as it is: é\n", "text as it is: é\n"),
        ({"b": [1, None], "a": "é"}, '{"a":"é","b":[1,null]}'),
        (None, "null"),
        (17, "17"),
    ],
)
def test_text_is_read_as_it_is_and_other_payloads_as_json(
    bus: Bus, payload: object, read: str
) -> None:
    ask(bus, payload)
    work(bus, "cat")
    assert answer(bus).payload == read


def test_message_without_a_payload_is_an_empty_body(bus: Bus) -> None:
    bus.publish(REQUEST, from_agent="boss")
    work(bus, "wc -c")
    assert answer(bus).payload.strip() == "0"


def test_blob_that_is_no_json_is_read_as_its_bytes(bus: Bus) -> None:
    blob = bytes(range(256))
    bus.publish(REQUEST, from_agent="boss", payload_ref=bus.blobs.put(blob))
    work(bus, ["base64", "-w0"])
    assert base64.b64decode(answer(bus).payload) == blob


def test_body_that_is_gone_is_a_failure(bus: Bus, bus_dir: Path) -> None:
    ref = bus.blobs.put(b"[1]")
    bus.publish(REQUEST, from_agent="boss", payload_ref=ref)
    for path in (bus_dir / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    assert work(bus, "cat") == 1
    assert attempt(bus).status == "failed"
    assert "can't be had: blob_missing" in (attempt(bus).error or "")


@pytest.mark.parametrize("size", [MIB, 5 * MIB])
def test_large_body_comes_and_goes_whole(bus: Bus, size: int) -> None:
    """P-88, X-19: far more than a pipe or a row holds, drained while the command runs."""
    body = "0123456789abcdef" * (size // 16)
    ask(bus, body)
    work(bus, "cat")
    assert answer(bus).payload == body


def test_every_message_has_a_process_of_its_own_and_none_is_left(bus: Bus) -> None:
    """P-36, D-51: no process between jobs."""
    ask(bus, *range(5))
    work(bus, "echo $$")
    pids = {int(found.payload) for found in bus.read(type="job.done")}
    assert len(pids) == 5
    assert not any(map(is_alive, pids))


def test_answer_tells_how_it_came_about(bus: Bus) -> None:
    """P-42: upstream's metadata repeat stdout, and name a plugin.

    Ours are headers: command, status, exit_code, and stderr if there was any. A timeout has no
    exit code. Each answer is one hop from what was asked.
    """
    # A shell that waits for a program would say that it was terminated, if it lives that long.
    ask(bus, "echo fine; echo note >&2", "exit 3", "exec sleep 60", "true")
    work(bus, ["sh", "-c", 'eval "$(cat)"'], timeout_s=3)
    told = [answer(bus, seq).headers for seq in (1, 2, 3, 4)]
    assert told == [
        {"command": "sh", "status": "completed", "exit_code": 0, "stderr": "note\n", "hops": 1},
        {"command": "sh", "status": "failed", "exit_code": 3, "hops": 1},
        {"command": "sh", "status": "timed_out", "hops": 1},
        {"command": "sh", "status": "completed", "exit_code": 0, "hops": 1},
    ]
    assert {answer(bus, seq).from_agent for seq in (1, 2, 3, 4)} == {"smiths"}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("printf 'bad input' >&2; echo half; exit 2", "bad input"),
        ("echo half; exit 2", "half\n"),
        ("exit 2", "command exited with code 2"),
        ("kill -9 $$", "command was killed by signal 9"),
    ],
)
def test_failure_is_told_by_stderr_or_stdout_or_the_exit(bus: Bus, script: str, said: str) -> None:
    """P-38: on the failure type, with a failed claim."""
    ask(bus, "go")
    work(bus, script)
    assert (answer(bus).type, answer(bus).payload) == ("job.failed", said)
    assert (attempt(bus).status, state(Queue.open(bus, REQUEST))) == ("failed", "failed")


def test_error_of_a_python_program_is_the_last_line_of_its_traceback(bus: Bus) -> None:
    ask(bus, "go")
    work(bus, f"{shlex.quote(sys.executable)} -c 'raise ValueError(\"no such feed\")'")
    assert attempt(bus).error == "command exited with code 1: ValueError: no such feed"


def test_signal_is_exit_code_minus_one_and_output_that_is_no_text_is_kept_as_far_as_it_is(
    bus: Bus,
) -> None:
    """P-51: also by SIGTERM; and the stderr is quoted."""
    ask(bus, "go")
    work(bus, r"printf 'a\377b'; printf '\377' >&2; kill -TERM $$")
    record = attempt(bus)
    assert (record.exit_code, record.result, record.stderr) == (-1, "a\ufffdb", "\ufffd")
    assert record.error == "command was killed by signal 15: \ufffd"


def test_command_may_close_its_stdin_early(bus: Bus) -> None:
    """P-50: with a body of a mebibyte, too."""
    ask(bus, "x" * MIB, "short")
    assert work(bus, "exec <&-; echo fine") == 2
    assert [answer(bus, seq).payload for seq in (1, 2)] == ["fine\n", "fine\n"]


# Time.


def test_timeout_has_a_type_of_its_own(bus: Bus) -> None:
    """P-39: named after the request, whatever the others are called.

    The body says how long it ran, and what the command said.
    """
    ask(bus, "go")
    Queue.create(bus, REQUEST, retry="asked")
    raw = RawCommand(bus, ["sh", "-c", "echo slow >&2; exec sleep 60"], group="smiths", timeout_s=3)
    Worker(bus, REQUEST, failure_type="job.broken", beats=False).run_work(raw, drain=True)
    assert answer(bus).type == "job.request.timed_out"
    assert answer(bus).payload == "command timed out after 3 seconds\nslow\n"
    assert (attempt(bus).status, attempt(bus).exit_code) == ("timed_out", None)
    assert state(Queue.open(bus, REQUEST)) == "timed_out"


def test_timeout_follows_the_retry_policy(bus: Bus) -> None:
    """D-52, D-66: and a command that never ends is ended each time."""
    queue = Queue.create(bus, REQUEST, max_attempts=2, backoff_s=0)
    ask(bus, "go")
    assert work(bus, "exec sleep 60", queue, timeout_s=0.1) == 2
    assert (statuses(queue), state(queue)) == (["timed_out", "timed_out"], "dead")
    assert answer(bus).type == "job.request.timed_out"


def test_command_that_never_reads_a_large_body_runs_into_its_timeout(bus: Bus) -> None:
    """P-89: the body is fed while its time runs."""
    ask(bus, "x" * MIB)
    began = time.monotonic()
    work(bus, "exec sleep 60", timeout_s=0.3)
    assert attempt(bus).status == "timed_out"
    assert time.monotonic() - began < LONG_S / 2


def test_timeout_takes_the_children_along(bus: Bus) -> None:
    """P-90, X-12: ours ends the whole group, with SIGTERM first."""
    ask(bus, "go")
    work(bus, "sleep 60 & echo $! >pid; wait", timeout_s=3)
    assert attempt(bus).status == "timed_out"
    assert not is_alive(pid_in(Path("pid")))


# Exit codes and retries.


@pytest.mark.parametrize(
    ("script", "asked", "failures"),
    [
        ("exit 1", (["failed"], "failed"), (["failed"] * 3, "dead")),
        ("exit 75", (["failed"] * 3, "dead"), (["failed"] * 3, "dead")),
        ("exit 78", (["failed"], "failed"), (["failed"], "dead")),
        ("kill -9 $$", (["failed"], "failed"), (["failed"] * 3, "dead")),
        ("exit 0", (["completed"], "succeeded"), (["completed"], "succeeded")),
    ],
)
def test_exit_code_and_policy_decide_about_another_attempt(
    bus: Bus,
    script: str,
    asked: tuple[list[str], str],
    failures: tuple[list[str], str],
) -> None:
    """X-14, X-02, D-72: 78 never, 75 always, the others by the queue's policy. One answer."""
    for retry, (claims, end) in {"asked": asked, "failures": failures}.items():
        queue = Queue.create(bus, f"q.{retry}", REQUEST, retry=retry, max_attempts=3, backoff_s=0)
        (seq,) = ask(bus, retry)
        if retry == "failures":
            queue.fill()
            JobControl(queue).cancel(1)  # it is the other queue's
        work(bus, script, queue)
        assert (statuses(queue, seq), state(queue, seq)) == (claims, end)
        assert len(answers(bus, seq)) == 1


# What is kept.


def test_output_above_the_limit_is_a_failure_with_its_beginning_kept(bus: Bus) -> None:
    """D-67, X-19, X-24: after 10 MiB the command is ended.

    Ours keeps 65,536 characters on the claim, where the source stores all 10 MiB.
    """
    ask(bus, "go")
    work(bus, python("print('a' * 11 * 2**20)"))
    record = attempt(bus)
    assert record.status == "failed"
    assert record.error == f"the command printed more than {MAX_STDOUT_BYTES} bytes"
    assert record.result == "a" * 65_536
    assert answer(bus).type == "job.failed"


def test_stderr_is_cut_with_a_warning_and_the_job_may_succeed(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """D-68: 64 KiB are kept; the answer quotes the beginning."""
    ask(bus, "go")
    work(bus, python("import sys; sys.stderr.write('e' * 100 * 1024); print('fine')"))
    assert attempt(bus).status == "completed"
    assert attempt(bus).stderr == "e" * MAX_STDERR_BYTES
    assert answer(bus).headers["stderr"] == "e" * 4096
    assert f"message 1: stderr was cut to {MAX_STDERR_BYTES} bytes" in caplog.text


@pytest.mark.parametrize("character", ["\U0001f600", "\x01", "é"])
def test_stderr_of_any_characters_does_not_turn_success_into_failure(
    bus: Bus, character: str
) -> None:
    """Headers have a limit in bytes: what would break it is left out, and is on the claim."""
    ask(bus, "go", headers={"context": {"x": "y" * 5000}})
    work(bus, python(f"import sys; sys.stderr.write({character!a} * 4096); print('fine')"))
    assert (attempt(bus).status, answer(bus).payload) == ("completed", "fine\n")
    assert attempt(bus).stderr == character * 4096
    assert answer(bus).headers["context"] == {"x": "y" * 5000}


def test_command_whose_name_is_no_text_works(bus: Bus, tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"w\xffrk")
    with open(path, "w") as file:
        file.write("#!/bin/sh\necho fine\n")
    os.chmod(path, 0o700)
    ask(bus, "go")
    work(bus, [os.fsdecode(path)])
    assert (answer(bus).payload, answer(bus).headers["command"]) == ("fine\n", "w\ufffdrk")


# What it is told.


def variables(bus: Bus, seq: int) -> dict[str, str]:
    """The environment variables that a command, which printed all of them, had."""
    lines = answer(bus, seq).payload.split("\0")
    return dict(line.split("=", 1) for line in lines if line)


def test_command_is_told_about_its_job(bus: Bus, bus_dir: Path) -> None:
    ask(bus, "go", correlation_id="talk")
    work(bus, ["env", "-0"])
    message = bus.get(1)
    assert message is not None
    told = {key: value for key, value in variables(bus, 1).items() if key.startswith("BUS_")}
    told.pop("BUS_KEYS_DIR")  # what the tests set for themselves
    assert told == {
        "BUS_DIR": str(bus_dir),
        "BUS_AGENT": "smiths",
        "BUS_MESSAGE_ID": message.id,
        "BUS_MESSAGE_SEQ": "1",
        "BUS_MESSAGE_TYPE": REQUEST,
        "BUS_FROM": "boss",
        "BUS_CORRELATION_ID": "talk",
        "BUS_QUEUE": REQUEST,
        "BUS_ATTEMPT": "1",
        "BUS_MAX_ATTEMPTS": "4",
        "BUS_CLAIM_TOKEN": "1",
    }


def test_entries_of_meta_are_variables_of_that_run_alone(bus: Bus) -> None:
    """P-49: ours begin with BUS_META_. Text as it is, other values as JSON."""
    ask(
        bus,
        "go",
        headers={"meta": {"model-name": "gé", "top.k": 3, "opts": {"a": [1]}, "z": "0\0"}},
    )
    ask(bus, "go")
    ask(bus, "go", headers={"meta": "no object"})
    work(bus, ["env", "-0"])
    meta = [
        {key: value for key, value in variables(bus, seq).items() if key.startswith("BUS_META_")}
        for seq in (1, 2, 3)
    ]
    first = {
        "BUS_META_MODEL_NAME": "gé",
        "BUS_META_TOP_K": "3",
        "BUS_META_OPTS": '{"a":[1]}',
        "BUS_META_Z": "0",
    }
    assert meta == [first, {}, {}]


def test_trace_goes_through_every_hop(bus: Bus) -> None:
    """Q-22: the same trace in the request, the command's environment and the answer.

    Each has a span of its own.
    """
    ask(bus, "go", headers={"traceparent": TRACE, "tracestate": "vendor=1", "mine": "stays"})
    work(bus, 'printf "%s %s" "$TRACEPARENT" "$TRACESTATE"')
    in_command, trace_state = answer(bus).payload.split()
    in_answer = answer(bus).headers["traceparent"]
    assert (trace_state, answer(bus).headers["tracestate"]) == ("vendor=1", "vendor=1")
    assert "mine" not in answer(bus).headers
    traces = [TRACE, in_command, in_answer]
    assert {trace[:35] for trace in traces} == {TRACE[:35]}
    assert len({trace[36:52] for trace in traces}) == 3
    assert {trace[52:] for trace in traces} == {"-01"}


def test_trace_state_that_is_none_is_not_told_to_the_command(bus: Bus) -> None:
    """A malformed header must not keep the command from starting."""
    ask(bus, "go", headers={"traceparent": TRACE, "tracestate": "a\0b"})
    work(bus, 'printf "%s %s" "${TRACEPARENT%-*-*}" "[$TRACESTATE]"')
    assert answer(bus).payload == f"{TRACE[:35]} []"


@pytest.mark.parametrize(
    "parent",
    ["nonsense", "00-short-b7ad6b7169203331-01", TRACE.replace("0", "\0"), 5, None],
)
def test_header_that_is_no_trace_context_is_dropped(bus: Bus, parent: object) -> None:
    ask(bus, "go", headers={"traceparent": parent})
    work(bus, 'printf "%s" "${TRACEPARENT-none}"')
    assert answer(bus).payload == "none"
    assert "traceparent" not in answer(bus).headers


# Kinds of commands.


@contextmanager
def warm_tool() -> Iterator[str]:
    """A service that is there all the time; the URL that answers in upper case."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.upper())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


_ADAPTER = """
import os, sys, urllib.request
request = urllib.request.Request(os.environ["BUS_META_URL"], sys.stdin.buffer.read())
sys.stdout.buffer.write(urllib.request.urlopen(request).read())
"""


def test_every_style_of_backend_is_a_plain_command(bus: Bus) -> None:
    """P-02, P-53: a transformation, a program of its own, an adapter to a warm tool or an API.

    The bus knows none of them.
    """
    own = "import sys; sys.stdout.write(sys.stdin.read().upper())"
    with warm_tool() as url:
        for number, command in enumerate((["tr", "a-z", "A-Z"], python(own), python(_ADAPTER))):
            (seq,) = ask(bus, f"body {number}", headers={"meta": {"url": url}})
            work(bus, command)
            assert answer(bus, seq).payload == f"BODY {number}"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["/nope"], "there is no command '/nope'"),
        (["no-such-command"], "there is no command 'no-such-command'"),
        (["./plain"], "'./plain' is not executable"),
    ],
)
def test_command_that_can_not_be_started_is_a_failure_each_time(
    bus: Bus, command: list[str], error: str
) -> None:
    """P-91: with an answer, and the worker serves the next message."""
    Path("plain").write_text("text")
    ask(bus, "a", "b")
    assert work(bus, command) == 2
    for seq in (1, 2):
        assert (attempt(bus, seq).status, attempt(bus, seq).error) == ("failed", error)
        assert (answer(bus, seq).type, answer(bus, seq).payload) == ("job.failed", error)


@pytest.mark.parametrize(
    ("argv", "options"), [([], {}), (["true"], {"timeout_s": 0}), (["true"], {"timeout_s": -1})]
)
def test_command_that_makes_no_sense_is_refused(
    bus: Bus, argv: list[str], options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        RawCommand(bus, argv, group="smiths", **options)


# Ended from outside.


def test_cancelled_job_ends_its_command(bus: Bus) -> None:
    """Its worker notices when it renews; the command gets SIGTERM, and nothing is published."""
    queue = Queue.create(bus, REQUEST)
    ask(bus, "hang", "next")
    raw = RawCommand(
        bus, ["sh", "-c", 'test "$(cat)" = next || { echo $$ >pid; exec sleep 60; }'], group="g"
    )
    worker = Worker(bus, queue, lease_s=1, beats=False)
    thread = threading.Thread(target=lambda: worker.run_work(raw, drain=True), daemon=True)
    thread.start()
    pid = pid_in(Path("pid"))
    JobControl(queue).cancel(1, "not wanted")
    wait_until(lambda: not is_alive(pid))
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert (job(queue, 1).state, statuses(queue, 1)) == ("cancelled", ["lost"])
    assert attempts(queue, 1)[0].error == "not wanted"
    assert answer(bus, 1).headers["status"] == "cancelled"  # from the queue
    assert len(answers(bus, 2)) == 1


def test_stop_now_ends_all_commands_and_hands_their_jobs_back(bus: Bus) -> None:
    queue = Queue.create(bus, REQUEST)
    ask(bus, *range(5))
    raw = RawCommand(bus, ["sh", "-c", "echo $$ >>pids; exec sleep 60"], group="g")
    worker = Worker(bus, queue, concurrency=3, beats=False)
    thread = threading.Thread(target=lambda: worker.run_work(raw), daemon=True)
    thread.start()
    pids = Path("pids")
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    worker.stop_now()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert not any(is_alive(int(pid)) for pid in pids.read_text().split())
    assert {(state(queue, seq), job(queue, seq).attempt) for seq in range(1, 6)} == {("queued", 1)}
    assert [statuses(queue, seq) for seq in range(1, 6)] == [["lost"]] * 3 + [[]] * 2


def test_worker_descriptors_are_given_back(bus: Bus) -> None:
    """Pitfall 8: none is left behind by 20 jobs and two runs of a worker."""
    ask(bus, *range(10))
    work(bus, "cat")
    gc.collect()  # what earlier tests have left
    before = len(os.listdir("/dev/fd"))
    ask(bus, *range(20))
    work(bus, "cat")
    # SQLite keeps the closed one of a thread while another thread has the file open.
    assert len(os.listdir("/dev/fd")) <= before + 2


def test_answer_is_text_even_where_it_looks_like_json(bus: Bus) -> None:
    """X-13: in the raw contract what is printed is the answer, as it is."""
    ask(bus, "go")
    work(bus, 'echo \'{"status": "error"}\'')
    assert answer(bus).type == "job.done"
    assert orjson.loads(answer(bus).payload) == {"status": "error"}
