"""Traps at random places of a bus directory, several at once, and random acts on the bus."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

from ackbus import Bus

from ..hostile_directory.table import (
    ACTS,
    ROWS,
    Kind,
    Scene,
    attempt,
    check_unharmed,
    huge,
    make_scene,
    planted,
)

#: One trap for each of some names, and the acts in their order.
traps = st.tuples(
    st.lists(st.sampled_from(ROWS), min_size=1, max_size=3, unique_by=lambda row: row[0]),
    st.lists(st.sampled_from([*ACTS]), min_size=1, max_size=6),
)


@contextmanager
def a_scene(folder: Path) -> Iterator[Scene]:
    """A bus that each case has a copy of."""
    yield make_scene(folder / "scene")


def planted_traps(case: tuple[list[tuple[str, Kind]], list[str]], scene: Scene) -> None:
    """With any thing in any place: a clear line, no harm, no loss."""
    rows, acts = case
    # A trap in a folder that is a trap itself would be planted in the victim.
    folders = {name for name, _ in rows}
    rows = [(name, kind) for name, kind in rows if name.rpartition("/")[0] not in folders]
    rows = [(name, kind) for name, kind in rows if not (name == "BLOB" and "blobs" in folders)]
    copy = scene.copy(scene.root.parent / "copy")
    try:
        with Bus.open(copy.bus) as bus, ExitStack() as stack:
            for number, (name, kind) in enumerate(rows):
                stack.enter_context(planted(name, kind, copy, f"aside-{number}"))
            for what in acts:
                if what != "import" or all(kind is not huge for _, kind in rows):
                    attempt(what, partial(ACTS[what], bus))
        check_unharmed(copy)
    finally:
        shutil.rmtree(copy.root, ignore_errors=True)
