"""bus publish: every source of a payload, every option, receipts, and --jsonl."""

import json
import os
import socket
import subprocess
from pathlib import Path
from subprocess import PIPE

import pytest

from ackbus import Bus

from ..conftest import RunBus
from .conftest import assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


@pytest.mark.parametrize("text", ["plain", "two\nlines\n", "`rm -rf $HOME`", "emoji 🚌", " ", ""])
def test_body_is_kept_byte_for_byte_from_every_source(
    text: str, run_bus: RunBus, bus: Bus, project: Path
) -> None:
    """Issue 2, item 10; PITFALLS 23: bodies also come from standard input or a file."""
    (project / "body").write_bytes(text.encode())
    run_bus("publish", "t", text, "--from", "a")
    run_bus("publish", "t", "--file", "body", "--from", "a")
    if text:  # nothing on the standard input is an error
        run_bus("publish", "t", "-", "--from", "a", stdin=text)
        run_bus("publish", "t", "--file", "-", "--from", "a", stdin=text)
    assert [message.payload for message in bus.read()] == [text] * (4 if text else 2)


@pytest.mark.parametrize("value", [{}, [], 0, False, "", None, {"a": [1.5, "é"]}])
def test_data_is_json_from_every_source(
    value: object, run_bus: RunBus, bus: Bus, project: Path
) -> None:
    """M-46: all falsy payloads come back as they went."""
    text = json.dumps(value)
    (project / "body.json").write_text(text)
    run_bus("publish", "t", "--data", text, "--from", "a")
    run_bus("publish", "t", "--data", "-", "--from", "a", stdin=text)
    run_bus("publish", "t", "--data", "@body.json", "--from", "a")
    messages = list(bus.read())
    assert [message.payload for message in messages] == [value] * 3
    assert all(message.has_payload for message in messages)


def test_no_body_is_no_payload(run_bus: RunBus, bus: Bus) -> None:
    """M-43: no payload, where nothing is piped in either."""
    run_bus("publish", "t", "--from", "a", stdin="")
    assert not next(bus.read()).has_payload


def test_what_is_piped_in_is_the_body_where_none_is_given(run_bus: RunBus, bus: Bus) -> None:
    run_bus("publish", "t", "--from", "a", stdin="piped")
    run_bus("publish", "t", "argument", "--from", "a", stdin="not read")
    run_bus("publish", "t", "--from", "a", "--data", "1", stdin="not read")
    assert [message.payload for message in bus.read()] == ["piped", "argument", 1]


def test_the_rest_of_a_file_that_a_shell_reads_is_left_to_it(
    bus: Bus, project: Path, bus_env: dict[str, str]
) -> None:
    (project / "types.txt").write_text("one\ntwo\nthree\n")
    line = 'while read -r t; do bus publish "$t" --from a; done < types.txt'
    subprocess.run(["sh", "-ec", line], cwd=project, env=bus_env, check=True, timeout=60)
    assert [(each.type, each.has_payload) for each in bus.read()] == [
        ("one", False),
        ("two", False),
        ("three", False),
    ]


