"""Notes of when an agent was woken, so that it is not woken too soon, or for the same mail."""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass

from ..schema.directory.folder import Obstructed
from ..schema.directory.ignoring import keep_out_of_git
from .terminals import NotWoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ..bus.local_bus import LocalBus

#: The folder of the bus directory that has the notes.
_FOLDER = "woken"

#: The form of a note. Its length is fixed, so that a write replaces all of the last note.
_FORM, _BYTES = b"%016d %016d\n", 34


@dataclass(frozen=True, slots=True)
class WakeNote:
    """The last time that an agent was woken, or a try failed.

    Attributes:
        upto: the newest message of the log when it was woken last.
        at_ms: when, in epoch milliseconds; 0 for never.
    """

    upto: int = 0
    at_ms: int = 0


class WakeNotes:
    """The note of an agent, in a file of the bus directory. Without it the agent is woken again.

    Args:
        bus, agent: the agent.
    """

    def __init__(self, bus: LocalBus, agent: str) -> None:
        self._bus = bus
        self._agent = agent
        self._folder = bus.layout.files.folder(_FOLDER)
        self._name = hashlib.sha256(agent.encode()).hexdigest()[:32]

    def last(self) -> WakeNote:
        """Return the note, or a note that says never."""
        try:
            with self._folder.read(self._name) as file:
                upto, at_ms = map(int, file.read(_BYTES).split())
        except (OSError, ValueError):  # there is none, or something else stands there
            return WakeNote()
        # A note of a later message is of another bus, which was here before.
        return WakeNote(upto, at_ms) if upto <= self._bus.log.newest_seq() else WakeNote()

    def write(self, upto: int) -> None:
        """Note that a wake was tried now, and up to where it has served; in `alone`."""
        fd = self._folder.change(self._name)
        try:
            os.pwrite(fd, _FORM % (upto, self._bus.now_ms()), 0)
        finally:
            os.close(fd)

    @contextmanager
    def alone(self, pace_s: float) -> Iterator[None]:
        """Keep other processes from waking the agent within the block.

        Args:
            pace_s: how long ago the last wake must be, in seconds.

        Raises:
            NotWoken: it is not so long ago, another process is in the block, or no note can be
                written.
        """
        with self._locked(self._name):
            self.check_pace(pace_s)
            yield

    def waiting(self) -> AbstractContextManager[None]:
        """Return a block in which only one process at a time waits for the agent's mail.

        Raises:
            NotWoken: another process waits, or the lock can't be had.
        """
        return self._locked(f"{self._name}.waits")

    def check_pace(self, pace_s: float) -> None:
        """Raise `NotWoken` if the last wake is not so long ago."""
        if left_s := self.left_s(pace_s):
            reason = f"a wake was tried a short time ago; try again in {left_s} s, or give --pace"
            raise NotWoken(self._agent, reason)

    def left_s(self, pace_s: float) -> int:
        """Return in how many seconds the last wake is so long ago; 0 if it is already."""
        ago_s = (self._bus.now_ms() - self.last().at_ms) / 1000
        return math.ceil(pace_s - ago_s) if 0 <= ago_s < pace_s else 0  # below 0: a clock set back

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Have a file of the folder locked."""
        fd = self._open(name)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise NotWoken(self._agent, "another process is at it at this moment") from error
        try:
            yield
        finally:
            os.close(fd)

    def _open(self, name: str) -> int:
        try:
            if self._bus.layout.files.look(_FOLDER) is None:
                self._folder.make()
                keep_out_of_git(self._bus.layout, f"{_FOLDER}/")
            return self._folder.change(name)
        except OSError as error:
            path = self._folder.path_of(name)
            reason = error if isinstance(error, Obstructed) else f"{path}: {error.strerror}"
            raise NotWoken(self._agent, f"no note can be kept: {reason}") from error
