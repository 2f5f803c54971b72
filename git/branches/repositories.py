"""Facts about a repository: where it is, what kind it is, which commit a name means."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property

from ...schema.directory.layout import NoHome, expanded
from ...schema.errors import InvalidInput, Refused, shown
from ..repository import CommandFailed, Repository, looks_bare

#: Variables that tie git to one repository or index: set in hooks, and of no use to us.
OF_ONE_PLACE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_INDEX_VERSION"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_CEILING_DIRECTORIES", "GIT_LITERAL_PATHSPECS", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
)

#: No question is put to a person: nobody may be there.
ALONE: dict[str, str | None] = {
    **dict.fromkeys(OF_ONE_PLACE),
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
}

#: The author and committer of commits that no person makes.
NOBODY: dict[str, str | None] = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ackbus"), ("EMAIL", "ackbus@localhost"))
}

#: The same, and the time of commits that must be the same whenever they are made.
NOBODY_EVER: dict[str, str | None] = {
    **NOBODY,
    **{f"GIT_{who}_DATE": "@0 +0000" for who in ("AUTHOR", "COMMITTER")},
}

#: The old value, for update-ref, of a ref that is not there.
NOTHING = ""


def repository_at(folder: str, extra: dict[str, str | None] | None = None) -> Repository:
    """Return the repository of a folder, where no variable names another and nobody is asked."""
    return Repository(folder, ALONE | (extra or {}))


@cache
def _is_well_formed(ref: str) -> bool:
    """Whether git takes the name of a ref."""
    try:
        repository_at(os.sep).run("check-ref-format", ref)
    except CommandFailed:
        return False
    return True


@dataclass(frozen=True)
class Place:
    """A repository with all its work trees.

    Attributes:
        common_dir: the folder that they share: `.git`, or a bare repository itself.
        is_shallow: whether commits before some are missing.
    """

    common_dir: str
    is_shallow: bool

    @classmethod
    def around(cls, folder: str) -> Place:
        """Return the repository that a folder is in, be it main, linked or bare.

        Args:
            folder: in it; a bare one must be named: in the working directory, `.`, it may be a
                part of what somebody else has made.

        Raises:
            GitFailed: git is not installed, or there is no repository.
        """
        is_named_bare = folder != os.curdir and looks_bare(folder)
        repository = repository_at(
            folder, {"GIT_DIR": os.path.realpath(folder)} if is_named_bare else None
        )
        (shallow,) = repository.describe("--is-shallow-repository")
        common_dir = os.path.join(folder, repository.path("--git-common-dir"))
        return cls(os.path.realpath(common_dir), shallow == "true")

    @cached_property
    def git(self) -> Repository:
        """Git, run in the folder that all work trees share."""
        return repository_at(self.common_dir, {"GIT_DIR": self.common_dir})

    @cached_property
    def outward(self) -> Repository:
        """Git for fetch and push, run where a remote's relative address begins."""
        has_tree = os.path.lexists(os.path.join(self.main, ".git"))
        return repository_at(self.main) if has_tree else self.git

    @property
    def is_bare(self) -> bool:
        """Whether it has no main work tree."""
        return (self.text("core.bare") or "").lower() in ("true", "yes", "on", "1")

    @property
    def main(self) -> str:
        """The main work tree; of a bare repository its own folder."""
        if self.is_bare:
            return self.common_dir
        elsewhere = self.setting("core.worktree")
        if elsewhere is not None:
            return os.path.realpath(os.path.join(self.common_dir, elsewhere))
        return os.path.dirname(self.common_dir)

    @property
    def merge_drivers(self) -> set[str]:
        """The names of the merge drivers that git has here."""
        names = (name.rpartition(".") for name in self._settings if name.startswith("merge."))
        return {path.removeprefix("merge.") for path, _, variable in names if variable == "driver"}

    @cached_property
    def _settings(self) -> dict[str, list[str]]:
        """All settings of git here, each with its values, the last first."""
        found: dict[str, list[str]] = {}
        for entry in os.fsdecode(self.git.run("config", "--null", "--list")).split("\0"):
            name, _, value = entry.partition("\n")
            found.setdefault(name, []).insert(0, value)
        return found

    def texts(self, name: str) -> list[str]:
        """Return all values of a setting of git, the last first."""
        section, _, rest = name.partition(".")
        within, dot, variable = rest.rpartition(".")
        return self._settings.get(f"{section.lower()}.{within}{dot}{variable.lower()}", [])

    def text(self, name: str) -> str | None:
        """Return the value of a setting of git, or None where it is not set."""
        return next(iter(self.texts(name)), None)

    def setting(self, name: str) -> str | None:
        """Return a setting of git that is a path, or None where it is not set."""
        value = self.text(name)
        try:
            return expanded(value) if value else None
        except NoHome:  # git finds no file there either
            return None

    def commit(self, name: str) -> str:
        """Return the id of a commit.

        Raises:
            Refused: there is no such commit, or none at all yet.
        """
        found = None if name.startswith("-") or "\0" in name else self.git.commit(name)
        if found is not None:
            return found
        if name == "HEAD":
            raise Refused(f"{self.main} has no commit at HEAD yet; make a first commit there")
        also = ", or a commit that a shallow clone left out" if self.is_shallow else ""
        raise Refused(f"{shown(name)} is no commit of {self.main}{also}; fetch it, or name another")

    def branch_ref(self, branch: str) -> str:
        """Return the full name of a branch.

        Raises:
            InvalidInput: git takes no branch of such a name.
        """
        ref = f"refs/heads/{branch}"
        is_plain = "\0" not in branch and not branch.startswith("-") and branch not in ("HEAD", "@")
        is_plain = is_plain and not branch.startswith("refs/")  # it would be refs/heads/refs/...
        if not is_plain or not _is_well_formed(ref):
            raise InvalidInput(f"{shown(branch)} can be no name of a branch")
        return ref

    def has_hook(self, name: str) -> bool:
        """Whether there may be such a hook; where settings of git say more of hooks, it may."""
        if any(key == "core.hookspath" or key.startswith("hook.") for key in self._settings):
            return True
        return os.path.lexists(os.path.join(self.common_dir, "hooks", name))

    def default_branch(self) -> str | None:
        """Return the branch of the main work tree, or None where it is on none."""
        try:
            answer = self.git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        except CommandFailed:
            return None
        return os.fsdecode(answer).removesuffix("\n")
