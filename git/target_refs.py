"""The target branch: where it is, and moving it by compare-and-swap.

Where it is checked out, the work tree goes with it: else git would show what landed as taken back.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..export.jsonl.jsonl_file import lines_of
from ..export.jsonl.parts import part_files
from ..export.jsonl.writer import writing_lock
from ..schema.directory.folder import Folder
from ..schema.directory.ignoring import IGNORING, default_text
from ..schema.directory.layout import Layout
from ..schema.errors import InvalidInput, Refused, shown
from .branches.candidates import contains
from .branches.repositories import repository_at
from .drivers import messages_in
from .repository import CommandFailed, GitFailed
from .trees.tree_state import PATIENT, git_dir_of, named, operation_at
from .trees.work_trees import WorkTrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .branches.repositories import RepositoryPlace
    from .repository import Repository

# Files that a bus in a work tree keeps changing by itself: no landing waits for them.
#
# They are derived from the bus, so they are nobody's work. While git brings a tree to another
# commit they stand aside, under the lock of their writer, and come back as they were.
# Lines of `bus.jsonl` that only the commit has are put to the others, for `bus import`.

#: The files of a bus that git may have, by their path in the work tree.
_DERIVED = re.compile(
    r"(?P<directory>(?:.+/)?)(?P<name>bus\.jsonl|bus-\d{6}\.jsonl|bus\.index\.json"
    r"|blobs/sha256-[0-9a-f]{64}|\.gitignore)"
)

#: The ending of the name of a file that stands aside; of one that a killed process left, the bus
#: has all that is in it.
_ASIDE = ".aside"

#: How long a writer of `bus.jsonl` is waited for, in seconds.
_WAIT_S = 30.0

#: How long git may take to put these files as a commit has them, filters included, in seconds.
_LIMIT_S = 600.0


def is_derived(tree: str, file: str) -> bool:
    """Whether a file of a work tree is one that the bus beside it keeps, and can make again."""
    match = _DERIVED.fullmatch(file)
    return (
        match is not None
        and match["name"] != IGNORING
        and _is_within(tree, match["directory"])
        and os.path.isfile(os.path.join(tree, match["directory"], "bus.db"))
    )


@dataclass(frozen=True, slots=True)
class _DerivedFile:
    """A file of a bus: its path in the work tree, its folder, and its name there."""

    path: str
    folder: Folder
    name: str
    directory: str

    @property
    def is_log(self) -> bool:
        return self.path.endswith("bus.jsonl")


@contextmanager
def derived_files_aside(git: Repository, before: str, changed: Iterable[str]) -> Iterator[None]:
    """Give derived files the content of a commit for the block, and restore them after it.

    Args:
        git: of the work tree.
        before: the commit that the tree is at.
        changed: the files that are to change.

    Raises:
        BusBusy: an exporter has been writing for too long.
        GitFailed: git failed.
    """
    looked_up = (_derived_file(git.folder, path) for path in changed)
    files = [file for file in looked_up if file is not None]
    directories = sorted({file.directory for file in files})
    locks = [writing_lock(directory) for directory in directories]
    try:
        for lock in locks:
            lock.acquire(_WAIT_S)
        aside = [file for file in files if file.folder.has(file.name)]
        for file in aside:
            file.folder.rename(file.name, file.name + _ASIDE)
        try:
            _put(git, before, [file.path for file in files])
            yield
        except BaseException:
            _bring_back(git, aside)
            raise
        _bring_back(git, [file for file in aside if file.name != IGNORING])
        for file in aside:
            file.folder.remove(file.name + _ASIDE)
    finally:
        for lock in locks:
            lock.close()


def _is_within(tree: str, directory: str) -> bool:
    """Whether a folder of a work tree exists, and is not reached by a link of a commit."""
    there = os.path.join(os.path.realpath(tree), directory).rstrip(os.sep)
    return os.path.realpath(there) == there


def _derived_file(tree: str, path: str) -> _DerivedFile | None:
    match = _DERIVED.fullmatch(path)
    if match is None or not _is_within(tree, match["directory"]):
        return None
    layout = Layout(os.path.join(tree, match["directory"]))
    folder, name = layout.files, match["name"]
    if match["name"].startswith("blobs/"):
        folder, name = layout.blob_folder, name.removeprefix("blobs/")
    if not layout.files.has("bus.db") or (name == IGNORING and not _is_ours(layout)):
        return None
    return _DerivedFile(path, folder, name, layout.directory)


def _is_ours(layout: Layout) -> bool:
    """Whether the `.gitignore` there is the default of a bus, which a commit may replace."""
    if not layout.files.has(IGNORING):
        return False
    with layout.files.read(IGNORING) as file:
        return file.read(10_000) == default_text(layout).encode()


def _put(git: Repository, commit: str, paths: list[str]) -> None:
    """Set files, and their entries in the index, to those of a commit, which may lack some."""
    if not paths:
        return
    listed = os.fsdecode(git.run("ls-tree", "-z", "--name-only", commit, "--", *paths))
    there = [path for path in listed.split("\0") if path]
    missing = "".join(f"{path}\0" for path in paths if path not in there)
    git.run("update-index", "-z", "--force-remove", "--stdin", stdin=os.fsencode(missing))
    if there:
        literal = [f":(literal){path}" for path in there]
        checkout = ("-c", "core.hooksPath=/dev/null", "checkout", "--quiet", commit, "--", *literal)
        git.run(*checkout, limit_s=_LIMIT_S)


def _bring_back(git: Repository, files: list[_DerivedFile]) -> None:
    for file in files:
        aside = file.name + _ASIDE
        if not file.folder.has(aside):
            continue
        new = _unknown_lines(os.path.join(git.folder, file.path), file) if file.is_log else []
        if new:
            fresh = _with_lines(file.folder, aside, new)
            file.folder.remove(aside)
            aside = fresh
        file.folder.rename(aside, file.name)


def _unknown_lines(path: str, file: _DerivedFile) -> list[bytes]:
    """Return the lines that only the commit's file has: neither the file put aside nor a part."""
    if not file.folder.has(file.name):
        return []
    known_ids: set[str] = set()
    for own in (*part_files(path), path + _ASIDE):
        with suppress(InvalidInput):  # markers of a conflict: then the person keeps what to keep
            known_ids |= messages_in(lines_of(own), own).keys()
    try:
        brought = messages_in(lines_of(path), path)
    except InvalidInput:
        return []
    return [line[2] for id, line in sorted(brought.items()) if id not in known_ids]


