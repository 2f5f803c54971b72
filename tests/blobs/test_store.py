"""The blob store: whole or not at all, named by content, checked on every read."""

import errno
import gc
import hashlib
import io
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackbus import BlobStore, Bus, Draft, Inbox
from ackbus.blobs.store import CHUNK_BYTES
from ackbus.errors import BlobAltered, BlobMissing, BusUnusable, InvalidInput
from ackbus.schema.directory.folder import Folder
from ackbus.schema.queries import file_of

from ..programs import connect, run_program, running_program

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGE = "x" * 5000


def files(bus: Bus) -> set[str]:
    return set(os.listdir(bus.layout.blobs))


def test_blob_is_named_by_the_hash_of_its_bytes(bus: Bus) -> None:
    """M-87: `sha256-` and 64 hex digits; the file of that name holds the bytes."""
    ref = bus.blobs.put(b"content")
    assert ref == f"sha256-{hashlib.sha256(b'content').hexdigest()}"
    assert (Path(bus.layout.blobs) / ref).read_bytes() == b"content"
    assert bus.blobs.read(ref) == b"content"
    assert (ref in bus.blobs, list(bus.blobs), bus.blobs.size(ref)) == (True, [ref], 7)


def test_large_payload_is_the_blob_of_its_json(bus: Bus) -> None:
    """M-87, M-09, C-06: its row holds the name alone."""
    bus.publish("note", LARGE, from_agent="bob")
    (message,) = bus.read()
    digest = hashlib.sha256(b'"' + LARGE.encode() + b'"').hexdigest()
    assert message.payload_ref == f"sha256-{digest}"
    assert message.raw_payload is None
    assert message.payload == LARGE


def test_payloads_of_4096_bytes_stay_inline_and_longer_ones_do_not(bus: Bus) -> None:
    """M-42, X-19: counted in bytes of UTF-8 JSON."""
    bus.publish("note", "x" * 4094, from_agent="bob")
    bus.publish("note", "x" * 4095, from_agent="bob")
    bus.publish("note", "é" * 2047, from_agent="bob")
    bus.publish("note", "é" * 2048, from_agent="bob")
    bus.publish("note", "é" * 1000, from_agent="bob")
    kinds = [message.payload_ref is not None for message in bus.read()]
    assert kinds == [False, True, False, True, False]


def test_payload_of_a_megabyte_round_trips(bus: Bus) -> None:
    """X-19, M-10: where it is stored is invisible to readers."""
    payload = {"text": "é🙂" * 250_000}
    bus.publish("note", payload, from_agent="bob")
    (message,) = Inbox(bus, "alice").poll()
    assert message.payload == payload


def test_equal_content_in_other_order_is_one_blob(bus: Bus) -> None:
    """M-93: payloads are stored as canonical JSON."""
    bus.publish("note", {"a": LARGE, "b": 1}, from_agent="bob")
    bus.publish("note", {"b": 1, "a": LARGE}, from_agent="bob")
    assert len(list(bus.blobs)) == 1


def test_stored_content_is_not_written_again(bus: Bus) -> None:
    """M-89: same inode and time, from bytes and from a stream; no temporary file stays."""
    ref = bus.blobs.put(b"content")
    path = Path(bus.layout.blobs) / ref
    os.utime(path, ns=(1, 1))
    before = path.stat()
    assert bus.blobs.put(b"content") == ref
    assert bus.blobs.put(io.BytesIO(b"content")) == ref
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, 1)
    assert files(bus) == {ref}


@pytest.mark.parametrize(("max_bytes", "found"), [(7, b"content"), (6, None)])
def test_blob_can_be_read_if_it_is_small_enough(
    bus: Bus, max_bytes: int, found: bytes | None
) -> None:
    assert bus.blobs.read_up_to(bus.blobs.put(b"content"), max_bytes) == found


def test_blob_cut_short_by_damage_is_written_again(bus: Bus) -> None:
    """Promise 9: a file of the right name and the wrong size does not count as stored."""
    ref = bus.blobs.put(b"content")
    (Path(bus.layout.blobs) / ref).write_bytes(b"con")
    assert bus.blobs.put(b"content") == ref
    assert bus.blobs.read(ref) == b"content"


