"""The plan of a run, and its histories: the intents of each process and their results.

A line is one `write` to the process's own file, so written lines survive SIGKILL. Each act has a
line before it (the intent) and a line after it (the result from the bus, or the error). Where the
intent is the last line, the process was killed, and the act may or may not have taken place.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from itertools import chain, cycle, islice
from zlib import crc32

import orjson

from ..schema.descriptors import write_all
from ..schema.errors import InvalidInput, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import TracebackType
    from typing import Any

# The plan of a run: its agents by role, its length, and the rate of kills.

#: The roles; `roles.py` has a function that plays each.
PUBLISHER, READER, WORKER, HOLDER = "publisher", "reader", "worker", "holder"
EXPORTER, KEEPER = "exporter", "keeper"

#: The first agents of every run: one of each kind, and two where two are needed to compete.
_FIRST = (EXPORTER, KEEPER, PUBLISHER, READER, WORKER, WORKER, HOLDER, HOLDER)

#: The roles of further agents, repeated. A bus has one exporter and one archiver at a time.
_OTHERS = (PUBLISHER, READER, PUBLISHER, WORKER, READER, PUBLISHER, HOLDER)

#: The order in which agents are asked to end: later roles finish what earlier ones leave.
ENDING = ((PUBLISHER, HOLDER), (WORKER,), (READER,), (KEEPER,), (EXPORTER,))


@dataclass(frozen=True, slots=True)
class TorturePlan:
    """One run.

    Attributes:
        agents: how many processes, at least one of each of `_FIRST`.
        minutes: how long agents are killed for; the orderly end and the proofs come after that.
        kill_every_s: the mean time between two kills, in seconds; 0: no kills.
        seed: the seed of all random choices. It fixes the choices, not their times.
    """

    agents: int
    minutes: float
    kill_every_s: float
    seed: int


def roles_of(agents: int) -> dict[str, str]:
    """Return the roles of the agents, by name."""
    roles = chain(_FIRST, cycle(_OTHERS))
    return {f"{role}-{number:03}": role for number, role in enumerate(islice(roles, agents), 1)}


def agents_with(roles: dict[str, str], role: str) -> list[str]:
    """Return the agents that have a role."""
    return [name for name, its_role in roles.items() if its_role == role]


# The texts of messages: each follows from the message's id, so that the proof can check it.

#: The sizes of texts in characters, and how often each is taken, of 100. Agents mostly say little;
#: the last becomes a blob.
SIZES = {40: 40, 300: 42, 4000: 15, 8000: 3}

#: The types of messages: a note, a question that its reader answers, a job, and their answers; and
#: the message that a holder of a lease writes under it.
NOTE, ASK, ANSWER = "note", "ask", "answer"
JOB, JOB_DONE, JOB_FAILED = "job", "job.done", "job.failed"
TURN = "turn"

#: The queue that workers share.
QUEUE = "jobs"

_WORDS = 4096


def text_of(id: str, size: int) -> str:
    """Return the text of a message, of `size` characters: its id, then words chosen by it."""
    words = _words()
    start = crc32(id.encode()) % (len(words) - size)
    return f"{id} {words[start : start + size]}"[:size]


@cache
def _words() -> str:
    """Return a long text; the same in every process."""
    rng = random.Random(0)
    return " ".join(
        "".join(rng.choices("abcdefghiklmnoprstu", k=rng.randint(3, 9))) for _ in range(_WORDS)
    )


# The directory of a run, which is removed when all went well.


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A directory for a run.

    Attributes:
        directory: the directory.
        made: whether it was made for the run.
    """

    directory: str
    made: bool

    @property
    def bus(self) -> str:
        """The bus."""
        return os.path.join(self.directory, "bus")

    @property
    def histories(self) -> str:
        """The folder of the histories."""
        return os.path.join(self.directory, "histories")

    @property
    def errors(self) -> str:
        """The file with the output of the processes."""
        return os.path.join(self.directory, "errors.txt")

    @property
    def exported(self) -> str:
        """The folder of the exported files that are compared with a rebuild."""
        return os.path.join(self.directory, "exported")

    def remove(self) -> None:
        """Remove the files of the run, and nothing else."""
        for path in (self.bus, self.histories, self.exported):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(self.errors):
            os.unlink(self.errors)
        if self.made:
            os.rmdir(self.directory)


