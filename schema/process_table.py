"""The processes of this system: their parents, names and starts, and the program above this one.

The kernel gives ids again, so a process is named by its id, its start, and the system's start.
"""

from __future__ import annotations

import os
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The programs that start others and pass their streams on: no agent's own program is among them.
_SHELLS = {
    "sh", "ash", "bash", "csh", "dash", "env", "fish", "ksh", "nohup", "sudo", "tcsh", "timeout",
    "uv", "zsh",
}  # fmt: skip

#: The programs that adopt orphans: no agent's own program is among them.
_REAPERS = {
    "catatonit", "docker-init", "dumb-init", "init", "launchd", "openrc-init", "runit",
    "s6-svscan", "systemd", "tini",
}  # fmt: skip

#: The environment variable that turns sessions of agents off, with the value `off`: then all
#: programs that were set up under one name act as one agent.
SESSION_VARIABLE = "BUS_SESSION"

#: How many ancestors are looked at, at most.
_MAX_DEPTH = 64

#: Where Linux has the id of the system's start, and the namespace of our process ids.
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"


class Process:
    """A process, as the system described it.

    Attributes:
        pid: its id.
        parent: the id of its parent; 0 for none.
        name: the name of its program, without a folder.
        started: when it started, in the system's own words; "" if it has ended.
        leads: whether it is the first process of a terminal, as the shell of a person is.
    """

    __slots__ = ("leads", "name", "parent", "pid", "started")

    def __init__(
        self, pid: int, parent: int, name: str, started: str, *, leads: bool = False
    ) -> None:
        self.pid, self.parent, self.name, self.started = pid, parent, name, started
        self.leads = leads

    def __str__(self) -> str:
        return f"process {self.pid} since {self.started} on {system()}"


def process(pid: int) -> Process | None:
    """Return a process; None when there is none, or it is hidden from us."""
    text = read_proc(pid, "stat")
    if not text:
        return None if os.path.exists("/proc/self/stat") else _asked(pid)
    # The name, in parentheses, may hold anything.
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    has_ended = fields[0] == "Z"  # and only its parent has yet to notice
    started = "" if has_ended else fields[19]
    leads = int(fields[3]) == pid and fields[4] != "0"
    return Process(pid, int(fields[1]), head.partition("(")[2], started, leads=leads)


def ancestors() -> Iterator[Process]:
    """Yield the parent of this process, its parent, and so on, as far as they can be seen."""
    pid = os.getppid()
    for _ in range(_MAX_DEPTH):
        ancestor = process(pid) if pid > 0 else None
        if ancestor is None:
            return
        yield ancestor
        pid = ancestor.parent


def program() -> Process | None:
    """Return the program that started this process: its nearest ancestor that is no shell.

    Where all ancestors are shells, it is the nearest shell. Where the program has ended, it is this
    process: the process that adopts orphans runs for ever, and so would its session. None where no
    ancestor can be seen, and where a person types a command: above the shell of a terminal is that
    terminal.
    """
    nearest = None
    for ancestor in ancestors():
        if ancestor.name in _REAPERS:
            return nearest or process(os.getpid())
        if ancestor.leads and ancestor.name in _SHELLS:
            return nearest
        nearest = nearest or ancestor
        if ancestor.name not in _SHELLS:
            return ancestor
    return nearest


def runs(text: str) -> bool | None:
    """Whether the process runs that a text names, which is `str` of a `Process`; None if unknown.

    A process of another container can't be seen; a process of before the system's start has ended.
    """
    words, _, host = text.rpartition(" on ")
    words, _, began = words.partition(" since ")
    pid = words.removeprefix("process ")
    if not (pid.isascii() and pid.isdigit() and len(pid) < 10 and began):
        return None
    boot, _, namespace = host.partition(".")
    here, _, ours = system().partition(".")
    if boot != here:
        return False
    if namespace != ours:
        return None
    entry = process(int(pid))
    if entry is None:
        return None if is_running(int(pid)) else False
    return entry.started == began


def is_gone(text: str) -> bool:
    """Whether a process that a text names has ended, as can be seen from here.

    Only of this start of this system, and of the process ids that are seen from here: of any other
    nothing is known, and False returned.
    """
    host = system()
    is_here = all(host.split(".")) and text.endswith(f" on {host}")
    return is_here and runs(text) is False


def foreign_process(pid: int, ancestor: str | None) -> Process | None:
    """Return a process, unless it is the one that `str` of a `Process` named, or below that one.

    None, too, where it has ended, or is hidden from us.
    """
    first = current = process(pid)
    while current is not None:
        if str(current) == ancestor:
            return None
        current = process(current.parent) if current.parent > 0 else None
    return first


def system() -> str:
    """Return the name of this start of the system, and of the processes that are seen from here."""
    try:
        namespace = str(os.stat(_NAMESPACE).st_ino)
    except OSError:  # no Linux
        namespace = ""
    return f"{boot_id()[:8]}.{namespace}"


def is_running(pid: int) -> bool:
    """Whether there is a process with this id, also one that this user may not signal."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # another user's
    return True


@cache
def boot_id() -> str:
    """Return a text that changes with every start of the system; empty where it is unknown."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def read_proc(pid: int, name: str) -> str:
    """Return a file that the kernel keeps of a process; "" when it has ended, or is hidden."""
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def process_ids() -> list[int]:
    """Return the ids of all processes; none where the system has no files of them."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())


def _asked(pid: int) -> Process | None:
    """Return a process as `ps` describes it, where the system has no /proc."""
    import subprocess

    columns = ("ppid=", "stat=", "tty=", "lstart=", "comm=")
    words = ["ps", *(word for column in columns for word in ("-o", column)), "-p", str(pid)]
    plain = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(words, capture_output=True, env=plain, check=False)
    except OSError:
        return None
    # `  4711 Ss+ ttys001 Fri Nov 27 14:40:39 2026 /bin/zsh`
    parts = done.stdout.decode(errors="replace").split(None, 8)
    if len(parts) < 9 or not parts[0].isdigit():
        return None
    name = os.path.basename(parts[8].strip()).removeprefix("-")
    leads = "s" in parts[1] and not parts[2].startswith("?")
    return Process(pid, int(parts[0]), name, " ".join(parts[3:8]), leads=leads)
