"""bus blob put, get, verify, gc."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.message.names import MAX_PAYLOAD_BYTES

from ..conftest import RunBus
from .conftest import BUS, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")

DATA = bytes(range(256)) * 5000
REF = f"sha256-{hashlib.sha256(DATA).hexdigest()}"


def test_bytes_come_back_as_they_went(
    run_bus: RunBus, project: Path, bus_env: dict[str, str]
) -> None:
    """M-87: a name from the hash; any bytes, streamed."""
    (project / "in").write_bytes(DATA)
    assert run_bus("blob", "put", "in").out == f"{REF}\n"
    stored = json.loads(run_bus("blob", "put", "--json", stdin=DATA).out)
    assert stored == {"ref": REF, "bytes": len(DATA)}
    assert run_bus("blob", "get", REF, "-o", "out").code == 0
    assert (project / "out").read_bytes() == DATA
    done = subprocess.run(
        [BUS, "blob", "get", REF], stdout=subprocess.PIPE, cwd=project, env=bus_env, check=True
    )
    assert done.stdout == DATA


@pytest.mark.slow
def test_large_blob_is_not_held_in_memory(project: Path, bus_env: dict[str, str]) -> None:
    """Issue 2, item 8: large bytes stream."""
    with open(project / "large", "wb") as file:
        file.truncate(300_000_000)
    limit = f"ulimit -v 400000; exec {BUS} blob put large"
    done = subprocess.run(
        ["sh", "-c", limit], capture_output=True, text=True, cwd=project, env=bus_env, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sha256-")


def test_verify_tells_altered_from_missing(run_bus: RunBus, bus: Bus, bus_dir: Path) -> None:
    """M-91, M-92: a blob that is missing or altered."""
    good, bad = bus.blobs.put(b"good"), bus.blobs.put(b"bad")
    assert run_bus("blob", "verify").out.count("  ok\n") == 2
    (bus_dir / "blobs" / bad).write_bytes(b"BAD")
    checked = run_bus("blob", "verify", REF, bad, good, "--json")
    assert checked.code == 1
    assert [json.loads(line) for line in checked.out.splitlines()] == [
        {"ref": REF, "ok": False, "error": "blob_missing"},
        {"ref": bad, "ok": False, "error": "blob_altered"},
        {"ref": good, "ok": True, "bytes": 4},
    ]
    assert run_bus("blob", "verify", good, REF).code == 4
    assert_error(run_bus("blob", "get", bad), 1, "altered")
    assert_error(run_bus("blob", "get", REF), 4, "no blob")
    assert_error(run_bus("blob", "get", "../../etc/passwd"), 2, "not a blob name")


def test_verify_does_not_call_altered_what_it_can_not_read(run_bus: RunBus, bus_dir: Path) -> None:
    (bus_dir / "blobs" / REF).mkdir()
    checked = run_bus("blob", "verify")
    assert (checked.code, checked.out) == (1, f"{REF}  unreadable\n")
    assert "can't be read" in checked.err


def test_failed_get_leaves_the_file_as_it_was(run_bus: RunBus, project: Path) -> None:
    (project / "out").write_text("precious")
    assert run_bus("blob", "get", REF, "-o", "out").code == 4
    assert (project / "out").read_text() == "precious"
    assert_error(run_bus("blob", "put", "missing"), 2, "missing")
    assert_error(run_bus("blob", "put", "."), 2, ".")


def test_gc_takes_the_old_and_unnamed_only(run_bus: RunBus, bus: Bus, bus_dir: Path) -> None:
    """M-93: collects only unreferenced, old-enough blobs; a dry run changes nothing."""
    bus.publish("t", "named" * 1000, from_agent="a")
    bus.blobs.put(b"young")
    old = bus.blobs.put(b"old")
    os.utime(bus_dir / "blobs" / old, (0, 0))
    for name in os.listdir(bus_dir / "blobs"):
        if name != old and bus.blobs.size(name) > 100:
            os.utime(bus_dir / "blobs" / name, (0, 0))
    before = sorted(bus.blobs)
    dry = json.loads(run_bus("blob", "gc", "--dry-run", "--json").out)
    assert dry == {"blobs": 1, "bytes": 3, "dry_run": True}
    assert sorted(bus.blobs) == before
    assert run_bus("blob", "gc").out == "collected 1 blob, 3 bytes\n"
    assert sorted(bus.blobs) == [ref for ref in before if ref != old]
    assert json.loads(run_bus("blob", "gc", "--older-than", "0", "--json").out)["blobs"] == 1


@pytest.mark.slow
def test_a_blob_too_large_for_a_payload_is_published_by_its_name(
    run_bus: RunBus, bus_dir: Path, project: Path
) -> None:
    """X-19, promise 9: the way that the error about a large body names; the collector spares it."""
    big = project / "big.bin"
    with big.open("wb") as file:
        file.truncate(MAX_PAYLOAD_BYTES + 1)
    ref = run_bus("blob", "put", big).out.strip()
    published = run_bus("publish", "build.log", "--payload-ref", ref, "--from", "a")
    assert published.code == 0, published.err
    assert run_bus("blob", "gc", "--older-than", "0s").code == 0
    polled = json.loads(run_bus("poll", "b", "--json").out)
    assert (polled["payload_ref"], polled["payload_error"]) == (ref, "too_large")
    assert run_bus("blob", "get", ref, "-o", project / "copy").code == 0
    assert (project / "copy").stat().st_size == MAX_PAYLOAD_BYTES + 1
    missing = run_bus("publish", "build.log", "--payload-ref", "sha256-" + "0" * 64, "--from", "a")
    assert missing.code == 4
    both = run_bus("publish", "build.log", "text", "--payload-ref", ref, "--from", "a")
    assert both.code == 2
