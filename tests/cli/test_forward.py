"""bus forward, as a process."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ackbus import Bus, Inbox

from ..automation.forwarding.receivers import OK, SECRET, Posted, answer, receiving
from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error


@pytest.fixture
def secret(project: Path) -> Path:
    """The file with the secret."""
    path = project / "hook.secret"
    path.touch(0o600)
    path.write_text(f"{SECRET}\n")
    return path


def line(url: str, *options: str) -> list[str]:
    """The words of a command that forwards to a receiver."""
    usual = ("--agent", "hook", "--allow-private", "--secret-file", "hook.secret")
    return ["forward", url, *usual, "--retry-pause", "1ms", *options]


@pytest.mark.slow
def test_process_that_is_killed_before_its_ack_posts_the_same_again(
    start_bus: StartBus, bus: Bus, secret: Path
) -> None:
    """Exact counts: the message at hand twice, under one id; all others once; none lost."""
    for n in range(20):
        bus.publish("t", n, from_agent="a")
    killed: list[object] = []

    def kill(posted: Posted, number: int) -> bytes:
        if number in (0, 7, 8):
            os.kill(processes[-1].pid, signal.SIGKILL)
            assert processes[-1].wait(60) == -signal.SIGKILL
            killed.append(posted.data)
        return OK

    def has_died(times: int) -> bool:
        return len(killed) == times

    with receiving(kill) as receiver:
        words = line(receiver.url, "--drain", "--start", "beginning")
        processes = [start_bus(*words)]
        for deaths in (1, 2, 3):
            wait_until(partial(has_died, deaths))
            processes.append(start_bus(*words))
        assert processes[-1].wait(60) == 0
    assert receiver.data == [0, *range(7), 6, 6, *range(7, 20)]
    assert killed == [0, 6, 6]
    for n in range(20):
        ids = {each.headers["webhook-id"] for each in receiver.posted if each.data == n}
        assert len(ids) == 1
    assert Inbox(bus, "hook").parked() == []


def test_second_process_of_a_subscription_is_refused(
    start_bus: StartBus, run_bus: RunBus, bus: Bus, secret: Path
) -> None:
    """Each message is posted once, and the first goes on."""
    with receiving() as receiver:
        first = start_bus(*line(receiver.url, "--start", "beginning"))
        bus.publish("t", 1, from_agent="a")
        wait_until(lambda: receiver.data == [1])
        for _ in range(2):
            refused = run_bus(*line(receiver.url))
            assert_error(refused, 3, f"process {first.pid} delivers for 'hook' already")
        bus.publish("t", 2, from_agent="a")
        wait_until(lambda: receiver.data == [1, 2])
        wait_until(lambda: Inbox(bus, "hook").position == 2)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0
        bus.publish("t", 3, from_agent="a")
        assert run_bus(*line(receiver.url, "--drain")).code == 0
        assert receiver.data == [1, 2, 3]


def test_name_of_an_agent_is_refused(run_bus: RunBus, bus: Bus, secret: Path) -> None:
    """Its cursor would move past mail that it has not read."""
    bus.publish("t", 1, from_agent="sender")
    bus.heartbeats.beat("beating")
    for name in ("sender", "beating"):
        words = line("http://127.0.0.1:9/", "--drain")
        words[words.index("hook")] = name
        assert_error(run_bus(*words), 3, f"'{name}' is the name of an agent")
        assert Inbox(bus, name).position == 0


def test_new_subscription_begins_now_and_goes_on_where_it_ended(
    run_bus: RunBus, bus: Bus, secret: Path
) -> None:
    bus.publish("t", "old", from_agent="a")
    with receiving() as receiver:
        first = run_bus(*line(receiver.url, "--drain"))
        assert (first.code, receiver.posted) == (0, [])
        told = "hook is new and begins after message 1; --start beginning posts earlier ones, too"
        assert told in first.err
        bus.publish("t", "new", from_agent="a")
        bus.publish("u", "other", from_agent="a")
        again = run_bus(*line(receiver.url, "--drain", "--type", "t", "--start", "beginning"))
        assert (again.code, receiver.data) == (0, ["new"])
        assert "hook goes on after message 1: it is not new" in again.err


def test_what_a_target_does_not_take_is_parked_where_people_see_it(
    run_bus: RunBus, bus: Bus, secret: Path
) -> None:
    bus.publish("t", "bad", from_agent="a")
    options = ("--drain", "--start", "beginning", "--max-deliveries", "2")
    with receiving(lambda posted, number: answer(422)) as receiver:
        done = run_bus(*line(receiver.url, *options))
    assert "message 1 is parked" in done.err
    assert "hush" not in done.err
    (parked,) = map(json.loads, run_bus("parked", "list", "hook", "--json").out.splitlines())
    assert (parked["seq"], parked["attempts"]) == (1, 2)
    assert run_bus("parked", "requeue", "hook", "1").code == 0
    with receiving() as receiver:
        assert run_bus(*line(receiver.url, *options)).code == 0
    assert receiver.data == ["bad"]


def test_target_that_is_gone_is_said(run_bus: RunBus, bus: Bus, secret: Path) -> None:
    bus.publish("t", 1, from_agent="a")
    with receiving(lambda posted, number: answer(410)) as receiver:
        ended = run_bus(*line(receiver.url, "--drain", "--start", "beginning"))
    assert_error(ended, 3, "answered 410", "bus agents forget hook")
    assert run_bus("agents", "forget", "hook", "--yes").code == 0


def test_what_was_discarded_is_not_passed_over_in_silence(
    run_bus: RunBus, bus: Bus, secret: Path
) -> None:
    """It was for another agent, who had read it, and so held nothing back."""
    Inbox(bus, "b").join()
    for n in range(8):
        bus.publish("t", n, from_agent="a", to_agent="b")
    with receiving() as receiver:
        assert run_bus(*line(receiver.url, "--drain", "--start", "3")).code == 0
        assert receiver.data == [2, 3, 4, 5, 6, 7]
        Inbox(bus, "b").ack(8)
        assert run_bus("agents", "forget", "hook", "--yes").code == 0
        assert (
            run_bus(*line(receiver.url, "--drain", "--start", "beginning", "--type", "u")).code == 0
        )
        assert run_bus("archive", "--before", "6", "--yes").code == 0
        assert run_bus("archive", "--discard", "--before", "6", "--yes").code == 0
        lost = run_bus(*line(receiver.url, "--drain", "--type", "t"))
        assert_error(lost, 3, "archived unread, and discarded", "bus ack hook 5")
        assert run_bus("ack", "hook", "5").code == 0
        assert run_bus(*line(receiver.url, "--drain", "--type", "t")).code == 0
    assert receiver.data == [2, 3, 4, 5, 6, 7, 5, 6, 7]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.chmod(0o640), "others can read hook.secret"),
        (lambda path: path.write_text(""), "hook.secret has no secret"),
        (lambda path: path.write_text("whsec_!"), "whsec_ and base64"),
        (lambda path: path.write_text("whsec_QUJD"), "fewer than 16 bytes"),
        (lambda path: path.write_bytes(b"\xff"), "no plain text"),
        (lambda path: path.unlink(), "hook.secret can't be read"),
    ],
    ids=["open", "empty", "no-base64", "short", "binary", "missing"],
)
def test_secret_that_is_none_is_refused_and_not_shown(
    run_bus: RunBus, bus: Bus, secret: Path, make: Callable[[Path], object], why: str
) -> None:
    make(secret)
    refused = run_bus(*line("http://127.0.0.1:9/"))
    assert_error(refused, 2, why)
    assert SECRET not in refused.err
    assert bus.agents.names() == []  # no subscription was made


def test_secret_comes_from_the_environment_too(run_bus: RunBus, bus: Bus) -> None:
    """Several sign each message, so that a receiver may change to another."""
    bus.publish("t", 1, from_agent="a")
    words = ("--agent", "hook", "--allow-private", "--drain", "--start", "beginning")
    assert_error(run_bus("forward", "http://127.0.0.1:9/", *words), 2, "$BUS_WEBHOOK_SECRET")
    with receiving() as receiver:
        env = {"BUS_WEBHOOK_SECRET": f"{SECRET} whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}
        assert run_bus("forward", receiver.url, *words, env=env).code == 0
    (posted,) = receiver.posted
    assert len(posted.headers["webhook-signature"].split(" ")) == 2
