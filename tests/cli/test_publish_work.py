"""The rarer options of bus publish: what it asks of queues, and its headers."""

import json

import pytest

from ackbus import Bus
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.views import list_jobs

from ..conftest import RunBus
from .conftest import assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")

PUBLISH = ("publish", "job", "--from", "a")


def test_whatever_the_options_say_is_in_the_message(run_bus: RunBus, bus: Bus) -> None:
    """P-21: parent, conversation, sender, metadata as a whole and by key."""
    bus.publish("ask", from_agent="b", id="root")
    options = ("--reply-to", "root", "--conversation", "root", "--headers", '{"h":1}')
    assert run_bus(*PUBLISH, *options, "--meta", "k=1", "--meta", "l=m").code == 0
    _, message = bus.read()
    assert (message.in_reply_to, message.correlation_id) == ("root", "root")
    assert message.from_agent == "a"
    assert message.headers == {"h": 1, "meta": {"k": 1, "l": "m"}}


def test_meta_is_json_or_text(run_bus: RunBus, bus: Bus) -> None:
    """P-22: split at the first =; JSON where it parses, else a string."""
    pairs = ("temperature=0.7", "model=a:b", "x=1=2", "empty=", 'list=["é"]', "no=NaN", "ü=true")
    assert run_bus(*PUBLISH, *(word for pair in pairs for word in ("--meta", pair))).code == 0
    (message,) = bus.read()
    assert message.headers == {
        "meta": {
            "temperature": 0.7,
            "model": "a:b",
            "x": "1=2",
            "empty": "",
            "list": ["é"],
            "no": "NaN",
            "ü": True,
        }
    }


@pytest.mark.parametrize("pair", ["missing_equals", "=v", ""])
def test_meta_that_is_no_pair_is_refused(pair: str, run_bus: RunBus, bus: Bus) -> None:
    """P-22: `expected KEY=VALUE`; our exit code for usage is 2, where Plugboard's is 1."""
    assert_error(run_bus(*PUBLISH, "--meta", pair), 2, "--meta", "expected KEY=VALUE")
    assert bus.log.newest_seq() == 0


def test_headers_meta_and_header_come_together(run_bus: RunBus, bus: Bus) -> None:
    """P-23: siblings stay; ours adds to a meta that --headers gives, key by key."""
    headers = '{"stdout":"ok","meta":{"kept":1,"model":"old"},"n":1}'
    options = ("--headers", headers, "--meta", "model=new", "--header", "n=2", "--meta", "t=[]")
    assert run_bus(*PUBLISH, *options).code == 0
    (message,) = bus.read()
    assert message.headers == {
        "stdout": "ok",
        "meta": {"kept": 1, "model": "new", "t": []},
        "n": "2",
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--headers", "{"), ["--headers", "JSON"]),
        (("--headers", "[]"), ["--headers", "object"]),
        (("--headers", "@missing"), ["missing"]),
        (("--headers", '{"meta":1}', "--meta", "a=b"), ["--meta", "'meta' of --headers"]),
        (("--delay", "1s", "--at", "2099-01-01T00:00:00Z"), ["--delay or --at"]),
        (("--delay", "soon"), ["--delay", "soon"]),
        (("--delay", "-1s"), ["--delay"]),
        (("--at", "tomorrow"), ["--at", "tomorrow"]),
        (("--dedupe-key", ""), ["dedupe key"]),
        (("--dedupe-key", "k\n"), ["dedupe key", "printable"]),
        (("--dedupe-window", "1h"), ["dedupe window", "dedupe key"]),
        (("--dedupe-key", "k", "--dedupe-window", "long"), ["--dedupe-window", "long"]),
        (("--header", "available_at_ms=5"), ["header available_at_ms", "whole number", "'5'"]),
        (("--headers", '{"available_at_ms":-1}'), ["available_at_ms", "-1"]),
        (("--headers", '{"dedupe_key":7}'), ["header dedupe_key must be text", "7"]),
        (("--headers", '{"dedupe_key":null}'), ["header dedupe_key must be text"]),
        (("--header", "dedupe_key="), ["dedupe key"]),
        (("--headers", '{"dedupe_key":"k","dedupe_window_ms":1.5}'), ["dedupe_window_ms", "1.5"]),
        (("--headers", '{"dedupe_window_ms":5}'), ["dedupe window", "dedupe key"]),
        (("--wait", "x"), ["--wait", "x"]),
        (("--jsonl", "--delay", "1s"), ["--jsonl"]),
        (("--jsonl", "--wait", "1s"), ["--jsonl"]),
    ],
)
def test_bad_input_publishes_nothing(
    options: tuple[str, ...], words: list[str], run_bus: RunBus, bus: Bus
) -> None:
    """P-24: headers are checked; nothing is stored half."""
    assert_error(run_bus(*PUBLISH, *options), 2, *words)
    assert bus.log.newest_seq() == 0


