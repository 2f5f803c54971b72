"""How long does a task take to a usable work tree, beside a bare `git worktree add`?

A repository of 10,000 files; the tree and its branch by git alone, by `WorkTrees`, and by
`bus task spawn` in a process that has started: lease, tree, messages. And 48 at once, each in a
process of its own, of which none may fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from measure import Contender, at_most, compare, options, ratio, record, spread

from ackbus import Bus
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.tasks.spawn import Spawner, TaskSpec

#: How many trees are made at once.
AT_ONCE = 48

#: Git without the settings of whoever asks.
ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "bench" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "bench@example.org" for who in ("AUTHOR", "COMMITTER")},
}

#: A process that spawns one task.
SPAWN = """
import sys
from ackbus import Bus
from ackbus.tasks.spawn import Spawner, TaskSpec
_, bus_dir, folder, task = sys.argv
with Bus.open(bus_dir) as bus:
    Spawner(bus).spawn(TaskSpec(task=task, worker="w", folder=folder), agent="bench")
"""


def git(folder: Path, *arguments: str) -> None:
    """Run git to its end."""
    subprocess.run(["git", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def prepare(folder: Path, files: int) -> None:
    """Make a repository with that many files of 1 KiB, in folders of 100."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for n in range(files):
        path = folder / f"src/part{n // 100}/file{n}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {n}\n" + "x = 1\n" * 170)
    git(folder, "add", "src")
    git(folder, "commit", "--quiet", "-m", "all")


def by_git(folder: Path) -> Contender:
    """The tree and the branch, by git alone."""
    number = count()

    def run() -> float:
        name = f"git{next(number)}"
        started = time.perf_counter()
        git(folder, "worktree", "add", "--quiet", "-b", name, f"../{name}")
        seconds = time.perf_counter() - started
        git(folder, "worktree", "remove", f"../{name}")
        return seconds

    return run


def by_trees(folder: Path) -> Contender:
    """The tree and the branch, so that a kill at any step can be mended."""
    place = RepositoryPlace.around(str(folder))
    trees, base, number = WorkTrees(place), place.commit("HEAD"), count()

    def run() -> float:
        name = f"tree{next(number)}"
        started = time.perf_counter()
        made = trees.make(NewTree(name, name, base))
        seconds = time.perf_counter() - started
        git(folder, "worktree", "unlock", made.path)
        git(folder, "worktree", "remove", made.path)
        return seconds

    return run


def by_spawn(bus: Bus, folder: Path) -> Contender:
    """The whole task: lease, tree, branch, messages."""
    number = count()

    def run() -> float:
        spec = TaskSpec(task=f"task{next(number)}", worker="w", folder=str(folder))
        started = time.perf_counter()
        task = Spawner(bus).spawn(spec, agent="bench")
        seconds = time.perf_counter() - started
        git(folder, "worktree", "unlock", task.path)
        git(folder, "worktree", "remove", task.path)
        return seconds

    return run


def at_once(bus: Bus, folder: Path) -> dict[str, object]:
    """Spawn 48 tasks at once; return how many failed, and why, and how long all took."""
    command = [sys.executable, "-c", SPAWN, bus.layout.directory, str(folder)]
    started = time.perf_counter()
    processes = [
        subprocess.Popen([*command, f"once{n}"], stderr=subprocess.PIPE, text=True)
        for n in range(AT_ONCE)
    ]
    said = [process.communicate()[1] for process in processes]
    seconds = time.perf_counter() - started
    failed = [
        text.strip().rpartition("\n")[2]
        for process, text in zip(processes, said, strict=True)
        if process.returncode
    ]
    return {"failed": len(failed), "errors": failed, "seconds": seconds}


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    files = settings.scaled(10_000)
    os.environ.update(ALONE)
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackbus-bench-")))
        folder, small = top / "repo", top / "small"
        prepare(folder, files)
        prepare(small, 10)
        bus = stack.enter_context(Bus.init(top / "bus"))
        contenders = {
            "git worktree add": by_git(folder),
            "a tree for a task": by_trees(folder),
            "spawn": by_spawn(bus, folder),
        }
        times = compare(contenders, settings.rounds)
        results: dict[str, object] = {name: spread(seconds) for name, seconds in times.items()}
        results[f"{AT_ONCE} at once"] = at_once(bus, small)
    targets = [
        at_most(f"{name}, in times of git", 1.3, ratio(times, "git worktree add", name))
        for name in ("a tree for a task", "spawn")
    ]
    record(f"work trees: {files} files", results, settings, targets=targets)


if __name__ == "__main__":
    main()
