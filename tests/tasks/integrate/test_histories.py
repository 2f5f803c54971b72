"""Made histories, replayed through the integrator with git itself as the oracle.

What git merges in a work tree, the integrator lands with the same files, or says why not; and what
conflicts there conflicts here, in the same files.
"""

import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.git.branches.candidates import Candidate, CandidateConflict, Candidates
from ackbus.git.branches.repositories import RepositoryPlace

from ...cli.git import Git
from ...sizes import size
from .conftest import Yard, repository

_FILES, _LINES = 6, 40


def edited(text: str, rng: random.Random) -> str:
    """A text with a line or two changed, added or taken away."""
    rows = text.splitlines()
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(rows))
        kind = rng.choice(("change", "change", "add", "drop"))
        if kind == "change":
            rows[at] = f"new {rng.randrange(10_000)}"
        elif kind == "add":
            rows.insert(at, f"more {rng.randrange(10_000)}")
        elif len(rows) > 5:
            del rows[at]
    return "\n".join(rows) + "\n"


class Made:
    """A repository with branches, made by `fast-import`; each begins at a commit of main."""

    def __init__(self, git: Git, seed: int, branches: int) -> None:
        self.git = git
        self._rng = random.Random(seed)
        self._stream: list[str] = []
        self._marks = 0
        start = {
            f"f{number}": "".join(f"{number} {row}\n" for row in range(_LINES))
            for number in range(_FILES)
        }
        root = self._commit("main", start, None)
        self.names = [f"topic-{number}" for number in range(branches)]
        for name in self.names:
            self._commit(name, self._changed(start), root)
        subprocess.run(
            ["git", "fast-import", "--quiet", "--force"],
            cwd=git.path,
            input="".join(self._stream).encode(),
            check=True,
        )
        git.ok("reset", "--quiet", "--hard", "main")

    def _changed(self, files: dict[str, str]) -> dict[str, str]:
        after = dict(files)
        for name in self._rng.sample(sorted(after), self._rng.randint(1, 2)):
            kind = self._rng.choice(("edit",) * 6 + ("rename", "delete", "create"))
            if kind == "edit":
                after[name] = edited(after[name], self._rng)
            elif kind == "rename":
                after[f"moved/{name}-{self._rng.randrange(3)}"] = after.pop(name)
            elif kind == "delete":
                del after[name]
            else:
                after[f"fresh-{self._rng.randrange(40)}"] = f"{self._rng.randrange(9)}\n"
        return after

    def _commit(self, branch: str, files: dict[str, str], parent: int | None) -> int:
        self._marks += 1
        lines = [f"commit refs/heads/{branch}\nmark :{self._marks}\n"]
        lines += [f"committer A <a@example.com> {1_700_000_000 + self._marks} +0000\n"]
        words = f"work of {branch}"
        lines += [f"data {len(words)}\n{words}\n"]
        if parent is not None:
            lines.append(f"from :{parent}\n")
        lines.append("deleteall\n")
        for name, text in files.items():
            lines.append(f"M 644 inline {name}\ndata {len(text)}\n{text}\n")
        self._stream += lines
        return self._marks


def merged_by_git(git: Git, branch: str) -> tuple[str, ...] | str:
    """The files of a merge in a work tree, as the id of a tree; or those that conflict."""
    done = git("merge", "--quiet", "--no-ff", "-m", f"Merge {branch}", branch)
    if done.code == 0:
        return git.ok("rev-parse", "HEAD^{tree}")
    entries = git.ok("ls-files", "--unmerged", "-z").split("\0")
    git.ok("merge", "--abort")
    return tuple(sorted({entry.partition("\t")[2] for entry in entries if entry}))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_replayed_histories_give_gits_files_and_gits_conflicts(tmp_path: Path, seed: int) -> None:
    """U-57: clean ones give the same tree, conflicting ones name the same files."""
    branches = size(sample=45, whole=300)
    git = repository(tmp_path / "repo")
    made = Made(git, seed, branches)
    oracle = tmp_path / "oracle"
    git.ok("worktree", "add", "--quiet", "--detach", oracle, "main")
    by_git = Git(oracle, dict(os.environ))
    with Bus.init(tmp_path / "bus") as bus:
        yard = Yard(git, bus)
        yard.ask(*made.names)
        yard.integrate(batch=1)
    assert [each.entry.branch for each in yard.results] == made.names
    landed = 0
    for result in yard.results:
        expected = merged_by_git(by_git, result.entry.branch)
        if isinstance(expected, str):
            assert (result.outcome, result.reason) == ("landed", "")
            assert git.ok("rev-parse", f"{result.commit}^{{tree}}") == expected
            landed += 1
        else:
            assert (result.outcome, result.files) == ("conflict", expected)
    assert 5 < landed < branches - 5
    assert git.ok("rev-parse", "main^{tree}") == by_git.ok("rev-parse", "HEAD^{tree}")
    assert git.ok("status", "--porcelain") == ""