def prepare_files(directory: str | None) -> RunFiles:
    """Return the files of a new run; None makes a directory in the working directory.

    Raises:
        Refused: something is in it, which might be a bus that is in use.
        InvalidInput: it can't be made.
    """
    try:
        if directory is None:
            path = tempfile.mkdtemp(prefix="bus-torture-", dir=os.getcwd())
            return RunFiles(path, made=True)
        real = os.path.realpath(directory)
        there = os.path.exists(real)
        os.makedirs(real, mode=0o700, exist_ok=True)
        if os.listdir(real):
            raise Refused(
                f"{directory} is not empty, and the torture takes a directory of its own;"
                " name one that is empty, or not there yet"
            )
        return RunFiles(real, made=not there)
    except OSError as error:
        raise InvalidInput(f"can't use {directory or '.'}: {error.strerror}") from error


#: The end of a history that holds its last line, in bytes.
_TAIL_BYTES = 4096

#: The kind of an act that is a line of the library's log: a warning or an error.
LOGGED = "logged"


@dataclass(slots=True)
class RecordedAct:
    """One act of one process.

    Attributes:
        agent: the agent that acted.
        life: which of the agent's processes, from 1.
        kind: what was done.
        what: the details, as they were intended.
        began_ns: when it was about to begin, by the clock that all processes of the machine share.
        ended_ns: when its result was known; None where the process was killed before.
        result: its result; None where it failed, or the process was killed before.
        error: the error that ended it, as text, or None.
    """

    agent: str
    life: int
    kind: str
    what: dict[str, Any]
    began_ns: int
    ended_ns: int | None = None
    result: dict[str, Any] | None = None
    error: str | None = None


class Attempt:
    """An act in progress. Leaving the `with` block by an error records the error."""

    def __init__(self, history: ActHistory) -> None:
        self._history = history

    def record_result(self, **result: Any) -> None:
        """Record the result."""
        self._history.write({"result": result})

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._history.write({"error": f"{type(error).__name__}: {error}"})


class ActHistory:
    """The history of one process, while it is made.

    Args:
        folder: the folder of all histories.
        agent: the agent.
        life: which of the agent's processes this is, from 1.

    Attributes:
        agent, life: these.
    """

    def __init__(self, folder: str, agent: str, life: int) -> None:
        self.agent = agent
        self.life = life
        self._folder = folder
        os.makedirs(os.path.join(folder, agent), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path_of(folder, agent, life), flags, 0o600)

    def attempt(self, kind: str, **what: Any) -> Attempt:
        """Record the intent of an act."""
        self.write({"act": kind, "what": what})
        return Attempt(self)

    def trouble(self, text: str) -> None:
        """Record a warning or an error beside the acts, from any thread."""
        self.write({"act": LOGGED, "error": text})

    def cut_off(self) -> RecordedAct | None:
        """Return the act during which the agent's last process was killed, or None."""
        acts = [*read_life(self._folder, self.agent, self.life - 1)]
        return acts[-1] if acts and acts[-1].ended_ns is None else None

    def write(self, record: dict[str, Any]) -> None:
        """Write one line."""
        write_all(self._fd, orjson.dumps({"at": time.monotonic_ns(), **record}) + b"\n")


def path_of(folder: str, agent: str, life: int) -> str:
    """Return the file of one life of an agent."""
    return os.path.join(folder, agent, f"{life:06}.jsonl")


def read_acts(folder: str, agent: str, kinds: Collection[str] = ()) -> Iterator[RecordedAct]:
    """Yield the acts of an agent in the order in which they began, life after life.

    Args:
        folder: the folder of all histories.
        agent: the agent.
        kinds: only these; none for all.
    """
    own = os.path.join(folder, agent)
    for name in sorted(os.listdir(own)) if os.path.isdir(own) else ():
        for act in read_life(folder, agent, int(name.partition(".")[0])):
            if not kinds or act.kind in kinds:
                yield act


def read_life(folder: str, agent: str, life: int) -> Iterator[RecordedAct]:
    """Yield the acts of one life. A line that SIGKILL cut off is ignored.

    Yields nothing where the process was killed before its first line.
    """
    path = path_of(folder, agent, life)
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        act = None
        for line in file:
            if not line.endswith(b"\n"):
                break
            record = orjson.loads(line)
            if record.get("act") == LOGGED:  # of another thread: it may stand within an act
                at = record["at"]
                yield RecordedAct(agent, life, LOGGED, {}, at, at, error=record["error"])
            elif "act" in record:
                if act is not None:
                    yield act
                act = RecordedAct(agent, life, record["act"], record["what"], record["at"])
            elif act is not None:
                act.ended_ns, act.result = record["at"], record.get("result")
                act.error = record.get("error")
        if act is not None:
            yield act


def is_in_act(path: str) -> bool:
    """Whether the last line of a process's history is an intent without a result."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return False
    return bool(lines) and b'"act":' in lines[-1]


def agents_in(folder: str) -> list[str]:
    """Return the agents that have a history."""
    return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