def _with_lines(folder: Folder, name: str, lines: list[bytes]) -> str:
    """Write a file with more lines beside another one, and return its name."""
    fresh = name + ".new"
    with folder.new(fresh) as file, folder.read(name) as old:
        while chunk := old.read(1024 * 1024):
            file.write(chunk)
        file.write(b"".join(line + b"\n" for line in lines))
    return fresh


# Carrying: the files of a work tree are brought from one commit to another, all or none.


class NotCarried(Refused):
    """The files can't be brought there; the error says why."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A file that differs between the commits: `A` is new, `D` goes; and what it is after them."""

    kind: str
    file: str
    blob: str


def carry(tree: str, before: str, after: str, pass_fds: Sequence[int]) -> None:
    """Bring the files of a clean work tree, and its index, from one commit to another.

    Args:
        tree: its top.
        before, after: the commits.
        pass_fds: descriptors of locks, for git to hold with us.

    Raises:
        NotCarried: they can't be brought there; what git had written by then is taken back.
    """
    git = repository_at(tree)
    changes = _changes(git, before, after)
    with derived_files_aside(git, before, [change.file for change in changes]):
        _carry(git, changes, before, after, pass_fds)


def _carry(
    git: Repository, changes: list[_Change], before: str, after: str, pass_fds: Sequence[int]
) -> None:
    tree = git.folder
    _refuse_hidden(tree, changes)
    try:
        git.run("update-index", "-q", "--refresh", limit_s=_LIMIT_S, accepted=(0, 1))
        git.run("read-tree", "-m", "-u", before, after, limit_s=_LIMIT_S, pass_fds=pass_fds)
    except GitFailed as error:
        lock = os.path.join(git_dir_of(tree), "index.lock")
        if os.path.lexists(lock):
            raise NotCarried(f"{lock} is there: a git is at work, or was killed there") from error
        with suppress(GitFailed):  # what is left then shows as not committed
            _undo(git, changes)
        raise NotCarried(getattr(error, "reason", str(error)).removeprefix("error: ")) from error


