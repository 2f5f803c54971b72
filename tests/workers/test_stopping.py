"""Workers that are stopped, killed, frozen, or overtaken: what becomes of what they hold."""

import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from ackbus import Bus, JobControl, Queue

from ..conftest import RunBus, wait_until
from ..sizes import size
from ..subscribers.work import attempts, job, state, statuses
from .conftest import StartHost
from .hosts import (
    LONG_S,
    REQUEST,
    Host,
    answer,
    answers,
    ask,
    done,
    is_alive,
    pid_in,
    wait_for_done,
)

pytestmark = pytest.mark.slow

#: Writes down its process id and the body, and waits for a file with the name `go`.
WAIT = """
    body=$(cat)
    echo $$ >"pid-$body"
    echo "$body" >>begun
    until test -e go; do sleep 0.02; done
    echo "$body done"
"""

#: How often a worker is killed in the midst of its work.
KILLS = size(sample=5, whole=15)


@pytest.fixture
def queue(bus: Bus) -> Queue:
    """A queue whose jobs are tried again at once, and often."""
    return Queue.create(bus, REQUEST, backoff_s=0, max_attempts=100)


def begun(project: Path) -> list[str]:
    """The bodies with which `WAIT` has begun."""
    path = project / "begun"
    return path.read_text().split() if path.exists() else []


def is_beating(bus: Bus, host: Host) -> bool:
    """Whether a host is at work by now: its heart has begun to beat."""
    return any(beat.pid == host.process.pid for beat in bus.heartbeats.list())


# Signals.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_worker_ends_well_at_a_signal(
    bus: Bus, queue: Queue, start_host: StartHost, number: signal.Signals
) -> None:
    host = start_host("--type", REQUEST, "--", "cat")
    wait_until(lambda: is_beating(bus, host))
    host.tell(number)
    assert (host.ended(), host.log) == (0, "")
    assert [beat.status for beat in bus.heartbeats.list()] == ["stopped"]


def test_sigterm_finishes_what_runs_and_takes_no_more(
    bus: Bus, queue: Queue, project: Path, start_host: StartHost
) -> None:
    """P-47: the answers of what ran are there, and what was not begun has no claim."""
    ask(bus, "a", "b", "c", "d")
    host = start_host("--type", REQUEST, "--concurrency", "2", "--", "sh", "-c", WAIT)
    wait_until(lambda: len(begun(project)) == 2)
    host.tell(signal.SIGTERM)
    assert is_alive(pid_in(project / "pid-a"))
    (project / "go").touch()
    assert (host.ended(), host.log) == (0, "")
    assert sorted(found.payload for found in bus.read(type="job.done")) == ["a done\n", "b done\n"]
    assert [statuses(queue, seq) for seq in (1, 2, 3, 4)] == [["completed"]] * 2 + [[], []]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_what_runs_and_hands_it_back(
    bus: Bus, queue: Queue, project: Path, start_host: StartHost, number: signal.Signals
) -> None:
    """Also a command that ignores SIGTERM, with its children; the attempt does not count."""
    ask(bus, "a")
    stubborn = "trap '' TERM; (echo $$ >child; sleep 60) & " + WAIT
    host = start_host("--type", REQUEST, "--", "sh", "-c", stubborn)
    pids = [pid_in(project / "pid-a"), pid_in(project / "child")]
    host.tell(number)
    assert all(map(is_alive, pids))
    # Two that come at the same moment are one, so it is told until it has heard the second.
    wait_until(lambda: not is_alive(pids[0]) or tell_again(host, number))
    assert host.ended() == 128 + number
    assert not any(map(is_alive, pids))
    assert (state(queue), job(queue).gate, job(queue).attempt) == ("queued", "open", 1)
    assert (statuses(queue), answers(bus)) == (["lost"], [])


def test_worker_whose_bus_is_gone_ends_with_one_line(
    bus: Bus, bus_dir: Path, queue: Queue, project: Path, start_host: StartHost
) -> None:
    host = start_host("--type", REQUEST, "--", "cat")
    wait_until(lambda: is_beating(bus, host))
    # Moved first: what looks for the bell makes it where it was, and the folder would not be empty.
    shutil.rmtree(bus_dir.rename(project / "gone"))
    assert host.ended() == 1
    *_, last = host.log.splitlines()
    assert last.startswith("bus: ")
    assert "Traceback" not in host.log


def tell_again(host: Host, number: signal.Signals) -> bool:
    """Sends a signal once more; that alone is not what is waited for."""
    host.tell(number)
    return False


# Leases that run out.


def test_command_that_takes_longer_than_its_lease_runs_once(
    bus: Bus, queue: Queue, project: Path, start_host: StartHost
) -> None:
    """P-87: lease 1 s, command 3 s, two workers: exactly one run, and one answer."""
    command = ("--lease", "1s", "--", "sh", "-c", "cat >>runs; sleep 3")
    hosts = [start_host("--type", REQUEST, "--group", group, *command) for group in "ab"]
    wait_until(lambda: all(is_beating(bus, host) for host in hosts), LONG_S)
    ask(bus, "x")
    wait_until(lambda: answers(bus), LONG_S)
    assert [host.stopped() for host in hosts] == ["", ""]
    assert (project / "runs").read_text() == "x"
    assert (statuses(queue), answer(bus).type) == (["completed"], "job.done")


