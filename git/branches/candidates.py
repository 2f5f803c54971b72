"""Candidates: the commits that a target would move to, merged without a work tree.

No hook runs here, and nothing refers to a candidate yet.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass

from ...schema.errors import Refused
from ..repository import CommandFailed, GitFailed, OutOfTime
from .forecast import (
    BY_OTHERS,
    CRASHES,
    OURS,
    UNRELATED,
    all_attribute_files,
    merged_by,
    plain_name,
    with_attributes,
)
from .repositories import NOBODY, NOBODY_EVER, repository_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Literal

    from ..repository import Repository
    from ..sealed import SealedRepository
    from .repositories import RepositoryPlace

    #: How a head becomes a candidate: a merge commit, its commits one by one, or as it is.
    Strategy = Literal["merge", "cherry-pick", "ff"]

# Merging by the attributes that `git merge` would have in a checkout of the target.

#: How long git, with the merge drivers of the repository, may take to merge, in seconds.
_LIMIT_S = 300.0

_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")

#: Git says this of a driver that a signal ended, or that ended with a code above 128.
_DRIVER_FAILED = "failed to execute internal merge"


class NotMerged(Exception):
    """The commits can't be merged; the text says why."""


class Merging:
    """Merges in a repository.

    Args:
        git: the repository.
        drivers: those that are configured and may be run.
        check_out: brings a work tree to a commit and returns its top, for drivers that read other
            files; without it, and where it fails, git runs where there are attributes alone.
    """

    def __init__(
        self,
        git: Repository,
        drivers: Collection[str] = (),
        check_out: Callable[[str], str] | None = None,
    ) -> None:
        self._git = git
        self._drivers = drivers
        self._check_out = check_out if drivers else None

    def merge(self, ours: str, theirs: str, target: str) -> tuple[str, tuple[str, ...]]:
        """Return the files of a merge, as the id of a tree, and the names of those that conflict.

        Args:
            ours, theirs: the commits.
            target: the commit whose attributes decide how, and whose files drivers may run: what
                has not landed starts nothing.

        Raises:
            NotMerged: the commits can't be merged.
            GitFailed: git is too old, or failed.
        """
        try:
            with self._at(target) as git:
                output = git.run(*_MERGE, ours, theirs, accepted=(0, 1), limit_s=_LIMIT_S)
        except OutOfTime as error:  # a merge driver of the repository
            raise NotMerged(str(error)) from error
        except CommandFailed as error:
            raise _reason(error) or error from error
        words, *names = output.split(b"\0")[:-1]
        pair = (ours, theirs)
        files = {plain_name(os.fsdecode(name), pair) for name in names}
        # Drivers may have printed something to standard output, before the id.
        return words[-len(ours) :].decode(), tuple(sorted(files))

    def by_drivers(self, onto: str, tree: str, target: str) -> frozenset[str]:
        """Return the files that differ between a commit and a tree, and that drivers merge."""
        if not self._drivers:
            return frozenset()
        changed = self._git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", onto, tree)
        with with_attributes(self._git, all_attribute_files(self._git, target)) as git:
            raw = git.run("check-attr", "-z", "--stdin", "merge", stdin=changed)
        default = self._git.run("config", "--get", "merge.default", accepted=(0, 1)).strip()
        fields = os.fsdecode(raw).split("\0")[:-1]
        driver_of = dict(zip(fields[::3], fields[2::3], strict=True))
        return frozenset(
            file
            for file, driver in driver_of.items()
            if (os.fsdecode(default) if driver == "unspecified" else driver) in self._drivers
        )

    @contextmanager
    def _at(self, commit: str) -> Iterator[Repository]:
        if self._check_out is not None:
            try:
                folder = self._check_out(commit)
            except GitFailed:  # a filter fails, and drivers may need no other file
                pass
            else:
                yield repository_at(folder)
                return
        with with_attributes(self._git, all_attribute_files(self._git, commit)) as git:
            yield git


def _reason(error: CommandFailed) -> Exception | None:
    if error.reason == UNRELATED:
        return NotMerged("it has no commit in common with the target")
    if error.code in CRASHES:
        return NotMerged("git fails at its renamed folders")
    if _DRIVER_FAILED in error.stderr.decode("utf-8", "replace"):
        return NotMerged(f"a merge driver failed: {error.reason}")
    if "unknown option" in error.reason or "usage:" in error.reason:
        return GitFailed("merging needs git 2.38 or later: update git")
    return None


