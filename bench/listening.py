"""A process that waits for messages, and tells how long each was on its way."""

from __future__ import annotations

import json
import subprocess
import sys


class Listening:
    """A program that runs until its input ends, and then prints its waits, in ns, as JSON.

    It may print other lines before, which `next_line` waits for.
    """

    def __init__(self, program: str, *arguments: str) -> None:
        command = [sys.executable, "-c", program, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def next_line(self) -> str:
        """Wait for a line of the program."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self, warm_up: int = 0) -> list[float]:
        """Return the seconds that all but the first few were on their way."""
        out, _ = self._process.communicate("")
        return [wait / 1e9 for wait in json.loads(out)[warm_up:]]

    def kill(self) -> None:
        """End it whatever it does; nothing when it has ended."""
        self._process.kill()
        self._process.wait()
