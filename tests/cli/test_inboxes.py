"""bus poll, ack, inbox, parked, listen."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Inbox

from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


def test_poll_prints_and_moves_nothing_and_ack_moves(run_bus: RunBus, bus: Bus) -> None:
    """M-48, M-49, M-50: poll and ack."""
    for number in range(3):
        bus.publish("t", f"body {number}\nmore", from_agent="a")
    polled = run_bus("poll", "me")
    assert polled == run_bus("poll", "me")
    assert polled.code == 0
    first = polled.out.splitlines()[0].split("  ")
    assert [first[0], *first[2:]] == ["1", "a → all", "t"]
    assert polled.out.splitlines()[1:3] == ["| body 0", "| more"]
    assert run_bus("ack", "me", "2").out == "acknowledged 2: 2 messages\n"
    assert [line[0] for line in run_bus("poll", "me").out.splitlines()] == ["3", "|", "|"]
    assert run_bus("ack", "me", "1", "--json").out == '{"agent":"me","cursor":2,"passed":0}\n'
    run_bus("ack", "me", "3")
    assert run_bus("poll", "me").code == 4
    assert run_bus("poll", "me", "--json").out == ""


def test_poll_json_is_the_documented_form_with_payloads_read_in(run_bus: RunBus, bus: Bus) -> None:
    """M-30, X-37: names as in bus.jsonl; blobs are resolved."""
    bus.publish("t", {"n": 1}, from_agent="a")
    bus.publish("t", "x" * 10_000, from_agent="a")
    lines = run_bus("poll", "me", "--json").out.splitlines()
    assert lines == [message.to_json().decode() for message in bus.read()]
    assert json.loads(lines[1])["payload"] == "x" * 10_000


def test_ack_says_how_many_messages_it_passed(run_bus: RunBus, bus: Bus) -> None:
    """Issue 19, item 5: of the agent's own mail; a requeued message is one by itself."""
    for agent in ("me", "another"):
        bus.heartbeats.beat(agent)
    bus.publish("t", 1, from_agent="a", to_agent="me")
    bus.publish("t", 2, from_agent="a", to_agent="another")
    bus.publish("t", 3, from_agent="me")
    bus.publish("t", 4, from_agent="a")
    bus.publish("t", 5, from_agent="a", to_agent="me")
    inbox = Inbox(bus, "me", max_deliveries=1)
    inbox.fail(inbox.poll()[0], "no")
    assert run_bus("ack", "me", "4").out == "acknowledged 4: 1 message\n"
    inbox.requeue(1)
    assert run_bus("ack", "me", "5").out == "acknowledged 5: 1 message\n"
    assert run_bus("ack", "me", "1").out == "acknowledged 5: 1 message\n"
    assert run_bus("ack", "me", "1").out == "1 was acknowledged before: the cursor is at 5\n"
    assert run_bus("ack", "me", "1", "--json").out == '{"agent":"me","cursor":5,"passed":0}\n'
    assert_error(run_bus("ack", "me", str(2**62)), 3, "the log holds 1 to 5")
    assert_error(run_bus("ack", "me", "9"), 3, "the log holds 1 to 5")


def test_receipts_print_who_acknowledged_a_message(run_bus: RunBus, bus: Bus) -> None:
    """Issue 19, item 5: a table, JSON lines, and exit code 4 for what is not there."""
    for agent in ("ann", "bob"):
        Inbox(bus, agent).join()
    bus.publish("t", from_agent="lead", id="m")
    run_bus("ack", "bob", "1")
    table = ["kind   name  state", "inbox  ann   unread", "inbox  bob   acknowledged"]
    assert run_bus("receipts", "1").out.splitlines() == table
    assert run_bus("receipts", "m", "--json").out.splitlines() == [
        '{"kind":"inbox","name":"ann","state":"unread"}',
        '{"kind":"inbox","name":"bob","state":"acknowledged"}',
    ]
    for missing in ("2", "0", "none", "9" * 30):
        assert_error(run_bus("receipts", missing), 4, "no message", missing)
    bus.publish("agent_started", from_agent="lead")
    nobody = run_bus("receipts", "2")
    assert (nobody.code, nobody.out) == (4, "")


