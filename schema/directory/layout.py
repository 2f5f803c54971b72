"""The bus directory: the files in it, and the filesystems that it may stand on."""

from __future__ import annotations

import os
import sys

from ..errors import BusUnusable
from ..message.names import check_unicode
from .folder import Folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The name of the bus directory in a project.
BUS_DIRECTORY = ".worker-state"

#: The environment variable that names the bus directory.
BUS_DIR_VARIABLE = "BUS_DIR"

#: The environment variable that names the directory of the keys that messages are signed with.
KEYS_DIR_VARIABLE = "BUS_KEYS_DIR"

#: The environment variable that keeps commands from exporting by themselves, with the value `off`.
EXPORT_VARIABLE = "BUS_EXPORT"

#: Filesystems on which SQLite's write-ahead log fails or corrupts: its shared memory does not
#: cross machines, and their locks can't be trusted.
NETWORK_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.davfs2", "fuse.gcsfuse"}
    | {"fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "virtiofs"}
)


def may_export_unasked() -> bool:
    """Whether the environment lets commands keep `bus.jsonl`; a value that is not known is off."""
    return os.environ.get(EXPORT_VARIABLE, "") in ("", "on")


class Layout:
    """The paths inside one bus directory, and the way to its files.

    Paths are for people, for SQLite and for locks; any other file in the directory is reached by
    `files`, `blob_folder` and `archive_folder` alone.

    Raises:
        InvalidInput: its name is not valid Unicode text.
    """

    __slots__ = (
        "archive",
        "archive_folder",
        "archive_lock",
        "automation_lock",
        "blob_folder",
        "blobs",
        "database",
        "directory",
        "doorbell",
        "export_lock",
        "files",
        "jsonl",
        "search",
        "search_lock",
        "upgrade_lock",
        "write_lock",
    )

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        # SQLite's names of files are UTF-8, so elsewhere nothing could be opened.
        self.directory = check_unicode(os.path.abspath(expand_home(os.fspath(directory))))
        self.files = Folder(self.directory)
        self.archive_folder = self.files.folder("archive")
        self.blob_folder = self.files.folder("blobs")
        self.database = os.path.join(self.directory, "bus.db")
        self.jsonl = os.path.join(self.directory, "bus.jsonl")
        self.archive = os.path.join(self.directory, "archive")
        self.archive_lock = os.path.join(self.directory, "archive.lock")
        self.search = os.path.join(self.directory, "search.db")
        self.search_lock = os.path.join(self.directory, "search.lock")
        self.blobs = os.path.join(self.directory, "blobs")
        self.doorbell = os.path.join(self.directory, "doorbell")
        self.upgrade_lock = os.path.join(self.directory, "upgrade.lock")
        self.write_lock = os.path.join(self.directory, "write.lock")
        self.export_lock = os.path.join(self.directory, "export.lock")
        self.automation_lock = os.path.join(self.directory, "automation.lock")


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk: a rename may be lost before that."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lost_file_hint(layout: Layout) -> str | None:
    """Return the message about a bus that has lost its file, or None where there was no bus.

    Its write-ahead log or its archive is the sign: a clone of git brings neither, and there a new
    bus is right.
    """
    log = os.path.basename(layout.database) + "-wal"
    remains = [log] if os.path.exists(os.path.join(layout.directory, log)) else []
    if os.path.isdir(layout.archive) and os.listdir(layout.archive):
        remains.append("archive/")
    if not remains:
        return None
    return (
        f"bus.db is missing or empty in {layout.directory}, and of that bus {' and '.join(remains)}"
        " is there; put bus.db back, or 'bus doctor --repair'; for a new bus, move that away"
    )


def has_export(layout: Layout) -> bool:
    """Whether there is a `bus.jsonl` with anything in it: that of a new bus is empty."""
    try:
        return os.stat(layout.jsonl).st_size > 0
    except OSError:
        return False


def remains_of_bus(layout: Layout) -> str | None:
    """Return the message where a bus has lost its file, or only its export is there; else None.

    A clone of git brings the export alone: there the user chooses between a new bus and the old.
    """
    if (remains := lost_file_hint(layout)) or not has_export(layout):
        return remains
    export = os.path.basename(layout.jsonl)
    return (
        f"no bus in {layout.directory}, only its {export}; make a new one with 'bus init', or the"
        " old one again with 'bus doctor --repair'"
    )


