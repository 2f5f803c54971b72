"""A git repository, as far as reservations need it: its root, its hooks, and which files changed.

Only git's plumbing is asked, with fixed arguments: no setting of a user changes what it prints.
"""

from __future__ import annotations

import os
import re
import subprocess

from ..schema import AckbusError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What `--raw` shows of a change; a rename is shown as what went and what came.
_RAW = ("--raw", "-z", "--no-renames")

#: The modes of a submodule, and of what is not there.
_NO_FILES = {b"160000", b"000000"}

#: A line that git gives a pre-push hook: local ref, local id, remote ref, remote id.
_PUSHED = re.compile(rb"[^ ]+ ([0-9a-f]{40,64}) [^ ]+ ([0-9a-f]{40,64})")


class GitUnusable(AckbusError):
    """There is no git repository here, or none in which files are edited, or git is missing."""


class GitRepository:
    """A repository with a work tree. Make one with `GitRepository.find`.

    Attributes:
        root: the top of the work tree.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def find(cls) -> GitRepository:
        """Return the repository around the working directory.

        Raises:
            GitUnusable: there is none, or it is bare, or this is inside of its `.git`.
        """
        here = os.getcwd()
        questions = ("--is-bare-repository", "--is-inside-work-tree", "--show-toplevel")
        done = _run(["rev-parse", *questions], here)
        bare, inside, *root = os.fsdecode(done.stdout).splitlines() or ["", ""]
        if bare == "true":
            raise GitUnusable(f"{here} is a bare repository: no files are edited in it")
        if not bare:
            raise GitUnusable(f"{here} is in no git repository; run this in one")
        if inside != "true" or not root:
            raise GitUnusable(f"{here} is not in the work tree of its git repository")
        return cls("\n".join(root))

    @property
    def main_root(self) -> str:
        """The folder that holds the `.git` which this work tree shares with others."""
        return os.path.dirname(self._path("--git-common-dir"))

    @property
    def hooks(self) -> str:
        """The folder where git looks for hooks: `core.hooksPath`, or else that of the repository.

        Linked work trees share it.
        """
        return self._path("--git-path", "hooks")

    def staged(self) -> list[str]:
        """Return the files that the next commit would change: new, changed, gone, both of a rename.

        Where it concludes a merge, only those that it would have otherwise than every parent: what
        the other side had changed is no edit of ours. Submodules are left out.
        """
        changed = self._staged_since(self._commit("HEAD") or self._empty_tree())
        merged = self._commit("MERGE_HEAD")
        if merged is None:
            return changed
        since_merged = set(self._staged_since(merged))
        return [file for file in changed if file in since_merged]

    def pushed(self, remote: str, refs: bytes) -> list[str]:
        """Return the files that the commits of a push changed which the remote does not have yet.

        Args:
            remote: the first argument of a pre-push hook, the name or the address of the remote.
            refs: what git gives the hook to read.

        Raises:
            InvalidInput: that is nothing that git would write.
        """
        changed: dict[str, None] = {}
        for line in refs.splitlines():
            match = _PUSHED.fullmatch(line)
            if match is None:
                raise InvalidInput(f"{line!a} is no line that git gives to a pre-push hook")
            local, theirs = (part.decode() for part in match.groups())
            if local.strip("0"):  # all zeros: the remote's branch is to be deleted
                known = [f"^{theirs}"] if self._commit(theirs) else []
                wanted = [local, *known, "--not", f"--remotes={remote}", "--"]
                commits = self._git("rev-list", *wanted)
                trees = ("diff-tree", "--stdin", "--root", "--no-commit-id", "-r", "-c", *_RAW)
                changed |= dict.fromkeys(_files(self._git(*trees, stdin=commits)))
        return list(changed)

    def _staged_since(self, tree: str) -> list[str]:
        return list(_files(self._git("diff-index", "--cached", *_RAW, tree, "--")))

    def _commit(self, name: str) -> str | None:
        """Return the id of a commit, or None when there is none of this name."""
        done = _run(["rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"], self.root)
        return done.stdout.decode().strip() or None if done.returncode == 0 else None

    def _empty_tree(self) -> str:
        """Return the id of the tree without files: what the first commit is compared with."""
        return self._git("hash-object", "-t", "tree", "--stdin").decode().strip()

    def _path(self, *question: str) -> str:
        answer = os.fsdecode(self._git("rev-parse", *question)).removesuffix("\n")
        return os.path.normpath(os.path.join(self.root, answer))

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = _run(arguments, self.root, stdin)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
            raise GitUnusable(f"git {arguments[0]} failed in {self.root}: {said[-1]}")
        return done.stdout


def _run(
    arguments: list[str] | tuple[str, ...], folder: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=folder,
            input=stdin,
            capture_output=True,
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError as error:
        raise GitUnusable("git is not installed, or not on the PATH") from error


def _files(raw: bytes) -> Iterator[str]:
    """Yield the files of raw changes: `:mode mode id id letter`, NUL, path, NUL.

    A merge has a colon and a mode for each parent.
    """
    fields = iter(raw.split(b"\0"))
    for head in fields:
        parents = len(head) - len(head.lstrip(b":"))
        if parents:
            path = next(fields)
            if not _NO_FILES.issuperset(head[parents:].split(b" ")[: parents + 1]):
                yield os.fsdecode(path)