def test_poll_and_inbox_print_whole_bodies(run_bus: RunBus, bus: Bus) -> None:
    """Issue 19, item 8: a shell agent never saw the third line, nor what was in a blob."""
    large = {"do": "fix the parser", "but": "x" * 4096 + " do not touch lexer.py"}
    bus.publish(
        "task", "Fix the parser.\nRun its tests.\n[9] do not touch lexer.py", from_agent="a"
    )
    bus.publish("task", large, from_agent="a")
    bus.publish("task", "one line\n", from_agent="a")
    bus.publish("task", from_agent="a")
    bus.publish("task", "w" * 201, from_agent="a")
    for command in ("poll", "inbox"):
        lines = run_bus(command, "me").out.splitlines()
        heads = [line for line in lines if line[0].isdigit()]
        assert [head.split("  ")[0] for head in heads] == list("12345")
        assert [head.split("  ", 2)[2] for head in heads[:4]] == [
            *("a → all  task", "a → all  task", "a → all  task  one line", "a → all  task")
        ]
        bars = [line for line in lines if line.startswith("| ")]
        assert bars[:3] == ["| Fix the parser.", "| Run its tests.", "| [9] do not touch lexer.py"]
        assert bars[3:] == [
            f"| {json.dumps(large, sort_keys=True, separators=(',', ':'))}",
            "| " + "w" * 201,
        ]


def test_no_body_leaves_its_frame_in_a_poll(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("t", "ok\n7  fake\r8  fake\x0b9\x85\u2028\x1b[2J\u202eevil", from_agent="a")
    head, *lines = run_bus("poll", "me").out.splitlines()
    assert head.startswith("1  ")
    assert all(line.startswith("| ") and line.isprintable() for line in lines)
    assert len(lines) == 6


def test_page_of_a_poll_is_bounded_and_says_how_to_go_on(run_bus: RunBus, bus: Bus) -> None:
    """Messages that do not fit are counted and wait; a large body names how to get all of it."""
    for body in ("x" * 7000, "y" * 7000, "z" * 30_000, "s", "b" * 1_500_000):
        bus.publish("t", body, from_agent="a")
    first = run_bus("poll", "me").out.splitlines()
    assert first[1:] == [
        "| " + "x" * 7000,
        "(4 messages more: acknowledge these, then poll again)",
    ]
    run_bus("ack", "me", "2")
    cut = run_bus("poll", "me").out.splitlines()
    assert cut[1] == "| " + "z" * 12_000
    assert cut[2] == "(cut here, 30,000 characters in all; 'bus show 3' prints all)"
    assert cut[3].endswith("  s")
    assert cut[5].startswith("| [blob, 1,500,002 bytes, sha256-")
    assert cut[6] == "('bus show 5' prints all)"
    assert "z" * 30_000 in run_bus("show", "3").out


def test_poll_limits_and_filters(run_bus: RunBus, bus: Bus) -> None:
    for type in ("a.x", "b", "a.y"):
        bus.publish(type, from_agent="s")
    assert len(run_bus("poll", "me", "--limit", "2").out.splitlines()) == 2
    found = run_bus("poll", "me", "--type", "a.*", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in found] == [1, 3]
    assert_error(run_bus("poll", "me", "--limit", "0"), 2, "--limit")
    assert_error(run_bus("poll", "me", "--wait", "soon"), 2, "--wait", "soon")


def test_ack_by_a_name_like_a_known_one_is_done_and_warned_of(run_bus: RunBus, bus: Bus) -> None:
    """PITFALLS 14: a mistyped name, which would leave the real agent's cursor where it is."""
    bus.publish("t", from_agent="dave")
    mistyped = run_bus("ack", "dvae", "1")
    assert (mistyped.code, mistyped.out) == (0, "acknowledged 1: 1 message\n")
    assert mistyped.err == (
        "bus: 'dvae' is a new agent: the bus had never seen it; did you mean dave?\n"
    )
    for agent in ("dvae", "dave"):
        assert run_bus("ack", agent, "1").err == "", agent


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("poll", "Only for looking: ack also covers the messages that it hid."),
        ("ack", "That includes messages that poll --type left out."),
        ("listen", "Run one listener for each agent"),
    ],
)
def test_help_says_what_would_lose_or_repeat_work(
    command: str, words: str, run_bus: RunBus
) -> None:
    assert words in " ".join(run_bus(command, "--help").out.split())


def test_poll_waits_for_a_message(start_bus: StartBus, bus: Bus) -> None:
    """PITFALLS 11: listen, look, wait."""
    bus.heartbeats.beat("me")
    process = start_bus("poll", "me", "--wait", "20", "--json")
    time.sleep(0.2)  # most likely it waits by now; it must end either way
    bus.publish("t", "now", from_agent="a")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["payload"], err) == (0, "now", b"")