class NoHome(BusUnusable, FileNotFoundError):
    """A path begins with `~`, and the system knows no home directory for it."""


def expand_home(path: str) -> str:
    """Return a path with the home directory in place of a `~` or `~NAME` that it begins with.

    A shell leaves that in `--dir=~/x`, and so do files of variables. Taken as it is, it would be a
    folder of that name, in a project perhaps.

    Raises:
        NoHome: there is no such user, or no home directory.
    """
    if not path.startswith("~"):
        return path
    whole_path = os.path.expanduser(path)
    if not os.path.isabs(whole_path):
        raise NoHome(f"no home directory is known for {path!a}; set HOME, or name a whole path")
    return whole_path


def of_platform(path: Callable[[], str]) -> str:
    """Return a folder of this user's, by what the platform says.

    Raises:
        NoHome: it has no place.
    """
    try:
        return expand_home(path())
    except RuntimeError as error:
        raise NoHome(f"no home directory is known: {error}") from error


def user_bus() -> str:
    """Return the directory of the per-user bus, in the platform's state directory.

    Raises:
        NoHome: it has no place.
    """
    import platformdirs  # only this one form needs it, and it would slow every start

    return of_platform(lambda: platformdirs.user_state_dir("ackbus", appauthor=False))


def keys_directory() -> str:
    """Return the directory of this user's keys, there or not: outside of every bus.

    Raises:
        NoHome: it has no place.
    """
    named = os.environ.get(KEYS_DIR_VARIABLE)
    return (
        os.path.abspath(expand_home(named)) if named else os.path.join(config_directory(), "keys")
    )


def config_directory() -> str:
    """Return the directory of this user's own configuration of ackbus, there or not.

    Raises:
        NoHome: it has no place.
    """
    if sys.platform.startswith("linux"):  # what platformdirs says; each publisher would wait for it
        home = os.environ.get("XDG_CONFIG_HOME", "").strip()
        home = home if os.path.isabs(home) else "~/.config"
    else:
        import platformdirs

        home = of_platform(platformdirs.user_config_dir)
    return os.path.join(expand_home(home), "ackbus")


def own_ids() -> set[int]:
    """Return root, this user, and for root the user who became it by sudo, as git does."""
    user = os.geteuid()
    caller = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return {0, user, int(caller)} if caller.isascii() and caller.isdecimal() else {0, user}


def refuse_links(directory: str) -> None:
    """Raise when something in a bus directory is a symbolic link.

    A clone of git can bring a link, under any name that a bus uses: a write or a read through it
    would be of a file outside. The directory itself may be a link, which its user has made.

    Raises:
        BusUnusable: there is a link, or the directory can't be read.
        FileNotFoundError: there is no such directory.
    """
    try:
        with os.scandir(directory) as entries:
            links = sorted(entry.name for entry in entries if entry.is_symlink())
    except FileNotFoundError:
        raise
    except OSError as error:  # no rights, no descriptor left
        raise BusUnusable(f"the bus in {directory} can't be reached: {error.strerror}") from error
    if links:
        raise BusUnusable(
            f"{os.path.join(directory, links[0])} is a symbolic link, and leads out of the bus;"
            " put what it is to be in its place, or remove it"
        )


def refuse_network_filesystem(directory: str) -> None:
    """Raise unless SQLite's write-ahead log is safe on the filesystem under `directory`.

    Raises:
        BusUnusable: it is a network filesystem.
    """
    if os.major(os.stat(directory).st_dev) != 0 or not sys.platform.startswith("linux"):
        return  # a block device is local; only anonymous devices need a closer look
    kind = filesystem_kind(directory)
    if kind in NETWORK_FILESYSTEMS:
        raise BusUnusable(
            f"{directory} is on a network filesystem ({kind}), where SQLite can lose data;"
            " put the bus on a local disk (--dir, or BUS_DIR)"
        )


def filesystem_kind(directory: str) -> str:
    """Return the type of the filesystem under a directory, such as `ext4`. Linux only."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        return filesystem_of(os.path.realpath(directory), mounts)


def filesystem_of(path: str, mountinfo: Iterable[str]) -> str:
    """Return the type of the filesystem that holds an absolute path, from mountinfo's lines."""
    best, kind = "", ""
    for line in mountinfo:
        fields = line.split(" ")
        mount = fields[4].replace("\\040", " ")
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[fields.index("-") + 1]
    return kind
