"""The one way to the files of a bus directory: only here are they opened, made, renamed, removed.

A clone of git, a checkout, or any program of the user's may put anything there, at any time and
under any name that a bus uses: a link that leads out, a second name of a foreign file, a pipe on
which an opening waits for ever. So each name is looked up in a directory that is open already, no
link is followed, no opening waits, and anything but an ordinary file is refused.

SQLite opens its files itself, by name: they are checked before (`check`), and never opened here.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager, suppress

from ..errors import BusMoved, BusUnusable
from ..system_errors import unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedRandom, BufferedReader

# Whether a file is still where it was opened: a directory can be moved or deleted under its
# users.
#
# SQLite would go on in the file that it has open, wherever that is by now. What is published there
# is lost when the directory was deleted, or is in another bus than the one at the path.

#: How long a check is trusted, in seconds. A check costs a thousandth of a publish, and a message
#: that is published so shortly after a move is as good as published before it.
TRUSTED_S = 0.01


class FileIdentity:
    """Checks that a path still names the file that was there when this was made."""

    __slots__ = ("_due_s", "_found", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._found = _identity(path)
        self._due_s = 0.0

    def check(self) -> None:
        """Look whether the file is there, unless that was just done; raises as `look` does."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self.look()
            self._due_s = now_s + TRUSTED_S

    def look(self) -> None:
        """Look whether the file is there.

        Raises:
            BusMoved: it is not, or another is. As long as that is so, each look says it.
            BusUnusable: this user may no longer see it.
        """
        try:
            is_there = _identity(self._path) == self._found
        except OSError as error:
            self._due_s = 0.0
            raise unreachable(os.path.dirname(self._path), error) from error
        if not is_there:
            self._due_s = 0.0
            raise BusMoved(os.path.dirname(self._path))


def _identity(path: str) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None when there is no file."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


#: No link is followed, no pipe or device waited for, no terminal taken, no child given it.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

#: How a directory is opened: to look into it, and to sync it.
_TO_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

#: The kinds of things that can stand where a file or a folder belongs, as an error names them.
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


class Obstructed(BusUnusable, OSError):
    """Something else stands in a bus directory where a file or a folder of the bus belongs.

    It is an OSError, too: code that expects the system to refuse a file expects this as well.

    Attributes:
        path: where it stands.
    """

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        super().__init__(f"{path} {what}")
        self.strerror = f"it {what}"


