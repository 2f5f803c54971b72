"""Making, finding and opening a bus: what is there, and each thing that is refused."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.errors import BusNotFound, BusUnusable
from ackbus.schema.directory import layout
from ackbus.schema.directory.discovery import find_bus
from ackbus.schema.directory.layout import filesystem_of
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.sqlite_errors import check_sqlite_version

from ..conftest import RunBus
from ..programs import connect, run_program_to_sigkill

MOUNTS = """\
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/bob/local\\040disk rw - xfs /dev/vdb rw
32 22 0:42 / /homework rw shared:3 master:1 - tmpfs tmpfs rw
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_init_makes_the_documented_directory(bus_dir: Path, bus: Bus) -> None:
    """M-11: the database, the blobs; `bus.jsonl` comes with the first export."""
    assert bus_dir.name == ".worker-state"
    assert (bus_dir / "bus.db").is_file()
    assert (bus_dir / "blobs").is_dir()
    ref = bus.blobs.put(b"content")
    assert (bus_dir / "blobs" / ref).read_bytes() == b"content"
    assert Path(bus.layout.jsonl) == bus_dir / "bus.jsonl"


def test_git_sees_nothing_of_a_bus(project: Path, bus_dir: Path, bus: Bus) -> None:
    """M-11, M-07: no sweep of git's takes what it does not see; `bus setup git` lets it in."""
    git = ["git", "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    (bus_dir / "bus.jsonl").write_text("{}\n")
    (bus_dir / "workers").mkdir()
    (bus_dir / "workers" / "alice.json").write_text("{}")
    bus.publish("note", "x" * 5000, from_agent="bob")
    assert (bus_dir / "bus.db-wal").exists()
    status = [*git, "status", "--porcelain", "--untracked-files=all"]
    listed = subprocess.run(status, check=True, capture_output=True, text=True).stdout
    assert listed == ""


def test_bus_works_without_worker_state_files(bus_dir: Path, bus: Bus) -> None:
    """M-13: messages are in the database; `workers/` may come and go."""
    workers = bus_dir / "workers"
    workers.mkdir()
    (workers / "alice.json").write_text("{}")
    bus.publish("note", from_agent="bob")
    (workers / "alice.json").unlink()
    workers.rmdir()
    assert [message.type for message in bus.read()] == ["note"]


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """M-11: directories 0700, files 0600, whatever the umask would give."""
    previous = os.umask(0)
    try:
        with Bus.init(tmp_path / "made" / "bus") as bus:
            bus.publish("note", "x" * 5000, from_agent="bob")
            made = list((tmp_path / "made" / "bus").rglob("*"))
            assert {path.name for path in made} >= {"bus.db", "bus.db-wal", "bus.db-shm", "blobs"}
            wrong = {
                path.name: oct(mode(path))
                for path in [tmp_path / "made" / "bus", *made]
                if mode(path) != (0o700 if path.is_dir() else 0o600)
            }
    finally:
        os.umask(previous)
    assert wrong == {}


def test_init_leaves_a_bus_that_is_there_alone(bus_dir: Path, bus: Bus) -> None:
    """M-11: repeating it is safe."""
    bus.publish("note", from_agent="bob")
    with Bus.init(bus_dir) as again:
        assert [message.seq for message in again.read()] == [1]


def test_init_begins_again_after_a_crash(tmp_path: Path) -> None:
    """M-06: nobody opens half a bus, since its file comes into place whole."""
    directory = tmp_path / "bus"
    directory.mkdir()
    (directory / "bus.db.new").write_bytes(b"half a database")
    with pytest.raises(BusNotFound):
        Bus.open(directory)
    with Bus.init(directory) as bus:
        assert bus.publish("note", from_agent="bob").seq == 1
    assert not (directory / "bus.db.new").exists()


def test_init_fills_an_empty_file_and_leaves_a_strange_one(tmp_path: Path) -> None:
    """Promise 11: a database that is not a bus is refused and left alone."""
    empty, strange = tmp_path / "empty", tmp_path / "strange"
    for directory in (empty, strange):
        directory.mkdir()
        (directory / "bus.db").touch()
    Bus.init(empty).close()
    connect(strange).execute("PRAGMA journal_mode = WAL").fetchall()
    for make in (Bus.init, Bus.open):
        with pytest.raises(BusUnusable, match=r"bus\.db is not a bus$"):
            make(strange)


def test_bus_is_found_from_below(
    project: Path, bus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-11: by walking up, as git does; BUS_DIR wins; nothing found names where it looked."""
    monkeypatch.delenv("BUS_DIR", raising=False)
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    assert Path(find_bus(below)) == bus_dir
    monkeypatch.chdir(below)
    Bus.open().close()
    monkeypatch.setenv("BUS_DIR", str(project / "elsewhere"))
    assert Path(find_bus(below)) == project / "elsewhere"
    monkeypatch.delenv("BUS_DIR")
    with pytest.raises(BusNotFound, match=f"no bus in {project.parent} or above it"):
        find_bus(project.parent)


@pytest.mark.parametrize("name", [".git", "git_dir/commondir"])
def test_search_for_a_bus_waits_for_no_pipe_and_reads_no_device(
    name: str, tmp_path: Path, run_bus: RunBus
) -> None:
    """Anyone may put the files of a linked work tree into a folder that all may write."""
    (tmp_path / "git_dir").mkdir()
    (tmp_path / ".git").write_text(f"gitdir: {tmp_path}/git_dir\n")
    for put in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
        Path(tmp_path / name).unlink(missing_ok=True)
        put(tmp_path / name)
        assert "no bus in" in run_bus("where", cwd=tmp_path).err


def test_directory_without_a_bus_is_not_made_one(tmp_path: Path) -> None:
    """M-29, promise 11: opening never creates."""
    with pytest.raises(BusNotFound, match="make one with 'bus init'"):
        Bus.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "bus.db").touch()
    with pytest.raises(BusNotFound):
        Bus.open(tmp_path)
    assert (tmp_path / "bus.db").stat().st_size == 0


def test_export_without_a_bus_tells_both_ways(tmp_path: Path) -> None:
    """A clone of git has the export alone, and so has a bus that lost its file."""
    directory = tmp_path / ".worker-state"
    directory.mkdir()
    for text, expected in (
        ("", "no bus in .*; make one with 'bus init'$"),  # a new bus has it, empty
        ('{"seq":1}\n', f"no bus in {directory}, only its bus.jsonl; .*'bus init', .*--repair'"),
    ):
        (directory / "bus.jsonl").write_text(text)
        for look in (lambda: Bus.open(directory), lambda: find_bus(tmp_path)):
            with pytest.raises(BusNotFound, match=expected):
                look()
    Bus.init(directory).close()


def test_newer_schema_is_refused(bus_dir: Path) -> None:
    """M-20: with both versions named, and nothing migrated in silence."""
    connect(bus_dir).execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    expected = rf"has schema version 999, and this ackbus knows version {SCHEMA_VERSION};"
    with pytest.raises(BusUnusable, match=expected):
        Bus.open(bus_dir)
    with pytest.raises(BusUnusable, match=expected):
        Bus.init(bus_dir)
    assert connect(bus_dir).execute("SELECT value FROM meta").get == "999"


@pytest.mark.parametrize("text", [b"this is a text file\n" * 100, b"\0" * 4096])
def test_file_that_is_no_database_is_refused(text: bytes, bus_dir: Path) -> None:
    """M-29: and left as it is."""
    for name in ("bus.db-wal", "bus.db-shm"):
        (bus_dir / name).unlink(missing_ok=True)
    (bus_dir / "bus.db").write_bytes(text)
    with pytest.raises(BusUnusable, match=r"bus\.db is (damaged or is not a bus|not a bus)"):
        Bus.open(bus_dir)
    assert (bus_dir / "bus.db").read_bytes() == text


def test_other_database_is_refused(bus_dir: Path) -> None:
    """M-29: an SQLite file with other tables."""
    connection = connect(bus_dir)
    connection.execute("DROP TABLE meta")
    connection.close()
    with pytest.raises(BusUnusable, match=r"bus\.db is not a bus$"):
        Bus.open(bus_dir)


def test_read_only_bus_gives_one_line(bus_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-29: the check asks the kernel; for root, who may do all, the answer is given here."""
    real_access = os.access

    def no_writing(path: str, wanted: int) -> bool:
        return wanted != os.W_OK and real_access(path, wanted)

    monkeypatch.setattr("ackbus.schema.sqlite.database.os.access", no_writing)
    with pytest.raises(BusUnusable) as caught:
        Bus.open(bus_dir)
    assert str(caught.value).startswith(
        f"the bus in {bus_dir} is read-only for this user; a bus needs write access even for"
        f" reading; ask its owner, or chmod {bus_dir.name}, bus.db"
    )


def test_init_where_a_file_stands_gives_one_line(tmp_path: Path) -> None:
    """M-29: the same line for every reason that the system gives."""
    (tmp_path / "file").touch()
    with pytest.raises(BusUnusable, match=r"^can't make a bus in \S+: Not a directory$"):
        Bus.init(tmp_path / "file" / "bus")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/bus", "ext4"),
        ("/home", "nfs4"),
        ("/home/bob/bus", "nfs4"),
        ("/home/bob/local disk/bus", "xfs"),
        ("/homework/bus", "tmpfs"),
    ],
)
def test_filesystem_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    """PITFALLS 3: names with spaces and optional fields included."""
    assert filesystem_of(path, MOUNTS.splitlines()) == kind


