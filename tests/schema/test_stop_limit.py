"""A process that is told to end does so within its limit, whatever it is at: the kernel sees to it.

The limits here are short ones; none of these tests passes or fails by a clock: a process that did
not end would be waited for until the whole run is stopped.
"""

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_LIMIT_S = int(signal.SIGILL)  # 4 s: the number of a signal that nothing sends here

_SETUP = f"""
import signal, sys, time
from ackbus.schema.stop_limit import heed, lift_limit, obey, obeyed
stops = []
obey(lambda number, frame: stops.append(number), signal.SIGTERM, limit_s={_LIMIT_S})
def ready():
    print("ready", flush=True)
"""

LOOPS = {
    "in C": (
        "import collections, itertools\nready()\ncollections.deque(itertools.repeat(0), maxlen=0)"
    ),
    "in Python": "ready()\nwhile True: pass",
    "asleep, again and again": "ready()\nwhile True: time.sleep(0.01)",
    "in a thread that never ends": (
        "import threading\n"
        "threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)]).start()\n"
        "ready()\nwhile not stops: time.sleep(0.01)"
    ),
}


def begin(text: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", _SETUP + text], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_ends_by_the_kernel(loop: str) -> None:
    with begin(loop) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGALRM


@pytest.mark.slow
def test_a_second_signal_takes_no_limit_away() -> None:
    with begin(LOOPS["in C"]) as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGALRM


def test_a_stop_that_ends_is_not_cut_short() -> None:
    with begin("ready()\nwhile not stops: time.sleep(0.01)\nsys.exit(7)") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 7


@pytest.mark.slow
def test_a_signal_that_ends_nothing_gives_the_time_back() -> None:
    """SIGHUP reloads a configuration: the kernel began to count, and the service goes on."""
    text = (
        "heard = []\n"
        "heed(lambda number, frame: heard.append(number), signal.SIGHUP)\n"
        "ready()\n"
        "while not heard: time.sleep(0.01)\n"
        "sys.exit(int(signal.getitimer(signal.ITIMER_REAL)[0] > 0))"
    )
    with begin(text) as process:
        process.send_signal(signal.SIGHUP)
        assert process.wait() == 0


def test_work_that_is_waited_for_lifts_the_limit() -> None:
    text = (
        "ready()\n"
        "while not stops: time.sleep(0.01)\n"
        "lift_limit()\n"
        "sys.exit(int(signal.getitimer(signal.ITIMER_REAL)[0] > 0))"
    )
    with begin(text) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_block_within_another_program_leaves_nothing() -> None:
    text = (
        "from ackbus.schema import stop_limit\n"
        "with obeyed(lambda number, frame: None, signal.SIGINT): pass\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "assert stop_limit._pipe is None and signal.set_wakeup_fd(-1) == -1\n"
        "ready()"
    )
    with begin(text) as process:
        assert process.wait() == 0


#: Modules whose handlers end the process by themselves, or within a block that is seldom left open.
_OWN = {
    "cli/commands/webhook.py",  # the second signal, within the limit of the first
    "cli/running/looking.py",  # ends as Ctrl-C does, and has a limit
    "cli/top/running.py",  # a picture, which a person looks at
    "schema/stop_limit.py",
    "server/mcp/presence.py",  # dies in its handler
    "workers/processes/supervisor.py",  # its host's end is its own
}


@pytest.mark.slow
def test_every_service_obeys_in_the_one_place() -> None:
    """A handler of its own for SIGTERM would have no limit."""
    found = set()
    for path in ROOT.rglob("*.py"):
        name = str(path.relative_to(ROOT))
        if name.startswith((".", "tests/", "examples/", "bench/", "demo/", "torture/", "build/")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "signal.signal":
                is_default = ast.unparse(node.args[1]).startswith("signal.SIG_")
                if not is_default:
                    found.add(name)
    assert found - _OWN == set()