def test_a_pipe_that_nothing_comes_from_is_not_waited_for_for_ever(
    bus: Bus, bus_env: dict[str, str]
) -> None:
    """A program may leave its command a pipe that it never writes to: 10 s, then one clear line.

    Node gives its children sockets instead; those that `request` reads as well.
    """
    kept_open, theirs = os.pipe()
    own, of_node = socket.socketpair()
    named = ("t", "--from", "a", "--dir", str(bus.layout.directory))
    commands = [
        (("publish", *named), kept_open),
        (("request", *named, "--timeout", "1m"), kept_open),
        (("request", *named, "--timeout", "1m"), of_node.fileno()),
    ]
    started = [
        subprocess.Popen(
            ["bus", *words], stdin=stdin, env=bus_env, stdout=PIPE, stderr=PIPE, text=True
        )
        for words, stdin in commands
    ]
    try:
        ended = [(*process.communicate(timeout=60), process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
        os.close(theirs)
        os.close(kept_open)
        own.close()
        of_node.close()
    for out, err, code in ended:
        assert (code, out) == (2, "")
        assert "nothing came on the standard input for 10 s; give BODY, -" in err
    assert next(bus.read(), None) is None


def test_a_reply_names_a_message_by_its_seq(run_bus: RunBus, bus: Bus) -> None:
    first = bus.publish("ask", from_agent="a")
    number = bus.publish("ask", from_agent="a", id="77")
    for key in (str(first.seq), "77"):
        assert run_bus("publish", "answer", "--from", "b", "--reply-to", key, stdin="").code == 0
    answers = [m.in_reply_to for m in bus.read(type="answer")]
    assert answers == [first.id, number.id]


def test_every_field_can_be_given(run_bus: RunBus, bus: Bus) -> None:
    """M-40, M-30: fields of a message, on the command line."""
    bus.heartbeats.beat("b")
    first = run_bus("publish", "ask", "q", "--from", "b", "--id", "root").out.strip()
    done = run_bus(
        *("publish", "task.done", "body", "--from", "a", "--to", "b", "--id", "mine"),
        *("--reply-to", first, "--priority", "background"),
        *("--header", "branch=main", "--header", "n=1=2", "--header", "empty="),
    )
    assert (done.code, done.out, done.err) == (0, "mine\n", "")
    message = bus.get("mine")
    assert message is not None
    assert json.loads(message.to_line()) == {
        "seq": 2,
        "id": "mine",
        "ts": json.loads(message.to_line())["ts"],
        "from": "a",
        "to": "b",
        "type": "task.done",
        "correlation_id": "root",
        "in_reply_to": "root",
        "priority": "background",
        "headers": {"branch": "main", "n": "1=2", "empty": ""},
        "payload": "body",
    }
    run_bus("publish", "t", "--from", "a", "--conversation", "c")
    assert [m.correlation_id for m in bus.read(conversation="c")] == ["c"]


def test_receipts_say_seq_id_and_duplicate(run_bus: RunBus) -> None:
    """M-41: publishing the same again stores nothing, and says so."""
    line = ("publish", "t", "b", "--from", "a", "--id", "x", "--json")
    assert run_bus(*line).out == '{"seq":1,"id":"x"}\n'
    assert run_bus(*line).out == '{"seq":1,"id":"x","duplicate":true}\n'


def test_sender_comes_from_the_environment(run_bus: RunBus, bus: Bus) -> None:
    assert run_bus("publish", "t", env={"BUS_AGENT": "env"}).code == 0
    assert run_bus("publish", "t", "--from", "opt", env={"BUS_AGENT": "env"}).code == 0
    assert [message.from_agent for message in bus.read()] == ["env", "opt"]
    assert_error(run_bus("publish", "t"), 2, "--from", "BUS_AGENT")


def test_unknown_recipient_is_a_warning_and_under_strict_an_error(
    run_bus: RunBus, bus: Bus
) -> None:
    """PITFALLS 14: a recipient that was never seen."""
    bus.heartbeats.beat("worker-1")
    warned = run_bus("publish", "t", "--from", "a", "--to", "worker-2")
    assert warned.code == 0
    assert warned.err.count("\n") == 1
    assert warned.err.startswith("bus: warning: ")
    assert "worker-1" in warned.err
    refused = run_bus("publish", "t", "--from", "a", "--to", "worker-2", "--strict")
    assert_error(refused, 3, "worker-2", "worker-1")
    assert len(list(bus.read())) == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("t", "body", "--data", "1"), "one of"),
        (("t", "--file", "f", "--data", "1"), "one of"),
        ((), "TYPE"),
        (("t", "--header", "novalue"), "--header"),
        (("t", "--header", "=x"), "--header"),
        (("t", "--priority", "urgent"), "priority"),
        (("t", "--file", "missing"), "missing"),
        (("t", "--file", "."), "can't read"),
        (("t", "--data", "@missing"), "missing"),
        (("t", "--fro", "a"), "--fro"),
        (("t", "--dat", "1"), "--dat"),
        (("t", "a", "b"), "b"),
        (("--jsonl", "-", "--to", "b"), "--jsonl"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], word: str, run_bus: RunBus, bus: Bus) -> None:
    """PITFALLS 25: no abbreviations, and nothing is published by mistake."""
    assert_error(run_bus("publish", *arguments, "--from", "me"), 2, word)
    assert list(bus.read()) == []


