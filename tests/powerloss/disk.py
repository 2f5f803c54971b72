"""A model of a disk: what is on it for sure, and what may be, when the power fails.

What is assumed of file systems stands in docs/adr/0040-power-loss.md. A sync of a file brings its
bytes and its size onto the disk, a sync of a folder its names. What was done since may be lost: of
the bytes any sectors, of the names of one folder the newest changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

#: What a disk writes whole or not at all, in bytes.
SECTOR_BYTES = 512


@dataclass(frozen=True)
class Found:
    """A file as it is found after the power came back.

    Attributes:
        content: its bytes.
        number: what the file system knows it by (the inode number).
        changed_ns: when its content changed last, in epoch nanoseconds.
    """

    content: bytes
    number: int
    changed_ns: int


#: What is found, by path; None is a folder, and one comes before what is in it.
State = dict[str, Found | None]


@dataclass(eq=False)
class File:
    """A file, whatever names it has. A change is an offset and bytes, or a new size and None."""

    number: int
    content: bytearray = field(default_factory=bytearray)
    changed_ns: int = 0
    synced: bytes = b""
    synced_ns: int = 0
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)

    def change(self, at: int, data: bytes | None, changed_ns: int) -> None:
        _apply(self.content, at, data)
        self.unsynced.append((at, data))
        self.changed_ns = changed_ns

    def sync(self) -> None:
        self.synced, self.synced_ns = bytes(self.content), self.changed_ns
        self.unsynced.clear()

    def all(self, chance: Random) -> Found:
        return Found(bytes(self.content), self.number, self.changed_ns)

    def none(self, chance: Random) -> Found:
        """Nothing of what is not synced."""
        return Found(self.synced, self.number, self.synced_ns)

    def torn(self, chance: Random) -> Found:
        """The first or the last sectors of the last change, and all of those before."""
        content = bytearray(self.synced)
        for number, (at, data) in enumerate(self.unsynced, 1):
            if number == len(self.unsynced) and data is not None:
                at, data = _part(at, data, chance)
            _apply(content, at, data)
        return Found(bytes(content), self.number, self.changed_ns)

    def shuffled(self, chance: Random) -> Found:
        """Some sectors of some changes: the disk wrote them in another order."""
        content = bytearray(self.synced)
        share = chance.choice((0.1, 0.5, 0.9))
        for at, data in self.unsynced:
            for piece_at, piece in _sectors(at, data):
                if chance.random() < share:
                    _apply(content, piece_at, piece)
        return Found(bytes(content), self.number, self.changed_ns)


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    end = at if data is None else at + len(data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at:end] = data


def _sectors(at: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    """Split a change where the sectors of the disk end."""
    if data is None:
        yield at, None
        return
    begin = 0
    while begin < len(data):
        end = begin + SECTOR_BYTES - (at + begin) % SECTOR_BYTES
        yield at + begin, data[begin:end]
        begin = end


def _part(at: int, data: bytes, chance: Random) -> tuple[int, bytes]:
    pieces = [(where, piece) for where, piece in _sectors(at, data) if piece is not None]
    border = chance.randint(0, len(pieces))
    kept = chance.choice((pieces[:border], pieces[border:]))
    return kept[0][0] if kept else at, b"".join(piece for _, piece in kept)


@dataclass(eq=False)
class Folder:
    """A folder. A change is some names at once, each with what it is for now, or None."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    synced: dict[str, File | Folder] = field(default_factory=dict)
    unsynced: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, **names: File | Folder | None) -> None:
        _rename(self.names, names)
        self.unsynced.append(names)

    def sync(self) -> None:
        self.synced = dict(self.names)
        self.unsynced.clear()

    def all(self, chance: Random) -> dict[str, File | Folder]:
        return self.names

    def none(self, chance: Random) -> dict[str, File | Folder]:
        return self.synced

    def some(self, chance: Random) -> dict[str, File | Folder]:
        """The oldest of the changes that are not synced: a journal keeps their order."""
        names = dict(self.synced)
        for change in self.unsynced[: chance.randint(0, len(self.unsynced))]:
            _rename(names, change)
        return names


def _rename(names: dict[str, File | Folder], change: dict[str, File | Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


#: What may have become of the bytes and the names that were not synced: the ways to lose power.
WAYS = {
    "nothing lost": (File.all, Folder.all),
    "all lost": (File.none, Folder.none),
    "bytes lost": (File.none, Folder.all),
    "names lost": (File.all, Folder.none),
    "torn": (File.torn, Folder.all),
    "shuffled": (File.shuffled, Folder.all),
    "shuffled, names too": (File.shuffled, Folder.some),
}


class Disk:
    """The folders and files under one root, which itself is on the disk for sure."""

    def __init__(self) -> None:
        self._root = Folder()
        self._files: dict[int, File] = {}

    # What programs do. The names of these methods are those of the events in a journal. ----------

    def create(self, path: str, number: int) -> None:
        folder, name = self._place(path)
        self._files[number] = file = File(number)
        folder.change(**{name: file})

    def mkdir(self, path: str) -> None:
        folder, name = self._place(path)
        folder.change(**{name: Folder()})

    def unlink(self, path: str) -> None:
        folder, name = self._place(path)
        folder.change(**{name: None})

    def rename(self, path: str, to: str) -> None:
        (folder, name), (new_folder, new_name) = self._place(path), self._place(to)
        node = folder.names[name]
        if folder is new_folder:
            folder.change(**{name: None, new_name: node})
        else:
            new_folder.change(**{new_name: node})
            folder.change(**{name: None})

    def write(self, number: int, at: int, data: bytes, changed_ns: int) -> None:
        self._files[number].change(at, data, changed_ns)

    def truncate(self, number: int, size: int, changed_ns: int) -> None:
        self._files[number].change(size, None, changed_ns)

    def sync(self, number: int) -> None:
        self._files[number].sync()

    def sync_folder(self, path: str) -> None:
        self._folder(path).sync()

    def sync_all(self) -> None:
        """Bring everything onto the disk."""
        for file in self._files.values():
            file.sync()
        folders = [self._root]
        while folders:
            folder = folders.pop()
            folder.sync()
            folders += [node for node in folder.names.values() if isinstance(node, Folder)]

    def has(self, path: str) -> bool:
        """Return whether there is such a file now."""
        return path in self.found("nothing lost", Random(0))

    # What is found afterwards. -------------------------------------------------------------------

    def found(self, way: str, chance: Random) -> State:
        """Return what is on the disk if the power fails now, in one of the `WAYS`."""
        content, names = WAYS[way]
        state: State = {}
        folders = [("", self._root)]
        while folders:
            prefix, folder = folders.pop()
            for name, node in sorted(names(folder, chance).items()):
                path = prefix + name
                if isinstance(node, Folder):
                    state[path] = None
                    folders.append((path + "/", node))
                else:
                    state[path] = content(node, chance)
        return state

    def _place(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _folder(self, path: str) -> Folder:
        folder = self._root
        for name in filter(None, path.split("/")):
            inner = folder.names[name]
            assert isinstance(inner, Folder), path
            folder = inner
        return folder
