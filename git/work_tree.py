"""A work tree, as the guard needs it: its root, its repository, and the changed files.

Only git's plumbing commands are used.
"""

from __future__ import annotations

import os
import re

from ..schema.bounded_read import read_at_most
from ..schema.directory.layout import BUS_DIRECTORY
from ..schema.errors import InvalidInput, Refused
from .repository import CommandFailed, GitFailed, Repository, is_plain_file, looks_bare, read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The repository's own list of what git ignores, `info/exclude`: it is no part of any commit.
#
# A checkout of a commit from before the bus was shared takes its `.gitignore` away. What lives in
# the bus directory must be ignored there too, or the next `git clean` deletes it.

#: The characters that git would take for a pattern's.
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")


class ExcludeFile:
    """The line of a bus directory in the list of its repository.

    Args:
        tree: the work tree.
        directory: the bus directory, in it.
    """

    def __init__(self, tree: WorkTree, directory: str) -> None:
        self.path = tree.exclude_file
        inside = os.path.relpath(os.path.realpath(directory), tree.root)
        #: The line; None for a directory that has files of the project too, or no line can name.
        self.line: str | None = None
        if os.path.basename(directory) == BUS_DIRECTORY and "\n" not in inside:
            escaped = _SPECIAL.sub(r"\\\1", inside)
            self.line = f"/{escaped}/*"

    def lacking(self) -> list[str]:
        """Return the line where it is missing."""
        return [] if self.line is None or self.line in self._lines() else [self.line]

    def add(self) -> None:
        """Add the line where it is missing; a link or a pipe at its place is left alone."""
        if self.lacking() and (is_plain_file(self.path) or not os.path.lexists(self.path)):
            self._write([*self._lines(), *self.lacking()])

    def remove(self) -> list[str]:
        """Take the line out; return it where it was there."""
        lines = self._lines()
        if self.line is None or self.line not in lines:
            return []
        self._write([line for line in lines if line != self.line])
        return [self.line]

    def _lines(self) -> list[str]:
        if not is_plain_file(self.path):
            return []
        with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
            return read_at_most(file, self.path).splitlines()

    def _write(self, lines: list[str]) -> None:
        from ..schema.directory.enclosure import Enclosure  # the hook of commits needs none

        text = "".join(f"{line}\n" for line in lines)
        own = Enclosure(os.path.dirname(os.path.dirname(self.path)))  # no link in it leads out
        with own.spot(self.path, make=0o777) as spot:
            spot.replace(text.encode("utf-8", "surrogateescape"), mode=0o644)


#: Options that list the changed paths; a rename is listed as a removal and an addition.
_RAW = ("--raw", "-z", "--no-renames")

#: The modes of a submodule, and of what is not there.
_NO_FILES = {b"160000", b"000000"}

#: A line that git gives a pre-push hook: local ref, local id, remote ref, remote id. The local
#: one is what the user wrote, which may have spaces (`:/some words`).
_PUSHED = re.compile(rb".* ([0-9a-f]{40,64}) [^ ]+ ([0-9a-f]{40,64})")


_BARE = "in a bare repository, which has no files"
_NOT_OF_A_TREE = "not in the work tree of its git repository"