@pytest.mark.slow
def test_batches_land_the_same_as_one_by_one(tmp_path: Path) -> None:
    trees = []
    outcomes = []
    for batch in (1, 7):
        git = repository(tmp_path / f"repo-{batch}")
        made = Made(git, 5, size(sample=15, whole=120))
        with Bus.init(tmp_path / f"bus-{batch}") as bus:
            yard = Yard(git, bus)
            yard.ask(*made.names)
            outcome = yard.integrate(batch=batch)
        trees.append({name for name, what in outcome.items() if what == "landed"})
        outcomes.append(set(outcome.values()))
        for result in yard.results:  # each landed commit has the head, and no landed one is lost
            if result.commit is not None:
                git.ok("merge-base", "--is-ancestor", result.commit, "main")
    assert outcomes == [{"landed", "conflict"}] * 2
    assert trees[0]
    assert len(trees[1]) > len(trees[0]) / 2


@pytest.mark.parametrize("seed", range(3))
def test_picked_commits_are_those_of_git_cherry_pick(tmp_path: Path, seed: int) -> None:
    git = repository(tmp_path / "repo")
    made = Made(git, 100 + seed, 12)
    oracle = tmp_path / "oracle"
    git.ok("worktree", "add", "--quiet", "--detach", oracle, "main")
    by_git = Git(oracle, dict(os.environ))
    candidates = Candidates(RepositoryPlace.around(str(git.path)))
    onto = git.ok("rev-parse", "main")
    for name in made.names:
        head = git.ok("rev-parse", name)
        found = candidates.make(head, onto, "cherry-pick", "")
        done = by_git("cherry-pick", "--allow-empty", "--keep-redundant-commits", head)
        if done.code:
            assert isinstance(found, CandidateConflict)
            entries = by_git.ok("ls-files", "--unmerged", "-z").split("\0")
            names = {entry.partition("\t")[2] for entry in entries if entry}
            assert set(found.files) == names
            by_git.ok("cherry-pick", "--abort")
        else:
            assert isinstance(found, Candidate)
            assert found.tree == by_git.ok("rev-parse", "HEAD^{tree}")
            onto = found.commit


def merged_without_a_tree(git: Git, into: str, head: str) -> tuple[str, ...] | str:
    """The result of `merged_by_git` for two commits."""
    merge = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
    done = git(*merge, into, head)
    tree, *files = done.out.strip("\0").split("\0")
    return tree if done.code == 0 else tuple(sorted(files))


@pytest.mark.slow
def test_the_history_of_this_repository_is_merged_again(tmp_path: Path) -> None:
    """U-57: each merge gives the recorded files again, or conflicts in the files that git names."""
    root = Path(__file__).parents[3]
    here = Git(root, dict(os.environ))
    if (
        here("rev-parse", "--git-dir").code
        or here.ok("rev-parse", "--is-shallow-repository") != "false"
    ):
        pytest.skip("this is no whole clone")
    git = Git(tmp_path / "repo", here.env)
    here.ok("clone", "--quiet", "--shared", "--no-checkout", root, git.path)
    git.ok("config", "user.name", "Integra Tor")
    git.ok("config", "user.email", "integra@example.org")
    merges = [
        commits
        for line in git.ok("rev-list", "--merges", "--parents", "HEAD").splitlines()
        if len(commits := line.split()) == 3
    ]
    found: Counter[str] = Counter()
    with Bus.init(tmp_path / "bus") as bus:
        yard = Yard(git, bus)
        for merge, into, head in merges:
            target, topic = f"into-{merge}", f"topic-{merge}"
            git.ok("branch", target, into)
            git.ok("branch", topic, head)
            yard.ask(topic, target=target)
            yard.integrate(target=target)
            by_git, result = merged_without_a_tree(git, into, head), yard.results[-1]
            if isinstance(by_git, tuple):
                assert (result.outcome, result.files) == ("conflict", by_git), merge
                assert git.ok("rev-parse", target) == into
                found["conflict"] += 1
                continue
            assert (result.outcome, result.reason) == ("landed", ""), merge
            assert git.ok("rev-parse", f"{target}^{{tree}}") == by_git, merge
            is_recorded = git.ok("rev-parse", f"{merge}^{{tree}}") == by_git
            found["as recorded" if is_recorded else "recorded with changes by hand"] += 1
    assert found.total() == len(merges)
    assert not merges or found["as recorded"] > len(merges) / 4, found
