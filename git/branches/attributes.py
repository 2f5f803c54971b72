"""The attributes that say how git merges files at a commit, read as data: no driver is run.

`git merge` goes by the files `.gitattributes` of the commit that is checked out. Git merges without
a work tree too, and then goes by those in the folder where it runs.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ..repository import CommandFailed
from ..view_folders import own_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ..repository import Repository
    from ..sealed import SealedRepository

    #: The files `.gitattributes` of a commit: each path with the id of its content.
    AttributeFiles = frozenset[tuple[str, str]]

#: The values of the attribute `merge` for which git runs no program, and that of our driver.
_BUILT_IN = {"unspecified", "set", "unset", "text", "binary", "union"}
OURS = "ackbus"

#: The name of the files that say it, for what is below their folder.
ATTRIBUTES = ".gitattributes"

#: The errors of a path at which no file can be, though a tree may have it.
_NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


@dataclass(frozen=True, slots=True)
class MergedBy:
    """The files of a commit that git does not merge by itself.

    Attributes:
        ours: those that the driver of this project merges.
        others: those with another driver, or with a filter.
    """

    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


def merged_by(
    repository: SealedRepository, wanted: Mapping[str, Collection[str]]
) -> dict[str, MergedBy]:
    """Return how files are merged at commits.

    Args:
        repository: where the commits are.
        wanted: the files of each commit.

    Raises:
        CommandFailed: an object is missing.
    """
    files_of = attribute_files(repository, wanted)
    asked: dict[AttributeFiles, set[str]] = {}
    for commit, files in wanted.items():
        asked.setdefault(files_of[commit], set()).update(files)
    merging = repository.for_merging()
    answers = {attributes: _ask(merging, attributes, files) for attributes, files in asked.items()}
    found = {}
    for commit, files in wanted.items():
        answer = answers[files_of[commit]]
        found[commit] = MergedBy(
            frozenset(answer.ours.intersection(files)), frozenset(answer.others.intersection(files))
        )
    return found


def attribute_files(
    repository: SealedRepository, wanted: Mapping[str, Collection[str]]
) -> dict[str, AttributeFiles]:
    """Return the files of attributes that may say something of files of each commit."""
    asked = [
        (commit, folder + ATTRIBUTES)
        for commit, files in wanted.items()
        for folder in sorted({folder for file in files for folder in _folders(file)})
    ]
    stdin = b"".join(os.fsencode(f"{commit}:{path}") + b"\0" for commit, path in asked)
    raw = repository.run("cat-file", "--batch-check=%(objectname) %(objecttype)", "-z", stdin=stdin)
    found: dict[str, set[tuple[str, str]]] = {commit: set() for commit in wanted}
    # A missing one is named in a line of its own, with whatever bytes its path has.
    lines = iter(raw.splitlines(keepends=True))
    for commit, path in asked:
        missing = os.fsencode(f"{commit}:{path}") + b" missing\n"
        line = next(lines)
        while missing.startswith(line) and line != missing:
            line += next(lines)
        id, _, kind = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
        if line != missing and kind == "blob":
            found[commit].add((path, id))
    return {commit: frozenset(files) for commit, files in found.items()}


def _folders(file: str) -> Iterable[str]:
    """Yield the folders above a file, each with a slash behind it; the root is empty."""
    folder = file
    while folder:
        folder = folder.rpartition("/")[0]
        yield f"{folder}/" if folder else ""


def all_attribute_files(repository: Repository, commit: str) -> AttributeFiles:
    """Return all files of attributes that a commit has."""
    raw = repository.run("ls-tree", "-r", "-z", "--full-tree", commit)
    name = ATTRIBUTES.encode()
    found = set()
    for entry in raw.split(b"\0"):
        if entry.endswith(name):
            about, _, path = entry.partition(b"\t")
            mode, _, id = about.split(b" ")
            if mode.startswith(b"100") and path.rpartition(b"/")[2] == name:
                found.add((os.fsdecode(path), id.decode()))
    return frozenset(found)


@contextmanager
def with_attributes(repository: Repository, files: AttributeFiles) -> Iterator[Repository]:
    """Give a repository with a work tree that has files of attributes alone, for the block."""
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
    """Write a file of a tree, whose path anybody may have chosen, where git would take it."""
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


def _ask(merging: Repository, attributes: AttributeFiles, files: Collection[str]) -> MergedBy:
    """Return what files of attributes say of files, with what counts for the whole repository."""
    if not files:
        return MergedBy()
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
    return MergedBy(frozenset(ours), frozenset(others))