def test_poll_that_waits_in_vain_ends_with_4(run_bus: RunBus) -> None:
    began = time.monotonic()
    assert run_bus("poll", "me", "--wait", "300ms").code == 4
    assert time.monotonic() - began >= 0.3


def test_poll_ends_with_130_on_ctrl_c(start_bus: StartBus, bus: Bus, bus_dir: Path) -> None:
    bus.heartbeats.beat("me")
    process = start_bus("poll", "me", "--wait", "20")
    wait_until(lambda: (bus_dir / "doorbell").exists())
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


def test_inbox_says_where_an_agent_stands(run_bus: RunBus, bus: Bus) -> None:
    for number in range(3):
        bus.publish("t", f"body {number}", from_agent="a")
    Inbox(bus, "me").ack(1)
    first, *rest = run_bus("inbox", "me").out.splitlines()
    assert first == "cursor 1, 2 unread, 0 parked"
    assert [line[0] for line in rest] == ["2", "3"]
    shown = run_bus("inbox", "me", "--json").out
    stands = {"agent": "me", "cursor": 1, "unread": 2, "parked": 0, "wants": None}
    assert json.loads(shown) == stands
    bus.publish_many([Draft("t", from_agent="a")] * 999)
    assert run_bus("inbox", "me").out.startswith("cursor 1, 1000+ unread, 0 parked\n")
    assert json.loads(run_bus("inbox", "me", "--json").out)["unread"] == 1000


def test_parked_messages_are_listed_requeued_and_dropped(run_bus: RunBus, bus: Bus) -> None:
    """M-56: what failed too often is parked where people can see, requeue or drop it."""
    inbox = Inbox(bus, "me", max_deliveries=1)
    for _ in range(2):
        bus.publish("t", from_agent="a")
    for message in inbox.poll():
        inbox.fail(message, "ValueError: no\x1b[31m")
    listed = run_bus("parked", "list", "me", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in listed] == [1, 2]
    text = run_bus("parked", "list").out
    assert text.splitlines()[0].split()[:2] == ["agent", "seq"]
    assert "\\x1b[31m" in text
    assert run_bus("parked", "requeue", "me", "1").code == 0
    assert [message.seq for message in inbox.poll()] == [1]
    assert run_bus("parked", "drop", "me", "2").code == 0
    assert run_bus("parked", "list").code == 4
    assert_error(run_bus("parked", "drop", "me", "2"), 4, "not parked")


def test_parked_messages_are_taken_together_or_not_at_all(run_bus: RunBus, bus: Bus) -> None:
    """M-56: several at a time, in one transaction, or all of an agent's."""
    for agent in ("me", "you"):
        inbox = Inbox(bus, agent, max_deliveries=1)
        for _ in range(2):
            bus.publish("t", from_agent="a")
        for message in inbox.poll():
            inbox.fail(message, "no")
    inbox = Inbox(bus, "me")
    assert [item.seq for item in inbox.parked()] == [1, 2]
    assert_error(run_bus("parked", "requeue", "me", "1", "2", "3"), 4, "not parked")
    assert_error(run_bus("parked", "drop", "me", "2", "3"), 4, "not parked")
    assert [item.seq for item in inbox.parked()] == [1, 2]
    for wrong in ((), ("1", "--all")):
        assert_error(run_bus("parked", "drop", "me", *wrong), 2, "--all")
    requeued = run_bus("parked", "requeue", "me", "2", "1", "2")
    assert (requeued.code, requeued.out, requeued.err) == (0, "", "")
    assert [message.seq for message in inbox.poll()] == [1, 2, 3, 4]
    dropped = run_bus("parked", "drop", "you", "--all")
    assert (dropped.code, dropped.out, dropped.err) == (0, "", "")
    assert Inbox(bus, "you").parked() == []
    assert run_bus("parked", "requeue", "you", "--all").code == 4


def _script(project: Path, text: str) -> str:
    path = project / "handler.py"
    path.write_text(f"import json, os, sys\nmessage = json.loads(sys.stdin.read())\n{text}\n")
    return str(path)


