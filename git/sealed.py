"""Sealed views: a repository for git to look into, where nothing of the repository is run.

A view is a folder of git's of our own. It shares the objects and the refs, and nothing else: no
configuration, so no driver, filter, hook, alias, pager, remote or file system monitor, and no
attributes but those of the user and of the system, whose configuration counts. What git does not
see it can't run. A partial clone lacks its remote there: what is missing is not fetched.

A view for merging also has the attributes that the repository keeps for itself. Every merge driver
that anybody has configured, the user too, says there that it can't merge.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shlex
import shutil
import tempfile
import threading
from contextlib import suppress

from ..schema.directory.trust import is_safe
from ..schema.errors import shown
from .branches.repositories import RepositoryPlace
from .limited import LOOK_S
from .repository import (
    UNATTENDED,
    CommandFailed,
    GitFailed,
    Repository,
    is_plain_file,
    looks_bare,
    read_small,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The temporary folders of views: they go with their process, or are swept by a later one.
#
# A process has one folder, and holds a lock on it. At its end it removes the folder; where it was
# killed before that, the kernel has released the lock, which tells the next process that makes a
# folder here. Nobody else's folder, and none in use, is ever touched.

_PREFIX = "ackbus-git-"

#: How many folders are made at most, until one is ours.
_TRIES = 10

#: How a folder is opened to be locked: no link is followed.
_TO_LOCK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: The folder of this process, its descriptor, which holds the lock, and the number of the process.
_own: tuple[str, int, int] | None = None


def new_folder() -> str:
    """Make an empty folder that lasts as long as this process; the caller has a lock of threads."""
    return tempfile.mkdtemp(dir=own_folder())


def remove_folder() -> None:
    """Remove the folder of this process; that of its parent stays, where it was forked."""
    global _own
    if _own is not None and _own[2] == os.getpid():
        path, descriptor, _ = _own
        _own = None
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def own_folder() -> str:
    """Return the folder of this process, for temporary folders in it."""
    global _own
    if _own is None or _own[2] != os.getpid():
        if _own is None:
            atexit.register(remove_folder)
        _sweep(tempfile.gettempdir())
        _own = (*_made(), os.getpid())
    return _own[0]


def _made() -> tuple[str, int]:
    """Make a folder and lock it; where a sweep of another process was faster, make another."""
    for _ in range(_TRIES):
        path = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            descriptor = os.open(path, _TO_LOCK)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(descriptor), os.lstat(path))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        except OSError:  # a filesystem without locks, where nobody sweeps either
            is_ours = True
        if is_ours:
            return path, descriptor
        os.close(descriptor)
    raise GitFailed(f"no folder can be kept in {tempfile.gettempdir()}: something removes each")


def _sweep(above: str) -> None:
    """Remove the folders of this user's processes that are gone."""
    with suppress(OSError), os.scandir(above) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    _sweep_one(entry.path)


def _sweep_one(path: str) -> None:
    descriptor = os.open(path, _TO_LOCK)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its process is gone
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


#: The files of a repository that its views show; `packed-refs` and `shallow` need not be there.
_SHOWN = ("refs", "packed-refs", "shallow", "logs", "reftable")

#: Files of a repository that git reads by themselves: a pipe at their place would never end.
_READ_WHOLE = ("packed-refs", "shallow", "objects/info/alternates", "objects/info/commit-graph")

#: Variables for git where one looks: it fetches nothing, and asks nobody.
LOOKING: dict[str, str | None] = {
    **UNATTENDED,
    "GIT_ALLOW_PROTOCOL": "",  # no transport, not even to a folder: git 2.38 knows it too
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
}

#: How long git may take for a question, in seconds, where it is not one of a longer look.
LIMIT_S = LOOK_S

#: The settings that say how a repository is stored, with the values that git has for them.
_STORAGE = {
    "extensions.objectformat": ("sha1", "sha256"),
    "extensions.refstorage": ("files", "reftable"),
}

#: Extensions that change nothing of what a view shows.
_HARMLESS = {
    "extensions.noop",
    "extensions.partialclone",
    "extensions.preciousobjects",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
}

#: The content of `HEAD`: the name of a ref, or the id of a commit.
_HEAD = re.compile(r"(ref: refs/[^\x00-\x20\x7f]{1,1000}|[0-9a-f]{40}|[0-9a-f]{64})\n?")

#: The setting of a merge driver; its name may have any byte but a newline and NUL.
_DRIVER = re.compile(r"merge\.(.+)\.driver")

_lock = threading.Lock()
_views: dict[tuple[int, str, str, bool], str] = {}


