"""Which pairs of commits would not merge: git itself is the oracle, in a real work tree."""

import os
import re
import subprocess
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from ackbus.git.branches.forecast import MergeBases, UnknownForecast, conflicts
from ackbus.git.sealed import SealedRepository, sealed_around

from ..sizes import size
from .histories import History
from .plain_git import AUTHOR, commit, git


def really_merged(path: Path, a: str, b: str) -> tuple[bool, set[str]]:
    """Merges two commits in the work tree; returns whether it went well, and what conflicts.

    Git 2.39 aborts at a few conflicts of renamed folders, and leaves its lock.
    """
    git(path, "checkout", "--quiet", "--force", "--detach", a)
    done = subprocess.run(
        ["git", "merge", "--no-edit", "--quiet", b],
        cwd=path,
        env=os.environ | AUTHOR,
        capture_output=True,
        check=False,
    )
    (path / ".git" / "index.lock").unlink(missing_ok=True)
    unmerged = git(path, "ls-files", "--unmerged", "-z").split("\0")[:-1]
    git(path, "reset", "--quiet", "--hard")
    git(path, "clean", "-fdxq")
    names = {re.sub(rf"~(HEAD|{b})(_\d+)?$", "", line.split("\t", 1)[1]) for line in unmerged}
    return done.returncode == 0, names


@pytest.fixture
def repository(tmp_path: Path) -> SealedRepository:
    path = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "-b", "main", str(path))
    (path / "a").write_text("1\n2\n3\n")
    git(path, "add", "a")
    git(path, "commit", "--quiet", "--message", "first")
    return sealed_around(str(path))


@pytest.mark.slow
def test_the_forecast_of_random_histories_is_what_a_real_merge_does(tmp_path: Path) -> None:
    seen: Counter[bool] = Counter()
    for seed in range(size(sample=3, whole=150)):
        path = tmp_path / str(seed)
        history = History(seed)
        history.write(path)
        repository = sealed_around(str(path))
        ids = repository.commits(history.heads)
        pairs = [(a, b) for a, b in combinations(ids, 2) if a and b]
        for (a, b), files in zip(pairs, conflicts(repository, pairs), strict=True):
            went_well, unmerged = really_merged(path, a, b)
            assert (files is None) == went_well, (seed, a, b, files)
            if unmerged:
                assert set(files or ()) == unmerged, (seed, a, b)
            seen[went_well] += 1
    assert min(seen[True], seen[False]) > sum(seen.values()) / 10  # both are really tried


@pytest.mark.slow
def test_merge_bases_are_those_of_git(tmp_path: Path) -> None:
    crossed = 0
    for seed in range(100, 100 + size(sample=3, whole=100)):
        path = tmp_path / str(seed)
        history = History(seed, heads=6)
        history.write(path)
        repository = sealed_around(str(path))
        ids = [id for id in repository.commits(history.heads) if id]
        known = MergeBases(repository, sorted(set(ids)))
        for a, b in combinations(ids, 2):
            bases = git(path, "merge-base", "--all", a, b).split()
            assert sorted(known.bases(a, b)) == sorted(bases)
            crossed += len(bases) > 1
    assert crossed


def test_a_forecast_leaves_nothing_in_the_repository(repository: SealedRepository) -> None:
    path = Path(repository.common_dir).parent
    a = commit(path, "a", "main", a="A\n2\n3\n", x="x")
    b = commit(path, "b", "main", a="B\n2\n3\n", y="y")
    c = commit(path, "c", "main", a="1\n2\nC\n")
    before = sorted(path.rglob("*"))
    assert conflicts(repository, [(a, b), (b, a), (a, c), (b, c)]) == [("a",), ("a",), None, None]
    assert sorted(path.rglob("*")) == before
    assert git(path, "status", "--porcelain") == ""


def test_commits_without_a_common_ancestor_do_not_merge(repository: SealedRepository) -> None:
    path = Path(repository.common_dir).parent
    ids = [git(path, "rev-parse", "main")]
    for number in range(3):
        git(path, "checkout", "--quiet", "--orphan", f"other-{number}")
        git(path, "commit", "--quiet", "--message", f"alone {number}")
        ids.append(git(path, "rev-parse", "HEAD"))
    b = commit(path, "b", "main", b="b")
    pairs = [*combinations(ids, 2), (ids[0], b), (b, ids[1])]
    assert conflicts(repository, pairs) == [()] * 6 + [None, ()]


def test_what_is_behind_or_the_same_merges(repository: SealedRepository) -> None:
    path = Path(repository.common_dir).parent
    main = git(path, "rev-parse", "main")
    a = commit(path, "a", "main", a="A\n2\n3\n")
    assert conflicts(repository, [(main, a), (a, main), (a, a)]) == [None] * 3
    assert conflicts(repository, []) == []


def test_a_missing_commit_is_not_known_and_no_conflict(repository: SealedRepository) -> None:
    path = Path(repository.common_dir).parent
    main, a = git(path, "rev-parse", "main"), commit(path, "a", "main", a="A\n2\n3\n")
    missing, merges = conflicts(repository, [(main, "0" * 39 + "1"), (main, a)])
    assert isinstance(missing, UnknownForecast)
    assert merges is None


def test_a_folder_of_a_strange_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / 'a:b "c" \\d\ne'
    git(tmp_path, "init", "--quiet", "-b", "main", str(path))
    (path / "f").write_text("f")
    git(path, "add", "f")
    git(path, "commit", "--quiet", "--message", "first")
    a, b = (commit(path, name, "main", f=name) for name in "ab")
    assert conflicts(sealed_around(str(path)), [(a, b)]) == [("f",)]


def test_names_that_are_no_commits_are_none(repository: SealedRepository) -> None:
    git(Path(repository.common_dir).parent, "tag", "--annotate", "--message", "t", "v1")
    main = repository.commits(["main"])[0]
    names = ["HEAD", "v1", "-h", "--all", "^main", "main..HEAD", "", "main^{tree}", "no"]
    odd = ["main@{upstream}", "main@{9}", "a\nmain", "main\0", "ma\udcffin", "v1"]
    found = repository.commits([*names, *odd])
    assert found == [main, main, *[None] * 12, main]
    assert repository.commits([]) == []
