"""A forecast of conflicts: the pairs of commits that git could not merge by itself.

Git merges them in a sealed view, by the attributes of the first commit. No driver and no filter is
run, be it of the repository or of the user: what these would make of a file is not known. What git
writes goes into a folder of its own, which is removed: the repository stays as it is.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from tempfile import TemporaryDirectory

from ...schema.errors import InvalidInput
from ..drivers import merge
from ..limited import current_look, join_look
from ..repository import CommandFailed, GitFailed, OutOfTime, Repository
from ..sealed import own_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..sealed import SealedRepository

    #: The files `.gitattributes` of a commit: each path with the id of its content.
    AttributeFiles = frozenset[tuple[str, str]]

# The attributes that say how git merges files at a commit, read as data: no driver is run.
#
# `git merge` goes by the files `.gitattributes` of the commit that is checked out. Git merges
# without a work tree too, and then goes by those in the folder where it runs.

#: The values of the attribute `merge` for which git runs no program, and that of our driver.
_BUILT_IN = {"unspecified", "set", "unset", "text", "binary", "union"}
OURS = "ackbus"

#: The name of the files that say it, for what is below their folder.
ATTRIBUTES = ".gitattributes"

#: The errors of a path at which no file can be, though a tree may have it.
_NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


@dataclass(frozen=True, slots=True)
class MergeHandling:
    """The files of a commit that git does not merge by itself.

    Attributes:
        ours: those that the driver of this project merges.
        others: those with another driver, or with a filter.
    """

    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


def merged_by(
    repository: SealedRepository, files_at: Mapping[str, Collection[str]]
) -> dict[str, MergeHandling]:
    """Return how files are merged at commits.

    Args:
        repository: where the commits are.
        files_at: the files of each commit.

    Raises:
        CommandFailed: an object is missing.
    """
    files_of = attribute_files(repository, files_at)
    asked: dict[AttributeFiles, set[str]] = {}
    for commit, files in files_at.items():
        asked.setdefault(files_of[commit], set()).update(files)
    merging = repository.for_merging()
    answers = {attributes: _ask(merging, attributes, files) for attributes, files in asked.items()}
    merged_by_commit = {}
    for commit, files in files_at.items():
        answer = answers[files_of[commit]]
        merged_by_commit[commit] = MergeHandling(
            frozenset(answer.ours.intersection(files)), frozenset(answer.others.intersection(files))
        )
    return merged_by_commit


def attribute_files(
    repository: SealedRepository, files_at: Mapping[str, Collection[str]]
) -> dict[str, AttributeFiles]:
    """Return for each commit the `.gitattributes` files that may apply to its files."""
    asked = [
        (commit, folder + ATTRIBUTES)
        for commit, files in files_at.items()
        for folder in sorted({folder for file in files for folder in _folders(file)})
    ]
    stdin = b"".join(os.fsencode(f"{commit}:{path}") + b"\0" for commit, path in asked)
    raw = repository.run("cat-file", "--batch-check=%(objectname) %(objecttype)", "-z", stdin=stdin)
    blobs_at: dict[str, set[tuple[str, str]]] = {commit: set() for commit in files_at}
    # Git prints the path of a missing object as it is, and the path may have newlines.
    lines = iter(raw.splitlines(keepends=True))
    for commit, path in asked:
        missing = os.fsencode(f"{commit}:{path}") + b" missing\n"
        line = next(lines)
        while missing.startswith(line) and line != missing:
            line += next(lines)
        id, _, kind = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
        if line != missing and kind == "blob":
            blobs_at[commit].add((path, id))
    return {commit: frozenset(files) for commit, files in blobs_at.items()}


def _folders(file: str) -> Iterable[str]:
    """Yield the folders above a file, each with a slash behind it; the root is empty."""
    folder = file
    while folder:
        folder = folder.rpartition("/")[0]
        yield f"{folder}/" if folder else ""


def all_attribute_files(repository: Repository, commit: str) -> AttributeFiles:
    """Return all `.gitattributes` files of a commit."""
    raw = repository.run("ls-tree", "-r", "-z", "--full-tree", commit)
    name = ATTRIBUTES.encode()
    blobs = set()
    for entry in raw.split(b"\0"):
        if entry.endswith(name):
            about, _, path = entry.partition(b"\t")
            mode, _, id = about.split(b" ")
            if mode.startswith(b"100") and path.rpartition(b"/")[2] == name:
                blobs.add((os.fsdecode(path), id.decode()))
    return frozenset(blobs)


@contextmanager
def with_attributes(repository: Repository, files: AttributeFiles) -> Iterator[Repository]:
    """Yield a repository whose work tree has only `.gitattributes` files."""
    with TemporaryDirectory(prefix="attributes-", dir=own_folder()) as folder:
        ordered = sorted(files)
        contents = _contents(repository, [id for _, id in ordered])
        for (path, _), content in zip(ordered, contents, strict=True):
            _write(folder, path, content)
        index = {"GIT_INDEX_FILE": os.path.join(folder, ".index")}  # for drivers that run git
        yield repository.with_work_tree(folder).with_variables(index)


def _contents(repository: Repository, ids: Sequence[str]) -> Iterator[bytes]:
    """Yield the contents of blobs, in order.

    Raises:
        CommandFailed: one is missing.
    """
    if not ids:
        return
    stdin = "".join(f"{id}\n" for id in ids).encode()
    raw = repository.run("cat-file", "--batch=%(objectsize)", stdin=stdin)
    begin = 0
    for id in ids:
        end = raw.index(b"\n", begin)
        if not raw[begin:end].isdigit():
            raise CommandFailed("cat-file", f"fatal: the object {id} is missing".encode())
        begin = end + 1 + int(raw[begin:end])
        yield raw[end + 1 : begin]
        begin += 1


def _write(folder: str, path: str, content: bytes) -> None:
    """Write a file of a tree where git reads it; the path is untrusted."""
    *above, name = path.split("/")
    if any(part.lower() in ("", ".", "..", ".git") for part in above):
        return
    try:
        os.makedirs(os.path.join(folder, *above), exist_ok=True)
        with open(os.path.join(folder, *above, name), "xb") as file:
            file.write(content)
    except OSError as error:  # a file where the tree has a folder too, or a name that is too long
        if error.errno not in _NO_PLACE:
            raise


def _ask(merging: Repository, attributes: AttributeFiles, files: Collection[str]) -> MergeHandling:
    """Return how attributes merge files; those of the whole repository count too."""
    if not files:
        return MergeHandling()
    with TemporaryDirectory(prefix="attributes-", dir=own_folder()) as folder:
        git = merging.with_variables({"GIT_INDEX_FILE": os.path.join(folder, "index")})
        entries = (f"100644 {id}\t{path}\0" for path, id in sorted(attributes))
        git.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(entries)))
        raw = git.run(
            *("check-attr", "--cached", "-z", "--stdin", "merge", "filter"),
            stdin=b"".join(os.fsencode(file) + b"\0" for file in sorted(files)),
        )
    default = os.fsdecode(merging.run("config", "--get", "merge.default", accepted=(0, 1)))
    built_in = _BUILT_IN if default.strip() in ("", *_BUILT_IN) else _BUILT_IN - {"unspecified"}
    fields = iter(os.fsdecode(raw).split("\0")[:-1])
    values: dict[str, dict[str, str]] = {}
    for file, name, value in zip(fields, fields, fields, strict=True):
        values.setdefault(file, {})[name] = value
    ours = {file for file, value in values.items() if value["merge"] == OURS}
    others = {
        file
        for file, value in values.items()
        if file not in ours
        and (value["merge"] not in built_in or value["filter"] not in ("unspecified", "unset"))
    }
    return MergeHandling(frozenset(ours), frozenset(others))


# The pairs of commits whose changes meet: all others merge, so that only these need to be tried.
#
# Changes meet where both sides change a file, or one changes what lies under a folder or file
# that the other adds or removes: git moves new files with a renamed folder. A pair that has not
# exactly one merge base always counts: git first merges the bases, or refuses.

#: Two ids of commits.
Pair = tuple[str, str]

#: Two ids of trees, and what changed from the first to the second.
Trees = tuple[bytes, bytes]

_FOLDER = b"040000"


@dataclass(frozen=True, slots=True)
class TreeDifference:
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

    The files are unknown, and none, where a pair has not exactly one merge base.

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
    changes = _changes(repository, {trees for both in sides if both for trees in both})
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
    changes = _changes(repository, {trees for trees in sides if trees})
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
        """Record a commit as a merge base of two heads if no single child leads to both.

        Args:
            ways: the heads that each child leads to, and the commit itself, as bits.
        """
        for first_ways, second_ways in combinations(ways, 2):
            for a in _bits(first_ways & ~second_ways):
                for b in _bits(second_ways & ~first_ways):
                    both = a | b
                    if not any(way & both == both for way in ways):
                        bases = self._bases.setdefault(both, [])
                        if id not in bases:
                            bases.append(id)


def _commits(repository: Repository, heads: Sequence[str]) -> Iterator[list[str]]:
    """Yield the id, the tree and the parents of each commit, children first."""
    try:
        # No commit behind this base of all heads is a base of two of them.
        end = repository.run("merge-base", "--octopus", *heads).decode().split()
    except CommandFailed:
        end = []  # they have no common base
    revisions = [*heads, *(f"^{id}^@" for id in end)]
    output = repository.run(
        *("rev-list", "--topo-order", "--no-commit-header", "--format=%H %T %P", "--stdin"),
        stdin="\n".join(revisions).encode(),
    )
    return map(str.split, output.decode().splitlines())


def _changes(
    repository: Repository, pairs_of_trees: Iterable[Trees]
) -> dict[Trees, TreeDifference]:
    """Return what changed between trees."""
    asked = b"".join(b"%s %s\n" % trees for trees in pairs_of_trees)
    if not asked:
        return {}
    change_of: dict[Trees, TreeDifference] = {}
    output = repository.run(
        *("diff-tree", "--stdin", "-r", "-t", "-z", "--no-renames", "--ignore-submodules=none"),
        stdin=asked,
    )
    words = iter(output.split(b"\0"))
    change = TreeDifference()
    for word in words:
        *begun, entry = word.split(b"\n")  # of trees that differ in nothing there is no more
        for line in begun:
            before, after = line.split()
            change = change_of[before, after] = TreeDifference()
        if entry:
            path = os.fsdecode(next(words))
            modes = entry[1:7], entry[8:14]
            if _FOLDER not in modes:
                change.files.add(path)
            if modes != (_FOLDER, _FOLDER):
                change.paths.add(path)
    for change in change_of.values():
        change.above.update(change.paths)
        for path in change.paths:
            while (path := path.rpartition("/")[0]) and path not in change.above:
                change.above.add(path)
    return change_of


def _shared(ours: TreeDifference, theirs: TreeDifference) -> frozenset[str] | None:
    if ours.paths.isdisjoint(theirs.above) and ours.above.isdisjoint(theirs.paths):
        return None
    return frozenset(ours.files & theirs.files)


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


#: How many processes of git merge at a time, and how many pairs each takes at most: its memory
#: grows with every merge.
_PROCESSES, _BATCH = min(4, os.cpu_count() or 1), 100

#: How long a batch may take, in seconds.
_LIMIT_S = 600.0

# Its messages are no part of the form: advice about submodules stands between them.
_MERGE = ("merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages")
UNRELATED = "refusing to merge unrelated histories"

#: How git ends at a few conflicts of renamed folders, also when it merges in a work tree.
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV)

#: The reason why it is not known whether a file merges.
BY_OTHERS = "a driver or a filter merges it, and is not run where one looks"

#: How large a file of messages is merged here at most, in bytes.
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class UnknownForecast:
    """A pair of commits of which it is not known whether it would merge.

    Attributes:
        files: the files that decide it; empty where no file does.
        reason: why it is not known.
    """

    files: tuple[str, ...]
    reason: str


#: The forecast for a pair: the files that conflict, None where it would merge, or not known. No
#: files: the commits have no common ancestor, or git fails at renamed folders.
Forecast = tuple[str, ...] | UnknownForecast | None


def conflicts(repository: SealedRepository, pairs: Sequence[Pair]) -> list[Forecast]:
    """Return the forecast for each pair.

    Args:
        repository: where the commits are.
        pairs: whole ids: git ends alike for a name that it doesn't know, and for a conflict.

    Raises:
        GitFailed: git is too old.
    """
    if not pairs:
        return []
    try:
        return _forecasts(repository, pairs)
    except (CommandFailed, OutOfTime) as error:  # an object is missing, of one of them
        if len(pairs) == 1:
            return [
                UnknownForecast(
                    (), error.reason if isinstance(error, CommandFailed) else str(error)
                )
            ]
        half = len(pairs) // 2
        return [*conflicts(repository, pairs[:half]), *conflicts(repository, pairs[half:])]


def _forecasts(repository: SealedRepository, pairs: Sequence[Pair]) -> list[Forecast]:
    met = {
        pair: shared
        for pair, shared in zip(pairs, meeting(repository, pairs), strict=True)
        if shared is not None
    }
    merged = _merge_all(repository, met)
    files_at: dict[str, set[str]] = {}
    for pair, shared in met.items():
        for commit in pair:
            files_at.setdefault(commit, set()).update(shared, merged[pair] or ())
    by = merged_by(repository, files_at) if files_at else {}
    return [
        _forecast_for(repository, pair, met[pair], merged[pair], by) if pair in met else None
        for pair in pairs
    ]


def _forecast_for(
    repository: SealedRepository,
    pair: Pair,
    shared: frozenset[str],
    files: tuple[str, ...] | None,
    by: dict[str, MergeHandling],
) -> Forecast:
    """Return the forecast for a pair, by the files that conflict where git merges all as text."""
    a, b = (by[commit] for commit in pair)
    foreign = (a.others | b.others) & {*shared, *(files or ())}
    if foreign:
        return UnknownForecast(
            tuple(sorted(foreign)),
            BY_OTHERS,
        )
    if not files:
        return files
    conflicting = tuple(
        file for file in files if file not in a.ours & b.ours or not _unites(repository, pair, file)
    )
    return conflicting or None


def _unites(repository: SealedRepository, pair: Pair, file: str) -> bool:
    """Whether our driver merges a file of messages of both commits."""
    sides = []
    try:
        for commit in pair:
            name = f"{commit}:{file}"
            if int(repository.run("cat-file", "-s", name)) > _MAX_BYTES:
                return False
            sides.append(repository.run("cat-file", "blob", name).splitlines(keepends=True))
        return not merge(*sides).conflicts
    except (CommandFailed, InvalidInput):  # one side has none, or a line is no message
        return False


def _merge_all(
    repository: SealedRepository, met: Mapping[Pair, frozenset[str]]
) -> dict[Pair, tuple[str, ...] | None]:
    """Merge pairs, given with the files that both change; pairs with equal attributes together."""
    files_at: dict[str, set[str]] = {}
    for pair, shared in met.items():
        files_at.setdefault(pair[0], {ATTRIBUTES}).update(shared)
    files_of = attribute_files(repository, files_at)
    alike: dict[AttributeFiles, list[Pair]] = {}
    for pair in met:
        alike.setdefault(files_of[pair[0]], []).append(pair)
    merging = repository.for_merging()
    with ExitStack() as stack:
        aside = TemporaryDirectory(prefix="forecast-", dir=own_folder())
        git = merging.with_variables(objects_aside(repository, stack.enter_context(aside)))
        jobs = [
            (stack.enter_context(with_attributes(git, files)), batch)
            for files, pairs in alike.items()
            for batch in _batches(pairs)
        ]
        processes = ThreadPoolExecutor(
            _PROCESSES, initializer=join_look, initargs=(current_look(),)
        )
        merges = stack.enter_context(processes).map(lambda job: _merge(*job), jobs)
        results = [files for batch in merges for files in batch]
    return dict(zip((pair for _, batch in jobs for pair in batch), results, strict=True))


def _batches(pairs: list[Pair]) -> list[list[Pair]]:
    size = max(1, min(_BATCH, -(-len(pairs) // _PROCESSES)))
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


def objects_aside(repository: Repository, folder: str) -> dict[str, str | None]:
    """Return the environment in which git reads all objects, and writes new ones to a folder."""
    own = repository.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
    return {
        "GIT_OBJECT_DIRECTORY": folder,
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(os.fsdecode(own[:-1])),
    }


def _quoted(path: str) -> str:
    """Return a path as git reads it in a list of paths."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _merge(repository: Repository, pairs: Sequence[Pair]) -> list[tuple[str, ...] | None]:
    """Merge pairs in one process; where it fails, each half in one, down to the pair at fault."""
    try:
        asked = "".join(f"{a} {b}\n" for a, b in pairs)
        output = repository.run(*_MERGE, stdin=asked.encode(), limit_s=_LIMIT_S)
        return list(_results(output, pairs))
    except CommandFailed as error:
        if "unknown option" in error.reason:
            raise GitFailed("a forecast needs git 2.39 or later: update git") from error
        if len(pairs) > 1:
            half = len(pairs) // 2
            return [
                files for part in (pairs[:half], pairs[half:]) for files in _merge(repository, part)
            ]
        if error.reason != UNRELATED and error.code not in CRASHES:
            raise
        return [()]


def _results(output: bytes, pairs: Sequence[Pair]) -> Iterator[tuple[str, ...] | None]:
    """Parse git's output: yield the conflicting files of each merge, None for a clean one.

    For a merge git prints 1 for clean, the tree, the conflicting files, and an empty word.
    """
    words = iter(output.split(b"\0"))
    for pair in pairs:
        status, _ = next(words), next(words)
        files = list(iter(words.__next__, b""))
        names = sorted(
            {plain_name(file.decode("utf-8", "backslashreplace"), pair) for file in files}
        )
        yield None if status == b"1" else tuple(names)


def plain_name(file: str, pair: Pair) -> str:
    """Return the name of a file without what git adds where a folder of the same name is."""
    return re.sub(f"~({'|'.join(pair)})(_[0-9]+)?$", "", file)
