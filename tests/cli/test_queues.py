"""bus queue list, show, create, set, pause, resume, purge. Of skip: test_lost_segment.py."""

import json
import re
import signal
from collections.abc import Callable
from typing import get_type_hints

import pytest

from ackbus import Bus, Draft
from ackbus.cli.options.worker import PolicyOptions
from ackbus.cli.show.jobs import option_of
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.policy import POLICY_FIELDS, Policy, work_headers
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queues import Queues
from ackbus.subscribers.views import list_jobs

from ..conftest import RunBus
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


def publish(bus: Bus, count: int = 1, type: str = "review") -> None:
    for number in range(count):
        bus.publish(type, number, from_agent="lead")


def test_creating_a_queue_that_exists_compares_only_what_was_given(
    run_bus: RunBus, bus: Bus
) -> None:
    line = ("queue", "create", "reviews")
    made = run_bus(*line, "--type", "review.*", "--max-running", "3")
    for options in ((), ("--type", "review.*"), ("--max-running", "3")):
        again = run_bus(*line, *options)
        assert (again.code, again.out, again.err) == (0, made.out, "")
    for options in (("--type", "reviews"), ("--max-running", "4"), ("--retry", "asked")):
        assert_error(run_bus(*line, *options), 3, "exists")
    assert run_bus("queue", "list", "--json").out.count("review.*") == 1


def test_queue_is_created_with_a_policy_and_again_with_the_same(run_bus: RunBus, bus: Bus) -> None:
    """X-02: every rule can be given; what is not given has its default."""
    rules = {
        "--ordering": "priority",
        "--ageing": "2m",
        "--retry": "asked",
        "--max-attempts": "7",
        "--backoff": "1.5s",
        "--on-lost": "dead",
        "--max-running": "3",
        "--max-running-per-key": "2",
        "--dedupe-window": "1h",
        "--hides": "none",
        "--addressed": "critic",
    }
    options = [word for pair in rules.items() for word in pair]
    line = ("queue", "create", "reviews", "--type", "review.*", *options)
    assert run_bus(*line).out.startswith("reviews  review.*  ordering priority, ageing 120s, ")
    expected = Policy(
        ordering="priority",
        ageing_s=120,
        retry="asked",
        max_attempts=7,
        backoff_s=1.5,
        on_lost="dead",
        max_running=3,
        max_running_per_key=2,
        dedupe_window_s=3600,
        hides="none",
        addressed="critic",
    )
    assert Queues(bus).get("reviews").policy == expected
    assert run_bus(*line).code == 0
    other = [word if word != "1.5s" else "9s" for word in line]
    assert_error(run_bus(*other), 3, "--backoff 1.5s, not 9s", "bus queue set")
    other_type = run_bus("queue", "create", "reviews", "--type", "reviews")
    assert_error(other_type, 3, "review.*", "another queue name")
    assert (
        json.loads(run_bus("queue", "create", "plain", "--json").out)["policy"]["backoff_s"] == 30
    )
    limited = run_bus("queue", "create", "plain", "--max-running", "3")
    assert_error(limited, 3, "--max-running any, not 3", "bus queue set")


def test_made_queue_is_shown_with_the_rules_that_were_changed(run_bus: RunBus, bus: Bus) -> None:
    assert run_bus("queue", "create", "plain").out == "plain  plain\n"
    made = run_bus("queue", "create", "q", "--type", "a.*", "--max-running", "3", "--backoff", "1s")
    assert made.out == "q  a.*  retry failures, backoff 1s, max-running 3\n"
    changed = run_bus("queue", "set", "q", "--max-running", "any").out
    assert "max-attempts 4, backoff 1s" in changed


def test_columns_that_a_terminal_has_no_room_for_are_named(
    on_terminal: Callable[..., str], bus: Bus
) -> None:
    Queue.create(bus, "reviews", "review")
    wide, narrow = (on_terminal("queue", "list", columns=columns) for columns in (120, 60))
    assert "left out" not in wide
    assert re.search(r"empty columns left out: .*dead,\s.*oldest", narrow, re.DOTALL)


def test_help_of_each_rule_says_its_default(run_bus: RunBus, bus: Bus) -> None:
    kinds = get_type_hints(PolicyOptions, include_extras=True)
    assert set(kinds) == set(POLICY_FIELDS)
    line = []
    for rule, kind in kinds.items():
        (option,) = kind.__metadata__
        default = re.search(r"Default: (\w+)", option.help)
        assert default is not None
        line += [f"--{option_of(rule)}", default[1]]
    assert run_bus("queue", "create", "reviews", *line).code == 0
    assert Queues(bus).get("reviews").policy == Policy()