def test_missing_blob_is_a_file_not_found_error(bus: Bus) -> None:
    """M-91: in every way of reading, and one line that names it."""
    ref = "sha256-" + "0" * 64
    for read in (bus.blobs.read, bus.blobs.verify, bus.blobs.size):
        with pytest.raises(FileNotFoundError, match=f"^no blob {ref} in "):
            read(ref)
    with pytest.raises(BlobMissing):
        bus.blobs.copy(ref, io.BytesIO())
    assert ref not in bus.blobs


BAD_REFS = [
    "../../etc/passwd",
    "sha256-../../../../etc/passwd",
    "sha256-" + "A" * 64,
    "sha256-" + "0" * 63,
    "sha256-" + "0" * 64 + "\n",
    "sha256-" + "٣" * 64,
    "",
]


@pytest.mark.parametrize("ref", BAD_REFS, ids=ascii)
def test_name_that_is_no_blob_name_is_refused(ref: str, bus: Bus, bus_dir: Path) -> None:
    """M-92: before any file is touched; and a row that carries one harms no reader."""
    for use in (bus.blobs.read, bus.blobs.verify, bus.blobs.size, bus.blobs.remove):
        with pytest.raises(InvalidInput, match="is not a blob name") as caught:
            use(ref)
        assert str(caught.value).isprintable()
    assert ref not in bus.blobs
    with pytest.raises(BlobMissing):
        bus.publish_many([Draft("note", from_agent="bob", payload_ref=ref)])
    connect(bus_dir).execute(
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload_ref)"
        " VALUES ('m', 1, 'raw', 'note', ?)",
        (ref,),
    )
    (message,) = Inbox(bus, "alice").poll()
    assert (message.payload, message.payload_error) == (None, "blob_missing")


def test_flipped_byte_is_found_on_every_read(bus: Bus) -> None:
    """M-92, promise 9: and nothing of it reaches the output."""
    ref = bus.blobs.put(b"content" * 1000)
    path = Path(bus.layout.blobs) / ref
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    for read in (bus.blobs.read, bus.blobs.verify):
        with pytest.raises(BlobAltered, match=f"^blob {ref} is altered"):
            read(ref)
    out = io.BytesIO()
    with pytest.raises(BlobAltered):
        bus.blobs.copy(ref, out)
    assert out.getvalue() == b""


def test_message_with_a_missing_blob_is_still_delivered(bus: Bus) -> None:
    """M-51: with the reason; the same for an altered one."""
    bus.publish("note", LARGE, from_agent="bob")
    bus.publish("note", LARGE + "y", from_agent="bob")
    first, second = Inbox(bus, "alice").poll()
    assert first.payload_ref is not None
    assert second.payload_ref is not None
    (Path(bus.layout.blobs) / first.payload_ref).unlink()
    (Path(bus.layout.blobs) / second.payload_ref).write_bytes(b"other")
    assert (first.payload, first.payload_error) == (None, "blob_missing")
    assert (second.payload, second.payload_error) == (None, "blob_altered")
    assert b'"payload_error":"blob_missing"' in first.to_json()


def test_draft_that_names_no_stored_blob_is_refused(bus: Bus) -> None:
    """Promise 9: nothing is stored."""
    with pytest.raises(BlobMissing, match="put it there first"):
        bus.publish_many([Draft("note", from_agent="bob", payload_ref="sha256-" + "0" * 64)])
    assert bus.log.newest_seq() == 0


@pytest.mark.slow
def test_large_blob_streams(bus: Bus, tmp_path: Path) -> None:
    """M-87: in pieces; a process with little memory stores, checks and copies 200 MB."""
    out = run_program(
        """
        import resource, sys
        from ackbus import BlobStore
        class Zeros:
            left = 200_000_000
            def read(self, size):
                size = min(size, self.left)
                self.left -= size
                return bytes(size)
        store = BlobStore(sys.argv[1])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ref = store.put(Zeros())
        with open("/dev/null", "wb") as out:
            print(ref, store.copy(ref, out))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
        """,
        bus.layout.blobs,
    )
    digest = hashlib.sha256()
    for _ in range(200):
        digest.update(bytes(1_000_000))
    assert out.split() == [f"sha256-{digest.hexdigest()}", "200000000"]


