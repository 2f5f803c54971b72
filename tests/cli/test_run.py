"""`bus run`: a worker from the command line, with every way in which its command can misbehave."""

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import ClaimRecord
from ackbus.subscribers.queues.queues import Queues
from ackbus.subscribers.queues.statistics import QueueStats
from ackbus.subscribers.views import list_jobs

from ..conftest import RunBus, wait_until
from ..subscribers.work import attempts, job, state, statuses
from ..workers.hosts import REQUEST, answer, answers, ask, attempt, is_alive
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.slow  # starts many processes

# The usual way.


def test_request_is_answered(bus: Bus, run_bus: RunBus) -> None:
    """P-34, P-43: the answer types need not be given, and can be."""
    ask(bus, "hello", "fail")
    drained = run_bus("run", "--type", REQUEST, "--drain", "--", "tr", "a-z", "A-Z")
    assert (drained.code, drained.out, drained.err) == (0, "", "")
    assert (answer(bus, 1).type, answer(bus, 1).payload) == ("job.done", "HELLO")
    (seq,) = ask(bus, "again")
    types = ("--success-type", "work.fine", "--failure-type", "work.broken")
    assert run_bus("run", "--type", REQUEST, *types, "--once", "--", "false").code == 0
    assert answer(bus, seq).type == "work.broken"


def test_failure_of_the_command_is_no_failure_of_the_worker(bus: Bus, run_bus: RunBus) -> None:
    """P-48, P-83: exit 0 after a job that failed, with one warning for people."""
    ask(bus, "a", "b")
    ended = run_bus("run", "--type", REQUEST, "--once", "--", "sh", "-c", "echo bad >&2; exit 2")
    assert (ended.code, ended.out) == (0, "")
    follows = "no other follows; 'bus job retry 1' tries the job again"
    assert f"message 1: command exited with code 2: bad ({follows})" in ended.err
    queue = Queue.open(bus, REQUEST)
    assert (state(queue, 1), statuses(queue, 2)) == ("failed", [])


@pytest.mark.parametrize(
    ("max_attempts", "follows"),
    [
        (2, "attempt 1 of 2; another follows"),
        (1, "attempt 1 of 1; the job is dead: see 'bus dead show 1'"),
    ],
)
def test_worker_tells_whether_another_attempt_follows_a_failure(
    bus: Bus, run_bus: RunBus, max_attempts: int, follows: str
) -> None:
    queue = Queue.create(bus, REQUEST, retry="asked", max_attempts=max_attempts)
    ask(bus, "a")
    ended = run_bus("run", "--type", REQUEST, "--once", "--", "sh", "-c", "echo bad >&2; exit 75")
    assert ended.err.rstrip().endswith(f"({follows})")
    assert state(queue, 1) == ("dead" if max_attempts == 1 else "queued")


def test_once_waits_for_a_message_in_a_bus_that_is_named_without_a_folder(
    bus: Bus, start_bus: StartBus
) -> None:
    """P-48, P-95: started before anything is published, with a directory of one bare name."""
    args = ("run", "--dir", ".worker-state", "--type", REQUEST, "--once", "--", "cat")
    host = start_bus(*args)
    wait_until(lambda: bus.heartbeats.list())
    ask(bus, "a", "b")
    assert host.wait(60) == 0
    assert [len(answers(bus, seq)) for seq in (1, 2)] == [1, 0]


def test_drain_ends_when_there_is_nothing(bus: Bus, run_bus: RunBus) -> None:
    """Also for a pattern that matches nothing, and the queue is there afterwards."""
    ask(bus, "a")
    ended = run_bus("run", "--type", "nothing.like.*", "--drain", "--", "cat")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert Queue.open(bus, "nothing.like.*").info.pattern == "nothing.like.*"
    assert bus.log.newest_seq() == 1


