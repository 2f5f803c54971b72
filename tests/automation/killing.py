"""Acts in a child that is killed (kill -9) before one of their steps, each time a later one.

A step is a statement that SQLite is to run, or a file that is opened, made, renamed or removed.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of

#: Which steps a test looks at: some by day, each in the nightly form.
STRIDES = [3, pytest.param(1, marks=pytest.mark.nightly)]

_OPERATIONS = ("open", "os.rename", "os.mkdir", "os.remove")


class Steps:
    """The steps of an act, from `begin` to `end`; before one of them the process kills itself."""

    def __init__(self, bus: Bus, root: Path, fatal: int) -> None:
        self._connection = file_of(bus).connection
        self._root = str(root)
        self._fatal = fatal
        self._numbers = count(1)
        self._is_counting = False
        if fatal:
            sys.addaudithook(self._hear)  # for good: only a child may ask for it

    @classmethod
    def uncounted(cls, bus: Bus) -> "Steps":
        """Steps before none of which the process is killed."""
        return cls(bus, Path(), 0)

    def begin(self) -> None:
        self._is_counting = True
        self._connection.exec_trace = self._statement

    def end(self) -> None:
        self._is_counting = False
        self._connection.exec_trace = None

    def _statement(self, _: apsw.Cursor, __: str, ___: object) -> bool:
        self._step()
        return True

    def _hear(self, event: str, told: tuple[object, ...]) -> None:
        if self._is_counting and event in _OPERATIONS:
            path = str(told[0])
            if not os.path.isabs(path) or path.startswith(self._root):  # not those of imports
                self._step()

    def _step(self) -> None:
        if self._is_counting and next(self._numbers) == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


#: An act on a bus; it begins and ends the counting of its steps.
Act = Callable[[Bus, Steps], object]


def killed_at(step: int, bus_dir: Path, act: Act) -> bool:
    """Do something in a child that is killed before a step; say whether there was such a step.

    Args:
        step: its number, from 1.
        bus_dir: the bus, which the child opens.
        act: the act.
    """
    child = os.fork()
    if child == 0:
        try:
            with Bus.open(bus_dir) as bus:
                act(bus, Steps(bus, bus_dir.parent.parent, step))
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


def whole(act: Callable[[Bus], object]) -> Act:
    """An act all of whose steps count."""

    def counted(bus: Bus, steps: Steps) -> None:
        steps.begin()
        act(bus)
        steps.end()

    return counted


def kills(bus_dir: Path, stride: int, least: int, prepare: Callable[[int], Act]) -> Iterator[int]:
    """Kill an act before each of its steps in turn; yields after each time, the last unkilled.

    Args:
        bus_dir: the bus.
        stride: how many steps later the next kill comes.
        least: how many steps there are at least.
        prepare: is called before each time with the number of the step, and returns the act.
    """
    step, died = 1, True
    while died:
        died = killed_at(step, bus_dir, prepare(step))
        yield step
        step += stride
    assert step > least, step