class WorkTree:
    """The work tree of a repository. Make one with `WorkTree.around`.

    Attributes:
        root: its top.
    """

    def __init__(self, root: str, merge_head: str) -> None:
        self.root = root
        #: The file with the other parents of a merge that is under way.
        self._merge_head = merge_head
        self._repository = Repository(root)

    @classmethod
    def around(cls, folder: str) -> WorkTree:
        """Return the work tree that a folder is in.

        Raises:
            GitFailed: git is not installed, there is no repository, it is bare, or the folder is
                inside of its `.git`.
        """
        if looks_bare(folder):  # which git would not take without its name
            is_git_dir = os.path.basename(os.path.realpath(folder)) == ".git"
            raise GitFailed(f"{folder} is {_NOT_OF_A_TREE if is_git_dir else _BARE}")
        questions = ("--is-bare-repository", "--is-inside-work-tree", "--show-cdup")
        path = ("--git-path", "MERGE_HEAD")  # in the same process: each commit waits for it
        bare, inside, up, *merge_head = Repository(folder).describe(*questions, *path)
        if bare == "true":
            raise GitFailed(f"{folder} is {_BARE}")
        if inside != "true":
            raise GitFailed(f"{folder} is {_NOT_OF_A_TREE}")
        return cls(
            os.path.realpath(os.path.join(folder, up)), os.path.join(folder, "\n".join(merge_head))
        )

    @property
    def common_dir(self) -> str:
        """The folder of git's that all work trees of the repository share."""
        return self._path("--git-common-dir")

    @property
    def main_root(self) -> str:
        """The folder that holds the `.git` which this work tree shares with others."""
        return os.path.dirname(self.common_dir)

    @property
    def exclude_file(self) -> str:
        """The repository's own list of what git ignores; it need not be there."""
        return self._path("--git-path", "info/exclude")

    def refuse_led_away(self) -> None:
        """Refuse to change settings that are not this repository's.

        An unpacked archive may bring a link for git's `config`, through which git writes, and a
        `.git` that names the repository of another folder.

        Raises:
            Refused: they are not.
        """
        from ..schema.directory.enclosure import Enclosure  # the hook of commits needs none

        common_dir, link = self.common_dir, os.path.join(self.root, ".git")
        config = os.path.join(common_dir, "config")
        with Enclosure(common_dir).spot(config) as spot:
            if spot.folder is not None:
                spot.look()
        if not os.path.lexists(link):  # a setting says where the files are
            return
        admin, own = self._path("--absolute-git-dir"), os.path.realpath(common_dir)
        if os.path.realpath(admin) == own:
            is_of_another = os.path.basename(own) == ".git" and os.path.dirname(own) != self.root
        else:
            is_of_another = not _is_tree_of(admin, link)
        if is_of_another:
            raise Refused(
                f"{link} leads to {own}, which does not know this folder: change settings there, or"
                " run 'git worktree repair' if the folder has moved"
            )

    def staged(self) -> list[str]:
        """Return the files that the next commit would change, both names of a rename included.

        If it concludes a merge, only those that would differ from every parent: changes of the
        other side are no edits of ours. Submodules are left out.
        """
        try:
            changed = self._staged_since("HEAD")
        except CommandFailed:
            if self._repository.commit("HEAD") is not None:
                raise
            changed = self._staged_since(self._empty_tree())  # there is no commit
        for merged in self._merged():
            since_merged = set(self._staged_since(merged))
            changed = [file for file in changed if file in since_merged]
        return changed

    def pushed(self, refs: bytes) -> dict[str, int]:
        """Return the files that a push changes, and the end of the second of the latest change.

        That is in epoch milliseconds. Commits that some remote has are left out, as far as this
        repository knows. Only the pusher's own line is followed, the first parents: merged
        commits are of others, and of the merge itself, differences from every parent count.

        Args:
            refs: what git gives a pre-push hook to read.

        Raises:
            InvalidInput: git would not write such a text.
        """
        changed: dict[str, int] = {}
        for line in filter(None, refs.split(b"\n")):
            match = _PUSHED.fullmatch(line)
            if match is None:
                raise InvalidInput(f"{line!a} is not a line that git gives to a pre-push hook")
            local, theirs = (part.decode() for part in match.groups())
            if local.strip("0"):  # all zeros: the remote's branch is to be deleted
                for file, ms in self._changed_by_push(local, theirs):
                    changed[file] = max(ms, changed.get(file, ms))
        return changed

    def _changed_by_push(self, local: str, theirs: str) -> Iterator[tuple[str, int]]:
        """Yield each change by a commit up to `local` that no remote has yet, and when it was."""
        others = ("--ignore-missing", f"^{theirs}", "--not", "--remotes")  # it may be unknown here
        only = ("--first-parent", "--timestamp", local, *others, "--")
        commits = [line.split() for line in self._repository.run("rev-list", *only).splitlines()]
        ends_ms = {commit: int(second) * 1000 + 999 for second, commit in commits}
        changes = ("diff-tree", "--stdin", "--root", "-r", "-c", *_RAW)
        raw = self._repository.run(*changes, stdin=b"".join(b"%s\n" % id for id in ends_ms))
        for commit, file in _changes(raw):
            yield file, ends_ms[commit]

    def _merged(self) -> list[str]:
        """Return the other parents of the merge that is under way; several for an octopus."""
        try:
            return read_small(self._merge_head).split()
        except FileNotFoundError:
            return []

    def _staged_since(self, tree: str) -> list[str]:
        # Git reads what is ignored even so, and a setting may name a pipe for it.
        ignored = ("-c", f"core.excludesFile={os.devnull}")
        raw = self._repository.run(*ignored, "diff-index", "--cached", *_RAW, tree, "--")
        return [file for _, file in _changes(raw)]

    def _empty_tree(self) -> str:
        """Return the id of the tree without files: what the first commit is compared with."""
        return self._repository.run("hash-object", "-t", "tree", "--stdin").decode().strip()

    def _path(self, *question: str) -> str:
        answer = os.fsdecode(self._repository.run("rev-parse", *question)).removesuffix("\n")
        return os.path.normpath(os.path.join(self.root, answer))


def _is_tree_of(admin: str, link: str) -> bool:
    """Whether git's folder of a work tree names the `.git` that leads to it."""
    try:
        tree_link = read_small(os.path.join(admin, "gitdir")).removesuffix("\n")
    except FileNotFoundError:
        return False
    return os.path.realpath(os.path.join(admin, tree_link)) == os.path.realpath(link)


def _changes(raw: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the commit and the file of raw changes: `:mode mode id id letter`, NUL, path, NUL.

    The id of a commit stands before its changes. A merge has a colon and a mode for each parent.
    """
    commit = b""
    fields = iter(raw.split(b"\0"))
    for head in fields:
        parents = len(head) - len(head.lstrip(b":"))
        if not parents:
            commit = head
            continue
        path = next(fields)
        if not _NO_FILES.issuperset(head[parents:].split(b" ")[: parents + 1]):
            yield commit, os.fsdecode(path)