class SealedRepository(Repository):
    """A repository as git may look into it. Each question has a limit of time.

    Attributes:
        common_dir: the folder that its work trees share.
    """

    def __init__(
        self,
        common_dir: str,
        head: str = "",
        extra: Mapping[str, str | None] | None = None,
        *,
        merges_by: SealedRepository | None = None,
    ) -> None:
        self.common_dir = common_dir
        self._head, self._extra = head, extra or {}
        view = _view_of(common_dir, head, merges_by)
        variables = {"GIT_DIR": view, "GIT_OBJECT_DIRECTORY": os.path.join(common_dir, "objects")}
        environment = {**LOOKING, **variables, **self._extra}
        super().__init__(view, environment, limit_s=LIMIT_S, name=common_dir)

    def for_merging(self) -> SealedRepository:
        """Return the view in which git merges: no merge driver is run there."""
        return SealedRepository(self.common_dir, self._head, self._extra, merges_by=self)


def sealed_around(folder: str) -> SealedRepository:
    """Return the sealed view of the repository that a folder is in; `HEAD` is that of its tree.

    Raises:
        GitFailed: git is not installed, or there is no repository that this user may use.
    """
    if looks_bare(folder) and _is_own(folder):  # to look into it nobody needs to name it
        git_dir = common_dir = os.path.realpath(folder)
    else:
        repository = Repository(folder, LOOKING, limit_s=LIMIT_S)
        git_dir, common_dir = (
            os.path.realpath(os.path.join(folder, repository.path(f"--{name}")))
            for name in ("absolute-git-dir", "git-common-dir")
        )
    return SealedRepository(common_dir, _head_in(git_dir))


