"""The target branch of a remote: a plain push is the compare-and-swap, and is never forced."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...schema.errors import Refused, shown
from ..branches.patches import contains
from ..repository import CommandFailed, GitFailed
from ..trees.tree_names import safe_name
from .refs import LocalTarget, TargetBusy, TargetMoved, TargetRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: Where the commit that the remote's branch is at is kept.
_PINNED = "refs/ackbus/remote"

#: How long a fetch, and a push with its hooks, may take, in seconds.
LIMIT_S = 300.0

#: Reasons by which git says that the branch of the remote is elsewhere.
_MOVED = re.compile(
    r"fetch first|non-fast-forward|stale info|needs force|cannot lock ref|failed to update ref"
    r"|incorrect old value|failed to lock|reference already exists|but expected"
)

#: Lines of a failed push that are no reason.
_NO_REASON = re.compile(r"error: failed to push some refs|^hint: |^To |^Done$|^$")


class RemoteUnreachable(GitFailed):
    """The remote did not answer, or not in time; it may later."""


@dataclass(frozen=True)
class RemoteTarget(LocalTarget):
    """A branch of a remote, which the local branch of the same name follows.

    Attributes:
        remote: its name, or its address.
        limit_s: how long a fetch or a push may take.
    """

    remote: str = "origin"
    limit_s: float = LIMIT_S

    def pin(self) -> str:
        """Fetch, and return the commit that it is at.

        Raises:
            Refused: the remote has no such branch.
            RemoteUnreachable: it does not answer.
        """
        pinned = f"{_PINNED}/{safe_name(self.remote)}/{safe_name(self.branch)}"
        spec = f"+{self.ref}:{pinned}"
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")
        try:
            command = ("fetch", *options, "--", self.remote, spec)
            self.place.outward.run(*command, limit_s=self.limit_s, kept=self.held)
        except CommandFailed as error:
            if "couldn't find remote ref" in error.reason:
                raise Refused(
                    f"{self.remote} has no branch {shown(self.branch)}; push it there first"
                ) from error
            raise RemoteUnreachable(f"{self.remote} can't be fetched: {error.reason}") from error
        except GitFailed as error:
            raise RemoteUnreachable(str(error)) from error
        found = self.place.git.commit(pinned)
        assert found is not None, pinned
        return found

    def move(self, candidate: str, onto: str, why: str) -> None:
        """Push the candidate, and let the local branch follow where it can.

        Raises:
            TargetMoved: the remote's branch is elsewhere by now.
            TargetRefused: a rule of the remote, or a hook here, refuses it.
            RemoteUnreachable: it does not answer; nobody knows whether it has the commit.
        """
        options = ("--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--no-progress")
        push = ("push", *options, "--", self.remote, f"{candidate}:{self.ref}")
        try:
            self.place.outward.run(*push, limit_s=self.limit_s, kept=self.held)
        except GitFailed as error:
            if (now := self.pin()) != candidate:  # only the remote knows what became of it
                self._explain(error, now, onto)
        self._follow(candidate, why)

    def _explain(self, error: GitFailed, now: str, onto: str) -> NoReturn:
        """Raise what a push that failed means."""
        if not isinstance(error, CommandFailed):
            raise TargetRefused(str(error)) from error
        lines = error.out.decode("utf-8", "replace").splitlines()
        told = [line.split("\t")[-1] for line in lines if line.startswith("!")]
        if now != onto or any(_MOVED.search(line) for line in told):
            raise TargetMoved(
                f"{shown(self.branch)} of {self.remote} was moved meanwhile"
            ) from error
        if not told and error.code == 128:
            raise RemoteUnreachable(f"{self.remote} can't be reached: {error.reason}") from error
        words = [
            line.removeprefix("remote: ").strip()
            for line in error.said.decode("utf-8", "replace").splitlines()
            if not _NO_REASON.search(line)
        ]
        raise TargetRefused("; ".join([*told, *words][:4]) or error.reason) from error

    def _follow(self, candidate: str, why: str) -> None:
        """Move the local branch too, unless it has commits of its own, or its tree is not clean."""
        local = LocalTarget(self.place, self.branch, self.held)
        at = self.place.git.commit(self.ref)
        if at is None:
            return
        try:
            if at != candidate and contains(self.place.git, candidate, at):
                local.move(candidate, at, why)
        except (TargetBusy, TargetMoved, TargetRefused):
            return  # it follows at the next push or pull: what landed has landed

    def follow(self, candidate: str) -> None:
        """Move the local branch too, where a kill came between the push and that."""
        self.mend(candidate, candidate)
        self._follow(candidate, "bus integrate: follow the remote")

    def check_free(self) -> None:
        """Check nothing: only the local branch could be in the way, and need not follow."""

    def mend(self, candidate: str, onto: str) -> None:
        """Take the files of a tree back that a kill left while the local branch followed."""
        at = self.place.git.commit(self.ref)
        if at is not None:
            LocalTarget(self.place, self.branch, self.held).mend(candidate, at)