def test_a_worker_says_that_its_queue_is_paused(bus: Bus, run_bus: RunBus) -> None:
    Queue.create(bus, "a")
    Queues(bus).pause("a")
    ended = run_bus("run", "--type", "a", "--drain", "--", "cat")
    assert ended.code == 0
    assert "queue 'a' is paused: no job begins before 'bus queue resume a'" in ended.err
    assert "not empty" not in ended.err
    bus.publish("a", from_agent="lead")
    ended = run_bus("run", "--type", "a", "--drain", "--", "cat")
    assert "queue 'a' is not empty: 1 job waiting, as it is paused" in ended.err


def test_group_lease_and_timeout_have_their_defaults(bus: Bus, run_bus: RunBus) -> None:
    """P-44, P-45, D-65: a lease is the timeout and 30 s, or 300 s without a timeout.

    It is no longer than a lease may be. The group has the queue's name, and that has the type's.
    """
    expected = {
        (): 90,
        ("--timeout", "5s"): 35,
        ("--timeout", "0"): 300,
        ("--lease", "7s"): 7,
        ("--timeout", "3d"): 86_400,
        ("--contract", "json", "--queue", "j", "--retry", "asked"): 150,
    }
    for options, lease_s in expected.items():
        (seq,) = ask(bus, "a")
        ended = run_bus("run", "--type", REQUEST, *options, "--drain", "--", "true")
        assert ended.code == 0, ended
        record = attempt(bus, seq, "j" if "--queue" in options else REQUEST)
        assert record.lease_until_ms - record.claimed_at_ms == lease_s * 1000
        assert record.group == f"{record.queue}-worker"
    (seq,) = ask(bus, "a")
    run_bus("run", "--type", REQUEST, "--group", "smiths", "--drain", "--", "true")
    assert attempt(bus, seq).group == "smiths"
    assert re.fullmatch(r"smiths-\d+-[0-9a-f]{8}", attempt(bus, seq).instance)


def test_debug_log_is_a_matter_of_the_environment(bus: Bus, run_bus: RunBus) -> None:
    """P-52: the lines about claims and waits are there with BUS_LOG=debug, and only then."""
    ask(bus, "a")
    command = ("run", "--type", REQUEST, "--once", "--", "cat")
    assert "claimed message 1 as 1" in run_bus(*command, env={"BUS_LOG": "debug"}).err
    ask(bus, "a")
    assert run_bus(*command).err == ""


def test_json_contract_has_a_config_and_a_state(bus: Bus, run_bus: RunBus, project: Path) -> None:
    """D-88, D-93, D-96: from end to end, with the config in a file."""
    (project / "config.json").write_text('{"greeting": "hello"}')
    (project / "plugin").write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "request = json.load(sys.stdin)\n"
        "count = request['state'].get('count', 0) + 1\n"
        "print(json.dumps({'status': 'ok', 'state_updates': {'count': count},\n"
        "    'result': request['config']['greeting'] + ' ' + str(count),\n"
        "    'logs': [{'level': 'info', 'message': 'counted'}]}))\n"
    )
    (project / "plugin").chmod(0o700)
    ask(bus, "a", "b")
    args = ("--contract", "json", "--config", "@config.json", "--drain", "--", "./plugin")
    assert run_bus("run", "--type", REQUEST, *args).code == 0
    assert [answer(bus, seq).payload for seq in (1, 2)] == ["hello 1", "hello 2"]
    assert json.loads(attempt(bus, 2).logs or "") == [{"level": "info", "message": "counted"}]


def test_the_rule_of_a_new_queue_is_the_one_that_is_asked_for(bus: Bus, run_bus: RunBus) -> None:
    """X-02: the contract decides, unless an option says how to retry.

    A queue that is there is left as it is.
    """
    for options, retry in (
        (("--queue", "raw"), "contract"),
        (("--queue", "json", "--contract", "json"), "contract"),
        (("--queue", "own", "--retry", "failures", "--max-attempts", "2"), "failures"),
        (("--queue", "three", "--max-attempts", "3"), "failures"),
        (("--queue", "slow", "--backoff", "1s"), "failures"),
        (("--queue", "answers", "--retry", "asked", "--max-attempts", "3"), "asked"),
        (("--queue", "answers", "--max-attempts", "3"), "asked"),
    ):
        assert run_bus("run", "--type", "x", *options, "--drain", "--", "cat").code == 0
        assert Queue.open(bus, options[1]).info.policy.retry == retry
    assert Queue.open(bus, "own").info.policy.max_attempts == 2
    assert run_bus("run", "--queue", "own", "--drain", "--", "cat").code == 0
    assert Queue.open(bus, "own").info.policy.retry == "failures"