def is_in_repository(folder: str) -> bool:
    """Return whether a folder, or one above it, has a `.git`. Git is not asked."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return False
    return True


def _is_own(folder: str) -> bool:
    return os.stat(folder).st_uid in (0, os.geteuid())


def sealed_tree(common_dir: str, admin: str, path: str) -> SealedRepository:
    """Return the sealed view of a linked work tree, with its files and its index.

    Args:
        common_dir: the folder that all work trees share.
        admin: git's folder of the tree.
        path: its top.
    """
    variables = {"GIT_WORK_TREE": path, "GIT_INDEX_FILE": os.path.join(admin, "index")}
    return SealedRepository(common_dir, _head_in(admin), variables)


def _head_in(git_dir: str) -> str:
    path = os.path.join(git_dir, "HEAD")
    match = _HEAD.fullmatch(read_small(path)) if is_plain_file(path) else None
    return match[1] if match else ""


def _view_of(common_dir: str, head: str, merges_by: SealedRepository | None) -> str:
    """Return the view of a repository, which lasts as long as this process.

    Args:
        common_dir: the folder that its work trees share.
        head: the content of `HEAD`; "": none.
        merges_by: a view of it without drivers, where this one is for merging.
    """
    key = (os.getpid(), common_dir, head, merges_by is not None)
    with _lock:
        if key not in _views:
            settings = _storage_of(common_dir)
            view = _make_view(common_dir, head, settings)
            if merges_by is not None:
                _prepare_merging(view, common_dir, merges_by)
            _views[key] = view
        return _views[key]


def _prepare_merging(view: str, common_dir: str, looking: Repository) -> None:
    """Give a view the attributes of its repository, and drivers that merge nothing."""
    own = os.path.join(common_dir, "info", "attributes")
    if is_plain_file(own):
        os.mkdir(os.path.join(view, "info"))
        with open(os.path.join(view, "info", "attributes"), "wb") as file:
            file.write(os.fsencode(read_small(own)))
    raw = looking.run("config", "--null", "--name-only", "--list")
    settings = [(name, "") for name in os.fsdecode(raw).split("\0")] + settings_in(common_dir)
    with open(os.path.join(view, "config"), "ab") as config:
        for name in sorted({name for name, _ in settings}):
            if driver := _DRIVER.fullmatch(name):
                config.write(_section(f'merge "{_escaped(driver[1])}"', "driver", "false"))
        for name, value in settings:
            if name == "merge.default" and value:
                config.write(_section("merge", "default", f'"{_escaped(value)}"'))


def _section(title: str, name: str, value: str) -> bytes:
    return os.fsencode(f"[{title}]\n\t{name} = {value}\n")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _make_view(common_dir: str, head: str, settings: list[str]) -> str:
    view = new_folder()
    for name in _SHOWN:
        os.symlink(os.path.join(common_dir, name), os.path.join(view, name))
    os.mkdir(os.path.join(view, "objects"))
    # Git takes no link for HEAD. Where nobody asks for it, it may name a branch that is not there.
    with open(os.path.join(view, "HEAD"), "w", encoding="utf-8") as file:
        file.write(f"{head or 'ref: refs/heads/none'}\n")
    with open(os.path.join(view, "config"), "w", encoding="utf-8") as file:
        file.write("[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n")
        file.write("".join(f"[extensions]\n\t{line}\n" for line in settings))
    return view


def _storage_of(common_dir: str) -> list[str]:
    """Return how a repository is stored, as lines of settings; nothing else of it is used.

    Raises:
        GitFailed: its configuration can't be read, or names a form that is not known here, or a
            file of it is none.
    """
    for name in _READ_WHOLE:
        path = os.path.join(common_dir, name)
        if os.path.lexists(path) and not is_plain_file(path):
            raise GitFailed(f"{path} is no plain file")
    lines = []
    for name, value in settings_in(common_dir):
        if name in _STORAGE:
            if value.lower() not in _STORAGE[name]:
                raise GitFailed(f"{common_dir} is stored in a form that is not known here")
            lines.append(f"{name.partition('.')[2]} = {value.lower()}")
        elif name.startswith("extensions.") and name not in _HARMLESS:
            raise GitFailed(f"{common_dir} has {name}, which is not known here")
    return lines


def settings_in(common_dir: str) -> list[tuple[str, str]]:
    """Return the settings of a repository's own configuration, as data; it includes no other file.

    Raises:
        GitFailed: it can't be read.
    """
    path = os.path.join(common_dir, "config")
    if not is_plain_file(path):
        raise GitFailed(f"{path} is no plain file")
    nowhere = Repository(os.sep, LOOKING, limit_s=LIMIT_S)
    try:
        raw = nowhere.run("config", "--file", path, "--no-includes", "--null", "--list")
    except CommandFailed as error:
        raise GitFailed(f"{path} can't be read: {error.reason}") from error
    entries = (entry.partition("\n") for entry in os.fsdecode(raw).split("\0") if entry)
    return [(name, value) for name, _, value in entries]


# The repositories in which git may be started for a bus.
#
# The path of a repository in a row of a bus was written by anybody who can write the bus. It is a
# name to compare, and never a place to go: git runs in the repository of the working directory,
# in the one around the bus, in one that the user names, and in those that the user's list names.

#: The repositories whose folders the user named to this program; nobody else can add one.
_named: set[str] = set()


def named_repository(folder: str) -> RepositoryPlace:
    """Return the repository around a folder that the user has named; it is trusted from now on.

    Raises:
        GitFailed: git is not installed, or there is no repository.
    """
    place = RepositoryPlace.around(folder)
    _named.add(place.common_dir)
    return place


class NotTrusted(GitFailed):
    """A repository that only a row names: git is not started there."""

    exit_code = 3


class TrustedRepositories:
    """The repositories in which git may be started for a bus.

    Args:
        bus_directory: the directory of the bus.
        named: folders that the user has named, as with `-C`.
    """

    def __init__(self, bus_directory: str, *named: str) -> None:
        self._folders = [*named, os.path.dirname(bus_directory)]
        with suppress(FileNotFoundError):  # the working directory may have been deleted
            self._folders.append(os.getcwd())
        self._around: set[str] = set()

    def place(self, repository: str) -> RepositoryPlace:
        """Return a repository to work in, with its own configuration.

        Args:
            repository: as a row names it: the folder that its work trees share.

        Raises:
            NotTrusted: nothing but a row names it.
            GitFailed: it is none.
        """
        self.check(repository)
        return RepositoryPlace.around(repository)

    def sealed(self, repository: str) -> SealedRepository:
        """Return a repository to look into, where nothing of it is run.

        Raises:
            NotTrusted: nothing but a row names it.
            GitFailed: it is none, or can't be looked into.
        """
        self.check(repository)
        return SealedRepository(repository)

    def check(self, repository: str) -> None:
        """Refuse a repository that only a row names.

        Raises:
            NotTrusted: it is one.
        """
        if not self.has(repository):
            raise NotTrusted(_refusal(repository))

    def has(self, repository: str) -> bool:
        """Whether git may be started in a repository."""
        if repository in _named or repository in self._around:
            return True
        return repository in self.around() or _is_listed(repository)

    def around(self) -> set[str]:
        """Return the repositories around the bus, the working directory and the named folders."""
        self._around.update(self._found_around())
        return self._around

    def _found_around(self) -> Iterator[str]:
        for folder in dict.fromkeys(self._folders):
            git = Repository(folder, LOOKING, limit_s=LIMIT_S)
            try:
                answer = os.fsdecode(git.run("rev-parse", "--git-common-dir"))
            except CommandFailed:  # it is in none, or in one that git refuses to this user
                continue
            yield os.path.realpath(os.path.join(folder, answer.removesuffix("\n")))


def _is_listed(repository: str) -> bool:
    """Whether the user's list names a repository, or its main work tree."""
    if not _is_path(repository):
        return False
    tree, name = os.path.split(repository)
    return is_safe(repository) or (name == ".git" and is_safe(tree))


def _is_path(repository: str) -> bool:
    """Whether a text is the path of a folder without links, as a step stores it."""
    try:
        return os.path.isabs(repository) and os.path.realpath(repository) == repository
    except (OSError, ValueError):
        return False


def _refusal(repository: str) -> str:
    """Return why git is not started in a repository, and how to trust it, if one can."""
    if not _is_path(repository) or not repository.isprintable():
        return f"repository {shown(repository)} is not looked into: that is no path of one"
    tree, name = os.path.split(repository)
    folder = tree if name == ".git" else repository
    return (
        f"repository {folder} is not looked into: it is neither that of the working directory nor"
        f" that of the bus; if it is yours, run 'bus trust add {shlex.quote(folder)}'"
    )