def _changes(git: Repository, before: str, after: str) -> list[_Change]:
    command = ("diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", before, after)
    fields = os.fsdecode(git.run(*command)).split("\0")
    changes = []
    for about, file in zip(fields[::2], fields[1::2], strict=False):
        *_, blob, kind = about.split(" ")
        changes.append(_Change(kind, file, blob))
    return changes


def _refuse_hidden(tree: str, changes: list[_Change]) -> None:
    """Refuse to write over files that git ignores, which git itself would do."""
    deleted = [change.file for change in changes if change.kind == "D"]
    for change in changes:
        if change.kind == "A" and os.path.lexists(os.path.join(tree, change.file)):
            if any(file.startswith(f"{change.file}/") for file in deleted):
                continue  # a folder becomes a file
            raise NotCarried(
                f"{named([change.file])} would be overwritten, and git does not have it;"
                " move it away"
            )


def _undo(git: Repository, changes: list[_Change]) -> None:
    """Undo what git had written when it failed; the index is still the old one.

    A file that is not as the commit has it may be somebody's by now, and stays.
    """
    written = _as_committed(git, [change for change in changes if change.kind != "D"])
    for change in written:
        if change.kind == "A":
            os.unlink(os.path.join(git.folder, change.file))
    back = [change.file for change in written if change.kind != "A"]
    back += [change.file for change in changes if change.kind == "D"]
    stdin = "".join(f"{file}\0" for file in back)
    git.run("checkout-index", "-f", "-q", "-z", "--stdin", stdin=os.fsencode(stdin))


def _as_committed(git: Repository, changes: list[_Change]) -> list[_Change]:
    """Return those files that are in the tree as the later commit has them."""
    paths = [os.path.join(git.folder, change.file) for change in changes]
    there = [
        change
        for change, path in zip(changes, paths, strict=True)
        if os.path.isfile(path) and not os.path.islink(path) and "\n" not in path
    ]
    stdin = "".join(f"{change.file}\n" for change in there)
    ids = git.run("hash-object", "--stdin-paths", stdin=os.fsencode(stdin)).decode().split()
    return [change for change, id in zip(there, ids, strict=True) if id == change.blob]


#: How many fields git's status has before the path, for a changed file and for one in conflict.
_FIELDS = {b"1": 8, b"u": 10}


class TargetMoved(Refused):
    """The target is elsewhere than where it was pinned; nothing was changed."""


class TargetBusy(Refused):
    """The target can't be moved at present: a work tree that has it is not clean."""


class TargetRefused(Refused):
    """A rule of the repository, or of the remote, refuses the commit; these are its words."""