@pytest.mark.parametrize("maker", ["library", "queue create", "run"])
def test_retries_do_not_depend_on_the_maker_of_the_queue(
    bus: Bus, run_bus: RunBus, maker: str
) -> None:
    """A raw failure is the reply at once; a failure of the json contract is tried again."""
    for contract, left in (("raw", "failed"), ("json", "queued")):
        if maker == "library":
            Queue.create(bus, f"{contract}.request")
        elif maker == "queue create":
            run_bus("queue", "create", f"{contract}.request")
        seq = bus.publish(f"{contract}.request", from_agent="boss").seq
        line = ["run", "--type", f"{contract}.request", "--contract", contract, "--drain"]
        assert run_bus(*line, "--", "false").code == 0
        assert Queue.open(bus, f"{contract}.request").jobs.get(seq).state == left


def test_three_attempts_are_three(bus: Bus, run_bus: RunBus) -> None:
    """Asking for attempts asks for retries, also of a command of the raw contract."""
    bus.publish("x", from_agent="a")
    rules = ("--max-attempts", "3", "--backoff", "0")
    assert run_bus("run", "--type", "x", *rules, "--drain", "--", "false").code == 0
    (job,) = Queue.open(bus, "x").jobs.list()
    assert (job.state, job.attempt, job.max_attempts) == ("dead", 3, 3)


# Bad input.

STUBBORN = "trap '' TERM; echo $$ >stubborn; while :; do sleep 0.1; done"

#: What the header `do` of a message makes the command do: a shell script, each with the end of
#: its claim: status, exit code, and what its error says.
MISBEHAVIOUR = {
    "prints 11 MiB": ("head -c 11534336 /dev/zero", "failed", None, "printed more than"),
    "never reads": ("exec sleep 60", "timed_out", None, "timed out after 3 seconds"),
    "closes stdin": ("exec <&-; sleep 0.1; echo fine", "completed", 0, None),
    "forks children": ("sleep 60 & sleep 60 & echo $! >child; wait", "timed_out", None, "timed"),
    "leaves a child": ("sleep 60 >/dev/null 2>&1 & echo $! >left; echo fine", "completed", 0, None),
    "ignores TERM": (STUBBORN, "timed_out", None, "timed out"),
    "is killed": ("kill -9 $$", "failed", -1, "killed by signal 9"),
    "says nothing": ("exit 3", "failed", 3, "exited with code 3"),
    "fits": ("wc -c", "completed", 0, None),
}  # fmt: skip


def test_every_misbehaviour_has_its_end_and_the_host_goes_on(
    bus: Bus, run_bus: RunBus, project: Path
) -> None:
    """P-50, P-88 to P-91, X-12, X-19, D-66, D-67: each has its end, recorded on the claim.

    Each comes with a body of a mebibyte, after a message that is handled.
    """
    body = "x" * 1024 * 1024
    bad = {
        name: ask(bus, body, headers={"meta": {"do": script}})[0]
        for name, (script, *_) in MISBEHAVIOUR.items()
        for _ in (ask(bus, "good", headers={"meta": {"do": "cat"}}),)
    }
    options = ("--type", REQUEST, "--timeout", "3s", "--concurrency", "4", "--drain")
    ended = run_bus("run", *options, "--", "sh", "-c", 'eval "$BUS_META_DO"')
    assert ended.code == 0
    assert "Traceback" not in ended.err
    for name, (_, status, exit_code, error) in MISBEHAVIOUR.items():
        record = attempt(bus, bad[name])
        assert (record.status, record.exit_code) == (status, exit_code), name
        assert (error or "") in (record.error or ""), name
        assert len(answers(bus, bad[name])) == 1, name
        assert answer(bus, bad[name] - 1).payload == "good", name
    for name in ("child", "left", "stubborn"):
        assert not is_alive(int((project / name).read_text())), name
    stubborn = attempt(bus, bad["ignores TERM"])
    assert 8.0 <= ran_s(stubborn) < 30.0  # 3 s, 5 s of grace, and a busy machine
    assert ran_s(attempt(bus, bad["forks children"])) < 8.0  # no grace