def test_listen_runs_the_command_for_each_message(
    run_bus: RunBus, bus: Bus, bus_dir: Path, project: Path
) -> None:
    """Issue 2, item 10: JSON on stdin, the environment, ack on exit 0."""
    receipt = bus.publish("t", "x" * 5000, from_agent="a")
    bus.publish("u", {"n": 1}, from_agent="a", in_reply_to=receipt.id)
    script = _script(
        project,
        "keep = {k: v for k, v in os.environ.items() if k.startswith('BUS_')}\n"
        "print(json.dumps([message, keep]))",
    )
    done = run_bus("listen", "me", "--drain", "--", sys.executable, script)
    assert (done.code, done.err) == (0, "")
    (first, env), (second, reply_env) = map(json.loads, done.out.splitlines())
    assert (first["payload"], second["payload"]) == ("x" * 5000, {"n": 1})
    assert env == {
        "BUS_DIR": str(bus_dir),
        "BUS_AGENT": "me",
        "BUS_MESSAGE_ID": receipt.id,
        "BUS_MESSAGE_SEQ": "1",
        "BUS_MESSAGE_TYPE": "t",
        "BUS_FROM": "a",
        "BUS_CORRELATION_ID": receipt.id,
    }
    assert reply_env["BUS_CORRELATION_ID"] == receipt.id
    types = [(message.type, message.from_agent) for message in bus.read(after_seq=2)]
    assert types == [("agent_started", "me"), ("agent_stopped", "me")]
    beat = bus.heartbeats.get("me")
    assert beat is not None
    assert beat.status == "stopped"


def test_listen_delivers_again_and_parks(run_bus: RunBus, bus: Bus, project: Path) -> None:
    """M-53, M-56: a failure is redelivered, at last parked, and blocks nothing after it."""
    bus.publish("bad", from_agent="a")
    bus.publish("good", from_agent="a")
    script = _script(project, "print(message['type']); sys.exit(3 * (message['type'] == 'bad'))")
    command = ("--drain", "--no-session", "--max-deliveries", "2", "--retry-pause", "10ms")
    done = run_bus("listen", "me", *command, "--", sys.executable, script)
    assert (done.code, done.out) == (0, "bad\nbad\ngood\n")
    assert [line.partition(": ")[2] for line in done.err.splitlines()] == [
        "message 1: exit status 3 (delivery 1 of 2)",
        "message 1: exit status 3 (delivery 2 of 2)",
        "message 1: parked after 2 deliveries; see 'bus parked list me'",
    ]
    (parked,) = Inbox(bus, "me").parked()
    assert (parked.seq, parked.attempts) == (1, 2)
    assert "exit status 3" in parked.error
    assert bus.heartbeats.get("me") is None


def test_listen_says_why_its_command_can_not_be_run(
    run_bus: RunBus, bus: Bus, project: Path
) -> None:
    """M-53: a script without a first line that names its interpreter fails aloud."""
    bus.publish("t", from_agent="a")
    script = project / "no-interpreter"
    script.write_text("echo done\n")
    script.chmod(0o700)
    command = ("--drain", "--no-session", "--max-deliveries", "1")
    done = run_bus("listen", "me", *command, "--", script)
    failure = f"'{script}' is not a program, and has no #! line"
    assert (done.code, done.out) == (0, "")
    assert [line.partition(": ")[2] for line in done.err.splitlines()] == [
        f"message 1: {failure} (delivery 1 of 1)",
        "message 1: parked after 1 delivery; see 'bus parked list me'",
    ]
    assert failure in Inbox(bus, "me").parked()[0].error


def test_listen_waits_for_the_pause_before_it_delivers_again(
    run_bus: RunBus, bus: Bus, project: Path
) -> None:
    """M-53: a handler that fails at once does not use up its deliveries at once."""
    bus.publish("t", from_agent="a")
    script = _script(project, "import time; print(time.time()); sys.exit(1)")
    line = ("listen", "me", "--drain", "--no-session", "--max-deliveries", "2")
    done = run_bus(*line, "--retry-pause", "700ms", "--", sys.executable, script)
    first, second = map(float, done.out.splitlines())
    assert second - first >= 0.7
    for refused in ("0", "soon"):
        assert_error(run_bus(*line, "--retry-pause", refused, "--", "true"), 2, "--retry-pause")


def test_listen_leaves_out_own_broadcasts_on_demand(run_bus: RunBus, bus: Bus) -> None:
    """M-55: an option."""
    bus.publish("mine", from_agent="me")
    bus.publish("theirs", from_agent="a")
    command = ("--", "sh", "-c", "echo $BUS_MESSAGE_TYPE")
    done = run_bus("listen", "me", "--drain", "--no-session", "--no-own", *command)
    assert done.out == "theirs\n"


