"""Things that may stand in a bus directory under each name that a bus uses, and acts on the bus.

Rows are names, kinds and moments; each is tried with every act. A victim beside the bus must be as
it was afterwards, and so must all that was published.
"""

import hashlib
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import apsw

from ackbus import Bus, Exporter, Inbox
from ackbus.bus.doorbell import listen, ring
from ackbus.bus.log.archive_reader import segment_name
from ackbus.doctor.checks.directory import checks_of_place
from ackbus.doctor.checks.export import checks_of_export
from ackbus.errors import AckbusError
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.export.jsonl.automatic import export_briefly
from ackbus.export.jsonl.exporter import BackgroundExporter
from ackbus.export.jsonl.jsonl_file import open_exported
from ackbus.export.jsonl.parts import exported_files
from ackbus.schema.findings import examine
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite.creation import create
from ackbus.schema.sqlite.upgrade import upgrade
from ackbus.wake.notes import WakeNotes

#: Seconds after which an act counts as hung: far more than one takes on a busy machine.
HANG_S = 30.0

#: A payload that becomes a blob.
LARGE = "x" * 5000

#: So large that whoever reads all of it does not end, and nearly empty on the disk.
HUGE_BYTES = 1 << 40

PRECIOUS = b"precious\n"

_BOB = hashlib.sha256(b"bob").hexdigest()[:32]

#: The files that SQLite opens, and what it may find beside them.
SQLITE = ["bus.db", "bus.db-wal", "bus.db-shm", "bus.db-journal", "search.db", "search.db-wal"]

#: Those that come and go, or are derived.
FILES = [
    *("bus.db.new", "bus.db.v4", "bus.db.v4.new", "search.db.new"),
    *("bus.jsonl", "bus.jsonl.new", "bus.index.json", "bus.index.json.new"),
    *("bus-000001.jsonl", "bus-000001.jsonl.new", "bus-000009.jsonl"),
    *("doorbell", "write.lock", "export.lock", "archive.lock", "search.lock", ".gitignore"),
    *("jsonl.lock", "background.lock"),
    *(f"archive/{segment_name(1)}", f"archive/{segment_name(11)}.new"),
    *(f"woken/{_BOB}", "backup.json", "BLOB"),
]

FOLDERS = ["blobs", "archive", "woken", "repair.new"]

NAMES = [*SQLITE, *FILES, *FOLDERS]


@dataclass(frozen=True)
class Scene:
    """A bus with something of everything, and the victims beside it."""

    root: Path

    @property
    def bus(self) -> Path:
        return self.root / "bus"

    @property
    def victim(self) -> Path:
        return self.root / "victim"

    @property
    def victims(self) -> Path:
        return self.root / "victims"

    def path(self, name: str) -> Path:
        if name != "BLOB":
            return self.bus / name
        return min(path for path in (self.bus / "blobs").iterdir() if path.name[0] == "s")

    def copy(self, root: Path) -> "Scene":
        shutil.copytree(self.root, root, symlinks=True)
        return Scene(root)


def make_scene(root: Path) -> Scene:
    """Makes a bus with blobs, parts, an archive, an index of words and notes."""
    scene = Scene(root)
    root.mkdir(parents=True)
    scene.victim.write_bytes(PRECIOUS)
    scene.victims.mkdir()
    with Bus.init(scene.bus) as bus:
        for number in range(30):
            bus.publish("note", [number, "y" * 400], from_agent="ann", id=f"m-{number}")
        bus.publish("note", [LARGE], from_agent="ann", id="large")
        Exporter(bus).rotate(4096)
        with Archiver(bus) as archiver:
            archiver.archive(10)
        bus.search("nothing")
        _woken(bus)
        ring(bus)
    return scene


# Kinds -------------------------------------------------------------------------------------------


def link_to_file(path: Path, scene: Scene) -> None:
    path.symlink_to(scene.victim)


def link_to_directory(path: Path, scene: Scene) -> None:
    path.symlink_to(scene.victims)


def dangling_link(path: Path, scene: Scene) -> None:
    path.symlink_to(scene.root / "not-there")


def hard_link(path: Path, scene: Scene) -> None:
    path.hardlink_to(scene.victim)