def test_start_of_a_queue_that_is_there_is_not_passed_over_in_silence(
    run_bus: RunBus, bus: Bus
) -> None:
    """It can't be moved, and a script may repeat itself: a note, and exit code 0."""
    publish(bus)
    assert run_bus("queue", "create", "review", "--start", "now").err == ""
    again = run_bus("queue", "create", "review", "--start", "beginning", "--json")
    assert again.code == 0
    assert again.err == "bus: queue 'review' exists already; --start beginning changed nothing\n"
    assert json.loads(again.out)["filled_seq"] == 1
    assert run_bus("queue", "create", "review").err == ""
    assert_error(run_bus("queue", "create", "review", "--start", "soon"), 2, "soon")


@pytest.mark.parametrize(("start", "first"), [("beginning", 1), ("now", 3), ("2", 2)])
def test_queue_starts_where_it_is_told(start: str, first: int, run_bus: RunBus, bus: Bus) -> None:
    """Issue 3, item 1: now, the beginning, or a seq."""
    publish(bus, 2)
    assert run_bus("queue", "create", "review", "--start", start).code == 0
    publish(bus)
    (claim,) = Queue.open(bus, "review").claim("worker")
    assert claim.message.seq == first


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create", "q", "--start", "yesterday"), 2, ["yesterday"]),
        (("create", "q", "--start", "9" * 19), 2, ["9" * 19]),
        (("create", "q", "--type", "a..b"), 2, ["a..b"]),
        (("create", ""), 2, ["queue name"]),
        (("create", "q\x1b"), 2, ["queue name"]),
        (("create", "q q"), 2, ["queue name 'q q'", "spaces"]),
        (("create", "q", "--type", "a b"), 2, ["'a b'", "without spaces"]),
        (("create", "q", "--ordering", "lifo"), 2, ["--ordering", "'fifo'", "'lifo'"]),
        (("create", "q", "--max-attempts", "0"), 2, ["--max-attempts must be 1 or more"]),
        (("create", "q", "--max-attempts", "9" * 10), 2, ["--max-attempts must be 1 or more"]),
        (("create", "q", "--max-running", "-1"), 2, ["--max-running"]),
        (("create", "q", "--max-running", "0"), 2, ["--max-running must be", "any"]),
        (("create", "q", "--max-running-per-key", "0"), 2, ["--max-running-per-key must be"]),
        (("create", "q", "--backoff", "-1s"), 2, ["--backoff"]),
        (("create", "q", "--ageing", "soon"), 2, ["--ageing", "soon"]),
        (("create", "q", "--dedupe-window", "9999999d"), 2, ["--dedupe-window 9999999d is too"]),
        (("create", "q", "--ageing", "0"), 2, ["--ageing 0 is too short"]),
        (("set", "q"), 2, ["at least one rule", "bus queue set --help"]),
        (("set", "q", "--retry", "failures"), 4, ["no queue 'q'", "bus queue list"]),
        (("show", "q"), 4, ["no queue 'q'"]),
        (("pause", "q"), 4, ["no queue 'q'"]),
        (("resume", "q"), 4, ["no queue 'q'"]),
        (("purge", "q"), 4, ["no queue 'q'"]),
        (("list", "--window", "31d"), 2, ["30 days"]),
        (("list", "--watch", "--every", "0"), 2, ["--every"]),
    ],
)
def test_bad_input_makes_no_queue(
    arguments: tuple[str, ...], code: int, words: list[str], run_bus: RunBus, bus: Bus
) -> None:
    """Issue 3, Bad input: an unknown queue, a policy with negative numbers."""
    Queue.create(bus, "other")
    assert_error(run_bus("queue", *arguments), code, *words)
    assert [info.name for info in Queues(bus).list()] == ["other"]
    assert Queues(bus).get("other").policy == Policy()


def test_set_changes_what_is_given(run_bus: RunBus, bus: Bus) -> None:
    """X-02: and `any` takes a limit away."""
    Queue.create(bus, "reviews", max_running=3, backoff_s=1, retry="contract")
    assert run_bus("queue", "set", "reviews", "--on-lost", "fail").code == 0
    expected = Policy(max_running=3, backoff_s=1, on_lost="fail")
    assert Queues(bus).get("reviews").policy == expected
    done = run_bus("queue", "set", "reviews", "--max-running", "any", "--json")
    assert json.loads(done.out)["policy"]["max_running"] is None
    assert Queues(bus).get("reviews").policy == Policy(backoff_s=1, on_lost="fail")