def ran_s(record: ClaimRecord) -> float:
    assert record.ended_at_ms is not None
    return (record.ended_at_ms - record.claimed_at_ms) / 1000


@pytest.mark.parametrize(
    ("parting", "error"),
    [
        ('rm "$0"', "there is no command './leaver'"),
        ('chmod -x "$0"', "'./leaver' is not executable"),
    ],
)
def test_command_that_vanishes_fails_each_message_and_the_host_goes_on(
    bus: Bus, run_bus: RunBus, project: Path, parting: str, error: str
) -> None:
    """P-91: each with its end on the claim and an answer, and the next message is tried too."""
    (project / "leaver").write_text(f"#!/bin/sh\n{parting}\n")
    (project / "leaver").chmod(0o700)
    ask(bus, "a", "b", "c")
    ended = run_bus("run", "--type", REQUEST, "--drain", "--", "./leaver")
    assert (ended.code, attempt(bus, 1).status) == (0, "completed")
    for seq in (2, 3):
        assert (attempt(bus, seq).status, attempt(bus, seq).error) == ("failed", error)
        assert answer(bus, seq).type == "job.failed"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("nope-nope", ["no command 'nope-nope' on the PATH", "give its path"]),
        ("/nope", ["no command '/nope'", "give the path"]),
        ("./plain", ["'./plain' is not executable", "chmod +x"]),
        ("./folder", ["no command './folder'"]),
        ("", ["no command ''"]),
    ],
)
def test_command_that_is_not_there_is_refused_before_anything_is_claimed(
    bus: Bus, run_bus: RunBus, project: Path, command: str, words: list[str]
) -> None:
    """A slip must not use up the attempts of all that waits, nor make a queue."""
    (project / "plain").write_text("text")
    (project / "folder").mkdir()
    ask(bus, "a")
    ended = run_bus("run", "--type", REQUEST, "--drain", "--", command, "--option")
    assert_error(ended, 2, *words)
    assert file_of(bus).value("SELECT count(*) FROM queues") == 0


@pytest.mark.parametrize(
    "printed", ["plain text", '{"status":"ok","result":"a"}{"status":"ok","result":"b"}', "[]"]
)
def test_response_that_is_not_one_object_fails_and_the_host_goes_on(
    bus: Bus, run_bus: RunBus, project: Path, printed: str
) -> None:
    """D-96, X-13: an error of protocol, with what was printed."""
    Queue.create(bus, REQUEST, backoff_s=0, max_attempts=2)
    ask(bus, printed, '{"status": "ok", "result": "fine"}')
    (project / "plugin").write_text(
        f"#!{sys.executable}\nimport json, sys\nprint(json.load(sys.stdin)['event']['payload'])\n"
    )
    (project / "plugin").chmod(0o700)
    args = ("--contract", "json", "--drain", "--", "./plugin")
    assert run_bus("run", "--type", REQUEST, *args).code == 0
    queue = Queue.open(bus, REQUEST)
    assert (statuses(queue, 1), state(queue, 1)) == (["failed", "failed"], "dead")
    for record in attempts(queue, 1):
        assert (record.error or "").startswith("protocol error: ")
        assert record.result == printed + "\n"
    assert (answer(bus, 1).type, answer(bus, 2).payload) == ("job.failed", "fine")


