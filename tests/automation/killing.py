"""Acts in a child that is killed (kill -9) before one of their steps, each time a later one.

A step is a statement that SQLite is to run; a write, a sync, a truncation or a removal of one of
its files; and a file that is opened, made, written, synced, renamed or removed by others.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from ackbus import Bus
from ackbus.schema.message.times import now_ms
from ackbus.schema.queries import file_of

#: Which steps a test looks at: some by day, each in the nightly form.
STRIDES = [11, pytest.param(1, marks=pytest.mark.nightly)]

_OPERATIONS = ("open", "os.rename", "os.mkdir", "os.remove", "os.truncate", "os.link")
#: Calls that Python tells no hook of.
_CALLS = ("write", "fsync", "fdatasync")


class Steps:
    """The steps of an act, from `begin` to `end`; before one of them the process kills itself.

    Args:
        root: the folder whose files count.
        fatal: the number of the step; 0 is none, and changes nothing in this process.
    """

    def __init__(self, root: Path, fatal: int) -> None:
        self._root = str(root)
        self._fatal = fatal
        self._numbers = count(1)
        self._is_counting = False
        if fatal:  # for good: only a child may ask for it
            sys.addaudithook(self._hear)
            self._vfs = _VFS(self._step)
            for name in _CALLS:
                setattr(os, name, self._counted(getattr(os, name)))

    @classmethod
    def uncounted(cls, bus: Bus) -> "Steps":
        """Steps before none of which the process is killed."""
        return cls(Path(), 0).on(bus)

    def on(self, bus: Bus) -> "Steps":
        """Counts the statements of a bus, which was opened after these steps were made."""
        self._connection = file_of(bus).connection
        return self

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

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: object) -> Any:
            self._step()
            return call(*args)

        return counted

    def _step(self) -> None:
        if self._is_counting and next(self._numbers) == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class _VFS(apsw.VFS):
    """SQLite's way to the disk, for each file that is opened from now on."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._base = apsw.vfs_names()[0]
        super().__init__("counted", self._base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        file = _File(self._base, name, flags)
        file.step = self._step
        return file

    def xDelete(self, name: str, sync_folder: bool) -> None:
        self._step()
        super().xDelete(name, sync_folder)


class _File(apsw.VFSFile):
    """A file of SQLite whose changes are steps."""

    step: Callable[[], None]

    def xWrite(self, data: bytes, at: int) -> None:
        self.step()
        super().xWrite(data, at)

    def xTruncate(self, size: int) -> None:
        self.step()
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self.step()
        super().xSync(flags)


#: Returns the time in epoch milliseconds.
Clock = Callable[[], int]

#: An act on a bus; it begins and ends the counting of its steps.
Act = Callable[[Bus, Steps], object]


def killed_at(step: int, bus_dir: Path, act: Act, clock: Clock = now_ms) -> bool:
    """Do something in a child that is killed before a step; say whether there was such a step.

    Args:
        step: its number, from 1.
        bus_dir: the bus, which the child opens.
        act: the act.
        clock: of the bus.
    """
    child = os.fork()
    if child == 0:
        try:
            steps = Steps(bus_dir.parent.parent, step)
            with Bus.open(bus_dir, clock=clock) as bus:
                act(bus, steps.on(bus))
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


def kills(
    bus_dir: Path,
    stride: int,
    least: int,
    prepare: Callable[[int], Act],
    clock: Clock = now_ms,
) -> Iterator[int]:
    """Kill an act before each of its steps in turn; yields after each time, the last unkilled.

    Args:
        bus_dir: the bus.
        stride: how many steps later the next kill comes.
        least: how many steps there are at least.
        prepare: is called before each time with the number of the step, and returns the act.
        clock: of the bus.
    """
    step, died = 1, True
    while died:
        died = killed_at(step, bus_dir, prepare(step), clock)
        yield step
        step += stride
    assert step > least, step