def test_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PITFALLS 3, M-29: by init, which makes no database there, and by open."""
    Bus.init(tmp_path / "local").close()
    monkeypatch.setattr("ackbus.schema.directory.layout.os.major", lambda device: 0)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 22 0:40 / {tmp_path} rw - nfs4 server:/home rw\n")
    real_open = open
    monkeypatch.setattr(
        layout, "open", lambda path, **options: real_open(mounts, **options), raising=False
    )
    expected = r"is on a network filesystem \(nfs4\), where SQLite can lose data"
    with pytest.raises(BusUnusable, match=expected):
        Bus.init(tmp_path / "bus")
    assert not (tmp_path / "bus" / "bus.db").exists()
    with pytest.raises(BusUnusable, match=expected):
        Bus.open(tmp_path / "local")


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.44.5", "3.50.6", "3.51.2", "3.45.0"])
def test_sqlite_that_can_corrupt_a_log_is_refused(version: str) -> None:
    """PITFALLS 2: the WAL-reset bug."""
    with pytest.raises(BusUnusable, match=f"SQLite {version} can corrupt a bus"):
        check_sqlite_version(version)


@pytest.mark.parametrize("version", ["3.44.6", "3.50.7", "3.51.3", "3.52.0", "4.0.0"])
def test_sqlite_with_the_fix_is_accepted(version: str) -> None:
    """PITFALLS 2."""
    check_sqlite_version(version)


def test_init_beside_a_left_write_ahead_log_is_refused(bus_dir: Path) -> None:
    """Promise 1: SQLite would play the log of a file that is gone into the new one."""
    run_program_to_sigkill(
        """
        import os, signal, sys
        from ackbus import Bus
        bus = Bus.open(sys.argv[1])
        bus.publish("note", from_agent="bob")
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        bus_dir,
    )
    moved = (bus_dir / "bus.db").rename(bus_dir / "moved")
    with pytest.raises(BusUnusable, match=r"put bus\.db back"):
        Bus.init(bus_dir)
    moved.rename(bus_dir / "bus.db")
    with Bus.init(bus_dir) as bus:
        assert bus.log.newest_seq() == 1


def test_naming_the_project_instead_of_its_bus_gets_a_hint(project: Path, bus_dir: Path) -> None:
    """Promise 11: --dir and BUS_DIR name the bus directory itself."""
    with pytest.raises(BusNotFound, match=rf"did you mean {bus_dir}\?$"):
        Bus.open(project)


def test_directory_that_a_clone_of_git_made_is_closed(tmp_path: Path) -> None:
    """Git checks out with the modes of everybody's files."""
    directory = tmp_path / ".worker-state"
    directory.mkdir()
    directory.chmod(0o755)
    Bus.init(directory).close()
    assert mode(directory) == 0o700
    directory.chmod(0o750)  # its owner may open it, and keeps that
    Bus.init(directory).close()
    assert mode(directory) == 0o750