def test_worker_over_answers_takes_what_is_addressed(bus: Bus, run_bus: RunBus) -> None:
    """A pipeline: answers are addressed to who asked. Of a queue that is there it must be so."""
    bus.heartbeats.beat("asker")
    bus.publish("a.done", "x", from_agent="w", to_agent="asker")
    line = ("run", "--type", "a.done", "--addressed", "any", "--drain", "--", "cat")
    assert run_bus(*line).code == 0
    queue = Queue.open(bus, "a.done")
    assert (queue.info.policy.addressed, QueueStats.of(queue).completed) == ("*", 1)
    assert run_bus(*line).code == 0
    refused = run_bus("run", "--type", "a.done", "--addressed", "none", "--", "cat")
    assert (refused.code, refused.out) == (3, "")
    assert "--addressed any, not none; change it with 'bus queue set'" in refused.err


def test_unknown_queue_is_not_there(bus: Bus, run_bus: RunBus) -> None:
    ended = run_bus("run", "--queue", "nope", "--drain", "--", "cat")
    assert_error(ended, 4, "there is no queue 'nope'")
    assert list(bus.read()) == []


def test_queue_with_another_pattern_is_refused(bus: Bus, run_bus: RunBus) -> None:
    Queue.create(bus, "q", "a.*")
    assert_error(run_bus("run", "--queue", "q", "--type", "b", "--drain", "--", "cat"), 3, "a.*")
    ended = run_bus("run", "--queue", "q", "--max-attempts", "9", "--drain", "--", "cat")
    assert_error(ended, 3, "--max-attempts 4, not 9", "bus queue set")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--drain", "--", "cat"], "--type"),
        (["--type", REQUEST], "CMD"),
        (["--type", REQUEST, "--drain", "--"], "CMD"),
        (["--type", "a..b", "--", "cat"], "a..b"),
        (["--type", REQUEST, "--concurrency", "0", "--", "cat"], "--concurrency"),
        (["--type", REQUEST, "--concurrency", "-1", "--", "cat"], "--concurrency"),
        (["--type", REQUEST, "--timeout", "-1s", "--", "cat"], "--timeout"),
        (["--type", REQUEST, "--timeout", "soon", "--", "cat"], "--timeout"),
        (["--type", REQUEST, "--lease", "0", "--", "cat"], "--lease"),
        (["--type", REQUEST, "--lease", "2d", "--", "cat"], "--lease"),
        (["--type", "a b", "--", "cat"], "'a b'"),
        (["--type", "a", "--queue", "a b", "--", "cat"], "queue name 'a b'"),
        (["--type", REQUEST, "--success-type", "a b", "--", "cat"], "type 'a b'"),
        (["--type", REQUEST, "--failure-type", "a.*", "--", "cat"], "type 'a.*'"),
        (["--type", REQUEST, "--group", "a\nb", "--", "cat"], "agent name"),
        (["--type", REQUEST, "--contract", "xml", "--", "cat"], "xml"),
        (["--type", REQUEST, "--config", "{}", "--", "cat"], "--contract json"),
        (["--type", REQUEST, "--contract", "json", "--config", "[]", "--", "cat"], "JSON object"),
        (["--type", REQUEST, "--contract", "json", "--config", "{", "--", "cat"], "--config"),
        (["--type", REQUEST, "--contract", "json", "--config", "@no", "--", "cat"], "no"),
        (["--type", REQUEST, "--max-attempts", "-1", "--", "cat"], "--max-attempts"),
        (["--type", REQUEST, "--backoff", "-1s", "--", "cat"], "--backoff"),
        (["--type", REQUEST, "--on-lost", "panic", "--", "cat"], "panic"),
        (["--type", REQUEST, "--dra", "--", "cat"], "--dra"),
    ],
)
def test_bad_argument_is_one_line_and_nothing_is_claimed(
    bus: Bus, run_bus: RunBus, args: list[str], words: str
) -> None:
    """P-83, P-43: exit 2; ours asks for a type or a queue, and for a command."""
    ask(bus, "a")
    ended = run_bus("run", *args)
    assert_error(ended, 2 if "@no" not in args else ended.code, words)
    assert ended.code != 0
    assert file_of(bus).value("SELECT count(*) FROM claims") == 0