def test_list_shows_how_much_waits(run_bus: RunBus, bus: Bus) -> None:
    """U-75, D-34: plain columns in a pipe, or an object for each queue."""
    assert (run_bus("queue", "list").code, run_bus("queue", "list").out) == (4, "")
    queue = Queue.create(bus, "reviews", "review", max_attempts=1)
    Queue.create(bus, "all", ">", start="now")
    publish(bus, 3)
    bus.publish(
        "review",
        from_agent="lead",
        headers=work_headers(available_at_ms=bus.now_ms() + 9**9),
    )
    one, two = queue.claim("worker", limit=2)
    queue.fail(one, "no")
    Queues(bus).pause("all")
    head, *rows = (line.split() for line in run_bus("queue", "list").out.splitlines())
    assert " ".join(head) == (
        "queue type state waiting delayed held running succeeded failed timed out dead oldest"
    )
    assert rows[0][:11] == ["all", ">", "paused", "3", "1", "0", "0", "0", "0", "0", "0"]
    assert rows[1][:11] == ["reviews", "review", "open", "1", "1", "0", "1", "0", "0", "0", "1"]
    queue.complete(two)
    assert run_bus("queue", "list").out.splitlines()[2].split()[6:8] == ["0", "1"]  # succeeded
    every, reviews = map(json.loads, run_bus("queue", "list", "--json").out.splitlines())
    assert (every["queue"], every["state"], "paused_at" in every) == ("all", "paused", True)
    assert (reviews["completed"], reviews["failures"], reviews["success_rate"]) == (1, 1, 0.5)
    assert reviews["run"]["sample_size"] == 2
    assert reviews["oldest_wait_ms"] >= 0


def test_show_says_all_about_one(run_bus: RunBus, bus: Bus) -> None:
    """U-72, U-73: for people by name, for programs one object."""
    queue = Queue.create(bus, "reviews", "review")
    empty = run_bus("queue", "show", "reviews").out
    assert "last 24 h:    0 attempts ended: 0 completed" in empty
    assert "success:      -\nwait:         -\nrun:          -\n" in empty
    publish(bus, 2)
    queue.complete(queue.claim("worker")[0])
    shown = run_bus("queue", "show", "reviews", "--window", "2h").out
    assert shown.startswith("queue:        reviews\ntype:         review\nstate:        open\n")
    assert "\nwaiting:      1, the oldest for " in shown
    assert "\nlast 2 h:     1 attempt ended: 1 completed, 0 failed, 0 timed out, 0 lost\n" in shown
    assert "\nsuccess:      100.00%\n" in shown
    assert "\npolicy:       ordering fifo, ageing 60s, retry contract, max-attempts 4, " in shown
    record = json.loads(run_bus("queue", "show", "reviews", "--json").out)
    assert list(record["wait"]) == ["p50_ms", "p95_ms", "avg_ms", "sample_size"]
    assert (record["filled_seq"], record["window_s"], record["is_saturated"]) == (2, 86400, False)


def test_paused_queue_hands_nothing_out(run_bus: RunBus, bus: Bus) -> None:
    queue = Queue.create(bus, "review")
    publish(bus)
    paused = run_bus("queue", "pause", "review", "--json")
    assert (paused.code, "paused_at" in json.loads(paused.out)) == (0, True)
    assert queue.claim("worker") == []
    resumed = run_bus("queue", "resume", "review")
    assert (resumed.code, resumed.out, resumed.err) == (0, "", "")
    assert len(queue.claim("worker")) == 1


def test_purge_cancels_what_waits_and_nothing_else(run_bus: RunBus, bus: Bus) -> None:
    """Nothing is deleted; what runs goes on."""
    queue = Queue.create(bus, "review")
    publish(bus, 3)
    (claim,) = queue.claim("worker")
    assert run_bus("queue", "purge", "review").out == "cancelled 2 jobs\n"
    again = run_bus("queue", "purge", "review", "--json")
    assert (again.code, json.loads(again.out)) == (4, {"queue": "review", "cancelled": 0})
    queue.complete(claim)
    states = [job.state for job in list_jobs(queue, (), 9)]
    assert states == ["cancelled", "cancelled", "succeeded"]


@pytest.mark.parametrize("line", [("list",), ("show", "review")])
def test_watch_prints_a_line_each_time_in_a_pipe_until_ctrl_c(
    line: tuple[str, ...], start_bus: StartBus, bus: Bus
) -> None:
    """Issue 3, item 6: each line is seen at once, and says how things stand then."""
    Queue.create(bus, "review")
    watching = start_bus("queue", *line, "--watch", "--every", "10ms")
    assert watching.stdout is not None
    assert (
        b"  review  open  0 waiting, 0 delayed, 0 held, 0 running, " in watching.stdout.readline()
    )
    publish(bus, 2)
    assert any(b" 2 waiting, " in watching.stdout.readline() for _ in range(1000))
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (130, b"")


