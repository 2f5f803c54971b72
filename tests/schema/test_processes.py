"""Processes that are noted in the bus: an id counts with its age only."""

import os
import subprocess
import sys
import time

from ackbus.schema.processes import has_run_for


def test_this_process_has_run_since_it_was_noted() -> None:
    assert has_run_for(os.getpid(), 0)


def test_a_clock_that_was_set_back_makes_no_process_a_dead_one() -> None:
    assert has_run_for(os.getpid(), -86_400)


def test_a_younger_process_with_the_same_id_is_another_one() -> None:
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert has_run_for(child.pid, 0)
        assert not has_run_for(child.pid, time.monotonic() - began + 5)
        assert child.stdin is not None
        child.stdin.close()
    assert not has_run_for(child.pid, 0)