def fifo(path: Path, scene: Scene) -> None:
    os.mkfifo(path)


def a_socket(path: Path, scene: Scene) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # its whole path may be too long for one
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def directory(path: Path, scene: Scene) -> None:
    path.mkdir()


def huge(path: Path, scene: Scene) -> None:
    path.touch()
    os.truncate(path, HUGE_BYTES)


def mode_000(path: Path, scene: Scene) -> None:
    path.touch()
    path.chmod(0)


def other_owner(path: Path, scene: Scene) -> None:
    path.write_bytes(PRECIOUS)
    path.chmod(0o600)


Kind = Callable[[Path, Scene], None]

KINDS: list[Kind] = [
    *(link_to_file, link_to_directory, dangling_link, hard_link),
    *(fifo, a_socket, directory, huge),
]

#: Every name with every kind, but for two: a folder where one belongs is none of these traps; and
#: another ordinary file in place of one of SQLite's is damage, which `tests/fault` has.
ROWS = [
    (name, kind)
    for name in NAMES
    for kind in KINDS
    if not (name in FOLDERS and kind is directory) and not (name in SQLITE and kind is huge)
]

#: What only means something to one who is not root.
OF_RIGHTS: list[Kind] = [mode_000, other_owner]


@contextmanager
def planted(name: str, kind: Kind, scene: Scene, kept: str = "aside") -> Iterator[None]:
    """Puts something in the place of a name, and at the end what was there before.

    What a bus has put in its place meanwhile stays: then that name was free to be taken.
    """
    path = scene.path(name)
    aside = scene.root / kept
    if is_there := os.path.lexists(path):
        path.rename(aside)
    path.parent.mkdir(exist_ok=True)
    kind(path, scene)
    found = path.lstat()
    yield
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), found):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if is_there and not os.path.lexists(path):
        aside.rename(path)


# Acts --------------------------------------------------------------------------------------------

_numbers = count()


def _import(bus: Bus) -> None:
    for path in exported_files(bus.layout.jsonl):
        with open_exported(path) as stream:
            bus.import_jsonl(stream)


def _archive(bus: Bus) -> None:
    with Archiver(bus) as archiver:
        archiver.archive(20)


def _back_up(bus: Bus) -> None:
    back_up(bus, f"{bus.layout.directory}-saved-{next(_numbers)}")


def _woken(bus: Bus) -> None:
    notes = WakeNotes(bus, "bob")
    with notes.alone(0):
        notes.write(notes.last().upto + 1)


def _doctor(bus: Bus) -> None:
    list(examine(checks_of_place(bus.layout)))
    list(examine(checks_of_export(bus, full=True)))


def _listen(bus: Bus) -> None:
    with listen(bus) as listener:
        listener.wait(0)


def _beside(bus: Bus) -> None:
    exporter = BackgroundExporter(bus)
    exporter.start()
    exporter.stop()


def _in_another_thread(bus: Bus) -> None:
    """A thread opens the files of SQLite and the lock by their names."""
    file_of(bus).close_thread()
    bus.publish("note", "again", from_agent="ann")


ACTS: dict[str, Callable[[Bus], object]] = {
    "publish": lambda bus: bus.publish("note", "small", from_agent="ann"),
    "publish a blob": lambda bus: bus.publish("note", [LARGE, 1], from_agent="ann"),
    "put a blob again": lambda bus: bus.blobs.put(b'["%b"]' % LARGE.encode()),
    "ring": lambda bus: ring(bus),
    "listen": _listen,
    "publish in a thread": _in_another_thread,
    "export at the end": lambda bus: export_briefly(bus),
    "export beside": _beside,
    "poll": lambda bus: Inbox(bus, "bob").poll(5),
    "read": lambda bus: [message.payload for message in bus.read()],
    "search": lambda bus: bus.search("small"),
    "export": lambda bus: Exporter(bus).export_once(),
    "rebuild": lambda bus: Exporter(bus).rebuild(),
    "import": _import,
    "archive": _archive,
    "back up": _back_up,
    "collect": lambda bus: bus.collect_blobs(older_than_s=3600),
    "wake": _woken,
    "examine": _doctor,
}

