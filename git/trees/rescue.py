"""Rescue: commits and files that a removal would lose are kept at refs of their own.

A ref is `refs/ackbus/rescue/TASK/COMMIT`; `git log REF` shows it, `git branch NAME REF` takes it
back. Whatever no other branch or tag reaches counts as lost: also commits that the tree's head or
its branch once had (amended, reset, rebased) and those of an operation under way.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass

from ...schema.bounded_read import read_plain_file
from ...schema.errors import Refused
from ..branches.repositories import NOBODY, NOBODY_EVER, NOTHING
from ..repository import CommandFailed, is_whole_id
from .tree_list import safe_name
from .tree_state import embedded_in, named, repository_of, stage_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..branches.repositories import RepositoryPlace
    from ..repository import Repository
    from .tree_list import LinkedTree

#: Where the refs are.
RESCUED = "refs/ackbus/rescue"

#: How many commits get a ref each; more are gathered as the parents of one.
_REFS_EACH = 4

#: How long git, with its hooks and filters, may take for one step, in seconds.
_LIMIT_S = 600.0

#: The longest file that is read, in bytes: a million lines of the history of a ref, or the index of
#: a million files.
_MAX_BYTES = 256 * 1024 * 1024

#: A line of the history of a ref: the commit before, the one after, who, when, why.
_MOVED = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ")

#: A commit in one of git's files about an operation under way.
_COMMIT = re.compile(rb"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")

#: Those files. `FETCH_HEAD` is not among them: what it has is of others.
OPERATION_FILES = (
    *("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"),
    *("MERGE_AUTOSTASH", "BISECT_EXPECTED_REV", "BISECT_START"),
    *("rebase-merge/orig-head", "rebase-merge/stopped-sha", "rebase-merge/autostash"),
    *("rebase-merge/amend", "rebase-apply/orig-head", "rebase-apply/autostash"),
    *("sequencer/head", "sequencer/abort-safety"),
)


@dataclass(frozen=True, slots=True)
class KeptCommit:
    """A ref that keeps a commit.

    Attributes:
        ref: its name.
        commit: the commit.
    """

    ref: str
    commit: str


class Rescue:
    """The refs that keep commits of removed branches and trees.

    Args:
        place: the repository.
    """

    def __init__(self, place: RepositoryPlace) -> None:
        self._place = place

    def kept(self, task: str | None = None) -> list[KeptCommit]:
        """Return what is kept, of one task or of all."""
        below = RESCUED if task is None else f"{RESCUED}/{safe_name(task)}"
        lines = self._place.git.run("for-each-ref", "--format=%(refname) %(objectname)", below)
        pairs = (os.fsdecode(line).rsplit(" ", 1) for line in lines.splitlines())
        return [KeptCommit(ref, commit) for ref, commit in pairs]

    def keep(self, task: str, commits: Sequence[str]) -> list[KeptCommit]:
        """Keep commits of a task. Safe to repeat."""
        if len(commits) > _REFS_EACH:
            commits = [self._gather(task, commits)]
        rescued = []
        for commit in commits:
            ref = f"{RESCUED}/{safe_name(task)}/{commit}"
            if self._place.git.commit(ref) != commit:
                self._place.git.run("update-ref", ref, commit, NOTHING, limit_s=_LIMIT_S)
            rescued.append(KeptCommit(ref, commit))
        return rescued

    def _gather(self, task: str, commits: Sequence[str]) -> str:
        """Return a commit whose parents are all these commits; the same for equal input."""
        parents = sorted(commits)
        git = self._place.git.with_variables(NOBODY_EVER)
        options = [word for parent in parents for word in ("-p", parent)]
        words = f"Commits of task {task} that no branch had\n".encode("utf-8", "surrogateescape")
        commit = git.run("commit-tree", f"{commits[0]}^{{tree}}", *options, "-F", "-", stdin=words)
        return commit.decode().strip()

    def endangered(
        self,
        admin: str | None,
        branch: str | None,
        landed: Iterable[str] = (),
        others: Iterable[str] = (),
    ) -> list[str]:
        """Return the commits that would be lost with a tree and a branch, without their ancestors.

        Args:
            admin: git's folder of the tree, or None.
            branch: the branch, or None.
            landed: heads that have landed, however: they and what they had before are no loss.
            others: commits besides that would be lost.
        """
        own = {*others, *(self._commits_of_tree(admin) if admin else ())}
        if branch is not None:
            own |= set(self._commits_of_branch(branch))
        starts = [commit for commit in sorted(own) if self._place.git.commit(commit)]
        if not starts:
            return []
        landed_heads = [f"^{head}" for head in landed if self._place.git.commit(head)]
        # A pattern for --branches has no refs/heads/ before it.
        safe = ("--not", *((f"--exclude={branch}",) if branch else ()), "--branches", "--tags")
        rescued = (f"--glob={RESCUED}/*",)
        stdin = "".join(f"{line}\n" for line in (*starts, *landed_heads)).encode()
        command = ("rev-list", "--parents", "--stdin", *safe, *rescued)
        lines = self._place.git.run(*command, stdin=stdin).decode().splitlines()
        parents = {parent for line in lines for parent in line.split()[1:]}
        return [commit for line in lines if (commit := line.split()[0]) not in parents]

    def _commits_of_tree(self, admin: str) -> list[str]:
        """Return the commits that a tree's own refs, files and history name."""
        commits = [
            commit for name in OPERATION_FILES for commit in commits_in(os.path.join(admin, name))
        ]
        for folder, _, names in os.walk(os.path.join(admin, "refs")):
            commits += [id for name in names for id in commits_in(os.path.join(folder, name))]
        return commits + history(os.path.join(admin, "logs", "HEAD"))

    def _commits_of_branch(self, branch: str) -> list[str]:
        head = self._place.git.commit(f"refs/heads/{branch}")
        log = os.path.join(self._place.common_dir, "logs", "refs", "heads", branch)
        return [*([head] if head else []), *history(log)]

    def has_staged(self, tree: LinkedTree) -> bool:
        """Whether the index of a tree differs from its head: also where its files are gone."""
        with tempfile.TemporaryDirectory(prefix="ackbus-rescue-") as folder:
            index = os.path.join(folder, "index")
            git = self._place.git.with_variables({"GIT_INDEX_FILE": index})
            staged = _staged(git, tree.admin, index)
        if tree.head is None or staged is None:
            return os.path.exists(os.path.join(tree.admin, "index"))
        return git.run("rev-parse", f"{tree.head}^{{tree}}").decode().strip() != staged

    def files_of(self, task: str, tree: LinkedTree, head: str) -> str:
        """Return a commit that has all files of a tree that are not ignored; the tree stays as is.

        Of files that a sparse checkout leaves out it has what the head has.

        Its parents are the head, and a commit of the index where that differs from both.

        Raises:
            Refused: a folder is a repository by itself, whose commits this one would not have.
            GitFailed: git can't read all files, or the disk is full.
        """
        with tempfile.TemporaryDirectory(prefix="ackbus-rescue-") as folder:
            index = os.path.join(folder, "index")
            git = repository_of(tree, {**NOBODY, "GIT_INDEX_FILE": index})
            git.run("read-tree", head)  # afresh: no bit of the real one may hide a change
            _leave_out(git, tree)
            stage_all(git, embedded_in(tree), _LIMIT_S)
            _refuse_repositories(git.run("diff-index", "--cached", "--raw", "-z", head), tree.path)
            files = git.run("write-tree").decode().strip()
            parents = ["-p", head]
            staged = _staged(git, tree.admin, index)
            base = git.run("rev-parse", f"{head}^{{tree}}").decode().strip()
            if staged is not None and staged not in (files, base):
                words = f"What was staged for task {task}"
                parents += ["-p", _commit(git, staged, ["-p", head], words)]
            return _commit(git, files, parents, f"Files of task {task} that were not committed")