def test_worker_that_was_frozen_past_its_lease_publishes_nothing_and_goes_on(
    bus: Bus, queue: Queue, project: Path, start_host: StartHost
) -> None:
    """P-87, promise 6: what another worker has done since is not done twice.

    The late one is told, what it reports is kept on its claim, and it serves the next message.
    """
    ask(bus, "a")
    command = ("--type", REQUEST, "--lease", "1s", "--", "sh", "-c", WAIT)
    frozen = start_host(*command)
    pid = pid_in(project / "pid-a")
    frozen.tell(signal.SIGSTOP)
    (project / "go").touch()  # its command ends; it does not see it
    wait_until(lambda: not is_alive(pid))
    other = start_host(*command)
    wait_until(lambda: answers(bus))
    other.stopped()
    frozen.tell(signal.SIGCONT)
    ask(bus, "b")
    wait_until(lambda: answers(bus, 3))
    log = frozen.stopped()
    assert "claim 1 on message 1 of queue 'job.request' is no longer held" in log
    assert [record.status for record in attempts(queue, 1)] == ["lost", "completed"]
    assert attempts(queue, 1)[0].error == "the lease ran out; reported too late: completed"
    assert attempts(queue, 1)[0].result == "a done\n"
    assert (answer(bus, 1).payload, answer(bus, 3).payload) == ("a done\n", "b done\n")
    assert statuses(queue, 3) == ["completed"]


def test_cancelled_job_ends_the_command_of_a_worker_in_another_process(
    bus: Bus, queue: Queue, project: Path, start_host: StartHost
) -> None:
    ask(bus, "a")
    host = start_host("--type", REQUEST, "--lease", "1s", "--", "sh", "-c", WAIT)
    pid = pid_in(project / "pid-a")
    JobControl(queue).cancel(1, "not wanted")
    wait_until(lambda: not is_alive(pid))
    (project / "go").touch()
    (second,) = ask(bus, "b")
    wait_until(lambda: answers(bus, second))
    assert "is no longer held" in host.stopped()
    assert (state(queue), statuses(queue)) == ("cancelled", ["lost"])
    assert answer(bus).headers["status"] == "cancelled"


# Killed.


def test_message_of_a_killed_worker_is_handled_after_its_lease(
    bus: Bus, queue: Queue, project: Path, start_host: StartHost
) -> None:
    """U-62: killed in the middle, it is not lost.

    Nothing marks it as handled before it is.
    """
    ask(bus, "a")
    command = ("--type", REQUEST, "--lease", "1s", "--", "sh", "-c", WAIT)
    host = start_host(*command)
    pid_in(project / "pid-a")
    host.tell(signal.SIGKILL)
    host.ended()
    (project / "go").touch()
    other = start_host(*command)
    wait_until(lambda: answers(bus))
    other.stopped()
    assert statuses(queue) == ["lost", "completed"]
    assert [record.attempt for record in attempts(queue)] == [1, 2]
    assert attempts(queue)[0].error == "the lease ran out"


def test_no_kill_leaves_an_end_without_its_answer_or_two_answers(
    bus: Bus, queue: Queue, start_host: StartHost, run_bus: RunBus
) -> None:
    """P-40, P-86: the end of a claim and its answer are one transaction.

    Upstream has two; here, what would be between them is looked for after each of many kills.
    """
    chance = random.Random(5)
    seqs: list[int] = []
    for _ in range(KILLS):
        seqs += ask(bus, *map(str, range(20)))
        host = start_host("--type", REQUEST, "--lease", "0.3s", "--concurrency", "3", "--", "cat")
        upto = done(bus) + chance.randint(1, 10)
        wait_for_done(bus, upto)
        host.tell(signal.SIGKILL)
        host.ended()
        succeeded = {seq for seq in seqs if "completed" in statuses(queue, seq)}
        answered = [found.in_reply_to for found in bus.read(type="job.done")]
        ids = {found.id: found.seq for found in bus.read(type=REQUEST)}
        assert len(answered) == len(set(answered)) == len(succeeded)
        assert {ids[id] for id in answered if id is not None} == succeeded
    count = len(seqs)
    wait_until(lambda: drained(run_bus, bus) == count, LONG_S)
    ended = Counter(status for seq in seqs for status in statuses(queue, seq))
    assert ended["completed"] == count
    assert set(ended) == {"completed", "lost"}
    assert {state(queue, seq) for seq in seqs} == {"succeeded"}


def drained(run_bus: RunBus, bus: Bus) -> int:
    assert run_bus("run", "--type", REQUEST, "--drain", "--", "cat").code == 0
    return done(bus)