#: What is done by the name of a bus, none of which is open.
OPENINGS: dict[str, Callable[[Path], object]] = {
    "open": lambda path: Bus.open(path).close(),
    "init": create,
    "upgrade": upgrade,
}


class Hung(BaseException):
    """An act has not ended in time; no `except Exception` swallows it."""


@contextmanager
def in_time(what: str) -> Iterator[None]:
    def up(_number: int, _frame: FrameType | None) -> None:
        raise Hung(what)

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(what: str, act: Callable[[], object]) -> None:
    """Tries an act: it works, or says in one line why not."""
    try:
        with in_time(what):
            act()
    except AckbusError as error:
        text = str(error)
        assert text, what
        assert "\n" not in text, (what, text)
        assert "Errno" not in text, (what, text)
        assert "None" not in text, (what, text)


def try_all(name: str, kind: Kind, scene: Scene, *, while_open: bool) -> None:
    """Tries every act on a bus in which something was planted."""
    if not while_open:
        with planted(name, kind, scene):
            for what, opening in OPENINGS.items():
                attempt(what, partial(opening, scene.bus))
            _act_at_rest(scene, kind)
        return
    with Bus.open(scene.bus) as bus:
        bus.publish("note", "before", from_agent="ann")
        with planted(name, kind, scene):
            _act(bus, kind)


def _act_at_rest(scene: Scene, kind: Kind) -> None:
    try:
        with in_time("open"):
            bus = Bus.open(scene.bus)
    except AckbusError:
        return
    with bus:
        _act(bus, kind)


def _act(bus: Bus, kind: Kind) -> None:
    for what, act in ACTS.items():
        if not (kind is huge and act is _import):  # to import a file is to read all of it
            attempt(what, partial(act, bus))


def check_unharmed(scene: Scene) -> None:
    """Checks that the victims are as they were, and that every message can be read."""
    assert scene.victim.read_bytes() == PRECIOUS
    assert list(scene.victims.iterdir()) == []
    assert not (scene.root / "not-there").exists()
    for name in ("search.db", "search.db-wal", "search.db-shm"):  # nobody promises to keep it
        (scene.bus / name).unlink(missing_ok=True)
    with in_time("look"), Bus.open(scene.bus) as bus:
        assert file_of(bus).value("PRAGMA integrity_check") == "ok"
        found = {message.id: message.payload for message in bus.read()}
        assert [found.get(f"m-{number}") for number in range(30)] == [
            [number, "y" * 400] for number in range(30)
        ]
        assert found["large"] == [LARGE]
        Exporter(bus).rebuild()
    with apsw.Connection(str(scene.bus / "bus.db")) as raw:
        assert raw.execute("SELECT count(*) FROM archive_segments").get


# Rights ------------------------------------------------------------------------------------------

#: A user whom the kernel tells from root, and who needs no entry in a list of users.
SECOND_USER = 54321


def try_as_another_user(rows: list[tuple[str, Kind]], scene: Scene) -> list[str]:
    """Tries rows as a second user, whose bus it is, in a process of that user's.

    Args:
        rows: names and kinds; what is planted is root's, or has no rights.
        scene: where that user may enter.

    Returns:
        What went wrong, a line for each row.
    """
    wrong = []
    for number, (name, kind) in enumerate(rows):
        copy = scene.copy(scene.root.parent / f"row-{number}")
        _give(copy.root, SECOND_USER)
        with planted(name, kind, copy):
            if kind is mode_000:
                os.chown(copy.path(name), SECOND_USER, SECOND_USER)
            code, text = _in_child(partial(_as_second_user, copy))
        if code != 0:
            wrong.append(f"{name} {kind.__name__}: {text}")
        _give(copy.root, 0)
        check_unharmed(copy)
        shutil.rmtree(copy.root)
    return wrong


def _give(root: Path, user: int) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def _as_second_user(scene: Scene) -> None:
    os.setgroups([])
    os.setgid(SECOND_USER)
    os.setuid(SECOND_USER)
    for what, opening in OPENINGS.items():
        attempt(what, partial(opening, scene.bus))
    _act_at_rest(scene, mode_000)


def _in_child(act: Callable[[], None]) -> tuple[int, str]:
    """Calls something in a forked process; returns its exit code, and what it raised."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}"[:4000].encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        text = said.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), text
