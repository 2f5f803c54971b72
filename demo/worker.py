"""A worker of the demo: a process that examines files as jobs, and may stall at one."""

from __future__ import annotations

import ast
import hashlib
import heapq
import os
import sys
import threading
import warnings
from dataclasses import asdict, dataclass, field

from ..bus.local_bus import LocalBus
from ..subscribers.queues.queue import Queue
from ..workers.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..schema.message.message import Message

# The protocol of the demo's agents: their names and their messages.
#
#     coordinator  examine.request  to all           one for each file: a job of the queue
#     worker       examine.held     to coordinator   it stalls at a job, to be killed
#     demo         examine.killed   to all           which worker was killed, at which job
#     worker       examine.done     to coordinator   the answer to a job: the facts about its file
#
# Leases, answers and retries are those of queues and workers: see `Worker`.

COORDINATOR = "coordinator"
WORKERS = ("worker-1", "worker-2", "worker-3")
#: The name under which the demo itself speaks.
DEMO = "demo"

#: The type of a task, and the name of the queue of all tasks.
TASK = "examine.request"
DONE = "examine.done"
HELD = "examine.held"
KILLED = "examine.killed"

#: How long a worker may be silent before its job is given to another, in seconds. Short, so that
#: a demo of a few files need not wait long for the takeover.
LEASE_S = 2.0

# The files of a tree: which of them are text, and how their names travel in messages.

#: Directories of generated files; hidden ones (.git, .venv) are left out too.
SKIPPED_DIRECTORIES = frozenset({"__pycache__", "build", "dist", "node_modules", "venv"})
SKIPPED_ENDING = ".egg-info"

#: A file with a NUL within its first bytes, this many, is binary.
SNIFFED_BYTES = 1024


class TextFiles:
    """The text files under a directory, found while they are iterated over, in order of names.

    Symbolic links are not followed. A file that can't be opened counts as text: its examination
    reports the error.

    Args:
        root: the directory; a real path.
        leave_out: a real path of a directory to leave out: the bus's own, whose files must not
            be opened by a process that uses the bus.

    Attributes:
        binary: how many binary files have been passed over so far.
        unreadable: how many directories could not be listed so far.
    """

    def __init__(self, root: str, *, leave_out: str | None = None) -> None:
        self._root = root
        self._leave_out = leave_out
        self.binary = 0
        self.unreadable = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the path of each file, relative to the root."""
        directories = [""]
        while directories:
            inside = directories.pop()
            below = []
            for entry in self._entries(inside):
                path = os.path.join(inside, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if not self._is_skipped(entry):
                        below.append(path)
                elif entry.is_file(follow_symlinks=False) and self._is_text(entry.path):
                    yield path
            directories += reversed(below)

    def _entries(self, inside: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self._root, inside)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError:
            self.unreadable += 1
            return []

    def _is_skipped(self, entry: os.DirEntry[str]) -> bool:
        name = entry.name
        is_left_out = name in SKIPPED_DIRECTORIES or name.endswith(SKIPPED_ENDING)
        return is_left_out or name.startswith(".") or entry.path == self._leave_out

    def _is_text(self, path: str) -> bool:
        try:
            with open(path, "rb", buffering=0) as file:
                is_binary = b"\0" in file.read(SNIFFED_BYTES)
        except OSError:
            return True
        self.binary += is_binary
        return not is_binary


def path_to_payload(path: str) -> dict[str, str]:
    """Return the payload fields that name a path; JSON can't hold a name that is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "backslashreplace").decode()
        return {"path": shown, "path_hex": os.fsencode(path).hex()}
    return {"path": path}


def path_from_payload(payload: dict[str, str]) -> str:
    """Return the path that `path_to_payload` put into a payload."""
    if "path_hex" in payload:
        return os.fsdecode(bytes.fromhex(payload["path_hex"]))
    return payload["path"]


# The examination of one file, the work of the demo. It knows nothing of the bus.

#: How much of a file is in memory at a time, in bytes.
CHUNK_BYTES = 1 << 18

#: The largest Python file whose syntax is checked, in bytes: the parser takes two or three seconds
#: for a megabyte, and memory to match.
MAX_PARSED_BYTES = 1 << 18

#: The value of `Examination.python` for a file without syntax errors.
PYTHON_OK = "ok"

#: Its value for a file larger than `MAX_PARSED_BYTES`.
PYTHON_NOT_CHECKED = f"not checked: larger than {MAX_PARSED_BYTES:,} bytes"

_PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")


@dataclass(frozen=True, slots=True)
class Examination:
    """The facts about a file after reading it.

    Attributes:
        bytes: its size, as it was read.
        lines: how many lines it has; a last one without a newline counts.
        sha256: the checksum of its bytes, as 64 hex digits.
        python: None for a file that is not Python; else `ok`, what is wrong with the syntax, or
            that it was not checked.
    """

    bytes: int
    lines: int
    sha256: str
    python: str | None


def examine(path: str) -> Examination:
    """Read a file to its end and return the facts. Memory does not grow with the file.

    Raises:
        OSError: the file can't be read.
    """
    digest = hashlib.sha256()
    source = b""
    size = newlines = 0
    last = b"\n"
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            source = source or chunk
            size += len(chunk)
            newlines += chunk.count(b"\n")
            last = chunk[-1:]
    python = None
    if path.endswith(_PYTHON_SUFFIXES):
        python = PYTHON_NOT_CHECKED if size > len(source) else _python_syntax(source)
    return Examination(size, newlines + (last != b"\n"), digest.hexdigest(), python)


def _python_syntax(source: bytes) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the files may have odd escapes in strings
            compile(source, "<file>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else error.msg
    except ValueError as error:
        return str(error)
    except (RecursionError, MemoryError):
        return "too deeply nested to be checked"
    return PYTHON_OK


_STDIN = 0


def main(directory: str, root: str, name: str, held_seq: str) -> None:
    """Work until standard input ends: the demo closes it, or the kernel when the demo is gone.

    Args:
        directory: the bus.
        root: the real path of the directory that the tasks' paths begin in.
        name: the name of this worker.
        held_seq: the seq of the task at whose first attempt the worker stalls, to be killed.
    """
    over = threading.Event()
    with LocalBus.open(directory) as bus:
        worker = Worker(
            bus, Queue.open(bus, TASK), group=name, instance=f"pid {os.getpid()}", lease_s=LEASE_S
        )

        def wait_for_end() -> None:
            while os.read(_STDIN, 1):
                pass
            over.set()
            worker.stop()

        def work(task: Message) -> dict[str, object]:
            if task.seq == int(held_seq) and task.attempt == 1:
                bus.publish(HELD, task.payload, from_agent=name, in_reply_to=task.id)
                over.wait()
            try:
                report = asdict(examine(os.path.join(root, path_from_payload(task.payload))))
            except OSError as error:
                report = {"error": error.strerror or str(error)}
            return {**task.payload, **report}

        threading.Thread(target=wait_for_end, name="lifeline", daemon=True).start()
        worker.run(work)


if __name__ == "__main__":
    main(*sys.argv[1:])

# The totals of a run, from its answers.

#: How many of the largest files are named.
SHOWN_FILES = 10


@dataclass(slots=True)
class Totals:
    """The totals of all answers.

    Attributes:
        files, bytes, lines: sums over the examined files.
        python_ok, python_errors, python_not_checked: Python files by their syntax.
        failed: how many files could not be read.
        by_agent: how many answers each worker published.
    """

    files: int = 0
    bytes: int = 0
    lines: int = 0
    python_ok: int = 0
    python_errors: int = 0
    python_not_checked: int = 0
    failed: int = 0
    by_agent: dict[str, int] = field(default_factory=dict)

    def add(self, result: Message) -> None:
        """Add one answer."""
        report = result.payload
        self.by_agent[result.from_agent] = self.by_agent.get(result.from_agent, 0) + 1
        if "error" in report:
            self.failed += 1
            return
        self.files += 1
        self.bytes += report["bytes"]
        self.lines += report["lines"]
        syntax = report["python"]
        self.python_ok += syntax == PYTHON_OK
        self.python_not_checked += syntax == PYTHON_NOT_CHECKED
        self.python_errors += syntax not in (None, PYTHON_OK, PYTHON_NOT_CHECKED)


def totals_of(messages: Iterable[Message]) -> tuple[Totals, list[Message]]:
    """Return the totals of a log, and the answers about its largest files, the largest first."""
    totals = Totals()

    def added(result: Message) -> int:
        totals.add(result)
        return int(result.payload.get("bytes", -1))

    results = (message for message in messages if message.type == DONE)
    largest = heapq.nlargest(SHOWN_FILES, results, key=added)
    return totals, [result for result in largest if "error" not in result.payload]