@pytest.mark.slow
def test_listen_says_that_a_message_over_which_listeners_died_is_parked(
    run_bus: RunBus, start_bus: StartBus, bus: Bus, project: Path
) -> None:
    """M-56: without it nobody would learn why the message is not handled any more."""
    bus.publish("t", from_agent="a")
    line = ("listen", "me", "--no-session", "--max-deliveries", "2")
    for _ in range(2):
        process = start_bus(*line, "--", "sh", "-c", "echo begun; sleep 60")
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        process.wait()
    third = run_bus(*line, "--drain", "--", "echo", "handled")
    assert (third.code, third.out) == (0, "")
    assert third.err == "bus: message 1: parked after 2 deliveries; see 'bus parked list me'\n"


def test_second_listener_under_one_name_is_warned_of(
    run_bus: RunBus, start_bus: StartBus, bus: Bus
) -> None:
    """They would both do the work; the warning of the library is a line of ours."""
    bus.publish("t", from_agent="a")
    first = start_bus("listen", "me", "--no-session", "--", "echo", "done")
    assert first.stdout is not None
    assert first.stdout.readline() == b"done\n"
    second = run_bus("listen", "me", "--no-session", "--drain", "--", "true")
    assert second.code == 0
    (warning,) = second.err.splitlines()
    assert warning.startswith("bus: warning: ")
    assert str(first.pid) in warning


def test_listen_finishes_the_message_at_hand_when_it_is_told_to_stop(
    start_bus: StartBus, bus: Bus, project: Path
) -> None:
    """M-37: the cursor moves after the work; SIGTERM loses nothing."""
    bus.publish("t", from_agent="a")
    bus.publish("t", from_agent="a")
    go = project / "go"
    os.mkfifo(go)
    process = start_bus("listen", "me", "--", "sh", "-c", "echo begun; cat go; echo done")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGTERM)
    with open(go, "w"):
        pass
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"done\n", b"")
    assert Inbox(bus, "me").position == 1


def test_second_signal_ends_listen_and_its_command_at_once(
    start_bus: StartBus, bus: Bus, project: Path
) -> None:
    bus.publish("t", from_agent="a")
    process = start_bus("listen", "me", "--", "sh", "-c", "echo $$; exec sleep 60")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGTERM, -signal.SIGINT)
    wait_until(lambda: _has_ended(child))
    assert Inbox(bus, "me").position == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only there are supervisors")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT])
def test_what_a_listeners_command_has_started_ends_with_the_listener(
    start_bus: StartBus, bus: Bus, number: signal.Signals
) -> None:
    """P-90: in whatever session; the next listener would start it again."""
    bus.publish("t", from_agent="a")
    process = start_bus("listen", "me", "--", "setsid", "-w", "sh", "-c", "echo $$; exec sleep 60")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(60) == -number
    wait_until(lambda: _has_ended(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only there are supervisors")
def test_what_a_listeners_command_leaves_running_ends_with_it(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("t", from_agent="a")
    command = ("sh", "-c", "setsid sh -c 'echo $$; exec sleep 60' & sleep 0.3")
    done = run_bus("listen", "me", "--drain", "--no-session", "--", *command)
    assert done.code == 0
    assert _has_ended(int(done.out))


def test_environment_of_a_listener_is_not_taken_for_what_the_message_tells(
    run_bus: RunBus, bus: Bus
) -> None:
    """P-49, Q-22: as for a worker."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bus.publish("t", from_agent="a")
    bus.publish("t", from_agent="a", headers={"meta": {"mine": "yes"}, "traceparent": trace})
    host = {"TRACEPARENT": trace, "BUS_META_MODEL": "x"}
    command = ("sh", "-c", "echo $TRACEPARENT,$BUS_META_MODEL,$BUS_META_MINE")
    done = run_bus("listen", "me", "--drain", "--no-session", "--", *command, env=host)
    plain, told = done.out.splitlines()
    assert (plain, told[:35], told.split(",")[1:]) == (",,", trace[:35], ["", "yes"])


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_listen_refuses_a_command_that_is_not_there(run_bus: RunBus, bus: Bus) -> None:
    assert_error(run_bus("listen", "me", "--", "no-such-command"), 2, "no-such-command")
    assert list(bus.read()) == []