class Descriptor:
    """A descriptor that is closed with the last reference to it.

    So no descriptor is closed under a thread that uses it: the thread would go on in the file that
    was opened under the same number since, and that may be the bus.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Folder:
    """A bus directory, or a folder in a bus directory.

    Names are of files and folders directly in it. The bus directory itself may be reached through a
    link, which its user has made; it is opened at its first use, and stays open: a program whose
    bus is moved goes on in the same directory, until `FileIdentity` notices. A folder in it is
    looked up by its name each time. Safe in any number of threads, and in a forked child.

    Args:
        path: where it is.
        within: the folder that it is in; None for a bus directory.
    """

    __slots__ = ("_held", "_within", "path")

    def __init__(self, path: str, within: Folder | None = None) -> None:
        self.path = path
        self._within = within
        self._held: Descriptor | None = None

    def folder(self, name: str) -> Folder:
        """Return a folder in this one, which need not be there."""
        return Folder(self.path_of(name), self)

    def path_of(self, name: str) -> str:
        """Return the path of a name in it, for messages to people, and for SQLite."""
        if os.sep in name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a name in a folder")
        return os.path.join(self.path, name)

    # Files -----------------------------------------------------------------------------------

    def read(self, name: str) -> BufferedReader:
        """Open a file for reading.

        Raises:
            FileNotFoundError: there is none.
            Obstructed: it is no ordinary file.
            OSError: the system refuses it.
        """
        return open(self._open(name, os.O_RDONLY), "rb")

    def change(self, name: str, flags: int = 0) -> int:
        """Open a file to write into it as it is, made where it is missing; return a descriptor.

        Args:
            name: of the file.
            flags: further flags for the system, such as `os.O_APPEND`.

        Raises:
            Obstructed: it is no ordinary file, or has another name (a hard link), so that another
                file would be written to.
            OSError: the system refuses it.
        """
        return self._open(name, os.O_RDWR | os.O_CREAT | flags)

    def new(self, name: str) -> BufferedRandom:
        """Make a file, open for writing and reading; a file that a process left is replaced.

        Only one process at a time may make a file of that name.

        Raises:
            Obstructed: a directory stands there.
            OSError: the system refuses it, or another process made the file at this moment.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            fd = self._open(name, flags)
        except (FileExistsError, Obstructed):
            self.remove(name)
            fd = self._open(name, flags)
        return open(fd, "r+b")

    def rename(self, old: str, new: str, to: Folder | None = None) -> None:
        """Give a file another name; a file that has that name already is replaced.

        Args:
            old, new: the names.
            to: the folder that it moves to; None: it stays in its folder.

        Raises:
            FileNotFoundError: there is no such file.
            Obstructed: a directory has the new name.
            OSError: the system refuses it.
        """
        target = to or self
        self.path_of(old), target.path_of(new)
        with self._entered() as folder, target._entered() as other:
            try:
                os.rename(old, new, src_dir_fd=folder, dst_dir_fd=other)
            except FileNotFoundError:
                raise
            except OSError as error:
                target._explain(new, error)
                raise

    def name_again(self, name: str, also: str) -> None:
        """Give a file a second name, until the first is given to another file.

        A filesystem without such links gives it the second name alone. Safe to repeat.

        Raises:
            FileExistsError: another file has the second name.
            OSError: the system refuses it.
        """
        self.path_of(name), self.path_of(also)
        with self._entered() as folder:
            try:
                os.link(name, also, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                if not self._are_one(name, also):
                    raise
            except OSError:  # each such filesystem has its own error
                self.rename(name, also)

    def _are_one(self, name: str, other: str) -> bool:
        status, also = self.look(name), self.look(other)
        return status is not None and also is not None and os.path.samestat(status, also)

    def remove(self, name: str) -> bool:
        """Remove a file, or a link itself; return whether there was any.

        Raises:
            Obstructed: it is a directory.
            OSError: the system refuses it.
        """
        self.path_of(name)
        try:
            with self._entered() as folder:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._explain(name, error)
            raise
        return True

    def look(self, name: str) -> os.stat_result | None:
        """Return the status of a name (a link is not followed); None if there is no such name."""
        self.path_of(name)
        try:
            with self._entered() as folder:
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def has(self, name: str) -> bool:
        """Whether an ordinary file has this name."""
        try:
            status = self.look(name)
        except OSError:
            return False
        return status is not None and stat.S_ISREG(status.st_mode)

    def set_times(self, name: str, *, used_ns: int, changed_ns: int) -> None:
        """Set when a file was last read and changed, in epoch nanoseconds."""
        self.path_of(name)
        with self._entered() as folder:
            times = (used_ns, changed_ns)
            os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)

    def check(self, *names: str) -> None:
        """Look at files that SQLite is about to open, as far as they are there.

        Raises:
            Obstructed: a file is no ordinary file, or has another name (a hard link).
        """
        for name in names:
            status = self.look(name)
            if status is not None:
                self._check(name, status, is_written=True)

    # The folder itself -----------------------------------------------------------------------

    def make(self) -> None:
        """Make it, for this user alone, unless it is there; the folder above it must be there."""
        assert self._within is not None, "who makes a bus directory makes it by its path"
        with self._within._entered() as above, suppress(FileExistsError):
            os.mkdir(os.path.basename(self.path), 0o700, dir_fd=above)

    def names(self) -> list[str]:
        """Return the names of all that is in it, in no order; none where it is missing."""
        try:
            with self._entered() as folder:
                fd = os.open(".", _TO_ENTER, dir_fd=folder)  # to list is to move on in a directory
        except FileNotFoundError:
            return []
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Wait until the names in it are on the disk: a rename may be lost before that."""
        with self._entered() as folder:
            fd = os.open(".", _TO_ENTER, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove_all(self, *, but: str = "") -> None:
        """Remove everything in it, folders with their contents; no link is followed.

        Args:
            but: the name that stays.
        """
        for name in self.names():
            if name != but:
                self.remove_with_contents(name)

    def remove_with_contents(self, name: str) -> None:
        """Remove a file or a link, or a folder with its contents; nothing where there is none."""
        status = self.look(name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            self.remove(name)
            return
        import shutil  # slow to load, and hardly ever needed

        with self._entered() as folder:
            shutil.rmtree(name, dir_fd=folder)

    def close(self) -> None:
        """Give the descriptor back, as soon as no thread uses it; a later use opens it again."""
        self._held = None

    @contextmanager
    def _entered(self) -> Iterator[int]:
        """Give a descriptor of the folder."""
        if self._within is None:
            descriptor = self._held
            if descriptor is None:
                descriptor = self._held = Descriptor(os.open(self.path, _TO_ENTER))
            yield descriptor.fd
            return
        name = os.path.basename(self.path)
        with self._within._entered() as above:
            try:
                fd = os.open(name, _TO_ENTER | os.O_NOFOLLOW, dir_fd=above)
            except OSError as error:
                self._within._explain(name, error, expected=stat.S_IFDIR)
                raise
        try:
            yield fd
        finally:
            os.close(fd)

    def _open(self, name: str, flags: int) -> int:
        self.path_of(name)
        with self._entered() as folder:
            try:
                fd = os.open(name, flags | _SAFE, 0o600, dir_fd=folder)
            except OSError as error:
                self._explain(name, error)
                raise
        try:
            self._check(name, os.fstat(fd), is_written=bool(flags & os.O_RDWR))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _check(self, name: str, status: os.stat_result, *, is_written: bool) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._obstructed(name, status)
        if is_written and status.st_nlink > 1:
            what = "has another name elsewhere (a hard link), which would be written to as well"
            raise Obstructed(self.path_of(name), f"{what}; put a copy in its place")

    def _explain(self, name: str, error: OSError, expected: int = stat.S_IFREG) -> None:
        """Raise `Obstructed` where an error comes from another kind of thing under a name."""
        status = None
        with suppress(OSError):
            status = self.look(name)
        if status is not None and stat.S_IFMT(status.st_mode) != expected:
            raise self._obstructed(name, status, expected) from error

    def _obstructed(
        self, name: str, status: os.stat_result, expected: int = stat.S_IFREG
    ) -> Obstructed:
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        needed = _KINDS[expected]
        what = f"is {kind}, where the bus needs {needed}; move it away, then try again"
        return Obstructed(self.path_of(name), what)


def locate(path: str) -> tuple[Folder, str]:
    """Return the bus directory and the name of a file with a path, which is directly in it."""
    directory, name = os.path.split(os.path.abspath(path))
    return Folder(directory), name


def inner_folder(path: str) -> Folder:
    """Return the folder with a path, which is directly in a bus directory."""
    directory, name = locate(path)
    return directory.folder(name)
