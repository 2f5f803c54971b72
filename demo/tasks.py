"""The demo of tasks: its project and team, one run of it, and the proof."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..bus.local_bus import LocalBus
from ..export.jsonl.exporter import Exporter
from ..git.repository import Repository
from ..schema.children import PythonProcesses
from ..tasks.control.requests import Requests
from ..tasks.steps.messages import TaskNotFound
from ..tasks.steps.tasks import Tasks
from .run import Stage, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..schema.message.message import Message
    from .run import Progress, Say

# The project of the demo: a small repository, its check, its planner and its scripted agent.

#: The tasks that the planner makes from the request, in order, and what each depends on.
PRICE_LOW, PRICE_HIGH = "price-low", "price-high"
PLUMS, CELLAR, APPLES, PEARS = "add-plums", "count-cellar", "count-apples", "count-pears"
PLAN = {
    PRICE_LOW: (),
    PRICE_HIGH: (),
    CELLAR: (),
    PLUMS: (),
    APPLES: (),
    PEARS: (APPLES,),
}

#: The check of the project: each fruit in stock has a price, and no file has marks of a conflict.
CHECK = "sh check.sh"

_CHECK_SCRIPT = """\
#!/bin/sh
for stock in stock/*.txt; do
    [ -f "prices/${stock#stock/}" ] || { echo "no price for $stock"; exit 1; }
done
! grep -q '^[<=>]\\{7\\}' stock/*.txt prices/*.txt
"""

_FILES = {
    "check.sh": _CHECK_SCRIPT,
    "stock/apples.txt": "1\n",
    "stock/pears.txt": "1\n",
    "stock/cherries.txt": "1\n",
    "prices/apples.txt": "3\n",
    "prices/pears.txt": "2\n",
    "prices/cherries.txt": "5\n",
}

# The stand-in for a coding agent: it edits the files in its work tree, and commits. Its second
# attempt mends what the first one failed for. `$DEMO` is a folder beside the project, by which the
# agents wait for each other: two begin at once, and one stalls until it is killed.
_AGENT = """\
#!/bin/sh
set -eu
commit() { git add -A && git commit -qm "$1"; }
case $BUS_TASK in
    price-*)
        [ "${BUS_TASK#price-}" = low ] && price=4 || price=6
        if [ "$BUS_TASK_ATTEMPT" = 1 ]; then
            : > "$DEMO/$BUS_TASK"
            until [ -e "$DEMO/price-low" ] && [ -e "$DEMO/price-high" ]; do sleep 0.02; done
            echo "$price" > prices/cherries.txt
            commit "Cherries cost $price"
        else
            git merge -q -X ours -m "Cherries cost $price, after all" "$BUS_TASK_TARGET"
        fi ;;
    add-plums)
        if [ "$BUS_TASK_ATTEMPT" = 1 ]; then
            echo 9 > stock/plums.txt
            commit "Sell plums"
        else
            echo 7 > prices/plums.txt
            commit "Give plums a price"
        fi ;;
    count-cellar)
        if [ "$BUS_TASK_ATTEMPT" = 1 ]; then
            echo 40 > stock/cherries.txt
            commit "Count half of the cellar"
            : > "$DEMO/held"
            while :; do sleep 0.05; done
        fi
        echo 80 > stock/cherries.txt
        commit "Count the other half of the cellar" ;;
    count-apples) echo 12 > stock/apples.txt; commit "Count the apples" ;;
    count-pears) echo 8 > stock/pears.txt; commit "Count the pears" ;;
esac
"""


class Project:
    """The folder of the demo, with the repository and the programs of its roles.

    Args:
        folder: where it is made; it is empty.

    Attributes:
        repository: the path of the repository.
        meeting: the folder by whose files the agents wait for each other.
        held: the file in it that says that an agent stalls.
        agent, planner: the programs.
    """

    def __init__(self, folder: str) -> None:
        self.repository = os.path.join(folder, "shop")
        self.meeting = os.path.join(folder, "meeting")
        self.held = os.path.join(self.meeting, "held")
        self.agent = os.path.join(folder, "agent.sh")
        self.planner = os.path.join(folder, "planner.sh")
        self._git = Repository(self.repository)

    def make(self) -> None:
        """Make the repository with its first commit, and the programs."""
        for name, text in _FILES.items():
            _write(os.path.join(self.repository, name), text)
        os.makedirs(self.meeting)
        _write(self.agent, _AGENT, is_program=True)
        _write(self.planner, _planner(), is_program=True)
        self._git.run("init", "--quiet", "--initial-branch=main")
        for name, value in (("name", "demo"), ("email", "demo@localhost")):
            self._git.run("config", f"user.{name}", value)
        self._git.run("config", "commit.gpgSign", "false")
        self._git.run("add", "--all")
        self._git.run("commit", "--quiet", "--message", "Open the shop")

    def positions(self) -> list[str]:
        """Return the commits that the branch `main` was at, the newest first."""
        return self._git.run("rev-list", "--walk-reflogs", "main").decode().split()

    def is_kept(self, commit: str) -> bool:
        """Whether a branch or a rescue ref still has a commit."""
        refs = self._git.run("for-each-ref", "--contains", commit, "--format=%(refname)")
        return bool(refs.strip())

    def read(self, name: str) -> str:
        """Return the content of a file on the branch `main`."""
        return self._git.run("show", f"main:{name}").decode()


def _planner() -> str:
    jobs = [
        {
            "type": "task.job",
            "payload": {
                "task": task,
                "prompt": f"Do what {task} says.",
                "depends_on": list(before),
            },
        }
        for task, before in PLAN.items()
    ]
    answer = json.dumps({"status": "ok", "result": "six jobs", "events": jobs})
    return f"#!/bin/sh\ncat > /dev/null\ncat <<'ANSWER'\n{answer}\nANSWER\n"


def _write(path: str, text: str, *, is_program: bool = False) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(text, "utf-8")
    if is_program:
        os.chmod(path, stat.S_IRWXU)


# The proof of the demo: counted in the log, and in git.


@dataclass(frozen=True, slots=True)
class TasksProof:
    """The counts of a run.

    Attributes:
        planned: how many jobs the planner made.
        landed: the tasks that landed, in order.
        landings: how often each landed.
        attempts: how many attempts each task took.
        ended: the reasons why attempts failed, by task.
        positions: how many commits `main` was at.
        checked: how many of these commits had passed the check.
        commits: how many commits agents handed in.
        kept: how many of these git still has on a branch or a rescue ref.
    """

    planned: int
    landed: list[str]
    landings: dict[str, int]
    attempts: dict[str, int]
    ended: dict[str, list[str]]
    positions: int
    checked: int
    commits: int
    kept: int

    @property
    def holds(self) -> bool:
        """Whether all landed once, `main` was never red, and no commit is lost."""
        again = {CELLAR, PLUMS}
        prices = {PRICE_LOW, PRICE_HIGH}
        return (
            self.planned == len(PLAN)
            and sorted(self.landed) == sorted(PLAN)
            and set(self.landings.values()) == {1}
            and all(self.attempts[task] > 1 for task in again)
            and any(self.attempts[task] > 1 for task in prices)
            and self.positions == self.checked
            and self.commits == self.kept > 0
        )


def read_proof(bus: LocalBus, project: Project) -> TasksProof:
    """Count the proof from the log and the repository."""
    changes = [
        change for change in bus.read(type="state_change") if isinstance(change.payload, dict)
    ]
    landed = [change.payload["task"] for change in changes if change.payload["to"] == "COMPLETED"]
    heads = {change.payload["head"] for change in changes if change.payload.get("head")}
    positions = project.positions()[:-1]  # the first commit is older than the demo
    passed = _passed(bus.read(type="check_result"))
    return TasksProof(
        planned=sum(1 for _ in bus.read(type="task_planned")) + _first_jobs(bus),
        landed=landed,
        landings=dict(Counter(landed)),
        attempts=_attempts(changes),
        ended=_ended(changes),
        positions=len(positions),
        checked=sum(commit in passed for commit in positions),
        commits=len(heads),
        kept=sum(map(project.is_kept, heads)),
    )


def _first_jobs(bus: LocalBus) -> int:
    """Count the jobs that the plan put into the queue at once, as first attempts."""
    planned = {message.payload["task"] for message in bus.read(type="task_planned")}
    jobs = [message.payload for message in bus.read(type="task.job")]
    return sum("attempt" not in job and job["task"] not in planned for job in jobs)


def _attempts(changes: Iterable[Message]) -> dict[str, int]:
    begun = Counter(change.payload["task"] for change in changes if change.payload["from"] is None)
    return dict(begun)


def _ended(changes: Iterable[Message]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for change in changes:
        if change.payload["to"] == "FAILED":
            reasons.setdefault(change.payload["task"], []).append(str(change.payload["reason"]))
    return reasons


def _passed(results: Iterable[Message]) -> set[str]:
    """Return the commits on which the check passed."""
    return {result.payload["candidate"] for result in results if result.payload.get("exit") == 0}


# The roles of the demo as processes of `bus`: planner, workers, integrator.

#: The agents.
WORKERS = ("ada", "bob", "cleo")

#: How long a worker holds a job without a renewal: another worker takes over a killed one's then.
_LEASE = "6s"

#: The command `bus` of this package, whatever `bus` is on the PATH.
_BUS = "import sys; from {package}.cli import main; sys.exit(main())"


class Team(PythonProcesses):
    """The processes of all roles; leaving the `with` block ends them.

    Args:
        directory: the bus.
        project: their project.
    """

    def __init__(self, directory: str, project: Project) -> None:
        super().__init__()
        self._directory = directory
        self._project = project

    def begin(self) -> None:
        """Start all roles."""
        for name in ("planner", "integrator", *WORKERS):
            code = _BUS.format(package=str(__package__).partition(".")[0])
            self.start(
                name,
                ("-c", code, *self._command(name)),
                log=self._log(name),
                cwd=self._project.repository,
                variables={"DEMO": self._project.meeting},
            )

    def ends(self) -> str:
        """Return the roles that ended by themselves since the last call, with their last lines."""
        return "; ".join(f"{name} has ended: {self._last_line(name)}" for name in self.lost())

    def _command(self, name: str) -> tuple[str, ...]:
        """Return the command of a role: a worker by its name, `planner` or `integrator`."""
        place = ("--dir", self._directory)
        if name == "planner":
            return ("task", "plan", *place, "--", self._project.planner)
        if name == "integrator":
            return ("integrate", "--into", "main", "--check", CHECK, *place)
        tree = ("--lease", _LEASE, "--into", "main")
        return ("task", "work", "--worker", name, *tree, *place, "--", self._project.agent)

    def _last_line(self, name: str) -> str:
        text = self._log(name).read_text("utf-8", "replace")
        return (text.splitlines() or ["it printed nothing"])[-1]

    def _log(self, name: str) -> Path:
        return Path(self._project.meeting, f"{name}.log")


@dataclass(frozen=True, slots=True)
class TasksRun:
    """A run that came to its end.

    Attributes:
        directory: the bus, which stays.
        repository: the repository, which stays too.
        made: the paths that the demo made, to be removed by a person.
        took_s: how long it took, in seconds.
        killed: the worker that was killed.
        taken_over_by: the worker that took its task over.
        proof: what log and git prove.
    """

    directory: str
    repository: str
    made: list[str]
    took_s: float
    killed: str
    taken_over_by: str
    proof: TasksProof


def run_tasks_demo(*, directory: str | None, say: Say, progress: Progress) -> TasksRun:
    """Run the demo to its end; its repository and its bus stay on disk.

    Args:
        directory: the directory for the bus; None takes a new one.
        say: prints one line about the run.
        progress: shows how much is done.

    Raises:
        Refused: `directory` holds a bus already.
        AckbusError: something that was to happen does not.
    """
    stage = Stage(directory)
    began = time.monotonic()
    folder = stage.fresh_folder()
    where = stage.named or os.path.join(folder, "bus")
    project = Project(folder)
    project.make()
    say(f"the repository is in {project.repository}, the bus in {where}; both stay there")
    with (
        LocalBus.init(where) as bus,
        Team(where, project) as team,
        progress("landing tasks", len(PLAN)) as move,
    ):
        wish = "Count what is in stock, and set the new prices."
        team.begin()
        Requests(bus).enqueue({"sessionId": "demo", "prompt": wish}, agent="client")

        def have_all_landed() -> bool:
            landed = _landed(bus)
            move(landed)
            return landed == len(PLAN)

        def is_held() -> bool:
            move(_landed(bus))
            return os.path.exists(project.held)

        wait_until(is_held, f"an agent works on {CELLAR}", team.ends)
        killed = _kill_stalled_worker(bus, team, say)
        wait_until(have_all_landed, "all tasks land", team.ends)
    with LocalBus.open(where) as bus:
        Exporter(bus).export_once()
        proof = read_proof(bus, project)
        taken_over_by = Tasks(bus).get(CELLAR).worker
    took_s = time.monotonic() - began
    return TasksRun(where, project.repository, stage.made, took_s, killed, taken_over_by, proof)


def _kill_stalled_worker(bus: LocalBus, team: Team, say: Say) -> str:
    worker = Tasks(bus).get(CELLAR).worker
    pid = team.kill(worker)
    say(
        f"{worker} (process {pid}) was killed, with SIGKILL, in the middle of {CELLAR};"
        f" another agent goes on when its lease ends, in {_LEASE}"
    )
    return worker


def _landed(bus: LocalBus) -> int:
    tasks = Tasks(bus)
    done = 0
    for name in PLAN:
        with suppress(TaskNotFound):
            done += tasks.get(name).state == "COMPLETED"
    return done