# Changes between two commits, compared: what a candidate changes must be what was approved.

#: No setting and no attribute of a user changes the form; without context, so that changes of
#: others close by make no difference.
_DIFF = (
    *("diff-tree", "-r", "-p", "--unified=0", "--full-index", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--src-prefix=a/"),
    "--dst-prefix=b/",
)

#: The refs that keep what has landed.
_KEPT = ("refs/heads", "refs/tags", "refs/remotes", "refs/ackbus/remote")

#: The beginnings of lines in the header of a file that say what changes in it.
_TOLD = (b"old mode", b"new mode", b"new file mode", b"deleted file mode", b"rename ", b"Binary ")


def patch_id(repository: Repository, before: str, after: str) -> str:
    """Return git's id of what changed between two commits; "" where nothing did."""
    diff = repository.run(*_DIFF, "--no-renames", before, after)
    return _id_of(repository, diff)


def _id_of(repository: Repository, diff: bytes) -> str:
    answer = repository.run("patch-id", "--stable", stdin=diff) if diff else b""
    return answer.split()[0].decode() if answer else ""


def is_part(
    repository: Repository,
    change: tuple[str, str],
    approved: tuple[str, str],
    besides: Collection[str] = (),
) -> bool:
    """Return whether every line of a change is also a line of the approved change, in any place.

    It may have fewer: the target may have some already. Git moves changes with a renamed file.

    Args:
        repository: where the commits are.
        change, approved: each a commit before the change, and one after it.
        besides: files that may have any change.
    """
    left_out = [f":(top,literal,exclude){file}" for file in besides]
    diff = (*_DIFF, "--find-renames", "-l0")
    changed_lines, approved_lines = (
        _lines(repository.run(*diff, *pair, "--", *left_out)) for pair in (change, approved)
    )
    return changed_lines <= approved_lines


def _lines(diff: bytes) -> Counter[bytes]:
    """Return the lines that a diff adds and takes away, modes and binary files included."""
    lines: Counter[bytes] = Counter()
    is_header = False
    for line in diff.split(b"\n"):
        if line.startswith((b"diff --git ", b"@@ ")):
            is_header = line.startswith(b"diff")
        elif line and (line.startswith(_TOLD) or not is_header):
            lines[line] += 1
    return lines


def merge_bases(repository: Repository, a: str, b: str) -> list[str]:
    """Return the merge bases of two commits; none where their histories are unrelated."""
    try:
        return repository.run("merge-base", "--all", a, b).decode().split()
    except CommandFailed as error:
        if error.code == 1:
            return []
        raise


def contains(repository: Repository, commit: str, other: str) -> bool:
    """Return whether a commit is `other`, or a descendant of it."""
    try:
        repository.run("merge-base", "--is-ancestor", other, commit)
    except CommandFailed as error:
        if error.code == 1:
            return False
        raise
    return True


def brings_changes_of(repository: Repository, commit: str, head: str) -> bool:
    """Return whether a commit, perhaps with those before it, makes the changes of a head.

    It is the proof of a squash, and of picked commits: their history does not have the head. Where
    the target had some of the changes already, or a driver merged them, there is no proof.
    """
    bases = merge_bases(repository, commit, head)
    changes = patch_id(repository, bases[0], head) if len(bases) == 1 else ""
    if not changes:
        return False
    picked = int(repository.run("rev-list", "--count", "--no-merges", f"{bases[0]}..{head}"))
    befores = (repository.commit(f"{commit}~{steps}") for steps in {1, picked})
    return any(before and patch_id(repository, before, commit) == changes for before in befores)


def has_elsewhere(place: RepositoryPlace, commit: str, branch: str) -> bool:
    """Return whether a ref other than the branch reaches a commit, here or as last fetched."""
    if place.git.commit(commit) is None:
        return False
    command = ("for-each-ref", "--count=2", "--format=%(refname)", f"--contains={commit}", *_KEPT)
    refs = os.fsdecode(place.git.run(*command)).split()
    return any(ref != place.branch_ref(branch) for ref in refs)


def last_changes(
    repository: Repository, base: str, target: str, files: list[str]
) -> dict[str, str]:
    """Return for each file the commit that last changed it on the way from a base to a target."""
    commit_of = {}
    for file in files:
        options = ("--first-parent", "-1", f"{base}..{target}", "--", f":(literal,top){file}")
        if answer := repository.run("rev-list", *options).decode().strip():
            commit_of[file] = answer
    return commit_of


def way(repository: Repository, since: str, target: str) -> list[str]:
    """Return a commit, and those that lead from it to a target, the oldest first."""
    raw = repository.run("rev-list", "--reverse", "--ancestry-path", f"{since}..{target}")
    return [since, *raw.decode().split()]


def is_whole(git: Repository, commit: str, base: str) -> bool:
    """Whether git has every object of a commit that its base lacks: none is missing or empty."""
    try:
        ids = git.run("rev-list", "--objects", "--no-object-names", commit, "--not", base)
        sizes = git.run("cat-file", "--batch-check=%(objectsize)", stdin=ids)
    except CommandFailed:
        return False
    return all(size.isdigit() for size in sizes.splitlines())


STRATEGIES: tuple[Strategy, ...] = ("merge", "cherry-pick", "ff")

#: How long git may take to sign a commit, in seconds.
_SIGNING_S = 30.0

#: The last words of git about a commit that it could not sign.
_NOT_WRITTEN = "fatal: failed to write commit object"

#: How much of a signer's words is told, in characters.
_SIGNER_CHARS = 500

#: Nobody is asked for the passphrase of a key.
_NO_PROMPT: dict[str, str | None] = dict.fromkeys(
    ("DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY", "SSH_ASKPASS")
)


class NotSigned(GitFailed):
    """A commit must be signed here, and the signer failed or hung; the error quotes the signer."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit that contains a head, or its changes, and the commit that it was made onto.

    Attributes:
        commit: its id; that of `onto` where the head brings nothing new.
        tree: the id of its files.
        onto: the commit that it was made onto.
        by_drivers: the files that drivers merge which the user has configured.
    """

    commit: str
    tree: str
    onto: str
    by_drivers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CandidateConflict:
    """The reason why there is no candidate.

    Attributes:
        files: the conflicting files; empty where something else is in the way.
        reason: what is in the way, in words.
        is_conflict: whether another target could take the head.
        is_known: False in a look, which does not run the drivers that merge these files.
    """

    files: tuple[str, ...]
    reason: str
    is_conflict: bool = False
    is_known: bool = True


class Candidates:
    """Makes the candidates of a repository.

    Args:
        place: the repository.
        looking: its sealed view, where candidates are made only to see: by nobody, unsigned, and
            without the drivers of anybody.
        check_out: brings a work tree to a commit and returns its top; drivers run in it.

    Attributes:
        git: that of the repository, or its view.

    Raises:
        Refused: git does not know who commits here.
    """

    def __init__(
        self,
        place: RepositoryPlace,
        *,
        looking: SealedRepository | None = None,
        check_out: Callable[[str], str] | None = None,
    ) -> None:
        self._signs = False
        self._place = place
        self._looking = looking
        if looking is not None:
            self.git = looking.with_variables(NOBODY)
            self._merging = Merging(looking.for_merging())
            return
        self.git = place.git
        drivers = place.merge_drivers - {OURS}
        self._merging = Merging(self.git, drivers, check_out)
        try:
            self.git.run("var", "GIT_COMMITTER_IDENT")
        except CommandFailed as error:
            raise Refused(
                f"git does not know who commits in {place.main}; tell it with 'git config user.name"
                " NAME' and 'git config user.email ADDRESS'"
            ) from error
        self._signs = self._is_to_sign()

    def make(
        self, head: str, onto: str, strategy: Strategy, words: str, target: str | None = None
    ) -> Candidate | CandidateConflict:
        """Return the candidate of a head.

        Args:
            head, onto: whole ids of commits that are there.
            strategy: how.
            words: the message of a merge commit.
            target: the commit that the target is at, whose attributes say how files merge; None:
                that is `onto`.

        Raises:
            NotSigned: it must be signed, which can't be done without asking a person.
            GitFailed: git failed, or an object is missing.
        """
        if contains(self.git, onto, head):
            return Candidate(onto, self._tree(onto), onto)
        if strategy == "ff":
            if not contains(self.git, head, onto):
                return CandidateConflict(
                    (), "it is no fast-forward: rebase it onto the target", is_conflict=True
                )
            return Candidate(head, self._tree(head), onto)
        if strategy == "cherry-pick":
            return self._pick_all(head, onto, target or onto)
        tree = self._merged(onto, head, target or onto)
        if isinstance(tree, CandidateConflict):
            return tree
        commit = self._commit(tree, (onto, head), words.encode(), self._author(head))
        return self._made(commit, tree, onto, target or onto)

    def _made(self, commit: str, tree: str, onto: str, target: str) -> Candidate:
        return Candidate(commit, tree, onto, self._merging.by_drivers(onto, tree, target))

    def _pick_all(self, head: str, onto: str, target: str) -> Candidate | CandidateConflict:
        answer = self.git.run(
            "rev-list", "--reverse", "--topo-order", "--parents", head, f"^{onto}"
        )
        tip, tree = onto, self._tree(onto)
        for line in answer.decode().splitlines():
            commit, *parents = line.split()
            if len(parents) != 1:
                return CandidateConflict(
                    (), f"{commit[:12]} is no commit with one parent, and can't be picked"
                )
            files = self._picked(commit, parents[0], tree, target)
            if isinstance(files, CandidateConflict):
                return files
            if files != tree:
                words = self.git.run("log", "-1", "--no-show-signature", "--format=%B", commit)
                tip = self._commit(files, (tip,), words[:-1], self._author(commit))
                tree = files
        return self._made(tip, tree, onto, target)

    def _picked(self, commit: str, parent: str, tree: str, target: str) -> str | CandidateConflict:
        """Return the files of a tree with the change of a commit."""
        aside = self.git.with_variables(NOBODY_EVER)
        base = aside.run("commit-tree", tree, "-p", parent, "-m", "onto").decode().strip()
        return self._merged(base, commit, target)

    def _merged(self, ours: str, theirs: str, target: str) -> str | CandidateConflict:
        """Return the files of a merge."""
        try:
            tree, files = self._merging.merge(ours, theirs, target)
        except NotMerged as error:
            return CandidateConflict((), str(error))
        if not files:
            return tree
        if self._looking is not None:
            by = merged_by(self._looking, {target: files})[target]
            if foreign := by.ours | by.others:
                return CandidateConflict(tuple(sorted(foreign)), BY_OTHERS, is_known=False)
        return CandidateConflict(files, "it conflicts with the target", is_conflict=True)

    def _commit(
        self, tree: str, parents: tuple[str, ...], words: bytes, author: dict[str, str | None]
    ) -> str:
        git = self.git.with_variables({**_NO_PROMPT, **author})
        options = [word for parent in parents for word in ("-p", parent)]
        line = ("commit-tree", tree, *options, "-F", "-")
        if self._signs:
            try:
                commit = git.run(*line, "-S", stdin=words, limit_s=_SIGNING_S)
            except OutOfTime as error:
                raise NotSigned(f"the signer has not ended within {_SIGNING_S:g} s") from error
            except CommandFailed as error:
                git.run(*line, "--no-gpg-sign", stdin=words)  # else it is not the signer's failure
                raise NotSigned(f"it can't be signed: {_words_of(error)}") from error
        else:
            commit = git.run(*line, "--no-gpg-sign", stdin=words)
        return commit.decode().strip()

    def _author(self, commit: str) -> dict[str, str | None]:
        form = "--format=%an%x00%ae%x00%ad"
        raw = self.git.run("log", "-1", "--no-show-signature", "--date=raw", form, commit)
        name, email, date = os.fsdecode(raw).removesuffix("\n").split("\0")
        return {
            "GIT_AUTHOR_NAME": name or "nobody",
            "GIT_AUTHOR_EMAIL": email,
            "GIT_AUTHOR_DATE": f"@{date}",
        }

    def _tree(self, commit: str) -> str:
        return self.git.run("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def _is_to_sign(self) -> bool:
        try:
            setting = self.git.run("config", "--type=bool", "--get", "commit.gpgSign")
        except CommandFailed:  # not set
            return False
        return setting.strip() == b"true"


def _words_of(error: CommandFailed) -> str:
    """Return what a signer said, without what git adds at its end."""
    lines = error.stderr.decode("utf-8", "replace").splitlines()
    sentences = [line.strip() for line in lines if line.strip() and line != _NOT_WRITTEN]
    return "; ".join(sentences)[:_SIGNER_CHARS] or error.reason
