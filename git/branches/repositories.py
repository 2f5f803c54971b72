"""Facts about a repository and its branches: where it is, its commits, their changes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cache, cached_property

from ...schema.directory.layout import NoHome, expand_home
from ...schema.errors import InvalidInput, Refused, shown
from ..repository import UNATTENDED, CommandFailed, GitFailed, Repository, looks_bare

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
    """Return the repository of a folder; variables can't redirect it, and git asks nobody."""
    return Repository(folder, UNATTENDED | (extra or {}))


def _tree_beside(common_dir: str) -> str | None:
    """Return the folder around a repository if its `.git` is that repository, or None."""
    folder = os.path.dirname(common_dir)
    return folder if os.path.realpath(os.path.join(folder, ".git")) == common_dir else None


def _entrance(repository: Repository, folder: str, common_dir: str) -> str | None:
    """Return the work tree around a folder whose `.git` leads to a repository, or None.

    That of a linked work tree leads to its own part of the repository. Nothing is asked where the
    repository lies in its main work tree, which needs no other.
    """
    if _tree_beside(common_dir) is not None:
        return None
    try:
        git_dir = os.path.join(folder, repository.path("--absolute-git-dir"))
        tree = os.path.realpath(os.path.join(folder, repository.path("--show-toplevel")))
    except GitFailed:  # a bare one, or a folder inside of `.git`
        return None
    return tree if os.path.realpath(git_dir) == common_dir else None


@cache
def _is_well_formed(ref: str) -> bool:
    """Whether git takes the name of a ref."""
    try:
        repository_at(os.sep).run("check-ref-format", ref)
    except CommandFailed:
        return False
    return True


@dataclass(frozen=True)
class RepositoryPlace:
    """A repository with all its work trees.

    Attributes:
        common_dir: the folder that they share: `.git`, or a bare repository itself.
        is_shallow: whether commits before some are missing.
        entered_by: the work tree by which it was found whose `.git` leads straight to
            `common_dir`; None: it was found from elsewhere.
    """

    common_dir: str
    is_shallow: bool
    entered_by: str | None = field(default=None, compare=False)

    @classmethod
    def around(cls, folder: str) -> RepositoryPlace:
        """Return the repository that a folder is in, be it main, linked or bare.

        Args:
            folder: in it. A bare repository must be named: one that is found at `.` may have been
                planted by somebody else.

        Raises:
            GitFailed: git is not installed, or there is no repository.
        """
        is_named_bare = folder != os.curdir and looks_bare(folder)
        repository = repository_at(
            folder, {"GIT_DIR": os.path.realpath(folder)} if is_named_bare else None
        )
        (shallow,) = repository.describe("--is-shallow-repository")
        common_dir = os.path.join(folder, repository.path("--git-common-dir"))
        common_dir = os.path.realpath(common_dir)
        return cls(common_dir, shallow == "true", _entrance(repository, folder, common_dir))

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
        """The main work tree; of a bare repository its own folder.

        A repository apart from its work tree (`git init --separate-git-dir`) does not say where
        that is: it is known to who came by it, and else, as to git, it is the repository itself.
        """
        if self.is_bare:
            return self.common_dir
        elsewhere = self.setting("core.worktree")
        if elsewhere is not None:
            return os.path.realpath(os.path.join(self.common_dir, elsewhere))
        return _tree_beside(self.common_dir) or self.entered_by or self.common_dir

    @property
    def merge_drivers(self) -> set[str]:
        """The names of the merge drivers that git has here."""
        names = (name.rpartition(".") for name in self._settings if name.startswith("merge."))
        return {path.removeprefix("merge.") for path, _, variable in names if variable == "driver"}

    @cached_property
    def _settings(self) -> dict[str, list[str]]:
        """All settings of git here, each with its values, the last first."""
        values_of: dict[str, list[str]] = {}
        for entry in os.fsdecode(self.git.run("config", "--null", "--list")).split("\0"):
            name, _, value = entry.partition("\n")
            values_of.setdefault(name, []).insert(0, value)
        return values_of

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
            return expand_home(value) if value else None
        except NoHome:  # git finds no file there either
            return None

    def commit(self, name: str) -> str:
        """Return the id of a commit.

        Raises:
            Refused: there is no such commit, or none at all yet.
        """
        id = None if name.startswith("-") or "\0" in name else self.git.commit(name)
        if id is not None:
            return id
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
        """Whether git may run such a hook; any setting about hooks counts as one."""
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