def test_options_are_never_taken_for_values(run_bus: RunBus, bus: Bus) -> None:
    """PITFALLS 25: --help shows help and never publishes."""
    for arguments in (("publish", "--help"), ("publish", "t", "--from", "a", "--help")):
        shown = run_bus(*arguments)
        assert shown.code == 0
        assert shown.out.startswith("Usage: bus publish")
    for option in ("--from", "--to", "--id", "--reply-to", "--conversation"):
        sender = () if option == "--from" else ("--from", "a")
        assert_error(run_bus("publish", "t", *sender, option, "--help"), 2, "--help")
    assert list(bus.read()) == []


# --jsonl --------------------------------------------------------------------------------------


def _lines(*records: dict[str, object]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_jsonl_publishes_every_line_and_prints_its_id(
    run_bus: RunBus, bus: Bus, project: Path
) -> None:
    """Issue 2, item 10: one object a line, with the names of bus.jsonl."""
    text = _lines(
        {"type": "a", "id": "1", "from": "x", "payload": {"n": 1}},
        {"type": "b", "id": "2", "in_reply_to": "1", "priority": "interactive", "seq": 99},
        {"type": "c", "id": "3", "ts": "2020-01-01T00:00:00Z", "headers": {"h": 1}},
    )
    (project / "in.jsonl").write_text(text + "\n\n")
    done = run_bus("publish", "--jsonl", "in.jsonl", "--from", "me")
    assert (done.code, done.out, done.err) == (0, "1\n2\n3\n", "")
    again = run_bus("publish", "--jsonl", "-", "--from", "me", "--json", stdin=text)
    assert again.out.splitlines()[1] == '{"seq":2,"id":"2","duplicate":true}'
    one, two, three = bus.read()
    assert (one.from_agent, two.from_agent, three.from_agent) == ("x", "me", "me")
    assert (two.correlation_id, two.priority, three.headers) == ("1", 0, {"h": 1})
    assert three.ts_ms > 1_600_000_000_000


@pytest.mark.parametrize(
    ("bad", "code", "word"),
    [
        ("{", 2, "JSON"),
        ("[]", 2, "object"),
        ('{"payload":1}', 2, "type"),
        ('{"type":"t","boddy":1}', 2, "boddy"),
        ('{"type":"t","to":5}', 2, "to_agent"),
        ('{"type":"t","priority":"x"}', 2, "priority"),
        ('{"type":"t","headers":[1]}', 2, "headers"),
        ('{"type":"t","id":"0","payload":"other"}', 3, "taken"),
        ('{"type":"t","in_reply_to":"nobody"}', 3, "nobody"),
        ('{"type":"t","payload_ref":"sha256-' + "0" * 64 + '"}', 4, "blob"),
    ],
)
def test_jsonl_stops_at_a_bad_line_and_keeps_the_transactions_before_it(
    bad: str, code: int, word: str, run_bus: RunBus, bus: Bus
) -> None:
    """Issue 2, item 10: one transaction per 1,000."""
    good = "".join(f'{{"type":"t","id":"{n}"}}\n' for n in range(1500))
    failed = run_bus("publish", "--jsonl", "--from", "me", stdin=good + bad + "\n")
    assert failed.code == code
    assert failed.out == "".join(f"{n}\n" for n in range(1000))
    assert failed.err.startswith("bus: line 1501: ")
    assert failed.err.count("\n") == 1
    assert word in failed.err
    assert "stored before that: 1,000 messages" in failed.err
    assert bus.log.newest_seq() == 1000


def test_jsonl_needs_a_sender_for_each_line(run_bus: RunBus) -> None:
    failed = run_bus("publish", "--jsonl", stdin='{"type":"t"}\n')
    assert_error(failed, 2, "line 1", "--from", "stored before that: 0 messages")
    assert "nothing was stored" not in failed.err