@dataclass(frozen=True)
class LocalTarget:
    """A branch of this repository.

    Attributes:
        place: the repository.
        branch: its name.
        held: descriptors of locks, for git to hold with us.
    """

    place: RepositoryPlace
    branch: str
    held: Sequence[int] = ()

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return self.place.branch_ref(self.branch)

    def pin(self) -> str:
        """Return the commit of the branch.

        Raises:
            Refused: there is no such branch.
        """
        commit = self.place.git.commit(self.ref)
        if commit is None:
            raise Refused(
                f"{self.place.main} has no branch {shown(self.branch)}; make it, or name another"
                " with --into"
            )
        return commit

    def check_free(self) -> None:
        """Check that the branch could be moved now.

        Raises:
            TargetBusy: a work tree that has it checked out is not clean.
            Refused: there is no such branch.
        """
        self.pin()
        for tree in self._trees():
            self._check_tree(tree)

    def contains(self, at: str, commit: str) -> bool:
        """Return whether the target, which is at a commit, contains another one."""
        git = self.place.git
        return git.commit(commit) is not None and contains(git, at, commit)

    def move(self, candidate: str, onto: str, why: str) -> None:
        """Move the branch from one commit to another.

        Args:
            candidate: where it is to be.
            onto: where it was pinned.
            why: for the history of the ref.

        Raises:
            TargetMoved: it is elsewhere by now.
            TargetBusy: a work tree that has it checked out is not clean.
            TargetRefused: a hook refuses it.
            GitFailed: git failed; `mend` puts right what it left.
        """
        trees = self._trees()
        for tree in trees:
            self._check_tree(tree)
        done: list[str] = []
        try:
            for tree in trees:
                self._carry(tree, onto, candidate)
                done.append(tree)
            self._swap(candidate, onto, why)
        except (Refused, GitFailed):
            for tree in done:
                self._carry(tree, candidate, onto)
            raise

    def mend(self, candidate: str, onto: str) -> None:
        """Restore the files of a tree that a kill left at a candidate before the ref moved.

        Both are of a row, which may say anything: what is no commit here was never carried.
        """
        commit = self.place.git.commit(candidate)
        if commit is None or self.pin() != onto:
            return
        for tree in self._trees():
            git = repository_at(tree)
            difference = git.run("diff-index", "--cached", "--raw", commit, "--")
            if not difference and git.run("diff-index", "--cached", "--raw", onto, "--"):
                self._carry(tree, commit, onto)

    def follow(self, candidate: str) -> None:
        """Do nothing: a local branch has nothing to follow."""

    def _trees(self) -> list[str]:
        """Return the work trees that have the branch checked out."""
        place = self.place
        own = [] if place.is_bare or place.default_branch() != self.branch else [place.main]
        trees = WorkTrees(place).read()
        return [
            *own,
            *(tree.path for tree in trees if tree.branch == self.branch and tree.is_there),
        ]

    def _check_tree(self, tree: str) -> None:
        operation = operation_at(git_dir_of(tree))
        changed = [] if operation else _changed(tree)
        if changed or operation:
            dirt = (
                f"a {operation} is under way" if operation else f"not committed: {named(changed)}"
            )
            raise TargetBusy(
                f"{shown(self.branch)} is checked out at {tree}, which is not clean ({dirt});"
                " commit or stash that, or check out another branch there"
            )

    def _carry(self, tree: str, before: str, after: str) -> None:
        """Bring the files of a tree from one commit to another; changes of others are kept."""
        try:
            carry(tree, before, after, self.held)
        except NotCarried as error:
            raise TargetBusy(
                f"{shown(self.branch)} is checked out at {tree}, and can't be moved there: {error}"
            ) from error

    def _swap(self, candidate: str, onto: str, why: str) -> None:
        command = (*PATIENT, "update-ref", "-m", why, self.ref, candidate, onto)
        try:
            self.place.git.run(*command, limit_s=_LIMIT_S, pass_fds=self.held)
        except CommandFailed as error:
            now = self.place.git.commit(self.ref)
            if now == candidate:
                return
            if now != onto:
                raise TargetMoved(f"{shown(self.branch)} was moved meanwhile") from error
            if "hook" in error.reason:
                raise TargetRefused(error.reason) from error
            raise


def _changed(tree: str) -> list[str]:
    """Return the files of git that differ from the head of a work tree, staged or not.

    What a bus there keeps by itself is left out: it would keep every landing out.

    A submodule at another commit than the index has is left out: git leaves it alone, too, and
    each landing that moves one would keep the next one out.
    """
    options = ("--porcelain=v2", "-z", "--untracked-files=no", "--no-renames")
    raw = repository_at(tree).run("-c", "core.fsmonitor=false", "status", *options)
    changed = []
    for entry in raw.split(b"\0")[:-1]:
        kind, status, submodule, _ = entry.split(b" ", 3)
        file = os.fsdecode(entry.split(b" ", _FIELDS[kind])[-1])
        is_moved_submodule = submodule.startswith(b"S") and status.startswith(b".")
        if not (is_moved_submodule or is_derived(tree, file)):
            changed.append(file)
    return changed
