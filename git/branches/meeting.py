"""The pairs of commits whose changes meet: all others merge, so that only these need to be tried.

Changes meet where both sides change a file, or one changes what lies under a folder or file that
the other adds or removes: git moves new files with a renamed folder. A pair that has not exactly
one merge base always counts: git first merges the bases, or refuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ..repository import CommandFailed, Repository

#: Two ids of commits.
Pair = tuple[str, str]

#: Two ids of trees, and what changed from the first to the second.
Trees = tuple[bytes, bytes]

_FOLDER = b"040000"


@dataclass(frozen=True, slots=True)
class Change:
    """The change between two trees.

    Attributes:
        files: the changed files.
        paths: these, and the folders that came or went.
        above: these, and all folders above them.
    """

    files: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    above: set[str] = field(default_factory=set)


def meeting(repository: Repository, pairs: Sequence[Pair]) -> list[frozenset[str] | None]:
    """Return for each pair of whole ids whose changes meet the files that both change, else None.

    They are not known, and none, where a pair has not exactly one merge base.

    Raises:
        CommandFailed: a commit or tree is missing.
    """
    history = MergeBases(repository, sorted({id for pair in pairs for id in pair}))
    sides: list[tuple[Trees, Trees] | None] = []
    for a, b in pairs:
        bases = history.bases(a, b)
        if len(bases) == 1:
            base = history.trees[bases[0]]
            sides.append(((base, history.trees[a]), (base, history.trees[b])))
        else:
            sides.append(None)
    changes = _changes(repository, {each for both in sides if both for each in both})
    return [_shared(*(changes[side] for side in both)) if both else frozenset() for both in sides]


def changed_files(repository: Repository, pairs: Sequence[Pair]) -> list[set[str]]:
    """Return for each pair the files that the second changes since it left the first.

    Where they have several merge bases, one of them counts; where none, nothing does.

    Raises:
        CommandFailed: a commit or tree is missing.
    """
    if not pairs:
        return []
    history = MergeBases(repository, sorted({id for pair in pairs for id in pair}))
    sides = []
    for target, head in pairs:
        bases = history.bases(target, head)
        sides.append((history.trees[bases[0]], history.trees[head]) if bases else None)
    changes = _changes(repository, {each for each in sides if each})
    return [changes[side].files if side else set() for side in sides]


class MergeBases:
    """The commits that lead to some heads, back to where all of them meet."""

    def __init__(self, repository: Repository, heads: Sequence[str]) -> None:
        self.trees: dict[str, bytes] = {}
        self._heads = {head: 1 << place for place, head in enumerate(heads)}
        self._bases: dict[int, list[str]] = {}
        reaching: dict[str, list[int]] = {}
        for id, tree, *parents in _commits(repository, heads):
            self.trees[id] = tree.encode()
            ways = {*reaching.pop(id, ()), self._heads.get(id, 0)} - {0}
            self._note_bases(id, ways)
            for parent in parents:
                reaching.setdefault(parent, []).append(_union(ways))

    def bases(self, a: str, b: str) -> list[str]:
        """Return the merge bases of two heads."""
        return [a] if a == b else self._bases.get(self._heads[a] | self._heads[b], [])

    def _note_bases(self, id: str, ways: set[int]) -> None:
        """Note of which heads a commit is a merge base: of two that no child of it has in common.

        Args:
            ways: the heads that each child leads to, and the commit itself, as bits.
        """
        for one, other in combinations(ways, 2):
            for a in _bits(one & ~other):
                for b in _bits(other & ~one):
                    both = a | b
                    if not any(way & both == both for way in ways):
                        found = self._bases.setdefault(both, [])
                        if id not in found:
                            found.append(id)


def _commits(repository: Repository, heads: Sequence[str]) -> Iterator[list[str]]:
    """Yield the id, the tree and the parents of each commit, children first."""
    try:
        # No commit behind this base of all heads is a base of two of them.
        end = repository.run("merge-base", "--octopus", *heads).decode().split()
    except CommandFailed:
        end = []  # they have no common base
    given = [*heads, *(f"^{id}^@" for id in end)]
    said = repository.run(
        *("rev-list", "--topo-order", "--no-commit-header", "--format=%H %T %P", "--stdin"),
        stdin="\n".join(given).encode(),
    )
    return map(str.split, said.decode().splitlines())


def _changes(repository: Repository, wanted: Iterable[Trees]) -> dict[Trees, Change]:
    """Return what changed between trees."""
    asked = b"".join(b"%s %s\n" % trees for trees in wanted)
    if not asked:
        return {}
    found: dict[Trees, Change] = {}
    said = repository.run(
        *("diff-tree", "--stdin", "-r", "-t", "-z", "--no-renames", "--ignore-submodules=none"),
        stdin=asked,
    )
    words = iter(said.split(b"\0"))
    change = Change()
    for word in words:
        *begun, entry = word.split(b"\n")  # of trees that differ in nothing there is no more
        for line in begun:
            before, after = line.split()
            change = found[before, after] = Change()
        if entry:
            path = os.fsdecode(next(words))
            modes = entry[1:7], entry[8:14]
            if _FOLDER not in modes:
                change.files.add(path)
            if modes != (_FOLDER, _FOLDER):
                change.paths.add(path)
    for change in found.values():
        change.above.update(change.paths)
        for path in change.paths:
            while (path := path.rpartition("/")[0]) and path not in change.above:
                change.above.add(path)
    return found


def _shared(one: Change, other: Change) -> frozenset[str] | None:
    if one.paths.isdisjoint(other.above) and one.above.isdisjoint(other.paths):
        return None
    return frozenset(one.files & other.files)


def _union(ways: Iterable[int]) -> int:
    union = 0
    for way in ways:
        union |= way
    return union


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest
        number ^= lowest