def test_blob_is_whole_or_absent_when_its_writer_is_killed(bus: Bus) -> None:
    """M-88, M-06: killed while it writes, only a temporary file is there; the next put works."""
    with running_program(
        """
        import sys
        from ackbus import BlobStore
        class Endless:
            sent = 0
            def read(self, size):
                self.sent += 1
                if self.sent == 3:
                    print("writing", flush=True)
                    sys.stdin.read()
                return b"x" * size
        BlobStore(sys.argv[1]).put(Endless())
        """,
        bus.layout.blobs,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        (left,) = files(bus)
        assert left.startswith(".tmp-")
        assert (Path(bus.layout.blobs) / left).stat().st_size == 2 * CHUNK_BYTES
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert list(bus.blobs) == []
    ref = bus.blobs.put(b"content")
    assert files(bus) == {left, ref}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that the store asks of the disk, in order."""
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        steps.append(f"fsync {'folder' if os.path.isdir(f'/proc/self/fd/{fd}') else 'file'}")
        real_fsync(fd)

    def rename(source: str, target: str, **folders: int) -> None:
        assert os.path.samestat(*map(os.fstat, folders.values()))
        steps.append("replace")
        real_rename(source, target, **folders)

    monkeypatch.setattr("ackbus.blobs.store.os.fsync", fsync)
    monkeypatch.setattr("ackbus.schema.directory.folder.os.rename", rename)
    return steps


def test_blob_is_on_disk_before_its_name_is(bus: Bus, steps: list[str]) -> None:
    """M-88, promise 9: fsync of the file, then the atomic rename, then fsync of the folder."""
    bus.blobs.put(b"content")
    assert steps == ["fsync file", "replace", "fsync folder"]
    bus.blobs.put(b"content")  # this process knows that it is there
    assert steps[3:] == []


def test_name_of_a_blob_that_is_there_is_on_disk_too(bus: Bus, steps: list[str]) -> None:
    """Promise 9: who stored it may have died, or be, before the last step: once is enough."""
    content = b"content"
    Path(bus.layout.blobs, f"sha256-{hashlib.sha256(content).hexdigest()}").write_bytes(content)
    for _ in range(3):
        bus.blobs.put(content)
    assert steps == ["fsync folder"]


def test_blobs_of_a_batch_share_the_wait_for_their_names(bus: Bus, steps: list[str]) -> None:
    """M-88, promise 9: each is on disk before any has its name; equal ones are written once."""
    payloads = [f"{number}{LARGE}" for number in (1, 2, 1)]
    bus.publish_many(Draft("note", payload, from_agent="bob") for payload in payloads)
    assert steps == ["fsync file"] * 2 + ["replace"] * 2 + ["fsync folder"]
    assert [message.payload for message in bus.read()] == payloads
    assert len(files(bus)) == 2


def test_blob_of_a_message_is_there_before_its_row(bus: Bus) -> None:
    """Promise 9: a reader that sees the message can read its payload."""
    seen: list[set[str]] = []
    file_of(bus).connection.trace_v2(1, lambda event: seen.append(files(bus)))
    bus.publish("note", LARGE, from_agent="bob")
    file_of(bus).connection.trace_v2(0, None)
    assert seen
    assert all(len(names) == 1 for names in seen)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a real filesystem of 64 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user can't mount a small filesystem; the limit of a file shows the same")
    yield path
    gc.collect()
    subprocess.run(["umount", str(path)], check=True)


@pytest.mark.slow
def test_full_disk_leaves_nothing_behind(full_disk: Path) -> None:
    """M-90, M-29: one line, no temporary file, and room for smaller blobs."""
    store = BlobStore(str(full_disk))
    with pytest.raises(BusUnusable, match=f"^the disk under {full_disk} is full; nothing was"):
        store.put(b"x" * 200_000)
    assert os.listdir(full_disk) == []
    assert store.read(store.put(b"small")) == b"small"


def test_batch_that_finds_no_room_leaves_nothing_behind(bus: Bus) -> None:
    """M-90: neither the blobs that it could write, nor a message."""
    out = run_program(
        """
        import os, resource, signal, sys
        from ackbus import Bus, Draft
        from ackbus.errors import BusUnusable
        with Bus.open(sys.argv[1]) as bus:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            try:
                bus.publish_many(Draft("n", "x" * size, from_agent="bob") for size in (5000, 20000))
            except BusUnusable:
                print(os.listdir(bus.layout.blobs), bus.log.newest_seq())
        """,
        bus.layout.directory,
    )
    assert out == "[] 0\n"


def test_failing_write_leaves_nothing_behind(bus: Bus) -> None:
    """M-90: here by the system's limit on the size of a file, which needs no rights."""
    out = run_program(
        """
        import os, resource, signal, sys
        from ackbus import BlobStore
        from ackbus.errors import BusUnusable
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            BlobStore(sys.argv[1]).put(b"x" * 20_000)
        except BusUnusable as error:
            print(error)
        print(os.listdir(sys.argv[1]))
        """,
        bus.layout.blobs,
    )
    assert out == f"a blob can't be written in {bus.layout.blobs}: File too large\n[]\n"


def test_failed_stream_leaves_nothing_behind(bus: Bus) -> None:
    """M-90: an error of the source is the caller's, as it is."""

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        bus.blobs.put(Broken())
    assert files(bus) == set()


def test_store_that_is_gone_is_empty_and_made_again(bus: Bus) -> None:
    """M-87: a clone from git has no empty folders."""
    os.rmdir(bus.layout.blobs)
    assert list(bus.blobs) == []
    assert bus.collect_blobs(older_than_s=0) == (0, 0)
    bus.publish("note", LARGE, from_agent="bob")
    (message,) = bus.read()
    assert message.payload == LARGE


def test_publish_without_a_place_for_its_blob_gives_one_line(bus: Bus) -> None:
    """M-90, M-29: and no message without its payload."""
    os.rmdir(bus.layout.blobs)
    Path(bus.layout.blobs).touch()
    with pytest.raises(BusUnusable, match=r"blobs is a file, where the bus needs a dir"):
        bus.publish("note", LARGE, from_agent="bob")
    assert bus.log.newest_seq() == 0


def test_putting_a_blob_again_makes_the_collector_wait(bus: Bus) -> None:
    """Promise 9: who puts an old blob again may be about to publish it; its time stays (M-89)."""
    ref = bus.blobs.put(b"content")
    path = Path(bus.layout.blobs, ref)
    os.utime(path, (1, 1))
    bus.blobs.put(b"content")
    assert path.stat().st_mtime == 1
    assert bus.collect_blobs() == (0, 0)
    bus.publish("note", from_agent="bob", payload_ref=ref)
    os.utime(path, (1, 1))
    assert bus.collect_blobs() == (0, 0)


def test_blob_that_the_system_refuses_to_read_is_said_of_its_message_alone(bus: Bus) -> None:
    """M-51, promise 5: whoever polls gets past it."""
    bus.publish("note", LARGE, from_agent="bob")
    bus.publish("note", "behind", from_agent="bob")
    (ref,) = bus.blobs
    path = Path(bus.layout.blobs, ref)
    path.unlink()
    path.mkdir()
    first, second = bus.read()
    assert (first.payload, first.payload_error) == (None, "blob_unreadable")
    assert b'"payload_error":"blob_unreadable"' in first.to_json()
    assert second.payload == "behind"


class BreakingDisk(Folder):
    """A folder on a disk that has a bad block in the second piece of each file."""

    def read(self, name: str) -> io.BufferedReader:
        return io.BufferedReader(BadBlock(super().read(name).detach()))


class BadBlock(io.RawIOBase):
    def __init__(self, file: io.RawIOBase) -> None:
        self.file = file

    def fileno(self) -> int:
        return self.file.fileno()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        return self.file.seek(place, whence)

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        if self.file.tell() + len(memoryview(buffer)) > CHUNK_BYTES:
            raise OSError(errno.EIO, "Input/output error")
        return self.file.readinto(buffer)

    def close(self) -> None:
        self.file.close()
        super().close()


def test_disk_that_breaks_in_the_middle_of_a_blob_is_told_in_a_line(bus: Bus) -> None:
    ref = bus.blobs.put(os.urandom(2 * CHUNK_BYTES))
    blobs = BlobStore(BreakingDisk(bus.layout.blobs, bus.layout.files))
    for read in (
        lambda: blobs.verify(ref),
        lambda: blobs.read(ref),
        lambda: blobs.copy(ref, io.BytesIO()),
        lambda: blobs.copy_part(ref, io.BytesIO(), 0, CHUNK_BYTES + 1),
    ):
        with pytest.raises(BusUnusable, match=f"^blob {ref} can't be read: Input/output error$"):
            read()
