"""Merging by the attributes that `git merge` would have in a checkout of the target."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ..repository import CommandFailed, GitFailed, OutOfTime
from .forecast import CRASHES, UNRELATED, all_attribute_files, plain_name, with_attributes
from .repositories import repository_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ..repository import Repository

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
