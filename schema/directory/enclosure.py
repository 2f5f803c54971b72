"""The one way to write files beside the bus: in a project, or in a person's home.

A clone of git brings links that its owner never looked at, and any program may add a link while
we write. So a path is walked from a folder that is open already, name by name, and each link on it
is read and judged here, never followed by the system. Reads, writes, renames and removals act on a
name in a folder that is held open: exchanging a link meanwhile changes nothing outside.

- In a **project** a link may lead to another place in it, but neither out of it, nor into a
  repository of git (`.git`), nor into a bus.
- In a person's **home**, where managers of settings keep their links, a link may lead anywhere
  that this user or root has made it lead.

The files of a bus have their own way, which follows no link at all: see `folder`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..bounded_read import read_at_most
from ..errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How many links a path may lead over: as many as Linux lets it.
_MOST_LINKS = 40

#: How many folders may be open at once, for a path that goes down endlessly.
_MOST_FOLDERS = 200

#: The longest file that is taken in, in bytes: configurations of agents keep histories.
_MOST_BYTES = 64 * 1024 * 1024

#: How a folder is opened, to find names in it; without O_PATH it must be readable too.
_TO_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

#: No link is followed, no pipe waited for, no terminal taken.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

#: The names of git's own folder, and of the file of a bus.
_GIT, _BUS_FILE = ".git", "bus.db"


class LinkRefused(Refused):
    """A link on the way to a file leads where nothing may be read or written through it.

    Attributes:
        path: the link.
        target: where it leads.
    """

    def __init__(self, path: str, target: str, why: str) -> None:
        self.path, self.target = path, target
        super().__init__(f"{path} is a link to {target!a}, {why}")


@dataclass(frozen=True, slots=True)
class EnclosedFile:
    """A name in a folder that is open: the file of a path, wherever its links led.

    Attributes:
        path: the path, for people.
        name: its name there.
        folder: the descriptor of the folder; None where that is missing.
    """

    path: str
    name: str
    folder: int | None

    def look(self) -> os.stat_result | None:
        """Return the status of what is there; None for nothing.

        Raises:
            Refused: it is no ordinary file.
        """
        try:
            status = os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{self.path} is no ordinary file; it is left as it is")
        return status

    def read(self) -> bytes | None:
        """Return what is in the file, or None when it is not there.

        Raises:
            Refused: it is no ordinary file, or too long.
            OSError: the system refuses it.
        """
        if self.look() is None:
            return None
        with open(os.open(self.name, os.O_RDONLY | _SAFE, dir_fd=self._folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused(f"{self.path} is no ordinary file; it is left as it is")
            return read_at_most(file, self.path, _MOST_BYTES)

    def replace(
        self,
        data: bytes,
        *,
        mode: int | None = None,
        make: int = 0o600,
        over_link: bool = False,
    ) -> None:
        """Put a file in its place at once; a crash leaves one of both.

        Another name of the earlier file (a hard link) keeps the earlier bytes.

        Args:
            data: what it holds from then on.
            mode: who may do what; None keeps what it was.
            make: the same of a file that was not there, less what the process leaves out (umask).
            over_link: whether a link that has the name is replaced itself.

        Raises:
            Refused: something else is there.
            OSError: the system refuses it; the earlier file stays.
        """
        before = None if over_link and self.target() is not None else self.look()
        if mode is None and before is not None:
            mode = stat.S_IMODE(before.st_mode)
        fresh = f".ackbus-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
        descriptor = os.open(fresh, flags, make if mode is None else 0o600, dir_fd=self._folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if mode is not None:
                    os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            os.rename(fresh, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=self._folder)
            raise

    def target(self) -> str | None:
        """Return where a link that has the name leads; None where none has it."""
        try:
            return os.readlink(self.name, dir_fd=self._folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def link(self, target: str) -> None:
        """Put a link in its place at once, of a file or of another link.

        Raises:
            OSError: the system refuses it, as where its files have no links; what is there stays.
        """
        fresh = f".ackbus-{os.urandom(8).hex()}"
        os.symlink(target, fresh, dir_fd=self._folder)
        try:
            os.rename(fresh, self.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=self._folder)
            raise

    def remove(self) -> None:
        """Remove the file.

        Raises:
            Refused: it is no ordinary file.
            OSError: the system refuses it, or it is not there.
        """
        self.look()
        os.unlink(self.name, dir_fd=self._folder)

    def remove_link(self) -> None:
        """Remove a link that has the name, itself; anything else stays.

        Raises:
            OSError: the system refuses it.
        """
        with suppress(FileNotFoundError):
            status = os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                os.unlink(self.name, dir_fd=self._folder)

    @property
    def _folder(self) -> int:
        if self.folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        return self.folder


class Enclosure:
    """The files below a folder, as far as its links may lead.

    Args:
        root: the folder; the links on its own path are its user's.
        is_home: whether links of this user's and root's may lead anywhere, as in a home; else none
            may leave the folder, as in a project.
    """

    def __init__(self, root: str, *, is_home: bool = False) -> None:
        self.root = os.path.abspath(root)
        self.is_home = is_home

    @contextmanager
    def spot(
        self, path: str, *, make: int | None = None, is_followed: bool = True
    ) -> Iterator[EnclosedFile]:
        """Walk to a file, and hold the folder that it is in open.

        Args:
            path: the file, below the root.
            make: the mode of missing folders, the root and those on the way; None makes none.
            is_followed: whether the last name is followed where it is a link.

        Raises:
            LinkRefused: a link on the way leads where it may not, or nowhere.
            Refused: something on the way is no folder.
            OSError: the system refuses it.
        """
        with _Walk(self, make) as walk:
            name = walk.to(self._parts(path), is_followed=is_followed)
            yield EnclosedFile(path, name, walk.folder)

    def read(self, path: str) -> bytes | None:
        """Return what is in a file, or None when it is not there.

        Raises:
            Refused, OSError: as `spot` and `EnclosedFile.read`.
        """
        with self.spot(path) as spot:
            return None if spot.folder is None else spot.read()

    def remove_empty_folder(self, path: str) -> None:
        """Remove a folder, itself no link, that has nothing in it.

        Raises:
            LinkRefused: a link on the way leads where it may not, or nowhere.
            OSError: it is not empty, a link, or not there.
        """
        with _Walk(self, None) as walk:
            name = walk.to(self._parts(path), is_followed=False)
            if walk.folder is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            os.rmdir(name, dir_fd=walk.folder)

    def _parts(self, path: str) -> list[str]:
        below = os.path.relpath(os.path.join(self.root, path), self.root)
        parts = below.split(os.sep)
        if parts[0] in (os.curdir, os.pardir):
            raise ValueError(f"{path!r} is not below {self.root!r}")
        return parts


class _Walk:
    """One walk from the root of an enclosure; the folders on the way are open until it ends."""

    def __init__(self, enclosure: Enclosure, make: int | None) -> None:
        self._enclosure = enclosure
        self._make = make
        #: Where `..` leads back to, and what people call it: the root, then each folder.
        self._folders: list[int] = []
        self._paths: list[str] = []
        #: The links on the way: each with its target, and how many names come after that.
        self._links: list[tuple[str, str, int]] = []
        #: Whether the walk has come to something that is not there.
        self._is_missing = False

    def __enter__(self) -> _Walk:
        if self._make is not None:  # a folder that a person named
            os.makedirs(self._enclosure.root, mode=self._make, exist_ok=True)
        try:
            self._folders.append(os.open(self._enclosure.root, _TO_PASS))
        except FileNotFoundError:
            self._is_missing = True
        self._paths.append(self._enclosure.root)
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._folders:
            os.close(folder)

    @property
    def folder(self) -> int | None:
        """The descriptor of the folder that the walk has come to; None where it is missing."""
        return None if self._is_missing else self._folders[-1]

    def to(self, parts: list[str], *, is_followed: bool = True) -> str:
        """Walk along names, and return the last name: a file in the folder that the walk reached.

        Args:
            parts: the names.
            is_followed: whether the last name is followed where it is a link.
        """
        path = os.path.join(self._enclosure.root, *parts)
        ahead = parts[::-1]
        while ahead and not self._is_missing:
            part = ahead.pop()
            if part in ("", os.curdir):
                continue
            if part == os.pardir:
                self._go_up()
                continue
            if (ahead or is_followed) and self._is_link(part, len(ahead)):
                ahead += self._below(self._links[-1][1]).split(os.sep)[::-1]
            elif ahead:
                self._enter(part, len(ahead))
            else:
                self._refuse_dangling(part, 0)
                self._refuse_private(part)
                return part
        if self._is_missing:
            return os.path.basename(path)
        raise Refused(f"{path} is no ordinary file; it is left as it is")

    # Links -------------------------------------------------------------------------------------

    def _is_link(self, name: str, after_it: int) -> bool:
        """Whether a name here is a link, which is noted, if it may be followed."""
        folder, path = self._folders[-1], os.path.join(self._paths[-1], name)
        try:
            before = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISLNK(before.st_mode):
                return False
            target = os.readlink(name, dir_fd=folder)
            after = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.EINVAL:  # it was one a moment ago
                raise Refused(f"{path} is just being changed; try again") from error
            raise
        self._links.append((path, target, after_it))
        if (before.st_ino, before.st_ctime_ns) != (after.st_ino, after.st_ctime_ns):
            raise self._refused("which is just being changed; try again")
        if len(self._links) > _MOST_LINKS:
            raise self._refused("which leads in a circle; nothing is written through it")
        if self._enclosure.is_home and before.st_uid not in (os.geteuid(), 0):
            raise self._refused(
                "which another user has made: nothing is read or written through it;"
                " make the link yourself, or put a file in its place"
            )
        return True

    def _below(self, target: str) -> str:
        """Return a link's target relative to here, or to the root, where the walk begins again.

        In a home an absolute target is relative to the root of the system.
        """
        if not os.path.isabs(target):
            return target
        root = self._enclosure.root
        if self._enclosure.is_home:
            self._restart(os.open(os.sep, _TO_PASS), os.sep)
            return target
        for base in (root, os.path.realpath(root)):
            within = base.rstrip(os.sep) + os.sep
            if (target + os.sep).startswith(within):
                self._restart(os.dup(self._folders[0]), root)
                return target[len(within) :]
        raise self._leaves()

    def _restart(self, folder: int, path: str) -> None:
        for old in self._folders:
            os.close(old)
        self._folders, self._paths = [folder], [path]

    def _go_up(self) -> None:
        if len(self._folders) > 1:
            os.close(self._folders.pop())
            self._paths.pop()
        elif self._enclosure.is_home:
            above = os.open(os.pardir, _TO_PASS, dir_fd=self._folders[0])
            self._restart(above, os.path.dirname(self._paths[0]))
        else:
            raise self._leaves()

    # Folders -----------------------------------------------------------------------------------

    def _enter(self, name: str, after_it: int) -> None:
        path = os.path.join(self._paths[-1], name)
        if len(self._folders) > _MOST_FOLDERS:
            raise Refused(f"{path} lies too deep; it is left as it is")
        try:
            try:
                folder = self._opened(name)
            except FileNotFoundError:
                self._refuse_dangling(name, after_it)
                if self._make is None:
                    self._is_missing = True
                    return
                self._refuse_private(name)
                with suppress(FileExistsError):
                    os.mkdir(name, self._make, dir_fd=self._folders[-1])
                folder = self._opened(name)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise Refused(f"{path} is no folder; it is left as it is") from error
            raise
        self._folders.append(folder)
        self._paths.append(path)

    def _opened(self, name: str) -> int:
        return os.open(name, _TO_PASS | os.O_NOFOLLOW, dir_fd=self._folders[-1])

    # Refusals ----------------------------------------------------------------------------------

    def _refuse_dangling(self, name: str, after_it: int) -> None:
        """Refuse a name that a link leads to, if it is not there: nothing is made in its place."""
        if not any(after_link <= after_it for _, _, after_link in self._links):
            return
        try:
            os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False)
        except FileNotFoundError:
            says = "which is not there: make it, or drop the link"
            raise self._refused(says, first=True) from None

    def _refuse_private(self, name: str) -> None:
        """Refuse a link of a project that leads into a repository of git, or into a bus."""
        if not self._links or self._enclosure.is_home:
            return
        below = os.path.relpath(os.path.join(self._paths[-1], name), self._enclosure.root)
        if _GIT in below.casefold().split(os.sep):
            raise self._refused(f"in {_GIT}: nothing is read or written through it", first=True)
        for folder in self._folders:
            with suppress(FileNotFoundError):
                os.stat(_BUS_FILE, dir_fd=folder, follow_symlinks=False)
                raise self._refused("in a bus: nothing is read or written through it", first=True)

    def _leaves(self) -> LinkRefused:
        return self._refused(
            f"out of {self._enclosure.root}: nothing is read or written through it;"
            " put a file or a folder in its place",
            first=True,
        )

    def _refused(self, why: str, *, first: bool = False) -> LinkRefused:
        path, target, _ = self._links[0 if first else -1]
        return LinkRefused(path, target, why)