def test_watch_prints_objects_for_programs(start_bus: StartBus, bus: Bus) -> None:
    Queue.create(bus, "review")
    watching = start_bus("queue", "show", "review", "--watch", "--every", "10ms", "--json")
    assert watching.stdout is not None
    records = [json.loads(watching.stdout.readline()) for _ in range(3)]
    assert {record["queue"] for record in records} == {"review"}
    assert records[0]["at"] < records[2]["at"]


def test_watch_ends_when_the_reader_leaves(start_bus: StartBus, bus: Bus) -> None:
    """Exit code 141, as for every command."""
    Queue.create(bus, "review")
    watching = start_bus("queue", "list", "--watch", "--every", "10ms")
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.stdout.close()
    assert watching.wait(timeout=60) == 141


def test_watch_on_a_terminal_draws_in_place(on_terminal: Callable[..., str], bus: Bus) -> None:
    """Issue 3, item 6: the cursor goes up again, and names of others can't act on the terminal."""
    insert = "INSERT INTO queues (name, pattern, filled_seq, created_at_ms) VALUES (?, ?, 0, 1)"
    file_of(bus).change(insert, ("review", "evil\x1b[2J"))
    shown = on_terminal("queue", "list", "--watch", "--every", "10ms", until=b"\x1b[1A")
    assert shown.count("review") >= 2
    assert r"evil\x1b[2J" in shown
    assert "\x1b[2J" not in shown


def test_queue_that_another_program_made_does_not_stop_a_list(run_bus: RunBus, bus: Bus) -> None:
    """Its pattern fits no type of ours; only new queues are held to that."""
    insert = "INSERT INTO queues (name, pattern, filled_seq, created_at_ms) VALUES (?, ?, 0, 1)"
    file_of(bus).change(insert, ("my queue", "a b"))
    assert run_bus("queue", "create", "reviews").code == 0
    listed = run_bus("queue", "list", "--json")
    assert [json.loads(line)["queue"] for line in listed.out.splitlines()] == [
        "my queue",
        "reviews",
    ]
    assert run_bus("run", "--queue", "my queue", "--drain", "--", "cat").code == 0
    assert run_bus("queue", "create", "your queue").code == 2


def test_a_trial_of_purging_changes_nothing(run_bus: RunBus, bus: Bus) -> None:
    queue = Queue.create(bus, "job")
    bus.publish_many([Draft("job", from_agent="a")] * 3)
    assert run_bus("queue", "purge", "job", "--dry-run").out == "would cancel 3 jobs\n"
    assert json.loads(run_bus("queue", "purge", "job", "--dry-run", "--json").out)["waiting"] == 3
    assert queue.stats().waiting == 3
    assert run_bus("queue", "purge", "job").out == "cancelled 3 jobs\n"
    assert run_bus("queue", "purge", "job", "--dry-run").code == 4


def test_a_queue_is_removed_after_a_trial(run_bus: RunBus, bus: Bus) -> None:
    Queue.create(bus, "q", "review")
    publish(bus)
    Queue.open(bus, "q").fill()
    assert_error(run_bus("queue", "remove", "q", "--dry-run"), 3, "1 waiting")
    run_bus("queue", "purge", "q", "--yes")
    trial = run_bus("queue", "remove", "q", "--dry-run", "--json")
    assert (trial.code, json.loads(trial.out)) == (0, {"queue": "q", "dry_run": True})
    assert run_bus("queue", "remove", "q", "--dry-run").out == (
        "would remove q; nothing was changed\n"
    )
    assert run_bus("queue", "remove", "q", "--yes").code == 0
    assert_error(run_bus("queue", "remove", "q", "--dry-run"), 4, "no queue 'q'")


def test_a_misspelt_queue_gets_the_near_one(run_bus: RunBus, bus: Bus) -> None:
    Queue.create(bus, "reviews")
    for line in ("show", "pause", "purge"):
        assert_error(run_bus("queue", line, "review"), 4, "'review'; did you mean reviews?")
    assert_error(run_bus("job", "list", "--queue", "reviws"), 4, "did you mean reviews?")


def test_jobs_are_found_by_the_words_of_other_systems(run_bus: RunBus, bus: Bus) -> None:
    queue = Queue.create(bus, "job")
    bus.publish_many([Draft("job", from_agent="a")] * 2)
    queue.complete(*queue.claim("w"))
    for state, seq in (("completed", 1), ("success", 1), ("pending", 2)):
        (line,) = run_bus("job", "list", "--state", state, "--json").out.splitlines()
        assert json.loads(line)["seq"] == seq
    assert_error(run_bus("job", "list", "--state", "delayed"), 2, "give --state queued")