def _leave_out(git: Repository, tree: LinkedTree) -> None:
    """Mark in an index the files that a sparse checkout leaves out: nobody has deleted them."""
    entries = repository_of(tree).run("ls-files", "-t", "-z").split(b"\0")
    left_out = [
        entry[2:]
        for entry in entries
        if entry.startswith(b"S ")
        and not os.path.lexists(os.path.join(os.fsencode(tree.path), entry[2:]))
    ]
    if not left_out:
        return
    indexed = set(git.run("ls-files", "-z").split(b"\0"))
    names = b"".join(name + b"\0" for name in left_out if name in indexed)
    git.run("update-index", "--skip-worktree", "-z", "--stdin", stdin=names, limit_s=_LIMIT_S)


def _staged(git: Repository, admin: str, index: str) -> str | None:
    """Return the tree of what is staged, by a copy of the index; None where there is none.

    Raises:
        Refused: the index is a pipe or the like, or too long.
    """
    try:
        content = read_plain_file(os.path.join(admin, "index"), _MAX_BYTES)  # a device never ends
        with open(index, "wb") as copy:
            copy.write(content)
        return git.run("write-tree").decode().strip()
    except (FileNotFoundError, CommandFailed):  # nothing yet; or unmerged, of files of commits
        return None


def _commit(git: Repository, tree: str, parents: list[str], words: str) -> str:
    text = f"{words}\n".encode("utf-8", "surrogateescape")
    return git.run("commit-tree", tree, *parents, "-F", "-", stdin=text).decode().strip()


def _refuse_repositories(raw: bytes, path: str) -> None:
    """Refuse nested repositories: git would store a link to each, without its files."""
    fields = raw.split(b"\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    repositories = [
        os.fsdecode(name) for what, name in pairs if what.split(b" ")[1:2] == [b"160000"]
    ]
    if repositories:
        raise Refused(
            f"in {path} there are repositories by themselves, which can't be kept here:"
            f" {named(repositories)}; push or move what they have first"
        )