def test_lines_with_headers_that_queues_would_pass_over_are_refused(
    run_bus: RunBus, bus: Bus
) -> None:
    lines = '{"type":"t","headers":{"dedupe_key":"k"}}\n{"type":"t","headers":{"dedupe_key":1}}\n'
    ended = run_bus("publish", "--jsonl", "--from", "a", stdin=lines)
    assert_error(
        ended, 2, "line 2: header dedupe_key must be text", "stored before that: 0 messages"
    )
    assert bus.log.newest_seq() == 0


def test_headers_come_from_a_pipe(run_bus: RunBus, bus: Bus) -> None:
    """P-24: stored as given, after it was checked."""
    assert run_bus(*PUBLISH, "--headers", "-", stdin='{"a": {"b": [1, null]}}').code == 0
    (message,) = bus.read()
    assert message.headers == {"a": {"b": [1, None]}}


def test_delayed_message_is_handed_out_later(run_bus: RunBus, bus: Bus) -> None:
    """Issue 3, item 2: --delay and --at; inboxes see it at once."""
    queue = Queue.create(bus, "job")
    before_ms = bus.now_ms()
    assert run_bus(*PUBLISH, "--delay", "2h").code == 0
    assert run_bus(*PUBLISH, "--at", "2099-01-01T00:00:00Z").code == 0
    assert run_bus(*PUBLISH, "--at", "2000-01-01T00:00:00Z").code == 0
    delayed, later, past = (message.headers["available_at_ms"] for message in bus.read())
    assert 7_200_000 <= delayed - before_ms < 7_300_000
    assert (later, past) == (4_070_908_800_000, 946_684_800_000)
    (claim,) = queue.claim("worker", limit=9)
    assert claim.message.seq == 3


def test_message_with_a_dedupe_key_is_done_once(run_bus: RunBus, bus: Bus) -> None:
    """D-19, D-20, D-21: by key and queue; a window of its own also minds what still waits."""
    queue = Queue.create(bus, "job")
    keyed = (*PUBLISH, "--dedupe-key", "issue-7")
    assert run_bus(*keyed).code == 0
    assert run_bus(*keyed, "--dedupe-window", "1h").code == 0
    (claim,) = queue.claim("worker", limit=9)
    queue.complete(claim)
    assert run_bus(*keyed).code == 0
    assert queue.claim("worker", limit=9) == []
    errors = {job.seq: job.error for job in list_jobs(queue, (), 9)}
    assert errors[1] is None
    assert errors[2] == "duplicate of 1, which is not over, with dedupe key issue-7"
    assert errors[3] == "duplicate of 1, which succeeded, with dedupe key issue-7"


def test_repeated_id_with_a_fixed_time_is_the_same_message(run_bus: RunBus, bus: Bus) -> None:
    """Promise 3: --at can be repeated; --delay means another time, and so another message."""
    at = (*PUBLISH, "--id", "one", "--at", "2099-01-01T00:00:00Z", "--json")
    assert "duplicate" not in json.loads(run_bus(*at).out)
    assert json.loads(run_bus(*at).out)["duplicate"] is True
    delay = (*PUBLISH, "--id", "two", "--delay", "1h")
    assert run_bus(*delay).code == 0
    assert_error(run_bus(*delay), 3, "two", "headers")
