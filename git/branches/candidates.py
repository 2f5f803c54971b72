"""Candidates: the commits that a target branch would move to, made without a work tree.

No hook runs here, and nothing refers to a candidate yet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...schema.errors import Refused
from ..repository import CommandFailed, GitFailed, OutOfTime
from .forecast import CRASHES, UNRELATED, plain_name
from .patches import contains
from .repositories import NOBODY, NOBODY_EVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ..repository import Repository
    from .repositories import Place

    #: How a head becomes a candidate: a merge commit, its commits one by one, or as it is.
    Strategy = Literal["merge", "cherry-pick", "ff"]

STRATEGIES: tuple[Strategy, ...] = ("merge", "cherry-pick", "ff")

#: How long git may take to sign a commit, in seconds.
_SIGNING_S = 30.0

#: The last words of git about a commit that it could not sign.
_NOT_WRITTEN = "fatal: failed to write commit object"

#: How much of a signer's words is told, in characters.
_SIGNER_CHARS = 500

#: How long git, with the merge drivers of the repository, may take to merge, in seconds.
_MERGING_S = 300.0

#: Nobody is asked for the passphrase of a key.
_NO_PROMPT: dict[str, str | None] = dict.fromkeys(
    ("DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY", "SSH_ASKPASS")
)


class NotSigned(GitFailed):
    """A commit is to be signed here, and the signer fails, or does not end; its words are told."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit that contains a head, or its changes, and the commit that it was made onto.

    Attributes:
        commit: its id; of what has nothing new, the commit that it was made onto.
        tree: the id of its files.
        onto: the commit that it was made onto.
    """

    commit: str
    tree: str
    onto: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reason why there is no candidate.

    Attributes:
        files: those that conflict; none where something else is in the way.
        reason: what is in the way, in words.
        is_conflict: whether another target could take the head.
    """

    files: tuple[str, ...]
    reason: str
    is_conflict: bool = False


class Candidates:
    """Makes the candidates of a repository.

    Args:
        place: the repository.
        extra: variables of git, such as of a folder for objects.
        looking: its sealed view, where candidates are made only to see: by nobody, and unsigned.

    Attributes:
        git: git with those variables.

    Raises:
        Refused: git does not know who commits here.
    """

    def __init__(
        self,
        place: Place,
        extra: dict[str, str | None] | None = None,
        *,
        looking: Repository | None = None,
    ) -> None:
        self._signs = False
        self._place = place
        if looking is not None:
            self.git = looking.with_variables({**NOBODY, **(extra or {})})
            return
        self.git = place.git.with_variables(extra or {})
        try:
            self.git.run("var", "GIT_COMMITTER_IDENT")
        except CommandFailed as error:
            raise Refused(
                f"git does not know who commits in {place.main}; tell it with 'git config user.name"
                " NAME' and 'git config user.email ADDRESS'"
            ) from error
        self._signs = self._is_to_sign()

    def make(self, head: str, onto: str, strategy: Strategy, words: str) -> Candidate | Conflict:
        """Return the candidate of a head.

        Args:
            head, onto: whole ids of commits that are there.
            strategy: how.
            words: the message of a merge commit.

        Raises:
            NotSigned: it is to be signed, and can't be without a question to anybody.
            GitFailed: git failed, or an object is missing.
        """
        if contains(self.git, onto, head):
            return Candidate(onto, self._tree(onto), onto)
        if strategy == "ff":
            if not contains(self.git, head, onto):
                return Conflict(
                    (), "it is no fast-forward: rebase it onto the target", is_conflict=True
                )
            return Candidate(head, self._tree(head), onto)
        if strategy == "cherry-pick":
            return self._pick_all(head, onto)
        tree = self._merged(onto, head)
        if isinstance(tree, Conflict):
            return tree
        author = self._author(head)
        return Candidate(self._commit(tree, (onto, head), words.encode(), author), tree, onto)

    def _pick_all(self, head: str, onto: str) -> Candidate | Conflict:
        answer = self.git.run(
            "rev-list", "--reverse", "--topo-order", "--parents", head, f"^{onto}"
        )
        tip, tree = onto, self._tree(onto)
        for line in answer.decode().splitlines():
            commit, *parents = line.split()
            if len(parents) != 1:
                return Conflict(
                    (), f"{commit[:12]} is no commit with one parent, and can't be picked"
                )
            files = self._picked(commit, parents[0], tree)
            if isinstance(files, Conflict):
                return files
            if files != tree:
                words = self.git.run("log", "-1", "--no-show-signature", "--format=%B", commit)
                tip = self._commit(files, (tip,), words[:-1], self._author(commit))
                tree = files
        return Candidate(tip, tree, onto)

    def _picked(self, commit: str, parent: str, tree: str) -> str | Conflict:
        """Return the files of a tree with the change of a commit."""
        aside = self.git.with_variables(NOBODY_EVER)
        base = aside.run("commit-tree", tree, "-p", parent, "-m", "onto").decode().strip()
        return self._merged(base, commit)

    def _merged(self, ours: str, theirs: str) -> str | Conflict:
        """Return the files of a merge."""
        options = ("--write-tree", "-z", "--name-only", "--no-messages")
        try:
            said = self.git.run(
                "merge-tree", *options, ours, theirs, accepted=(0, 1), limit_s=_MERGING_S
            )
        except OutOfTime as error:  # a merge driver of the repository
            return Conflict((), str(error))
        except CommandFailed as error:
            if error.reason == UNRELATED:
                return Conflict((), "it has no commit in common with the target")
            if error.code in CRASHES:
                return Conflict((), "git fails at its renamed folders")
            if "unknown option" in error.reason or "usage:" in error.reason:
                raise GitFailed("merging needs git 2.38 or later: update git") from error
            raise
        tree, *names = said.split(b"\0")[:-1]
        if not names:
            return tree.decode()
        pair = (ours, theirs)
        files = {plain_name(os.fsdecode(name), pair) for name in names}
        return Conflict(tuple(sorted(files)), "it conflicts with the target", is_conflict=True)

    def _commit(
        self, tree: str, parents: tuple[str, ...], words: bytes, author: dict[str, str | None]
    ) -> str:
        git = self.git.with_variables({**_NO_PROMPT, **author})
        options = [word for parent in parents for word in ("-p", parent)]
        line = ("commit-tree", tree, *options, "-F", "-")
        if self._signs:
            try:
                made = git.run(*line, "-S", stdin=words, limit_s=_SIGNING_S)
            except OutOfTime as error:
                raise NotSigned(f"the signer has not ended within {_SIGNING_S:g} s") from error
            except CommandFailed as error:
                git.run(*line, "--no-gpg-sign", stdin=words)  # else it is not the signer's failure
                raise NotSigned(f"it can't be signed: {_words_of(error)}") from error
        else:
            made = git.run(*line, "--no-gpg-sign", stdin=words)
        return made.decode().strip()

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
            told = self.git.run("config", "--type=bool", "--get", "commit.gpgSign")
        except CommandFailed:  # not set
            return False
        return told.strip() == b"true"


def _words_of(error: CommandFailed) -> str:
    """Return what a signer said, without what git adds at its end."""
    lines = error.said.decode("utf-8", "replace").splitlines()
    said = [line.strip() for line in lines if line.strip() and line != _NOT_WRITTEN]
    return "; ".join(said)[:_SIGNER_CHARS] or error.reason
