"""Actors: programs in processes of their own, and the gates that start them together."""

import fcntl
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ..conftest import wait_until

#: Seconds after which an actor that has not ended fails its test.
END_TIMEOUT_S = 60

StartActor = Callable[..., "Actor"]


class Actor:
    """One role of a script, played in a process of its own.

    What it tells goes to a file, a JSON value in a line: it can tell as much as it likes without
    being read, and what it told is there after it was killed.
    """

    def __init__(
        self,
        script: Path,
        role: str,
        arguments: list[str],
        output: Path,
        prefix: Sequence[str] = (),
    ) -> None:
        self._output = output
        self._errors = output.with_suffix(".err")
        with output.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                # -P keeps the script's folder, and so our test modules, out of the import path.
                [*prefix, sys.executable, "-P", script, role, *arguments],
                stdout=out,
                stderr=errors,
            )

    def told(self) -> list[Any]:
        """The lines that it has printed so far, in whole lines."""
        *whole, _torn = self._output.read_bytes().split(b"\n")
        return [json.loads(line) for line in whole]

    def wait_told(self, number: int) -> list[Any]:
        """Its lines, as soon as there are `number` of them; fails if it ends before."""
        wait_until(lambda: len(self.told()) >= number or self.process.poll() is not None, 30)
        told = self.told()
        assert len(told) >= number, f"told {told}, then ended: {self._errors.read_text()}"
        return told

    def end(self) -> list[Any]:
        """All it told, after its end in good order."""
        code = self.process.wait(END_TIMEOUT_S)
        assert code == 0, self._errors.read_text()
        return self.told()

    def kill(self) -> list[Any]:
        """Ends it with kill -9; returns all it told before."""
        self.process.kill()
        code = self.process.wait(END_TIMEOUT_S)
        assert code in (0, -signal.SIGKILL), self._errors.read_text()
        return self.told()

    def stop(self) -> None:
        """Freezes it where it is."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Gate:
    """A start line: actors that pass it wait until it is open, and go on all at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        self._file.close()


def actor_starter(script: Path, folder: Path, prefix: Sequence[str] = ()) -> Iterator[StartActor]:
    """The body of a fixture: a function that starts actors; those still there are killed after.

    `prefix` is a command that runs them.
    """
    actors: list[Actor] = []
    numbers = count()

    def start(role: str, *arguments: object) -> Actor:
        output = folder / f"{role}-{next(numbers)}.out"
        actors.append(Actor(script, role, [str(one) for one in arguments], output, prefix))
        return actors[-1]

    yield start
    for actor in actors:
        actor.process.kill()
        actor.process.wait()


def start_together(
    start: StartActor, gate: Gate, casts: Sequence[tuple[object, ...]]
) -> list[Actor]:
    """Starts an actor for each (role, argument…), and opens the gate when all stand behind it."""
    actors = [start(*cast) for cast in casts]
    for actor in actors:
        actor.wait_told(1)
    gate.open()
    return actors


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A closed gate."""
    return Gate(tmp_path / "gate")
