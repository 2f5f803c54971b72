"""Git that looks prints no more than is taken: a few KiB of objects may stand for many GB."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import ackbus.git.repository
from ackbus.git import bus_files, limited
from ackbus.git.branches.repositories import text_of
from ackbus.git.bus_files import MessageFilters, traffic
from ackbus.git.limited import LOOK_BOUNDS, lines_of
from ackbus.git.repository import GitFailed, OutOfTime
from ackbus.git.sealed import sealed_around
from ackbus.git.trees.removal import Removal
from ackbus.git.trees.tree_list import LinkedTree
from ackbus.git.trees.tree_state import read_state
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.children import run_child
from ackbus.tasks.roles.job_tree import Author, commit_leftovers

from ..cli.git import Git

pytestmark = pytest.mark.skipif(
    os.name != "posix" or not hasattr(os, "memfd_create"), reason="Linux"
)


def test_program_that_prints_for_ever_is_ended_by_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LOOK_BOUNDS, "RLIMIT_FSIZE", 1 << 20)
    ended = run_child(["yes"], limit_s=60, bounds=LOOK_BOUNDS)
    assert ended is not None
    assert (ended.is_too_much, ended.out) == (True, b"")


def test_diff_that_is_too_long_is_told_of(
    main: Git, trees: WorkTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LOOK_BOUNDS, "RLIMIT_FSIZE", 1 << 20)
    base = main.head
    main.commit("large", text=f"{'a' * 999}\n" * 3000)
    with pytest.raises(GitFailed, match="prints is more than is taken of a look"):
        text_of(sealed_around(str(main.path)), base, main.head)
    main.commit("small")
    assert "+new" in text_of(sealed_around(str(main.path)), f"{main.head}~", main.head)


def test_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "_LINE_BYTES", 1000)
    ours, theirs = os.pipe()
    os.write(theirs, b"short\n" + b"x" * 1001)
    try:
        found = lines_of(ours, 60, 60)
        assert next(found) == b"short\n"
        with pytest.raises(OverflowError, match="a line has more than"):
            next(found)
    finally:
        os.close(ours)
        os.close(theirs)


def test_commit_with_more_messages_than_are_held_is_named(
    main: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{{"id":"m-{0}","ts":"2026-01-01T00:00:00.000Z","type":"t","from":"a"}}\n'
    main.commit(".worker-state/bus.jsonl", text=line.format(1))
    monkeypatch.setattr(bus_files, "_MOST_BYTES", 1000)
    assert [len(each.messages) for each in traffic(str(main.path), filters=MessageFilters())] == [1]
    main.commit(".worker-state/bus.jsonl", text="".join(map(line.format, range(20))))
    with pytest.raises(GitFailed, match="too many to show; name a range without it"):
        list(traffic(str(main.path), filters=MessageFilters()))
    assert len(list(traffic(str(main.path), "HEAD~", filters=MessageFilters()))) == 1


TASK = SimpleNamespace(task="t", attempt=1, base=None, branch="w/t")

#: What reads the files of a tree.
TREE_ACTS: dict[str, Callable[[WorkTrees, LinkedTree], object]] = {
    "state": lambda trees, tree: read_state(tree),
    "remove": lambda trees, tree: Removal(trees).remove("t", "w/t"),
    "leftovers": lambda trees, tree: commit_leftovers(tree, TASK, "", Author("a", "a@b")),  # type: ignore[arg-type],
}


@pytest.mark.parametrize("act", TREE_ACTS)
def test_pipe_in_a_tree_ends_what_acts_there(
    main: Git, trees: WorkTrees, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that waited for it for ever went on renewing its leases."""
    monkeypatch.setattr(ackbus.git.repository, "_LONGEST_S", 1.0)
    tree = trees.make(NewTree("t", "w/t", main.head))
    os.mkfifo(Path(tree.path, ".gitignore"))
    with pytest.raises(OutOfTime, match="a pipe in the place of a file"):
        TREE_ACTS[act](trees, tree)