# Changes of a branch, as text for people and as counts.

#: No program of a user's settings has a part in it, and no colour.
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one file.

    Attributes:
        file: its name, the new one where it was renamed.
        added, removed: how many lines; None for a file that is no text.
    """

    file: str
    added: int | None
    removed: int | None

    @property
    def readable(self) -> str:
        """The name, with a mark for each byte that is no text."""
        return os.fsencode(self.file).decode("utf-8", "replace")


def start_of(git: Repository, target: str, head: str) -> str | None:
    """Return the commit at which a branch last had all of its target, or None."""
    try:
        answer = git.run("merge-base", f"refs/heads/{target}", head)
    except CommandFailed:  # no such branch, or no common beginning
        return None
    return answer.decode().strip()


def text_of(git: Repository, start: str, head: str) -> str:
    """Return the difference between two commits, as a patch."""
    return os.fsdecode(git.run("diff", *_PLAIN, start, head, "--"))


def counts_of(git: Repository, start: str, head: str) -> list[FileChange]:
    """Return the files that differ between two commits, with the counts of their lines."""
    raw = git.run("diff", *_PLAIN, "--numstat", "-z", start, head, "--")
    fields = iter(raw.split(b"\0")[:-1])
    changes = []
    for counts in fields:
        added, removed, name = counts.split(b"\t", 2)
        if not name:  # renamed: the old name and the new one follow
            next(fields)
            name = next(fields)
        changes.append(FileChange(os.fsdecode(name), _count(added), _count(removed)))
    return changes


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)


# Lines of files at a commit, and the places of these lines at a later one.

#: The place of a changed part: the first line and the count, before and after.
_PART = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LinePlace:
    """The place of a line.

    Attributes:
        file: the path from the root of the repository.
        line: the number, from 1.
    """

    file: str
    line: int


def line_at(repository: Repository, commit: str, place: LinePlace) -> str | None:
    """Return the text of a line at a commit; None where there is no such file or line."""
    try:
        content = repository.run("cat-file", "blob", f"{commit}:{place.file}")
    except (CommandFailed, ValueError):  # a name with a NUL is none
        return None
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not 1 <= place.line <= len(lines):
        return None
    return lines[place.line - 1].decode("utf-8", "replace").rstrip("\r")


def place_now(
    repository: Repository, before: str, after: str, place: LinePlace
) -> LinePlace | None:
    """Return where a line of one commit is at a later one; None where the line was changed.

    A renamed file is followed, as far as git takes it for one.

    Raises:
        CommandFailed: a commit is missing.
    """
    options = ("--raw", "-r", "-z", "-M", "--no-abbrev", "--ignore-submodules=none")
    words = iter(repository.run("diff-tree", *options, before, after).split(b"\0"))
    wanted_file = place.file.encode("utf-8", "surrogateescape")
    for change in words:
        if not change:
            break
        *_, old, new, kind = change.split()
        file = target = next(words)
        if kind[:1] in (b"R", b"C"):
            target = next(words)
        if file == wanted_file and kind[:1] != b"C":
            if kind[:1] == b"D":
                return None
            line = _line_now(repository, old.decode(), new.decode(), place.line)
            name = target.decode("utf-8", "surrogateescape")
            return None if line is None else LinePlace(name, line)
    return place


def _line_now(repository: Repository, old: str, new: str, line: int) -> int | None:
    if old == new:
        return line
    options = ("--unified=0", "--inter-hunk-context=0", "--text")
    plain = ("--no-color", "--no-ext-diff", "--no-textconv")
    moved = 0
    for part in _PART.finditer(repository.run("diff", *options, *plain, old, new)):
        start, count, _, added = (1 if part[n] is None else int(part[n]) for n in (1, 2, 3, 4))
        first = start if count else start + 1  # what is only added stands behind this line
        if line < first:
            break
        if line < first + count:
            return None
        moved += added - count
    return line + moved
