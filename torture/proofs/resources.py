"""Proof: nothing grows without a bound."""

from __future__ import annotations

from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measures import Measures

_MIB = 1024 * 1024

#: How long the write-ahead log may become, in bytes. From 125 MiB on SQLite brings it into the file
#: inside a commit, where all who should have done so earlier were killed; a suspended reader, or a
#: disk that can't keep up, makes it longer.
MAX_WAL_BYTES = 256 * _MIB

#: By how much a process may grow from the first to the last third of its life: resident memory in
#: bytes, which SQLite's cache, pages of messages and the allocator fill by and by; and descriptors,
#: since a thread that checkpoints has a few for a moment.
MAX_GROWN_BYTES, MAX_GROWN_DESCRIPTORS = 24 * _MIB, 8


def prove_resources(measures: Measures) -> Verdict:
    """Judge the measurements; if no process lived for a minute, only that of the WAL."""
    verdict = Verdict(
        "resources",
        f"the write-ahead log stayed below {MAX_WAL_BYTES // _MIB} MiB; no process that lived for"
        f" a minute grew by {MAX_GROWN_BYTES // _MIB} MiB or {MAX_GROWN_DESCRIPTORS} descriptors",
    )
    wal_bytes, memory, descriptors = (
        measures.max_wal_bytes,
        measures.memory,
        measures.descriptors,
    )
    verdict.expect(
        wal_bytes < MAX_WAL_BYTES, f"the write-ahead log had {wal_bytes / _MIB:,.0f} MiB"
    )
    if memory is not None and descriptors is not None:
        verdict.checked += memory.processes
        if memory.most_grown >= MAX_GROWN_BYTES:
            verdict.fail(f"a process grew by {memory.most_grown / _MIB:,.0f} MiB")
        if descriptors.most_grown >= MAX_GROWN_DESCRIPTORS:
            verdict.fail(f"a process grew by {descriptors.most_grown:,.0f} descriptors")
    return verdict