def test_worker_without_a_bus_says_so(run_bus: RunBus, project: Path) -> None:
    assert_error(run_bus("run", "--type", "x", "--", "cat"), 1, "bus init")


# What it tells a person who looks on.


def test_person_is_told_what_it_does_and_how_it_ends(
    bus: Bus, on_terminal: Callable[..., str]
) -> None:
    """One line at the start, and one at the first Ctrl-C; nothing that a terminal would colour."""
    ask(bus, "a")
    command = ("sh", "-c", "kill -INT $(ps -o ppid= -p $PPID); sleep 0.1")
    shown = on_terminal("run", "--type", REQUEST, "--concurrency", "2", "--", *command)
    assert shown.splitlines() == [
        "bus: working on queue 'job.request', which takes in job.request, with sh: raw contract,"
        " 2 at a time; Ctrl-C ends it",
        "bus: ending when what runs has ended; a second Ctrl-C or SIGTERM ends that now",
    ]
    assert attempt(bus).status == "completed"


def test_pipe_is_told_what_it_does_only_with_v(bus: Bus, run_bus: RunBus) -> None:
    """PITFALLS 26: stdout has nothing of it."""
    line = ("run", "--type", "a.*", "--queue", "q", "--contract", "json", "--drain")
    ended = run_bus(*line, "--", "cat")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    told = run_bus(*line, "-v", "--", "cat")
    assert told.out == ""
    assert told.err.splitlines()[1:] == [
        "bus: working on queue 'q', which takes in a.*, with cat: json contract,"
        " 1 at a time; Ctrl-C ends it"
    ]


# Help, and the end.


def test_help_states_the_contract(run_bus: RunBus) -> None:
    """P-84, P-46, P-70: what goes in and out, the defaults, 250 ms, --once, --drain."""
    text = " ".join(run_bus("run", "--help").out.split())
    for words in (
        "--type",
        "stdin",
        "stdout",
        "Exit code 0 is success",
        "75",
        "78",
        "every 250 ms",
        "--once",
        "--drain",
        "until none is left, then waits again",
        "SIGTERM, 5 s, SIGKILL",
        "10 MiB",
        "64 KiB",
        "60s",
        "120s",
        "300s",
        "x.done",
        "x.failed",
        ".timed_out",
        "BUS_META_",
        "TRACEPARENT",
        "Example: bus run --type review.request",
    ):
        assert words in text, words


def test_two_workers_in_a_row_go_on_where_the_first_was_stopped(
    bus: Bus, start_bus: StartBus, run_bus: RunBus
) -> None:
    ask(bus, *range(30))
    host = start_bus("run", "--type", REQUEST, "--", "cat")
    wait_until(lambda: len(list(bus.read(type="job.done"))) >= 3)
    host.send_signal(signal.SIGTERM)
    assert host.wait(60) == 0
    queue = Queue.open(bus, REQUEST)
    assert list_jobs(queue, ["running"], 9) == []
    assert run_bus("run", "--type", REQUEST, "--drain", "--", "cat").code == 0
    told = [int(found.payload) for found in bus.read(type="job.done")]
    assert sorted(told) == list(range(30))
    assert {job(queue, seq).attempt for seq in range(1, 31)} == {1}


def test_drain_says_what_it_leaves_and_when_that_is_due(bus: Bus, run_bus: RunBus) -> None:
    """A retry is due later, and others are at work: a queue that looks done is not."""
    Queue.create(bus, REQUEST, retry="asked", backoff_s=3600.0)
    ask(bus, "a", "b")
    ended = run_bus("run", "--type", REQUEST, "--once", "--", "sh", "-c", "exit 75")
    Queue.open(bus, REQUEST).claim("elsewhere")
    ended = run_bus("run", "--type", REQUEST, "--drain", "--", "cat")
    assert ended.code == 0
    assert re.search(
        r"^bus: queue '.*' is not empty: 1 job will be due for another attempt, or for the first,"
        r" the next at \d{4}-\S+Z, in \d+ \w+; 1 job at other workers; see 'bus job list --queue ",
        ended.err,
        re.MULTILINE,
    ), ended.err
