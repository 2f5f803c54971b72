"""Random lives of work trees, with git as the oracle: no commit becomes unreachable."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.removal import Removal, Removed
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import Refused

from ..cli.git import Git
from ..sizes import size
from .conftest import at
from .killing import killed_at_git

TASKS = ("a", "b", "c")
STEPS = 30


class Lives:
    """Trees of three tasks, all commits that were ever made in them, and what has landed."""

    def __init__(self, main: Git, folder: Path, seed: int) -> None:
        self.main, self.folder = main, folder
        self.random = random.Random(seed)
        self.trees = WorkTrees(RepositoryPlace.around(str(main.path)))
        self.commits: set[str] = {main.head}
        self.landed: list[str] = []
        self.dirt: dict[str, str] = {}
        self.count = 0

    def path(self, task: str) -> Path:
        return Path(self.trees.path_of(task))

    def git(self, task: str) -> Git | None:
        """Git in a tree that is there, and was given to somebody."""
        tree = self.trees.of(task)
        return at(tree.path) if tree and tree.is_made and tree.is_there else None

    def new(self, task: str) -> NewTree:
        return NewTree(task, f"w/{task}", self.main.head, is_known=True)

    def make(self, task: str) -> None:
        self.trees.make(self.new(task))

    def make_killed(self, task: str) -> None:
        self.killed(lambda: self.make(task))

    def commit(self, task: str) -> None:
        if git := self.git(task):
            self.count += 1
            git.commit(f"f{self.random.randrange(3)}", text=f"{self.count}\n")
            self.dirt.pop(task, None)

    def amend(self, task: str) -> None:
        if git := self.git(task):
            git("commit", "--quiet", "--amend", "--allow-empty", "-m", f"amended {self.count}")

    def reset(self, task: str) -> None:
        if (git := self.git(task)) and task not in self.dirt:
            git("reset", "--quiet", "--hard", "HEAD~1")

    def detach(self, task: str) -> None:
        if git := self.git(task):
            git("checkout", "--quiet", "--detach")

    def attach(self, task: str) -> None:
        if (git := self.git(task)) and task not in self.dirt:
            git("checkout", "--quiet", f"w/{task}")

    def soil(self, task: str) -> None:
        if self.git(task):
            self.count += 1
            self.dirt[task] = f"dirty {self.count}\n"
            (self.path(task) / "file").write_text(self.dirt[task])

    def land(self, task: str) -> None:
        """The head has landed, squashed: no ancestor of it is missed."""
        head = self.main("rev-parse", "--verify", "--quiet", f"w/{task}").out.strip()
        if head:
            self.landed.append(head)

    def delete(self, task: str) -> None:
        """Somebody deletes the folder: what was not committed is lost by that."""
        shutil.rmtree(self.path(task), ignore_errors=True)
        self.dirt.pop(task, None)

    def prune(self, task: str) -> None:
        self.main.ok("worktree", "prune", "--expire=now")

    def remove(self, task: str) -> None:
        try:
            self.removed(task, self.random.random() < 0.5)
        except Refused as error:
            if "is not clean" not in str(error):
                raise

    def removed(self, task: str, keeps_files: bool) -> Removed:
        removal = Removal(WorkTrees(self.trees.place))
        branch = f"w/{task}" if self.random.random() < 0.8 else None
        removed = removal.remove(task, branch, landed=self.landed, keeps_files=keeps_files)
        if text := self.dirt.pop(task, None):
            kept = [self.main("show", f"{each.ref}:file").out for each in removed.kept]
            assert text in kept
        return removed

    def remove_killed(self, task: str) -> None:
        self.killed(lambda: self.removed(task, keeps_files=task not in self.dirt))

    def killed(self, act: Callable[[], object]) -> None:
        def attempted() -> None:
            try:
                act()
            except Refused:
                return

        when = self.random.choice(("before", "after"))
        killed_at_git(self.random.randrange(1, 25), when, self.folder, attempted)

    def look(self) -> None:
        """Notes the commits that are there now, and asks git for all that ever were."""
        reached = self.main.ok("rev-list", "--all", "--reflog", *self.heads()).split()
        lost = self.commits - set(reached) - self.of_landed()
        assert lost == set()
        self.commits |= set(reached)

    def heads(self) -> list[str]:
        """The heads of all trees; those of deleted ones are with git."""
        return [tree.head for tree in self.trees.read() if tree.head]

    def of_landed(self) -> set[str]:
        if not self.landed:
            return set()
        return set(self.main.ok("rev-list", "--ignore-missing", *self.landed).split())

    def end(self) -> None:
        """Removes all, and asks for every commit at some ref, or in what landed."""
        for task in TASKS:
            Removal(self.trees).remove(task, f"w/{task}", landed=self.landed, keeps_files=True)
        assert self.trees.read() == []
        assert self.main.ok("for-each-ref", "refs/heads/w") == ""
        kept = set(self.main.ok("rev-list", "--all").split())
        assert self.commits - kept - self.of_landed() == set()


#: The acts, each with how often it comes.
ACTS = {
    Lives.make: 6,
    Lives.make_killed: 3,
    Lives.commit: 8,
    Lives.amend: 3,
    Lives.reset: 2,
    Lives.detach: 2,
    Lives.attach: 2,
    Lives.soil: 3,
    Lives.land: 1,
    Lives.delete: 2,
    Lives.prune: 1,
    Lives.remove: 4,
    Lives.remove_killed: 4,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(size(sample=3, whole=60)))
def test_no_commit_is_lost_in_a_random_life(main: Git, tmp_path: Path, seed: int) -> None:
    """Promise 1: whatever is made, changed, deleted, removed or killed, in whatever order."""
    lives = Lives(main, tmp_path / "bin", seed)
    for _ in range(STEPS):
        (act,) = lives.random.choices([*ACTS], weights=[*ACTS.values()])
        act(lives, lives.random.choice(TASKS))
        lives.look()
    lives.end()