def commits_in(file: str) -> list[str]:
    """Return what may be ids of commits in a file of git's; none where it is not there.

    Raises:
        Refused: it is a pipe or the like, or too long: what it would name can't be kept.
    """
    return [match.decode() for match in _COMMIT.findall(_content(file))]


def history(log: str) -> list[str]:
    """Return the commits that a ref had, by the file of its history; none where it is not there.

    Raises:
        Refused: as for `commits_in`.
    """
    moves = (match for match in map(_MOVED.match, _content(log).splitlines()) if match)
    return [commit.decode() for match in moves for commit in match.groups() if commit.strip(b"0")]


def _content(file: str) -> bytes:
    try:  # where a branch is gone, the folder of those below its name may take its place
        return b"" if os.path.isdir(file) else read_plain_file(file, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""


# Heads that wait to land: each is kept at a ref, whatever becomes of its branch and its tree.
#
# A branch may be amended or deleted while its commit is reviewed, and then git's clean-up takes
# it. A ref is `refs/ackbus/done/TASK/COMMIT`, from when a task is done until it has landed, is
# done again, or is cleaned; that of a branch without a task is `refs/ackbus/asked/TARGET/COMMIT`,
# with `-` for a target that nobody has named.

#: Where the refs of tasks are, and those of branches without one.
DONE, ASKED = "refs/ackbus/done", "refs/ackbus/asked"

#: Stands for a target that nobody has named; no branch has this safe name.
_NO_TARGET = "-"


class DoneHeads:
    """The refs that keep what waits to land.

    Args:
        place: the repository.
    """

    def __init__(self, place: RepositoryPlace) -> None:
        self._git = place.git

    def of_task(self, task: str) -> list[KeptCommit]:
        """Return what is kept for a task."""
        below = f"{DONE}/{safe_name(task)}"
        lines = self._git.run("for-each-ref", "--format=%(refname) %(objectname)", below)
        pairs = (os.fsdecode(line).rsplit(" ", 1) for line in lines.splitlines())
        return [KeptCommit(ref, commit) for ref, commit in pairs]

    def has(self, head: str) -> bool:
        """Whether the repository has a commit."""
        return self._git.commit(head) is not None

    def keep(self, task: str, head: str) -> list[KeptCommit]:
        """Keep the head by which a task is about to be done. Safe to repeat.

        Returns:
            What was kept for it before: to drop once the task is done.

        Raises:
            GitFailed: git, or a hook of the repository, refuses the ref.
        """
        earlier = [done_head for done_head in self.of_task(task) if done_head.commit != head]
        self._put(_ref_of(task, "", head), head)
        return earlier

    def keep_missing(self, heads: Iterable[tuple[str, str]]) -> None:
        """Keep the heads of done tasks that have no ref yet; each head comes with its task.

        A head that the repository lacks, or whose ref git refuses, is passed over.
        """
        refs = os.fsdecode(self._git.run("for-each-ref", "--format=%(refname)", DONE)).split()
        for task, head in heads:
            if _ref_of(task, None, head) not in refs and self.has(head):
                with suppress(CommandFailed):
                    self.keep(task, head)

    def keep_asked(self, target: str | None, head: str) -> None:
        """Keep a head that is to land in a target without a task. Safe to repeat.

        Args:
            target: the branch; None: nobody has named one.
            head: the whole id of the commit.

        Raises:
            GitFailed: as for `keep`.
        """
        self._put(_ref_of(None, target, head), head)

    def drop(self, heads: Iterable[KeptCommit]) -> None:
        """Delete refs. One that can't be deleted stays, for `bus task clean`."""
        for head in heads:
            with suppress(CommandFailed):  # it is gone, or a hook refuses that
                self._git.run("update-ref", "-d", head.ref, head.commit, limit_s=_LIMIT_S)

    def landed(self, task: str | None, target: str | None, head: str) -> None:
        """Drop the ref of a head that has landed.

        Args:
            task: the task; None: the head is of a branch without one.
            target: where it has landed; None: nobody has named a target.
            head: the whole id of the commit.
        """
        if not is_whole_id(head):  # a row may say anything, and no ref has such a name
            return
        refs = [_ref_of(task, target, head)]
        if task is None and target is not None:
            refs.append(_ref_of(None, None, head))
        self.drop([KeptCommit(ref, head) for ref in refs])

    def _put(self, ref: str, head: str) -> None:
        if self._git.commit(ref) != head:
            self._git.run("update-ref", ref, head, NOTHING, limit_s=_LIMIT_S)


def _ref_of(task: str | None, target: str | None, head: str) -> str:
    if task is not None:
        return f"{DONE}/{safe_name(task)}/{head}"
    return f"{ASKED}/{_NO_TARGET if target is None else safe_name(target)}/{head}"
