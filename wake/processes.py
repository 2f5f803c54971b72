"""Processes and their terminals, as the kernel tells them in /proc."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..schema.process_table import read_proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TERMINAL = re.compile(r"/dev/(pts/\d+|tty\d+)")


@dataclass(frozen=True, slots=True)
class Process:
    """A process at one moment.

    Attributes:
        pid: its id.
        parent: the process that it belongs to.
        group: its process group.
        foreground: the group that its terminal listens to; -1 where it has none.
        is_stopped: whether it was stopped, by Ctrl-Z or a signal.
    """

    pid: int
    parent: int
    group: int
    foreground: int
    is_stopped: bool

    @property
    def words(self) -> list[str]:
        """Its command line."""
        return read_proc(self.pid, "cmdline").split("\0")[:-1]

    @property
    def name(self) -> str:
        """The name of its program, for people."""
        return read_proc(self.pid, "comm").strip() or "a program"

    @property
    def variables(self) -> dict[str, str]:
        """The environment with which it began; empty where it is another user's."""
        pairs = (entry.partition("=") for entry in read_proc(self.pid, "environ").split("\0"))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def is_mine(self) -> bool:
        """Whether it is a process of this user."""
        try:
            return os.stat(f"/proc/{self.pid}").st_uid == os.getuid()
        except OSError:  # it has ended
            return False

    @property
    def terminal(self) -> str | None:
        """The path of the terminal that is its standard input, or None."""
        path = _link(self.pid, "fd/0")
        return path if path is not None and _TERMINAL.fullmatch(path) else None

    def reads(self, terminal: str) -> bool:
        """Whether it reads a terminal; one that hides its files, as `sudo` does, is taken to."""
        try:
            files = os.listdir(f"/proc/{self.pid}/fd")
        except PermissionError:
            return True
        except OSError:  # it has ended
            return False
        return self.terminal == terminal or any(
            _link(self.pid, f"fd/{each}") == "/dev/tty" for each in files
        )

    @property
    def file(self) -> str | None:
        """The path of the file that it runs, or None."""
        return _link(self.pid, "exe")


def process(pid: int) -> Process | None:
    """Return a process, or None when it has ended."""
    # The name before the fields, in parentheses, may hold anything.
    fields = read_proc(pid, "stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return None
    parent, group, _, _, foreground = map(int, fields[1:6])
    return Process(pid, parent, group, foreground, fields[0] in "Tt")


def above(start: Process) -> Iterator[Process]:
    """Yield the processes above one, the nearest first."""
    found: Process | None = start
    while found is not None and found.parent > 1:
        found = process(found.parent)
        if found is not None:
            yield found


def in_foreground(terminal: str, group: int) -> list[Process]:
    """Return the processes of a group that read a terminal."""
    ids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [
        each
        for pid in ids
        if (each := process(pid)) is not None and each.group == group and each.reads(terminal)
    ]


def _link(pid: int, name: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:  # it has ended, or is another user's
        return None
