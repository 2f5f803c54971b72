"""The attributes that say how git merges files at a commit, read as data: no driver is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ..sealed import is_plain_file
from ..view_folders import own_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..sealed import SealedRepository

    #: The files `.gitattributes` of a commit: each path with the id of its content.
    AttributeFiles = frozenset[tuple[str, str]]

#: The values of the attribute `merge` for which git runs no program, and that of our driver.
_BUILT_IN = {"unspecified", "set", "unset", "text", "binary", "union"}
OURS = "ackbus"

_NAME = ".gitattributes"


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
    files_of = _attribute_files(repository, wanted)
    asked: dict[AttributeFiles, set[str]] = {}
    for commit, files in wanted.items():
        asked.setdefault(files_of[commit], set()).update(files)
    answers = {
        attributes: _ask(repository, attributes, files) for attributes, files in asked.items()
    }
    found = {}
    for commit, files in wanted.items():
        answer = answers[files_of[commit]]
        found[commit] = MergedBy(
            frozenset(answer.ours.intersection(files)), frozenset(answer.others.intersection(files))
        )
    return found


def _attribute_files(
    repository: SealedRepository, wanted: Mapping[str, Collection[str]]
) -> dict[str, AttributeFiles]:
    """Return the files of attributes that may say something of files of a commit."""
    asked = [
        (commit, folder + _NAME)
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


def _ask(
    repository: SealedRepository, attributes: AttributeFiles, files: Collection[str]
) -> MergedBy:
    """Return what files of attributes say of files, with what the repository says for itself."""
    own = os.path.join(repository.common_dir, "info", "attributes")
    is_own = is_plain_file(own)
    if not (attributes or is_own) or not files:
        return MergedBy()
    with TemporaryDirectory(prefix="attributes-", dir=own_folder()) as folder:
        git = repository.with_variables(
            {"GIT_INDEX_FILE": os.path.join(folder, "index"), "GIT_ATTR_NOSYSTEM": "1"}
        )
        entries = (f"100644 {id}\t{path}\0" for path, id in sorted(attributes))
        git.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(entries)))
        setting = f"core.attributesFile={own if is_own else os.devnull}"
        raw = git.run(
            *("-c", setting, "check-attr", "--cached", "-z", "--stdin", "merge", "filter"),
            stdin=b"".join(os.fsencode(file) + b"\0" for file in sorted(files)),
        )
    fields = iter(os.fsdecode(raw).split("\0")[:-1])
    values: dict[str, dict[str, str]] = {}
    for file, name, value in zip(fields, fields, fields, strict=True):
        values.setdefault(file, {})[name] = value
    ours = {file for file, value in values.items() if value["merge"] == OURS}
    others = {
        file
        for file, value in values.items()
        if file not in ours
        and (value["merge"] not in _BUILT_IN or value["filter"] not in ("unspecified", "unset"))
    }
    return MergedBy(frozenset(ours), frozenset(others))
